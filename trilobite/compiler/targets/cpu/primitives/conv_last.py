"""Convolution with channels last, as the CPU target runs it: x[N, *space, C] to y[N, *out, K].

The layout pass makes these from `conv` and its gradients; what they compute is defined by them. A weight is
either plain, w[*kernel, C/groups, K], or in panels, w[groups, panels, *kernel, depth, lanes]: the columns of
a group (filters, for an input gradient channels) cut into runs of `lanes`, the last one filled up with zeros,
so that a kernel reads a weight front to back. Rank tells the forms apart; `columns` is how many columns of a
group are real. They are never differentiated: they exist only after that is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.blas import one_thread
from trilobite.base.errors import ShapeError
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import TargetPrimitive, table
from trilobite.ir.primitives import conv as _first  # noqa: F401 (the meaning is its rules)
from trilobite.ir.primitives.common import count, elements
from trilobite.ir.primitives.conv_geometry import Ints
from trilobite.ir.types import Dim, Shape, TensorType, size_of

Array = np.ndarray[Any, Any]


# -- shapes ------------------------------------------------------------------------------------------------


def channels_first(shape: Shape) -> Shape:
    """(N, *space, C) as (N, C, *space)."""
    return (shape[0], shape[-1], *shape[1:-1])


def channels_last(shape: Shape) -> Shape:
    """(N, C, *space) as (N, *space, C)."""
    return (shape[0], *shape[2:], shape[1])


def weight_shape(w: Shape, rank: int, columns: Dim, transposed: bool) -> Shape:
    """The (K, C/groups, *kernel) that a plain weight or one in panels stands for."""
    if len(w) == rank + 2:
        return (w[-1], w[-2], *w[:-2])
    if len(w) != rank + 4:
        raise ShapeError(
            f"a weight of shape {list(w)} for {rank} spatial axes",
            expected="(*kernel, channels, filters) or (groups, panels, *kernel, depth, lanes)",
        )
    groups, depth = w[0], w[-2]
    filters, channels = (depth, columns) if transposed else (columns, depth)
    return (groups * filters, channels, *w[2:-2])


def panel_count(columns: Dim, lanes: int) -> Dim:
    return (columns + lanes - 1) // lanes


# -- panels ------------------------------------------------------------------------------------------------


def _panels_type(w: TensorType, groups: int, lanes: int, transposed: bool) -> TensorType:
    if w.ndim < 2 or w.shape[0] % groups or lanes < 1:
        raise ShapeError(
            f"conv_panels of {w} in {groups} groups, {lanes} lanes", expected="(filters, channels, *kernel)"
        )
    filters, channels = w.shape[0] // groups, w.shape[1]
    columns, depth = (channels, filters) if transposed else (filters, channels)
    return TensorType((groups, panel_count(columns, lanes), *w.shape[2:], depth, lanes), w.dtype)


def _panels(w: Array, groups: int, lanes: int, transposed: bool) -> Array:
    split = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    rows = np.moveaxis(split, (1, 2), (-1, -2) if not transposed else (-2, -1))
    columns = rows.shape[-1]
    whole = panel_count(columns, lanes) * lanes
    filled = np.zeros((*rows.shape[:-1], whole), w.dtype)
    filled[..., :columns] = rows
    cut = filled.reshape(*rows.shape[:-1], whole // lanes, lanes)
    return np.ascontiguousarray(np.moveaxis(cut, -2, 1))


def from_panels(w: Array, shape: Sequence[int], groups: int, lanes: int, transposed: bool) -> Array:
    """The weight of this shape of which `conv_panels` made these."""
    return _weight(w, len(shape) - 2, shape[1] if transposed else shape[0] // groups, transposed)


def _weight(w: Array, rank: int, columns: int, transposed: bool) -> Array:
    """Either form back as (K, C/groups, *kernel)."""
    if w.ndim == rank + 2:
        return np.moveaxis(w, (-1, -2), (0, 1))
    joined = np.moveaxis(w, 1, -2)  # groups, *kernel, depth, panels, lanes
    rows = joined.reshape(*joined.shape[:-2], joined.shape[-2] * joined.shape[-1])[..., :columns]
    split = np.moveaxis(rows, (-1, -2), (1, 2) if not transposed else (2, 1))
    return split.reshape(split.shape[0] * split.shape[1], *split.shape[2:])


# -- the three convolutions --------------------------------------------------------------------------------


def surrounded(x: Array, value: int, window: dict[str, Any]) -> tuple[Array, dict[str, Any]]:
    """x[N, *space, C] with this number around it instead of padding, and the window without padding."""
    around = [(0, 0), *zip(window["low"], window["high"], strict=True), (0, 0)]
    none = (0,) * (x.ndim - 2)
    return np.pad(x, around, constant_values=value), {**window, "low": none, "high": none}


def _conv_type(x: TensorType, w: TensorType, columns: int, outside: int = 0, **attrs: Any) -> TensorType:
    weight = TensorType(weight_shape(w.shape, x.ndim - 2, columns, False), w.dtype)
    found = table["conv"].type(TensorType(channels_first(x.shape), x.dtype), weight, **attrs)
    return TensorType(channels_last(found.shape), found.dtype)


def _conv(x: Array, w: Array, columns: int, outside: int = 0, **attrs: Any) -> Array:
    if outside:
        x, attrs = surrounded(x, outside, attrs)
    weight = _weight(w, x.ndim - 2, columns, False)
    return _to_last(table["conv"].evaluate(np.moveaxis(x, -1, 1), weight, **attrs))


def _input_grad_type(y: TensorType, w: TensorType, columns: int, **attrs: Any) -> TensorType:
    weight = TensorType(weight_shape(w.shape, y.ndim - 2, columns, True), w.dtype)
    found = table["conv_input_grad"].type(TensorType(channels_first(y.shape), y.dtype), weight, **attrs)
    return TensorType(channels_last(found.shape), found.dtype)


def _input_grad(y: Array, w: Array, columns: int, **attrs: Any) -> Array:
    weight = _weight(w, y.ndim - 2, columns, True)
    return _to_last(table["conv_input_grad"].evaluate(np.moveaxis(y, -1, 1), weight, **attrs))


def _weight_grad_type(x: TensorType, y: TensorType, **attrs: Any) -> TensorType:
    first = (TensorType(channels_first(v.shape), v.dtype) for v in (x, y))
    found = table["conv_weight_grad"].type(*first, **attrs)
    return TensorType((*found.shape[2:], found.shape[1], found.shape[0]), found.dtype)


def _weight_grad(x: Array, y: Array, **attrs: Any) -> Array:
    found = table["conv_weight_grad"].evaluate(np.moveaxis(x, -1, 1), np.moveaxis(y, -1, 1), **attrs)
    return np.ascontiguousarray(np.moveaxis(found, (0, 1), (-1, -2)))


def _to_last(y: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(y, 1, -1))


# -- costs and the table -----------------------------------------------------------------------------------


def _flops(y: TensorType, channels: Dim, kernel: Ints | Shape) -> float:
    """Two per element of y, channel of a filter, and tap."""
    return 2.0 * count(y.size) * count(channels) * count(size_of(kernel))


def _kernel(w: TensorType, rank: int) -> Shape:
    return w.shape[:-2] if w.ndim == rank + 2 else w.shape[2:-2]


conv_panels = TargetPrimitive(
    "conv_panels", "w", type=_panels_type, evaluate=array_rule(_panels),
    cost=lambda i, o, a: elements(o),
    doc="a weight (K, C/groups, *kernel) as (groups, panels, *kernel, depth, lanes), filled up with zeros",
)  # fmt: skip

conv_last = TargetPrimitive(
    "conv_last", "x w", type=_conv_type, evaluate=one_thread(array_rule(_conv)),
    cost=lambda i, o, a: _flops(o[0], i[0].shape[-1], _kernel(i[1], i[0].ndim - 2)) / a["groups"],
    doc="conv of x[N, *space, C] to [N, *out, K]; w[*kernel, C/groups, K] or in panels",
)  # fmt: skip

conv_last_input_grad = TargetPrimitive(
    "conv_last_input_grad", "y w", type=_input_grad_type, evaluate=one_thread(array_rule(_input_grad)),
    cost=lambda i, o, a: _flops(i[0], o[0].shape[-1], _kernel(i[1], i[0].ndim - 2)) / a["groups"],
    doc="conv_input_grad of y[N, *out, K] to x[N, *space, C]; w[*kernel, C/groups, K] or panels of channels",
)  # fmt: skip

conv_last_weight_grad = TargetPrimitive(
    "conv_last_weight_grad", "x y", type=_weight_grad_type, evaluate=one_thread(array_rule(_weight_grad)),
    cost=lambda i, o, a: _flops(i[1], i[0].shape[-1], a["kernel"]) / a["groups"],
    doc="conv_weight_grad of x[N, *space, C] and y[N, *out, K] to w[*kernel, C/groups, K]",
)  # fmt: skip
