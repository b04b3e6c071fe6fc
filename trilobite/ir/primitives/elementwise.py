"""How an elementwise primitive is defined, and arithmetic. Operands have equal shapes and dtypes.

`t` in a derivative is the tangent (or cotangent) of the operand that the rule stands for. Meaning, for every
dtype: floats smaller than 32 bits compute in float32 and round once, integers wrap around, division of an
integer by zero is zero. The other families: exponential, trigonometric, special, comparison, bits, complex.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import (
    ALL,
    COMPLEX,
    FLOATS,
    INEXACT,
    INTEGERS,
    DType,
    accumulator,
    bool_,
    is_complex,
    real_of,
)
from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Absent, PartialRule, Primitive, Value, table
from trilobite.ir.primitives.common import batch_elementwise, flops_per_element, in_bytes, same_types
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]
Rules = Sequence[PartialRule] | Absent
NUMBERS = ALL - {bool_}
REALS = FLOATS | INTEGERS


def elementwise(
    name: str,
    operands: str,
    evaluate: Callable[..., Any],
    derivative: Rules | None = None,
    *,
    jvp: Rules | None = None,
    vjp: Rules | None = None,
    accepts: Collection[DType] = NUMBERS,
    result: Callable[[DType], DType] | None = None,
    flops: float = 1.0,
    doc: str = "",
) -> Primitive:
    """Define an elementwise primitive. `result` gives the dtype of the output where it is not that of the
    operands; `jvp` and `vjp` stand apart where the derivative of a complex function is not multiplication
    by a number.
    """

    number = len(operands.split())

    def type_rule(*types: TensorType) -> TensorType:
        if len(types) != number:
            raise ShapeError(f"{name} of {len(types)} operands", where=user_location(), expected=number)
        first = same_types(name, types, accepts)
        return first if result is None else TensorType(first.shape, result(first.dtype))

    return Primitive(
        name, operands, type=type_rule, evaluate=array_rule(evaluate), derivative=derivative, jvp=jvp,
        vjp=vjp,
        batch=batch_elementwise(name), cost=flops_per_element(flops), doc=doc,
    )  # fmt: skip


def constant_like(x: Value, value: complex) -> Value:
    """A value of x's shape and dtype, the same everywhere."""
    return table["full"](shape=x.shape, dtype=x.dtype, value=value)


def scaled(t: Value, factor: float) -> Value:
    return mul(t, constant_like(t, factor))


def zero_where(p: Value, t: Value) -> Value:
    return table["select"](p, constant_like(t, 0.0), t)


# -- the four operations -----------------------------------------------------------------------------------

add: Primitive = elementwise("add", "x y", np.add, (lambda t: t, lambda t: t))
sub: Primitive = elementwise("sub", "x y", np.subtract, (lambda t: t, lambda t: neg(t)))
mul: Primitive = elementwise("mul", "x y", np.multiply, (lambda t, y: mul(t, y), lambda t, x: mul(t, x)))
div: Primitive = elementwise(
    "div",
    "x y",
    np.divide,
    (lambda t, y: div(t, y), lambda t, y, out: neg(mul(t, div(out, y)))),
    accepts=INEXACT,
)
neg: Primitive = elementwise("neg", "x", in_bytes(np.negative), (lambda t: neg(t),))
floor_div: Primitive = elementwise(
    "floor_div", "x y", in_bytes(np.floor_divide), (None, None), accepts=REALS, flops=2,
    doc="the quotient rounded down; for integers 0 where y is 0. Flat, so its derivative is zero",
)  # fmt: skip
rem: Primitive = elementwise(
    "rem", "x y", in_bytes(np.remainder), (lambda t: t, lambda t, x, y: neg(mul(t, floor_div(x, y)))),
    accepts=REALS, flops=3,
    doc="x - y·floor_div(x, y), with the sign of y; for integers 0 where y is 0",
)  # fmt: skip

# -- powers and roots ---------------------------------------------------------------------------------------


def _pow(x: Array, y: Array) -> Array:
    """As NumPy; an integer to a negative power is the truncated quotient, so 0 unless x is 1 or -1."""
    if x.dtype.kind != "i" or not (y < 0).any():
        return np.power(x, y)
    unit = np.where(x == 1, 1, np.where(x == -1, np.where(y & 1, -1, 1), 0)).astype(x.dtype)
    return np.where(y < 0, unit, np.power(x, np.maximum(y, 0)))


def _pow_x(t: Value, x: Value, y: Value) -> Value:
    """y·x^(y-1). Where y is 0 and 1/x is not a number that can be had (x is 0 or NaN), 0."""
    one = constant_like(y, 1.0)
    still = table["eq"](y, constant_like(y, 0.0))
    pole = table["and"](still, table["not"](table["is_finite"](div(one, x))))
    return zero_where(pole, mul(t, mul(y, pow(table["select"](pole, one, x), sub(y, one)))))


