"""Functions with derivative rules of their own: custom_vjp, custom_jvp.

Each is one node on a tape and one `call` in a recording, with forward and backward graphs as its regions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import update_wrapper
from typing import Any

from trilobite.base import pytree
from trilobite.base.dtypes import is_inexact
from trilobite.base.errors import ArgumentError, GradientError
from trilobite.base.locations import user_location
from trilobite.framework.control import Closed
from trilobite.framework.tensor import Tensor, wrap
from trilobite.framework.transforms import is_tensor, read_tree, vjp
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.bind import Traced
from trilobite.ir.transforms.record import record, record_graph
from trilobite.ir.transforms.tape import Tape, zeros
from trilobite.ir.types import TensorType, type_of

Fn = Callable[..., Any]

_ORDERS = 2  # derivatives that a recording keeps of a function whose rules call the function itself

_recorded: ContextVar[tuple[custom_vjp, ...]] = ContextVar("_recorded", default=())
"""Functions whose rules are being recorded, the outermost first."""


class _Args:
    """Arguments split into tensors and the rest, so that rules see what the user passed."""

    def __init__(self, args: Sequence[Any], static: Sequence[int]) -> None:
        self.static = {i: args[i] for i in static}
        self.count = len(args)
        self.values, self.tree = read_tree(tuple(a for i, a in enumerate(args) if i not in self.static))

    def fill(self, values: Sequence[Value]) -> list[Any]:
        """The argument list with these values in the tensors' places."""
        moving = iter(self.tree.unflatten(map(wrap, values)))
        return [self.static[i] if i in self.static else next(moving) for i in range(self.count)]

    @property
    def types(self) -> list[TensorType]:
        return [type_of(v) for v in self.values]


