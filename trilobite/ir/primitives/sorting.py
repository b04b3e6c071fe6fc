"""Order: `sort` arranges several operands by the first of them, `top_k` finds the largest.

NaN comes last in `sort` (as in NumPy) and counts as the largest in `top_k` (as in `argmax`). Equal elements
keep their order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import ALL, COMPLEX, int64
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import quiet
from trilobite.ir.primitive import Attributes, Primitive, Value, table
from trilobite.ir.primitives.common import count, elements, names, same_types, sortable
from trilobite.ir.transforms.batch import all_mapped
from trilobite.ir.types import Dim, TensorType

Array = np.ndarray[Any, Any]
ORDERED = ALL - COMPLEX


def _sort_type(*types: TensorType, axis: int, keys: int) -> tuple[TensorType, ...]:
    if not 1 <= keys <= len(types):
        raise ShapeError(
            f"sort of {len(types)} operands by {keys} keys",
            where=user_location(),
            expected="at least one key and no more than operands",
        )
    for i, t in enumerate(types):
        if t.shape != types[0].shape:
            raise ShapeError(
                f"sort: operands {types[0]} and {t} differ in shape",
                where=user_location(),
                expected="equal shapes",
            )
        if i < keys and t.dtype not in ORDERED:
            raise DTypeError(f"sort by {t}", where=user_location(), expected=names(ORDERED))
    if not 0 <= axis < len(types[0].shape):
        raise ShapeError(
            f"sort of {types[0]} along axis {axis}",
            where=user_location(),
            expected=f"0 <= axis < {len(types[0].shape)}",
        )
    return types


def _sort(*xs: Array, axis: int, keys: int) -> tuple[Array, ...]:
    if len(xs) == 1:
        return (np.sort(sortable(xs[0]), axis=axis, kind="stable").astype(xs[0].dtype, copy=False),)
    order = _order([sortable(x) for x in xs[:keys]], axis)
    return tuple(np.take_along_axis(x, order, axis) for x in xs)


def _order(keys: Sequence[Array], axis: int) -> Array:
    return (
        np.argsort(keys[0], axis=axis, kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1], axis=axis)
    )


def permutation(xs: Sequence[Value], axis: int, keys: int) -> Value:
    """Where each element of the sorted operands stood."""
    places = table["iota"](shape=xs[0].shape, dtype=int64, axis=axis)
    return sort(*xs[:keys], places, axis=axis, keys=keys)[-1]


def _sort_jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Any, Any]:
    axis, keys = attrs["axis"], attrs["keys"]
    places = table["iota"](shape=primals[0].shape, dtype=int64, axis=axis)
    *outs, order = sort(*primals, places, axis=axis, keys=keys)
    return tuple(outs), tuple(
        None if t is None else table["take_along"](t, order, axis=axis) for t in tangents
    )


def _sort_vjp(
    cts: Sequence[Any], inputs: Sequence[Value], outs: Any, wanted: Sequence[bool], attrs: Attributes
) -> list[Any]:
    order = permutation(inputs, attrs["axis"], attrs["keys"])

    def back(ct: Value) -> Value:
        blank = table["full"](shape=ct.shape, dtype=ct.dtype, value=0.0)
        return table["scatter_along"](blank, order, ct, axis=attrs["axis"], kind="add")

    return [back(ct) if want and ct is not None else None for ct, want in zip(cts, wanted, strict=True)]


def _sort_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Any:
    return sort(*all_mapped(size, values, mapped), axis=attrs["axis"] + 1, keys=attrs["keys"])


def _comparisons(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Attributes) -> float:
    length = count(inputs[0].shape[attrs["axis"]])
    return elements(inputs) * math.ceil(math.log2(max(length, 2)))


sort: Primitive = Primitive(
    "sort", "x", type=_sort_type, evaluate=quiet(_sort), whole_jvp=_sort_jvp, whole_vjp=_sort_vjp,
    batch=_sort_batch,
    cost=_comparisons, multiple=True,
    doc="all operands rearranged along an axis so that the first `keys` of them rise, the first before the "
    "second",
)  # fmt: skip

# -- the k largest ------------------------------------------------------------------------------------------


def _top_type(x: TensorType, k: int, axis: int = -1) -> tuple[TensorType, TensorType]:
    same_types("top_k", (x,), ORDERED)
    if not -len(x.shape) <= axis < len(x.shape):
        raise ShapeError(
            f"top_k of {x} along axis {axis}",
            where=user_location(),
            expected=f"{-len(x.shape)} <= axis < {len(x.shape)}",
        )
    axis %= len(x.shape)
    if not 0 <= k <= x.shape[axis]:
        raise ShapeError(
            f"top_k of {x} along axis {axis} with k = {k}",
            where=user_location(),
            expected=f"0 <= k <= {x.shape[axis]}",
        )
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return TensorType(shape, x.dtype), TensorType(shape, int64)


def _top(x: Array, k: int, axis: int = -1) -> tuple[Array, Array]:
    # Backwards, the stable order puts equal elements last to first; turned round, the largest come first.
    ordered = np.flip(np.argsort(np.flip(sortable(x), axis), axis=axis, kind="stable"), axis)
    places = x.shape[axis] - 1 - np.take(ordered, np.arange(k), axis=axis)
    return np.take_along_axis(x, places, axis), places


def _top_jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Any, Any]:
    values, places = top_k(primals[0], **attrs)
    axis = attrs.get("axis", -1) % primals[0].ndim
    t = tangents[0]
    return (values, places), (None if t is None else table["take_along"](t, places, axis=axis), None)


def _top_vjp(
    cts: Sequence[Any],
    inputs: Sequence[TensorType],
    outs: Sequence[Value],
    wanted: Sequence[bool],
    attrs: Attributes,
) -> list[Any]:
    if cts[0] is None:
        return [None]
    axis = attrs.get("axis", -1) % len(inputs[0].shape)
    blank = table["full"](shape=inputs[0].shape, dtype=inputs[0].dtype, value=0.0)
    return [table["scatter_along"](blank, outs[1], cts[0], axis=axis, kind="add")]


def _top_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Any:
    axis = attrs.get("axis", -1)
    return top_k(values[0], k=attrs["k"], axis=axis if axis < 0 else axis + 1)


def _top_cost(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Attributes) -> float:
    return _comparisons(inputs, outputs, {"axis": attrs.get("axis", -1)})


top_k: Primitive = Primitive(
    "top_k", "x", type=_top_type, evaluate=quiet(_top), whole_jvp=_top_jvp, whole_vjp=_top_vjp, keep="types",
    batch=_top_batch, cost=_top_cost, multiple=True,
    doc="the k largest along an axis, falling, and where they stood; of equal ones the first",
)  # fmt: skip
