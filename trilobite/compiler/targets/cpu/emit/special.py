"""The error function, and powers: erf, erfc, pow, hypot, rsqrt.

erf(x) = x·P(x²) up to 1, beyond it 1 - erfc(x); erfc(x) = exp(-x²)·P((x - 2)/(x + 2))/(1 + 2x). Powers of
floats are exp2(y·log2 x) in double; of doubles, the logarithm has a second double with what the first lacks.
Branch-free. Polynomials are fitted by tools/minimax.py.
"""

from __future__ import annotations

from trilobite.compiler.targets.cpu.emit import coefficients as c
from trilobite.compiler.targets.cpu.emit.exponential import exp, exp2, exp_within
from trilobite.compiler.targets.cpu.emit.logarithm import near_one, split
from trilobite.compiler.targets.cpu.emit.polynomial import (
    FLOAT,
    INFINITY,
    LN_2,
    LOG2_E,
    NAN,
    estrin,
    horner,
    precision,
)
from trilobite.compiler.targets.cpu.emit.rounding import rint
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant, element_of


def erf(t: Text, x: Value) -> Value:
    z, size = t.fmul(x, x), t.fabs(x)
    if precision(x) is FLOAT:
        near = t.fma(x, horner(t, z, c.ERF_32), x)
        far = t.fsub(1.0, exp_within(t, horner(t, t.fmin(4.0, size), c.ERF_TAIL_32)))
    else:
        near = t.fma(x, estrin(t, z, c.ERF_64), x)
        far = t.fsub(1.0, _erfc_above(t, t.fmin(6.5, size), c.ERFC_64))
    return t.select(t.fcmp("olt", size, 1.0), near, t.copysign(far, x))


def one_and_erf(t: Text, x: Value) -> Value:
    """1 + erf(x) of floats: erfc(|x|) = exp(|x|·P(|x|)), or what it lacks to 2. P decreases for good, so that
    far away nothing is left.
    """
    size = t.fabs(x)
    beyond = exp(t, t.fmul(size, horner(t, size, c.LOG_ERFC_32)), 0.0)
    return t.select(t.icmp("slt", t.bits(x), 0), beyond, t.fsub(2.0, beyond))


def _erfc_above(t: Text, size: Value, decay: tuple[float, ...]) -> Value:
    """erfc of a double from 0 to 28."""
    fraction = t.fdiv(t.fsub(size, 2.0), t.fadd(size, 2.0))
    rest = t.fdiv(estrin(t, fraction, decay), t.fadd(t.fadd(size, size), 1.0))
    # The square in two parts, the first of them exact: an error in the exponent would count in full.
    short = t.as_float(t.and_(t.bits(size), -(1 << 27)))
    second = t.fmul(t.fsub(short, size), t.fadd(short, size))
    slightly = horner(t, second, (1.0, 1.0, 1 / 2, 1 / 6))  # exp(second), which is below 2^-15
    return t.fmul(t.fmul(exp(t, t.fneg(t.fmul(short, short)), 0.0), slightly), rest)


def erfc(t: Text, x: Value) -> Value:
    if element_of(x.type) == "float":
        wide = t.convert("fpext", x, "double")
        return t.convert("fptrunc", _erfc(t, wide, 11.0, c.ERFC_32), "float")
    return _erfc(t, x, 28.0, c.ERFC_64)


def _erfc(t: Text, x: Value, most: float, decay: tuple[float, ...]) -> Value:
    size = t.fabs(x)
    right = _erfc_above(t, t.fmin(most, size), decay)
    far = t.select(t.fcmp("olt", x, 0.0), t.fsub(2.0, right), right)
    near = t.fsub(1.0, t.fma(x, estrin(t, t.fmul(x, x), c.ERF_64), x))
    return t.select(t.fcmp("olt", size, 0.5), near, far)


# -- powers ------------------------------------------------------------------------------------------------


def rsqrt(t: Text, x: Value) -> Value:
    return t.fdiv(1.0, t.sqrt(x))


def hypot(t: Text, x: Value, y: Value) -> Value:
    """Infinite if either is, even if the other is NaN."""
    if element_of(x.type) == "float":
        a, b = (t.convert("fpext", v, "double") for v in (x, y))
        root = t.convert("fptrunc", t.sqrt(t.fma(a, a, t.fmul(b, b))), "float")
    else:
        root = _hypot(t, t.fabs(x), t.fabs(y))
    infinite = t.or_(*(t.fcmp("oeq", t.fabs(v), INFINITY) for v in (x, y)))
    return t.select(infinite, constant(x.type, INFINITY), root)


def _hypot(t: Text, a: Value, b: Value) -> Value:
    """With factors that keep the squares in range."""
    larger = t.select(t.fcmp("ogt", a, b), a, b)
    one = constant(a.type, 1.0)
    down = t.select(t.fcmp("ogt", larger, 2.0**500), constant(a.type, 2.0**-600), one)
    scale = t.select(t.fcmp("olt", larger, 2.0**-400), constant(a.type, 2.0**600), down)
    back = t.select(t.fcmp("olt", larger, 2.0**-400), constant(a.type, 2.0**-600), one)
    back = t.select(t.fcmp("ogt", larger, 2.0**500), constant(a.type, 2.0**600), back)
    a, b = t.fmul(a, scale), t.fmul(b, scale)
    return t.fmul(t.sqrt(t.fma(a, a, t.fmul(b, b))), back)


