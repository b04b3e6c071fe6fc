"""A BANG C kernel that a device can launch: a source, an entry, options, and the types of its parameters.

Enters: a path, the entry's name, arguments of a launch. Leaves: the program for a machine, and the arguments
as the words that the entry takes: a Python float becomes what the parameter is, a struct
(`bytes`, or a NumPy record) as many words as it has, or its place in DRAM where an entry has too many.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.processor.isa.formats import BY_NAME
from trilobite.processor.lang.bang.source import Options, kernel_module
from trilobite.processor.lang.codegen.compile import KernelProgram, compile_module
from trilobite.processor.lang.ir import Argument, Function, KernelModule
from trilobite.processor.lang.source import KernelSource
from trilobite.processor.machine import Machine


@dataclass(frozen=True, eq=False)
class BangProgram(KernelProgram):
    """A program that knows what its entries take: name and type of every word."""

    parameters: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    linkage: Mapping[str, str] = field(default_factory=dict)  # the symbol of an entry in the host's part


def compile_bang(
    path: str | Path, machine: Machine, options: Options | None = None, eager: bool = False
) -> BangProgram:
    """Every entry of a source, with its parameters. `eager` waits for blocking operations at once."""
    chosen = options or Options()
    module = kernel_module(path, machine, chosen)
    program = compile_module(module, machine, chosen.level, eager=eager or chosen.contracts)
    known = {field.name: getattr(program, field.name) for field in fields(program)}
    signatures = {
        entry.name: tuple((arg.name, arg.type.name) for arg in _own(entry, module))
        for entry in module.entries
    }
    return BangProgram(**known, parameters=signatures, linkage=module.linkage)


def _own(entry: Function, module: KernelModule) -> list[Argument]:
    """The parameters of the source: the last may be where the program's variables are."""
    return entry.params[:-1] if module.device_data else entry.params


_TYPEDEFS = {
    "int8_t": "signed char", "uint8_t": "unsigned char", "int16_t": "short", "uint16_t": "unsigned short",
    "int32_t": "int", "uint32_t": "unsigned int", "int64_t": "long", "uint64_t": "unsigned long",
    "size_t": "unsigned long", "ptrdiff_t": "long",
}  # fmt: skip


def _plain(name: str) -> str:
    """The name of an instance with the types behind its typedefs, out of its namespaces: `a::k<int64_t>` is
    `k<long>`."""
    words = re.sub(r"\w+", lambda found: _TYPEDEFS.get(found[0], found[0]), re.sub(r"\b\w+\s*::", "", name))
    words = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", words)  # clang writes 2UL where a parameter is a size
    return re.sub(r"\s*([<>,*&])\s*", r"\1", words)


def _is_named(name: str, wanted: str) -> bool:
    """Whether an instance may be called so: by its name alone, or without the last parameters."""
    own = re.sub(r"^.*>::", "", name)  # a class's function by its own name
    return wanted in (own, own.partition("<")[0]) or (
        wanted.endswith(">") and name.startswith(wanted[:-1] + ",")
    )


class BangKernel(KernelSource):
    """One entry of a source; `name` may be left out if there is only one."""

    def __init__(self, path: str | Path, name: str = "", options: Options | None = None) -> None:
        self.path, self.name, self.options = Path(path), name, options or Options()
        self._programs: dict[str, BangProgram] = {}
        self._is_eager = False
        self._checked: BangKernel | None = None
        self._device: Any = None
        self._far: list[Any] = []  # structs in DRAM, until the next launch

    def chosen_for(
        self, device: Any, args: Sequence[Any], dim: tuple[int, int, int], task: str
    ) -> KernelSource:
        self._device = device
        return self

    def checked(self, machine: Machine) -> BangKernel:
        """The same source, waiting for blocking operations at once: a wait put off would cover for a
        `__sync` that the author forgot. One whose variables live on between launches stays what it is."""
        if self._is_eager or self.options.contracts:  # it waits at once as it is
            return self
        if self._checked is None:
            self._checked = BangKernel(self.path, self.name, self.options)
            self._checked._is_eager = True
        return self if self._checked.program(machine).device_data else self._checked

    def program(self, machine: Machine) -> BangProgram:
        if machine.name not in self._programs:
            made = compile_bang(self.path, machine, replace(self.options, entry=self.name), self._is_eager)
            self._choose(made)
            self._programs[machine.name] = made
        return self._programs[machine.name]

    def _choose(self, program: BangProgram) -> None:
        names = sorted(program.parameters)
        wanted = _plain(self.name)
        same = [n for n in names if _plain(n) == wanted] or [n for n in names if _is_named(_plain(n), wanted)]
        if self.name and len(same) == 1:
            self.name = same[0]
        if not self.name and len(names) == 1:
            self.name = names[0]
        if self.name not in program.parameters:
            what = f"no kernel {self.name!r}" if self.name else "several kernels"
            raise ArgumentError(
                f"{self.path.name} has {what}",
                expected="one of " + ", ".join(names),
                remedy="name one of them",
            )  # fmt: skip

    def words(self, args: Sequence[Any]) -> list[int]:
        """Called behind `program`, which found the parameters."""
        program = next(iter(self._programs.values()))
        parameters = program.parameters[self.name]
        self._far, given = [], list(args)
        places = [kind for _, kind in parameters]
        if len(places) == len(given):
            for place, value in enumerate(given):
                if places[place] == "ptr.gdram" and isinstance(value, bytes | np.void):
                    content = value if isinstance(value, bytes) else value.tobytes()
                    given[place] = self._device.array(np.frombuffer(content, np.uint8))
                    self._far.append(given[place])
        return argument_words(self.name, parameters, given)


def argument_words(name: str, parameters: Sequence[tuple[str, str]], args: Sequence[Any]) -> list[int]:
    """Arguments of a launch as words, checked against what the entry takes."""
    words: list[int] = []
    for value in args:
        if isinstance(value, bytes | np.void):
            words += _struct(value if isinstance(value, bytes) else value.tobytes())
        else:
            place = len(words)
            words.append(_word(value, parameters[place][1] if place < len(parameters) else "i64"))
    if len(words) != len(parameters):
        shown = ", ".join(f"{kind} {label}" for label, kind in parameters)
        raise ArgumentError(
            f"{name} takes {len(parameters)} words, {len(words)} were given", expected=shown or "no argument",
            remedy="give one argument a parameter: an array for a pointer (--arg random:f32:8x4), else a"
            " number; a struct as bytes",
        )  # fmt: skip
    return words


def _struct(content: bytes) -> list[int]:
    padded = content + bytes(-len(content) % 8)
    return [int.from_bytes(padded[at : at + 8], "little") for at in range(0, len(padded), 8)]


def _word(value: Any, kind: str) -> int:
    from trilobite.processor.device import argument_word

    fmt = BY_NAME.get(kind)
    plain = isinstance(value, float | int) and not isinstance(value, np.generic)
    if plain and fmt is not None and fmt.kind == "float":
        return int.from_bytes(np.array([value]).astype(fmt.dtype).tobytes(), "little")
    return argument_word(int(value) if plain and isinstance(value, float) and value.is_integer() else value)
