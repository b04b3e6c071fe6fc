"""Pipelines in plans: which parameters lie on which stage, what a step then costs, and how it is run.

Enters: a task as the judge of plans recorded it, and a plan of several stages. Leaves: the stage of every
parameter, predicted seconds and bytes, and the step that runs so. Cuts are between large parameters, in the
order in which the step first reads them: all of them are tried where there are few, else those around the cut
that balances operations. Seconds come from a run on paper of the very segments that ranks run.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trilobite.base.errors import ClusterError
from trilobite.cluster.meshes import mesh as mesh_of
from trilobite.cluster.planning.machines import Machine
from trilobite.cluster.planning.prediction import alive, nbytes, work
from trilobite.cluster.planning.segments import EVERYWHERE, Segment
from trilobite.cluster.planning.staged import (
    NAMES,
    Staged,
    StagedPlan,
    batch_sides,
    own,
    split_by_turns,
    staging_of,
)
from trilobite.cluster.schedules import plan as schedule
from trilobite.cluster.sharding.conversion import Link, groups_along, members
from trilobite.cluster.sharding.micro import MicroPlace
from trilobite.cluster.sharding.partition import Partition
from trilobite.cluster.sharding.placements import Placement, whole
from trilobite.ir.graph import Equation, Var
from trilobite.ir.types import size_of, type_of

if TYPE_CHECKING:
    from trilobite.cluster.planning.search import Judge, Plan, Task

FEW = 64  # cuts that are all tried
Homes = tuple[int, ...]  # of each parameter, its stage


# -- cuts ----------------------------------------------------------------------------------------------------


class Cuts:
    """Ways to cut a task into stages."""

    def __init__(self, judge: Judge, least: float) -> None:
        r = judge.entry.recording
        first = len(r.graph.inputs) - len(r.cells) - len(r.values)
        var = {c: r.graph.inputs[first + i] for i, c in enumerate(r.cells)}
        reads: dict[Var, list[int]] = {}
        for i, e in enumerate(r.graph.equations):
            for v in e.inputs:
                reads.setdefault(v, []).append(i)
        self.parameters = [var.get(p._cell) for _, p in judge.task.model.named_parameters()]
        here = [k for k, v in enumerate(self.parameters) if v in reads]
        self.order = sorted(here, key=lambda k: reads[self.parameters[k]][0])  # type: ignore[index]
        total = sum(size_of(v.type.shape) for v in self.parameters if v is not None)
        large = [k for k in self.order if size_of(self.parameters[k].type.shape) > least * total]  # type: ignore[union-attr]
        self.places = [self.order.index(k) for k in large][1:]  # where a stage may begin
        ends = [*self.places, len(self.order)]
        begins = [0, *self.places]
        costs = [self._cost(r.graph.equations, reads, self.parameters[k]) for k in self.order]
        self.weights = [sum(costs[a:b]) for a, b in zip(begins, ends, strict=True)]

    @staticmethod
    def _cost(equations: Sequence[Equation], reads: dict[Var, list[int]], v: Any) -> float:
        found = (equations[i] for i in dict.fromkeys(reads[v]))
        return sum(
            e.primitive.cost([x.type for x in e.inputs], [x.type for x in e.outputs], e.attributes)
            for e in found
        )

    def homes(self, cut: Sequence[int]) -> Homes:
        """The stage of every parameter when stages begin at these places; unread ones go to the last."""
        begins = [self.places[c - 1] for c in cut]
        stage = {k: sum(at >= b for b in begins) for at, k in enumerate(self.order)}
        return tuple(stage.get(k, len(cut)) for k in range(len(self.parameters)))

    def balanced(self, stages: int) -> tuple[int, ...]:
        """The cut whose heaviest stage is lightest."""
        n = len(self.weights)
        sums = [0.0, *itertools.accumulate(self.weights)]
        best = {(1, b): (sums[b], ()) for b in range(1, n + 1)}
        for s in range(2, stages + 1):
            for b in range(s, n + 1):
                best[s, b] = min(
                    (max(best[s - 1, a][0], sums[b] - sums[a]), (*best[s - 1, a][1], a))
                    for a in range(s - 1, b)
                )  # type: ignore[assignment]
        return best[stages, n][1]

    def tried(self, stages: int) -> Iterator[Homes]:
        """All cuts if they are few, else the balanced one and those one place away."""
        n = len(self.weights)
        if stages > n:
            return
        if math.comb(n - 1, stages - 1) <= FEW:
            yield from map(self.homes, itertools.combinations(range(1, n), stages - 1))
            return
        middle = self.balanced(stages)
        rows = {middle}
        for i, by in itertools.product(range(stages - 1), (-1, 1)):
            moved = (*middle[:i], middle[i] + by, *middle[i + 1 :])
            if all(a < b for a, b in itertools.pairwise((0, *moved, n))):
                rows.add(moved)
        yield from map(self.homes, sorted(rows))


# -- on paper ------------------------------------------------------------------------------------------------


class PaperPipeline:
    """One task on stages × data × model ranks, split once; what any cut of it costs."""

    def __init__(self, judge: Judge, plan: Plan) -> None:
        from trilobite.cluster.planning.search import tensors_of

        self.judge, self.plan, machine = judge, plan, judge.machine
        self.ranks = (plan.stages, *plan.mesh)
        costs = machine.costs(self.ranks)
        self.link = costs.sides[0]
        turns = Link(1e-7, machine.stream)  # micro-batches meet in memory
        costs = replace(costs, sides=(turns, *costs.sides[1:]))
        shape = (plan.micro, *plan.mesh)
        self.place = MicroPlace(shape, ("micro", *NAMES[1:]), (0, 0, 0), costs, True, plan.stages)
        r = judge.entry.recording
        lie = {t._cell: _on_stage(type_of(t._cell.held), s, shape) for t, s in tensors_of(judge.task, plan)}
        self.ins = [
            batch_sides(v.type, judge.task.dimension(i), shape)
            for i, v in enumerate(r.graph.inputs[: len(judge.call.tensors)])
        ]
        self.ins += [lie.get(c) or whole(3, c.held.ndim) for c in r.cells]
        self.ins += [whole(3, len(v.shape)) for v in r.values]
        self.made: Partition = split_by_turns(judge.entry, self.place, self.ins)

    def judged(self, homes: Homes) -> Plan:
        """The plan with this cut, its seconds and the bytes of the stage that needs most."""
        plan = replace(self.plan, homes=homes)
        found = staging_of(self.judge.entry, self.place, self.made, self._owners(homes))
        seconds, busy = self._seconds(found)
        memory = max(self._memory(found, stage) for stage in range(plan.stages))
        spent = (("computing", busy), ("waiting and messages", seconds - busy))
        from trilobite.cluster.planning.search import SPARE

        fits = SPARE * memory <= self.judge.machine.memory
        return replace(plan, seconds=seconds, memory=memory, parts=spent, fits=fits)

    def _owners(self, homes: Homes) -> list[int]:
        cells = dict(owned(self.judge.task, homes))
        r = self.judge.entry.recording
        out = [EVERYWHERE] * (len(r.graph.inputs) - len(r.cells) - len(r.values))
        out += [cells.get(c, EVERYWHERE) for c in r.cells]
        return out + [EVERYWHERE] * len(r.values)

    def _works(self, plan: StagedPlan) -> dict[int, float]:
        """Seconds of each segment, with the collectives of its stage, and with what Python does besides:
        adding up gradients, and messages, which are copied. A segment that runs for every micro-batch finds
        in the caches what was touched since it ran last, one that runs once what the whole stage left.
        """
        machine, cut, out = self.judge.machine, plan.staging, {}
        met = {m.value for m in cut.meetings.values()}
        for stage in range(cut.stages):
            mine = cut.of(stage)
            sizes = {id(s): sum(nbytes(v.type) for v in (*s.reads, *s.gives)) + alive(s.graph) for s in mine}
            for s in mine:
                footprint = sum(sizes[id(t)] for t in mine if t.micro or not s.micro)
                inner = sum(self._collective(e) for e in s.equations if members(e))
                copied = sum(3 * nbytes(v.type) for v in s.gives if v in met)
                copied += sum(3 * nbytes(v.type) * len(cut.goes.get(v, ())) for v in s.gives)
                copied += sum(2 * nbytes(v.type) for v in s.reads if cut.home[v] not in (stage, EVERYWHERE))
                besides = machine.turn + machine.value * (len(s.reads) + len(s.gives))
                besides += machine.through(copied, footprint)
                out[id(s)] = work(s.graph, machine, footprint) + inner + besides
        return out

    def _collective(self, e: Equation) -> float:
        groups = members(e)
        sides = [a for a in (1, 2) if groups_along(self.ranks, (a,)) == groups] or [1, 2]
        size = max(sum(nbytes(v.type) for v in vs) for vs in (e.inputs, e.outputs))
        return self.place.costs.collective(e.primitive.name, size, len(groups[0]), sides)

    def _seconds(self, plan: StagedPlan) -> tuple[float, float]:
        """From the first segment to the end of the last, as ranks run them, and of the busiest stage what it
        computes.
        """
        cut = plan.staging
        made = {v for s in cut.segments for v in s.gives} | set(cut.meetings)
        works = self._works(plan)
        left = [self._program(plan, stage) for stage in range(cut.stages)]
        now, busy = [0.0] * cut.stages, [0.0] * cut.stages
        ready: dict[tuple[Var, int], float] = {}
        while any(left):
            before = sum(map(len, left))
            for stage, rows in enumerate(left):
                while rows:
                    s, micro = rows[0]
                    if isinstance(s, int):  # a phase has ended: micro-batches meet
                        ready |= {(m.out, -1): now[stage] for m in cut.meetings.values()
                                  if cut.home[m.out] == stage and cut.phase[m.value] == s}  # fmt: skip
                    else:
                        needs = [(v, micro if v in cut.varies else -1) for v in _bases(plan, s)
                                 if cut.home[v] not in (stage, EVERYWHERE) and v in made]  # fmt: skip
                        if any(k not in ready for k in needs):
                            break
                        came = [ready[k] + self._message(k[0]) for k in needs]
                        took = works[id(s)]
                        now[stage], busy[stage] = max([now[stage], *came]) + took, busy[stage] + took
                        ready |= {(v, micro if v in cut.varies else -1): now[stage] for v in s.gives}
                    rows.popleft()
            assert sum(map(len, left)) < before, "stages wait for each other"
        return max(now), max(busy)

    def _program(self, plan: StagedPlan, stage: int) -> deque[Any]:
        """Segments with their micro-batches, and behind each phase its number."""
        cut, micros = plan.staging, self.plan.micro
        return deque(t for k in range(cut.phases) for t in (*cut.turns(stage, k, micros), (k, -1)))

    def _message(self, v: Var) -> float:
        return self.link.latency + nbytes(v.type) / self.link.bandwidth

    def _memory(self, plan: StagedPlan, stage: int) -> float:
        """State, what is kept from one segment to another, sums of gradients, and the most inside one."""
        cut, graph = plan.staging, plan.made.graph
        mine = cut.of(stage)
        held = sum(nbytes(v.type) for v in graph.inputs if cut.home[v] in (stage, EVERYWHERE))
        in_place = {out for out, _ in plan.usage.donated}
        held += sum(nbytes(v.type) for i, v in enumerate(graph.outputs)
                    if i not in in_place and plan.owners[i] in (stage, EVERYWHERE))  # fmt: skip
        read = {v for s in mine for v in s.reads}
        kept = sum(nbytes(v.type) for s in mine if s.micro for v in s.gives if v in read)
        come = sum(nbytes(v.type) for v in read if v in cut.varies and cut.home[v] not in (stage, EVERYWHERE))
        flight = schedule("1f1b", cut.stages, 1, self.plan.micro).kept[stage]
        once = sum(nbytes(v.type) for s in mine if not s.micro for v in s.gives if v in read)
        sums = sum(nbytes(m.out.type) for m in cut.meetings.values() if cut.home[m.out] == stage)
        inside = max((alive(s.graph) + sum(nbytes(v.type) for v in s.gives) for s in mine), default=0.0)
        return held + flight * (kept + come) + once + sums + inside


def _bases(plan: StagedPlan, s: Segment) -> list[Var]:
    cuts = plan.staging.cuts
    return [cuts[v].value if v in cuts else v for v in s.reads]


def best_cut(judge: Judge, cuts: Cuts, plan: Plan, micro: int) -> Iterator[Plan]:
    """The plan with its best cut and number of micro-batches; nothing where the batch does not divide or the
    step cannot run so.
    """
    sizes = [int(a.shape[d]) for i, a in enumerate(judge.task.args)
             if (d := judge.task.dimension(i)) is not None]  # fmt: skip
    most = max(micro, plan.stages)
    numbers = [n for k in (2, 4, 1) if (n := k * plan.stages) <= most
               and all(s % (n * plan.mesh[0]) == 0 for s in sizes)]  # fmt: skip
    found: list[Plan] = []
    for n in numbers:
        paper = PaperPipeline(judge, replace(plan, micro=n))
        try:
            found.append(
                min(map(paper.judged, cuts.tried(plan.stages)), key=lambda p: (not p.fits, p.seconds))
            )
        except ClusterError:  # a loop that needs the whole batch
            return
    yield from found


def _on_stage(t: Any, sides: Any, mesh: Sequence[int]) -> Placement:
    from trilobite.cluster.sharding.placements import canonical

    axes: list[Any] = [None, None, None]
    for side, d in sides:
        axes[NAMES.index(side)] = d
    return canonical(t, Placement(tuple(axes), (1,) * t.ndim), mesh)


# -- applied -------------------------------------------------------------------------------------------------


def owned(task: Task, homes: Homes) -> Iterator[tuple[Any, int]]:
    """The cells that stages own: parameters and the optimiser's state of their shapes."""
    for (_, p), stage in zip(task.model.named_parameters(), homes, strict=True):
        yield p._cell, stage
        for s in task.optimizer.state[p].values():
            if type_of(s._cell.held).shape == type_of(p._cell.held).shape:
                yield s._cell, stage


def homes_of(plan: Plan, judge: Judge) -> Homes:
    """The stage of every parameter: as the plan says, or by the cut that balances operations."""
    from trilobite.cluster.planning.search import SMALL

    if plan.homes:
        return plan.homes
    cuts = Cuts(judge, SMALL)
    return cuts.homes(cuts.balanced(plan.stages))


def applied(plan: Plan, task: Task) -> Staged:
    """The task's tensors on their stages, and its step as a pipeline."""
    from trilobite.cluster.planning.search import Judge, tensors_of

    mesh = mesh_of((plan.stages, *plan.mesh), NAMES)
    at = dict(owned(task, plan.homes or homes_of(plan, Judge(task, Machine()))))
    for t, sides in list(tensors_of(task, plan)):
        own(t, mesh, at[t._cell], dict(sides))
    return Staged(task.step, mesh, [task.dimension(i) for i in range(len(task.args))], plan.micro)
