"""`sharded`: a function over whole tensors that each rank computes its part of.

Enters: the same script as for one process, with a few tensors split (`shard`). The function is recorded with
whole shapes, as `jit` does, split for this rank, and compiled. Leaves: results and state, each where the
walk put it. A parameter that nobody has split stays whole; optimiser state and gradients follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trilobite.base import pytree
from trilobite.base.errors import ClusterError, GradientError
from trilobite.base.locations import user_location
from trilobite.cluster.groups import size
from trilobite.cluster.meshes import Mesh
from trilobite.cluster.sharding.conversion import Costs
from trilobite.cluster.sharding.partition import Collective, Partition, Place, partition, size_text
from trilobite.cluster.sharding.placements import Placement, ranges, whole
from trilobite.cluster.sharding.tensors import (
    Parts,
    coordinates,
    parts_of,
    pin_of,
    placement,
    put,
    stand_in,
)
from trilobite.compiler.targets.contract import Executable, Usage
from trilobite.compiler.targets.registry import executable, target_now
from trilobite.framework.delivery import _hand_over, forget_gradients, old_gradients, shared_cells
from trilobite.framework.jit import Jitted, _state_lock
from trilobite.framework.recordings import Entry
from trilobite.framework.signature import Call, hold
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.cells import Cell
from trilobite.ir.types import TensorType, type_of

Sides = Mapping[str, int | None]
ROUNDS = 4  # in which state that follows its own updates settles


@dataclass
class Plan:
    """A recording, split for this rank."""

    made: Partition
    mesh: Mesh
    usage: Usage
    prepared: Executable | None = field(default=None, init=False)  # what runs with values of these shapes

    @property
    def collectives(self) -> list[Collective]:
        return self.made.collectives

    def __str__(self) -> str:
        lines = [str(c) for c in self.collectives]
        total = sum(c.nbytes * c.times for c in self.collectives)
        n = sum(c.times for c in self.collectives)
        return "\n".join([*lines, f"{n} collectives, {size_text(total)} sent by each rank"])


class Sharded(Jitted):
    """A function whose tensors lie on a mesh. Call it like the original, on all ranks."""

    def __init__(
        self, fn: Callable[..., Any], mesh: Mesh, inputs: Sequence[Sides | None], target: object,
        costs: Costs, options: Mapping[str, Any] | None,
    ) -> None:  # fmt: skip
        super().__init__(fn, target, (), (), None, options)
        self._mesh, self._inputs = mesh, tuple(inputs)
        self._place = Place(mesh.shape, mesh.names, coordinates(mesh), costs)
        self._plans: dict[Any, tuple[Entry, Plan]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call, given = self._given(args, kwargs)
        found = self._find(call)
        shared = shared_cells(found, call)
        if shared:
            call = hold(call, shared)
            found = self._find(call)
        return self._run_split(found, call, given)

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """How a call with these arguments is split, without running it."""
        call, given = self._given(args, kwargs)
        return self._planned(self._find(call), call, given)

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """Which collective stands where, how many bytes each rank sends by it, and why."""
        return str(self.plan(*args, **kwargs)) if args or kwargs else super().explain()

    def profile(self, *args: Any, repeats: int = 1, **kwargs: Any) -> Any:
        """Where the time of a call with these arguments goes on this rank. All ranks call it."""
        plan = self.plan(*args, **kwargs)
        made = executable(plan.made.graph, target_now(self._target), plan.usage)
        return made.profile(lambda: self(*args, **kwargs), repeats)

    # -- arguments -------------------------------------------------------------------------------------------

    def _given(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Call, dict[Cell, Parts]]:
        """The call, split tensors replaced by what has their shapes."""
        given: dict[Cell, Parts] = {}

        def replaced(x: Any) -> Any:
            found = parts_of(x._cell) if isinstance(x, Tensor) else None
            if found is None:
                return x
            if x._cell.leaf is not None:
                raise ClusterError(
                    "a split parameter as an argument of a sharded function",
                    where=user_location(),
                    expected="parameters that the function reads from outside, as it does a model's",
                )
            out = wrap(stand_in(found.type))
            given[out._cell] = found
            return out

        leaves, tree = pytree.flatten((tuple(args), dict(kwargs)), lambda x: isinstance(x, Tensor))
        args, kwargs = tree.unflatten([replaced(x) for x in leaves])
        return self._take_apart(args, kwargs), given

    def _sides(self, call: Call) -> list[Sides | None]:
        """What `inputs` say of each tensor argument: an entry per argument, for all tensors in it."""
        n = len(self._inputs)
        if n == 0:
            return [None] * len(call.tensors)
        rows: list[Sides | None] = []
        arguments, _ = call.signature.tree.unflatten(list(call.signature.leaves))
        for i, argument in enumerate(arguments):
            inner, _ = pytree.flatten(argument, lambda x: not isinstance(x, list | tuple | dict))
            rows += [self._inputs[i] if i < n else None for x in inner if hasattr(x, "type")]
        return rows + [None] * (len(call.tensors) - len(rows))

    # -- plans -----------------------------------------------------------------------------------------------

    def _planned(self, e: Entry, call: Call, given: Mapping[Cell, Parts]) -> Plan:
        if e.differentiable:
            raise GradientError(
                "a sharded function whose results have a history: backward() outside cannot follow it",
                where=user_location(),
                expected="gradients that the function itself takes, by backward() or tb.grad",
                remedy="call backward() inside, or the function under tb.no_grad(), or detach its results",
            )
        ins, free = self._inputs_lie(e, call, given)
        key = id(e), tuple(ins)
        if key not in self._plans:
            self._plans[key] = e, Plan(settled(e, self._place, ins, free), self._mesh, e.usage)
        return self._plans[key][1]

    def _inputs_lie(
        self, e: Entry, call: Call, given: Mapping[Cell, Parts]
    ) -> tuple[list[Placement], dict[int, int]]:
        """Where inputs lie, and which of them follow the outputs that replace them."""
        ins: list[Placement] = []
        for t, sides in zip(call.tensors, self._sides(call), strict=True):
            found = given.get(t._cell)
            kind = type_of(t._cell.held) if t._view is None else type_of(t._read())
            ins.append(placement(kind, self._mesh, sides or {}) if found is None else self._of(found))
        present, first = e.present(), len(e.recording.graph.outputs) - len(e.recording.writes)
        outs = {c: first + k for k, c in enumerate(e.recording.writes)}
        free: dict[int, int] = {}
        for c in e.recording.cells:
            cell = present.get(c, c)
            found, pin = parts_of(cell), pin_of(cell, self._mesh)
            if found is None and pin is None and cell.leaf is None and c in outs:
                free[len(ins)] = outs[c]
            ins.append(whole(len(self._mesh.shape), cell.held.ndim) if found is None else self._of(found))
        ins += [whole(len(self._mesh.shape), len(v.shape)) for v in e.recording.values]
        return ins, free

    def _of(self, parts: Parts) -> Placement:
        if parts.mesh != self._mesh:
            raise ClusterError(
                f"a tensor on {parts.mesh} in a function that is split over {self._mesh}",
                where=user_location(),
                expected="one mesh",
            )
        return parts.placement

    # -- running ---------------------------------------------------------------------------------------------

    def _run_split(self, e: Entry, call: Call, given: Mapping[Cell, Parts]) -> Any:
        target = target_now(self._target)
        e.guards.refresh()
        plan = self._planned(e, call, given)
        run = executable(plan.made.graph, target, plan.usage)
        if plan.prepared is not run:
            run.prepare(self._values_split(e, call, given, plan), {})
            plan.prepared = run
        with _state_lock(e):
            old = old_gradients(e, local_array)
            replaces = bool(old)
            try:
                outs = run.run(self._values_split(e, call, given, plan), old, 0)
            except BaseException:
                if replaces:
                    forget_gradients(e.grads)
                raise
            return self._deliver(e, call, plan, outs)

    def _values_split(self, e: Entry, call: Call, given: Mapping[Cell, Parts], plan: Plan) -> list[Any]:
        """This rank's parts of all inputs."""
        present = e.present()
        out: list[Any] = []
        sources: list[Any] = [given.get(t._cell, t) for t in call.tensors]
        sources += [parts_of(present.get(c, c)) or present.get(c, c) for c in e.recording.cells]
        for source, p in zip([*sources, *e.recording.values], plan.made.ins, strict=True):
            out.append(self._part(source, p))
        return out

    def _part(self, source: Any, p: Placement) -> Any:
        if isinstance(source, Parts):
            return source.local
        value = _plain(source)
        if p.is_whole:
            return value
        at = ranges(value.shape, p, self._mesh.shape, self._place.at)
        return np.ascontiguousarray(value[tuple(slice(r.begin, r.end) for r in at)]).copy()

    def _deliver(self, e: Entry, call: Call, plan: Plan, outs: Sequence[Any]) -> Any:
        rows = self._placed(plan, outs, e.recording.graph.output_types)
        leaves = [_result(next(rows)) if s is None else s.value for s in e.out_static]
        for i in e.arg_writes:
            _keep(call.tensors[i], next(rows))
        for where, there in e.grads:
            adds = isinstance(where, int)
            leaf = call.tensors[where]._cell.leaf if isinstance(where, int) else where
            found = next(rows) if there else None
            if adds or found is None or leaf.grad is None or not _holds(leaf.grad._cell, found):
                _hand_over(leaf, _result(found) if there else None, adds)
        present = e.present()
        for cell in e.recording.writes:
            found, now = next(rows), present.get(cell, cell)
            if not isinstance(found, Parts):
                cells.replace(now, found)
            elif not _holds(now, found):
                put(now, found)
        return e.out_tree.unflatten(leaves)

    def _placed(self, plan: Plan, outs: Sequence[Any], types: Sequence[TensorType]) -> Iterator[Any]:
        """Results: arrays that all ranks have whole, and parts."""
        for local, p, kind in zip(outs, plan.made.outs, types, strict=True):
            yield local if p.is_whole else Parts(self._mesh, kind, p, local)


