"""Integer operations that are more than one instruction, with NumPy's meaning; bit exact for every width.

Enters: two `Value`s (or one) of an integer dtype in register form. Leaves: the result, wrapped around.
4-bit integers compute in their byte.
"""

from __future__ import annotations

from collections.abc import Callable

from trilobite.base.dtypes import DType, bits, is_signed
from trilobite.compiler.targets.cpu.emit.casts import wrap
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant, width


def _divisor(t: Text, x: Value, y: Value, dtype: DType) -> Value:
    """y, but 1 where the machine would trap: 0, and -1 below the lowest integer (whose quotient wraps)."""
    bad = t.icmp("eq", y, 0)
    if is_signed(dtype):
        lowest = -(1 << (width(x.type) - 1))
        bad = t.or_(bad, t.and_(t.icmp("eq", x, lowest), t.icmp("eq", y, -1)))
    return t.select(bad, 1, y)


def floor_div(t: Text, x: Value, y: Value, dtype: DType) -> Value:
    """Rounded down; 0 where y is 0."""
    safe = _divisor(t, x, y, dtype)
    zero = t.icmp("eq", y, 0)
    if not is_signed(dtype):
        return t.select(zero, 0, t.udiv(x, safe))
    q = t.sdiv(x, safe)
    r = t.sub(x, t.mul(q, safe))
    down = t.and_(t.icmp("ne", r, 0), t.icmp("slt", t.xor(r, safe), 0))
    floored = t.sub(q, t.convert("zext", down, f"i{width(x.type)}"))
    # The lowest integer by -1 was divided by 1 instead: that is what wrapping around gives.
    return wrap(t, dtype, t.select(zero, 0, floored))


def rem(t: Text, x: Value, y: Value, dtype: DType) -> Value:
    """With the sign of y; 0 where y is 0."""
    safe = _divisor(t, x, y, dtype)
    if not is_signed(dtype):
        return t.select(t.icmp("eq", y, 0), 0, t.urem(x, safe))
    r = t.sub(x, t.mul(t.sdiv(x, safe), safe))
    other_side = t.and_(t.icmp("ne", r, 0), t.icmp("slt", t.xor(r, safe), 0))
    # Dividing by 1 leaves 0, which is right for both of the cases that would trap.
    return wrap(t, dtype, t.add(r, t.select(other_side, safe, 0)))


def power(t: Text, x: Value, y: Value, dtype: DType) -> Value:
    """By squaring, wrapping around; a negative power is the truncated quotient: 0 unless x is 1 or -1."""
    one = constant(x.type, 1)
    with t.loop(0, bits(dtype), carried=(one, x, y), name="pow") as loop:
        out, base, left = loop.values
        odd = t.icmp("ne", t.and_(left, 1), 0)
        loop.next(t.select(odd, t.mul(out, base), out), t.mul(base, base), t.lshr(left, 1))
    out = wrap(t, dtype, loop.results[0])
    if not is_signed(dtype):
        return out
    alternating = t.select(t.icmp("ne", t.and_(y, 1), 0), constant(x.type, -1), one)
    unit = t.select(t.icmp("eq", x, -1), alternating, constant(x.type, 0))
    unit = t.select(t.icmp("eq", x, 1), one, unit)
    return t.select(t.icmp("slt", y, 0), unit, out)


def shift_left(t: Text, x: Value, n: Value, dtype: DType) -> Value:
    """0 where n is not 0..width-1."""
    w = width(x.type)
    moved = t.shl(x, t.and_(n, w - 1))
    return wrap(t, dtype, t.select(t.icmp("ult", n, w), moved, 0))


def shift_right(t: Text, x: Value, n: Value, dtype: DType) -> Value:
    """Arithmetic for signed; where n is not 0..width-1 nothing but the sign remains."""
    w = width(x.type)
    if is_signed(dtype):
        within = t.select(t.icmp("ult", n, w), n, w - 1)
        return t.ashr(x, within)
    return t.select(t.icmp("ult", n, w), t.lshr(x, t.and_(n, w - 1)), 0)


def _own_bits(t: Text, x: Value, dtype: DType) -> Value:
    return t.and_(x, 15) if bits(dtype) == 4 else x


def popcount(t: Text, x: Value, dtype: DType) -> Value:
    return wrap(t, dtype, t.intrinsic("ctpop", x.type, _own_bits(t, x, dtype)))


def clz(t: Text, x: Value, dtype: DType) -> Value:
    found = t.intrinsic("ctlz", x.type, _own_bits(t, x, dtype), Value("false", "i1"))
    return wrap(t, dtype, t.sub(found, width(x.type) - bits(dtype)))


def absolute(t: Text, x: Value, dtype: DType) -> Value:
    """Of the lowest integer, that integer."""
    if not is_signed(dtype):
        return x
    return wrap(t, dtype, t.select(t.icmp("slt", x, 0), t.sub(0, x), x))


def sign(t: Text, x: Value, dtype: DType) -> Value:
    above = t.select(t.icmp("ne", x, 0), constant(x.type, 1), constant(x.type, 0))
    return t.select(t.icmp("slt", x, 0), constant(x.type, -1), above) if is_signed(dtype) else above


def extreme(larger: bool) -> Callable[[Text, Value, Value, DType], Value]:
    def rule(t: Text, x: Value, y: Value, dtype: DType) -> Value:
        name = ("s" if is_signed(dtype) else "u") + ("max" if larger else "min")
        return t.intrinsic(name, x.type, x, y)

    return rule
