"""Recurrent cells over values, and the scan that carries one along a sequence.

A cell takes the input's share of the gates, computed beforehand for all steps in one product, and adds the
state's share. The step's graph is recorded once per kind and types, so that eager sequences do not record it
again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from trilobite.framework.nn.composites.activation import logistic
from trilobite.framework.nn.composites.arithmetic import add, le, mul, sub, tanh, where, wide, window
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


@composite("gru_cell")
def gru_cell(x: Value, h: Value, weight: Value, *bias: Value) -> Value:
    """Gates r and z, candidate n = tanh(xₙ + r·hₙ), result (1-z)·n + z·h."""
    mine, theirs = _parts(wide(x), 3), _parts(share(h, weight, bias), 3)
    r, z = (logistic(add(a, b)) for a, b in zip(mine[:2], theirs[:2], strict=True))
    n = tanh(add(mine[2], mul(r, theirs[2])))
    return astype(add(n, mul(z, sub(wide(h), n))), h.dtype)


@composite("lstm_cell")
def lstm_cell(x: Value, h: Value, c: Value, weight: Value, *bias: Value) -> tuple[Value, Value]:
    """Gates i, f, o and candidate g: c' = f·c + i·g, h' = o·tanh(c')."""
    i, f, g, o = _parts(add(wide(x), share(h, weight, bias)), 4)
    cell = add(mul(logistic(f), wide(c)), mul(logistic(i), tanh(g)))
    return astype(mul(logistic(o), tanh(cell)), h.dtype), astype(cell, c.dtype)


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
