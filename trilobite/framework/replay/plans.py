"""Small eager operations that come again: what they do is worked out once and replayed.

Enters: a function over values with its operands, tensors and static arguments. Leaves: its result as a
tensor, or None, and then the caller goes the long way. An operation that was called some times with operands
of the same types and the same static arguments is recorded, with its pullback where a gradient is wanted, and
replayed from then on (`calls.py`): the same NumPy calls in the same order, so the same bits, without the way
through `bind`; on the tape it is one node. Whatever is not plain takes the long way: recordings, transforms,
autocast, anomaly mode, large arrays.

A function that is planned must depend on the types of its operands alone, never on their values, and must
touch no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.locations import UNKNOWN
from trilobite.framework.own_memory import own
from trilobite.framework.replay.calls import Replay, Run, divided, fits, is_fresh, whole
from trilobite.framework.replay.keys import Function, all_told, gathered, over_values
from trilobite.framework.tensor import Tensor, wrap, wrap_recorded
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.backward import backward
from trilobite.ir.transforms.bind import deeper
from trilobite.ir.transforms.composite import subtape
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.transforms.tape import Leaf, Node, Tape, next_order, taped, zeros
from trilobite.ir.types import TensorType

OFTEN = 16  # calls before a plan is made: making it takes as long as some dozen calls
REMEMBERED = 4096  # kinds of calls

_asked: ContextVar[list[Value] | None] = ContextVar("_asked", default=None)
"""What must hold of the operands of the plan that is being recorded."""

_counts: dict[Any, int] = {}
_plans: dict[Any, Plan] = {}


def planned(fn: Function, operands: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """`fn(*operands, **attributes)` by its plan, if there is one for operands like these; else None."""
    ctx = entry.threads.context
    if ctx.recorder is not None or ctx.watch is not None or ctx.autocast is not None:
        return None
    key: list[Any] = [fn, dt.default_float]
    arrays: list[Any] = []
    edges: list[Any] = []
    if not gathered(operands, ctx, key, arrays, edges):
        return None
    if attributes and not all_told(attributes, key):
        return None
    kind = tuple(key)
    plan = _plans.get(kind)
    if plan is None:
        plan = _made_now(kind, fn, operands, attributes, arrays, edges)
    return None if plan is None or plan.forward is None else plan.run(ctx, arrays, edges)


def _made_now(
    kind: Any, fn: Function, operands: Sequence[Any], attributes: dict[str, Any], arrays: list[Any],
    edges: list[Any],
) -> Plan | None:  # fmt: skip
    """A plan, once an operation has come often enough."""
    count = _counts[kind] = _counts.get(kind, 0) + 1
    if count < OFTEN:
        if len(_counts) > REMEMBERED:
            _counts.clear()
        return None
    if len(_plans) > REMEMBERED:
        _plans.clear()
    of = over_values(fn, operands, attributes)
    found = Plan(of, [TensorType(v.shape, v.dtype) for v in arrays], [e is not None for e in edges])
    _counts.pop(kind, None)  # another thread may have made the same plan meanwhile
    _plans[kind] = found
    return found


@contextmanager
def _asking() -> Iterator[list[Value]]:
    asked: list[Value] = []
    token = _asked.set(asked)
    try:
        yield asked
    finally:
        _asked.reset(token)


def is_planning() -> bool:
    """Is a plan being recorded? Then values are unknown only until it runs."""
    return _asked.get() is not None


def require(holds: Value) -> None:
    """What is being recorded as a plan is right for operands that this is true of, elementwise; others go the
    long way, which says what is wrong with them. Outside of plans nothing.
    """
    asked = _asked.get()
    if asked is not None:
        axes = tuple(range(holds.ndim))
        asked.append(table["reduce_and"](holds, axes=axes) if axes else holds)


class _NoPlan(Exception):
    """A function that does something a replay cannot do."""


class Plan:
    """What an operation does with operands of some types, and with their cotangents. Without `forward` it
    has none: it goes the long way.
    """

    __slots__ = (
        "asked", "back", "count", "fn", "forward", "fresh", "kept", "kind", "name", "reached", "recorded",
        "tracked", "types", "watched",
    )  # fmt: skip
    forward: Run | None
    back: Run

    def __init__(self, fn: Function, types: Sequence[TensorType], wanted: list[bool]) -> None:
        self.fn, self.name, self.forward, self.recorded = fn, "operation", None, any(wanted)
        self.reached: list[int] = []
        self.tracked: list[int] = []  # results that a gradient may come from
        self.watched: list[tuple[bool, int]] = []
        kinds: list[Any] = []
        try:
            with _asking() as asked:
                recorded = record_graph(lambda *v: [*_listed(fn(*v), kinds), *asked], types, "eager")
            self.name, graph = _name(recorded), _flat(recorded)
            self.kind, self.asked = kinds[-1], len(asked)
            self.kept = len(graph.outputs)
            self.count = self.kept - self.asked
            self.types = [v.type for v in graph.outputs[: self.count]]
            self.fresh = is_fresh(graph)
            if self.recorded:
                self._record(types, wanted)
            if not self.recorded:
                self.forward = Replay(whole(graph)).run
            self.fresh = self.fresh or getattr(self.forward, "fresh", 0) >= self.count
        except Exception:  # the long way says what is wrong, or does what cannot be recorded
            self.forward = None

    def _record(self, types: Sequence[TensorType], wanted: list[bool]) -> None:
        def both(*values: Value) -> list[Value]:
            operands, cotangents = values[: len(types)], values[len(types) :]
            with _asking() as asked:
                outs, pullback = self._pulled(operands, wanted)
            found = pullback(cotangents)
            self.reached = [i for i, ct in enumerate(found) if ct is not None]
            return [*outs, *asked, *(found[i] for i in self.reached)]

        graph = _flat(record_graph(both, [*types, *self.types], "eager"))
        if not self.tracked:
            self.recorded = False
            return
        ahead, back = divided(graph, len(types), self.kept)
        self.forward, self.back = Replay(ahead).run, Replay(back).run

    def _pulled(self, operands: Sequence[Value], wanted: list[bool]) -> tuple[list[Value], Any]:
        """The function on a tape of its own, and its pullback; notes which operands and results the nodes of
        that tape want unchanged until the way back.
        """
        with deeper(entry.context()) as level:
            tape = Tape(level)
            leaves = [Leaf() if want else None for want in wanted]
            taped = [v if n is None else tape.wrap(v, n) for v, n in zip(operands, leaves, strict=True)]
            outs = _listed(self.fn(*taped), [])
            tape.alive = False
        self.tracked = [i for i, o in enumerate(outs) if tape.tracks(o)]
        bare = [tape.strip(o) for o in outs]
        kept = {id(tape.strip(v)) for v in _kept_by(outs[i].node for i in self.tracked)}
        self.watched = [(True, i) for i, v in enumerate(operands) if id(v) in kept]
        self.watched += [(False, i) for i, v in enumerate(bare) if id(v) in kept]

        def pullback(cotangents: Sequence[Value]) -> list[Any]:
            found = backward(tape, [(outs[i], cotangents[i]) for i in self.tracked], retain=True)
            return [None if leaf is None else found.get(leaf) for leaf in leaves]

        return bare, pullback

    def run(self, ctx: entry.Context, arrays: list[Any], edges: list[Any]) -> Any:
        assert self.forward is not None
        outs = self.forward(arrays)
        if self.asked and not all(outs[self.count : self.kept]):
            return None
        if not self.fresh:
            outs = [own(o, arrays) if i < self.count else o for i, o in enumerate(outs)]
        if not self.recorded:
            if self.kind is None:
                return wrap(outs[0])
            return self._together([wrap(outs[i]) for i in range(self.count)])
        node = PlanNode(self, arrays, edges, outs)
        if self.kind is None:
            return wrap_recorded(ctx, outs[0], node)
        tape = ctx.ambient
        return self._together(
            [wrap(taped(tape, outs[i], node, i) if i in self.tracked else outs[i]) for i in range(self.count)]
        )

    def _together(self, results: list[Tensor]) -> Any:
        return tuple(results) if self.kind is tuple else self.kind(*results)


class PlanNode(Node):
    """One planned operation on the tape. To be differentiable again it runs once more the long way."""

    __slots__ = ("arrays", "outs", "plan")

    def __init__(self, plan: Plan, arrays: list[Any], edges: list[Any], outs: Sequence[Any]) -> None:
        # as Node.__init__, without the call
        self.name, self.edges, self.order, self.time = plan.name, edges, next_order(), cells.now
        self.freed, self.hooks, self.types, self.location = False, None, None, UNKNOWN
        self.module = ""  # nothing is recorded where a plan is replayed
        self.plan, self.arrays, self.outs = plan, arrays, outs

    def outputs(self) -> int:
        return self.plan.count

    def free(self) -> None:
        self.freed, self.arrays, self.outs = True, [], []

    def pull(self, cotangents: list[Any], tape: Tape, again: bool) -> Sequence[Any]:
        plan = self.plan
        if again or entry.threads.context.recorder is not None:
            return self._pull_long(cotangents, tape, again)
        full = cotangents if plan.kind is None else _full(plan, cotangents)
        if not _plain(full):
            return self._pull_long(cotangents, tape, again)
        if plan.watched:
            self.check_kept([(self.arrays if given else self.outs)[i] for given, i in plan.watched])
        found: list[Any] = [None] * len(self.edges)
        for i, ct in zip(plan.reached, plan.back([*self.outs[plan.kept :], *full]), strict=True):
            found[i] = ct
        return found

    def _pull_long(self, cotangents: list[Any], tape: Tape, again: bool) -> Sequence[Any]:
        self.check_kept(self.arrays)
        operands = [
            v if edge is None or not again else tape.wrap(v, *edge)
            for v, edge in zip(self.arrays, self.edges, strict=True)
        ]
        outs, pullback = subtape(lambda *v: _listed(self.plan.fn(*v), []), operands)
        full = [
            zeros(TensorType(o.shape, o.dtype)) if ct is None else ct
            for o, ct in zip(outs, cotangents, strict=True)
        ]
        found = pullback(full)
        return [None if edge is None else ct for ct, edge in zip(found, self.edges, strict=True)]


def _full(plan: Plan, cotangents: Sequence[Any]) -> list[Any]:
    """One cotangent for each result: zeros where none came."""
    return [
        np.zeros(t.shape, t.dtype) if ct is None else ct for ct, t in zip(cotangents, plan.types, strict=True)
    ]


def _plain(cotangents: Sequence[Any]) -> bool:
    return all(type(ct) is np.ndarray for ct in cotangents)


def _kept_by(roots: Iterable[Node]) -> list[Value]:
    """What the nodes of a tape look at for changes before they go back."""
    found: list[Value] = []
    seen: set[Node] = set()
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        waiting += [edge[0] for edge in node.edges if edge is not None]
        found += [v for v in (*getattr(node, "inputs", ()), getattr(node, "out", None)) if v is not None]
    return found


def _name(graph: Graph) -> str:
    """What the node on the tape would be called: the primitive or composite that makes the first result."""
    for e in graph.equations:
        if graph.outputs[0] in e.outputs:
            return str(e.attributes["name"]) if e.primitive.name == "call" else e.primitive.name
    return "operation"


def _flat(graph: Graph) -> Graph:
    from trilobite.compiler.graph.passes.inline import inline  # comes in with the first plan

    flat = inline(graph)
    if not fits(flat):
        raise _NoPlan
    return flat


def _listed(out: Any, kinds: list[Any]) -> list[Value]:
    """Results as a list; notes what held them: nothing, a tuple, or a class of named ones. Nested results
    have no plan.
    """
    kind = type(out) if isinstance(out, (tuple, list)) else None
    values = [out] if kind is None else list(out)
    if not all(hasattr(v, "dtype") for v in values):
        raise _NoPlan
    if kind is not None and kind is not tuple and not hasattr(kind, "_fields"):
        raise _NoPlan
    kinds.append(kind)
    return values