def _holds(cell: Cell, found: Any) -> bool:
    """Has the result been written where the cell has it already?"""
    old = parts_of(cell)
    if old is None or not isinstance(found, Parts):
        return old is None and cell.held is found
    return old.local is found.local and old.placement == found.placement and old.mesh == found.mesh


def local_array(cell: Cell) -> Any:
    """The array that a cell holds, or this rank's part."""
    found = parts_of(cell)
    return cell.value if found is None else found.local


def _result(found: Any) -> Tensor:
    if not isinstance(found, Parts):
        return wrap(found)
    out = wrap(stand_in(found.type))
    put(out._cell, found)
    return out


def _keep(t: Tensor, found: Any) -> None:
    if isinstance(found, Parts):
        put(t._cell, found)
    else:
        t._store(found)


def settled(e: Entry, place: Place, ins: Sequence[Placement], free: Mapping[int, int]) -> Partition:
    """A recording, split; inputs that follow their outputs (`free`: input to output) lie where those do."""
    now = list(ins)
    for _ in range(ROUNDS):
        made = partition(e.recording.graph, place, now, pins(e, now, free))
        new = [made.outs[free[i]] if i in free else p for i, p in enumerate(now)]
        if new == now:
            return made
        now = new
    return partition(e.recording.graph, place, now, pins(e, now, {}))


