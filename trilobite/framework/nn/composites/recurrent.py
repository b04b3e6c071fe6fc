"""Recurrent cells over values, and the scan that carries one along a sequence.

A cell takes the input's share of the gates, computed beforehand for all steps in one product, and adds the
state's share. The step's graph is recorded once per kind and types, so that eager sequences do not record it
again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from trilobite.framework.nn.composites.arithmetic import (
    add,
    join,
    le,
    mul,
    reshape,
    sub,
    tanh,
    total,
    where,
    wide,
    window,
)
from trilobite.framework.ops.meeting import astype
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import Value, types_of
from trilobite.ir.primitives import table
from trilobite.ir.transforms.composite import Composite, composite
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType


def share(state: Value, weight: Value, bias: Sequence[Value] = ()) -> Value:
    """state·weightᵀ + bias, in the wide dtype."""
    out = table["dot"](state, weight, contract=((state.ndim - 1,), (1,)), batch=((), ()), dtype=state.dtype)
    return add(wide(out), wide(bias[0])) if bias else wide(out)


def _parts(gates: Value, count: int) -> list[Value]:
    last, n = gates.ndim - 1, gates.shape[-1] // count
    return [window(gates, last, i * n, (i + 1) * n) for i in range(count)]


def gate(x: Value) -> Value:
    """The logistic function by tanh: no branch, and no slope of any order overflows."""
    return add(mul(tanh(mul(x, 0.5)), 0.5), 0.5)


def _gate_slope(ct: Value, g: Value) -> Value:
    """The cotangent before a gate, from that behind it and the gate."""
    return mul(ct, mul(g, sub(1.0, g)))


def _tanh_slope(ct: Value, t: Value) -> Value:
    return mul(ct, sub(1.0, mul(t, t)))


def _rnn(x: Value, h: Value, weight: Value, *bias: Value, relu: bool) -> Value:
    total = add(wide(x), share(h, weight, bias))
    return astype(where(le(total, 0.0), 0.0, total) if relu else tanh(total), h.dtype)


@composite("rnn_cell")
def rnn_cell(x: Value, h: Value, weight: Value, *bias: Value) -> Value:
    """tanh(x + h·weightᵀ + bias)."""
    return _rnn(x, h, weight, *bias, relu=False)


@composite("rnn_relu_cell")
def rnn_relu_cell(x: Value, h: Value, weight: Value, *bias: Value) -> Value:
    """relu(x + h·weightᵀ + bias)."""
    return _rnn(x, h, weight, *bias, relu=True)


# -- cells with gates: their reverse rules are stated, since derived ones take four times as many passes -----


def _share_back(gates: Value, h: Value, weight: Value, bias: Sequence[Value]) -> tuple[Value, list[Value]]:
    """Cotangents of the state's share: of the state, and of weight and bias."""
    narrow = astype(gates, h.dtype)
    lead = tuple(range(h.ndim - 1))
    to_state = table["dot"](narrow, weight, contract=((h.ndim - 1,), (0,)), batch=((), ()), dtype=h.dtype)
    if lead:
        to_weight = table["dot"](narrow, h, contract=(lead, lead), batch=((), ()), dtype=weight.dtype)
    else:
        to_weight = mul(reshape(narrow, shape=(*narrow.shape, 1)), reshape(h, shape=(1, *h.shape)))
    to_bias = [astype(total(gates, lead), b.dtype) for b in bias]
    return to_state, [to_weight, *to_bias]


def _gru(x: Value, h: Value, weight: Value, *bias: Value) -> Value:
    """Gates r and z, candidate n = tanh(xₙ + r·hₙ), result (1-z)·n + z·h."""
    return _gru_forward(x, h, weight, *bias)[0]


def _gru_forward(x: Value, h: Value, weight: Value, *bias: Value) -> tuple[Value, tuple[Value, ...]]:
    mine, theirs = _parts(wide(x), 3), _parts(share(h, weight, bias), 3)
    r, z = (gate(add(a, b)) for a, b in zip(mine[:2], theirs[:2], strict=True))
    n = tanh(add(mine[2], mul(r, theirs[2])))
    out = astype(add(n, mul(z, sub(wide(h), n))), h.dtype)
    return out, (r, z, n, theirs[2], x, h, weight, *bias)


