"""Reductions over axes. Sums and products of 16-bit and smaller floats accumulate in float32; operands are
made contiguous first, so that the order of additions depends on the shape alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import (
    ALL,
    COMPLEX,
    INTEGERS,
    DType,
    accumulator,
    bool_,
    int64,
    is_complex,
    is_integer,
)
from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Absent, Attributes, Primitive, Value, table
from trilobite.ir.primitives.common import (
    elements,
    float_range,
    in_bytes,
    integer_range,
    same_types,
    sortable,
)
from trilobite.ir.primitives.cumulative import exclusive_product
from trilobite.ir.primitives.shape import inverse
from trilobite.ir.types import Dim, Shape, TensorType, size_of

Array = np.ndarray[Any, Any]


def reduced(shape: Shape, axes: Sequence[int]) -> Shape:
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def spread(t: Value, shape: Shape, axes: Sequence[int]) -> Value:
    """Repeat a reduced value along the axes that the reduction removed."""
    return table["broadcast"](t, shape=shape, axes=tuple(i for i in range(len(shape)) if i not in axes))


def _type(name: str, accepts: Any) -> Callable[..., TensorType]:
    def rule(x: TensorType, axes: tuple[int, ...]) -> TensorType:
        same_types(name, (x,), accepts)
        if list(axes) != sorted(set(axes)) or any(not 0 <= a < len(x.shape) for a in axes):
            raise ShapeError(
                f"{name} of {x} over axes {list(axes)}",
                where=user_location(),
                expected=f"distinct sorted axes below {len(x.shape)}",
            )
        return TensorType(reduced(x.shape, axes), x.dtype)

    return rule


def _batch(name: str) -> Callable[..., Value]:
    def rule(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
        return table[name](values[0], axes=tuple(a + 1 for a in attrs["axes"]))

    return rule


def _cost(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attributes: Any) -> float:
    return elements(inputs)


def lowest(dtype: DType) -> Any:
    """The identity of max."""
    if dtype == bool_:
        return False
    return integer_range(dtype)[0] if is_integer(dtype) else _edge(dtype, -np.inf)


def highest(dtype: DType) -> Any:
    """The identity of min."""
    if dtype == bool_:
        return True
    return integer_range(dtype)[1] if is_integer(dtype) else _edge(dtype, np.inf)


def _edge(dtype: DType, infinity: float) -> Any:
    """Infinity, or the largest number of a format that has none."""
    with np.errstate(all="ignore"):
        found = np.asarray(infinity).astype(dtype)
    return found if np.isinf(found.astype(np.float32)) else float_range(dtype)[infinity > 0]


# -- sum and product ---------------------------------------------------------------------------------------


def _sum(x: Array, axes: tuple[int, ...]) -> Array:
    wide = accumulator(x.dtype)
    if wide is x.dtype and x.flags.c_contiguous:
        return np.add.reduce(x, axis=axes, dtype=wide)  # type: ignore[no-any-return]
    rows = np.ascontiguousarray(x, wide).reshape(x.shape)
    out: Array = np.add.reduce(rows, axis=axes, dtype=wide).astype(x.dtype, copy=False)
    return out


reduce_sum: Primitive = Primitive(
    "reduce_sum", "x", type=_type("reduce_sum", ALL - {bool_}), evaluate=array_rule(_sum),
    jvp=(lambda t, *, axes: reduce_sum(t, axes=axes),),
    vjp=(lambda t, x_type, *, axes: spread(t, x_type.shape, axes),),
    batch=_batch("reduce_sum"), cost=_cost,
)  # fmt: skip


def _prod(x: Array, axes: tuple[int, ...]) -> Array:
    wide = np.ascontiguousarray(x, accumulator(x.dtype)).reshape(x.shape)
    out: Array = np.multiply.reduce(wide, axis=axes, dtype=wide.dtype).astype(x.dtype, copy=False)
    return out


def _others(x: Value, axes: tuple[int, ...]) -> Value:
    """For each element the product of all the others: what comes before times what comes after, with no
    division.
    """
    order = (*(i for i in range(x.ndim) if i not in axes), *axes)
    moved = table["transpose"](x, axes=order)
    kept = moved.shape[: x.ndim - len(axes)]
    line = table["reshape"](moved, shape=(*kept, size_of([x.shape[a] for a in axes])))
    others = table["mul"](exclusive_product(line, reverse=False), exclusive_product(line, reverse=True))
    return table["transpose"](table["reshape"](others, shape=moved.shape), axes=inverse(order))


def _prod_jvp(t: Value, x: Value, *, axes: tuple[int, ...]) -> Value:
    return reduce_sum(table["mul"](t, _others(x, axes)), axes=axes)


def _prod_vjp(t: Value, x: Value, *, axes: tuple[int, ...]) -> Value:
    others = _others(x, axes)
    return table["mul"](spread(t, x.shape, axes), table["conj"](others) if is_complex(x.dtype) else others)


reduce_prod: Primitive = Primitive(
    "reduce_prod", "x", type=_type("reduce_prod", ALL - {bool_}), evaluate=array_rule(_prod),
    jvp=(_prod_jvp,), vjp=(_prod_vjp,), batch=_batch("reduce_prod"), cost=_cost,
    doc="the product; its derivative is exact also where elements are 0",
)  # fmt: skip

# -- largest and smallest -----------------------------------------------------------------------------------


def _extreme(ufunc: np.ufunc, identity: Callable[[DType], Any]) -> Callable[..., Array]:
    some = in_bytes(lambda x, axes: np.asarray(ufunc.reduce(x, axis=axes)))

    def rule(x: Array, axes: tuple[int, ...]) -> Array:
        if all(x.shape[a] for a in axes):
            found: Array = some(x, axes=axes)
            return found
        kept = tuple(d for a, d in enumerate(x.shape) if a not in axes)
        return np.broadcast_to(np.asarray(identity(x.dtype)).astype(x.dtype), kept).copy()

    return rule


def _extreme_mask(x: Value, out: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """1 where x equals the extreme, and how many such places there are."""
    hit = table["eq"](x, spread(out, x.shape, axes))
    mask = table["cast"](hit, dtype=x.dtype)
    return mask, reduce_sum(mask, axes=tuple(axes))


def _extreme_jvp(t: Value, x: Value, out: Value, *, axes: tuple[int, ...]) -> Value:
    mask, ties = _extreme_mask(x, out, axes)
    return table["div"](reduce_sum(table["mul"](t, mask), axes=axes), ties)


def _extreme_vjp(t: Value, x: Value, out: Value, *, axes: tuple[int, ...]) -> Value:
    mask, ties = _extreme_mask(x, out, axes)
    return table["mul"](spread(table["div"](t, ties), x.shape, axes), mask)


reduce_max: Primitive = Primitive(
    "reduce_max", "x", type=_type("reduce_max", ALL - COMPLEX), evaluate=array_rule(_extreme(np.maximum,
    lowest)),
    jvp=(_extreme_jvp,), vjp=(_extreme_vjp,), batch=_batch("reduce_max"), cost=_cost,
    doc="the largest element; NaN wins; equal ones share the derivative evenly",
)  # fmt: skip
reduce_min: Primitive = Primitive(
    "reduce_min", "x", type=_type("reduce_min", ALL - COMPLEX), evaluate=array_rule(_extreme(np.minimum,
    highest)),
    jvp=(_extreme_jvp,), vjp=(_extreme_vjp,), batch=_batch("reduce_min"), cost=_cost,
)  # fmt: skip

# -- all and any --------------------------------------------------------------------------------------------

_FLAT = Absent("bits have no slope")
WORDS = INTEGERS | {bool_}
reduce_and: Primitive = Primitive(
    "reduce_and", "x", type=_type("reduce_and", WORDS),
    evaluate=array_rule(in_bytes(lambda x, axes: np.bitwise_and.reduce(x, axis=axes))),
    jvp=_FLAT, vjp=_FLAT, batch=_batch("reduce_and"), cost=_cost,
    doc="the bits that all elements have; of bools: all",
)  # fmt: skip
reduce_or: Primitive = Primitive(
    "reduce_or", "x", type=_type("reduce_or", WORDS),
    evaluate=array_rule(in_bytes(lambda x, axes: np.bitwise_or.reduce(x, axis=axes))),
    jvp=_FLAT, vjp=_FLAT, batch=_batch("reduce_or"), cost=_cost,
    doc="the bits that some element has; of bools: any",
)  # fmt: skip

# -- where the largest and the smallest stand ---------------------------------------------------------------


def _arg_type(name: str) -> Callable[..., TensorType]:
    def rule(x: TensorType, axis: int) -> TensorType:
        same_types(name, (x,), ALL - COMPLEX)
        if not 0 <= axis < len(x.shape):
            raise ShapeError(
                f"{name} of {x} along axis {axis}",
                where=user_location(),
                expected=f"0 <= axis < {len(x.shape)}",
            )
        if x.shape[axis] == 0:
            raise ShapeError(
                f"{name} of {x} along axis {axis}, which is empty",
                where=user_location(),
                expected="at least one element",
            )
        return TensorType(reduced(x.shape, (axis,)), int64)

    return rule


def _arg_batch(name: str) -> Callable[..., Value]:
    def rule(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
        return table[name](values[0], axis=attrs["axis"] + 1)

    return rule


_PLACE = Absent("a place has no slope; the derivative belongs to reduce_max, reduce_min and top_k")
argmax: Primitive = Primitive(
    "argmax", "x", type=_arg_type("argmax"), evaluate=array_rule(lambda x, axis: np.argmax(sortable(x),
    axis=axis)),
    jvp=_PLACE, vjp=_PLACE, batch=_arg_batch("argmax"), cost=_cost,
    doc="the first place of the largest element; NaN wins",
)  # fmt: skip
argmin: Primitive = Primitive(
    "argmin", "x", type=_arg_type("argmin"), evaluate=array_rule(lambda x, axis: np.argmin(sortable(x),
    axis=axis)),
    jvp=_PLACE, vjp=_PLACE, batch=_arg_batch("argmin"), cost=_cost,
    doc="the first place of the smallest element; NaN wins",
)  # fmt: skip
