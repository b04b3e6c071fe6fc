"""Functions that take floating-point numbers apart or put them together: ldexp, frexp, modf, ilogb, lround.

They work on the bits of the number in fp64, where every number of a narrower format has a full significand.
"""

from __future__ import annotations

from collections.abc import Sequence

from trilobite.processor.isa.formats import F64, I32, I64, Format
from trilobite.processor.lang.bang.lower.function import FunctionLowering
from trilobite.processor.lang.bang.lower.scalars import word
from trilobite.processor.lang.ir import Constant, Value

BIAS, FIELD, SPECIAL = 1023, 52, 0x7FF  # of fp64: of the exponent, where it begins, infinities and NaN
FARTHEST = 2044  # twice what one power of two reaches


def _wide(f: FunctionLowering, x: Value) -> Value:
    return x if x.type is F64 else f.builder.convert(x, F64)


def _narrow(f: FunctionLowering, x: Value, like: Value) -> Value:
    assert isinstance(like.type, Format)
    return x if like.type is F64 else f.builder.convert(x, like.type)


def _exponent(f: FunctionLowering, bits: Value) -> Value:
    b = f.builder
    return b.arithmetic("and", I64, b.arithmetic("shr", I64, bits, b.integer(FIELD)), b.integer(SPECIAL))


def _power(f: FunctionLowering, n: Value) -> Value:
    """2^n for an n that has one."""
    b = f.builder
    biased = b.arithmetic("add", I64, n, b.integer(BIAS))
    return b.cast(b.arithmetic("shl", I64, biased, b.integer(FIELD)), F64)


def ldexp(f: FunctionLowering, a: Sequence[Value]) -> Value:
    """x 2^n, in two steps, because n may be more than one power reaches."""
    b, x = f.builder, _wide(f, a[0])
    n = b.arithmetic("max", I64, word(b, a[1]), b.integer(-FARTHEST))
    n = b.arithmetic("min", I64, n, b.integer(FARTHEST))
    half = b.arithmetic("shr", I64, n, b.integer(1))
    rest = b.arithmetic("sub", I64, n, half)
    for part in (half, rest):
        x = b.arithmetic("mul", F64, x, _power(f, part))
    return _narrow(f, x, a[0])


def split(f: FunctionLowering, x: Value) -> tuple[Value, Value]:
    """frexp: a number of [0.5, 1) and its power of two; zeros, infinities and NaN stay, with 0."""
    b = f.builder
    bits = b.cast(_wide(f, x), I64)
    exponent = _exponent(f, bits)
    plain = b.arithmetic("and", I64, bits, b.integer(~(SPECIAL << FIELD)))
    made = b.cast(b.arithmetic("or", I64, plain, b.integer((BIAS - 1) << FIELD)), F64)
    whole = b.arithmetic(
        "or",
        I64,
        b.arithmetic("eq", I64, exponent, b.integer(0)),
        b.arithmetic("eq", I64, exponent, b.integer(SPECIAL)),
    )
    power = b.select(whole, b.integer(0), b.arithmetic("sub", I64, exponent, b.integer(BIAS - 1)))
    return b.select(whole, x, _narrow(f, made, x)), b.cast(power, I32)


def frexp(f: FunctionLowering, a: Sequence[Value]) -> Value:
    part, power = split(f, a[0])
    f.builder.store(I32, power, a[1])
    return part


def parts(f: FunctionLowering, x: Value) -> tuple[Value, Value]:
    """modf: what is behind the point, and what is before it; an infinity has nothing behind it."""
    from trilobite.processor.lang.bang.lower.library import copysign, trunc

    b = f.builder
    assert isinstance(x.type, Format)
    whole = trunc(f, [x])
    rest = b.arithmetic("sub", x.type, x, whole)
    infinite = b.arithmetic("eq", x.type, b.arithmetic("abs", x.type, x), Constant(x.type, float("inf")))
    return copysign(f, (b.select(infinite, Constant(x.type, 0.0), rest), x)), whole


def modf(f: FunctionLowering, a: Sequence[Value]) -> Value:
    rest, whole = parts(f, a[0])
    assert isinstance(whole.type, Format)
    f.builder.store(whole.type, whole, a[1])
    return rest


def ilogb(f: FunctionLowering, a: Sequence[Value]) -> Value:
    """The power of two as an integer: the least one of zero, the largest one of infinities and NaN."""
    b = f.builder
    exponent = _exponent(f, b.cast(_wide(f, a[0]), I64))
    made = b.arithmetic("sub", I64, exponent, b.integer(BIAS))
    made = b.select(b.arithmetic("eq", I64, exponent, b.integer(0)), b.integer(-(1 << 31)), made)
    special = b.arithmetic("eq", I64, exponent, b.integer(SPECIAL))
    return b.cast(b.select(special, b.integer((1 << 31) - 1), made), I32)


def logb(f: FunctionLowering, a: Sequence[Value]) -> Value:
    b, x = f.builder, _wide(f, a[0])
    exponent = _exponent(f, b.cast(x, I64))
    made = b.convert(b.arithmetic("sub", I64, exponent, b.integer(BIAS)), F64)
    none = b.arithmetic("eq", I64, exponent, b.integer(0))
    made = b.select(none, Constant(F64, float("-inf")), made)
    special = b.arithmetic("eq", I64, exponent, b.integer(SPECIAL))
    return _narrow(f, b.select(special, b.arithmetic("mul", F64, x, x), made), a[0])
