"""exp and what is made of it: exp2, expm1, sigmoid, tanh, sinh, cosh.

x = n·ln 2 + r with |r| <= ln 2 / 2, exp(x) = 2^n·(1 + r + r²·P(r)). Branch-free; NaN, infinities, subnormal
results and signed zeros are right. P is fitted by tools/minimax.py.
"""

from __future__ import annotations

from trilobite.compiler.cpu.emit import coefficients as c
from trilobite.compiler.cpu.emit.polynomial import (
    FLOAT,
    LN_2,
    LOG2_E,
    clamped,
    estrin,
    horner,
    in_double,
    precision,
    times_power,
    whole,
)
from trilobite.compiler.cpu.emit.text import Text, Value
from trilobite.compiler.cpu.emit.types import constant


def _minus_one(t: Text, r: Value) -> Value:
    """exp(r) - 1 for |r| <= ln 2 / 2."""
    if precision(r) is FLOAT:
        rest = horner(t, r, c.EXP_32)
    else:
        rest = estrin(t, r, c.EXP_64)
    return t.fma(t.fmul(r, r), rest, r)


def _reduced(t: Text, x: Value) -> tuple[Value, Value]:
    """r, and n with its anchor."""
    p = precision(x)
    n, anchored = whole(t, x, LOG2_E)
    r = t.fma(n, -p.ln2[0], x)
    return t.fma(n, -p.ln2[1], r), anchored


def exp(t: Text, x: Value) -> Value:
    p = precision(x)
    r, n = _reduced(t, clamped(t, x, p.choose(-110.0, -750.0), p.choose(90.0, 712.0)))
    return times_power(t, t.fadd(_minus_one(t, r), 1.0), n)


def exp2(t: Text, x: Value) -> Value:
    p = precision(x)
    x = clamped(t, x, p.choose(-160.0, -1080.0), p.choose(130.0, 1026.0))
    n, anchored = whole(t, x)
    r = t.fmul(t.fsub(x, n), LN_2)
    return times_power(t, t.fadd(_minus_one(t, r), 1.0), anchored)


def expm1(t: Text, x: Value) -> Value:
    """2·(2^(n-1)·(exp(r) - 1) + (2^(n-1) - 1/2)): the factor 2 apart, for 2^n may be too large."""
    p = precision(x)
    r, n = _reduced(t, clamped(t, x, p.choose(-30.0, -60.0), p.choose(89.0, 710.0)))
    power = t.as_float(t.shl(t.sub(t.bits(n), p.anchor_bits - p.bias + 1), p.mantissa))
    half = t.fma(power, _minus_one(t, r), t.fsub(power, 0.5))
    return t.copysign(t.fadd(half, half), x)


def sigmoid(t: Text, x: Value) -> Value:
    """1/(1 + exp(-x)), by exp(-|x|), which never overflows."""
    e = exp(t, t.fneg(t.fabs(x)))
    above = t.select(t.fcmp("olt", x, 0.0), e, constant(x.type, 1.0))
    return t.fdiv(above, t.fadd(e, 1.0))


def tanh(t: Text, x: Value) -> Value:
    """m/(m + 2) with m = expm1(2|x|)."""
    size = t.fmin(precision(x).choose(10.0, 21.0), t.fabs(x))
    m = expm1(t, t.fadd(size, size))
    return t.copysign(t.fdiv(m, t.fadd(m, 2.0)), x)


def _half_of_exp(t: Text, size: Value) -> Value:
    """exp(size)/2 where exp(size) itself may be too large."""
    root = exp(t, t.fmul(size, 0.5))
    return t.fmul(t.fmul(root, 0.5), root)


@in_double
def sinh(t: Text, x: Value) -> Value:
    size = t.fabs(x)
    m = expm1(t, t.fmin(40.0, size))
    near = t.fmul(t.fadd(m, t.fdiv(m, t.fadd(m, 1.0))), 0.5)
    return t.copysign(t.select(t.fcmp("olt", size, 22.0), near, _half_of_exp(t, size)), x)


@in_double
def cosh(t: Text, x: Value) -> Value:
    size = t.fabs(x)
    e = exp(t, t.fmin(40.0, size))
    near = t.fadd(t.fmul(e, 0.5), t.fdiv(0.5, e))
    return t.select(t.fcmp("olt", size, 22.0), near, _half_of_exp(t, size))