class custom_vjp:
    """A function with its own reverse-mode rule.

    `f.defvjp(fwd, bwd)`: `fwd(*args) -> (result, residuals)`, `bwd(residuals, cotangent) -> cotangents` (one
    per argument that is not in `nondiff_argnums`, None for zero).
    """

    def __init__(self, fn: Fn, nondiff_argnums: Sequence[int] = ()) -> None:
        self.fn, self.static = fn, tuple(nondiff_argnums)
        self.fwd: Fn | None = None
        self.bwd: Fn | None = None
        self.push: Fn | None = None  # a forward-mode rule, if there is one: custom_jvp
        update_wrapper(self, fn, updated=())

    def defvjp(self, fwd: Fn, bwd: Fn) -> None:
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            raise GradientError(
                f"custom_vjp function {self.fn.__name__} has no rule yet",
                where=user_location(),
                expected="a forward and a backward rule",
                remedy="call f.defvjp(fwd, bwd) first",
            )
        a = _Args(args, self.static)
        top = _top(a.values)
        if top is None and entry.threads.context.recorder is None:
            return self.fn(*args)
        if entry.threads.context.recorder is None and isinstance(top, Tape):
            return self._taped(a, top)
        return self._call(a)

    def _taped(self, a: _Args, tape: Tape) -> Any:
        trees: list[pytree.Tree] = []

        def linearize(operands: Sequence[Value]) -> Any:
            assert self.fwd is not None
            out, residuals = _kept(self.fn.__name__, self.fwd(*a.fill(operands)))
            values, tree = read_tree(out)
            trees[:] = [tree]

            def pullback(cts: Sequence[Any]) -> list[Any]:
                dense = (wrap(_dense(c, v)) for c, v in zip(cts, values, strict=True))
                return self._pull(residuals, tree.unflatten(dense), a)

            vars(pullback)["kept"] = [
                t._cell.held for t in pytree.flatten(residuals, is_tensor)[0] if isinstance(t, Tensor)
            ]
            return values, pullback

        outs = tape.opaque(self.fn.__name__, linearize, a.values)
        return trees[0].unflatten(map(wrap, outs))

    def _pull(self, residuals: Any, cotangent: Any, a: _Args) -> list[Any]:
        assert self.bwd is not None
        cts = self.bwd(residuals, cotangent)
        cts = cts if isinstance(cts, tuple) else (cts,)
        return _per_leaf(self.fn.__name__, cts, a)

    def _call(self, a: _Args) -> Any:
        """Record body, forward and backward. Rules may call the function itself, and the rules of that call
        again: the innermost is a function without a derivative.
        """
        outer = _recorded.get()
        if sum(f is self for f in outer) >= _ORDERS:
            return self._innermost(a)
        token = _recorded.set((*outer, self))
        try:
            return self._with_rules(a)
        finally:
            _recorded.reset(token)

    def _innermost(self, a: _Args) -> Any:
        trees: list[pytree.Tree] = []

        def plain(*values: Value) -> list[Value]:
            out, tree = read_tree(self.fn(*a.fill(values)))
            trees[:] = [tree]
            return out

        body = record(plain, a.types, self.fn.__name__)
        closed = Closed([body], len(a.values))
        graph = closed.graph(body, a.types)
        outs = table["call"](*a.values, *closed.operands(), name=self.fn.__name__, strict=True, graph=graph)
        return trees[0].unflatten(map(wrap, outs))

    def _with_rules(self, a: _Args) -> Any:
        """All three graphs close over the same captures."""
        trees: dict[str, Any] = {}
        body, forward = self._record_forward(a, trees)
        closed = Closed([body, forward], len(a.values))
        graphs = [closed.graph(r, a.types) for r in (body, forward)]
        if closed.writes:
            raise GradientError(
                f"{self.fn.__name__} changes a tensor outside itself",
                where=user_location(),
                expected="a function of its arguments alone",
                remedy="return the new value",
            )
        n = len(graphs[0].outputs)
        _same_outputs(self.fn.__name__, graphs[0].output_types, graphs[1].output_types[:n])
        residual_types = graphs[1].output_types[n:]
        captured = [type_of(v) for v in closed.operands()]
        backward = self._record_backward(a, trees, residual_types, graphs[0].output_types, captured)
        regions = {"graph": graphs[0], "forward": graphs[1], "backward": backward}
        if self.push is not None:
            regions["push"] = self._record_push(a, graphs[0].output_types, captured)
        outs = table["call"](*a.values, *closed.operands(), name=self.fn.__name__, strict=True, **regions)
        return trees["out"].unflatten(map(wrap, outs))

    def _record_push(self, a: _Args, outs: Sequence[TensorType], captured: Sequence[TensorType]) -> Graph:
        """operands, tangents of inexact operands -> results, tangents of inexact results"""
        operands = [*a.types, *captured]
        moving = [t for t in operands if is_inexact(t.dtype)]

        def forward(*values: Value) -> list[Value]:
            assert self.push is not None
            tangents = iter(values[len(operands) :])
            directions = [next(tangents) if is_inexact(t.dtype) else zeros(t) for t in a.types]
            out, moved = _moved(self.fn.__name__, self.push(tuple(a.fill(values)), tuple(a.fill(directions))))
            changes = zip(read_tree(moved)[0], outs, strict=True)
            return read_tree(out)[0] + [m for m, t in changes if is_inexact(t.dtype)]

        return record_graph(forward, [*operands, *moving], f"{self.fn.__name__}.jvp")

    def _record_forward(self, a: _Args, trees: dict[str, Any]) -> tuple[Any, Any]:
        def plain(*values: Value) -> list[Value]:
            out, trees["out"] = read_tree(self.fn(*a.fill(values)))
            return out

        def kept(*values: Value) -> list[Value]:
            assert self.fwd is not None
            out, residuals = _kept(self.fn.__name__, self.fwd(*a.fill(values)))
            found, trees["residuals"] = read_tree(residuals)
            return read_tree(out)[0] + found

        return record(plain, a.types, self.fn.__name__), record(kept, a.types, f"{self.fn.__name__}.fwd")

    def _record_backward(
        self,
        a: _Args,
        trees: dict[str, Any],
        residuals: Sequence[TensorType],
        outs: Sequence[TensorType],
        captured: Sequence[TensorType],
    ) -> Graph:
        def back(*values: Value) -> list[Value]:
            kept = trees["residuals"].unflatten(map(wrap, values[: len(residuals)]))
            given = iter(values[len(residuals) :])
            cts = trees["out"].unflatten(wrap(next(given) if is_inexact(t.dtype) else zeros(t)) for t in outs)
            found = self._pull(kept, cts, a)
            own = [
                zeros(t) if c is None else c
                for c, t in zip(found, a.types, strict=True)
                if is_inexact(t.dtype)
            ]
            return own + [zeros(t) for t in captured if is_inexact(t.dtype)]

        types = [*residuals, *(t for t in outs if is_inexact(t.dtype))]
        return record_graph(back, types, f"{self.fn.__name__}.bwd")


def _kept(name: str, found: Any) -> tuple[Any, Any]:
    """What a forward rule returned, if it is a pair."""
    if not isinstance(found, tuple) or len(found) != 2:
        raise ArgumentError(
            f"the forward rule of {name} did not return a pair",
            where=user_location(),
            expected="(result, residuals)",
            remedy="return result, None if backward needs nothing",
        )
    return found


def _same_outputs(name: str, plain: Sequence[TensorType], kept: Sequence[TensorType]) -> None:
    if list(plain) != list(kept):
        raise ArgumentError(
            f"the forward rule of {name} returns {[*map(str, kept)]}, the function {[*map(str, plain)]}",
            where=user_location(),
            expected="the function's own result, and then residuals",
            remedy="return f(x), residuals from the forward rule",
        )


