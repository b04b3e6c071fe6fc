"""Circular and hyperbolic functions and their inverses, elementwise."""

from __future__ import annotations

import numpy as np

from trilobite.base.dtypes import FLOATS, INEXACT, is_complex
from trilobite.ir.primitive import Primitive, Value, table
from trilobite.ir.primitives.elementwise import (
    add,
    constant_like,
    div,
    elementwise,
    hypot,
    mul,
    neg,
    sqrt,
    sub,
)


def _one(x: Value) -> Value:
    return constant_like(x, 1.0)


def _one_minus_square(x: Value) -> Value:
    """(1 - x)(1 + x): no cancellation near ±1."""
    return mul(sub(_one(x), x), add(_one(x), x))


def _root_of_square_plus_one(x: Value) -> Value:
    """sqrt(1 + x²): for real x without overflow on the way."""
    return sqrt(add(_one(x), mul(x, x))) if is_complex(x.dtype) else hypot(_one(x), x)


sin: Primitive = elementwise("sin", "x", np.sin, (lambda t, x: mul(t, cos(x)),), accepts=INEXACT, flops=10)
cos: Primitive = elementwise(
    "cos", "x", np.cos, (lambda t, x: neg(mul(t, sin(x))),), accepts=INEXACT, flops=10
)
tan: Primitive = elementwise(
    "tan", "x", np.tan, (lambda t, out: mul(t, add(_one(out), mul(out, out))),), accepts=INEXACT, flops=15
)
asin: Primitive = elementwise(
    "asin", "x", np.arcsin, (lambda t, x: div(t, sqrt(_one_minus_square(x))),), accepts=INEXACT, flops=15
)
acos: Primitive = elementwise(
    "acos", "x", np.arccos, (lambda t, x: neg(div(t, sqrt(_one_minus_square(x)))),), accepts=INEXACT, flops=15
)
atan: Primitive = elementwise(
    "atan", "x", np.arctan, (lambda t, x: div(t, add(_one(x), mul(x, x))),), accepts=INEXACT, flops=15
)

sinh: Primitive = elementwise(
    "sinh", "x", np.sinh, (lambda t, x: mul(t, cosh(x)),), accepts=INEXACT, flops=15
)
cosh: Primitive = elementwise(
    "cosh", "x", np.cosh, (lambda t, x: mul(t, sinh(x)),), accepts=INEXACT, flops=15
)
tanh: Primitive = elementwise(
    "tanh", "x", np.tanh, (lambda t, out: mul(t, sub(_one(out), mul(out, out))),), accepts=INEXACT, flops=15
)
asinh: Primitive = elementwise(
    "asinh", "x", np.arcsinh, (lambda t, x: div(t, _root_of_square_plus_one(x)),), accepts=INEXACT, flops=20
)
acosh: Primitive = elementwise(
    "acosh", "x", np.arccosh,
    (lambda t, x: div(div(t, sqrt(sub(x, _one(x)))), sqrt(add(x, _one(x)))),), accepts=INEXACT, flops=20,
)  # fmt: skip
atanh: Primitive = elementwise(
    "atanh", "x", np.arctanh, (lambda t, x: div(t, _one_minus_square(x)),), accepts=INEXACT, flops=20
)


def _turn(t: Value, y: Value, x: Value) -> Value:
    """t·x/(x² + y²) without overflow, and 0 at the origin."""
    far = hypot(x, y)
    origin = table["eq"](far, constant_like(far, 0.0))
    safe = table["select"](origin, _one(far), far)
    # At the origin x is 0, so the quotient is 0 there too; hypot is asked again where its slope is wanted.
    return mul(t, div(div(x, safe), safe))


atan2: Primitive = elementwise(
    "atan2", "y x", np.arctan2, (_turn, lambda t, y, x: neg(_turn(t, x, y))), accepts=FLOATS, flops=25,
    doc="the angle of the point (x, y), from -π to π",
)  # fmt: skip
