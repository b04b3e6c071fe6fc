"""The walk over the tiles of a nest as one flat loop, with stages that run steps apart.

Enters: the loops' order and trip counts, operands with their residence, and one function per stage. Leaves:
kernel IR: a loop over steps in which each stage, guarded by whether its step exists, stands at its own tile.
Only the first stage counts, carrying from the innermost loop outwards, so that no division is needed; the
others stand where it stood `delay` steps before. The next tile is worked out behind the step's instructions,
while the units are busy. With `waits` every step begins with a wait for all queues: the machine orders
nothing by itself. What a routine loads for the next one stands behind its own last loads, beside the unit's
last instruction, and before the last store, which does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from trilobite.compiler.targets.dlp.contraction.mapping import Residence
from trilobite.compiler.targets.dlp.contraction.scalars import Int, Scalars
from trilobite.processor.lang.ir import Variable

SHORT = 8  # steps that are written one by one: their places are numbers, which costs code and saves time
NEAR = ("move", "matrix", "vector")  # queues whose work stays on the chip


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


@dataclass(frozen=True)
class Stage:
    """`delay` steps behind the first stage. The body of a stage that shares, `fill`, `load` and `take`, also
    does one of several pieces: their numbers follow the point."""

    name: str
    delay: int
    body: Callable[..., None]


ORIGIN = Point({}, {})


def _all(bodies: Sequence[Callable[[], None]]) -> None:
    for body in bodies:
        body()


def _with(stages: Sequence[Stage], more: Sequence[Stage]) -> list[Stage]:
    """A step's stages and copies for later routines: those stand behind its own, and before vector
    instructions, which wait for the unit."""
    at = next((i for i, stage in enumerate(stages) if stage.name == "finish"), len(stages))
    return [*stages[:at], *more, *stages[at:]]


class _Place:
    """Variables that say where a stage stands."""

    def __init__(self, s: Scalars, name: str, order: Sequence[str], phases: Sequence[str]) -> None:
        self.counters = {d: s.variable(f"{name}.{d}", 0) for d in order}
        self.phases = {p: s.variable(f"{name}.{p}", 0) for p in phases}

    def variables(self) -> list[Variable]:
        return [*self.counters.values(), *self.phases.values()]


class Walk:
    """`order` are the loops with more than one tile; `trips` may be known only to the run. With `meets` the
    cores of a cluster, or of the chip, go from step to step together: each has done what the others need."""

    def __init__(
        self, s: Scalars, order: Sequence[str], trips: Mapping[str, Int], residences: Mapping[str, Residence],
        levels: Sequence[str], waits: bool, meets: str = "", most: Mapping[str, int] | None = None,
        is_quiet: bool = False, begin: Callable[[], None] | None = None, is_still: bool = False,
    ) -> None:  # fmt: skip
        self.begin, self.all = begin, NEAR if is_still else ()
        self.near, self.is_near_first = list[Callable[[int, int, bool], None]](), False
        self.is_far = False  # do results go to DRAM?
        self.pieces = 1  # in which the first shared tiles come: cores take one while the next is loaded
        self.most, self.is_quiet = dict(most or {}), is_quiet
        self.s, self.order, self.trips, self.waits, self.meets = s, list(order), trips, waits, meets
        self.residences = residences
        self.levels = list(levels)  # all loops, also those that run once: what residences count levels in

    def emit(self, stages: Sequence[Stage], between: Stage | None = None) -> None:
        """The stages in the order in which a step's instructions stand. `between` writes copies that nobody
        here waits for; it stands before the unit's last instruction if it has no delay, else behind it."""
        s, self.between = self.s, between
        steps = s.product(self.trips[d] for d in self.order)
        if isinstance(steps, int) and steps == 1:
            self._once(stages)
            return
        if self.waits and self._is_short and max(stage.delay for stage in stages):
            self._short(stages, steps)
            return
        if self.near:  # all of it beside the last instruction
            body = partial(self._last_pieces, between)
            between = self.between = Stage("ahead", 0 if self.is_near_first else 1, body)
        last = max(stage.delay for stage in stages)
        turning = [name for name, r in self._turning().items() if name == r]
        places = [_Place(s, f"step{delay}", self.order, turning) for delay in range(last + 1)]
        self._begin()
        apart = 1 if between is not None and last else 0  # the last step, which only stores
        turns = s.select(s.compare("gt", steps, 0), s.add(steps, last - apart), 0)
        first = 2 if self.pieces > 1 and isinstance(turns, int) and turns else 0  # steps of the first tiles
        for t in range(first):
            self._step(self._in_pieces(stages, t), places, t, steps)
        s.loop(s.sub(turns, first), lambda t: self._step(stages, places, s.add(t, first), steps), "steps")
        if between is not None:  # a core without tiles, or a walk without steps apart, has not come to it
            s.when(s.compare("eq", steps, 0) if apart else 1, lambda: between.body(ORIGIN), "idle")
        if apart:
            ends = [stage for stage in stages if stage.delay == last]
            s.when(s.compare("gt", steps, 0), lambda: self._stored(ends, self._point(places[last])), "last")

    def _last_pieces(self, between: Stage | None, at: Point) -> None:
        if between is not None:
            between.body(at)
        self._give(0, 1)

    # few steps
    @property
    def _is_short(self) -> bool:
        """Are there so few steps that each is written by itself, with numbers for counters and phases? Cores
        may have fewer tiles than others only along the outermost loop."""
        if not self.most or prod(self.most[d] for d in self.order) > SHORT:
            return False
        return all(isinstance(self.trips[d], int) for d in self.order[1:])

    def _short(self, stages: Sequence[Stage], steps: Int) -> None:
        s, last, points = self.s, max(stage.delay for stage in stages), self._points()
        count, delay = len(points), next(stage.delay for stage in stages if stage.name == "compute")
        # Where DRAM takes results of two places in turn, a place is written again once its store is done.
        ends = [stage.delay for stage in stages if stage.name == "finish"]
        at_last = count - 1 + (ends[0] if ends and self.is_far and not self.is_quiet and count > 2 else delay)
        early = (delay if self.is_quiet else at_last) if self.between is not None else -1
        pieces = count + last - 1 - delay  # of what is given for other routines, one a step
        for t in range(count + last):
            here = [x for x in self._in_pieces(stages, t) if 0 <= t - x.delay < count]
            for stage in here:
                s.ahead(partial(stage.body, points[t - stage.delay]))
            give = [self._giving(t - delay, pieces)] if 0 <= t - delay < pieces else []
            if give:
                self._give(t - delay, pieces, True)
            queues = NEAR if -1 < early < t else self.all  # what comes for other routines is not waited for
            s.builder.sync(*queues)
            if any(stage.name != "store" for stage in here):
                self._meet()
            ahead = self.between if t == early else None
            for stage in _with(here, [ahead, *give] if ahead else give):
                is_here = stage in here
                truth = s.compare("gt", steps, t - stage.delay) if is_here else 1
                at = points[t - stage.delay] if is_here else ORIGIN
                s.when(truth, partial(stage.body, at), stage.name)
            if not t:
                self._begin()

    def _in_pieces(self, stages: Sequence[Stage], t: int) -> list[Stage]:
        """The stages of step t where the first shared tiles come in pieces: all but the last one are taken in
        the step that loads them."""
        found = {stage.name: stage for stage in stages}
        take = found.get("take") or found["load"]
        if self.pieces == 1 or t > 1:
            return list(stages)
        if t == 0:
            changed = replace(found["fill"], body=partial(self._filled, found["fill"], take))
        else:
            changed = replace(take, body=partial(take.body, piece=self.pieces - 1, pieces=self.pieces))
        return [changed if stage.name == changed.name else stage for stage in stages]

    def _filled(self, fill: Stage, take: Stage, at: Point) -> None:
        """A piece is taken while the next is loaded."""
        s, pieces = self.s, self.pieces
        fill.body(at, 0, pieces)
        for piece in range(1, pieces) if not s.is_ahead else ():
            bodies = [partial(x.body, at, n, pieces) for x, n in ((fill, piece), (take, piece - 1))]
            s.ahead(partial(_all, bodies))
            s.sync(*self.all)
            self._meet()
            _all(bodies)

    def _giving(self, piece: int, pieces: int) -> Stage:
        return Stage("give", 0, lambda _: self._give(piece, pieces))

    def _give(self, piece: int, pieces: int, is_ahead: bool = False) -> None:
        """A piece of what is given for other routines."""
        for give in self.near:
            give(piece, pieces, is_ahead)

    def _begin(self) -> None:
        """Copies from DRAM for later routines, where this one has none: behind its first loads."""
        if self.begin is not None:
            self.begin()

    def _points(self) -> list[Point]:
        """Where a stage stands, step by step."""
        found, index, turns = list[Point](), dict.fromkeys(self.levels, 0), self._turning()
        phases = dict.fromkeys(turns, 0)
        while len(found) < prod(self.most[d] for d in self.order):
            found.append(Point(dict(index), {name: phases[same] for name, same in turns.items()}))
            carry = True
            for level in range(len(self.levels), -1, -1):
                for name in phases:
                    if carry and self.residences[name].level == level:
                        phases[name] = (phases[name] + 1) % self.residences[name].phases
                if level and self.levels[level - 1] in self.order and carry:
                    dim = self.levels[level - 1]
                    index[dim] = (index[dim] + 1) % self.most[dim]
                    carry = index[dim] == 0
        return found

    def _stored(self, ends: Sequence[Stage], point: Point) -> None:
        """The last results, once the units have made them."""
        self.s.sync(*NEAR)
        for stage in ends:
            stage.body(point)

    def _once(self, stages: Sequence[Stage]) -> None:
        """A single tile: the stages one after the other. What cores give each other they do between the first
        stage and the one that computes; nobody waits for the last."""
        point = Point(dict.fromkeys(self.levels, 0), {})
        halves = [
            stage for t in (0, 1) for stage in self._in_pieces(stages, t) if (stage.delay == 0) == (t == 0)
        ]
        ordered = sorted(halves, key=lambda stage: (stage.delay, stage.name == "store"))
        between = self.between
        queues = self.all  # that are waited for: all, until copies for other routines begin
        for number, stage in enumerate(ordered):
            if number and self.waits:
                self.s.builder.sync(*queues)
            if number and stage.name != "store":
                self._meet()
            here = between if stage.name in ("take", "compute") else None
            if here is not None:
                queues, between = NEAR, None
            is_given = stage.name == "compute"
            if is_given and self.is_near_first:
                self._give(0, 1)
            for part in self._beside(stage, here):
                part.body(point)
            if is_given and not self.is_near_first:
                self._give(0, 1)
            if not number:
                self._begin()

    def _beside(self, stage: Stage, between: Stage | None) -> list[Stage]:
        """A stage with what is loaded for the next routine."""
        if between is None:
            return [stage]
        return [stage, between] if between.delay or stage.name == "take" else [between, stage]

    def _step(self, stages: Sequence[Stage], places: Sequence[_Place], t: Int, steps: Int) -> None:
        s, last = self.s, len(places) - 1
        if self.waits and last:  # for the step before, while this one's places are worked out
            for stage in stages:
                s.ahead(partial(stage.body, self._point(places[stage.delay])))
            s.builder.sync(*self.all)
        self._meet()
        for stage in _with(stages, [self.between] if self.between and last else []):
            if stage is self.between:
                there = s.compare("eq", t, s.add(steps, last - 2))
                s.when(there, partial(stage.body, ORIGIN), stage.name)
                continue
            truth = self._exists(stage, t, steps, last)
            s.when(truth, partial(self._body, stage, places[stage.delay]), stage.name)
            if self.waits and last == 0:
                s.builder.sync(*self.all)
        for behind, before in zip(reversed(places[1:]), reversed(places[:-1]), strict=True):
            for to, of in zip(behind.variables(), before.variables(), strict=True):
                s.assign(to, s.builder.get(of))
        self._advance(places[0])

    def _body(self, stage: Stage, place: _Place) -> None:
        stage.body(self._point(place))

    def _meet(self) -> None:
        if self.meets:
            self.s.builder.barrier(self.meets, "ipu")

    def _exists(self, stage: Stage, t: Int, steps: Int, last: int) -> Int:
        """0 <= t - delay < steps, as far as the loop does not say so already."""
        s = self.s
        begun = s.compare("ge", t, stage.delay) if stage.delay else 1
        if stage.delay == last:
            return begun
        going = s.compare("lt", t, s.add(steps, stage.delay))
        return going if begun == 1 else s.mul(begun, going)

    def _point(self, place: _Place) -> Point:
        b = self.s.builder
        index: dict[str, Int] = dict.fromkeys(self.levels, 0)
        index.update({d: b.get(v) for d, v in place.counters.items()})
        phases = {name: b.get(place.phases[same]) for name, same in self._turning().items()}
        return Point(index, phases)

    def _turning(self) -> dict[str, str]:
        """Residences with phases, each with the first of those that change at the same time."""
        firsts: dict[tuple[int, int], str] = {}
        found = {name: r for name, r in self.residences.items() if r.phases > 1}
        return {name: firsts.setdefault((r.level, r.phases), name) for name, r in found.items()}

    def _advance(self, place: _Place) -> None:
        """The next tile: counters carry outwards; a residence changes phase when its loops have run."""
        carry: Int = 1
        for level in range(len(self.levels), -1, -1):
            for name, variable in place.phases.items():
                if self.residences[name].level == level:
                    self._count(variable, carry, self.residences[name].phases)
            if level and self.levels[level - 1] in self.order:
                dim = self.levels[level - 1]
                carry = self._count(place.counters[dim], carry, self.trips[dim])

    def _count(self, variable: Variable, carry: Int, limit: Int) -> Int:
        """Counts up to a limit and begins again; whether it did."""
        s = self.s
        if limit == 2:
            now = s.builder.get(variable)
            s.assign(variable, s.flip(now, carry))
            return s.mul(now, carry)
        moved = s.add(s.builder.get(variable), carry)
        around = s.compare("ge", moved, limit)
        s.assign(variable, s.select(around, 0, moved))
        return around
