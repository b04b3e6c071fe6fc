"""Windows over the last axes: reductions tap by tap, places of the largest, what is read and added there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product as tuples
from math import prod
from typing import Any

from trilobite.base.dtypes import accumulator, bool_, int64, is_complex, is_float, uint8
from trilobite.compiler.targets.dlp.expand import narrow
from trilobite.compiler.targets.dlp.expand import terms as t
from trilobite.compiler.targets.dlp.kernels.pooling import Pooling
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.compiler.targets.dlp.vector.formats import computes, format_of
from trilobite.ir.graph import Equation
from trilobite.ir.primitive import table
from trilobite.ir.primitives.reduction import highest, lowest

Body = Callable[..., Any] | None
SMALLEST = 1 << 14  # bytes of a tile of one channel and one row of windows: any NRAM has room for it


def _identity(kind: str, dtype: Any) -> Any:
    value = {"sum": lambda d: 0, "max": lowest, "min": highest}[kind](dtype)
    return float(value) if is_float(dtype) else value


def pooling_of(e: Equation) -> Pooling | None:
    """What the pooling row does, if it does this."""
    a, x = e.attributes, e.inputs[0].type
    shape, out = extents(e.inputs[0]), extents(e.outputs[0])
    fits = len(shape) == 4 and len(a["size"]) == 2 and a["dilation"] == (1, 1) and 0 not in (*shape, *out)
    if not fits or not computes(x.dtype) or x.dtype == bool_ or min(*a["low"], *a["high"]) < 0:
        return None
    if a["kind"] == "sum" and accumulator(x.dtype) != x.dtype:
        return None
    window = (a["size"], a["stride"], a["low"], a["high"])
    plane, windows = (shape[2], shape[3]), (out[2], out[3])
    return Pooling(shape[0], plane, windows, shape[1], *window, format_of(x.dtype), a["kind"])


def _reduce(e: Equation) -> Body:
    pooling = pooling_of(e)
    if pooling is not None and pooling.bytes(1, 1) <= SMALLEST:
        return None
    names = ("size", "stride", "low", "high", "dilation", "kind")
    size, stride, low, high, dilation, kind = (e.attributes[k] for k in names)
    shape = e.outputs[0].type.shape
    combine = {"sum": t.add, "max": t.maximum, "min": t.minimum}[kind]

    def body(x: Any) -> Any:
        out = x.dtype
        if out == bool_:
            x = t.cast(x, uint8)
        wide = accumulator(x.dtype) if kind == "sum" else x.dtype
        if not computes(wide) and not is_complex(wide):
            wide = narrow.wider(wide)
        x = t.cast(x, wide)
        lead = x.ndim - len(size)
        for a in range(len(size)):
            window = (size[a], stride[a], low[a], high[a], dilation[a])
            x = _along(x, lead + a, shape[lead + a], window, combine, _identity(kind, x.dtype))
        return t.cast(x, out)

    return body


def _along(
    x: Any, axis: int, count: int, window: Sequence[int], combine: Callable[..., Any], identity: Any
) -> Any:
    size, stride, low, high, dilation = window
    if (size, stride, low, high) == (1, 1, 0, 0):
        return x
    if low or high:
        x = t.padded(x, axis, low, high, identity)
    total = None
    for k in range(size):
        tap = (
            t.part(x, axis, k * dilation, k * dilation + (count - 1) * stride + 1, stride)
            if count
            else t.part(x, axis, 0, 0)
        )
        total = tap if total is None else combine(total, tap)
    return total


def _argmax(e: Equation) -> Body:
    """Tap after tap: where one is larger than all before (or the first NaN), its place is taken."""
    names = ("size", "stride", "low", "high", "dilation")
    size, stride, low, high, dilation = (e.attributes[k] for k in names)
    out = e.outputs[0].type.shape
    lead = len(out) - len(size)
    plane = e.inputs[0].type.shape[lead:]
    if 0 in out:
        return lambda x: t.full(out, int64, -1)

    def body(x: Any) -> Any:
        if not computes(x.dtype) or x.dtype == bool_:
            x = t.cast(x, uint8 if x.dtype == bool_ else narrow.wider(x.dtype))
        none = (0,) * lead
        zero = none + (0,) * len(size)
        padded = table["pad"](
            x, low=none + low, high=none + high, between=zero, value=_identity("max", x.dtype)
        )
        inside = table["pad"](
            t.full(x.shape, bool_, True), low=none + low, high=none + high, between=zero, value=False
        )
        best, place = t.full(out, x.dtype, _identity("max", x.dtype)), t.full(out, int64, -1)
        for tap in tuples(*(range(n) for n in size)):
            value, there = (_tap(v, tap, lead, out, stride, dilation) for v in (padded, inside))
            here = _place_of(tap, out, plane, stride, low, dilation)
            better = t.compare("gt", value, best)
            if is_float(x.dtype):
                nan = table["and"](table["is_nan"](value), table["not"](table["is_nan"](best)))
                better = table["or"](better, nan)
            first = table["and"](t.compare("eq", place, -1), there)
            better = table["or"](table["and"](better, there), first)
            best, place = t.select(better, value, best), t.select(better, here, place)
        return place

    return body


def _tap(x: Any, tap: Sequence[int], lead: int, out: Any, stride: Any, dilation: Any) -> Any:
    start = (0,) * lead + tuple(k * d for k, d in zip(tap, dilation, strict=True))
    stop = tuple(x.shape[:lead]) + tuple(
        k * d + (n - 1) * s + 1 for k, d, n, s in zip(tap, dilation, out[lead:], stride, strict=True)
    )
    return table["slice"](x, start=start, stop=stop, step=(1,) * lead + tuple(stride))


def _place_of(tap: Any, out: Any, plane: Any, stride: Any, low: Any, dilation: Any) -> Any:
    """Flat index in the plane of a tap's element, for every window."""
    lead = len(out) - len(plane)
    total = t.full(out, int64, 0)
    for a, k in enumerate(tap):
        weight = prod(plane[a + 1 :])
        along = t.mul(t.iota(out, int64, lead + a), stride[a] * weight)
        total = t.add(total, t.add(along, (k * dilation[a] - low[a]) * weight))
    return total


def _gather(e: Equation) -> Body:
    rank = e.attributes["rank"]

    def body(x: Any, indices: Any) -> Any:
        lead, many = x.shape[: x.ndim - rank], prod(x.shape[x.ndim - rank :])
        flat = t.reshape(x, *lead, many)
        places = t.reshape(indices, *lead, prod(indices.shape[len(lead) :]))
        found = table["take_along"](flat, places, axis=len(lead))
        missing = t.compare("lt", places, 0)
        return t.reshape(t.select(missing, t.like(found, 0), found), *indices.shape)

    return body


def _scatter(e: Equation) -> Body:
    plane = e.attributes["plane"]

    def body(y: Any, indices: Any) -> Any:
        rank = len(plane)
        lead, many = y.shape[: y.ndim - rank], prod(plane)
        count = prod(y.shape[len(lead) :])
        places, values = (t.reshape(v, *lead, count) for v in (indices, y))
        missing = t.compare("lt", places, 0)
        values = t.select(missing, t.like(values, 0), values)
        blank = t.full((*lead, many), y.dtype, 0)
        found = table["scatter_along"](blank, places, values, axis=len(lead), kind="add")
        return t.reshape(found, *lead, *plane)

    return body


RULES = {
    "window_reduce": _reduce,
    "window_argmax": _argmax,
    "window_gather": _gather,
    "window_scatter": _scatter,
}
