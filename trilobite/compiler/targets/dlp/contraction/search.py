"""The search: every candidate by T0, the best few by T1.

Enters: a nest, a machine, cores, an epilogue. Leaves: a mapping, and what was looked at. The same problem
always ends with the same mapping: candidates have a fixed order, and the first of equals wins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

import numpy as np

from trilobite.base.errors import KernelError
from trilobite.compiler.targets.dlp.contraction.behind import Behind, Beside, Extra, Shape
from trilobite.compiler.targets.dlp.contraction.figures import Figures
from trilobite.compiler.targets.dlp.contraction.formats import is_product
from trilobite.compiler.targets.dlp.contraction.mapping import Mapping, trips
from trilobite.compiler.targets.dlp.contraction.nest import Nest
from trilobite.compiler.targets.dlp.contraction.places import (
    Drain,
    Plan,
    body_of,
    drain_of,
    is_scalar,
    is_vector,
)
from trilobite.compiler.targets.dlp.contraction.predict import (
    PRICES,
    SLOWER,
    Prediction,
    drawn,
    figures_for,
    owed,
    predicted,
)
from trilobite.compiler.targets.dlp.contraction.space import Space
from trilobite.compiler.targets.dlp.contraction.walk import SHORT
from trilobite.compiler.targets.dlp.interfaces import Epilogue
from trilobite.processor.machine import Machine

NOTHING = Beside()
FINALISTS = 8
DEPTH = 12  # candidates that are kept for each finalist: some may not fit, some only differ a little
ALMOST = 1.15  # times the best's cycles: another way to share is worth T1's opinion
MEASURED = 1 << 12  # elements of a tile by which an epilogue's scratch memory is measured
MOST_STEPS = 4096  # of a walk that T1 is asked about: beyond them T0 decides


@dataclass(frozen=True)
class Found:
    """A candidate with its predicted cycles, and those that T1 counted where it was asked."""

    mapping: Mapping
    predicted: int
    timed: int | None = None
    bound: str = ""

    @property
    def cycles(self) -> int:
        """The best that is known."""
        return self.timed or self.predicted


@dataclass(frozen=True)
class Search:
    """What one search saw: candidates of the space, those that fit, and the best, best first."""

    candidates: int
    fitting: int
    best: tuple[Found, ...]
    smallest: str = ""  # where nothing fits: what even the smallest tiles need


def shape_of(nest: Nest, epilogue: Epilogue | None) -> Shape:
    """What the cost model must know of the epilogue."""
    item = nest.out_dtype.itemsize
    if epilogue is None:
        return Shape(item, (item,), _is_made(nest) or nest.out is nest.accumulate)
    drain, parted = drain_of(nest, epilogue, False), drain_of(nest, epilogue, True)
    bodies = [_behind(nest, epilogue, d) for d in (drain, parted)]
    whole, parts = (body_of(epilogue, d)[1] for d in (drain, parted))
    operands = len(epilogue.operands)
    extras = tuple(
        Extra(
            view, n >= operands, n < operands and is_vector(view), (n in whole, n in parts), is_scalar(view)
        )
        for n, view in enumerate(nest.extras)
    )
    results = tuple(t.dtype.itemsize for t in epilogue.results)
    sums = drain.result.bits // 8 if drain is not None else nest.accumulate.bits // 8
    direct = drain is not None and epilogue.rest is None
    is_wide, is_made = nest.accumulate is not nest.out, _is_made(nest)
    narrowed = (is_wide and drain is None and not is_made, is_wide and parted is None)
    return Shape(sums, results, direct, bodies[0], bodies[1], extras, parted is None, narrowed)


def _is_made(nest: Nest) -> bool:
    """Does one instruction make the problem's own result?"""
    return nest.left.kind == "float" and is_product(nest.out, nest.left, nest.left)


def _behind(nest: Nest, epilogue: Epilogue, drain: Drain | None) -> Behind:
    """What the vector unit does where this drain does the rest."""
    body, read = body_of(epilogue, drain)
    if body is None:
        return Behind()
    spread = sum(nest.extras[n].item for n in read if is_vector(nest.extras[n]))
    scratch = body.scratch_bytes(MEASURED) / MEASURED
    return Behind(body.lane_bytes + spread, body.instructions + len(read), scratch, spread)


def search(
    nest: Nest,
    machine: Machine,
    cores: int,
    epilogue: Epilogue | None,
    timer: Callable[[Mapping], int] | None = None,
    finalists: int = FINALISTS,
    beside: Beside = NOTHING,
) -> Search:
    """The best mappings. `timer` gives T1's cycles of one; without it T0 decides. `beside`: what
    neighbours do for the group, and want of it."""
    space, shape = Space(nest, machine, cores), replace(shape_of(nest, epilogue), beside=beside)
    seen = fitting = 0
    best: list[tuple[float, int, Mapping]] = []
    figures = space.figures(shape)
    for lead in (1, 2) if machine.interlock == "ranges" else (1,):
        more, fit, kept = _scored(space, shape, figures, lead, finalists)
        seen, fitting, best = seen + more, fitting + fit, best + kept
    if not best:
        more, fitting, best = _scored(space, shape, figures, 0, finalists)
        seen += more
    best.sort(key=lambda found: found[:2])
    chosen = _varied(_legal(best, nest, machine, epilogue), finalists)
    costs = [predicted(nest, machine, shape, m) for _, _, m in chosen]
    pairs = zip(chosen, costs, strict=True)
    found = [Found(m, round(c), bound=_bound(space, shape, m, c)) for (_, _, m), c in pairs]
    if timer is not None and len(found) > 1 and max(_steps(nest, f.mapping) for f in found) <= MOST_STEPS:
        found = [replace(f, timed=timer(f.mapping)) for f in found]
        found.sort(key=lambda f: (f.timed or 0) + _left(Plan(nest, f.mapping, machine, epilogue), f, shape))
    return Search(seen, fitting, tuple(found), "" if found else _smallest(space, epilogue))


