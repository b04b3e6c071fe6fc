"""Products, convolutions and sliding windows as ONNX nodes: MatMul, Conv, ConvTranspose, pooling; and the
integer ones among them, which keep their integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import (
    DType,
    accumulator,
    bits,
    float4_e2m1fn,
    float32,
    float64,
    int8,
    int32,
    int64,
    is_float,
    is_integer,
    uint8,
)
from trilobite.inference.export.movement import padded, reshaped, spread_by, transposed
from trilobite.inference.export.scope import Refused, Scope
from trilobite.ir.graph import Equation
from trilobite.ir.primitives.common import count, integer_range
from trilobite.ir.primitives.dot import free_axes
from trilobite.ir.types import Dim, size_of

_BYTES = (int8, uint8)


def _quantise(s: Scope, e: Equation) -> None:
    """ONNX wants the axis only of several scales."""
    code = (e.outputs[0] if e.primitive.name == "quantise" else e.inputs[0]).type.dtype
    if code.itemsize > 2 and not (code == int32 and e.primitive.name == "dequantise"):
        raise Refused(f"ONNX quantises to 16 bits at most, not to {code.name}")
    if code == float4_e2m1fn and s.model.opset < 23:
        raise Refused("ONNX quantises to float4_e2m1fn from opset 23 on")
    a = {} if e.attributes["axis"] is None else {"axis": e.attributes["axis"]}
    op = "QuantizeLinear" if e.primitive.name == "quantise" else "DequantizeLinear"
    s.set(e.outputs[0], s.emit(op, *(s.name(v) for v in e.inputs), **a))


def _requantise(s: Scope, e: Equation) -> None:
    """In doubles, as the primitive means it: ONNX has no operator that rounds a scaled integer once."""
    (x, scale, zero), a = e.inputs, e.attributes
    behind = 0 if a["axis"] is None else x.type.ndim - 1 - a["axis"]
    by, point = (s.cast(s.name(v), v.type.dtype, float64) for v in (scale, zero))
    if behind:
        by, point = (s.emit("Unsqueeze", v, s.ints(*range(1, behind + 1))) for v in (by, point))
    found = s.emit("Round", s.emit("Mul", s.cast(s.name(x), x.type.dtype, float64), by))
    total = s.emit("Where", s.emit("IsNaN", found), point, s.emit("Add", found, point))
    bounds = [s.constant(float(v), float64) for v in integer_range(a["dtype"])]
    held = s.emit("Min", s.emit("Max", total, bounds[0]), bounds[1])
    s.set(e.outputs[0], s.cast(s.cast(held, float64, int32), int32, a["dtype"]))


# -- dot -----------------------------------------------------------------------------------------------------


def _dot(s: Scope, e: Equation) -> None:
    """Operands as (batch, rows, K) and (batch, K, columns); several axes of a kind are folded into one."""
    (x, y), a = e.inputs, e.attributes
    (cx, cy), (bx, by) = a["contract"], a["batch"]
    fx, fy = free_axes(x.type.ndim, cx, bx), free_axes(y.type.ndim, cy, by)
    left = transposed(s, s.name(x), (*bx, *fx, *cx))
    right = transposed(s, s.name(y), (*by, *cy, *fy))
    shape = e.outputs[0].type.shape
    plain = len(cx) == 1 and len(fy) == 1 and (not bx or len(fx) == 1) and (len(fx) > 0)
    if not plain:
        lead = [x.type.shape[i] for i in bx]
        k = _size(x, cx)
        left = reshaped(s, left, (*lead, _size(x, fx), k))
        right = reshaped(s, right, (*lead, k, _size(y, fy)))
    out = _product(s, left, right, x.type.dtype, a["dtype"])
    s.set(e.outputs[0], out if plain else reshaped(s, out, shape))


def _size(v: Any, axes: Sequence[int]) -> Dim:
    return size_of([v.type.shape[i] for i in axes])


def _product(s: Scope, x: str, y: str, dtype: Any, result: Any) -> str:
    if dtype in _BYTES and result == int32:
        return s.emit("MatMulInteger", x, y)
    wide = _wide(dtype, result)
    out = s.emit("MatMul", s.cast(x, dtype, wide), s.cast(y, dtype, wide))
    return s.cast(out, wide, result)


def _wide(dtype: Any, result: Any) -> Any:
    """What ONNX multiplies in: floats of 16 bits themselves, other small numbers wider ones."""
    if is_integer(result):
        return int64 if result.itemsize == 8 else int32
    if dtype == result and dtype.itemsize >= 2:
        return dtype
    return np.promote_types(accumulator(dtype), accumulator(result))


# -- convolutions --------------------------------------------------------------------------------------------


def _exact(e: Equation, terms: float) -> DType:
    """The floats that a convolution of these operands is written in. Integers for which ONNX has none become
    doubles, where every sum of `terms` products is exact.
    """
    dtype, result = e.inputs[0].type.dtype, e.attributes["dtype"]
    if is_float(dtype):
        return _wide(dtype, result)  # type: ignore[no-any-return]
    if terms * 4.0 ** bits(dtype) > 2.0**53:
        raise Refused(f"ONNX has no convolution of {dtype.name} to {result.name}, and doubles would round it")
    return float64


def _spaced(s: Scope, e: Equation) -> tuple[str, list[int], list[int]]:
    """The input of a convolution spread and cropped by nodes of their own; what padding is left."""
    (x, _), a = e.inputs, e.attributes
    name, dtype = s.name(x), x.type.dtype
    if any(d != 1 for d in a["x_dilation"]):
        name, _ = spread_by(s, name, x.type.shape, (1, 1, *a["x_dilation"]), dtype)
    low, high = a["low"], a["high"]
    if any(n < 0 for n in (*low, *high)):
        crop = [[0, 0, *(min(n, 0) for n in side)] for side in (low, high)]
        name = padded(s, name, crop[0], crop[1], s.constant(0, dtype))
        low, high = ([max(n, 0) for n in side] for side in (low, high))
    return name, list(low), list(high)


def _conv(s: Scope, e: Equation) -> None:
    (x, w), a = e.inputs, e.attributes
    if x.type.ndim < 3:
        raise Refused("a convolution without spatial axes")
    name, low, high = _spaced(s, e)
    window = {
        "strides": list(a["stride"]), "pads": [*low, *high], "dilations": list(a["w_dilation"]),
        "group": a["groups"], "kernel_shape": list(w.type.shape[2:]),
    }  # fmt: skip
    dtype, result = x.type.dtype, a["dtype"]
    if dtype in _BYTES and result == int32:
        return s.set(e.outputs[0], s.emit("ConvInteger", name, s.name(w), **window))
    wide = _exact(e, count(size_of(w.type.shape[1:])))
    out = s.emit("Conv", s.cast(name, dtype, wide), s.cast(s.name(w), dtype, wide), **window)
    return s.set(e.outputs[0], s.cast(out, wide, result))


def _conv_transposed(s: Scope, e: Equation) -> None:
    """conv_input_grad: what the windows reach, cut by the padding; the rest is output padding."""
    (y, w), a = e.inputs, e.attributes
    if any(d != 1 for d in a["x_dilation"]) or y.type.ndim < 3:
        raise Refused("a transposed convolution of spread input or without spatial axes")
    kernel, extra = w.type.shape[2:], []
    rows = zip(
        y.type.shape[2:], kernel, a["stride"], a["w_dilation"], a["low"], a["high"], a["space"], strict=True
    )
    for n, k, stride, dilation, low, high, space in rows:
        extra.append(space - ((n - 1) * stride + (k - 1) * dilation + 1 - low - high))
    wide = _exact(e, count(size_of((w.type.shape[0], *kernel))) / a["groups"])
    crop = [max(n, 0) for n in a["low"]], [max(n, 0) for n in a["high"]]
    room = [[0, 0, *(max(-n, 0) for n in a[side])] for side in ("low", "high")]
    if not all(isinstance(n, int) for n in extra):
        raise Refused("a transposed convolution whose output padding depends on symbols")
    inner = [min(n, max(st, d) - 1) for n, st, d in zip(extra, a["stride"], a["w_dilation"], strict=True)]
    out = s.emit(
        "ConvTranspose", s.cast(s.name(y), y.type.dtype, wide), s.cast(s.name(w), w.type.dtype, wide),
        strides=list(a["stride"]), pads=[*crop[0], *crop[1]], dilations=list(a["w_dilation"]),
        group=a["groups"], kernel_shape=list(kernel), output_padding=inner,
    )  # fmt: skip
    room[1] = [r + (x - i) for r, x, i in zip(room[1], [0, 0, *extra], [0, 0, *inner], strict=True)]
    out = padded(s, out, room[0], room[1], s.constant(0, wide))
    s.set(e.outputs[0], s.cast(out, wide, a["dtype"]))


# -- windows -------------------------------------------------------------------------------------------------


def _pooled(s: Scope, e: Equation, dtype: Any, value: float) -> tuple[str, dict[str, Any]]:
    """The planes as (1, rest, *plane), and the window as attributes. What is cropped, or padded by as much as
    the window or more, is so by a node of its own: pooling does not know it."""
    (x,), a = e.inputs, e.attributes
    rank, name = len(a["size"]), s.cast(s.name(x), x.type.dtype, dtype)
    if rank < 1:
        raise Refused("windows over no axes")
    low, high = list(a["low"]), list(a["high"])
    if any(n < 0 or n >= k for n, k in zip((*low, *high), (*a["size"], *a["size"]), strict=True)):
        lead = [0] * (x.type.ndim - rank)
        name = padded(s, name, [*lead, *low], [*lead, *high], s.constant(value, dtype))
        low = high = [0] * rank
    if x.type.ndim != rank + 2:
        sizes = _grown(e, rank, low, high)
        name = reshaped(s, name, (1, size_of(x.type.shape[: x.type.ndim - rank]), *sizes))
    window: dict[str, Any] = {
        "kernel_shape": list(a["size"]),
        "strides": list(a["stride"]),
        "pads": [*low, *high],
    }
    if any(d != 1 for d in a["dilation"]):
        window["dilations"] = list(a["dilation"])
    return name, window


def _grown(e: Equation, rank: int, low: Sequence[int], high: Sequence[int]) -> list[Dim]:
    """The plane, with the padding that is no longer the window's."""
    shape, a = e.inputs[0].type.shape, e.attributes
    rows = zip(shape[len(shape) - rank :], a["low"], a["high"], low, high, strict=True)
    return [d + lo + hi - own_low - own_high for d, lo, hi, own_low, own_high in rows]


