"""Comparison, classification and choice, elementwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.dtypes import ALL, COMPLEX, FLOATS, DType, bool_
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Absent, Primitive, Value
from trilobite.ir.primitives.common import batch_elementwise, flops_per_element, in_bytes, same_types
from trilobite.ir.primitives.elementwise import constant_like, elementwise, scaled
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]
ORDERED = ALL - COMPLEX
_FLAT = Absent("truth has no slope")


def _truth(_: DType) -> DType:
    return bool_


eq: Primitive = elementwise("eq", "x y", np.equal, _FLAT, accepts=ALL, result=_truth)
ne: Primitive = elementwise("ne", "x y", np.not_equal, _FLAT, accepts=ALL, result=_truth)
lt: Primitive = elementwise("lt", "x y", np.less, _FLAT, accepts=ORDERED, result=_truth)
le: Primitive = elementwise("le", "x y", np.less_equal, _FLAT, accepts=ORDERED, result=_truth)
gt: Primitive = elementwise("gt", "x y", np.greater, _FLAT, accepts=ORDERED, result=_truth)
ge: Primitive = elementwise("ge", "x y", np.greater_equal, _FLAT, accepts=ORDERED, result=_truth)

is_finite: Primitive = elementwise(
    "is_finite", "x", np.isfinite, _FLAT, accepts=ALL, result=_truth, doc="neither infinite nor NaN"
)
is_nan: Primitive = elementwise("is_nan", "x", np.isnan, _FLAT, accepts=ALL, result=_truth)
is_inf: Primitive = elementwise("is_inf", "x", np.isinf, _FLAT, accepts=ALL, result=_truth)
signbit: Primitive = elementwise(
    "signbit",
    "x",
    np.signbit,
    _FLAT,
    accepts=FLOATS,
    result=_truth,
    doc="is the sign bit set? (of -0.0 it is)",
)

# -- choice -------------------------------------------------------------------------------------------------


def _select_type(p: TensorType, x: TensorType, y: TensorType) -> TensorType:
    same_types("select", (p,), {bool_})
    same_types("select", (p, TensorType(x.shape, bool_)), {bool_})
    return same_types("select", (x, y), ALL)


_WORDS: dict[int, DType] = {n: np.dtype(f"int{8 * n}") for n in (1, 2, 4, 8)}
_BRANCHES = 4096  # elements up to which np.where is quicker


def choose(p: Array, x: Array, y: Array) -> Array:
    """np.where, bit for bit. Large arrays are chosen by masks of bits, y ^ ((x ^ y) & mask): np.where has a
    branch per element, and on a mask without pattern that takes ten times as long.
    """
    word = _WORDS.get(x.dtype.itemsize)
    alike = p.shape == x.shape == y.shape and x.dtype == y.dtype
    if p.size <= _BRANCHES or word is None or not alike:
        return np.where(p, x, y)
    out: Array = np.bitwise_xor(x.view(word), y.view(word))
    mask = np.negative(p.view(np.int8), dtype=word)
    np.bitwise_and(mask, out, out=mask)
    np.bitwise_xor(mask, y.view(word), out=mask)
    return mask.view(x.dtype)


def _chosen(t: Value, p: Value) -> Value:
    return select(p, t, constant_like(t, 0.0))


def _other(t: Value, p: Value) -> Value:
    return select(p, constant_like(t, 0.0), t)


select: Primitive = Primitive(
    "select", "p x y", type=_select_type, evaluate=array_rule(choose),
    jvp=(None, _chosen, _other), vjp=(None, _chosen, _other),
    batch=batch_elementwise("select"), cost=flops_per_element(1), doc="x where p, else y",
)  # fmt: skip


def _larger(t: Value, x: Value, y: Value) -> Value:
    """The slope goes to the operand that was chosen; equal operands share it evenly."""
    return select(lt(x, y), constant_like(t, 0.0), select(eq(x, y), scaled(t, 0.5), t))


def _smaller(t: Value, x: Value, y: Value) -> Value:
    return select(gt(x, y), constant_like(t, 0.0), select(eq(x, y), scaled(t, 0.5), t))


maximum: Primitive = elementwise(
    "maximum", "x y", in_bytes(np.maximum), (_larger, lambda t, y, x: _larger(t, y, x)), accepts=ORDERED,
    doc="the larger one; NaN if either is",
)  # fmt: skip
minimum: Primitive = elementwise(
    "minimum", "x y", in_bytes(np.minimum), (_smaller, lambda t, y, x: _smaller(t, y, x)), accepts=ORDERED,
    doc="the smaller one; NaN if either is",
)  # fmt: skip
