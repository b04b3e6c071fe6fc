"""Writing at computed places: the adjoints of `gather_nd` and `take_along`.

Meaning: a copy of x, then the updates one after the other in row-major order of the indices; so of several
`set` to one place the last stays, and sums and products of small floats accumulate in float32 and round once.
Places are clamped as in `gather`. `scatter` and `scatter_along` set or add; what reduces otherwise is in
`scatter_reduce`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import ALL, COMPLEX, DType, accumulator, bool_, int64
from trilobite.base.errors import ArgumentError, DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Attributes, Primitive, Value, table
from trilobite.ir.primitives.common import count, elements, names, sortable
from trilobite.ir.primitives.gather import (
    check_lanes,
    clamped,
    gather_nd,
    point_shape,
    take_along,
    with_batch_index,
    zeros,
)
from trilobite.ir.primitives.shape import inverse
from trilobite.ir.transforms.batch import all_mapped
from trilobite.ir.types import Dim, Shape, TensorType

Array = np.ndarray[Any, Any]
ACCEPTS = {"set": ALL, "add": ALL - {bool_}, "mul": ALL - {bool_}, "max": ALL - COMPLEX, "min": ALL - COMPLEX}
_UFUNCS: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def check_kind(name: str, kind: str, kinds: Sequence[str], x: TensorType, updates: TensorType) -> None:
    if kind not in kinds:
        other = "scatter_reduce" if kind in ACCEPTS and "set" in kinds else None
        raise ArgumentError(
            f"{name} has no kind {kind!r}", where=user_location(), expected=f"one of {', '.join(kinds)}",
            remedy=None if other is None else f"{name.replace('scatter', other)} has it",
        )  # fmt: skip
    if x.dtype not in ACCEPTS[kind]:
        raise DTypeError(
            f"{name} {kind} does not take {x.dtype}", where=user_location(), expected=names(ACCEPTS[kind])
        )
    if x.dtype != updates.dtype:
        raise DTypeError(
            f"{name} of {updates} into {x}",
            where=user_location(),
            expected="equal dtypes; casts are explicit",
        )


def point_type(name: str, kinds: Sequence[str]) -> Callable[..., TensorType]:
    def rule(
        x: TensorType, indices: TensorType, updates: TensorType, axes: tuple[int, ...], kind: str
    ) -> TensorType:
        check_kind(name, kind, kinds, x, updates)
        shape = point_shape(name, x, indices, axes)
        if updates.shape != shape:
            raise ShapeError(
                f"{name} of {updates} into {x} at {indices}",
                where=user_location(),
                expected=TensorType(shape, x.dtype),
            )
        return x

    return rule


def lane_type(name: str, kinds: Sequence[str]) -> Callable[..., TensorType]:
    def rule(x: TensorType, indices: TensorType, updates: TensorType, axis: int, kind: str) -> TensorType:
        check_kind(name, kind, kinds, x, updates)
        check_lanes(name, x, indices, axis)
        if updates.shape != indices.shape:
            raise ShapeError(
                f"{name} of {updates} at {indices}", where=user_location(), expected="one update per index"
            )
        return x

    return rule


# -- meaning -----------------------------------------------------------------------------------------------


def _written(x: Array, places: Array, updates: Array, kind: str) -> Array:
    """x, flat and owned, with updates applied at flat places, in order."""
    flat = updates.reshape(-1)
    if kind == "set":
        x[places] = flat
    else:
        _UFUNCS[kind].at(x, places, flat)
    return x


def _working(dtype: DType, kind: str) -> Callable[[Array], Array]:
    if kind in ("add", "mul") and accumulator(dtype) != dtype:
        return lambda a: a.astype(accumulator(dtype))
    return (lambda a: a) if kind == "set" else sortable


def scatter_points(x: Array, indices: Array, updates: Array, axes: tuple[int, ...], kind: str) -> Array:
    order = (*axes, *(i for i in range(x.ndim) if i not in axes))
    moved, wide = x.transpose(order), _working(x.dtype, kind)
    rest = math.prod(moved.shape[len(axes) :])
    places = clamped(indices[..., 0], moved.shape[0])
    for k, size in enumerate(moved.shape[1 : len(axes)], start=1):
        places = places * size + clamped(indices[..., k], size)
    if rest != 1:
        places = places[..., None] * rest + np.arange(rest)
    out = _written(wide(moved).flatten(), places.reshape(-1), wide(updates), kind)
    return out.astype(x.dtype, copy=False).reshape(moved.shape).transpose(inverse(order))


def scatter_lanes(x: Array, indices: Array, updates: Array, axis: int, kind: str) -> Array:
    wide = _working(x.dtype, kind)
    places = np.zeros(indices.shape, np.int64)
    for a, size in enumerate(x.shape):
        lane = np.arange(size).reshape([-1 if i == a else 1 for i in range(x.ndim)])
        places = places * size + (clamped(indices, size) if a == axis else lane)
    out = _written(wide(x).flatten(), places.reshape(-1), wide(updates), kind)
    return out.astype(x.dtype, copy=False).reshape(x.shape)


def cost(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Attributes) -> float:
    return 0.0 if attrs["kind"] == "set" else elements(inputs[2:])


# -- batch -------------------------------------------------------------------------------------------------


def point_batch(name: str) -> Callable[..., Value]:
    def rule(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
        x, updates = all_mapped(size, (values[0], values[2]), (mapped[0], mapped[2]))
        inner = tuple(a + 1 for a in attrs["axes"])
        if mapped[1]:
            return table[name](x, with_batch_index(values[1]), updates, axes=(0, *inner), kind=attrs["kind"])
        n = values[1].ndim - 1  # the batch becomes the first axis of x that no index names
        order = (*range(1, n + 1), 0, *range(n + 1, updates.ndim))
        return table[name](
            x, values[1], table["transpose"](updates, axes=order), axes=inner, kind=attrs["kind"]
        )

    return rule


def lane_batch(name: str) -> Callable[..., Value]:
    def rule(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
        return table[name](*all_mapped(size, values, mapped), axis=attrs["axis"] + 1, kind=attrs["kind"])

    return rule


# -- set and add at points ---------------------------------------------------------------------------------


def _point_x(
    t: Value, indices: Value, updates_type: TensorType, *, axes: tuple[int, ...], kind: str
) -> Value:
    """What was overwritten no longer counts; what was added to does."""
    return t if kind == "add" else scatter(t, indices, zeros(updates_type), axes=axes, kind="set")


def _point_jvp(t: Value, indices: Value, x_type: TensorType, *, axes: tuple[int, ...], kind: str) -> Value:
    return scatter(zeros(x_type), indices, t, axes=axes, kind=kind)


def _point_vjp(t: Value, indices: Value, x_type: TensorType, *, axes: tuple[int, ...], kind: str) -> Value:
    found = gather_nd(t, indices, axes=axes)
    if kind == "add":
        return found
    # Every update leaves its number; those that find their own number again were the last ones.
    points = indices.shape[:-1]
    own = _labels(points)
    blank = table["full"](shape=tuple(x_type.shape[a] for a in axes), dtype=int64, value=-1)
    every = tuple(range(len(axes)))
    board = scatter(blank, indices, own, axes=every, kind="set")
    stayed = table["eq"](gather_nd(board, indices, axes=every), own)
    stayed = table["broadcast"](stayed, shape=found.shape, axes=tuple(range(len(points))))
    return table["select"](stayed, found, table["full"](shape=found.shape, dtype=found.dtype, value=0.0))


def _labels(shape: Shape) -> Value:
    """A number for each point, different from all others; for a size that only a run knows, its bound
    counts.
    """
    total = table["full"](shape=shape, dtype=int64, value=0)
    stride = 1
    for a in reversed(range(len(shape))):
        step = table["full"](shape=shape, dtype=int64, value=stride)
        total = table["add"](total, table["mul"](table["iota"](shape=shape, dtype=int64, axis=a), step))
        stride *= int(count(shape[a]))
    return total


scatter: Primitive = Primitive(
    "scatter", "x indices updates", type=point_type("scatter", ("set", "add")),
    evaluate=array_rule(scatter_points),
    jvp=(_point_x, None, _point_jvp), vjp=(_point_x, None, _point_vjp), batch=point_batch("scatter"),
    cost=cost,
    doc="x with updates set at, or added to, the places indices[..., k] on axes[k]",
)  # fmt: skip

# -- set and add along lanes --------------------------------------------------------------------------------


def _lane_x(t: Value, indices: Value, updates_type: TensorType, *, axis: int, kind: str) -> Value:
    return t if kind == "add" else scatter_along(t, indices, zeros(updates_type), axis=axis, kind="set")


def _lane_jvp(t: Value, indices: Value, x_type: TensorType, *, axis: int, kind: str) -> Value:
    return scatter_along(zeros(x_type), indices, t, axis=axis, kind=kind)


def _lane_vjp(t: Value, indices: Value, x_type: TensorType, *, axis: int, kind: str) -> Value:
    found = take_along(t, indices, axis=axis)
    if kind == "add":
        return found
    own = table["iota"](shape=indices.shape, dtype=int64, axis=axis)
    blank = table["full"](shape=x_type.shape, dtype=int64, value=-1)
    board = scatter_along(blank, indices, own, axis=axis, kind="set")
    stayed = table["eq"](take_along(board, indices, axis=axis), own)
    return table["select"](stayed, found, table["full"](shape=found.shape, dtype=found.dtype, value=0.0))


scatter_along: Primitive = Primitive(
    "scatter_along", "x indices updates", type=lane_type("scatter_along", ("set", "add")),
    evaluate=array_rule(scatter_lanes), jvp=(_lane_x, None, _lane_jvp), vjp=(_lane_x, None, _lane_vjp),
    batch=lane_batch("scatter_along"), cost=cost,
    doc="out[..., indices[..., i, ...], ...] set to, or increased by, updates[..., i, ...] on the axis",
)  # fmt: skip
