"""Micro-batches as a side of a mesh: the walk that splits a step over ranks splits it over turns as well.

Enters: a mesh of micro-batches × data × model. Leaves: the graph of one micro-batch on one rank, with markers
where micro-batches meet: collectives whose groups begin with `TURNS` (their parts come one after another on
the same rank), slices that say where each micro-batch begins (`micros`), and values that count in the first
micro-batch alone (`first`). All micro-batches have one graph, so what depends on their number is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trilobite.cluster.sharding.conversion import TURNS, Converter, Costs, Step, groups_along
from trilobite.cluster.sharding.partition import Place
from trilobite.cluster.sharding.placements import Coordinates, Placement, ranges
from trilobite.ir.types import TensorType

MICRO = 0  # the side of the mesh


class MicroConverter(Converter):
    """Conversions where the first side is micro-batches; ranks are those of stages × data × model."""

    turns = frozenset({MICRO})

    def __init__(self, mesh: tuple[int, ...], at: Coordinates, costs: Costs, stages: int) -> None:
        super().__init__(mesh, at, costs)
        ranks = (stages, *mesh[1:])

        def groups(sides: tuple[int, ...]) -> Any:
            real = tuple(a for a in sides if a != MICRO)
            found = groups_along(ranks, real) if real else ()
            return (TURNS, *found) if MICRO in sides else found

        self.groups = groups

    def _can_scatter(self, t: TensorType, now: Placement, target: Placement, a: int) -> bool:
        return a != MICRO and super()._can_scatter(t, now, target, a)

    def _divides(self, t: TensorType, p: Placement, d: int, a: int) -> bool:
        return a != MICRO and super()._divides(t, p, d, a)

    def _sliced(self, t: TensorType, now: Placement, target: Placement, out: list[Step]) -> Placement:
        after = super()._sliced(t, now, target, out)
        if after.axes[MICRO] != now.axes[MICRO]:
            have = ranges(t.shape, now, self.mesh, self.at)  # type: ignore[arg-type]
            begins = []
            for m in range(self.mesh[MICRO]):
                want = ranges(t.shape, after, self.mesh, (m, *self.at[1:]))  # type: ignore[arg-type]
                begins.append(tuple(w.begin - h.begin for w, h in zip(want, have, strict=True)))
            last = out.pop()
            out.append(last._replace(attributes={**last.attributes, "micros": tuple(begins)}))
        return after

    def _made_partial(self, t: TensorType, now: Placement, target: Placement, out: list[Step]) -> None:
        if now.axes[MICRO] is None and target.axes[MICRO] == "sum":
            now = now.with_axis(MICRO, "sum")
            out.append(Step("slice", {"first": True}, now, (), 0.0, 0.0))
        super()._made_partial(t, now, target, out)


@dataclass(frozen=True)
class MicroPlace(Place):
    """A rank of data × model in one of `stages`, and its micro-batches, the first side of the mesh."""

    stages: int = 1

    @cached_property
    def converter(self) -> Converter:
        return MicroConverter(self.mesh, self.at, self.costs, self.stages)
