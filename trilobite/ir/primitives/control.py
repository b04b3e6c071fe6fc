"""Control flow: `cond` (one of several branches), `while`, `scan`. Regions are closed graphs; what they read are operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import int32, is_inexact
from trilobite.base.errors import IRError
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import Absent, Attributes, Primitive, Value, table
from trilobite.ir.primitives.call import graph_flops
from trilobite.ir.primitives.common import count
from trilobite.ir.transforms.batch import Unmapped, all_mapped, lead
from trilobite.ir.transforms.forward import materialise
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.transforms.regions import batch_graph, check_same, forward_graph, reverse_graph
from trilobite.ir.transforms.tape import zeros
from trilobite.ir.types import Dim, TensorType, type_of

# -- cond --------------------------------------------------------------------------------------------------------------


def _cond_type(index: TensorType, *types: TensorType, branches: tuple[Graph, ...]) -> tuple[TensorType, ...]:
    if index.shape != () or index.dtype != int32:
        raise IRError(f"cond takes an int32 scalar as its index, not {index}")
    check_same("cond", branches)
    return branches[0].output_types


def _cond(index: Any, *values: Value, branches: tuple[Graph, ...]) -> tuple[Value, ...]:
    return tuple(run(branches[min(max(int(index), 0), len(branches) - 1)], values))


def _cond_jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Any, Any]:
    index, *values = primals
    active = [t is not None for t in tangents[1:]]
    derived = [forward_graph(b, active) for b in attrs["branches"]]
    n = len(attrs["branches"][0].outputs)
    out_active = [any(d[1][i] for d in derived) for i in range(n)]
    branches = tuple(_with_tangents(g, acts, out_active, n) for g, acts in derived)
    outs = cond(index, *values, *(t for t in tangents[1:] if t is not None), branches=branches)
    rest = iter(outs[n:])
    return tuple(outs[:n]), tuple(next(rest) if a else None for a in out_active)


def _with_tangents(graph: Graph, active: Sequence[bool], wanted: Sequence[bool], n: int) -> Graph:
    """Give every branch the same tangent outputs: zeros where this one has none."""

    def body(*values: Value) -> list[Value]:
        outs = run(graph, values)
        rest = iter(outs[n:])
        found = [next(rest) if a else None for a in active]
        return outs[:n] + [materialise(t, o) for t, o, w in zip(found, outs[:n], wanted, strict=True) if w]

    return record_graph(body, graph.input_types, graph.name)


def _cond_linearize(operands: Sequence[Value], wanted: Sequence[bool], attrs: Attributes) -> tuple[Sequence[Value], Any]:
    """Residuals of all branches travel together; those of branches not taken are zeros."""
    index, *values = operands
    branches: tuple[Graph, ...] = attrs["branches"]
    halves = [reverse_graph(b, wanted[1:]) for b in branches]
    layout = [h.residual_types for h in halves]
    n = len(branches[0].outputs)
    forwards = tuple(_padded_forward(h.forward, i, layout, n) for i, h in enumerate(halves))
    outs = cond(index, *values, branches=forwards)
    residuals = outs[n:]

    def pullback(cotangents: Sequence[Value]) -> list[Any]:
        cts = [ct for ct, t in zip(cotangents, branches[0].output_types, strict=True) if is_inexact(t.dtype)]
        ct_types = [type_of(ct) for ct in cts]
        backs = tuple(_padded_backward(h.backward, i, layout, ct_types) for i, h in enumerate(halves))
        found = iter(cond(index, *residuals, *cts, branches=backs))
        return [None, *(next(found) if w else None for w in halves[0].wanted)]

    return outs[:n], pullback


def _padded_forward(forward: Graph, which: int, layout: Sequence[Sequence[TensorType]], n: int) -> Graph:
    def body(*values: Value) -> list[Value]:
        outs = run(forward, values)
        rows = [outs[n:] if i == which else [_blank(t) for t in types] for i, types in enumerate(layout)]
        return outs[:n] + [r for row in rows for r in row]

    return record_graph(body, forward.input_types, forward.name)


def _blank(t: TensorType) -> Value:
    return table["full"](shape=t.shape, dtype=t.dtype, value=0)


def _padded_backward(back: Graph, which: int, layout: Sequence[Sequence[TensorType]], cts: Sequence[TensorType]) -> Graph:
    start = sum(len(types) for types in layout[:which])
    total = sum(len(types) for types in layout)

    def body(*values: Value) -> list[Value]:
        return run(back, [*values[start : start + len(layout[which])], *values[total:]])

    return record_graph(body, [*(t for types in layout for t in types), *cts], back.name)


def _cond_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> tuple[Any, ...]:
    branches: tuple[Graph, ...] = attrs["branches"]
    if mapped[0]:
        return _select_branches(size, values, mapped, branches)
    n = len(branches[0].outputs)
    first = [batch_graph(b, size, mapped[1:])[1] for b in branches]
    force = [any(f[i] for f in first) for i in range(n)]
    graphs = tuple(batch_graph(b, size, mapped[1:], force)[0] for b in branches)
    outs = cond(*values, branches=graphs)
    return tuple(o if m else Unmapped(o) for o, m in zip(outs, force, strict=True))


def _select_branches(size: Dim, values: Sequence[Value], mapped: Sequence[bool], branches: tuple[Graph, ...]) -> tuple[Any, ...]:
    """A choice per element of the batch: all branches run, and each element picks."""
    index, *rest = values
    n = len(branches[0].outputs)
    results = [
        run(batch_graph(b, size, [True] * len(rest), [True] * n)[0], all_mapped(size, rest, mapped[1:])) for b in branches
    ]
    outs = list(results[0])
    for i, row in enumerate(results[1:], start=1):
        pick = table["ge"](index, table["full"](shape=index.shape, dtype=index.dtype, value=i))
        outs = [_pick(pick, new, old) for new, old in zip(row, outs, strict=True)]
    return tuple(outs)


def _pick(pick: Value, new: Value, old: Value) -> Value:
    """select with a predicate that has only the leading axes."""
    p = table["broadcast"](pick, shape=new.shape, axes=tuple(range(pick.ndim)))
    return table["select"](p, new, old)


cond = Primitive(
    "cond", "index x", type=_cond_type, evaluate=_cond, whole_jvp=_cond_jvp, linearize=_cond_linearize, batch=_cond_batch,
    cost=lambda i, o, attrs: max(graph_flops(b) for b in attrs["branches"]), multiple=True,
    doc="the branch that the index names, clamped to those there are",
)  # fmt: skip

# -- while -------------------------------------------------------------------------------------------------------------
# Operands: constants of the condition, constants of the body, carries. Attributes say how many of each.


def _while_type(*types: TensorType, test: Graph, body: Graph, consts: tuple[int, int]) -> tuple[TensorType, ...]:
    carry = types[sum(consts) :]
    if tuple(body.output_types) != tuple(carry) or [str(t) for t in test.output_types] != ["bool[]"]:
        raise IRError(f"while: the body turns {list(carry)} into {list(body.output_types)}", expected="the same types, and a bool test")
    return tuple(carry)


def _while(*values: Value, test: Graph, body: Graph, consts: tuple[int, int]) -> tuple[Value, ...]:
    a, b = consts
    for_test, for_body, carry = values[:a], values[a : a + b], list(values[a + b :])
    while bool(run(test, [*for_test, *carry])[0]):
        carry = run(body, [*for_body, *carry])
    return tuple(carry)


def _while_jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Any, Any]:
    (a, b), test, body = attrs["consts"], attrs["test"], attrs["body"]
    carry, carry_t = primals[a + b :], tangents[a + b :]
    const_active = [t is not None for t in tangents[a : a + b]]
    active = _fixpoint([t is not None for t in carry_t], lambda now: forward_graph(body, [*const_active, *now])[1])
    derived, out_active = forward_graph(body, [*const_active, *active])
    n, extra = len(carry), sum(active)

    def new_body(*values: Value) -> list[Value]:
        consts, const_t = values[:b], values[b : b + sum(const_active)]
        x, t = values[b + sum(const_active) :][:n], values[b + sum(const_active) + n :]
        outs = run(derived, [*consts, *x, *const_t, *t])
        rest = iter(outs[n:])
        found = [next(rest) if a_ else None for a_ in out_active]
        return outs[:n] + [materialise(f, o) for f, o, w in zip(found, outs[:n], active, strict=True) if w]

    def new_test(*values: Value) -> list[Value]:
        return run(test, values[: a + n])

    const_ts = [t for t in tangents[a : a + b] if t is not None]
    carry_ts = [materialise(t, c) for t, c, w in zip(carry_t, carry, active, strict=True) if w]
    consts_now = [*primals[a : a + b], *const_ts]
    state = [*carry, *carry_ts]
    types = [type_of(v) for v in (*consts_now, *state)]
    step = record_graph(new_body, types, body.name)
    check = record_graph(new_test, [type_of(v) for v in (*primals[:a], *state)], test.name)
    outs = while_(*primals[:a], *consts_now, *state, test=check, body=step, consts=(a, len(consts_now)))
    rest = iter(outs[n : n + extra])
    return tuple(outs[:n]), tuple(next(rest) if w else None for w in active)


def _fixpoint(start: Sequence[bool], step: Any) -> list[bool]:
    """Grow a set of flags until the body adds none."""
    now = list(start)
    while True:
        new = [x or y for x, y in zip(now, step(now), strict=True)]
        if new == now:
            return now
        now = new


def _while_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> tuple[Any, ...]:
    (a, b), test, body = attrs["consts"], attrs["test"], attrs["body"]
    m_test, m_body = list(mapped[:a]), list(mapped[a : a + b])
    carry_mapped = _fixpoint(mapped[a + b :], lambda now: batch_graph(body, size, [*m_body, *now])[1])
    varies = batch_graph(test, size, [*m_test, *carry_mapped])[1][0]
    if varies:
        carry_mapped = [True] * len(carry_mapped)
    carry = [v if m or not w else lead(v, size) for v, m, w in zip(values[a + b :], mapped[a + b :], carry_mapped, strict=True)]
    new_test, _ = batch_graph(test, size, [*m_test, *carry_mapped])
    new_body, _ = batch_graph(body, size, [*m_body, *carry_mapped], carry_mapped)
    consts = list(values[: a + b])
    if not varies:
        outs = while_(*consts, *carry, test=new_test, body=new_body, consts=(a, b))
        return tuple(o if m else Unmapped(o) for o, m in zip(outs, carry_mapped, strict=True))
    return _while_until_all_done(consts, carry, new_test, new_body, a)


def _while_until_all_done(consts: list[Value], carry: list[Value], test: Graph, body: Graph, a: int) -> tuple[Any, ...]:
    """Elements that are done keep their value while the others go on."""
    n_consts = len(consts)

    def any_left(*values: Value) -> list[Value]:
        (left,) = run(test, [*values[:a], *values[n_consts:]])
        number = table["reduce_max"](table["cast"](left, dtype=int32), axes=(0,))
        return [table["gt"](number, table["full"](shape=(), dtype=int32, value=0))]

    def masked(*values: Value) -> list[Value]:
        old = values[n_consts:]
        (left,) = run(test, [*values[:a], *old])
        new = run(body, [*values[a:n_consts], *old])
        return [_pick(left, x, y) for x, y in zip(new, old, strict=True)]

    types = [type_of(v) for v in (*consts, *carry)]
    checked, step = record_graph(any_left, types, test.name), record_graph(masked, types, body.name)
    # Both regions see all constants, so each gets a copy of them.
    out: tuple[Any, ...] = while_(*consts, *consts, *carry, test=checked, body=step, consts=(n_consts, n_consts))
    return out


while_ = Primitive(
    "while", "x", type=_while_type, evaluate=_while, whole_jvp=_while_jvp, batch=_while_batch,
    vjp=Absent("the number of steps is not known in advance, so reverse mode cannot keep them; use scan or fori_loop"),
    cost=lambda i, o, attrs: graph_flops(attrs["body"]), multiple=True, doc="repeat the body as long as the test holds",
)  # fmt: skip

# -- scan --------------------------------------------------------------------------------------------------------------
# Operands: constants, carries, sequences (scanned along axis 0). Results: carries, stacked outputs.
# The body: constants, carries, elements -> carries, outputs.


def _scan_type(*types: TensorType, body: Graph, consts: int, carries: int, length: Dim, reverse: bool) -> tuple[TensorType, ...]:
    carry = types[consts : consts + carries]
    if tuple(body.output_types[:carries]) != tuple(carry):
        raise IRError(f"scan: the body turns carries {list(carry)} into {list(body.output_types[:carries])}", expected="equal types")
    for t in types[consts + carries :]:
        if not t.shape or t.shape[0] != length:
            raise IRError(f"scan of length {length} over a sequence {t}")
    ys = [TensorType((length, *t.shape), t.dtype) for t in body.output_types[carries:]]
    return (*carry, *ys)


def _scan(*values: Value, body: Graph, consts: int, carries: int, length: int, reverse: bool) -> tuple[Value, ...]:
    fixed, carry, xs = values[:consts], list(values[consts : consts + carries]), values[consts + carries :]
    ys = [np.empty((length, *t.shape), t.dtype) for t in _sized(body, values, carries)]
    for i in range(length - 1, -1, -1) if reverse else range(length):
        outs = run(body, [*fixed, *carry, *(np.asarray(x[i]) for x in xs)])
        carry = outs[:carries]
        for y, out in zip(ys, outs[carries:], strict=True):
            y[i] = out
    return (*carry, *ys)


def _sized(body: Graph, values: Sequence[Value], carries: int) -> list[TensorType]:
    from trilobite.ir.types import bind_symbols, substitute

    types = body.output_types[carries:]
    if not body.symbols:
        return list(types)
    n = len(values)
    actual = [v.shape if len(v.shape) == len(t.shape) else v.shape[1:] for v, t in zip(values, body.input_types[:n], strict=True)]
    sizes = bind_symbols(zip((t.shape for t in body.input_types), actual, strict=True))
    return [TensorType(substitute(t.shape, sizes), t.dtype) for t in types]


def _scan_jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Any, Any]:
    body, k, c = attrs["body"], attrs["consts"], attrs["carries"]
    flags = [t is not None for t in tangents]
    const_a, xs_a = flags[:k], flags[k + c :]
    carry_a = _fixpoint(flags[k : k + c], lambda now: forward_graph(body, [*const_a, *now, *xs_a])[1][:c])
    derived, out_active = forward_graph(body, [*const_a, *carry_a, *xs_a])
    n_out = len(body.outputs)
    y_active = list(out_active[c:])

    def step(*values: Value) -> list[Value]:
        it = iter(values)
        take = lambda n: [next(it) for _ in range(n)]  # noqa: E731
        consts, consts_t = take(k), take(sum(const_a))
        carry, carry_t = take(c), take(sum(carry_a))
        xs, xs_t = take(len(xs_a)), take(sum(xs_a))
        outs = run(derived, [*consts, *carry, *xs, *consts_t, *carry_t, *xs_t])
        rest = iter(outs[n_out:])
        found = [next(rest) if a else None for a in out_active]
        new_t = [materialise(found[i], outs[i]) for i in range(c) if carry_a[i]]
        return [*outs[:c], *new_t, *outs[c:n_out], *(found[c + i] for i, a in enumerate(y_active) if a)]

    split = lambda values, ts: [*values, *(t for t in ts if t is not None)]  # noqa: E731
    consts = split(primals[:k], tangents[:k])
    carry_ts = [materialise(t, p) if a else None for t, p, a in zip(tangents[k : k + c], primals[k : k + c], carry_a, strict=True)]
    carry = split(primals[k : k + c], carry_ts)
    xs = split(primals[k + c :], tangents[k + c :])
    types = [type_of(v) for v in (*consts, *carry)] + [TensorType(v.shape[1:], v.dtype) for v in xs]
    outs = scan(
        *consts, *carry, *xs, body=record_graph(step, types, body.name), consts=len(consts), carries=len(carry),
        length=attrs["length"], reverse=attrs["reverse"],
    )  # fmt: skip
    n_carry_t = sum(carry_a)
    new_carry, new_carry_t = outs[:c], iter(outs[c : c + n_carry_t])
    ys = outs[c + n_carry_t : n_out + n_carry_t]
    ys_t = iter(outs[n_out + n_carry_t :])
    out_t = [next(new_carry_t) if a else None for a in carry_a] + [next(ys_t) if a else None for a in y_active]
    return (*new_carry, *ys), tuple(out_t)


def _scan_linearize(operands: Sequence[Value], wanted: Sequence[bool], attrs: Attributes) -> tuple[Sequence[Value], Any]:
    """Forward keeps the residuals of every step as stacked outputs; backward scans them in the other direction."""
    body, k, c = attrs["body"], attrs["consts"], attrs["carries"]
    flow = [w and is_inexact(t.dtype) for w, t in zip(wanted, body.input_types, strict=True)]
    carry_w = _fixpoint(flow[k : k + c], lambda now: _carry_depends(body, [*flow[:k], *now, *flow[k + c :]], c))
    wanted = [*flow[:k], *carry_w, *flow[k + c :]]
    halves = reverse_graph(body, wanted)
    outs = scan(*operands, **{**attrs, "body": halves.forward})
    n = len(body.outputs)
    residuals = outs[n:]

    def pullback(cotangents: Sequence[Value]) -> list[Any]:
        return _scan_pullback(operands, residuals, cotangents, halves, attrs)

    return outs[:n], pullback


def _carry_depends(body: Graph, wanted: Sequence[bool], c: int) -> list[bool]:
    """A carry takes part in the derivative if it is inexact and some wanted input reaches it."""
    reached = {v for v, w in zip(body.inputs, wanted, strict=True) if w}
    for e in body.equations:
        if any(v in reached for v in e.inputs):
            reached.update(v for v in e.outputs if is_inexact(v.type.dtype))
    return [v in reached for v in body.outputs[:c]]


def _scan_pullback(
    operands: Sequence[Value], residuals: Sequence[Value], cotangents: Sequence[Value], halves: Any, attrs: Attributes
) -> list[Any]:
    body, k, c = attrs["body"], attrs["consts"], attrs["carries"]
    wanted = halves.wanted
    types = body.output_types
    live = [is_inexact(t.dtype) for t in types]
    const_w, carry_w, xs_w = wanted[:k], wanted[k : k + c], wanted[k + c :]
    n_res, n_const = len(residuals), sum(const_w)
    flowing = [i for i in range(c) if live[i]]  # carries whose cotangent the backward graph takes

    def step(*values: Value) -> list[Value]:
        sums, ct_carry, rest = values[:n_const], values[n_const : n_const + len(flowing)], values[n_const + len(flowing) :]
        res, ct_ys = rest[:n_res], rest[n_res:]
        found = iter(run(halves.backward, [*res, *ct_carry, *ct_ys]))
        ct_consts = [table["add"](s, next(found)) for s in sums]
        new = {i: next(found) for i in range(c) if carry_w[i]}
        ct_xs = list(found)
        carried = [new[i] if i in new else zeros(types[i]) for i in flowing]
        return [*ct_consts, *carried, *ct_xs]

    sums = [zeros(type_of(v)) for v, w in zip(operands[:k], const_w, strict=True) if w]
    carry_cts = [cotangents[i] for i in flowing]
    y_cts = [cotangents[i] for i in range(c, len(types)) if live[i]]
    state, xs = [*sums, *carry_cts], [*residuals, *y_cts]
    in_types = [type_of(v) for v in state] + [TensorType(v.shape[1:], v.dtype) for v in xs]
    outs = scan(
        *state, *xs, body=record_graph(step, in_types, f"{body.name}.bwd"), consts=0, carries=len(state),
        length=attrs["length"], reverse=not attrs["reverse"],
    )  # fmt: skip
    consts, carried = iter(outs[:n_const]), dict(zip(flowing, outs[n_const : len(state)], strict=True))
    xs_out = iter(outs[len(state) :])
    result: list[Any] = [next(consts) if w else None for w in const_w]
    result += [carried[i] if w else None for i, w in enumerate(carry_w)]
    return result + [next(xs_out) if w else None for w in xs_w]


def _scan_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> tuple[Any, ...]:
    body, k, c = attrs["body"], attrs["consts"], attrs["carries"]
    m_const, m_xs = list(mapped[:k]), list(mapped[k + c :])
    m_carry = _fixpoint(mapped[k : k + c], lambda now: batch_graph(body, size, [*m_const, *now, *m_xs])[1][:c])
    force = [*m_carry, *[False] * (len(body.outputs) - c)]
    graph, out_mapped = batch_graph(body, size, [*m_const, *m_carry, *m_xs], force)
    carry = [v if m or not w else lead(v, size) for v, m, w in zip(values[k : k + c], mapped[k : k + c], m_carry, strict=True)]
    xs = [_swap(v) if m else v for v, m in zip(values[k + c :], m_xs, strict=True)]
    outs = scan(*values[:k], *carry, *xs, **{**attrs, "body": graph})
    results: list[Any] = []
    for i, (o, m) in enumerate(zip(outs, out_mapped, strict=True)):
        results.append(Unmapped(o) if not m else o if i < c else _swap(o))
    return tuple(results)


def _swap(v: Value) -> Value:
    """Exchange the batch axis and the sequence axis."""
    return table["transpose"](v, axes=(1, 0, *range(2, v.ndim)))


scan = Primitive(
    "scan", "x", type=_scan_type, evaluate=_scan, whole_jvp=_scan_jvp, linearize=_scan_linearize, batch=_scan_batch,
    cost=lambda i, o, attrs: graph_flops(attrs["body"]) * count(attrs["length"]), multiple=True,
    doc="carry a state along a sequence and stack what each step gives",
)  # fmt: skip
