"""The walk over the tiles of a nest as one flat loop, with stages that run steps apart.

Enters: the loops' order and trip counts, operands with their residence, and one function per stage. Leaves:
kernel IR: a loop over steps in which each stage, guarded by whether its step exists, stands at its own tile.
Every stage keeps counters of its own, which carry from the innermost loop outwards, so that no division is
needed. With `waits` every step ends in a wait for all queues: the machine orders nothing by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trilobite.compiler.targets.dlp.contraction.mapping import Residence
from trilobite.compiler.targets.dlp.contraction.scalars import Int, Scalars
from trilobite.processor.lang.ir import Variable


@dataclass(frozen=True)
class Point:
    """Where a stage stands: the number of its tile along each dim, and the phase of each residence."""

    index: Mapping[str, Int]
    phase: Mapping[str, Int]

    def slot(self, s: Scalars, name: str, residence: Residence, count: Mapping[str, int]) -> Int:
        """The place of an operand's tile."""
        found = self.phase.get(name, 0)
        for dim in residence.inside:
            found = s.add(s.mul(found, count[dim]), self.index[dim])
        return found

    def is_first(self, s: Scalars, dims: Sequence[str]) -> Int:
        """Whether the dims are at their first tile."""
        return s.compare("eq", s.total(self.index[d] for d in dims), 0) if dims else 1

    def is_last(self, s: Scalars, dims: Sequence[str], trips: Mapping[str, Int]) -> Int:
        if not dims:
            return 1
        left = s.total(s.sub(s.sub(trips[d], 1), self.index[d]) for d in dims)
        return s.compare("eq", left, 0)


@dataclass
class Stage:
    """`delay` steps behind the first stage."""

    name: str
    delay: int
    body: Callable[[Point], None]
    counters: dict[str, Variable] = field(default_factory=dict)
    phases: dict[str, Variable] = field(default_factory=dict)


class Walk:
    """`order` are the loops with more than one tile; `trips` may be known only to the run."""

    def __init__(
        self, s: Scalars, order: Sequence[str], trips: Mapping[str, Int], residences: Mapping[str, Residence],
        levels: Sequence[str], waits: bool,
    ) -> None:  # fmt: skip
        self.s, self.order, self.trips, self.waits = s, list(order), trips, waits
        self.residences = residences
        self.levels = list(levels)  # all loops, also those that run once: what residences count levels in

    def emit(self, stages: Sequence[Stage]) -> None:
        s = self.s
        steps = s.product(self.trips[d] for d in self.order)
        if isinstance(steps, int) and steps == 1:
            self._once(stages)
            return
        for stage in stages:
            stage.counters = {d: s.variable(f"{stage.name}.{d}", 0) for d in self.order}
            stage.phases = {
                name: s.variable(f"{stage.name}.{name}", 0)
                for name, r in self.residences.items()
                if r.phases > 1
            }
        last = max(stage.delay for stage in stages)
        s.loop(
            s.select(s.compare("gt", steps, 0), s.add(steps, last), 0), lambda t: self._step(stages, t, steps)
        )

    def _once(self, stages: Sequence[Stage]) -> None:
        """A single tile: the stages one after the other."""
        point = Point(dict.fromkeys(self.levels, 0), {})
        for stage in sorted(stages, key=lambda stage: stage.delay):
            stage.body(point)
            if self.waits:
                self.s.builder.sync()

    def _step(self, stages: Sequence[Stage], t: Int, steps: Int) -> None:
        s = self.s
        single = len({stage.delay for stage in stages}) == 1
        for stage in stages:
            inside = self._exists(stage, t, steps, max(x.delay for x in stages))
            s.when(inside, lambda stage=stage: self._stand(stage), stage.name)  # type: ignore[misc]
            if single and self.waits:
                s.builder.sync()
        if self.waits and not single:
            s.builder.sync()

    def _exists(self, stage: Stage, t: Int, steps: Int, last: int) -> Int:
        """0 <= t - delay < steps, as far as the loop does not say so already."""
        s = self.s
        begun = s.compare("ge", t, stage.delay) if stage.delay else 1
        if stage.delay == last:
            return begun
        going = s.compare("lt", t, s.add(steps, stage.delay))
        return going if begun == 1 else s.mul(begun, going)

    def _stand(self, stage: Stage) -> None:
        b = self.s.builder
        index: dict[str, Int] = dict.fromkeys(self.levels, 0)
        index.update({d: b.get(v) for d, v in stage.counters.items()})
        phase: dict[str, Int] = {name: b.get(v) for name, v in stage.phases.items()}
        stage.body(Point(index, phase))
        self._advance(stage, index, phase)

    def _advance(self, stage: Stage, index: Mapping[str, Int], phase: Mapping[str, Int]) -> None:
        """The next tile: counters carry outwards; a residence changes phase when its loops have run."""
        s = self.s
        carry: Int = 1
        for level in range(len(self.levels), -1, -1):
            for name, r in self.residences.items():
                if r.level == level and r.phases > 1:
                    moved = s.add(phase[name], carry)
                    around = s.compare("ge", moved, r.phases)
                    s.assign(stage.phases[name], s.select(around, 0, moved))
            if level and self.levels[level - 1] in self.order:
                dim = self.levels[level - 1]
                moved = s.add(index[dim], carry)
                around = s.compare("ge", moved, self.trips[dim])
                s.assign(stage.counters[dim], s.select(around, 0, moved))
                carry = around
