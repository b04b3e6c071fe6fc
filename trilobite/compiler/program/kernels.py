"""What a fusion becomes: the contract between whoever writes kernels and the plan.

Enters: a `fusion` equation (kind, region). Leaves: a `Lowering`: which kernels run on which buffers, in
order. Nothing here knows addresses, nor what a kernel is made of: operands are named by role, sizes may be
symbolic, and a kernel is what its target says (the CPU's: `targets/cpu/kernel.py`).

A step runs its kernel over a number of units: independent pieces of work that write disjoint memory and whose
bits do not depend on how they are shared out, so any number of workers gives the same result. Buffers are
row-major, contiguous and 64-byte aligned, except inputs of the program, which are aligned to their element
alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from trilobite.base.records import dataclass
from trilobite.ir.graph import Equation
from trilobite.ir.types import Dim


class Kernel(Protocol):
    """A target's own: it writes, loads and runs it. A plan knows that equal kernels are one kernel."""

    @property
    def name(self) -> str:
        """For people: "dot_bias_gelu", "fused_add_mul"."""

    @property
    def scratch(self) -> int:
        """Bytes that every worker needs for itself while it runs this."""


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
