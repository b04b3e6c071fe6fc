"""Floats rounded to whole numbers, in their own format.

Machines with fused multiply-add also round in one instruction; elsewhere the sum with 2^p (p the bits of the
mantissa) rounds, because its last place is 1. Not for integers: they are whole already.
"""

from __future__ import annotations

from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant, width


def _anchor(value: Value) -> float:
    return 2.0 ** {32: 23, 64: 52}[width(value.type)]


def rint(t: Text, x: Value) -> Value:
    """To nearest, halves to even; NaN, infinities and -0.0 stay."""
    if t.host.fma:
        return t.intrinsic("rint", x.type, x)
    size, anchor = t.fabs(x), constant(x.type, _anchor(x))
    near = t.copysign(t.fsub(t.fadd(size, anchor), anchor), x)
    return t.select(t.fcmp("olt", size, anchor), near, x)


def floor(t: Text, x: Value) -> Value:
    if t.host.fma:
        return t.intrinsic("floor", x.type, x)
    near = rint(t, x)
    return t.select(t.fcmp("ogt", near, x), t.fsub(near, 1.0), near)


def ceil(t: Text, x: Value) -> Value:
    if t.host.fma:
        return t.intrinsic("ceil", x.type, x)
    return t.fneg(floor(t, t.fneg(x)))


def trunc(t: Text, x: Value) -> Value:
    if t.host.fma:
        return t.intrinsic("trunc", x.type, x)
    return t.copysign(floor(t, t.fabs(x)), x)
