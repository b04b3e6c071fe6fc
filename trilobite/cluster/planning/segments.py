"""Segments of a pipeline: what a stage runs together, for each micro-batch or once, and in which order.

`stages.py` makes them, `staged.py` runs them, `pipelined.py` runs them on paper.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from trilobite.cluster.schedules import plan as schedule
from trilobite.ir.graph import Equation, Graph, Var

EVERYWHERE = -1  # every stage has it, or computes it for itself


class Meeting(NamedTuple):
    """Where micro-batches meet: their values become one, in the order of the micro-batches."""

    value: Var
    out: Var
    op: str  # of a sum; "gather" puts them one behind the other along `axis`
    axis: int = 0


class Cut(NamedTuple):
    """A micro-batch's part of a value that all have: where it begins for each; or `first`, which has all of
    it, and the others zeros.
    """

    value: Var
    out: Var
    begins: tuple[tuple[int, ...], ...] = ()


@dataclass
class Segment:
    """Equations that a stage runs together: for each micro-batch at a position, or once at a level."""

    stage: int
    phase: int
    order: int  # position, or level: how many stages its operands have passed in this phase
    micro: bool
    equations: list[Equation] = field(default_factory=list)
    reads: list[Var] = field(default_factory=list)
    gives: list[Var] = field(default_factory=list)
    graph: Graph = field(default_factory=lambda: Graph([], [], []))

    @property
    def key(self) -> tuple[int, bool, int]:
        """The order in which a stage runs segments."""
        return self.phase, self.micro, self.order


@dataclass
class Staging:
    """A graph cut into segments. `goes` says to which other stages a value is sent from its home."""

    graph: Graph
    stages: int
    segments: list[Segment]
    meetings: dict[Var, Meeting]  # by what they make
    cuts: dict[Var, Cut]
    home: dict[Var, int]
    varies: set[Var]
    phase: dict[Var, int]
    goes: dict[Var, list[int]]

    def of(self, stage: int) -> list[Segment]:
        return sorted((s for s in self.segments if s.stage == stage), key=lambda s: s.key)

    def turns(self, stage: int, phase: int, micros: int) -> Iterator[tuple[Segment, int]]:
        """What a stage runs in a phase, in order: segments with the number of the micro-batch, -1 for those
        that run once.
        """
        mine, last = [s for s in self.of(stage) if s.phase == phase], 2 * self.stages - 1
        yield from ((s, -1) for s in mine if not s.micro)
        at = {s.order: s for s in mine if s.micro}
        for task in schedule("1f1b", self.stages, 1, micros).tasks[stage] if at else ():
            order = last - stage if task.backward else stage
            if order in at:
                yield at[order], task.micro

    @property
    def phases(self) -> int:
        return 1 + max((s.phase for s in self.segments), default=0)
