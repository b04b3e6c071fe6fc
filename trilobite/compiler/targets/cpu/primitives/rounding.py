"""Rounding of sums to a grid in float32 alone, where that gives the bits of `requantise`.

A sum of up to 24 bits is a float32, and its product with a scale is rounded once, to a whole number, if it is
added to 1.5 * 2**23 by one instruction. Larger sums lose bits as float32; with a scale that takes all of them
beyond the ends of the grid that changes nothing. `is_single` says which scales do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.dtypes import DType, bits, float32, int32
from trilobite.base.errors import DTypeError
from trilobite.ir.primitive import TargetPrimitive, table
from trilobite.ir.primitives import quantise as _first  # noqa: F401 (the meaning is its rule)
from trilobite.ir.primitives.common import flops_per_element
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]
EXACT = 1 << 24
"""Integers of no larger magnitude are float32 numbers."""


def is_single(scale: Array, dtype: DType, small: bool = False) -> bool:
    """Do sums that float32 does not hold leave the grid, whichever its zero point is? `small`: there are none
    of those.
    """
    least = 0.0 if small else 2.0 ** (bits(dtype) + 1) / EXACT
    return scale.dtype == float32 and bool(np.isfinite(scale).all() and (np.abs(scale) >= least).all())


def _type(
    x: TensorType, scale: TensorType, zero_point: TensorType, axis: int | None, dtype: DType
) -> TensorType:
    if x.dtype != int32:
        raise DTypeError(f"requantise_single of {x}", expected="int32")
    found: TensorType = table["requantise"].type(x, scale, zero_point, axis=axis, dtype=dtype)
    return found


requantise_single = TargetPrimitive(
    "requantise_single", "x scale zero_point", type=_type, evaluate=table["requantise"].evaluate,
    cost=flops_per_element(4),
    doc="requantise of int32 by scales so large that float32 is wide enough",
)  # fmt: skip


def _product_type(
    x: TensorType, scale: TensorType, zero_point: TensorType, factor: float, rest: float, **attrs: Any
) -> TensorType:
    if x.dtype != float32 or scale.ndim:
        raise DTypeError(f"quantise_product of {x} by {scale}", expected="float32 and one scale")
    found: TensorType = table["quantise"].type(x, scale, zero_point, **attrs)
    return found


def _product(x: Array, scale: Array, zero_point: Array, factor: float, rest: float, **attrs: Any) -> Array:
    found: Array = table["quantise"].evaluate(x, scale, zero_point, **attrs)
    return found


quantise_product = TargetPrimitive(
    "quantise_product", "x scale zero_point", type=_product_type, evaluate=_product,
    cost=flops_per_element(4),
    doc="quantise by one scale, as x * factor + x * rest: see base.reciprocals.reciprocal_in_two",
)  # fmt: skip