def _moved(name: str, found: Any) -> tuple[Any, Any]:
    """What a forward-mode rule returned, if each result has a tangent of its own dtype and shape."""
    if isinstance(found, tuple) and len(found) == 2:
        (outs, a), (moved, b) = read_tree(found[0]), read_tree(found[1])
        if a == b and [type_of(o) for o in outs] == [type_of(t) for t in moved]:
            return found
        what = f"{[str(type_of(t)) for t in moved]} as tangents of {[str(type_of(o)) for o in outs]}"
    else:
        what = "no pair"
    raise ArgumentError(
        f"the rule of {name} returned {what}",
        where=user_location(),
        expected="(result, tangent), equal in structure, dtype and shape",
        remedy="the tangent is the result's change: linear in the given tangents, and shaped as the result",
    )


def _top(values: Sequence[Value]) -> Any:
    traced = [v.interpreter for v in values if isinstance(v, Traced)]
    return max(traced, key=lambda i: i.level) if traced else None


def _dense(ct: Any, like: Value) -> Value:
    return zeros(type_of(like)) if ct is None else ct


def _per_leaf(name: str, cts: Sequence[Any], a: _Args) -> list[Any]:
    """A rule's cotangents, one per tensor leaf of the arguments; None stands for zero."""
    moving = a.tree.children
    if len(cts) != len(moving):
        raise ArgumentError(
            f"the backward rule of {name} returned {len(cts)} cotangents",
            where=user_location(),
            expected=f"one per argument: {len(moving)}",
            remedy="return a tuple, with None where the cotangent is zero",
        )
    out: list[Any] = []
    for ct, tree in zip(cts, moving, strict=True):
        if ct is None:
            out += [None] * tree.size
            continue
        values, shape = read_tree(ct)
        if shape != tree:
            raise ArgumentError(
                f"a cotangent from the backward rule of {name} has another structure than its argument",
                where=user_location(),
                expected=f"{tree}, not {shape}",
                remedy="nest the cotangents as the argument is nested",
            )
        out += values
    for i, (ct, t) in enumerate(zip(out, a.types, strict=True)):
        if ct is not None and ct.shape != t.shape:
            raise ArgumentError(
                f"cotangent {i} from the backward rule of {name} has shape {tuple(ct.shape)}",
                where=user_location(),
                expected=f"the argument's shape {tuple(t.shape)}",
                remedy="sum over the axes that forward broadcast",
            )
    return out


class custom_jvp:
    """A function with its own forward-mode rule, which serves reverse mode too.

    `f.defjvp(rule)`: `rule(primals, tangents) -> (result, tangent)`, linear in the tangents. Reverse mode
    differentiates the rule with respect to the tangents: a linear map's derivative is its transpose.
    """

    def __init__(self, fn: Fn) -> None:
        self.fn = fn
        self.rule: Fn | None = None
        self._reverse: custom_vjp | None = None
        update_wrapper(self, fn, updated=())

    def defjvp(self, rule: Fn) -> Fn:
        self.rule = rule
        inner = self.fn

        def fwd(*args: Any) -> Any:
            return inner(*args), args

        def bwd(args: Any, ct: Any) -> Any:
            still = pytree.map(lambda x: wrap(zeros(type_of(x._read()))), args, is_leaf=is_tensor)
            _, pull = vjp(lambda *ts: _moved(inner.__name__, rule(args, ts))[1], *still)
            return pull(ct)

        def body(*args: Any) -> Any:
            return inner(*args)

        body.__name__ = inner.__name__
        self._reverse = custom_vjp(body)
        self._reverse.defvjp(fwd, bwd)
        self._reverse.push = rule
        return rule

    def __call__(self, *args: Any) -> Any:
        if self.rule is None or self._reverse is None:
            raise GradientError(
                f"custom_jvp function {self.fn.__name__} has no rule yet",
                where=user_location(),
                expected="a forward-mode rule",
                remedy="call f.defjvp(rule) first",
            )
        from trilobite.ir.transforms.forward import Forward

        values, tree = read_tree(args)
        top = _top(values)
        if not isinstance(top, Forward):
            return self._reverse(*args)
        pairs = [top.split(v) for v in values]
        primals = tree.unflatten(wrap(p) for p, _ in pairs)
        tangents = tree.unflatten(wrap(zeros(type_of(p)) if t is None else t) for p, t in pairs)
        out, moved = _moved(self.fn.__name__, self.rule(primals, tangents))
        outs, out_tree = read_tree(out)
        return out_tree.unflatten(
            wrap(top.dual(o, t)) for o, t in zip(outs, read_tree(moved)[0], strict=True)
        )
