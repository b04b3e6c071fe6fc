"""exp and what is made of it: exp2, expm1, sigmoid, tanh, sinh, cosh.

x = n·ln 2 + r with |r| <= ln 2 / 2, exp(x) = 2^n·(1 + r + r²·P(r)). Branch-free; NaN, infinities, subnormal
results and signed zeros are right. P is fitted by tools/minimax.py.
"""

from __future__ import annotations

from trilobite.compiler.targets.cpu.emit import coefficients as c
from trilobite.compiler.targets.cpu.emit.polynomial import (
    FLOAT,
    INFINITY,
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
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant


def _minus_one(t: Text, r: Value) -> Value:
    """exp(r) - 1 for |r| <= ln 2 / 2."""
    if precision(r) is FLOAT:
        rest = horner(t, r, c.EXP_32)
    else:
        rest = estrin(t, r, c.EXP_64)
    return t.fma(t.fmul(r, r), rest, r)


def _grown(t: Text, r: Value, factor: float = 1.0) -> Value:
    """exp(r)·factor for |r| <= ln 2 / 2 and a power of two, which costs nothing in the coefficients."""
    if precision(r) is FLOAT and t.host.fma:  # else the product beside the one would be rounded, too
        return horner(t, r, [factor * a for a in (1.0, 1.0, *c.EXP_32)])
    grown = t.fadd(_minus_one(t, r), 1.0)
    return grown if factor == 1.0 else t.fmul(grown, factor)


def _reduced(t: Text, x: Value, more: int = 0) -> tuple[Value, Value]:
    """r, and n + more with its anchor."""
    p = precision(x)
    n, anchored = whole(t, x, LOG2_E, more)
    r = t.fma(n, -p.ln2[0], x)
    return t.fma(n, -p.ln2[1], r), anchored


def exp(t: Text, x: Value, most: float = INFINITY) -> Value:
    """exp(x); `most` is a number that x is known not to exceed (it may be NaN)."""
    p = precision(x)
    x = t.fmax(p.choose(-105.0, -746.0), x)  # below, the result is 0
    if most > p.choose(60.0, 600.0):
        return _exp_of_any(t, t.fmin(p.choose(90.0, 712.0), x))
    # 2^n is made too large by a factor that brings every n into the range of exponents; exp(r) is as much
    # too small, so that the one product that may be subnormal is rounded once.
    r, n = _reduced(t, x, p.mantissa + 2 + p.bias)
    return t.fmul(_grown(t, r, 2.0 ** -(p.mantissa + 2)), t.as_float(t.shl(t.bits(n), p.mantissa)))


def _exp_of_any(t: Text, x: Value) -> Value:
    """2^n in two exact factors, so that results may be subnormal or infinite."""
    r, n = _reduced(t, x)
    return times_power(t, _grown(t, r), n)


def exp_within(t: Text, x: Value) -> Value:
    """exp of a number that is known to be so near 0 that the result is normal: ±87 of floats, ±708."""
    p = precision(x)
    r, n = _reduced(t, x, p.bias)
    return t.fmul(_grown(t, r), t.as_float(t.shl(t.bits(n), p.mantissa)))


def weighted(t: Text, x: Value, v: Value) -> Value:
    """x/(1 + exp(v)): beyond the upper limit of v the power of two is infinite, and the result a zero."""
    p = precision(x)
    held = clamped(t, v, p.choose(-87.0, -708.0), p.choose(89.0, 710.0))
    return t.fdiv(x, t.fadd(exp_within(t, held), 1.0))


def exp2(t: Text, x: Value) -> Value:
    p = precision(x)
    x = clamped(t, x, p.choose(-160.0, -1080.0), p.choose(130.0, 1026.0))
    n, anchored = whole(t, x)
    r = t.fmul(t.fsub(x, n), LN_2)
    return times_power(t, t.fadd(_minus_one(t, r), 1.0), anchored)


def expm1(t: Text, x: Value) -> Value:
    """2·(2^(n-1)·(exp(r) - 1) + (2^(n-1) - 1/2)): the factor 2 apart, for 2^n may be too large."""
    p = precision(x)
    r, n = _reduced(t, clamped(t, x, p.choose(-30.0, -60.0), p.choose(89.0, 710.0)), p.bias - 1)
    power = t.as_float(t.shl(t.bits(n), p.mantissa))
    half = t.fma(power, _minus_one(t, r), t.fsub(power, 0.5))
    return t.copysign(t.fadd(half, half), x)


def _expm1_within(t: Text, x: Value) -> Value:
    """expm1 of a number that is known to be near 0, as in `exp_within`; the sign of a zero is lost."""
    p = precision(x)
    r, n = _reduced(t, x, p.bias)
    power = t.as_float(t.shl(t.bits(n), p.mantissa))
    return t.fma(power, _minus_one(t, r), t.fsub(power, 1.0))


def sigmoid(t: Text, x: Value) -> Value:
    """1/(1 + exp(-x)), by exp(-|x|), which never overflows."""
    e = exp(t, t.fneg(t.fabs(x)), 0.0)
    above = t.select(t.fcmp("olt", x, 0.0), e, constant(x.type, 1.0))
    return t.fdiv(above, t.fadd(e, 1.0))


def tanh(t: Text, x: Value) -> Value:
    """m/(m + 2) with m = expm1(2|x|)."""
    size = t.fmin(precision(x).choose(10.0, 21.0), t.fabs(x))
    m = _expm1_within(t, t.fadd(size, size))
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
