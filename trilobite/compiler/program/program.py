"""A Program: kernels in order, the buffers they work on, and where in one arena each buffer lies.

What `plan` makes of a fused graph, and what a target runs. All sizes are numbers here: a graph with symbolic
sizes has one Program for each choice of them, all with the same kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Literal, NamedTuple

import numpy as np

from trilobite.base.locations import Location
from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Kernel
from trilobite.compiler.program.memory import Packing
from trilobite.ir.graph import Equation


@dataclass(frozen=True)
class Place:
    """Where a value begins: byte `offset` of the arena, of an input, an output or a constant."""

    space: Literal["arena", "input", "output", "constant"]
    index: int  # which input, output or constant; 0 for the arena
    offset: int = 0
    strides: tuple[int, ...] = ()  # bytes it moves by in each round of the loops around, outermost first

    def __str__(self) -> str:
        index = "" if self.space == "arena" else str(self.index)
        moves = "".join(f"+{s}*i{d}" for d, s in enumerate(self.strides) if s)
        offset = f"+{self.offset}" if self.offset or self.space == "arena" else ""
        return f"{self.space}{index}{offset}{moves}"


class Call(NamedTuple):
    """One run of a kernel."""

    kernel: Kernel
    args: tuple[Place | int, ...]
    units: int
    fusion: int  # which equation of the fused graph it belongs to
    flops: float = 0.0
    bytes: int = 0
    serial: bool = False
    whole: bool = False

    def __str__(self) -> str:
        return f"{self.kernel.name}({', '.join(map(str, self.args))}) x {self.units}"


class Value(NamedTuple):
    """A typed array in a place: what a host step reads and writes."""

    place: Place
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def size_of(v: Value) -> int:
    """Bytes."""
    return math.prod(v.shape) * int(v.dtype.itemsize)


@dataclass(frozen=True)
class HostCall:
    """An equation that its NumPy rule runs, between native parts of the program."""

    equation: Equation
    attributes: Mapping[str, Any] = field(hash=False)
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    fusion: int
    why: str

    def __str__(self) -> str:
        ins, outs = (", ".join(str(v.place) for v in vs) for vs in (self.inputs, self.outputs))
        return f"host {self.equation.primitive.name}({ins}) -> {outs}    # {self.why}"


@dataclass(frozen=True)
class Exchange:
    """A collective, begun: its operand and its result are others' until the `Arrival` of the same number, if
    other ranks take part at all.
    """

    name: str
    attributes: Mapping[str, Any] = field(hash=False)
    inputs: tuple[Value, ...]
    output: Value
    number: int  # among the equations of its graph
    location: Location
    fusion: int
    flops: float = 0.0

    @property
    def bytes(self) -> int:
        return sum(map(size_of, (*self.inputs, self.output)))

    def __str__(self) -> str:
        ins = ", ".join(str(v.place) for v in self.inputs)
        return f"begin {self.number}: {self.name} of {ins} -> {self.output.place}"


class Arrival(NamedTuple):
    """The result of a collective is there."""

    number: int
    fusion: int

    def __str__(self) -> str:
        return f"await {self.number}"


@dataclass(frozen=True)
class Loop:
    """Steps that run `count` times."""

    count: int
    steps: tuple[Step, ...]
    fusion: int

    def __str__(self) -> str:
        return f"repeat {self.count} times\n{_indented(self.steps)}"


class While(NamedTuple):
    """Rounds of test and body, as long as the byte `flag`, which the test writes, is not 0."""

    test: tuple[Step, ...]
    flag: Place
    body: tuple[Step, ...]
    fusion: int

    def __str__(self) -> str:
        return f"while {self.flag} after\n{_indented(self.test)}\n       do\n{_indented(self.body)}"


@dataclass(frozen=True)
class Branch:
    """The steps of the case that the int32 at `index` names: of the first or last if there is none such."""

    index: Place
    cases: tuple[tuple[Step, ...], ...]
    fusion: int

    def __str__(self) -> str:
        cases = "".join(f"\n       case {n}\n{_indented(steps)}" for n, steps in enumerate(self.cases))
        return f"choose by {self.index}{cases}"


Step = Call | HostCall | Exchange | Arrival | Loop | While | Branch


def _indented(steps: Iterable[Step]) -> str:
    return "\n".join(f"         {line}" for s in steps for line in str(s).splitlines())


def inner(step: Step) -> tuple[tuple[Step, ...], ...]:
    """The sequences of steps that one step holds."""
    match step:
        case Loop():
            return (step.steps,)
        case While():
            return step.test, step.body
        case Branch():
            return step.cases
        case _:
            return ()


def walk(steps: Iterable[Step]) -> Iterator[Step]:
    """All steps, those within others behind them."""
    for s in steps:
        yield s
        for within in inner(s):
            yield from walk(within)


def calls(steps: Iterable[Step]) -> Iterator[Call]:
    """The kernel runs among the steps, each once."""
    return (s for s in walk(steps) if isinstance(s, Call))


def hosts(steps: Iterable[Step]) -> Iterator[HostCall]:
    """What comes back to Python, each once."""
    return (s for s in walk(steps) if isinstance(s, HostCall))


def exchanges(steps: Iterable[Step]) -> Iterator[Exchange]:
    """What ranks exchange, each once."""
    return (s for s in walk(steps) if isinstance(s, Exchange))


def work_of(steps: Iterable[Step]) -> float:
    """Operations and bytes, these four times, of one run; of a loop with an open end, those of one round."""
    total = 0.0
    for s in steps:
        if isinstance(s, Call):
            total += s.flops + 4 * s.bytes
        rounds = s.count if isinstance(s, Loop) else 1
        total += rounds * sum(map(work_of, inner(s)))
    return total


def round_of(steps: Iterable[Step]) -> float:
    """The same of the longest round of a loop, without loops in it."""
    loops = [s for s in walk(steps) if isinstance(s, Loop | While)]
    return max((work_of(s for w in inner(loop) for s in w if not inner(s)) for loop in loops), default=0.0)


class Program(NamedTuple):
    """Steps in order. `outputs[k]` says where result k is found when they have run; a place in the output
    space means that the steps wrote it there themselves.
    """

    steps: tuple[Step, ...]
    outputs: tuple[Value, ...]
    constants: tuple[np.ndarray[Any, Any], ...]
    packing: Packing
    reuses: Mapping[int, int]  # output k takes over the memory of donated input reuses[k]
    locations: tuple[Location, ...]  # per fusion

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Each distinct kernel once, in order of first use."""
        return tuple(dict.fromkeys(s.kernel for s in calls(self.steps)))

    def __str__(self) -> str:
        p = self.packing
        head = (
            f"program: {len(self.steps)} steps, {len(self.kernels)} kernels, arena {p.peak} bytes "
            f"(lower bound {p.bound}, without sharing {p.naive})"
        )
        body = [f"  {i:4} {s}" for i, s in enumerate(self.steps)]
        tail = [f"  result {k}: {v.place}" for k, v in enumerate(self.outputs)]
        return "\n".join([head, *body, *tail])
