"""What memory a compiled function is planned to need.

Enters: an `Executable`, and numbers for its symbolic sizes. Leaves: a `MemoryReport`: per program the arena
with its lower bound and what separate buffers would take, and apart from it weights in the form that kernels
want, constants, and what enters and leaves. Nothing is allocated or measured here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from trilobite.base.records import dataclass
from trilobite.compiler.program.program import Value
from trilobite.compiler.targets.cpu.target import Executable
from trilobite.ir.graph import Var
from trilobite.ir.types import Symbol, substitute


@dataclass(frozen=True)
class ProgramMemory:
    """Bytes of one program. `bound`: the most that is alive at one step; `naive`: a buffer for each value."""

    name: str
    peak: int
    bound: int
    naive: int
    constants: int


@dataclass(frozen=True)
class MemoryReport:
    """`packed` are weights as kernels want them, made when a weight changes and kept."""

    programs: tuple[ProgramMemory, ...]
    inputs: int
    outputs: int
    packed: int

    @property
    def peak(self) -> int:
        """The arena of every run."""
        return self.programs[-1].peak

    def __str__(self) -> str:
        lines = []
        for p in self.programs:
            above = f", {p.peak / p.bound - 1:.1%} above it" if p.bound else ""
            lines.append(
                f"{p.name}: arena {_bytes(p.peak)} (lower bound {_bytes(p.bound)}{above}; "
                f"without sharing {_bytes(p.naive)}), constants {_bytes(p.constants)}"
            )
        lines.append(f"weights in the kernels' form, kept between runs: {_bytes(self.packed)}")
        lines.append(f"arguments and weights: {_bytes(self.inputs)}; results: {_bytes(self.outputs)}")
        return "\n".join(lines)


def memory_report(executable: Executable, sizes: Mapping[Symbol, int] | None = None) -> MemoryReport:
    """Symbolic sizes that are not given are taken at their largest."""
    chosen = {s: s.upper for part in executable.parts for s in part.symbols} | dict(sizes or {})
    programs = []
    packed = outputs = 0
    for part in executable.parts:
        every = part is executable.main
        program = part.program({s: chosen[s] for s in part.symbols})
        name = "every run" if every else "when a weight has changed"
        constants = sum(c.nbytes for c in program.constants)
        p = program.packing
        programs.append(ProgramMemory(name, p.peak, p.bound, p.naive, constants))
        if every:
            outputs = sum(map(_size, program.outputs))
        else:  # a result that is an input as it came takes no memory
            packed = sum(_size(v) for v in program.outputs if v.place.space != "input")
    graph = executable.compilation.graph
    return MemoryReport(tuple(programs), _total(graph.inputs, chosen), outputs, packed)


def _size(v: Value) -> int:
    return math.prod(v.shape) * v.dtype.itemsize


def _total(values: Iterable[Var], sizes: Mapping[Symbol, int]) -> int:
    return sum(
        math.prod(int(substitute(d, sizes)) for d in v.type.shape) * v.type.dtype.itemsize for v in values
    )


def _bytes(n: int) -> str:
    return f"{n:,} bytes" if n < 1 << 20 else f"{n / (1 << 20):,.1f} MiB"
