"""Slices whose place is computed: `dynamic_slice` reads a window, `dynamic_update_slice` writes one.

Starts are integer scalars, one per axis, clamped so that the window lies inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import INTEGERS, int64, uint64
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Attributes, Primitive, Value, table
from trilobite.ir.primitives.common import free
from trilobite.ir.primitives.gather import gather_nd, moved_to_front
from trilobite.ir.primitives.shape import inverse
from trilobite.ir.transforms.batch import all_mapped
from trilobite.ir.types import Dim, Shape, TensorType

Array = np.ndarray[Any, Any]


def _check(name: str, x: TensorType, starts: Sequence[TensorType], sizes: Shape) -> None:
    if len(starts) != len(x.shape) or len(sizes) != len(x.shape):
        raise ShapeError(
            f"{name} of {x}: {len(starts)} starts and {len(sizes)} sizes",
            where=user_location(),
            expected=f"{len(x.shape)} of each",
        )
    for t in starts:
        if t.shape != () or t.dtype not in INTEGERS:
            raise DTypeError(
                f"{name} of {x} starting at {t}", where=user_location(), expected="integer scalars"
            )
    for a, (n, d) in enumerate(zip(sizes, x.shape, strict=True)):
        if not 0 <= n <= d:
            raise ShapeError(
                f"{name} of {x}: a window of {n} on axis {a}",
                where=user_location(),
                expected=f"0 <= size <= {d}",
            )


def _window(x: Array, starts: Sequence[Array], sizes: Sequence[int]) -> tuple[slice, ...]:
    first = [min(max(int(s), 0), d - n) for s, d, n in zip(starts, x.shape, sizes, strict=True)]
    return tuple(slice(f, f + n) for f, n in zip(first, sizes, strict=True))


def _points(
    size: Dim, starts: Sequence[Value], mapped: Sequence[bool], shape: Shape, sizes: Shape
) -> tuple[Any, Any]:
    """For a batch of windows: the axes on which they can lie at all, and the points (batch, window, 1 + k)
    there.
    """
    loose = tuple(a for a, (n, d) in enumerate(zip(sizes, shape, strict=True)) if n != d)
    grid = (size, *(sizes[a] for a in loose), 1)
    columns = [table["iota"](shape=grid, dtype=int64, axis=0)]
    for k, a in enumerate(loose):
        start = _clamped(starts[a], shape[a] - sizes[a])
        spread = table["broadcast"](start, shape=grid, axes=(0,) if mapped[a] else ())
        columns.append(table["add"](spread, table["iota"](shape=grid, dtype=int64, axis=k + 1)))
    return loose, table["concatenate"](*columns, axis=len(grid) - 1)


def _clamped(start: Value, highest: Dim) -> Value:
    if start.dtype == uint64:
        top = table["full"](shape=start.shape, dtype=uint64, value=highest)
        return table["cast"](table["minimum"](start, top), dtype=int64)
    start = table["cast"](start, dtype=int64)
    low, high = (table["full"](shape=start.shape, dtype=int64, value=v) for v in (0, highest))
    return table["minimum"](table["maximum"](start, low), high)


# -- read --------------------------------------------------------------------------------------------------


def _slice_type(x: TensorType, *starts: TensorType, sizes: Shape) -> TensorType:
    _check("dynamic_slice", x, starts, sizes)
    return TensorType(sizes, x.dtype)


def _slice_jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Value, Any]:
    out, t = dynamic_slice(*primals, **attrs), tangents[0]
    return out, None if t is None else dynamic_slice(t, *primals[1:], **attrs)


def _slice_vjp(
    cts: Sequence[Value], inputs: Sequence[Value], outs: Any, wanted: Sequence[bool], attrs: Attributes
) -> list[Any]:
    x, *starts = inputs
    blank = table["full"](shape=x.shape, dtype=x.dtype, value=0.0)
    return [dynamic_update_slice(blank, cts[0], *starts), *[None] * len(starts)]


def _slice_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
    x, *starts = values
    sizes: Shape = attrs["sizes"]
    if not any(mapped[1:]):
        return dynamic_slice(x, np.asarray(0, int64), *starts, sizes=(size, *sizes))
    (x,) = all_mapped(size, (x,), mapped[:1])
    loose, points = _points(size, starts, mapped[1:], x.shape[1:], sizes)
    out = gather_nd(x, points, axes=(0, *(a + 1 for a in loose)))
    fixed = (a for a in range(len(sizes)) if a not in loose)
    return table["transpose"](out, axes=inverse((0, *(a + 1 for a in (*loose, *fixed)))))


dynamic_slice: Primitive = Primitive(
    "dynamic_slice", "x starts", type=_slice_type,
    evaluate=array_rule(lambda x, *starts, sizes: x[_window(x, starts, sizes)]),
    whole_jvp=_slice_jvp, whole_vjp=_slice_vjp, keep=(0,), batch=_slice_batch, cost=free,
    doc="a window of given sizes",
)  # fmt: skip

# -- write --------------------------------------------------------------------------------------------------


def _update_type(x: TensorType, y: TensorType, *starts: TensorType) -> TensorType:
    _check("dynamic_update_slice", x, starts, y.shape)
    if x.dtype != y.dtype:
        raise DTypeError(
            f"dynamic_update_slice of {x} with {y}",
            where=user_location(),
            expected="equal dtypes; casts are explicit",
        )
    return x


def _update(x: Array, y: Array, *starts: Array) -> Array:
    out = x.copy()
    out[_window(x, starts, y.shape)] = y
    return out


def _update_jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Value, Any]:
    x, y, *starts = primals
    tx, ty = tangents[:2]
    out = dynamic_update_slice(x, y, *starts)
    if tx is None and ty is None:
        return out, None
    pair = [_blank(p) if t is None else t for p, t in ((x, tx), (y, ty))]
    return out, dynamic_update_slice(*pair, *starts)


def _update_vjp(
    cts: Sequence[Value], inputs: Sequence[Value], outs: Any, wanted: Sequence[bool], attrs: Attributes
) -> list[Any]:
    _, y, *starts = inputs
    ct_x = dynamic_update_slice(cts[0], _blank(y), *starts) if wanted[0] else None
    ct_y = dynamic_slice(cts[0], *starts, sizes=y.shape) if wanted[1] else None
    return [ct_x, ct_y, *[None] * len(starts)]


def _blank(x: Value) -> Value:
    return table["full"](shape=x.shape, dtype=x.dtype, value=0.0)


def _update_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
    x, y = all_mapped(size, values[:2], mapped[:2])
    starts = values[2:]
    if not any(mapped[2:]):
        return dynamic_update_slice(x, y, np.asarray(0, int64), *starts)
    loose, points = _points(size, starts, mapped[2:], x.shape[1:], y.shape[1:])
    updates = moved_to_front(y, (0, *(a + 1 for a in loose)))
    return table["scatter"](x, points, updates, axes=(0, *(a + 1 for a in loose)), kind="set")


dynamic_update_slice: Primitive = Primitive(
    "dynamic_update_slice", "x y starts", type=_update_type, evaluate=array_rule(_update),
    whole_jvp=_update_jvp, whole_vjp=_update_vjp, keep=(0, 1), batch=_update_batch, cost=free,
    doc="x with a window of it replaced by y",
)  # fmt: skip
