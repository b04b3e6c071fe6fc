"""Elementwise operations that PyTorch names beside those of the standard."""

from __future__ import annotations

import math
from typing import Any

from trilobite.base import dtypes as dt
from trilobite.framework.ops.meeting import INTEGRAL, accepted, together
from trilobite.framework.ops.registry import alias, operators, read_operand, tensor_op
from trilobite.framework.ops.shaping import handle
from trilobite.framework.tensor import Tensor, wrap

G = "elementwise"


def _op(name: str) -> Any:
    return operators[name].public


def _float(x: Any) -> Tensor:
    x = handle(x)
    return x if x.dtype in dt.INEXACT else x.to(dt.default_float)  # type: ignore[no-any-return]


for _name, _of in {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctanh": "atanh", "arctan2": "atan2", "fix": "trunc", "bitwise_not": "bitwise_invert",
    "true_divide": "divide", "conj_physical": "conj", "ger": "outer",
}.items():  # fmt: skip
    alias(_name, _of, methods=(_name,))


@tensor_op(G)
def sgn(x: Any) -> Tensor:
    """The sign; of a complex number the number of size 1 in its direction."""
    return _op("sign")(x)  # type: ignore[no-any-return]


@tensor_op(G)
def clamp_min(x: Any, min: Any) -> Tensor:
    """x, but not below a bound."""
    return _op("clip")(x, min=min)  # type: ignore[no-any-return]


@tensor_op(G)
def clamp_max(x: Any, max: Any) -> Tensor:
    """x, but not above a bound."""
    return _op("clip")(x, max=max)  # type: ignore[no-any-return]


@tensor_op(G)
def float_power(x: Any, exponent: Any) -> Tensor:
    """x to a power, in float64."""
    wide = [v.to(dt.complex128 if v.dtype in dt.COMPLEX else dt.float64) for v in map(handle, (x, exponent))]
    return _op("pow")(*wide)  # type: ignore[no-any-return]


@tensor_op(G)
def fmax(x: Any, other: Any) -> Tensor:
    """The larger of two; NaN only if both are."""
    x, other = handle(x), handle(other)
    first = (x >= other) | _op("isnan")(other)
    return _op("where")(first, x, other)  # type: ignore[no-any-return]


@tensor_op(G)
def fmin(x: Any, other: Any) -> Tensor:
    """The smaller of two; NaN only if both are."""
    x, other = handle(x), handle(other)
    first = (x <= other) | _op("isnan")(other)
    return _op("where")(first, x, other)  # type: ignore[no-any-return]


@tensor_op(G)
def heaviside(x: Any, values: Any) -> Tensor:
    """0 below 0, 1 above, and the values at 0."""
    x = handle(x)
    return _op("where")(x == 0, values, (x > 0).to(x.dtype))  # type: ignore[no-any-return]


@tensor_op(G)
def xlogy(x: Any, other: Any) -> Tensor:
    """x·log(other), and 0 where x is 0; NaN where other is."""
    a, b = _float(x), _float(other)
    plain = (b > 0) & _op("isfinite")(b)  # where the product is 0 by itself, and its slope log(other)
    still = (a == 0) & ~plain & ~_op("isnan")(b)
    safe = _op("where")(still, 1.0, b)
    return _op("where")(still, 0.0, a * safe.log())  # type: ignore[no-any-return]


@tensor_op(G)
def sinc(x: Any) -> Tensor:
    """sin(πx) / (πx), and 1 at 0."""
    x = _float(x)
    still = x == 0
    turn = _op("where")(still, 1.0, x) * math.pi
    return _op("where")(still, 1.0, turn.sin() / turn)  # type: ignore[no-any-return]


@tensor_op(G)
def logaddexp2(x: Any, other: Any) -> Tensor:
    """log2(2^x + 2^other) without overflow."""
    scale = math.log(2.0)
    return _op("logaddexp")(_float(x) * scale, _float(other) * scale) / scale  # type: ignore[no-any-return]


@tensor_op(G)
def ldexp(x: Any, other: Any) -> Tensor:
    """x·2^other."""
    x, power = _float(x), _float(other)
    return x * _op("exp2")(power.double() if x.dtype == dt.float64 else power)  # type: ignore[no-any-return]


@tensor_op(G)
def isposinf(x: Any) -> Tensor:
    """Is it +inf?"""
    return handle(x) == math.inf  # type: ignore[no-any-return]


@tensor_op(G)
def isneginf(x: Any) -> Tensor:
    """Is it -inf?"""
    return handle(x) == -math.inf  # type: ignore[no-any-return]


def _integers(name: str, x: Any, other: Any) -> list[Tensor]:
    """Two operands as integers of one dtype and shape, without signs."""
    values = together(read_operand(x), read_operand(other))
    accepted(name, INTEGRAL, values[0].dtype)
    return [wrap(v).abs() for v in values]


def _gcd(a: Tensor, b: Tensor) -> Tensor:
    """Euclid's steps. The most negative integer has no absolute value: it keeps its sign, so may the last."""
    from trilobite.framework.control import while_loop

    def step(pair: Any) -> Any:
        big, small = pair
        safe = _op("where")(small == 0, 1, small)
        return _op("where")(small == 0, big, small), _op("where")(small == 0, 0, big % safe)

    found: Tensor = while_loop(lambda pair: (pair[1] != 0).any(), step, (a, b))[0].abs()
    return found


@tensor_op(G)
def gcd(x: Any, other: Any) -> Tensor:
    """The greatest common divisor of integers."""
    return _gcd(*_integers("gcd", x, other))


@tensor_op(G)
def lcm(x: Any, other: Any) -> Tensor:
    """The least common multiple of integers."""
    a, b = _integers("lcm", x, other)
    common = _gcd(a, b)
    return a // _op("where")(common == 0, 1, common) * b  # type: ignore[no-any-return]


@tensor_op(G, methods=())
def rsub(x: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha·x."""
    return other - handle(x) * alpha  # type: ignore[no-any-return]


def fractional(x: Any) -> Any:
    """Integers as floats: differences and sums of bytes do not fit into a byte."""
    x = handle(x)
    return x if dt.is_inexact(x.dtype) else x.to(dt.default_float)


@tensor_op("reduction", methods=())
def trapezoid(y: Any, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The area under a line of points, by trapezoids."""
    y = fractional(y).movedim(dim, -1)
    x = None if x is None else fractional(x)
    wide = dx if x is None else _op("diff")(x if x.ndim == 1 else x.movedim(dim, -1))
    return ((y[..., 1:] + y[..., :-1]) * wide / 2).sum(axis=-1)  # type: ignore[no-any-return]


alias("trapz", "trapezoid")
