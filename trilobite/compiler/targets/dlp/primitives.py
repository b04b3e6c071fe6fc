"""What only this target has: primitives that expansions bind and chains write.

`rescale` is `requantise` with its scale and zero point spread over all places, so that it is elementwise: a
chain on the vector unit can hold it, and the drain of the matrix unit can take it over whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.dtypes import DType, float32, is_integer
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Absent, Primitive
from trilobite.ir.primitives.common import count, integer_range
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]
_WHY = "made after derivatives and batching"


def _rescale_type(x: TensorType, scale: TensorType, zero_point: TensorType, dtype: DType) -> TensorType:
    if not x.shape == scale.shape == zero_point.shape:
        raise ShapeError(f"rescale of {x} by {scale} to {zero_point}", expected="equal shapes")
    if not is_integer(x.dtype) or scale.dtype != float32 or zero_point.dtype != dtype:
        raise DTypeError(
            f"rescale of {x} by {scale} to {zero_point}",
            expected="integers, a float32 scale, a zero point of the result's dtype",
        )
    return TensorType(x.shape, dtype)


def _rescale(x: Array, scale: Array, zero_point: Array, dtype: DType) -> Array:
    found = np.rint(x.astype(np.float64) * scale.astype(np.float64)) + zero_point.astype(np.float64)
    low, high = integer_range(dtype)
    return np.where(np.isnan(found), zero_point, np.clip(found, low, high)).astype(dtype)


rescale: Primitive = Primitive(
    "rescale", "x, scale, zero_point", type=_rescale_type, evaluate=array_rule(_rescale),
    jvp=Absent(_WHY), vjp=Absent(_WHY), batch=Absent(_WHY), cost=lambda i, o, a: count(4 * o[0].size),
    doc="integers times a scale in float64, rounded once to nearest even, plus a zero point, saturated",
)  # fmt: skip
