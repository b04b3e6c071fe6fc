"""log and what is made of it: log2, log10, log1p, logaddexp, asinh, acosh, atanh.

x = 2^e·(1 + f) with 1 + f between √½ and √2. Float: log(1+f) = f - f²/2 + f³·P(f). Double: by s = f/(2+f),
log(1+f) = f - f²/2 + s·(f²/2 + s²·P(s²)). Branch-free; subnormal numbers are scaled up first. P is fitted by
tools/minimax.py.
"""

from __future__ import annotations

from trilobite.compiler.targets.cpu.emit import coefficients as c
from trilobite.compiler.targets.cpu.emit.exponential import exp
from trilobite.compiler.targets.cpu.emit.polynomial import (
    FLOAT,
    INFINITY,
    LN_2,
    NAN,
    estrin,
    horner,
    in_double,
    precision,
)
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant

_LOG2_E = {23: c.LOG2_E_32, 52: c.LOG2_E_64}
_LOG10_E = {23: c.LOG10_E_32, 52: c.LOG10_E_64}
_LOG10_2 = {23: c.LOG10_2_32, 52: c.LOG10_2_64}


def split(t: Text, x: Value) -> tuple[Value, Value]:
    """The exponent e (as a float) and f of a positive number; nonsense for others."""
    p = precision(x)
    up = float(p.mantissa + 2)
    small = t.fcmp("olt", x, 2.0 ** (1 - p.bias))
    x = t.select(small, t.fmul(x, 2.0**up), x)
    root_half = 0x3F3504F3 if p is FLOAT else 0x3FE6A09E667F3BCD
    one = p.bias << p.mantissa
    moved = t.add(t.bits(x), one - root_half)
    biased = t.lshr(moved, p.mantissa)
    # Written into the last bits of 2^mantissa an integer becomes a float without a conversion.
    anchor = (p.bias + p.mantissa) << p.mantissa
    e = t.fsub(t.as_float(t.or_(biased, anchor)), 2.0**p.mantissa + p.bias)
    e = t.select(small, t.fsub(e, up), e)
    kept = t.add(t.and_(moved, (1 << p.mantissa) - 1), root_half)
    return e, t.fsub(t.as_float(kept), 1.0)


def near_one(t: Text, f: Value, low: Value | None = None) -> Value:
    """log(1 + f), plus `low` where it is lost least."""
    if precision(f) is FLOAT:
        square = t.fmul(f, f)
        rest = t.fmul(t.fmul(square, f), horner(t, f, c.LOG_32))
        rest = rest if low is None else t.fadd(rest, low)
        return t.fadd(f, t.fma(square, -0.5, rest))
    s = t.fdiv(f, t.fadd(f, 2.0))
    z = t.fmul(s, s)
    half = t.fmul(t.fmul(f, f), 0.5)
    rest = t.fmul(s, t.fma(z, estrin(t, z, c.LOG_64), half))
    rest = rest if low is None else t.fadd(rest, low)
    return t.fadd(f, t.fsub(rest, half))


def _at_edges(t: Text, x: Value, out: Value) -> Value:
    """-inf at 0, NaN below, inf at inf."""
    other = t.select(t.fcmp("oeq", x, 0.0), constant(x.type, -INFINITY), constant(x.type, NAN))
    out = t.select(t.fcmp("ogt", x, 0.0), out, other)
    return t.select(t.fcmp("oeq", x, INFINITY), x, out)


def log(t: Text, x: Value) -> Value:
    p = precision(x)
    e, f = split(t, x)
    out = t.fma(e, p.ln2[0], near_one(t, f, t.fmul(e, p.ln2[1])))
    return _at_edges(t, x, out)


def log2(t: Text, x: Value) -> Value:
    e, f = split(t, x)
    high, low = _LOG2_E[precision(x).mantissa]
    natural = near_one(t, f)
    return _at_edges(t, x, t.fadd(t.fma(natural, low, t.fmul(natural, high)), e))


def log10(t: Text, x: Value) -> Value:
    p = precision(x)
    e, f = split(t, x)
    natural = near_one(t, f)
    rest = t.fma(natural, _LOG10_E[p.mantissa][1], t.fmul(e, _LOG10_2[p.mantissa][1]))
    rest = t.fma(natural, _LOG10_E[p.mantissa][0], rest)
    return _at_edges(t, x, t.fma(e, _LOG10_2[p.mantissa][0], rest))


def log1p(t: Text, x: Value) -> Value:
    """log(u) + c/u, where u is 1 + x as rounded and c what rounding lost."""
    p = precision(x)
    u = t.fadd(x, 1.0)
    lost = t.select(t.fcmp("olt", x, 1.0), t.fsub(x, t.fsub(u, 1.0)), t.fsub(1.0, t.fsub(u, x)))
    e, f = split(t, u)
    low = t.fma(e, p.ln2[1], t.fdiv(lost, u))
    out = t.fma(e, p.ln2[0], near_one(t, f, low))
    return t.copysign(_at_edges(t, u, out), x)


def logaddexp(t: Text, x: Value, y: Value) -> Value:
    """The larger one plus log1p(exp(-|x - y|)); equal ones, infinities too, plus ln 2."""
    larger = t.select(t.fcmp("ogt", x, y), x, y)
    rest = log1p(t, exp(t, t.fneg(t.fabs(t.fsub(x, y))), 0.0))
    return t.fadd(larger, t.select(t.fcmp("oeq", x, y), constant(x.type, LN_2), rest))


# Beyond it 1 is nothing beside x, and log(2x) is log x + ln 2.
_FAR = 1e100


def _log1p_far(t: Text, size: Value, near: Value) -> Value:
    """log1p(near), but log(2·size) where size is so large that `near` may have overflowed."""
    far = t.fcmp("ogt", size, _FAR)
    out = log1p(t, t.select(far, size, near))
    return t.select(far, t.fadd(out, LN_2), out)


@in_double
def asinh(t: Text, x: Value) -> Value:
    size = t.fabs(x)
    square = t.fmul(size, size)
    root = t.sqrt(t.fadd(square, 1.0))
    near = t.fadd(size, t.fdiv(square, t.fadd(root, 1.0)))
    return t.copysign(_log1p_far(t, size, near), x)


@in_double
def acosh(t: Text, x: Value) -> Value:
    above = t.fsub(x, 1.0)
    near = t.fadd(above, t.sqrt(t.fmul(above, t.fadd(above, 2.0))))
    out = _log1p_far(t, x, near)
    return t.select(t.fcmp("olt", x, 1.0), constant(x.type, NAN), out)


@in_double
def atanh(t: Text, x: Value) -> Value:
    size = t.fabs(x)
    out = log1p(t, t.fdiv(t.fadd(size, size), t.fsub(1.0, size)))
    return t.copysign(t.fmul(out, 0.5), x)