def _left(plan: Plan, found: Found, shape: Shape) -> float:
    """What others wait for because of this one, as in T0's score."""
    beside = shape.beside
    paid = drawn(plan.nest, plan.machine, shape, plan.mapping) * beside.price / PRICES if beside.price else 0
    if not (beside.later and plan.is_at_home):
        return paid
    late = owed(plan.nest, plan.machine, shape, plan.mapping, beside) if beside.dram else 0
    spent = (found.timed or 0) - late
    hides = spent if beside.dram and plan.is_still(plan.short_extras) else last_step(plan)
    return paid + max(0, beside.later - hides) + SLOWER * spent


def _smallest(space: Space, epilogue: Epilogue | None) -> str:
    tiny = Mapping((1,) * 6, lead=0)
    return Plan(space.nest, tiny, space.machine, epilogue).overflow() or "no candidate fits"


def _bound(space: Space, shape: Shape, mapping: Mapping, cycles: float) -> str:
    """What a mapping's steps wait for most: the unit, or DRAM."""
    unit = figures_for(space.nest, space.machine, shape, [mapping]).unit[0]
    return "matrix" if unit * 2 >= cycles else "io"


def _steps(nest: Nest, mapping: Mapping) -> int:
    return prod(trips(nest, mapping).values())


def _legal(
    best: list[tuple[float, int, Mapping]], nest: Nest, machine: Machine, epilogue: Epilogue | None
) -> list[tuple[float, int, Mapping]]:
    """Those whose buffers really fit: the cost model rounds a little."""
    return [found for found in best if Plan(nest, found[2], machine, epilogue).overflow() is None]


def _varied(found: list[tuple[float, int, Mapping]], count: int) -> list[tuple[float, int, Mapping]]:
    """The best, and beside it the best of each other way to share, where T0 may be wrong about sharing; then
    the next best. In order of cycles."""
    firsts: dict[tuple[str, str], tuple[float, int, Mapping]] = {}
    for entry in found:
        if entry[0] <= ALMOST * found[0][0]:
            firsts.setdefault((entry[2].shared, entry[2].across), entry)
    kept = list(firsts.values())[:count]
    kept += [entry for entry in found if entry not in kept][: count - len(kept)]
    return sorted(kept, key=lambda entry: entry[:2])


def _scored(
    space: Space, shape: Shape, figures: Figures, lead: int, keep: int
) -> tuple[int, int, list[tuple[float, int, Mapping]]]:
    """Candidates, those that fit and may be among the best, and the best with the numbers of the candidates.

    A tiling whose bound exceeds the last of the best is not looked at again.
    """
    seen = fitting = 0
    found: list[tuple[float, int, Mapping]] = []
    bound, limit = figures.bound(space.nest, shape.beside.dram > 0), np.inf
    for walking in space.walks(lead):
        made = Prediction(space.nest, space.machine, shape, figures, walking)
        rows = np.flatnonzero(made.fits & (bound <= limit))
        fitting += len(rows)
        if len(rows):
            some = Prediction(space.nest, space.machine, shape, figures.take(rows), walking)
            cycles = some.score
            for place in np.argsort(cycles, kind="stable")[:keep]:
                if cycles[place] <= limit:
                    row = int(rows[place])
                    found.append((float(cycles[place]), seen + row, space.mapping(walking, row)))
            found = _distinct(sorted(found, key=lambda entry: entry[:2]))[: DEPTH * keep]
            limit = found[-1][0] if len(found) == DEPTH * keep else limit
        seen += figures.size
    return seen, fitting, found


def _distinct(found: list[tuple[float, int, Mapping]]) -> list[tuple[float, int, Mapping]]:
    """Without mappings that only differ in levels which mean the same: they have equal costs and tiles."""
    kept: dict[tuple[object, ...], tuple[float, int, Mapping]] = {}
    for cycles, number, m in found:
        kept.setdefault((round(cycles, 6), m.tiles, m.clusters, m.cores, m.lead), (cycles, number, m))
    return list(kept.values())


@lru_cache(maxsize=512)
def figures_of_plan(plan: Plan) -> Figures:
    """What T0 knows of a plan: neighbours ask for it many times."""
    return figures_for(plan.nest, plan.machine, shape_of(plan.nest, plan.epilogue), [plan.mapping])


def last_step(plan: Plan) -> int:
    """Cycles of the units in the last step of a plan's walk, or in all of them if its copies leave DRAM alone
    from the first one on."""
    made = figures_of_plan(plan)
    each = float(made.unit[0] / made.steps[0] + made.vector[0])
    return round(each * (made.steps[0] if plan.is_quiet and made.steps[0] <= SHORT else 1))


def nothing_fits(machine: Machine, reason: str | None) -> KernelError:
    return KernelError(
        f"no tile of the problem fits {machine.name}: {reason}",
        expected="scratchpads that hold one place of each operand",
        remedy="use a machine with more",
    )
