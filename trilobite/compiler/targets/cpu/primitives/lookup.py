"""A function of one byte as a table of all its values."""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.dtypes import int8, uint8
from trilobite.base.errors import DTypeError
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import TargetPrimitive
from trilobite.ir.primitives.common import flops_per_element
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]
CODES = 256


def _type(x: TensorType, values: TensorType) -> TensorType:
    if x.dtype not in (int8, uint8) or values.dtype not in (int8, uint8) or values.shape != (CODES,):
        raise DTypeError(f"lookup of {x} in {values}", expected=f"bytes, and {CODES} bytes")
    return TensorType(x.shape, values.dtype)


def _evaluate(x: Array, values: Array) -> Array:
    found: Array = values[np.ascontiguousarray(x).view(np.uint8)].reshape(x.shape)
    return found


lookup = TargetPrimitive(
    "lookup", "x values", type=_type, evaluate=array_rule(_evaluate),
    cost=flops_per_element(1),
    doc="of every byte, the byte at its place among 256; the place of a negative one is its bits",
)  # fmt: skip
