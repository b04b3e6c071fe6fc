"""Control flow over tensors: cond, switch, while_loop, scan, fori_loop, associative_scan.

Bodies are recorded; what they read of the tensors around them becomes an operand, what they write to such
tensors becomes a result (in loops a carry) and is written when the primitive has run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trilobite.base import pytree
from trilobite.base.dtypes import bool_, int32
from trilobite.base.errors import ArgumentError, ShapeError, TraceError
from trilobite.base.locations import user_location
from trilobite.framework.ops.creation import to_array
from trilobite.framework.tensor import Tensor, wrap
from trilobite.framework.transforms import check_function, is_tensor, read_tree
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.cells import Cell
from trilobite.ir.transforms.record import Recording, record, record_graph, see
from trilobite.ir.types import TensorType, type_of

Fn = Callable[..., Any]


def record_body(
    fn: Fn, tree: pytree.Tree, types: Sequence[TensorType], name: str
) -> tuple[Recording, pytree.Tree]:
    """Record a function over a pytree of tensors; also the structure of what it returns."""
    found: list[pytree.Tree] = []

    def body(*values: Value) -> list[Value]:
        out = fn(*tree.unflatten(map(wrap, values)))
        results, shape = read_tree(out)
        found[:] = [shape]
        return results

    return record(body, types, name), found[0]


class Closed:
    """Several recordings made to share operands and writes: own arguments first, then the union of what they
    capture.
    """

    def __init__(self, recordings: Sequence[Recording], arguments: int) -> None:
        self.cells: dict[Cell, None] = {}
        self.writes: dict[Cell, None] = {}
        values: dict[int, Value] = {}
        for r in recordings:
            self.cells.update(dict.fromkeys(r.cells))
            self.cells.update(dict.fromkeys(r.writes))
            self.writes.update(dict.fromkeys(r.writes))
            values.update((id(v), v) for v in r.values)
        self.values = list(values.values())
        self.arguments = arguments

    def operands(self) -> list[Value]:
        return [see(c) for c in self.cells] + self.values

    def graph(self, r: Recording, types: Sequence[TensorType]) -> Graph:
        """The recording as a graph over (arguments, all captures) -> (results, all writes)."""
        at_cell = {c: i for i, c in enumerate(self.cells)}
        at_value = {id(v): len(self.cells) + i for i, v in enumerate(self.values)}
        n = self.arguments

        def body(*operands: Value) -> list[Value]:
            captured = operands[n:]
            picked = [captured[at_cell[c]] for c in r.cells] + [captured[at_value[id(v)]] for v in r.values]
            outs = run(r.graph, [*operands[:n], *picked])
            written = dict(zip(r.writes, outs[r.results :], strict=True))
            return outs[: r.results] + [written.get(c, captured[at_cell[c]]) for c in self.writes]

        return record_graph(body, [*types, *map(type_of, self.operands())], r.graph.name)

    def write_back(self, values: Sequence[Value]) -> None:
        for cell, value in zip(self.writes, values, strict=True):
            cells.write(cell, value)


# -- choices -------------------------------------------------------------------------------------------------


def cond(pred: Any, true_fn: Fn, false_fn: Fn, *operands: Any) -> Any:
    """`true_fn(*operands)` if `pred` else `false_fn(*operands)`; both must return the same structure and
    types.
    """
    p = pred._read() if isinstance(pred, Tensor) else to_array(pred)
    if p.shape != () or p.dtype != bool_:
        raise ArgumentError(
            f"cond on a tensor {type_of(p)}",
            where=user_location(),
            expected="a bool without dimensions",
            remedy="compare first: tb.cond(x > 0, ...)",
        )
    return _choose("cond", table["cast"](p, dtype=int32), [false_fn, true_fn], operands)


def switch(index: Any, branches: Sequence[Fn], *operands: Any) -> Any:
    """The branch that `index` names, clamped to those there are."""
    i = index._read() if isinstance(index, Tensor) else to_array(index)
    if i.shape != () or i.dtype.kind not in "iu":
        raise ArgumentError(
            f"switch on a tensor {type_of(i)}",
            where=user_location(),
            expected="an integer without dimensions",
            remedy="cast it: index.astype(tb.int64), or use tb.cond for two branches",
        )
    if not branches:
        raise ArgumentError(
            "switch without branches",
            where=user_location(),
            expected="at least one function",
            remedy="tb.switch(index, [f, g, ...], *operands)",
        )
    low, high = (table["full"](shape=(), dtype=i.dtype, value=v) for v in (0, len(branches) - 1))
    clamped = table["minimum"](table["maximum"](i, low), high)
    return _choose("switch", table["cast"](clamped, dtype=int32), list(branches), operands)


def _choose(what: str, index: Value, branches: Sequence[Fn], operands: Sequence[Any]) -> Any:
    for fn in branches:
        check_function(what, fn)
    values, tree = read_tree(tuple(operands))
    types = [type_of(v) for v in values]
    made = [record_body(fn, tree, types, f"{what}.{i}") for i, fn in enumerate(branches)]
    for _, shape in made[1:]:
        if shape != made[0][1]:
            raise ArgumentError(
                f"the branches of {what} return different structures: {made[0][1]} and {shape}",
                where=user_location(),
                expected="one structure",
                remedy="return the same nesting of tuples, lists and dicts from every branch",
            )
    _same_results(what, [r for r, _ in made])
    closed = Closed([r for r, _ in made], len(values))
    graphs = tuple(closed.graph(r, types) for r, _ in made)
    outs = table["cond"](index, *values, *closed.operands(), branches=graphs)
    n = made[0][0].results
    closed.write_back(outs[n:])
    return made[0][1].unflatten(map(wrap, outs[:n]))


def _same_results(what: str, recordings: Sequence[Recording]) -> None:
    rows = [r.graph.output_types[: r.results] for r in recordings]
    for row in rows[1:]:
        if row != rows[0]:
            raise ShapeError(
                f"the branches of {what} return {list(rows[0])} and {list(row)}",
                where=user_location(),
                expected="equal dtypes and shapes",
                remedy="cast or broadcast in the branches: astype, tb.broadcast_to",
            )


# -- loops ---------------------------------------------------------------------------------------------------


def _carry_types(
    what: str, before: Sequence[TensorType], after: Sequence[TensorType], trees: Sequence[pytree.Tree]
) -> None:
    if trees[0] != trees[1] or list(before) != list(after):
        raise ShapeError(
            f"the body of {what} turns a state {list(before)} into {list(after)}",
            where=user_location(),
            expected="the same structure, dtypes and shapes",
            remedy="cast the initial state or the result to one dtype",
        )


def while_loop(cond_fn: Fn, body_fn: Fn, init: Any) -> Any:
    """Repeat `state = body_fn(state)` as long as `cond_fn(state)`; forward-mode differentiable."""
    check_function("while_loop", cond_fn)
    check_function("while_loop", body_fn)
    values, tree = read_tree((init,))
    types = [type_of(v) for v in values]
    test, _ = record_body(cond_fn, tree, types, "while.test")
    body, shape = record_body(lambda s: (body_fn(s),), tree, types, "while.body")
    if [str(t) for t in test.graph.output_types] != ["bool[]"]:
        raise ArgumentError(
            f"the condition of while_loop returns {list(test.graph.output_types)}",
            where=user_location(),
            expected="a bool without dimensions",
            remedy="compare, and reduce with all() or any(): (s > 0).all()",
        )
    if test.writes:
        raise TraceError(
            "the condition of while_loop changes a tensor",
            where=user_location(),
            expected="a condition that only reads",
            remedy="change state in the body",
        )
    _carry_types("while_loop", types, body.graph.output_types[: body.results], (tree, shape))
    closed = Closed([test, body], len(values))
    written = list(closed.writes)
    captured = closed.operands()
    fixed = [c for c in closed.cells if c not in closed.writes]
    test_g, body_g = closed.graph(test, types), closed.graph(body, types)
    n, k = len(values), len(fixed) + len(closed.values)
    place = _Places(closed, fixed, written, n)
    order = [type_of(v) for v in place.constants(captured)]
    state_types = [*types, *(type_of(cells.read(c)) for c in written)]
    outer_test = record_graph(
        lambda *v: run(test_g, place.operands(v[:k], v[k:]))[:1], [*order, *state_types], "while.test"
    )
    outer_body = record_graph(
        lambda *v: run(body_g, place.operands(v[:k], v[k:])), [*order, *state_types], "while.body"
    )
    constants = place.constants(captured)
    outs = table["while"](
        *constants,
        *constants,
        *values,
        *(see(c) for c in written),
        test=outer_test,
        body=outer_body,
        consts=(k, k),
    )
    closed.write_back(outs[n:])
    return tree.unflatten(map(wrap, outs[:n]))[0]


class _Places:
    """Where a loop's operands stand: constants (captured, never written), then state (carries, then written
    cells).
    """

    def __init__(self, closed: Closed, fixed: Sequence[Cell], written: Sequence[Cell], carries: int) -> None:
        self.closed, self.fixed, self.written, self.carries = closed, list(fixed), list(written), carries

    def constants(self, captured: Sequence[Value]) -> list[Value]:
        at = {c: v for c, v in zip(self.closed.cells, captured, strict=False)}
        return [at[c] for c in self.fixed] + list(captured[len(self.closed.cells) :])

    def operands(
        self, constants: Sequence[Value], state: Sequence[Value], extra: Sequence[Value] = ()
    ) -> list[Value]:
        """(carries, extra, captured cells and values) in the order of the closed graph."""
        at = dict(zip(self.fixed, constants, strict=False)) | dict(
            zip(self.written, state[self.carries :], strict=True)
        )
        loose = constants[len(self.fixed) :]
        return [*state[: self.carries], *extra, *(at[c] for c in self.closed.cells), *loose]


def scan(fn: Fn, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False) -> Any:
    """`carry, y = fn(carry, x)` along the leading axis of `xs`; the last carry and the stacked `y`."""
    check_function("scan", fn)
    carry, carry_tree = read_tree(init)
    seqs, xs_tree = read_tree(xs)
    n = _length(seqs, length)
    types = [type_of(v) for v in carry] + [TensorType(v.shape[1:], v.dtype) for v in seqs]
    tree = pytree.Tree(tuple, None, (carry_tree, xs_tree), carry_tree.size + xs_tree.size)
    shapes: list[pytree.Tree] = []

    def step(c: Any, x: Any) -> tuple[Any, Any]:
        out = fn(c, x)
        if not isinstance(out, tuple) or len(out) != 2:
            raise ArgumentError(
                "the body of scan did not return a pair",
                where=user_location(),
                expected="(carry, output)",
                remedy="return carry, None if there is no output",
            )
        shapes[:] = [pytree.flatten(out[0], is_tensor)[1], pytree.flatten(out[1], is_tensor)[1]]
        return out

    body, _ = record_body(step, tree, types, "scan.body")
    c = len(carry)
    _carry_types("scan", types[:c], body.graph.output_types[: shapes[0].size], (carry_tree, shapes[0]))
    closed = Closed([body], len(types))
    written = list(closed.writes)
    fixed = [cell for cell in closed.cells if cell not in closed.writes]
    graph = closed.graph(body, types)
    place = _Places(closed, fixed, written, c)
    constants = place.constants(closed.operands())
    k, state = len(constants), [*carry, *(see(w) for w in written)]
    results = body.results

    def whole(*v: Value) -> list[Value]:
        outs = run(graph, place.operands(v[:k], v[k : k + len(state)], v[k + len(state) :]))
        return [*outs[:c], *outs[results:], *outs[c:results]]

    in_types = [*map(type_of, constants), *map(type_of, state), *types[c:]]
    outs = table["scan"](
        *constants,
        *state,
        *seqs,
        body=record_graph(whole, in_types, "scan.body"),
        consts=k,
        carries=len(state),
        length=n,
        reverse=reverse,
    )
    closed.write_back(outs[c : len(state)])
    return carry_tree.unflatten(map(wrap, outs[:c])), shapes[1].unflatten(map(wrap, outs[len(state) :]))


def _length(seqs: Sequence[Value], length: Any) -> Any:
    length = length.__index__() if isinstance(length, Tensor) else length
    sizes = {v.shape[0] if v.shape else None for v in seqs} | ({length} if length is not None else set())
    n = next(iter(sizes), None)
    if len(sizes) != 1 or n is None or (isinstance(n, int) and n < 0):
        found = ", ".join(sorted("a tensor without dimensions" if s is None else str(s) for s in sizes))
        raise ShapeError(
            f"scan over sequences of lengths {found or '(none is given)'}",
            where=user_location(),
            expected="one length that is not negative, given by the first axis of xs or by length=",
            remedy="cut the sequences to one length; what is the same at every step can be captured",
        )
    return n


def fori_loop(lower: Any, upper: Any, body_fn: Fn, init: Any) -> Any:
    """`state = body_fn(i, state)` for i from lower to upper. With fixed bounds differentiable both ways."""
    if isinstance(lower, Tensor) or isinstance(upper, Tensor):
        start, stop = (b if isinstance(b, Tensor) else wrap(to_array(b)) for b in (lower, upper))
        one = wrap(to_array(1, start.dtype))
        state = while_loop(lambda s: s[0] < stop, lambda s: (s[0] + one, body_fn(s[0], s[1])), (start, init))
        return state[1]
    import numpy as np

    from trilobite.framework.ops.creation import tensor

    if not (isinstance(lower, (int, np.integer)) and isinstance(upper, (int, np.integer))):
        raise ArgumentError(
            f"fori_loop from {lower!r} to {upper!r}",
            where=user_location(),
            expected="integers, or integer tensors",
            remedy="tb.while_loop takes any condition",
        )
    return scan(lambda s, i: (body_fn(i, s), None), init, tensor(np.arange(lower, upper)))[0]


def associative_scan(fn: Fn, xs: Any, reverse: bool = False, axis: int = 0) -> Any:
    """All prefixes `fn(fn(x0, x1), x2)...` along an axis, in logarithmic depth; `fn` must be associative."""
    leaves, tree = pytree.flatten(xs, is_tensor)
    if reverse:
        leaves = [_flip(x, axis) for x in leaves]
    out = _prefixes(
        lambda a, b: pytree.flatten(fn(tree.unflatten(a), tree.unflatten(b)), is_tensor)[0], leaves, axis
    )
    return tree.unflatten(_flip(x, axis) for x in out) if reverse else tree.unflatten(out)


def _flip(x: Tensor, axis: int) -> Tensor:
    return wrap(table["reverse"](x._read(), axes=(axis % x.ndim,)))


def _part(x: Tensor, axis: int, start: Any, stop: Any, step: int) -> Tensor:
    a, nd = axis % x.ndim, x.ndim
    at = {
        "start": tuple(start if i == a else 0 for i in range(nd)),
        "stop": tuple(stop if i == a else d for i, d in enumerate(x.shape)),
    }
    return wrap(table["slice"](x._read(), **at, step=tuple(step if i == a else 1 for i in range(nd))))


def _prefixes(
    fn: Callable[[list[Tensor], list[Tensor]], list[Tensor]], xs: list[Tensor], axis: int
) -> list[Tensor]:
    """Combine pairs, scan the pairs, then fill in the places between."""
    n = xs[0].shape[axis]
    if n < 2:
        return xs
    pairs = fn([_part(x, axis, 0, n - 1, 2) for x in xs], [_part(x, axis, 1, n, 2) for x in xs])
    odd = _prefixes(fn, pairs, axis)
    behind = [_part(x, axis, 2, n, 2) for x in xs]
    m = behind[0].shape[axis]
    even = fn([_part(o, axis, 0, m, 1) for o in odd], behind) if m else behind
    first = [_part(x, axis, 0, 1, 1) for x in xs]
    return [_interleave(f, e, o, axis, n) for f, e, o in zip(first, even, odd, strict=True)]


def _interleave(first: Tensor, even: Tensor, odd: Tensor, axis: int, n: Any) -> Tensor:
    """Even places: first, even...; odd places: odd..."""
    a = axis % first.ndim
    evens = table["concatenate"](first._read(), even._read(), axis=a) if even.shape[a] else first._read()
    return wrap(table["add"](_spread(evens, 0, a, n), _spread(odd._read(), 1, a, n)))


def _spread(v: Value, low: int, a: int, n: Any) -> Value:
    """Every second place of n along axis a, from `low` on; zeros between."""
    axes = range(v.ndim)
    return table["pad"](
        v,
        low=tuple(low if i == a else 0 for i in axes),
        high=tuple(n - low - 2 * v.shape[a] + 1 if i == a else 0 for i in axes),
        between=tuple(1 if i == a else 0 for i in axes),
        value=0,
    )
