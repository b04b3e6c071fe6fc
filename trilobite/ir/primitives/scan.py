"""`scan`: carry a state along a sequence.

Operands: constants, carries, sequences (scanned along axis 0). Results: carries, stacked outputs.
The body: constants, carries, elements -> carries, outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from trilobite.base.dtypes import is_inexact
from trilobite.base.errors import IRError
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import Attributes, Primitive, Value, table
from trilobite.ir.primitives.call import graph_flops
from trilobite.ir.primitives.common import count
from trilobite.ir.transforms.batch import Unmapped, lead
from trilobite.ir.transforms.forward import materialise
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.transforms.regions import batch_graph, fixpoint, forward_graph, reverse_graph
from trilobite.ir.transforms.tape import zeros
from trilobite.ir.types import Dim, TensorType, bind_symbols, substitute, type_of


def _scan_type(
    *types: TensorType, body: Graph, consts: int, carries: int, length: Dim, reverse: bool
) -> tuple[TensorType, ...]:
    carry = types[consts : consts + carries]
    if tuple(body.output_types[:carries]) != tuple(carry):
        raise IRError(
            f"scan: the body turns carries {list(carry)} into {list(body.output_types[:carries])}",
            expected="equal types",
        )
    for t in types[consts + carries :]:
        if not t.shape or t.shape[0] != length:
            raise IRError(f"scan of length {length} over a sequence {t}")
    ys = [TensorType((length, *t.shape), t.dtype) for t in body.output_types[carries:]]
    return (*carry, *ys)


def _scan(
    *values: Value, body: Graph, consts: int, carries: int, length: int, reverse: bool
) -> tuple[Value, ...]:
    fixed, carry, xs = values[:consts], list(values[consts : consts + carries]), values[consts + carries :]
    ys = [np.empty((length, *t.shape), t.dtype) for t in _sized(body, values, carries)]
    for i in range(length - 1, -1, -1) if reverse else range(length):
        outs = run(body, [*fixed, *carry, *(np.asarray(x[i]) for x in xs)])
        carry = outs[:carries]
        for y, out in zip(ys, outs[carries:], strict=True):
            y[i] = out
    return (*carry, *ys)


def _sized(body: Graph, values: Sequence[Value], carries: int) -> list[TensorType]:
    types = body.output_types[carries:]
    if not body.symbols:
        return list(types)
    n = len(values)
    actual = [
        v.shape if len(v.shape) == len(t.shape) else v.shape[1:]
        for v, t in zip(values, body.input_types[:n], strict=True)
    ]
    sizes = bind_symbols(zip((t.shape for t in body.input_types), actual, strict=True))
    return [TensorType(substitute(t.shape, sizes), t.dtype) for t in types]


def _with_tangents(values: Sequence[Value], tangents: Sequence[Any]) -> list[Value]:
    return [*values, *(t for t in tangents if t is not None)]


def _scan_jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Any, Any]:
    body, k, c = attrs["body"], attrs["consts"], attrs["carries"]
    flags = [t is not None for t in tangents]
    const_a, xs_a = flags[:k], flags[k + c :]
    carry_a = fixpoint(flags[k : k + c], lambda now: forward_graph(body, [*const_a, *now, *xs_a])[1][:c])
    derived, out_active = forward_graph(body, [*const_a, *carry_a, *xs_a])
    n_out = len(body.outputs)
    y_active = list(out_active[c:])

    def step(*values: Value) -> list[Value]:
        it = iter(values)
        counts = (k, sum(const_a), c, sum(carry_a), len(xs_a), sum(xs_a))
        consts, consts_t, carry, carry_t, xs, xs_t = (list(islice(it, n)) for n in counts)
        outs = run(derived, [*consts, *carry, *xs, *consts_t, *carry_t, *xs_t])
        rest = iter(outs[n_out:])
        found = [next(rest) if a else None for a in out_active]
        new_t = [materialise(found[i], outs[i]) for i in range(c) if carry_a[i]]
        return [*outs[:c], *new_t, *outs[c:n_out], *(found[c + i] for i, a in enumerate(y_active) if a)]

    consts = _with_tangents(primals[:k], tangents[:k])
    carry_ts = [
        materialise(t, p) if a else None
        for t, p, a in zip(tangents[k : k + c], primals[k : k + c], carry_a, strict=True)
    ]
    carry = _with_tangents(primals[k : k + c], carry_ts)
    xs = _with_tangents(primals[k + c :], tangents[k + c :])
    types = [type_of(v) for v in (*consts, *carry)] + [TensorType(v.shape[1:], v.dtype) for v in xs]
    outs = scan(
        *consts,
        *carry,
        *xs,
        body=record_graph(step, types, body.name),
        consts=len(consts),
        carries=len(carry),
        length=attrs["length"],
        reverse=attrs["reverse"],
    )
    n_carry_t = sum(carry_a)
    new_carry, new_carry_t = outs[:c], iter(outs[c : c + n_carry_t])
    ys = outs[c + n_carry_t : n_out + n_carry_t]
    ys_t = iter(outs[n_out + n_carry_t :])
    out_t = [next(new_carry_t) if a else None for a in carry_a] + [
        next(ys_t) if a else None for a in y_active
    ]
    return (*new_carry, *ys), tuple(out_t)


def _scan_linearize(
    operands: Sequence[Value], wanted: Sequence[bool], attrs: Attributes
) -> tuple[Sequence[Value], Any]:
    """Forward keeps the residuals of every step as stacked outputs; backward scans them in the other
    direction.
    """
    body, k, c = attrs["body"], attrs["consts"], attrs["carries"]
    flow = [w and is_inexact(t.dtype) for w, t in zip(wanted, body.input_types, strict=True)]
    carry_w = fixpoint(
        flow[k : k + c], lambda now: _carry_depends(body, [*flow[:k], *now, *flow[k + c :]], c)
    )
    wanted = [*flow[:k], *carry_w, *flow[k + c :]]
    halves = reverse_graph(body, wanted)
    halves.forward.__dict__["_whole"] = {"body": body}  # for a recording that needs no residual
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
    operands: Sequence[Value],
    residuals: Sequence[Value],
    cotangents: Sequence[Value],
    halves: Any,
    attrs: Attributes,
) -> list[Any]:
    body, k, c = attrs["body"], attrs["consts"], attrs["carries"]
    wanted = halves.wanted
    types = body.output_types
    live = [is_inexact(t.dtype) for t in types]
    const_w, carry_w, xs_w = wanted[:k], wanted[k : k + c], wanted[k + c :]
    n_res, n_const = len(residuals), sum(const_w)
    flowing = [i for i in range(c) if live[i]]  # carries whose cotangent the backward graph takes

    def step(*values: Value) -> list[Value]:
        sums, ct_carry, rest = (
            values[:n_const],
            values[n_const : n_const + len(flowing)],
            values[n_const + len(flowing) :],
        )
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
        *state,
        *xs,
        body=record_graph(step, in_types, f"{body.name}.bwd"),
        consts=0,
        carries=len(state),
        length=attrs["length"],
        reverse=not attrs["reverse"],
    )
    consts, carried = iter(outs[:n_const]), dict(zip(flowing, outs[n_const : len(state)], strict=True))
    xs_out = iter(outs[len(state) :])
    result: list[Any] = [next(consts) if w else None for w in const_w]
    result += [carried[i] if w else None for i, w in enumerate(carry_w)]
    return result + [next(xs_out) if w else None for w in xs_w]


def _scan_batch(
    size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes
) -> tuple[Any, ...]:
    body, k, c = attrs["body"], attrs["consts"], attrs["carries"]
    m_const, m_xs = list(mapped[:k]), list(mapped[k + c :])
    m_carry = fixpoint(mapped[k : k + c], lambda now: batch_graph(body, size, [*m_const, *now, *m_xs])[1][:c])
    force = [*m_carry, *[False] * (len(body.outputs) - c)]
    graph, out_mapped = batch_graph(body, size, [*m_const, *m_carry, *m_xs], force)
    carry = [
        v if m or not w else lead(v, size)
        for v, m, w in zip(values[k : k + c], mapped[k : k + c], m_carry, strict=True)
    ]
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
    "scan",
    "x",
    type=_scan_type,
    evaluate=_scan,
    whole_jvp=_scan_jvp,
    linearize=_scan_linearize,
    batch=_scan_batch,
    cost=lambda i, o, attrs: graph_flops(attrs["body"]) * count(attrs["length"]),
    multiple=True,
    doc="carry a state along a sequence and stack what each step gives",
)