def power(t: Text, x: Value, y: Value) -> Value:
    size = t.fabs(x)
    found = _float_power(t, size, y) if precision(x) is FLOAT else _double_power(t, size, y)
    integer = t.fcmp("oeq", rint(t, y), y)
    half = t.fmul(y, 0.5)
    odd = t.and_(integer, t.fcmp("une", rint(t, half), half))
    negative = t.icmp("slt", t.bits(x), 0)
    found = t.select(t.and_(negative, odd), t.fneg(found), found)
    # Between -inf and 0 only whole powers are real.
    imaginary = t.and_(t.fcmp("olt", x, 0.0), t.and_(t.fcmp("one", size, INFINITY), t.not_(integer)))
    found = t.select(t.and_(imaginary, t.fcmp("oeq", y, y)), constant(x.type, NAN), found)
    unit = t.and_(t.fcmp("oeq", size, 1.0), t.fcmp("oeq", t.fabs(y), INFINITY))
    one = t.or_(t.or_(t.fcmp("oeq", x, 1.0), t.fcmp("oeq", y, 0.0)), unit)
    return t.select(one, constant(x.type, 1.0), found)


def _edges(t: Text, size: Value, logarithm: Value) -> Value:
    """log2 of 0, infinity and NaN."""
    out = t.select(t.fcmp("oeq", size, 0.0), constant(size.type, -INFINITY), logarithm)
    out = t.select(t.fcmp("oeq", size, INFINITY), size, out)
    return t.select(t.fcmp("uno", size, size), size, out)


def _float_power(t: Text, size: Value, y: Value) -> Value:
    wide, exponent = t.convert("fpext", size, "double"), t.convert("fpext", y, "double")
    e, f = split(t, wide)
    logarithm = _edges(t, wide, t.fma(near_one(t, f), LOG2_E, e))
    return t.convert("fptrunc", exp2(t, t.fmul(exponent, logarithm)), "float")


def _product(t: Text, a: Value, b: Value) -> tuple[Value, Value]:
    """a·b and what its rounding lost (Dekker's splitting where multiply-add is not fused)."""
    high = t.fmul(a, b)
    if t.host.fma:
        return high, t.fma(a, b, t.fneg(high))
    (a1, a2), (b1, b2) = _halved(t, a), _halved(t, b)
    low = t.fsub(high, t.fmul(a1, b1))
    low = t.fsub(t.fsub(low, t.fmul(a2, b1)), t.fmul(a1, b2))
    return high, t.fsub(t.fmul(a2, b2), low)


def _halved(t: Text, a: Value) -> tuple[Value, Value]:
    short = t.as_float(t.and_(t.bits(a), -(1 << 27)))
    return short, t.fsub(a, short)


def _sum(t: Text, a: Value, b: Value) -> tuple[Value, Value]:
    """a + b and what its rounding lost, for |a| >= |b| or a = 0."""
    high = t.fadd(a, b)
    return high, t.fadd(t.fsub(a, high), b)


def _log2(t: Text, size: Value) -> tuple[Value, Value]:
    """log2 of a positive double as the sum of two."""
    e, f = split(t, size)
    below, lost = _sum(t, constant(size.type, 2.0), f)
    s = t.fdiv(f, below)
    product, error = _product(t, s, below)
    s_low = t.fdiv(t.fsub(t.fsub(t.fsub(f, product), error), t.fmul(s, lost)), below)
    z, z_low = _product(t, s, s)
    z_low = t.fma(t.fmul(s, s_low), 2.0, z_low)
    # log(1+f) = 2s + s·z·(2/3 + z·rest): the first two terms with their errors, the rest plainly.
    third, third_low = _product(t, z, constant(z.type, c.TWO_THIRDS_64[0]))
    third_low = t.fadd(third_low, t.fma(z, c.TWO_THIRDS_64[1], t.fmul(z_low, c.TWO_THIRDS_64[0])))
    rest = t.fmul(t.fmul(z, z), estrin(t, z, c.LOG_64[1:]))
    # LOG_64's own constant differs a little from 2/3; the difference belongs to the rest.
    rest = t.fma(z, c.LOG_64[0] - c.TWO_THIRDS_64[0], rest)
    factor, factor_low = _sum(t, constant(z.type, 2.0), third)
    factor, factor_low = _sum(t, factor, t.fadd(factor_low, t.fadd(third_low, rest)))
    natural, low = _product(t, s, factor)
    low = t.fadd(low, t.fma(s, factor_low, t.fmul(s_low, factor)))
    out, out_low = _product(t, natural, constant(z.type, LOG2_E))
    out_low = t.fadd(out_low, t.fma(natural, c.LOG2_E_64[1], t.fmul(low, LOG2_E)))
    high, high_low = _sum(t, e, out)
    return _sum(t, high, t.fadd(high_low, out_low))


def _double_power(t: Text, size: Value, y: Value) -> Value:
    high, low = _log2(t, size)
    main, rest = _product(t, y, high)
    rest = t.fma(y, low, rest)
    plain = t.fmul(y, _edges(t, size, high))
    # Where nothing is lost, or everything is infinite, the second part has no meaning.
    tame = t.fcmp("olt", t.fabs(plain), 2000.0)
    main = t.select(tame, main, plain)
    rest = t.select(tame, rest, constant(y.type, 0.0))
    return _exp2_of_two(t, main, rest)


def _exp2_of_two(t: Text, main: Value, rest: Value) -> Value:
    """exp2(main)·exp2(rest), the second close to 1."""
    factor = t.fma(rest, LN_2, 1.0)
    return t.fmul(exp2(t, main), factor)