def _window_reduce(s: Scope, e: Equation) -> None:
    kind, dtype, size = e.attributes["kind"], e.inputs[0].type.dtype, e.attributes["size"]
    shape = e.outputs[0].type.shape
    wide = dtype if is_float(dtype) and dtype.itemsize >= 2 else float32
    if not is_float(dtype) and (dtype.itemsize > 2 or kind == "sum"):
        raise Refused(f"ONNX pools no {dtype.name}")
    fill = {"max": -np.inf, "min": -np.inf, "sum": 0.0}[kind]
    name, window = _pooled(s, e, wide, fill if kind != "min" else np.inf)
    if kind == "sum":
        out = s.emit("AveragePool", name, count_include_pad=1, **window)
        out = s.emit("Mul", out, s.constant(math.prod(size), wide))
    else:
        name = s.emit("Neg", name) if kind == "min" else name
        out = s.emit("MaxPool", name, **window)
        out = s.emit("Neg", out) if kind == "min" else out
    if len(shape) != len(size) + 2:
        out = reshaped(s, out, shape)
    s.set(e.outputs[0], s.cast(out, wide, dtype))


def _window_argmax(s: Scope, e: Equation) -> None:
    """MaxPool counts over the whole tensor; the rest by the size of a plane is the place within it."""
    (x,), a = e.inputs, e.attributes
    rank, dtype, shape = len(a["size"]), x.type.dtype, e.outputs[0].type.shape
    if not is_float(dtype) or any(
        n < 0 or n >= k for n, k in zip((*a["low"], *a["high"]), a["size"] * 2, strict=True)
    ):
        raise Refused("places of the largest in windows of integers, or in windows that lie in the padding")
    name, window = _pooled(s, e, dtype, -np.inf)
    _, places = s.emit_many("MaxPool", [name], 2, **window)
    plane = s.emit("ReduceProd", s.model.sizes(x.type.shape[x.type.ndim - rank :]), s.ints(0), keepdims=0)
    out = s.emit("Mod", places, plane)
    s.set(e.outputs[0], out if len(shape) == rank + 2 else reshaped(s, out, shape))


def _window_gather(s: Scope, e: Equation) -> None:
    """The plane as one axis; index -1 reads 0."""
    (x, indices), rank = e.inputs, e.attributes["rank"]
    lead = x.type.shape[: x.type.ndim - rank]
    flat = reshaped(s, s.name(x), (*lead, size_of(x.type.shape[x.type.ndim - rank :])))
    places = s.cast(s.name(indices), indices.type.dtype, int64)
    rows = reshaped(s, places, (*lead, size_of(indices.type.shape[len(lead) :])))
    zero = s.constant(0, np.int64)
    found = s.emit("GatherElements", flat, s.emit("Max", rows, zero), axis=len(lead))
    blank = s.constant(0, x.type.dtype)
    out = s.emit("Where", s.emit("Less", rows, zero), blank, found)
    s.set(e.outputs[0], reshaped(s, out, indices.type.shape))


ROWS = {
    "quantise": _quantise,
    "dequantise": _quantise,
    "requantise": _requantise,
    "dot": _dot,
    "conv": _conv,
    "conv_input_grad": _conv_transposed,
    "window_reduce": _window_reduce,
    "window_argmax": _window_argmax,
    "window_gather": _window_gather,
}
