"""Reading and writing at computed places, as functions: take, gather, scatter and their kin.

Known indices must be in range; those that only a run knows are clamped. Negative ones count from the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.axes import axis_in
from trilobite.framework.ops.keys import counted
from trilobite.framework.ops.meeting import as_value, astype, broadcast_shapes, broadcast_to, together, within
from trilobite.framework.ops.numbers import number_as_line
from trilobite.framework.ops.pointwise import full, like, truth
from trilobite.framework.ops.registry import op
from trilobite.framework.ops.searching import flat_places
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.primitives.reduction import highest, lowest
from trilobite.ir.types import Affine, Shape, size_of

G = "indexing"


def _indices(indices: Any, what: str) -> Value:
    v = as_value(indices)
    if v.dtype not in dt.INTEGERS:
        raise DTypeError(
            f"{what} with indices of {v.dtype}",
            where=user_location(),
            expected="an integer dtype",
            remedy="indices.long()",
        )
    return v


@op(G, plan=True)
def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Value:
    """The elements (or slices) along an axis that the indices name; without one, the elements of the tensor
    seen as a line.
    """
    x, at = as_value(x), _indices(indices, "take")
    if axis is None and x.ndim != 1:
        x = table["reshape"](x, shape=(size_of(x.shape),))
    a = 0 if axis is None else axis_in(axis, x.ndim, "take")
    return table["gather"](x, counted(at, x.shape[a], a), axis=a)


@op(G, plan=True)
@number_as_line
def index_select(x: Any, axis: int, index: Any, /) -> Value:
    """The slices along an axis that a line of indices names."""
    return take(x, index, axis=axis)


@op(G, plan=True)
def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Value:
    """out[..., i, ...] = x[..., indices[..., i, ...], ...] along an axis; the other axes broadcast."""
    x, at = as_value(x), _indices(indices, "take_along_axis")
    if x.ndim != at.ndim:
        raise ShapeError(
            f"take_along_axis from shape {tuple(x.shape)} at indices of shape {tuple(at.shape)}",
            where=user_location(),
            expected="as many dimensions",
        )
    a = axis_in(axis, x.ndim, "take_along_axis")
    lanes = broadcast_shapes(_without(x.shape, a), _without(at.shape, a))
    at = broadcast_to(counted(at, x.shape[a], a), (*lanes[:a], at.shape[a], *lanes[a:]))
    return table["take_along"](broadcast_to(x, (*lanes[:a], x.shape[a], *lanes[a:])), at, axis=a)


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


# -- as PyTorch has them ---------------------------------------------------------------------------------


def _corner(x: Value, index: Value, axis: int, what: str) -> dict[str, Any] | None:
    """The part of x that an index covers: indices may be fewer than x has places on the other axes."""
    fits = x.ndim == index.ndim and all(
        isinstance(d, Affine) or i == axis or n <= d
        for i, (n, d) in enumerate(zip(index.shape, x.shape, strict=True))
    )
    if not fits:
        raise ShapeError(
            f"{what} along axis {axis} of shape {tuple(x.shape)} at indices of shape {tuple(index.shape)}",
            where=user_location(),
            expected="as many dimensions, and sizes that are not larger on the other axes",
        )
    stop = tuple(x.shape[i] if i == axis else n for i, n in enumerate(index.shape))
    return None if stop == x.shape else {"start": (0,) * x.ndim, "stop": stop, "step": (1,) * x.ndim}


@op(G, plan=True)
@number_as_line
def gather(x: Any, axis: int, index: Any) -> Value:
    """out[..., i, ...] = x[..., index[..., i, ...], ...] along an axis."""
    x, at = as_value(x), _indices(index, "gather")
    a = axis_in(axis, x.ndim, "gather")
    corner = _corner(x, at, a, "gather")
    if corner is not None:
        x = table["slice"](x, **corner)
    return table["take_along"](x, counted(at, x.shape[a], a), axis=a)


_KINDS = {
    "set": "set",
    "add": "add",
    "sum": "add",
    "prod": "mul",
    "multiply": "mul",
    "amax": "max",
    "amin": "min",
}


def _scatter(x: Any, axis: int, index: Any, source: Any, kind: str, what: str) -> Value:
    x, at = as_value(x), _indices(index, what)
    a = axis_in(axis, x.ndim, what)
    new = within(source, x.dtype)
    new = _cropped(new, at.shape, what) if new.ndim else broadcast_to(new, at.shape)
    corner = _corner(x, at, a, what)
    part = x if corner is None else table["slice"](x, **corner)
    kind = _of_truths(kind, x.dtype)
    primitive = table["scatter_along" if kind in ("set", "add") else "scatter_reduce_along"]
    out = primitive(part, counted(at, x.shape[a], a), new, axis=a, kind=kind)
    return out if corner is None else table["update_slice"](x, out, **corner)


def _of_truths(kind: str, dtype: dt.DType) -> str:
    """A sum of truth values is their or, a product their and."""
    return {"add": "max", "mul": "min"}.get(kind, kind) if dtype == dt.bool_ else kind


def _cropped(source: Value, shape: Shape, what: str) -> Value:
    """The source may be larger than the index; what the index does not reach is left out."""
    if source.shape == shape:
        return source
    if source.ndim != len(shape) or any(s < n for s, n in zip(source.shape, shape, strict=True)):
        raise ShapeError(
            f"{what} from a source of shape {tuple(source.shape)} at indices of shape {tuple(shape)}",
            where=user_location(),
            expected="a source that is not smaller",
        )
    return table["slice"](source, start=(0,) * source.ndim, stop=shape, step=(1,) * source.ndim)


@op(G, plan=True)
@number_as_line
def scatter(
    x: Any, axis: int, index: Any, source: Any = None, *, reduce: str | None = "set", value: Any = None
) -> Value:
    """x with source[..., i, ...] at x[..., index[..., i, ...], ...]; `reduce` may add or multiply instead."""
    reduce, source = reduce or "set", value if source is None else source
    if reduce not in _KINDS:
        raise ArgumentError(
            f"scatter(reduce={reduce!r})", where=user_location(), expected=f"one of {', '.join(_KINDS)}"
        )
    return _scatter(x, axis, index, source, _KINDS[reduce], "scatter")


@op(G, plan=True)
@number_as_line
def scatter_add(x: Any, axis: int, index: Any, source: Any) -> Value:
    """x with source[..., i, ...] added at x[..., index[..., i, ...], ...]."""
    return _scatter(x, axis, index, source, "add", "scatter_add")


_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@op(G, plan=True)
@number_as_line
def scatter_reduce(
    x: Any, axis: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Value:
    """x reduced with source[..., i, ...] at x[..., index[..., i, ...], ...]: "sum", "prod", "mean", "amax" or
    "amin"; without `include_self`, what stood at those places does not count.
    """
    what = "scatter_reduce"
    if reduce not in _REDUCTIONS:
        raise ArgumentError(
            f"{what}(reduce={reduce!r})", where=user_location(), expected=f"one of {', '.join(_REDUCTIONS)}"
        )
    x = as_value(x)
    if not include_self:
        x = _scatter(x, axis, index, full((), x.dtype, _neutral(reduce, x.dtype)), "set", what)
    if reduce != "mean":
        return _scatter(x, axis, index, source, _KINDS[reduce], what)
    counts = like(x, 1)
    if not include_self:
        counts = _scatter(counts, axis, index, full((), x.dtype, 0), "set", what)
    counts = _scatter(counts, axis, index, full((), x.dtype, 1), "add", what)
    total = _scatter(x, axis, index, source, "add", what)
    return table["floor_div" if x.dtype in dt.INTEGERS else "div"](total, counts)


def _neutral(reduce: str, dtype: dt.DType) -> Any:
    """The number that changes nothing when it is reduced with others."""
    if reduce in ("amax", "amin"):
        edge = lowest(dtype) if reduce == "amax" else highest(dtype)
        return float(edge) if dtype in dt.FLOATS else edge
    return int(reduce == "prod")


def _by_slices(x: Any, axis: int, index: Any, source: Any, kind: str, what: str) -> Value:
    x, at = as_value(x), _indices(index, what)
    a = axis_in(axis, x.ndim, what)
    if at.ndim != 1:
        raise ShapeError(
            f"{what} at indices of shape {tuple(at.shape)}", where=user_location(), expected="one dimension"
        )
    shape = (*x.shape[:a], at.shape[0], *x.shape[a + 1 :])
    new = broadcast_to(within(source, x.dtype), shape)
    updates = table["transpose"](new, axes=(a, *(i for i in range(x.ndim) if i != a)))
    column = table["reshape"](counted(at, x.shape[a], a), shape=(at.shape[0], 1))
    kind = _of_truths(kind, x.dtype)
    primitive = table["scatter" if kind in ("set", "add") else "scatter_reduce"]
    return primitive(x, column, updates, axes=(a,), kind=kind)


@op(G, plan=True)
@number_as_line
def index_add(x: Any, axis: int, index: Any, source: Any, alpha: Any = 1) -> Value:
    """x with alpha times the slices of a source added to the slices along an axis that the indices name."""
    if alpha != 1:
        source = as_value(source)
        times = "and" if source.dtype == dt.bool_ else "mul"
        source = table[times](source, broadcast_to(np.asarray(alpha, source.dtype), source.shape))
    return _by_slices(x, axis, index, source, "add", "index_add")


@op(G, plan=True)
@number_as_line
def index_copy(x: Any, axis: int, index: Any, source: Any) -> Value:
    """x with the slices along an axis that the indices name replaced by those of a source."""
    return _by_slices(x, axis, index, source, "set", "index_copy")


@op(G, plan=True)
@number_as_line
def index_fill(x: Any, axis: int, index: Any, value: Any) -> Value:
    """x with one number in the slices along an axis that the indices name."""
    return _by_slices(x, axis, index, value, "set", "index_fill")


# -- masks -----------------------------------------------------------------------------------------------


@op(G, plan=True)
def masked_fill(x: Any, mask: Any, value: Any) -> Value:
    """x with one value where the mask is true."""
    x, mask = as_value(x), truth(mask)
    dtype = x.dtype
    if dtype == dt.bool_ and isinstance(value, (int, float)):
        value = bool(value)
    x, new = together(x, value)
    if dt.kind(x.dtype) == dt.kind(dtype):
        x, new = astype(x, dtype), astype(new, dtype)
    shape = broadcast_shapes(x.shape, mask.shape)
    return table["select"](*(broadcast_to(v, shape) for v in (mask, new, x)))


@op(G)
def masked_select(x: Any, mask: Any, *, size: int | None = None, fill_value: Any = 0) -> Value:
    """The elements where the mask is true, in one line. With `size`, that many, filled up with a number."""
    x, mask = as_value(x), truth(mask)
    shape = broadcast_shapes(x.shape, mask.shape)
    flat = table["reshape"](broadcast_to(x, shape), shape=(size_of(shape),))
    at = flat_places(broadcast_to(mask, shape), size, -1, "masked_select")
    out = table["gather"](flat, at, axis=0) if flat.shape[0] != 0 else full(at.shape, flat.dtype, fill_value)
    if size is None:
        return out
    missing = table["lt"](at, full(at.shape, dt.int64, 0))
    return table["select"](missing, full(out.shape, out.dtype, fill_value), out)
