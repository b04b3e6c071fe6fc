"""RNN, GRU and LSTM: one or two directions, lengths per sequence, any of the activations ONNX names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import trilobite as tb
from trilobite.framework.nn import functional as F
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.registry import operator
from trilobite.inference.operators.shaping import back_to_front
from trilobite.ir.types import Dim

Gate = Callable[[Tensor], Tensor]
ALL = slice(None)

_GATES: dict[str, Callable[[float, float], Gate]] = {
    "relu": lambda a, b: F.relu,
    "tanh": lambda a, b: tb.tanh,
    "sigmoid": lambda a, b: tb.sigmoid,
    "affine": lambda a, b: lambda x: x * a + b,
    "leakyrelu": lambda a, b: lambda x: F.leaky_relu(x, a),
    "thresholdedrelu": lambda a, b: lambda x: tb.where(x >= a, x, 0.0),
    "scaledtanh": lambda a, b: lambda x: tb.tanh(x * b) * a,
    "hardsigmoid": lambda a, b: lambda x: tb.clip(x * a + b, 0.0, 1.0),
    "elu": lambda a, b: lambda x: F.elu(x, a),
    "softsign": lambda a, b: F.softsign,
    "softplus": lambda a, b: F.softplus,
}
_DEFAULTS = {"leakyrelu": (0.01, 0.0), "hardsigmoid": (0.2, 0.5), "elu": (1.0, 0.0)}
_TAKES = {"affine": (1, 1), "leakyrelu": (1, 0), "thresholdedrelu": (1, 0), "scaledtanh": (1, 1),
          "hardsigmoid": (1, 1), "elu": (1, 0)}  # fmt: skip
"""How many alphas and betas of the node's lists an activation uses up."""


def gates(node: Node, usual: Sequence[str], directions: int) -> list[list[Gate]]:
    """Activations per direction, each held within the clip if there is one."""
    names = node.attribute("activations") or tuple(usual) * directions
    alphas, betas = (
        list(node.attribute("activation_alpha") or ()),
        list(node.attribute("activation_beta") or ()),
    )
    clip, out = node.attribute("clip"), []
    for name in names:
        key = name.lower()
        a, b = _DEFAULTS.get(key, (1.0, 0.0))
        takes = _TAKES.get(key, (0, 0))
        a = alphas.pop(0) if takes[0] and alphas else a
        b = betas.pop(0) if takes[1] and betas else b
        gate = _GATES[key](a, b)
        out.append(gate if clip is None else _clipped(gate, clip))
    n = len(usual)
    return [out[i : i + n] for i in range(0, len(out), n)]


def _clipped(gate: Gate, edge: float) -> Gate:
    return lambda x: gate(tb.clip(x, -edge, edge))


class Product(Protocol):
    """Rows times the weights of some gates."""

    def __call__(self, x: Tensor, gates: slice = ALL) -> Tensor: ...


def products(w: Tensor) -> list[Product]:
    """With weights (directions, gates, features), one for each direction."""

    def of(each: Tensor) -> Product:
        return lambda x, gates=ALL: tb.matmul(x, tb.matrix_transpose(each if gates == ALL else each[gates]))

    return [of(w[d]) for d in range(w.shape[0])]


class Weights(NamedTuple):
    """Of one direction: products with input and state, and their biases."""

    w: Product
    r: Product
    wb: Tensor | None
    rb: Tensor | None
    peep: Tensor | None


