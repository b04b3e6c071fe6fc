"""Functions over whole tensors that run as a pipeline: stages × data × model ranks, micro-batch by
micro-batch.

Enters: a step as for one process, a mesh whose first side is "stage", and tensors that each lie on one stage
(`own`). Leaves: what `sharded` gives. The recorded step is split over micro-batches and ranks by the walk of
`sharding`, cut into segments (`stages.py`), and run in the order of 1F1B; a stage keeps what its later
segments and other stages need, and nothing longer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.errors import ArgumentError, ClusterError
from trilobite.base.locations import user_location
from trilobite.cluster.groups import size
from trilobite.cluster.meshes import Mesh
from trilobite.cluster.planning.prediction import nbytes
from trilobite.cluster.planning.segments import EVERYWHERE, Meeting, Segment, Staging
from trilobite.cluster.planning.stages import staged
from trilobite.cluster.sharding.conversion import Costs
from trilobite.cluster.sharding.function import Plan, Sharded, _plain, local_array, pins
from trilobite.cluster.sharding.micro import MICRO, MicroPlace
from trilobite.cluster.sharding.partition import Partition, partition
from trilobite.cluster.sharding.placements import Placement, canonical, fits, ranges, whole
from trilobite.cluster.sharding.tensors import (
    Parts,
    coordinates,
    own_part,
    parts_of,
    placement,
    put,
    stand_in,
)
from trilobite.compiler.targets.contract import Executable, Usage
from trilobite.compiler.targets.registry import executable, target_now
from trilobite.framework.delivery import forget_gradients, old_gradients
from trilobite.framework.jit import _state_lock
from trilobite.framework.recordings import Entry
from trilobite.framework.signature import Call
from trilobite.framework.tensor import Tensor
from trilobite.ir.graph import Var
from trilobite.ir.ranks import transport
from trilobite.ir.transforms.cells import Cell
from trilobite.ir.types import TensorType, type_of

NAMES = ("stage", "data", "model")
_OPS: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
Array = np.ndarray[Any, Any]


def own(t: Tensor, mesh: Mesh, stage: int, sides: Mapping[str, int | None]) -> None:
    """A tensor lies on one stage from now on, split there as `sides` say."""
    kind = type_of(t._cell.held)
    p = placement(kind, mesh, sides)
    parts = Parts(mesh, kind, p, t._cell.value, (NAMES[0], stage))
    put(t._cell, Parts(mesh, kind, p, own_part(parts, t._cell.value), parts.home))


class Ready(NamedTuple):
    """A segment as a rank runs it."""

    run: Executable
    kept: tuple[bool, ...]  # per result: does a later segment of this stage read it?
    last: tuple[Var, ...]  # what no later segment reads


@dataclass
class StagedPlan(Plan):
    """A recording, split over micro-batches, ranks and stages, as this rank runs it."""

    staging: Staging
    owners: tuple[int, ...]  # of outputs
    ready: dict[Any, Ready] = field(default_factory=dict)  # segments of this rank, compiled


def split_by_turns(e: Entry, place: MicroPlace, ins: Sequence[Placement]) -> Partition:
    """A recording, split over micro-batches and the ranks of a stage."""
    return partition(e.recording.graph, place, ins, _pinned(e, ins))


def staging_of(e: Entry, place: MicroPlace, made: Partition, owners: Sequence[int]) -> StagedPlan:
    """The same, cut into stages, which own its inputs."""
    outputs = output_owners(e, owners)
    varying = [p.axes[MICRO] is not None for p in made.ins]
    cut = staged(made.graph, varying, owners, outputs, place.stages)
    return StagedPlan(made, Mesh(place.mesh, NAMES), e.usage, cut, tuple(outputs))


def _pinned(e: Entry, ins: Sequence[Placement]) -> list[Placement | None]:
    """Results are whole on all ranks; all else lies as its input or its parameter does."""
    rows = zip(pins(e, ins, {}), e.recording.graph.output_types, strict=True)
    found = [whole(3, t.ndim) if p is None else p for p, t in rows]
    return [p.with_axis(MICRO, None) for p in found]


def output_owners(e: Entry, owners: Sequence[int]) -> list[int]:
    """The stage that each output belongs to: that of the tensor that it replaces, or of its parameter."""
    r = e.recording
    first = len(r.graph.inputs) - len(r.cells) - len(r.values)
    at = {c: owners[first + i] for i, c in enumerate(r.cells)}
    leaf_at = {c.leaf: at[c] for c in r.cells if c.leaf is not None}
    out = [EVERYWHERE] * (sum(s is None for s in e.out_static) + len(e.arg_writes))
    for where, there in e.grads:
        if there:
            out.append(EVERYWHERE if isinstance(where, int) else leaf_at.get(where, EVERYWHERE))
    return [*out, *(at.get(c, EVERYWHERE) for c in r.writes)]


def batch_sides(t: TensorType, d: int | None, mesh: Sequence[int]) -> Placement:
    """An argument whose dimension d is the batch, over micro-batches and data; they must divide it."""
    if d is None:
        return whole(3, t.ndim)
    p = canonical(t, Placement((d, d, None), (1,) * t.ndim), mesh)
    parts = mesh[0] * mesh[1]
    if not fits(t, p, mesh) or int(t.shape[d]) % parts:
        raise ArgumentError(
            f"a batch {t} in {mesh[0]} micro-batches on {mesh[1]} data ranks",
            where=user_location(),
            expected=f"a multiple of {parts} along dimension {d}",
        )
    return p


class Staged(Sharded):
    """A function whose tensors lie on the stages of a mesh. Call it like the original, on all ranks."""

    def __init__(
        self, fn: Callable[..., Any], mesh: Mesh, batch: Sequence[int | None], micros: int,
        target: object = "cpu", costs: Costs | None = None,
    ) -> None:  # fmt: skip
        size()  # the processes are there
        super().__init__(fn, mesh, (), target, costs or Costs(), None)
        self._batch, self.micros = tuple(batch), micros
        at = 0, *coordinates(mesh)[1:]
        shape = micros, *mesh.shape[1:]
        self._place = MicroPlace(shape, ("micro", *NAMES[1:]), at, self._place.costs, True, mesh.shape[0])
        self.most = 0.0  # bytes that the last run kept between segments at the worst moment

    def _planned(self, e: Entry, call: Call, given: Mapping[Cell, Parts]) -> StagedPlan:
        if given:
            raise ClusterError("a split tensor as an argument of a pipelined step", where=user_location(),
                               expected="whole arguments, the same on all ranks")  # fmt: skip
        ins, owners = self._lie(e, call)
        key = id(e), tuple(ins), tuple(owners)
        if key not in self._plans:
            made = split_by_turns(e, self._place, ins)  # type: ignore[arg-type]
            self._plans[key] = e, staging_of(e, self._place, made, owners)  # type: ignore[arg-type]
        return self._plans[key][1]  # type: ignore[return-value]

    def _lie(self, e: Entry, call: Call) -> tuple[list[Placement], list[int]]:
        """Where inputs lie, and the stages that own them."""
        ins = [
            batch_sides(
                type_of(t._read()), self._batch[i] if i < len(self._batch) else None, self._place.mesh
            )
            for i, t in enumerate(call.tensors)
        ]
        owners = [EVERYWHERE] * len(ins)
        present = e.present()
        for c in e.recording.cells:
            found = parts_of(present.get(c, c))
            ins.append(whole(3, present.get(c, c).held.ndim) if found is None else self._of(found))
            owners.append(EVERYWHERE if found is None or found.home is None else found.home[1])
        ins += [whole(3, len(v.shape)) for v in e.recording.values]
        return ins, owners + [EVERYWHERE] * len(e.recording.values)

    def _run_split(self, e: Entry, call: Call, given: Mapping[Cell, Parts]) -> Any:
        e.guards.refresh()
        plan = self._planned(e, call, given)
        present = e.present()
        sources: list[Any] = [*call.tensors, *(present.get(c, c) for c in e.recording.cells)]
        with _state_lock(e):
            if old_gradients(e, local_array):
                forget_gradients(e.grads)  # before there are new ones
            run = _Run(self, plan, [*sources, *e.recording.values])
            return self._deliver(e, call, plan, run.outputs())

    def _placed(self, plan: Plan, outs: Sequence[Any], types: Sequence[TensorType]) -> Any:
        assert isinstance(plan, StagedPlan)
        for local, p, kind, owner in zip(outs, plan.made.outs, types, plan.owners, strict=True):
            if owner == EVERYWHERE and p.is_whole:
                yield local
                continue
            home = None if owner == EVERYWHERE else (NAMES[0], owner)
            yield Parts(self._mesh, kind, p, local, home)

    def stage_memory(self, plan: StagedPlan) -> float:
        """Bytes of this rank: what it holds, what segments keep for each other, and what one needs inside."""
        target, stage = target_now(self._target), coordinates(self._mesh)[0]
        mine = [s for s in plan.staging.segments if s.stage == stage]
        inner = max((executable(s.graph, target, _usage(s, plan)).memory().peak for s in mine), default=0)
        held = [v for v in plan.made.graph.inputs if plan.staging.home[v] in (stage, EVERYWHERE)]
        return float(inner) + self.most + sum(nbytes(v.type) for v in held)


def _usage(s: Segment, plan: StagedPlan) -> Usage:
    """State that a segment replaces and nobody reads after it may be overwritten."""
    if s.micro:
        return Usage()
    graph, own = plan.made.graph, plan.staging.of(s.stage)
    later = {v for t in own[own.index(s) + 1 :] for v in t.reads}
    pairs = []
    for out, into in plan.usage.donated:
        new, old = graph.outputs[out], graph.inputs[into]
        if new in s.gives and old in s.reads and old not in later and graph.outputs.count(new) == 1:
            pairs.append((s.gives.index(new), s.reads.index(old)))
    return Usage(donated=tuple(pairs))


class _Run:
    """One call on one rank."""

    def __init__(self, step: Staged, plan: StagedPlan, sources: Sequence[Any]) -> None:
        self.step, self.plan, self.cut, self.sources = step, plan, plan.staging, sources
        self.target = target_now(step._target)
        self.at = coordinates(step._mesh)
        self.stage, self.micros = self.at[0], step.micros
        self.index = {v: i for i, v in enumerate(plan.made.graph.inputs)}
        self.store: dict[tuple[Var, int], Array] = {}
        self.sums: dict[Var, list[Array]] = {}
        self.where, self.bytes = user_location(), 0
        step.most = 0.0
        self.numbers = {v: k for k, v in enumerate(self.cut.goes)}  # of what travels: alike on all ranks
        if not plan.ready:
            plan.ready |= self._readied()
        self.met: dict[Var, list[Meeting]] = {}
        for m in self.cut.meetings.values():
            if self.cut.home[m.out] in (self.stage, EVERYWHERE):
                self.met.setdefault(m.value, []).append(m)

    # -- values ----------------------------------------------------------------------------------------------

    def get(self, v: Var, micro: int) -> Any:
        cut = self.cut.cuts.get(v)
        if cut is not None:
            return self._cut(self.get(cut.value, -1), v, cut.begins, micro)
        if v in self.index and self.cut.home[v] in (self.stage, EVERYWHERE):
            return self._input(self.index[v], micro)
        key = v, micro if v in self.cut.varies else -1
        if key not in self.store:
            self._keep(
                key, transport().receive(v.type, self._rank(self.cut.home[v]), self._tag(key), self.where)
            )
        return self.store[key]

    def _input(self, i: int, micro: int) -> Any:
        source = self.sources[i]
        found = parts_of(source) if isinstance(source, Cell) else None
        if found is not None:
            return found.local
        value, p = _plain(source), self.plan.made.ins[i]
        if p.is_whole:
            return value
        at = ranges(value.shape, p, self.step._place.mesh, (micro, *self.at[1:]))
        return np.ascontiguousarray(value[tuple(slice(r.begin, r.end) for r in at)])

    def _cut(self, value: Array, v: Var, begins: Sequence[tuple[int, ...]], micro: int) -> Array:
        if not begins:
            return value if micro == 0 else np.zeros_like(value)
        rows = zip(begins[micro], v.type.shape, strict=True)
        return np.ascontiguousarray(value[tuple(slice(b, b + int(n)) for b, n in rows)])

    def _keep(self, key: tuple[Var, int], value: Array) -> None:
        self.store[key] = value
        self.bytes += value.nbytes
        self.step.most = max(self.step.most, float(self.bytes))

    def _drop(self, v: Var, micro: int) -> None:
        old = self.store.pop((v, micro), None)
        self.bytes -= 0 if old is None else old.nbytes

    # -- messages --------------------------------------------------------------------------------------------

    def _rank(self, stage: int) -> int:
        return int(np.ravel_multi_index((stage, *self.at[1:]), self.step._mesh.shape))

    def _tag(self, key: tuple[Var, int]) -> int:
        return self.numbers[key[0]] * (self.micros + 1) + key[1] + 1

    def _send(self, key: tuple[Var, int], value: Array) -> None:
        for stage in self.cut.goes.get(key[0], ()):
            transport().send(value, self._rank(stage), self._tag(key), self.where)

    # -- running ---------------------------------------------------------------------------------------------

    def outputs(self) -> list[Any]:
        for v in self.cut.goes:
            if v in self.index and self.cut.home[v] == self.stage:
                self._send((v, -1), self.get(v, -1))
        for phase in range(self.cut.phases):
            for s, micro in self.cut.turns(self.stage, phase, self.micros):
                self._segment(s, micro)
            self._meet(phase)
        graph = self.plan.made.graph
        return [self.get(v, -1) if k in (self.stage, EVERYWHERE) else self._elsewhere(i)
                for i, (v, k) in enumerate(zip(graph.outputs, self.plan.owners, strict=True))]  # fmt: skip

    def _elsewhere(self, i: int) -> Array:
        return stand_in(self.plan.made.graph.outputs[i].type)

    def _readied(self) -> dict[Any, Ready]:
        """The segments of this stage, from the last to the first."""
        cuts, out = self.cut.cuts, {}
        seen = set(self.plan.made.graph.outputs)
        for s in reversed(self.cut.of(self.stage)):
            reads = dict.fromkeys(cuts[v].value if v in cuts else v for v in s.reads)
            kept, last = tuple(v in seen for v in s.gives), tuple(v for v in reads if v not in seen)
            out[id(s)] = Ready(executable(s.graph, self.target, _usage(s, self.plan)), kept, last)
            seen |= set(reads)
        return out

    def _segment(self, s: Segment, micro: int) -> None:
        ready = self.plan.ready[id(s)]
        values = [self.get(v, micro) for v in s.reads]
        if micro <= 0:
            ready.run.prepare(values, {})
        outs = ready.run.run(values, [], 0)
        for v in ready.last:
            if v in self.cut.varies:
                self._drop(v, micro)
            elif not s.micro or micro == self.micros - 1:
                self._drop(v, -1)
        for v, value, kept in zip(s.gives, outs, ready.kept, strict=True):
            key = v, micro if v in self.cut.varies else -1
            self._send(key, value)
            for m in self.met.get(v, ()):
                self._add(m, value)
            if kept:
                self._keep(key, value)

    def _add(self, m: Meeting, value: Array) -> None:
        rows = self.sums.setdefault(m.out, [])
        if m.op == "gather":
            rows.append(value)
        elif not rows:
            half = value.dtype.itemsize == 2 and value.dtype.kind not in "iu"
            rows.append(value.astype(np.float32) if half else np.array(value))  # floats of 16 bits in 32
            self.bytes += rows[0].nbytes
        else:
            with np.errstate(all="ignore"):
                _OPS[m.op](rows[0], value.astype(rows[0].dtype), out=rows[0])

    def _meet(self, phase: int) -> None:
        """What micro-batches make together is there when all have passed."""
        mine = [s for s in self.cut.of(self.stage) if s.phase == phase and s.micro]
        given = {v for s in mine for v in s.gives}
        for value, meetings in self.met.items():
            for m in meetings:
                if m.out not in self.sums and self._phase_of(m) == phase and value not in given:
                    for k in range(self.micros):  # a part of an input, or one that came
                        self._add(m, self.get(value, k))
                rows = self.sums.pop(m.out, None)
                if rows is None:
                    continue
                found = (
                    np.concatenate(rows, m.axis)
                    if m.op == "gather"
                    else rows[0].astype(m.out.type.dtype, copy=False)
                )
                self.bytes -= 0 if m.op == "gather" else rows[0].nbytes
                self._keep((m.out, -1), found)
                self._send((m.out, -1), found)

    def _phase_of(self, m: Meeting) -> int:
        return self.cut.phase[m.value]
