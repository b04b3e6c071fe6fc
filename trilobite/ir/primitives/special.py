"""The error function and the gamma function with their kin, elementwise. The numbers come from
`special_numpy`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.base.dtypes import FLOATS, accumulator
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Primitive, Value, table
from trilobite.ir.primitives import special_numpy as numbers
from trilobite.ir.primitives.common import batch_elementwise, flops_per_element, same_types
from trilobite.ir.primitives.elementwise import elementwise, mul, neg, scaled
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]


def _small_too(fn: Callable[..., Array]) -> Callable[..., Array]:
    """Floats smaller than 32 bits compute in float32 and round once."""

    def rule(x: Array, *args: Any, **attributes: Any) -> Array:
        return fn(x.astype(accumulator(x.dtype), copy=False), *args, **attributes).astype(x.dtype, copy=False)

    vars(rule)["block"] = vars(fn)["block"]
    return rule


def _bell(x: Value) -> Value:
    """2/√π·exp(-x²)"""
    return scaled(table["exp"](neg(mul(x, x))), 2 / math.sqrt(math.pi))


def _erf_inv_slope(t: Value, out: Value) -> Value:
    return scaled(mul(t, table["exp"](mul(out, out))), math.sqrt(math.pi) / 2)


erf: Primitive = elementwise(
    "erf", "x", _small_too(numbers.erf), (lambda t, x: mul(t, _bell(x)),), accepts=FLOATS, flops=25,
    doc="2/√π times the integral of exp(-s²) from 0 to x",
)  # fmt: skip
erfc: Primitive = elementwise(
    "erfc", "x", _small_too(numbers.erfc), (lambda t, x: neg(mul(t, _bell(x))),), accepts=FLOATS, flops=40,
    doc="1 - erf(x) without cancellation",
)  # fmt: skip
erf_inv: Primitive = elementwise(
    "erf_inv", "x", _small_too(numbers.erf_inv), (_erf_inv_slope,), accepts=FLOATS, flops=80,
    doc="the number whose erf is x; NaN outside -1..1",
)  # fmt: skip
lgamma: Primitive = elementwise(
    "lgamma", "x", _small_too(numbers.lgamma), (lambda t, x: mul(t, digamma(x)),), accepts=FLOATS, flops=60,
    doc="log |gamma(x)|",
)  # fmt: skip
digamma: Primitive = elementwise(
    "digamma", "x", _small_too(numbers.digamma), (lambda t, x: mul(t, polygamma(x, order=1)),),
    accepts=FLOATS,
    flops=60, doc="the slope of lgamma",
)  # fmt: skip


def _polygamma_type(x: TensorType, order: int) -> TensorType:
    if order < 1:
        raise ArgumentError(
            f"polygamma of order {order}",
            where=user_location(),
            expected="order >= 1",
            remedy="order 0 is digamma",
        )
    return same_types("polygamma", (x,), FLOATS)


def _polygamma_slope(t: Value, x: Value, *, order: int) -> Value:
    return mul(t, polygamma(x, order=order + 1))


polygamma: Primitive = Primitive(
    "polygamma", "x", type=_polygamma_type,
    evaluate=array_rule(lambda x, order: _small_too(numbers.polygamma)(x, order)),
    derivative=(_polygamma_slope,), batch=batch_elementwise("polygamma"), cost=flops_per_element(120),
    doc="derivative number `order` of digamma",
)  # fmt: skip
