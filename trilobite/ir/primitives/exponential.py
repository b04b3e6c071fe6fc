"""Exponentials and logarithms, elementwise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trilobite.base.dtypes import FLOATS, INEXACT
from trilobite.ir.primitive import Primitive, Value, table
from trilobite.ir.primitives.elementwise import add, constant_like, div, elementwise, mul, scaled, sub

Array = np.ndarray[Any, Any]

exp: Primitive = elementwise("exp", "x", np.exp, (lambda t, out: mul(t, out),), accepts=INEXACT, flops=10)
exp2: Primitive = elementwise(
    "exp2",
    "x",
    np.exp2,
    (lambda t, out: scaled(mul(t, out), math.log(2)),),
    accepts=INEXACT,
    flops=10,
    doc="2 to the x",
)
expm1: Primitive = elementwise(
    "expm1", "x", np.expm1, (lambda t, x: mul(t, exp(x)),), accepts=INEXACT, flops=12,
    doc="exp(x) - 1 without cancellation near 0",
)  # fmt: skip
log: Primitive = elementwise("log", "x", np.log, (lambda t, x: div(t, x),), accepts=INEXACT, flops=10)
log2: Primitive = elementwise(
    "log2", "x", np.log2, (lambda t, x: scaled(div(t, x), 1 / math.log(2)),), accepts=INEXACT, flops=10
)
log10: Primitive = elementwise(
    "log10", "x", np.log10, (lambda t, x: scaled(div(t, x), 1 / math.log(10)),), accepts=INEXACT, flops=10
)
log1p: Primitive = elementwise(
    "log1p", "x", np.log1p, (lambda t, x: div(t, add(constant_like(x, 1.0), x)),), accepts=INEXACT, flops=12,
    doc="log(1 + x) without cancellation near 0",
)  # fmt: skip


def _share(t: Value, x: Value, y: Value) -> Value:
    """t/(1 + exp(y - x)): the share of exp(x) in the sum; one half where both are the same infinity."""
    zero, one = constant_like(x, 0.0), constant_like(x, 1.0)
    gap = sub(y, x)
    same = table["and"](table["eq"](x, y), table["ne"](gap, gap))
    apart = table["select"](same, zero, gap)
    return div(t, add(one, exp(apart)))


logaddexp: Primitive = elementwise(
    "logaddexp", "x y", np.logaddexp, (_share, lambda t, y, x: _share(t, y, x)), accepts=FLOATS, flops=24,
    doc="log(exp(x) + exp(y)) without overflow",
)  # fmt: skip
