"""Remainder and floored quotient of floats with NumPy's meaning, and the neighbour of a float.

Enters: two `Value`s of one float type. Leaves: the result, exact before its one rounding. Where the quotient
fits the mantissa a fused multiply-subtract gives the exact remainder; the rare larger quotients (and machines
without it) divide bit by bit, lane after lane, in an internal function.
"""

from __future__ import annotations

from trilobite.base.dtypes import DType
from trilobite.compiler.targets.cpu.emit.rounding import floor, trunc
from trilobite.native.llvm.formats import FORMATS
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant, integer_like, lanes_of, width

_HIDDEN, _FRACTION = 1 << 52, (1 << 52) - 1
_STEP = 11  # bits of quotient per round: a 53-bit remainder shifted by so many still fits 64 bits


def fmod(t: Text, x: Value, y: Value) -> Value:
    """The remainder of |x| by |y|, exact; NaN where y is 0, x infinite or either NaN."""
    a, b = t.fabs(x), t.fabs(y)
    ratio = t.fdiv(a, b)
    large = t.not_(t.fcmp("olt", ratio, 2.0 ** (22 if width(x.type) == 32 else 51)))
    if not t.host.fma:
        return _slow(t, a, b)
    return t.either(t.any_lane(large), lambda: [_slow(t, a, b)], lambda: [_quick(t, a, b, ratio)])[0]


def _quick(t: Text, a: Value, b: Value, ratio: Value) -> Value:
    r = t.fma(t.fneg(trunc(t, ratio)), b, a)
    r = t.select(t.fcmp("olt", r, 0.0), t.fadd(r, b), r)  # the quotient was rounded up
    r = t.select(t.fcmp("oge", r, b), t.fsub(r, b), r)
    return t.select(t.fcmp("olt", a, b), a, r)  # also for b infinite, where the product is NaN


def _slow(t: Text, a: Value, b: Value) -> Value:
    _define(t)
    out = a
    for lane in range(max(lanes_of(a.type), 1)):
        x, y = (t.extract(v, lane) if lanes_of(v.type) else v for v in (a, b))
        r = t.call(
            "fmod64", t.convert("fpext", x, "double"), t.convert("fpext", y, "double"), result="double"
        )
        r = t.convert("fptrunc", r, "float") if x.type == "float" else r
        out = t.insert(out, r, lane) if lanes_of(a.type) else r
    return out


def _define(t: Text) -> None:
    """fmod of two doubles that are not negative, by long division of their mantissas."""
    if not t.first("fmod64"):
        return
    with t.function("fmod64", ["double", "double"], "double") as (a, b):
        ma, ea = _parts(t, a)
        mb, eb = _parts(t, b)
        divisor = t.select(t.icmp("eq", mb, 0), 1, mb)
        left = t.select(t.icmp("sgt", ea, eb), t.sub(ea, eb), 0)
        with t.loop(0, left, _STEP, carried=[t.urem(ma, divisor)], name="divide") as loop:
            bits = t.smin(t.sub(left, loop.index), _STEP)
            loop.next(t.urem(t.shl(loop.values[0], bits), divisor))
        found = t.select(t.fcmp("olt", a, b), a, _assembled(t, loop.results[0], eb))
        wrong = t.or_(t.fcmp("uno", a, b), t.or_(t.fcmp("oeq", a, float("inf")), t.fcmp("oeq", b, 0.0)))
        t.give_back(t.select(wrong, constant("double", float("nan")), found))


def _parts(t: Text, x: Value) -> tuple[Value, Value]:
    """Mantissa with its hidden bit, and the biased exponent of its last place (1 for subnormal numbers)."""
    bits = t.bits(x)
    exponent, fraction = t.lshr(bits, 52), t.and_(bits, _FRACTION)
    normal = t.icmp("ne", exponent, 0)
    return t.select(normal, t.or_(fraction, _HIDDEN), fraction), t.smax(exponent, 1)


def _assembled(t: Text, mantissa: Value, exponent: Value) -> Value:
    """The double of an integer below 2^53 whose last place has this biased exponent."""
    zeros = t.sub(t.intrinsic("ctlz", "i64", mantissa, Value("false", "i1")), 11)
    up = t.smin(zeros, t.sub(exponent, 1))
    # The hidden bit, where there is one, adds the 1 that the exponent lacks.
    bits = t.add(t.shl(mantissa, up), t.shl(t.sub(t.sub(exponent, up), 1), 52))
    return t.as_float(t.select(t.icmp("eq", mantissa, 0), 0, bits))


def _divmod(t: Text, x: Value, y: Value) -> tuple[Value, Value, Value]:
    """The remainder with x's sign, whether it has to move to y's side, and whether it is not 0."""
    r = t.copysign(fmod(t, x, y), x)
    some = t.fcmp("une", r, 0.0)
    return r, t.and_(some, t.xor(t.fcmp("olt", y, 0.0), t.fcmp("olt", r, 0.0))), some


def rem(t: Text, x: Value, y: Value, dtype: DType) -> Value:
    """x - y·floor(x/y), with the sign of y; NaN where y is 0."""
    r, other_side, some = _divmod(t, x, y)
    moved = t.select(other_side, t.fadd(r, y), r)
    return _positive_nan(t, t.select(some, moved, t.copysign(constant(x.type, 0.0), y)), dtype)


def floor_div(t: Text, x: Value, y: Value, dtype: DType) -> Value:
    """The whole number of times that y goes into x; x/y where y is 0."""
    r, other_side, _ = _divmod(t, x, y)
    exact = t.fdiv(t.fsub(x, r), y)
    whole = t.select(other_side, t.fsub(exact, 1.0), exact)
    down = floor(t, whole)
    near = t.select(t.fcmp("ogt", t.fsub(whole, down), 0.5), t.fadd(down, 1.0), down)
    ratio = t.fdiv(x, y)
    signed_zero = t.copysign(constant(x.type, 0.0), ratio)
    found = t.select(t.fcmp("une", whole, 0.0), near, signed_zero)
    return _positive_nan(t, t.select(t.fcmp("oeq", y, 0.0), ratio, found), dtype)


def _positive_nan(t: Text, x: Value, dtype: DType) -> Value:
    """A type without NaN makes a zero of it, whose sign is NaN's turned over; here NaN has none."""
    if dtype not in FORMATS or FORMATS[dtype].special != "none":
        return x
    return t.select(t.fcmp("uno", x, x), constant(x.type, float("nan")), x)


def nextafter(t: Text, x: Value, y: Value) -> Value:
    """The number next to x towards y."""
    bits, integers = t.bits(x), integer_like(x.type)
    away = t.xor(t.fcmp("ogt", y, x), t.icmp("slt", bits, 0))
    moved = t.as_float(t.add(bits, t.select(away, constant(integers, 1), constant(integers, -1))))
    smallest = t.copysign(t.as_float(t.add(constant(integers, 1), 0)), y)
    out = t.select(t.fcmp("oeq", x, 0.0), smallest, moved)
    out = t.select(t.fcmp("oeq", x, y), y, out)
    return t.select(t.fcmp("uno", x, y), t.fadd(x, y), out)
