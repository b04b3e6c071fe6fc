"""What a kernel of this target is: one native function as LLVM text, and its form on disk.

Enters: text that an emitter wrote. Leaves: a `NativeKernel`, which a plan puts into steps; bytes of the
kernels of a program, and the same kernels from them. It compiles nothing.

A kernel is a function `void entry(ptr args, i64 begin, i64 end, ptr scratch)`. `args` points to 8-byte words,
one per argument of the step: addresses and integers. `begin..end` is a range of the step's units. `scratch`
is memory of the calling thread alone, 64-byte aligned, at least `scratch` bytes, with arbitrary contents.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, Literal

from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Kernel
from trilobite.native.objects import symbol

_HEAD = struct.Struct("<Q")  # bytes of the packed rows, behind which the packed texts lie
_QUICK = 1  # zlib's level: text shrinks to a fifth all the same


@dataclass(frozen=True)
class NativeKernel:
    """One native function as LLVM text. Two kernels with equal text are one kernel."""

    name: str  # for people: "dot_bias_gelu", "fused_add_mul"
    text: str = field(hash=False)  # an LLVM module that defines `entry`, declares nothing but intrinsics
    # How much LLVM's middle end has to do; text that is already tight needs none
    level: Literal[0, 1, 2, 3] = 0
    scratch: int = 0  # bytes per thread
    notes: str = ""  # the level above LLVM (a loop nest as text), for `stages`

    @cached_property
    def code(self) -> str:
        """The name of its object code."""
        return symbol(self.text, self.level)


def native(kernels: Iterable[Kernel]) -> list[NativeKernel]:
    """The kernels of a program that was planned for this target."""
    found = []
    for kernel in kernels:
        assert isinstance(kernel, NativeKernel), kernel
        found.append(kernel)
    return found


# -- on disk -------------------------------------------------------------------------------------------------


def pack(kernels: Iterable[Kernel]) -> bytes:
    """The kernels as bytes. Their texts lie apart: whoever finds object code by its name unpacks none."""
    mine = native(kernels)
    rows = _packed([[k.name, k.code, k.level, k.scratch, k.notes] for k in mine])
    return b"".join([_HEAD.pack(len(rows)), rows, _packed([k.text for k in mine])])


def unpack(data: bytes) -> list[KeptKernel]:
    """The kernels that were packed; raises what `zlib`, `struct` and `json` do for anything else."""
    (length,) = _HEAD.unpack_from(data)
    middle = _HEAD.size + length
    texts = _Texts(data[middle:])
    return [KeptKernel(row, texts, i) for i, row in enumerate(_unpacked(data[_HEAD.size : middle]))]


def _packed(content: Any) -> bytes:
    return zlib.compress(json.dumps(content, separators=(",", ":")).encode(), _QUICK)


def _unpacked(data: bytes) -> Any:
    return json.loads(zlib.decompress(data))


class _Texts:
    """The texts of a program's kernels, unpacked when somebody asks for one."""

    def __init__(self, packed: bytes) -> None:
        self._packed = packed

    @cached_property
    def all(self) -> list[str]:
        found: list[str] = _unpacked(self._packed)
        return found


class KeptKernel(NativeKernel):
    """A kernel as it was kept: it has its text when it is asked for it."""

    def __init__(self, row: Sequence[Any], texts: _Texts, number: int) -> None:
        name, code, level, scratch, notes = row
        facts = {"name": name, "code": code, "level": level, "scratch": scratch, "notes": notes}
        self.__dict__.update(facts, _texts=texts, _number=number)

    def __getattr__(self, name: str) -> Any:
        if name != "text":
            raise AttributeError(name)
        text = self.__dict__["text"] = self._texts.all[self._number]
        return text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NativeKernel):
            return NotImplemented
        mine, its = ((k.name, k.code, k.scratch, k.notes) for k in (self, other))
        return mine == its

    __hash__ = NativeKernel.__hash__
