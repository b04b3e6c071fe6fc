"""Reductions over sliding windows, for pooling: largest, smallest, sum; where the largest stands; and the
ways back.

Windows slide over the trailing len(size) axes (the plane); all axes before are mapped over. Padding is the
reduction's identity and is never chosen: `window_argmax` names elements of the plane alone, by flat index,
and -1 for a window that lies in the padding altogether. The first of equal elements wins, and a NaN wins
over everything. Ceil mode, average and count of padded elements are made of these by whoever offers
pooling layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np

from trilobite.base.dtypes import ALL, COMPLEX, accumulator, bool_, int64
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Absent, Attributes, Primitive, Value, table
from trilobite.ir.primitives.common import count, elements, same_types
from trilobite.ir.primitives.conv_geometry import Ints, Sizes, spread, window_count
from trilobite.ir.primitives.reduction import highest, lowest
from trilobite.ir.transforms.batch import all_mapped
from trilobite.ir.types import Dim, Shape, TensorType, size_of

Array = np.ndarray[Any, Any]
Kind = Literal["max", "min", "sum"]


# -- sizes ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def pooled(name: str, shape: Shape, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints) -> Sizes:
    """The shape of one number per window; checks everything about windows."""
    rank, lead = len(size), len(shape) - len(size)
    if lead < 0 or any(len(v) != rank for v in (stride, low, high, dilation)):
        raise ShapeError(
            f"{name}: windows {size}, stride {stride}, padding {low} and {high}, dilation {dilation}, "
            f"over shape {shape}",
            where=user_location(),
            expected="one number of each per window axis, and no more window axes than the tensor has",
        )
    for what, numbers in (("size", size), ("stride", stride), ("dilation", dilation)):
        if any(n < 1 for n in numbers):
            raise ArgumentError(
                f"{name}: {what} {numbers}", where=user_location(), expected="numbers of at least 1"
            )
    out: list[Dim] = []
    for a, (n, d) in enumerate(zip(size, dilation, strict=True)):
        extent, need = shape[lead + a] + low[a] + high[a], spread(n, d)
        if extent < need:
            raise ShapeError(
                f"{name}: a window spans {need} elements along window axis {a}, "
                f"the padded tensor has {extent}",
                where=user_location(),
                expected=f"at least {need} elements: {shape[lead + a]}, padding {low[a]} and {high[a]}",
                remedy="use a smaller window or pad the input",
            )
        out.append(window_count(extent, need, stride[a]))
    return (*shape[:lead], *out)


class _Taps(NamedTuple):
    """For one axis and one tap: the windows whose element is inside, and where those elements stand."""

    windows: slice
    elements: slice


def taps_of(extent: int, windows: int, size: int, stride: int, low: int, dilation: int) -> list[_Taps]:
    found = []
    for k in range(size):
        offset = k * dilation - low  # window p has its element k at p*stride + offset
        first = min(max(0, -(offset // stride)), windows)
        last = max(first, min(windows, (extent - 1 - offset) // stride + 1))
        begin = first * stride + offset
        end = begin + (last - first - 1) * stride + 1 if last > first else begin
        found.append(_Taps(slice(first, last), slice(begin, end, stride)))
    return found


# -- reduction -----------------------------------------------------------------------------------------------

UFUNCS: dict[Kind, tuple[np.ufunc, Any]] = {
    "max": (np.maximum, lowest), "min": (np.minimum, highest), "sum": (np.add, lambda dtype: 0),
}  # fmt: skip


def _window_reduce(
    x: Array, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints, kind: Kind
) -> Array:
    """Axis after axis, along an axis tap after tap. Sums of small floats in float32."""
    shape = pooled("window_reduce", x.shape, size, stride, low, high, dilation)
    dtype, lead = x.dtype, x.ndim - len(size)
    work = accumulator(dtype) if kind == "sum" else dtype
    out = x.astype(work, copy=False)
    ufunc, identity = UFUNCS[kind]
    for a in range(len(size)):
        out = _along(
            out, lead + a, shape[lead + a], (size[a], stride[a], low[a], dilation[a]), ufunc, identity
        )
    return out.astype(dtype, copy=out is x)


def _along(
    x: Array, axis: int, windows: int, window: tuple[int, int, int, int], ufunc: np.ufunc, identity: Any
) -> Array:
    if window == (1, 1, 0, 1) and windows == x.shape[axis]:
        return x
    before = (slice(None),) * axis
    taps = taps_of(x.shape[axis], windows, *window)
    whole = slice(0, windows)
    start = next((i for i, t in enumerate(taps) if t.windows == whole), None)
    if start == 0:
        out = x[(*before, taps.pop(0).elements)].copy()
    else:
        out = np.full((*x.shape[:axis], windows, *x.shape[axis + 1 :]), identity(x.dtype), x.dtype)
    for t in taps:
        part = out[(*before, t.windows)]
        ufunc(part, x[(*before, t.elements)], out=part)
    return out


def _reduce_type(
    x: TensorType, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints, kind: Kind
) -> TensorType:
    same_types("window_reduce", (x,), ALL - {bool_} if kind == "sum" else ALL - COMPLEX)
    if kind not in UFUNCS:
        raise ArgumentError(
            f"window_reduce of kind {kind!r}", where=user_location(), expected="max, min or sum"
        )
    return TensorType(pooled("window_reduce", x.shape, size, stride, low, high, dilation), x.dtype)


def _chosen(x: Value, kind: Kind, **window: Any) -> Value:
    return window_argmax(x if kind == "max" else table["neg"](x), **window)


def window_of(size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints) -> dict[str, Ints]:
    return {"size": size, "stride": stride, "low": low, "high": high, "dilation": dilation}


def _reduce_jvp(
    t: Value, x: Value, *, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints, kind: Kind
) -> Value:
    window = window_of(size, stride, low, high, dilation)
    if kind == "sum":
        return window_reduce(t, kind=kind, **window)
    return window_gather(t, _chosen(x, kind, **window), rank=len(size))


def _reduce_vjp(
    t: Value, x: Value, *, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints, kind: Kind
) -> Value:
    window = window_of(size, stride, low, high, dilation)
    plane = x.shape[x.ndim - len(size) :]
    if kind == "sum":
        return _spread_windows(t, plane, **window)
    disjoint = all(s >= spread(n, d) for n, s, d in zip(size, stride, dilation, strict=True))
    return window_scatter(t, _chosen(x, kind, **window), plane=plane, disjoint=disjoint)


def _spread_windows(
    t: Value, plane: Shape, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints
) -> Value:
    """The transpose of a windowed sum: zeros between the windows' numbers, then a windowed sum of stride 1.

    Element i receives t[p] where p*stride + k*dilation - low = i: taps of the spread t that end at i + low.
    """
    lead, rank = t.ndim - len(size), len(size)
    if any(s > 1 for s in stride):
        none = (0,) * t.ndim
        t = table["pad"](t, low=none, high=none, between=(*none[:lead], *(s - 1 for s in stride)), value=0.0)
    reach = [(n - 1) * d for n, d in zip(size, dilation, strict=True)]
    before = tuple(r - lo for r, lo in zip(reach, low, strict=True))
    after = tuple(n + lo - e for n, lo, e in zip(plane, low, t.shape[lead:], strict=True))
    return window_reduce(
        t, size=size, stride=(1,) * rank, low=before, high=after, dilation=dilation, kind="sum"
    )


def _leading(name: str) -> Any:
    """The batch is one more axis before the plane."""

    def rule(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
        return table[name](*all_mapped(size, values, mapped), **attrs)

    return rule


def reduce_cost(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Any) -> float:
    return elements(outputs) * count(size_of(attrs["size"]))


window_reduce: Primitive = Primitive(
    "window_reduce", "x", type=_reduce_type, evaluate=array_rule(_window_reduce),
    jvp=(_reduce_jvp,), vjp=(_reduce_vjp,), batch=_leading("window_reduce"), cost=reduce_cost,
    doc="largest, smallest or sum of each window; the slope of max and min goes to the first of equals",
)  # fmt: skip

# -- where the largest stands --------------------------------------------------------------------------------


def _window_argmax(x: Array, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints) -> Array:
    shape = pooled("window_argmax", x.shape, size, stride, low, high, dilation)
    lead = x.ndim - len(size)
    plane, windows = x.shape[lead:], shape[lead:]
    if math.prod(shape) == 0:
        return np.full(shape, -1, int64)
    axes = [taps_of(*a) for a in zip(plane, windows, size, stride, low, dilation, strict=True)]
    tap = _winning_tap(x, _window_reduce(x, size, stride, low, high, dilation, "max"), axes)
    weights = [math.prod(plane[i + 1 :]) for i in range(len(plane))]
    steps = [np.arange(n) * (d * w) for n, d, w in zip(size, dilation, weights, strict=True)]
    starts = [(np.arange(p) * s - lo) * w for p, s, lo, w in zip(windows, stride, low, weights, strict=True)]
    index = np.append(_outer_sum(steps).ravel(), 0).take(tap)
    index += _outer_sum(starts)
    none = tap == math.prod(size)
    if none.any():
        index[none] = -1
    return index


def _outer_sum(lines: Sequence[Array]) -> Array:
    """lines[0][i] + lines[1][j] + ..., shaped (len of each)."""
    total: Array = np.zeros((), int64)
    for line in lines:
        total = total[..., None] + line
    return total


def _winning_tap(x: Array, largest: Array, axes: Sequence[list[_Taps]]) -> Array:
    """For each window, how many of its taps come before the first that holds the largest element."""
    taps = math.prod(len(a) for a in axes)
    count: Array = np.zeros(largest.shape, np.uint8 if taps < 256 else np.int32)
    waiting, miss = np.ones(largest.shape, bool), np.empty(largest.shape, bool)
    nan = np.isnan(largest) if largest.dtype.kind not in "biu" else np.zeros(1, bool)
    some_nan = bool(nan.any())
    for places in product(*axes):
        windows: Any = (..., *(p.windows for p in places))
        elements: Any = (..., *(p.elements for p in places))
        candidate, here = x[elements], miss[windows]
        if here.shape != miss.shape:
            miss[...] = True  # where the tap is in the padding
        np.not_equal(candidate, largest[windows], out=here)
        if some_nan:
            here &= ~(np.isnan(candidate) & nan[windows])
        waiting &= miss
        count += waiting
    return count


def _argmax_type(
    x: TensorType, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints
) -> TensorType:
    same_types("window_argmax", (x,), ALL - COMPLEX)
    return TensorType(pooled("window_argmax", x.shape, size, stride, low, high, dilation), int64)


window_argmax: Primitive = Primitive(
    "window_argmax", "x", type=_argmax_type, evaluate=array_rule(_window_argmax),
    jvp=Absent("positions have no slope"), vjp=Absent("positions have no slope"),
    batch=_leading("window_argmax"), cost=reduce_cost,
    doc="flat index in the plane of each window's largest: first of equals, NaN before all, -1 if none",
)  # fmt: skip

# -- taking from the plane, and putting back -----------------------------------------------------------------


def _flat_indices(indices: Array, rank: int, plane_size: int) -> tuple[Array, Array | None]:
    """Indices into all planes laid out one after the other, and which ones are real (None: all)."""
    lead = indices.shape[: indices.ndim - rank]
    each = indices.reshape(math.prod(lead), math.prod(indices.shape[len(lead) :]))
    flat = (each + np.arange(math.prod(lead), dtype=int64)[:, None] * plane_size).ravel()
    real = each.ravel() >= 0
    return (flat, None) if real.all() else (flat, real)


def _window_gather(x: Array, indices: Array, rank: int) -> Array:
    flat, real = _flat_indices(indices, rank, math.prod(x.shape[x.ndim - rank :]))
    source = np.ascontiguousarray(x).ravel()
    if real is None:
        return source[flat].reshape(indices.shape)
    out = np.zeros(indices.size, x.dtype)
    out[real] = source[flat[real]]
    return out.reshape(indices.shape)


def _gather_type(x: TensorType, indices: TensorType, rank: int) -> TensorType:
    same_types("window_gather", (indices,), {int64})
    if x.shape[: x.ndim - rank] != indices.shape[: indices.ndim - rank]:
        raise ShapeError(f"window_gather of {x} at {indices}", expected=f"equal axes before the last {rank}")
    return TensorType(indices.shape, x.dtype)


def _gather_back(t: Value, indices: Value, x_type: TensorType, *, rank: int) -> Value:
    return window_scatter(t, indices, plane=x_type.shape[x_type.ndim - rank :], disjoint=False)


window_gather: Primitive = Primitive(
    "window_gather", "x indices", type=_gather_type, evaluate=array_rule(_window_gather),
    jvp=(lambda t, indices, *, rank: window_gather(t, indices, rank=rank), None), vjp=(_gather_back, None),
    batch=_leading("window_gather"), cost=lambda i, o, a: elements(o),
    doc="elements of each plane (the last `rank` axes) by flat index; 0 at index -1",
)  # fmt: skip


def _window_scatter(y: Array, indices: Array, plane: Ints, disjoint: bool) -> Array:
    rank = len(plane)
    shape = (*y.shape[: y.ndim - rank], *plane)
    flat, real = _flat_indices(indices, rank, math.prod(plane))
    values = np.ascontiguousarray(y, accumulator(y.dtype)).ravel()
    if real is not None:
        flat, values = flat[real], values[real]
    out = np.zeros(math.prod(shape), values.dtype)
    if disjoint:
        out[flat] = values
    else:
        np.add.at(out, flat, values)
    return out.reshape(shape).astype(y.dtype, copy=False)


def _scatter_type(y: TensorType, indices: TensorType, plane: Shape, disjoint: bool) -> TensorType:
    same_types("window_scatter", (indices,), {int64})
    same_types("window_scatter", (y,), ALL - {bool_})
    if y.shape != indices.shape or len(plane) > y.ndim:
        raise ShapeError(
            f"window_scatter of {y} to {indices} in planes {list(plane)}", expected="equal shapes"
        )
    return TensorType((*y.shape[: y.ndim - len(plane)], *plane), y.dtype)


window_scatter: Primitive = Primitive(
    "window_scatter", "y indices", type=_scatter_type, evaluate=array_rule(_window_scatter),
    jvp=(
        lambda t, indices, *, plane, disjoint: window_scatter(t, indices, plane=plane, disjoint=disjoint),
        None,
    ),
    vjp=(lambda t, indices, *, plane: window_gather(t, indices, rank=len(plane)), None),
    batch=_leading("window_scatter"), cost=lambda i, o, a: elements(i[:1]),
    doc="zeros with y added at flat indices of each plane, in order, but for -1; `disjoint`: no index twice",
)  # fmt: skip