def pins(e: Entry, ins: Sequence[Placement], free: Mapping[int, int]) -> list[Placement | None]:
    """Where outputs must lie: written tensors where they did, gradients as their parameters."""
    r = e.recording
    first = len(r.graph.inputs) - len(r.cells) - len(r.values)
    cell_at = {c: first + i for i, c in enumerate(r.cells)}
    leaf_at = {c.leaf: cell_at[c] for c in r.cells if c.leaf is not None}
    out: list[Placement | None] = [None] * sum(s is None for s in e.out_static)
    out += [ins[i] for i in e.arg_writes]
    for where, there in e.grads:
        if there:
            at = where if isinstance(where, int) else leaf_at.get(where)
            out.append(None if at is None else ins[at])
    following = set(free.values())
    for k, c in enumerate(r.writes, len(out)):
        out.append(ins[cell_at[c]] if c in cell_at and k not in following else None)
    return out


def _plain(source: Any) -> Any:
    """The array of a tensor, a cell, or a value that a recording closed over."""
    value = source._read() if isinstance(source, Tensor) else source
    value = value.value if isinstance(value, Cell) else value
    value = cells.bottom(value)
    if not isinstance(value, np.ndarray):
        raise ClusterError(
            "a sharded function inside another transform or recording",
            where=user_location(),
            expected="to be called by itself",
            remedy="make the outer function the sharded one",
        )
    return value


def sharded(
    fn: Callable[..., Any] | None = None,
    *,
    mesh: Mesh,
    inputs: Sequence[Sides | None] = (),
    target: object = "cpu",
    costs: Costs | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """A function over whole tensors, computed in parts on a mesh: `sharded(step, mesh=mesh, inputs=[{"data":
    0}, {"data": 0}])`. Every rank calls it with whole arguments (or with split tensors); `inputs` say, per
    argument, which side of the mesh splits which dimension of it.
    """
    if fn is None:
        return lambda f: sharded(f, mesh=mesh, inputs=inputs, target=target, costs=costs, options=options)
    size()  # the processes are there
    return Sharded(fn, mesh, inputs, target, costs or Costs(), options)