def _gru_backward(residuals: Sequence[Value], cts: Sequence[Value]) -> list[Value]:
    r, z, n, hn, x, h, weight, *bias = residuals
    ct = wide(cts[0])
    at_n = _tanh_slope(mul(ct, sub(1.0, z)), n)
    at_r = _gate_slope(mul(at_n, hn), r)
    at_z = _gate_slope(mul(ct, sub(wide(h), n)), z)
    last = at_n.ndim - 1
    to_state, rest = _share_back(join([at_r, at_z, mul(at_n, r)], last), h, weight, bias)
    to_state = astype(add(wide(to_state), mul(ct, z)), h.dtype)
    return [astype(join([at_r, at_z, at_n], last), x.dtype), to_state, *rest]


gru_cell = composite("gru_cell", _gru_forward, _gru_backward)(_gru)


def _lstm(x: Value, h: Value, c: Value, weight: Value, *bias: Value) -> tuple[Value, Value]:
    """Gates i, f, o and candidate g: c' = f·c + i·g, h' = o·tanh(c')."""
    return _lstm_forward(x, h, c, weight, *bias)[0]


def _lstm_forward(
    x: Value, h: Value, c: Value, weight: Value, *bias: Value
) -> tuple[tuple[Value, Value], tuple[Value, ...]]:
    raw = _parts(add(wide(x), share(h, weight, bias)), 4)
    i, f, g, o = gate(raw[0]), gate(raw[1]), tanh(raw[2]), gate(raw[3])
    cell = add(mul(f, wide(c)), mul(i, g))
    t = tanh(cell)
    outs = astype(mul(o, t), h.dtype), astype(cell, c.dtype)
    return outs, (i, f, g, o, t, x, h, c, weight, *bias)


def _lstm_backward(residuals: Sequence[Value], cts: Sequence[Value]) -> list[Value]:
    i, f, g, o, t, x, h, c, weight, *bias = residuals
    ct_h, ct_c = (wide(ct) for ct in cts)
    cell = add(ct_c, _tanh_slope(mul(ct_h, o), t))
    raw = [
        _gate_slope(mul(cell, g), i),
        _gate_slope(mul(cell, wide(c)), f),
        _tanh_slope(mul(cell, i), g),
        _gate_slope(mul(ct_h, t), o),
    ]
    gates = join(raw, t.ndim - 1)
    to_state, rest = _share_back(gates, h, weight, bias)
    return [astype(gates, x.dtype), to_state, astype(mul(cell, f), c.dtype), *rest]


lstm_cell = composite("lstm_cell", _lstm_forward, _lstm_backward)(_lstm)


CELLS: dict[str, tuple[Composite, int, int]] = {
    "tanh": (rnn_cell, 1, 1),
    "relu": (rnn_relu_cell, 1, 1),
    "gru": (gru_cell, 3, 1),
    "lstm": (lstm_cell, 4, 2),
}
"""Per kind: the cell, how many gates it has, and how many states it carries."""


def carried(
    kind: str,
    x: Value,
    state: Sequence[Value],
    weights: Sequence[Value],
    project: Value | None,
    live: Value | None,
    reverse: bool,
) -> tuple[Value, list[Value]]:
    """Outputs of all steps, and the last state. `live` (steps, batch, 1) says where a step counts: elsewhere
    the state stays as it is and the output is 0. `project` shortens the output of an lstm before it goes
    on.
    """
    fixed = [*weights, *([] if project is None else [project])]
    steps = [x, *([] if live is None else [live])]
    inner = [TensorType(v.shape[1:], v.dtype) for v in steps]
    layout = (kind, len(fixed), project is not None, live is not None)
    body = _step(layout, (*types_of(fixed), *types_of(state), *inner))
    outs = table["scan"](
        *fixed,
        *state,
        *steps,
        body=body,
        consts=len(fixed),
        carries=len(state),
        length=x.shape[0],
        reverse=reverse,
    )
    return outs[-1], list(outs[: len(state)])


@lru_cache(maxsize=256)
def _step(layout: tuple[str, int, bool, bool], types: tuple[TensorType, ...]) -> Graph:
    kind, fixed, projects, masked = layout
    cell, _, states = CELLS[kind]

    def step(*values: Value) -> list[Value]:
        weights, rest = list(values[:fixed]), values[fixed:]
        project = weights.pop() if projects else None
        old, x = rest[:states], rest[states]
        out = cell(x, *old, *weights)
        new = list(out) if isinstance(out, tuple) else [out]
        if project is not None:
            new[0] = astype(share(new[0], project), new[0].dtype)
        shown = new[0]
        if masked:
            live = rest[states + 1]
            new = [where(live, a, b) for a, b in zip(new, old, strict=True)]
            shown = where(live, shown, 0.0)
        return [*new, shown]

    return record_graph(step, types, f"{kind}.step")
