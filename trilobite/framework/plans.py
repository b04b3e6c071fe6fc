"""Small eager operations that come again: what they do is worked out once and replayed.

Enters: a function over values with its operands, tensors and static arguments. Leaves: its result as a
tensor, or None, and then the caller goes the long way. An operation that was called some times with operands
of the same types and the same static arguments is recorded, with its pullback where a gradient is wanted, and
replayed from then on (`replay.py`): the same NumPy calls in the same order, so the same bits, without the way
through `bind`; on the tape it is one node. Whatever is not plain takes the long way: recordings, transforms,
autocast, anomaly mode, large arrays.

A function that is planned must depend on the types of its operands alone, never on their values, and must
touch no state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import TrilobiteError
from trilobite.base.locations import UNKNOWN
from trilobite.framework.replay import Replay, Run, divided, fits, is_fresh, whole
from trilobite.framework.tensor import CLASSES, Tensor, wrap, wrap_recorded
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import Value
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.backward import backward
from trilobite.ir.transforms.bind import deeper
from trilobite.ir.transforms.composite import subtape
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.transforms.tape import Leaf, Node, Tape, Taped, next_order, taped, zeros
from trilobite.ir.types import TensorType

ndarray = np.ndarray
Function = Callable[..., Any]
_OFTEN = 16  # calls before a plan is made: making it takes as long as some dozen calls
_SMALL = 1 << 12  # elements of an operand: from here on the way through `bind` is the smaller part
_REMEMBERED = 4096  # kinds of calls
_ARRAYS = (Tensor, Taped, ndarray)
_STATIC = frozenset({int, bool, str, type(None), dt.dtype})

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
    if not _gathered(operands, ctx, key, arrays, edges):
        return None
    if attributes and not _all_told(attributes, key):
        return None
    kind = tuple(key)
    plan = _plans.get(kind)
    if plan is None:
        plan = _made_now(kind, fn, operands, attributes, arrays, edges)
    return None if plan is None or plan.forward is None else plan.run(ctx, arrays, edges)


def _all_told(attributes: dict[str, Any], key: list[Any]) -> bool:
    for name, x in attributes.items():
        key.append(name)
        if not _told(x, key):
            return False
    return True


def _gathered(
    operands: Sequence[Any], ctx: entry.Context, key: list[Any], arrays: list[Any], edges: list[Any]
) -> bool:
    """Enters operands into the key, their arrays, and where those came from on the tape; False for others
    than small arrays of eager mode.
    """
    tape = ctx.ambient
    recording = tape.level > ctx.grad_off and not tape.paused
    for x in operands:
        value, edge = x, None
        if type(x) in CLASSES and x._view is None and x._extra is None:
            cell = x._cell
            value, leaf = (cell.value, cell.leaf) if cell.owner is None else (None, None)
            if leaf is not None and recording:
                edge = (leaf, 0)
        elif isinstance(x, Tensor):
            value = _shown(x)
        elif type(x) is not Taped and type(x) is not ndarray:
            if _told_or_gathered(x, ctx, key, arrays, edges):
                continue
            return False
        if type(value) is Taped:
            if value.interpreter is not tape or edge is not None:
                return False
            edge = (value.node, value.index) if recording else None
            value = value.primal
        if type(value) is not ndarray or value.size > _SMALL:
            return False
        arrays.append(value)
        edges.append(edge)
        key += (value.dtype, value.shape, edge is None)
    return True


def _told_or_gathered(
    x: Any, ctx: entry.Context, key: list[Any], arrays: list[Any], edges: list[Any]
) -> bool:
    if not _holds_arrays(x):
        return _told(x, key)
    key += (type(x), len(x))
    return _gathered(x, ctx, key, arrays, edges)


def _holds_arrays(x: Any) -> bool:
    """A list of tensors, as `concat` takes it."""
    return (type(x) is list or type(x) is tuple) and any(isinstance(i, _ARRAYS) for i in x)


def _shown(x: Tensor) -> Value | None:
    """What a view, or a tensor with notes, shows; None for one that stands for a Python number."""
    return None if x._extra is not None and "weak" in x._extra else x._read()


def _told(x: Any, key: list[Any]) -> bool:
    """Enters a static argument into a key; False if it cannot be told apart from others like it."""
    kind = type(x)
    if kind is float:
        key.append(x if x else str(x))  # 0.0 and -0.0 are equal
    elif kind is tuple or kind is list:
        key.append(len(x))
        if not all(_told(i, key) for i in x):
            return False
    elif kind in _STATIC or isinstance(x, np.dtype):
        key.append(x)
    else:
        return False
    key.append(kind)
    return True


def _made_now(
    kind: Any, fn: Function, operands: Sequence[Any], attributes: dict[str, Any], arrays: list[Any],
    edges: list[Any],
) -> Plan | None:  # fmt: skip
    """A plan, once an operation has come often enough."""
    count = _counts[kind] = _counts.get(kind, 0) + 1
    if count < _OFTEN:
        if len(_counts) > _REMEMBERED:
            _counts.clear()
        return None
    if len(_plans) > _REMEMBERED:
        _plans.clear()
    of = _over_values(fn, operands, attributes)
    found = Plan(of, [TensorType(v.shape, v.dtype) for v in arrays], [e is not None for e in edges])
    _counts.pop(kind, None)  # another thread may have made the same plan meanwhile
    _plans[kind] = found
    return found


def _over_values(fn: Function, operands: Sequence[Any], attributes: dict[str, Any]) -> Function:
    """`fn` as a function of its array operands alone."""
    places = [_emptied(x) for x in operands]

    def of(*values: Value) -> Any:
        rest = iter(values)
        return fn(*[_filled(x, rest) for x in places], **attributes)

    return of


class _Place:
    """Stands for an array among static arguments."""


def _emptied(x: Any) -> Any:
    if isinstance(x, _ARRAYS):
        return _Place
    return [_emptied(i) for i in x] if _holds_arrays(x) else x


def _filled(x: Any, values: Iterator[Value]) -> Any:
    if x is _Place:
        return next(values)
    return [_filled(i, values) for i in x] if type(x) is list else x


class _NoPlan(Exception):
    """A function that does something a replay cannot do."""


class Plan:
    """What an operation does with operands of some types, and with their cotangents. Without `forward` it
    has none: it goes the long way.
    """

    __slots__ = (
        "back", "count", "fn", "forward", "fresh", "name", "reached", "recorded", "single", "watched",
    )  # fmt: skip
    forward: Run | None
    back: Run

    def __init__(self, fn: Function, types: Sequence[TensorType], wanted: list[bool]) -> None:
        self.fn, self.name, self.forward, self.recorded = fn, "operation", None, any(wanted)
        self.reached: list[int] = []
        self.watched: list[tuple[bool, int]] = []
        shape: list[bool] = []
        try:
            recorded = record_graph(lambda *v: _listed(fn(*v), shape), types, "eager")
            self.name, graph = _name(recorded), _flat(recorded)
            self.single, self.count = shape[-1], len(graph.outputs)
            self.fresh = is_fresh(graph)
            if self.recorded:
                self._record(types, graph.output_types, wanted)
            else:
                self.forward = Replay(whole(graph)).run
        except (TrilobiteError, _NoPlan):
            pass  # the long way says what is wrong, or does what cannot be recorded

    def _record(self, types: Sequence[TensorType], results: Sequence[TensorType], wanted: list[bool]) -> None:
        def both(*values: Value) -> list[Value]:
            operands, cotangents = values[: len(types)], values[len(types) :]
            outs, pullback = self._pulled(operands, wanted)
            found = pullback(cotangents)
            self.reached = [i for i, ct in enumerate(found) if ct is not None]
            return [*outs, *(found[i] for i in self.reached)]

        graph = _flat(record_graph(both, [*types, *results], "eager"))
        ahead, back = divided(graph, len(types), self.count)
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
        if not all(tape.tracks(o) for o in outs):
            raise _NoPlan
        bare = [tape.strip(o) for o in outs]
        kept = {id(tape.strip(v)) for v in _kept_by(o.node for o in outs)}
        self.watched = [(True, i) for i, v in enumerate(operands) if id(v) in kept]
        self.watched += [(False, i) for i, v in enumerate(bare) if id(v) in kept]

        def pullback(cotangents: Sequence[Value]) -> list[Any]:
            found = backward(tape, list(zip(outs, cotangents, strict=True)), retain=True)
            return [None if leaf is None else found.get(leaf) for leaf in leaves]

        return bare, pullback

    def run(self, ctx: entry.Context, arrays: list[Any], edges: list[Any]) -> Any:
        assert self.forward is not None
        outs = self.forward(arrays)
        node = PlanNode(self, arrays, edges, outs) if self.recorded else None
        if not self.single:
            return tuple(_result(ctx, o, arrays, node, i) for i, o in enumerate(outs[: self.count]))
        if not self.fresh:
            return _result(ctx, outs[0], arrays, node, 0)
        return wrap(outs[0]) if node is None else wrap_recorded(ctx, outs[0], node)


def _result(ctx: entry.Context, value: Any, arrays: list[Any], node: Node | None, index: int) -> Tensor:
    """A result in memory of its own: nobody's view, no operand, nothing shared."""
    if value.base is not None or not value.flags.writeable or any(value is a for a in arrays):
        value = value.copy()
    return wrap(value if node is None else taped(ctx.ambient, value, node, index))


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
        if again or entry.threads.context.recorder is not None or not _plain(cotangents):
            return self._pull_long(cotangents, tape, again)
        if plan.watched:
            self.check_kept([(self.arrays if given else self.outs)[i] for given, i in plan.watched])
        found: list[Any] = [None] * len(self.edges)
        for i, ct in zip(plan.reached, plan.back([*self.outs[plan.count :], *cotangents]), strict=True):
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


def _plain(cotangents: Sequence[Any]) -> bool:
    return all(type(ct) is ndarray for ct in cotangents)


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


def _listed(out: Any, shape: list[Any]) -> list[Value]:
    """Results as a list; notes whether it was one. Named pairs and nested results have no plan."""
    single = not isinstance(out, (tuple, list))
    values = [out] if single else list(out)
    if not single and (type(out) is not tuple or not all(hasattr(v, "dtype") for v in values)):
        raise _NoPlan
    if single and not hasattr(out, "dtype"):
        raise _NoPlan
    shape.append(single)
    return values