Cell = Callable[[Weights, Sequence[Gate], Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]


def _parts(x: Tensor, count: int) -> list[Tensor]:
    n = x.shape[-1] // count
    return [x[..., i * n : (i + 1) * n] for i in range(count)]


def _plus(x: Tensor, bias: Tensor | None) -> Tensor:
    return x if bias is None else x + bias


def _rnn_cell(k: Weights, f: Sequence[Gate], x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (f[0](x + _plus(k.r(state[0]), k.rb)),)


def _lstm_cell(k: Weights, f: Sequence[Gate], x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    h, c = state
    i, o, forget, g = _parts(x + _plus(k.r(h), k.rb), 4)
    if k.peep is not None:
        pi, po, pf = _parts(k.peep, 3)
        i, forget = i + pi * c, forget + pf * c
    i, forget = f[0](i), f[0](forget)
    c = forget * c + i * f[1](g)
    if k.peep is not None:
        o = o + po * c
    return f[0](o) * f[2](c), c


def _coupled_lstm_cell(
    k: Weights, f: Sequence[Gate], x: Tensor, state: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    h, c = state
    i, o, _, g = _parts(x + _plus(k.r(h), k.rb), 4)
    if k.peep is not None:
        pi, po, _ = _parts(k.peep, 3)
        i = i + pi * c
    i = f[0](i)
    c = (1 - i) * c + i * f[1](g)
    if k.peep is not None:
        o = o + po * c
    return f[0](o) * f[2](c), c


def _gru_cell(linear_first: bool) -> Cell:
    def cell(k: Weights, f: Sequence[Gate], x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        (h,) = state
        n = h.shape[-1]
        xz, xr, xn = _parts(x, 3)
        if linear_first:
            hz, hr, hn = _parts(_plus(k.r(h), k.rb), 3)
            z, r = f[0](xz + hz), f[0](xr + hr)
            new = f[1](xn + r * hn)
        else:
            both = _plus(k.r(h, slice(2 * n)), None if k.rb is None else k.rb[: 2 * n])
            hz, hr = _parts(both, 2)
            z, r = f[0](xz + hz), f[0](xr + hr)
            last = k.r(r * h, slice(2 * n, None))
            new = f[1](xn + _plus(last, None if k.rb is None else k.rb[2 * n :]))
        return ((1 - z) * new + z * h,)

    return cell


def _one_direction(
    cell: Cell, k: Weights, f: Sequence[Gate], x: Tensor, state: tuple[Tensor, ...], backwards: bool,
    lengths: Tensor | None,
) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    """Along the sequence; behind the end of a shorter one the state stays and the results are 0. Sequences
    that are read backwards all begin with the first step, so a step sees no row that has not begun.
    """
    if lengths is None:
        rows = _plus(k.w(x), k.wb)
        last, y = tb.scan(lambda s, row: _pair(cell(k, f, row, s)), state, rows, reverse=backwards)
        return y, last
    x = back_to_front(x, lengths) if backwards else x
    time = tb.arange(x.shape[0])
    count = tb.reshape(lengths.astype(tb.int64), (-1, 1))
    any_left = tb.reshape(time < tb.max(count), (-1, 1, 1))
    rows = _plus(k.w(tb.where(any_left, x, 0.0)), k.wb)

    def step(s: tuple[Tensor, ...], row: tuple[Tensor, Tensor]) -> Any:
        inside = row[1] < count
        seen = (tb.where(row[1] <= count, s[0], 0.0), *s[1:])  # the result before: 0 behind the end
        new = tuple(tb.where(inside, n, o) for n, o in zip(cell(k, f, row[0], seen), s, strict=True))
        return new, tb.where(inside, new[0], 0.0)

    last, y = tb.scan(step, state, (rows, time))
    return (back_to_front(y, lengths) if backwards else y), last


def _pair(state: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
    return state, state[0]


def _run(
    node: Node, cell: Cell, usual: Sequence[str], count: int, x: Tensor, w: Sequence[Product],
    r: Sequence[Product], hidden: Dim, b: Tensor | None, lengths: Tensor | None,
    first: Sequence[Tensor | None], peep: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """All directions; results are Y and the last of each state."""
    by_batch = bool(node.attribute("layout", 0))
    if by_batch:
        x = tb.permute_dims(x, (1, 0, 2))
        first = [None if s is None else tb.permute_dims(s, (1, 0, 2)) for s in first]
    directions = len(w)
    f = gates(node, usual, directions)
    way = node.attribute("direction", "forward")
    ys, lasts = [], []
    for d in range(directions):
        bias = (None, None) if b is None else (b[d, : count * hidden], b[d, count * hidden :])
        k = Weights(w[d], r[d], bias[0], bias[1], None if peep is None else peep[d])
        zero = tb.zeros((x.shape[1], hidden), dtype=x.dtype)
        state = tuple(zero if s is None else s[d] for s in first)
        y, last = _one_direction(cell, k, f[d], x, state, way == "reverse" or d == 1, lengths)
        ys.append(y)
        lasts.append(last)
    out = tb.stack(ys, axis=1)
    ends = [tb.stack([last[i] for last in lasts], axis=0) for i in range(len(first))]
    if by_batch:
        return tb.permute_dims(out, (2, 0, 1, 3)), *(tb.permute_dims(e, (1, 0, 2)) for e in ends)
    return out, *ends


@operator("RNN")
def rnn(
    node: Node, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    h: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    return _run(node, _rnn_cell, ("Tanh",), 1, x, products(w), products(r), r.shape[-1], b, lengths, [h])


@operator("GRU")
def gru(
    node: Node, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    h: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    cell = _gru_cell(bool(node.attribute("linear_before_reset", 0)))
    return _run(node, cell, ("Sigmoid", "Tanh"), 3, x, products(w), products(r), r.shape[-1], b, lengths, [h])


@operator("LSTM")
def lstm(
    node: Node, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    h: Tensor | None = None, c: Tensor | None = None, peep: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    return lstm_of(node, x, products(w), products(r), r.shape[-1], b, lengths, h, c, peep)


def lstm_of(
    node: Node, x: Tensor, w: Sequence[Product], r: Sequence[Product], hidden: Dim, b: Tensor | None,
    lengths: Tensor | None, h: Tensor | None, c: Tensor | None, peep: Tensor | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """An LSTM whose products are given."""
    cell = _coupled_lstm_cell if node.attribute("input_forget", 0) else _lstm_cell
    return _run(node, cell, ("Sigmoid", "Tanh", "Tanh"), 4, x, w, r, hidden, b, lengths, [h, c], peep)
