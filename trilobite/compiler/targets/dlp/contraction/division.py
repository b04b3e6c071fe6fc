"""What of a nest is a core's own: where its part of each dim begins, and how many tiles of it there are.

Enters: a plan. Leaves: numbers, or kernel IR that computes them from the number of the core.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from trilobite.compiler.targets.dlp.contraction.mapping import ceil_div
from trilobite.compiler.targets.dlp.contraction.nest import DIMS
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.scalars import Int, Scalars
from trilobite.compiler.targets.dlp.contraction.sharing import launched_clusters
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import Value

ByDim = dict[str, Int]


def division_of(builder: Builder, s: Scalars, plan: Plan) -> tuple[ByDim, ByDim, list[ByDim]]:
    """The first element of each dim that is this core's, how many tiles are, and the indices of its cluster
    and of the core in it along each dim."""
    m = plan.mapping
    starts: ByDim = dict.fromkeys(DIMS, 0)
    found: ByDim = dict(plan.count)
    if all(m.parts(d) == 1 for d in DIMS):
        return starts, found, [dict.fromkeys(DIMS, 0)] * 2
    per_cluster = plan.machine.cores_per_cluster
    task = builder.special("taskId")
    groups = (m.clusters, s.div(task, per_cluster)), (m.cores, s.rem(task, per_cluster))
    indices = [_indices(s, parts, number) for parts, number in groups]
    outer, inner = indices
    for dim in DIMS:
        if m.parts(dim) == 1:
            continue
        tiles, count = ceil_div(plan.nest.extents[dim], m.tile(dim)), plan.count[dim]
        part = s.add(s.mul(outer[dim], m.cores[DIMS.index(dim)]), inner[dim])
        first = s.mul(part, count)
        starts[dim] = s.mul(first, m.tile(dim))
        if tiles != count * m.parts(dim) and not plan.shared:
            found[dim] = s.max(s.min(s.sub(tiles, first), count), 0)
    idle = _is_idle(s, plan, groups)
    if idle != 0:
        dim = next(d for d in DIMS if m.parts(d) > 1)
        found[dim] = s.select(idle, 0, found[dim])
    return starts, found, indices


def _is_idle(s: Scalars, plan: Plan, groups: Sequence[tuple[tuple[int, ...], Int | Value]]) -> Int:
    """Is it a core that the division leaves without work?"""
    idle: Int = 0
    there = launched_clusters(plan.machine), plan.machine.cores_per_cluster
    for (parts, number), most in zip(groups, there, strict=True):
        if prod(parts) < most:
            idle = s.add(idle, s.compare("ge", number, prod(parts)))
    return idle


def _indices(s: Scalars, parts: Sequence[int], number: Int) -> ByDim:
    """Which part of each dim a cluster, or a core of one, takes."""
    found: ByDim = dict.fromkeys(DIMS, 0)
    left = number
    for dim, count in reversed(list(zip(DIMS, parts, strict=True))):
        if count > 1:
            found[dim] = s.rem(left, count)
            left = s.div(left, count)
    return found
