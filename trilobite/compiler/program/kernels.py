"""What a kernel is, and what a fusion becomes: the contract between whoever writes kernels and the plan.

Enters: a `fusion` equation (kind, region). Leaves: a `Lowering`: which kernels run on which buffers, in
order. Nothing here knows addresses: operands are named by role, sizes may be symbolic.

Every kernel is one native function `void entry(ptr args, i64 begin, i64 end, ptr scratch)`. `args` points to
8-byte words, one per argument of the step: addresses and integers. `begin..end` is a range of the step's
units: independent pieces of work that write disjoint memory and whose bits do not depend on how the range is
cut, so any number of threads gives the same result. `scratch` is memory of the calling thread alone, 64-byte
aligned, at least `Kernel.scratch` bytes, with arbitrary contents. Buffers are row-major, contiguous and
64-byte aligned, except inputs of the program, which are aligned to their element alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from trilobite.ir.graph import Equation
from trilobite.ir.types import Dim
from trilobite.native.objects import symbol


@dataclass(frozen=True)
class Kernel:
    """One native function as LLVM text. Two kernels with equal text are one kernel."""

    name: str  # for people: "dot_bias_gelu", "fused_add_mul"
    text: str = field(hash=False)  # an LLVM module that defines `entry`, declares nothing but intrinsics
    level: Literal[0, 1, 2, 3] = (
        0  # how much LLVM's middle end has to do; text that is already tight needs none
    )
    scratch: int = 0  # bytes per thread
    notes: str = ""  # the level above LLVM (a loop nest as text), for `stages`

    @cached_property
    def code(self) -> str:
        """The name of its object code."""
        return symbol(self.text, self.level)


@dataclass(frozen=True)
class Operand:
    """A buffer of the fusion by role, and where in it to start."""

    role: Literal["in", "out", "temporary", "constant"]
    index: int
    offset: Dim = 0  # bytes


class Step(NamedTuple):
    """One run of a kernel over all its units."""

    kernel: Kernel
    args: tuple[Operand | Dim, ...]
    units: Dim
    flops: float = 0.0
    serial: bool = False  # too little work to be worth waking another thread
    whole: bool = False  # every range begins with work of its own: one for each thread, and no more


Room = Dim | tuple[Dim, ...]  # bytes; as factors where their product is not affine in the symbols: n by n


@dataclass(frozen=True)
class Lowering:
    """What one fusion equation becomes."""

    steps: tuple[Step, ...]
    temporaries: tuple[Room, ...] = ()  # bytes of each; alive during this fusion only
    constants: tuple[np.ndarray[Any, Any], ...] = field(default=(), compare=False)
    in_place: tuple[tuple[int, int], ...] = ()  # (output, input) that may share one buffer
    why: str = ""  # for explain(): why it became these kernels


def inputs(n: int) -> tuple[Operand, ...]:
    return tuple(Operand("in", i) for i in range(n))


def outputs(n: int) -> tuple[Operand, ...]:
    return tuple(Operand("out", i) for i in range(n))


Lower = Callable[[Equation], Lowering]
