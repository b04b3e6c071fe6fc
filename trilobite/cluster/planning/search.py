"""The search: meshes, splits of parameters, ZeRO, pipeline stages; within the memory that there is.

Enters: a task (a step, its model and optimiser, example arguments), a number of ranks, a machine. Leaves:
plans, best first. Parameters of like layers (names that differ in numbers alone) are split alike; their
splits are found one kind at a time, the largest first. Every candidate is judged by the pass that would
split it and the costs of what comes out; nothing here knows a kind of layer. For a deep model the pass sees
one and two layers, and further ones cost what the second added.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.cluster.meshes import Mesh
from trilobite.cluster.meshes import mesh as mesh_of
from trilobite.cluster.planning.machines import Machine
from trilobite.cluster.planning.prediction import Predicted, predicted
from trilobite.cluster.sharding.function import Sharded, settled, sharded
from trilobite.cluster.sharding.partition import Place, size_text
from trilobite.cluster.sharding.placements import Placement, canonical, fits, whole
from trilobite.cluster.sharding.tensors import shard
from trilobite.framework.jit import Jitted
from trilobite.ir.types import TensorType, size_of, type_of

NAMES = ("data", "model")
FEW = 27  # splits of all parameters together that are all tried
SPARE = 1.6  # memory that must be there for a predicted byte: compiled steps took 0.6 to 1.5
SMALL = 0.005  # of all elements: parameters below stay whole
Sides = tuple[tuple[str, int], ...]


@dataclass
class Task:
    """What is to be trained: `step(*args)` reads the model and the optimiser from outside."""

    step: Callable[..., Any]
    model: Any
    optimizer: Any
    args: Sequence[Any]
    batch: Sequence[int | None] = ()  # per argument the dimension of the batch; 0 where nothing is said

    def dimension(self, i: int) -> int | None:
        return self.batch[i] if i < len(self.batch) else 0


@dataclass(frozen=True)
class Plan:
    """A way to train: a mesh of data × model ranks in each of `stages` stages, and who is split how."""

    mesh: tuple[int, int]
    splits: tuple[tuple[str, Sides], ...]  # pattern of names -> sides
    zero: int = 0
    stages: int = 1
    micro: int = 1
    alike: bool = False  # are parameters of like layers, named by one pattern, split alike?
    homes: tuple[int, ...] = ()  # of several stages, that of each parameter, in the model's order
    seconds: float = field(default=0.0, compare=False)
    memory: float = field(default=0.0, compare=False)
    parts: tuple[tuple[str, float], ...] = field(default=(), compare=False)  # where the seconds go
    fits: bool = field(default=True, compare=False)  # into the memory of a rank?
    measured: tuple[float, float] | None = field(default=None, compare=False)  # seconds and bytes

    @property
    def ranks(self) -> int:
        return self.mesh[0] * self.mesh[1] * self.stages

    def __str__(self) -> str:
        named = [f"  {pattern}: " + ", ".join(f"dimension {d} along {s}" for s, d in sides)
                 for pattern, sides in self.splits]  # fmt: skip
        zero = {0: "", 1: ", ZeRO 1", 3: ", ZeRO 3"}[self.zero]
        each = "/".join(str(self.homes.count(s)) for s in range(self.stages))
        held = f" ({each} parameters)" if self.homes else ""
        stages = (
            f", {self.stages} pipeline stages{held}, {self.micro} micro-batches" if self.stages > 1 else ""
        )
        head = f"data {self.mesh[0]} × model {self.mesh[1]}{zero}{stages}: {time_text(self.seconds)} a step, "
        where = ", ".join(f"{name} {time_text(s)}" for name, s in self.parts)
        lines = [f"{head}{size_text(self.memory)} a rank ({where})", *named]
        if self.mesh[1] > 1 and not self.splits:
            lines.append(f"  no parameter is split along model: {self.mesh[1]} ranks compute the same")
        if self.measured is not None:
            lines.insert(
                1, f"  measured: {time_text(self.measured[0])}, {size_text(self.measured[1])} a rank"
            )
        return "\n".join(lines if self.fits else [*lines, "  does not fit into the memory that there is"])

    def apply(self, task: Task) -> Sharded:
        """Split the task's tensors on this run's ranks, and its step. The step of several stages is a
        pipeline: parameters and their state are on one stage each, and micro-batches pass through them.
        """
        if self.stages > 1:
            from trilobite.cluster.planning.pipelined import applied

            return applied(self, task)
        mesh: Mesh = mesh_of(self.mesh, NAMES)
        for t, sides in tensors_of(task, self):
            shard(t, mesh, None, **dict(sides))
        dims = [task.dimension(i) for i in range(len(task.args))]
        made: Sharded = sharded(
            task.step, mesh=mesh, inputs=[None if d is None else {"data": d} for d in dims]
        )
        return made


def time_text(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def kind(name: str) -> str:
    """The name with its numbers left out: like layers have one."""
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", name)


def _fits(t: TensorType, sides: Sides, mesh: tuple[int, int]) -> bool:
    p = _placement(t, sides, mesh)
    return p is not None and fits(t, p, mesh)


def _placement(t: TensorType, sides: Sides, mesh: tuple[int, int]) -> Placement | None:
    axes: list[Any] = [None, None]
    for side, d in sides:
        if d >= t.ndim:
            return None
        axes[NAMES.index(side)] = d
    return canonical(t, Placement(tuple(axes), (1,) * t.ndim), mesh)


def tensors_of(task: Task, plan: Plan) -> Iterator[tuple[Any, Sides]]:
    """Tensors that a plan splits, or keeps whole, with their sides."""
    splits = dict(plan.splits)
    for name, p in task.model.named_parameters():
        t = type_of(p._cell.held)
        own = splits.get(kind(name) if plan.alike else name, ())
        own = own if _fits(t, own, plan.mesh) else ()
        apart = _zero_sides(t, own, plan)
        yield p, apart if plan.zero == 3 else own
        for s in task.optimizer.state[p].values():
            if type_of(s._cell.held).shape == t.shape:
                yield s, apart


def _zero_sides(t: TensorType, own: Sides, plan: Plan) -> Sides:
    """The first dimension that the data ranks can split as well."""
    if not plan.zero or plan.mesh[0] == 1:
        return own
    for d in range(t.ndim):
        sides: Sides = (*own, ("data", d))
        if _fits(t, sides, plan.mesh):
            return sides
    return own


class Judge:
    """One task, recorded once; what any plan would cost it."""

    def __init__(self, task: Task, machine: Machine) -> None:
        self.task, self.machine = task, machine
        jitted = Jitted(task.step, "reference", (), (), None)
        self.call = jitted._take_apart(task.args, {})
        self.entry = jitted._find(self.call)
        self.known: dict[Any, Predicted] = {}

    def predicted(self, plan: Plan) -> Predicted:
        key = plan.mesh, plan.splits, plan.zero
        if key not in self.known:
            self.known[key] = self._predicted(plan)
        return self.known[key]

    def _predicted(self, plan: Plan) -> Predicted:
        e = self.entry
        place = Place(plan.mesh, NAMES, (0, 0), self.machine.costs(plan.mesh), on_paper=True)
        lie = {
            t._cell: _placement(type_of(t._cell.held), s, plan.mesh) for t, s in tensors_of(self.task, plan)
        }
        ins: list[Placement] = []
        for i, v in enumerate(e.recording.graph.inputs[: len(self.call.tensors)]):
            d = self.task.dimension(i)
            p = None if d is None else _placement(v.type, (("data", d),), plan.mesh)
            ins.append(p if p is not None and fits(v.type, p, plan.mesh) else whole(2, v.type.ndim))
        first = len(e.recording.graph.outputs) - len(e.recording.writes)
        outs = {c: first + k for k, c in enumerate(e.recording.writes)}
        free: dict[int, int] = {}
        for c in e.recording.cells:
            if c not in lie and c.leaf is None and c in outs:
                free[len(ins)] = outs[c]
            ins.append(lie.get(c) or whole(2, c.held.ndim))
        ins += [whole(2, len(v.shape)) for v in e.recording.values]
        return predicted(settled(e, place, ins, free), self.machine, NAMES, e.usage)

    def judged(self, plan: Plan) -> Plan:
        """A plan that somebody has written, with what it would cost."""
        if plan.stages > 1:
            from trilobite.cluster.planning.pipelined import PaperPipeline, homes_of

            return PaperPipeline(self, plan).judged(homes_of(plan, self))
        made = _judged([self], None, plan, plan.zero, 1, 1, self.machine)
        assert made is not None  # one stage is always possible
        return made


def plans(
    build: Callable[[int], Task] | Task, ranks: int, machine: Machine | None = None, *,
    layers: int | None = None, stages: Sequence[int] | None = None, micro: int = 8, most_model: int = 64,
) -> list[Plan]:  # fmt: skip
    """Ways to train on so many ranks, the quickest that fits into memory first, then those that do not fit.
    `build` is a task, or makes one of a number of layers, if `layers` says how many there are. `stages` are
    the numbers of pipeline stages that are tried: those that divide the ranks, up to 8; for `layers`, one.
    """
    at = machine or Machine()
    if isinstance(build, Task):
        judges, depth = [Judge(build, at)], None
    else:
        if layers is None or layers < 1:
            raise ArgumentError(
                f"a task of {layers} layers", where=user_location(), expected="layers=, at least 1"
            )
        judges, depth = [Judge(build(n), at) for n in (1, 2)], layers
    found = list(_flat(judges, depth, ranks, stages or (1,), micro, most_model))
    if depth is None:
        tried = stages or _divisors(ranks, 8)
        found += _pipelines(judges[0], ranks, found, tried, micro, most_model)
        found = [p for p in found if p.stages in tried]
    return sorted(dict.fromkeys(found), key=lambda p: (not p.fits, p.seconds))


def _flat(
    judges: Sequence[Judge], depth: int | None, ranks: int, stages: Sequence[int], micro: int, most_model: int
) -> Iterator[Plan]:
    """Plans of one stage; for a number of layers also of several, which are counted."""
    sides = _divisors(ranks, most_model)
    chosen = _chosen(judges[0], ranks, sides, alike=depth is not None)
    for model in sides:
        for plan in _candidates(judges[0], (ranks // model, model), chosen, alike=depth is not None):
            for zero in (0, 1, 3) if ranks > model else (0,):
                for n in stages if depth is not None else (1,):
                    made = _judged(judges, depth, plan, zero, n, micro, judges[0].machine)
                    if made is not None:
                        yield made


def _pipelines(
    judge: Judge, ranks: int, flat: Sequence[Plan], stages: Sequence[int], micro: int, most_model: int
) -> Iterator[Plan]:
    """Plans of several stages, each with its best cut; within a stage, what was best without them."""
    from trilobite.cluster.planning.pipelined import Cuts, best_cut

    cuts = Cuts(judge, SMALL)
    for n in stages:
        if n < 2 or ranks % n or n > len(cuts.weights):
            continue
        for model in _divisors(ranks // n, most_model):
            like = [p for p in flat if p.mesh[1] == model and not p.zero]
            splits = min(like, key=lambda p: p.seconds).splits
            data = ranks // n // model
            for zero in (0, 1, 3) if data > 1 else (0,):
                yield from best_cut(judge, cuts, Plan((data, model), splits, zero, n), micro)


def _candidates(
    judge: Judge, mesh: tuple[int, int], chosen: tuple[tuple[str, Sides], ...], alike: bool
) -> list[Plan]:
    """All splits of a model of few large parameters; else none, and those that were chosen."""
    bare = Plan(mesh, (), alike=alike)
    if mesh[1] == 1:
        return [bare]
    kinds = _large(judge, alike)
    rows = [[(), *((("model", d),) for d in range(t.ndim) if _fits(t, (("model", d),), mesh))]
            for t in kinds.values()]  # fmt: skip
    if math.prod(map(len, rows)) > FEW:
        return [bare, replace(bare, splits=chosen)] if chosen else [bare]
    every = [dict(zip(kinds, row, strict=True)) for row in itertools.product(*rows)]
    return [replace(bare, splits=tuple(sorted((k, v) for k, v in one.items() if v))) for one in every]


def _large(judge: Judge, alike: bool) -> dict[str, TensorType]:
    """Parameters that are worth a thought, by kind or by name."""
    kinds: dict[str, TensorType] = {}
    for name, p in judge.task.model.named_parameters():
        kinds.setdefault(kind(name) if alike else name, type_of(p._cell.held))
    total = sum(_size(t) for t in kinds.values())
    return {k: t for k, t in kinds.items() if _size(t) > SMALL * total}


def _divisors(n: int, most: int) -> list[int]:
    return [k for k in range(1, min(n, most) + 1) if n % k == 0]


def _chosen(judge: Judge, ranks: int, sides: Sequence[int], alike: bool) -> tuple[tuple[str, Sides], ...]:
    """Which dimension of each kind of parameter is best split along "model", found one kind after another on
    the shortest side that there is, in the order of the model, and once more: a row layer pays only once the
    column layer before it is split. Small ones stay whole.
    """
    short = [m for m in sides if m > 1]
    if not short:
        return ()
    mesh = ranks // short[0], short[0]
    kinds = _large(judge, alike)
    best = Plan(mesh, (), alike=alike)
    seconds = judge.predicted(best).seconds
    for name in (*kinds, *kinds):
        ways: list[Sides] = [(("model", d),) for d in range(kinds[name].ndim)]
        fit = [w for w in ways if _fits(kinds[name], w, mesh)]
        tried = [replace(best, splits=_with(best.splits, name, w)) for w in fit]
        found = min(tried, key=lambda p: judge.predicted(p).seconds, default=best)
        if judge.predicted(found).seconds <= seconds:  # the same time, and less memory
            best, seconds = found, judge.predicted(found).seconds
    return best.splits


def _size(t: TensorType) -> float:
    return float(size_of(t.shape))


def _with(splits: Sequence[tuple[str, Sides]], name: str, sides: Sides) -> tuple[tuple[str, Sides], ...]:
    return tuple(sorted({**dict(splits), name: sides}.items()))


def _judged(
    judges: Sequence[Judge], depth: int | None, plan: Plan, zero: int, stages: int, micro: int,
    machine: Machine,
) -> Plan | None:  # fmt: skip
    """Stages take their part of the layers and of the ranks along "data", who then have more of the batch."""
    data, model = plan.mesh
    if data % stages or (depth is None and stages > 1) or (depth is not None and stages > depth):
        return None
    used = replace(plan, zero=zero)
    cost = judges[0].predicted(used)
    if depth is not None:
        cost = cost.grown(judges[1].predicted(used), depth - 1)
    bubble = (micro + stages - 1) / micro if stages > 1 else 1.0
    work, inner = cost.work * bubble, cost.along["model"] * bubble
    outer = cost.along["data"] / stages
    outer += 2 * micro * machine.node_latency if stages > 1 else 0.0  # messages between stages begin
    # A stage has its part of the layers, whose parameters fewer data ranks share.
    state = cost.state / stages * (stages if zero else 1)
    kept = (cost.peak - cost.state) * (min(stages, micro) / micro if stages > 1 else 1.0)
    parts = (("computing", work), ("along data", outer), ("along model", inner))
    return replace(
        used,
        mesh=(data // stages, model),
        stages=stages,
        micro=micro if stages > 1 else 1,
        seconds=work + inner + outer,
        memory=state + kept,
        parts=parts,
        fits=SPARE * (state + kept) <= machine.memory,
    )