def _pow_y(t: Value, x: Value, y: Value, out: Value) -> Value:
    """out·log x, and 0 where x is 0 and y ≥ 0 (the limit)."""
    zero, one = constant_like(x, 0.0), constant_like(x, 1.0)
    size = table["real"](y) if is_complex(y.dtype) else y
    rises = table["ge"](size, constant_like(size, 0.0))
    limit = table["and"](table["eq"](x, zero), rises)
    return zero_where(limit, mul(t, mul(out, table["log"](table["select"](limit, one, x)))))


pow: Primitive = elementwise("pow", "x y", in_bytes(_pow), (_pow_x, _pow_y), flops=20, doc=_pow.__doc__ or "")
sqrt: Primitive = elementwise(
    "sqrt", "x", np.sqrt, (lambda t, out: div(t, add(out, out)),), accepts=INEXACT, flops=4
)


def _rsqrt(x: Array) -> Array:
    wide = x.astype(accumulator(x.dtype), copy=False)
    out: Array = np.divide(wide.dtype.type(1), np.sqrt(wide)).astype(x.dtype, copy=False)
    return out


rsqrt: Primitive = elementwise(
    "rsqrt", "x", _rsqrt, (lambda t, x, out: scaled(mul(t, div(out, x)), -0.5),), accepts=INEXACT, flops=5,
    doc="1/sqrt(x)",
)  # fmt: skip


def _hypot_slope(t: Value, x: Value, out: Value) -> Value:
    """t·x/out, and 0 at the origin, as for the modulus of a complex number."""
    origin = table["eq"](out, constant_like(out, 0.0))
    return mul(t, div(x, table["select"](origin, constant_like(out, 1.0), out)))


hypot: Primitive = elementwise(
    "hypot", "x y", np.hypot, (_hypot_slope, lambda t, y, out: _hypot_slope(t, y, out)), accepts=FLOATS,
    flops=6,
    doc="sqrt(x² + y²) without overflow on the way",
)  # fmt: skip

# -- size and sign ------------------------------------------------------------------------------------------


def _abs_jvp(t: Value, x: Value) -> Value:
    """t·sign x; for complex x the real part of conj(sign x)·t."""
    s = sign(x)
    return table["real"](mul(table["conj"](s), t)) if is_complex(x.dtype) else mul(t, s)


def _abs_vjp(t: Value, x: Value) -> Value:
    return mul(table["cast"](t, dtype=x.dtype) if is_complex(x.dtype) else t, sign(x))


abs: Primitive = elementwise(
    "abs", "x", in_bytes(np.absolute), jvp=(_abs_jvp,), vjp=(_abs_vjp,), result=real_of,
    doc="the modulus; of the lowest integer, that integer; slope 0 at 0",
)  # fmt: skip


def _sign_slope(t: Value, x: Value, out: Value) -> Value | None:
    """Flat for real x. For complex x the part of t across the direction of x, over |x|: a symmetric map."""
    if not is_complex(x.dtype):
        return None
    along = table["real"](mul(table["conj"](out), t))
    across = sub(t, mul(out, table["cast"](along, dtype=t.dtype)))
    size = abs(x)
    origin = table["eq"](size, constant_like(size, 0.0))
    safe = table["select"](origin, constant_like(size, 1.0), size)
    pole = table["eq"](x, constant_like(x, 0.0))
    return zero_where(pole, div(across, table["cast"](safe, dtype=t.dtype)))


sign: Primitive = elementwise(
    "sign", "x", in_bytes(np.sign), jvp=(_sign_slope,), vjp=(_sign_slope,),
    doc="-1, 0 or 1 (NaN of NaN); for complex x, x/|x|",
)  # fmt: skip


def _copysign_slope(t: Value, x: Value, y: Value) -> Value:
    """The sign that x changed by; 0 where x is 0."""
    return mul(t, copysign(sign(x), mul_sign(x, y)))


def mul_sign(x: Value, y: Value) -> Value:
    """A number whose sign is that of x times that of y."""
    one = constant_like(x, 1.0)
    return mul(copysign(one, x), copysign(one, y))


copysign: Primitive = elementwise(
    "copysign", "x y", np.copysign, (_copysign_slope, None), accepts=FLOATS, doc="|x| with the sign of y"
)
nextafter: Primitive = elementwise(
    "nextafter", "x y", np.nextafter, (lambda t: t, None), accepts=FLOATS,
    doc="the number next to x in the direction of y",
)  # fmt: skip

# -- rounding to whole numbers ------------------------------------------------------------------------------


def _rint(x: Array) -> Array:
    return np.rint(x) if x.dtype in INEXACT else x.copy()


floor: Primitive = elementwise("floor", "x", in_bytes(np.floor), (None,), accepts=REALS, doc="rounded down")
ceil: Primitive = elementwise("ceil", "x", in_bytes(np.ceil), (None,), accepts=REALS, doc="rounded up")
trunc: Primitive = elementwise(
    "trunc", "x", in_bytes(np.trunc), (None,), accepts=REALS, doc="rounded towards zero"
)
round: Primitive = elementwise(
    "round", "x", _rint, (None,), accepts=REALS | COMPLEX, doc="rounded to nearest, halves to even"
)
