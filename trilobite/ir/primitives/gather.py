"""Reading at computed places: `gather` along one axis, `gather_nd` at points of several, `take_along` lane by
lane.

Indices are integers of any dtype. One outside its axis means the nearest place inside: a graph has no way to
raise an error in the middle of a run, and the same clamp in `scatter` makes the two adjoint. Counting from
the end is for callers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import INTEGERS, int64, uint64
from trilobite.base.errors import ArgumentError, DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Attributes, Primitive, Value, table
from trilobite.ir.primitives.common import free
from trilobite.ir.transforms.batch import all_mapped
from trilobite.ir.types import Dim, Shape, TensorType

Array = np.ndarray[Any, Any]


def clamped(indices: Array, size: int) -> Array:
    """Indices as int64 places of an axis."""
    return np.minimum(np.maximum(_signed(indices, size), 0), max(size - 1, 0))


def _signed(indices: Array, size: int) -> Array:
    """Indices as int64; what is too large for it becomes merely too large."""
    if indices.dtype == uint64:
        indices = np.minimum(indices, np.uint64(size))
    return indices.astype(int64, copy=False)


def check_indices(name: str, indices: TensorType) -> None:
    if indices.dtype not in INTEGERS:
        raise DTypeError(f"{name} with indices {indices}", where=user_location(), expected="an integer dtype")


def check_reachable(name: str, x: TensorType, axes: Sequence[int], indices: TensorType) -> None:
    if any(x.shape[a] == 0 for a in axes) and not any(d == 0 for d in indices.shape):
        raise ShapeError(
            f"{name} of {x}: an axis without elements has no places to index", where=user_location()
        )


def moved_to_front(x: Value, axes: Sequence[int]) -> Value:
    order = (*axes, *(i for i in range(x.ndim) if i not in axes))
    return x if order == tuple(range(x.ndim)) else table["transpose"](x, axes=order)


def zeros(t: TensorType) -> Value:
    return table["full"](shape=t.shape, dtype=t.dtype, value=0.0)


# -- gather ------------------------------------------------------------------------------------------------


def _gather_type(x: TensorType, indices: TensorType, axis: int, mode: str = "clip") -> TensorType:
    check_indices("gather", indices)
    if not 0 <= axis < len(x.shape):
        raise ShapeError(
            f"gather of {x} along axis {axis}", where=user_location(), expected=f"0 <= axis < {len(x.shape)}"
        )
    if mode != "clip":
        raise ArgumentError(f"gather has no mode {mode!r}", where=user_location(), expected="'clip'")
    check_reachable("gather", x, (axis,), indices)
    return TensorType((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)


def _gather(x: Array, indices: Array, axis: int, mode: str = "clip") -> Array:
    out: Array = x.take(_signed(indices, x.shape[axis]), axis, mode="clip")
    return out


def _gather_vjp(t: Value, indices: Value, x_type: TensorType, *, axis: int) -> Value:
    column = table["reshape"](indices, shape=(*indices.shape, 1))
    updates = moved_to_front(t, range(axis, axis + indices.ndim))
    return table["scatter"](zeros(x_type), column, updates, axes=(axis,), kind="add")


def _gather_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
    (x, indices), axis = values, attrs["axis"]
    if not mapped[1]:
        return gather(x, indices, axis=axis + 1)
    if not mapped[0]:
        return moved_to_front(gather(x, indices, axis=axis), (axis,))
    column = table["reshape"](indices, shape=(*indices.shape, 1))
    out = gather_nd(x, with_batch_index(column), axes=(0, axis + 1))
    # Now batch, indices, rest of x; wanted: batch, x before the axis, indices, x after it.
    n, before = indices.ndim - 1, axis
    order = (0, *range(1 + n, 1 + n + before), *range(1, 1 + n), *range(1 + n + before, out.ndim))
    return table["transpose"](out, axes=order)


gather: Primitive = Primitive(
    "gather", "x indices", type=_gather_type, evaluate=array_rule(_gather),
    jvp=(lambda t, indices, *, axis: gather(t, indices, axis=axis), None), vjp=(_gather_vjp, None),
    batch=_gather_batch, cost=free,
    doc="x[..., indices, ...]: the elements of one axis that the indices name",
)  # fmt: skip

# -- gather_nd ----------------------------------------------------------------------------------------------


def with_batch_index(indices: Value) -> Value:
    """Points (batch, ..., k) become points (batch, ..., 1 + k) that name their own element of the batch
    first.
    """
    if indices.dtype.itemsize < 4:  # too narrow to count a batch
        indices = table["cast"](indices, dtype=int64)
    first = table["iota"](shape=(*indices.shape[:-1], 1), dtype=indices.dtype, axis=0)
    return table["concatenate"](first, indices, axis=indices.ndim - 1)


def point_shape(name: str, x: TensorType, indices: TensorType, axes: tuple[int, ...]) -> Shape:
    """The shape of what lies at the points: their own shape, then the axes of x that no index names."""
    check_indices(name, indices)
    if not axes or len(set(axes)) != len(axes) or any(not 0 <= a < len(x.shape) for a in axes):
        raise ShapeError(
            f"{name} of {x} over axes {list(axes)}",
            where=user_location(),
            expected=f"distinct axes below {len(x.shape)}",
        )
    if not indices.shape or indices.shape[-1] != len(axes):
        raise ShapeError(
            f"{name} of {x} at {indices} over axes {list(axes)}",
            where=user_location(),
            expected=f"a last axis of {len(axes)} indices",
        )
    check_reachable(name, x, axes, indices)
    return (*indices.shape[:-1], *(d for i, d in enumerate(x.shape) if i not in axes))


def _gather_nd_type(x: TensorType, indices: TensorType, axes: tuple[int, ...]) -> TensorType:
    return TensorType(point_shape("gather_nd", x, indices, axes), x.dtype)


def _gather_nd(x: Array, indices: Array, axes: tuple[int, ...]) -> Array:
    order = (*axes, *(i for i in range(x.ndim) if i not in axes))
    return x.transpose(order)[tuple(clamped(indices[..., k], x.shape[a]) for k, a in enumerate(axes))]


def _gather_nd_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
    (x, indices), axes = values, attrs["axes"]
    if not mapped[0]:
        return gather_nd(x, indices, axes=axes)
    inner = tuple(a + 1 for a in axes)
    if not mapped[1]:
        return moved_to_front(gather_nd(x, indices, axes=inner), (indices.ndim - 1,))
    return gather_nd(x, with_batch_index(indices), axes=(0, *inner))


gather_nd: Primitive = Primitive(
    "gather_nd", "x indices", type=_gather_nd_type, evaluate=array_rule(_gather_nd),
    jvp=(lambda t, indices, *, axes: gather_nd(t, indices, axes=axes), None),
    vjp=(
        lambda t, indices, x_type, *, axes: table["scatter"](zeros(x_type), indices, t, axes=axes,
        kind="add"),
        None,
    ),
    batch=_gather_nd_batch, cost=free,
    doc="indices[..., k] is a place on axis axes[k]; the other axes of x follow those of the points",
)  # fmt: skip

# -- take_along ---------------------------------------------------------------------------------------------


def check_lanes(name: str, x: TensorType, indices: TensorType, axis: int) -> None:
    check_indices(name, indices)
    fits = len(x.shape) == len(indices.shape) and 0 <= axis < len(x.shape)
    if not fits or any(
        a != b for i, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True)) if i != axis
    ):
        raise ShapeError(
            f"{name} of {x} at {indices} along axis {axis}",
            where=user_location(),
            expected="equal sizes on all other axes",
        )
    check_reachable(name, x, (axis,), indices)


def _take_along_type(x: TensorType, indices: TensorType, axis: int) -> TensorType:
    check_lanes("take_along", x, indices, axis)
    return TensorType(indices.shape, x.dtype)


def _take_along_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
    return take_along(*all_mapped(size, values, mapped), axis=attrs["axis"] + 1)


take_along: Primitive = Primitive(
    "take_along", "x indices", type=_take_along_type,
    evaluate=array_rule(lambda x, indices, axis: np.take_along_axis(x, clamped(indices, x.shape[axis]),
    axis)),
    jvp=(lambda t, indices, *, axis: take_along(t, indices, axis=axis), None),
    vjp=(
        lambda t, indices, x_type, *, axis: table["scatter_along"](zeros(x_type), indices, t, axis=axis,
        kind="add"),
        None,
    ),
    batch=_take_along_batch, cost=free,
    doc="out[..., i, ...] = x[..., indices[..., i, ...], ...] on the axis",
)  # fmt: skip
