"""Elementwise arithmetic of the scalar and vector units: (format, arrays) in, one array of the format out.

Floats below 32 bits are computed in float32 and rounded to nearest even. Integers wrap. Comparisons give 1
or 0 in the operands' format and are false for NaN, except "not equal". These are the definitions; nothing
here is tuned.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trilobite.processor.isa import functions
from trilobite.processor.isa.formats import F64, Array, Format
from trilobite.processor.isa.numbers import finish, fma32, fma64, fma_wide, integer_range, round_whole, widen

_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def _computed(fmt: Format, function: Callable[..., Array], *arrays: Array) -> Array:
    result = function(*(widen(fmt, x) for x in arrays))
    return finish(fmt, result) if fmt.kind == "float" else result.astype(fmt.dtype)


def add(fmt: Format, a: Array, b: Array) -> Array:
    return _computed(fmt, np.add, a, b)


def subtract(fmt: Format, a: Array, b: Array) -> Array:
    return _computed(fmt, np.subtract, a, b)


def multiply(fmt: Format, a: Array, b: Array) -> Array:
    return _computed(fmt, np.multiply, a, b)


def divide(fmt: Format, a: Array, b: Array) -> Array:
    if fmt.kind == "float":
        return _computed(fmt, np.divide, a, b)
    zero = b == 0
    low, _ = integer_range(fmt)
    over = (b == fmt.dtype.type(-1)) & (a == low) if fmt.kind == "int" else np.zeros(np.shape(a), bool)
    safe = np.where(zero | over, fmt.dtype.type(1), b)
    whole = a // safe
    # NumPy floors; the machine cuts towards zero
    cut = whole + ((whole * safe != a) & ((a < 0) != (safe < 0))).astype(fmt.dtype)
    ones = np.array(-1).astype(fmt.dtype) if fmt.kind == "int" else np.array(integer_range(fmt)[1], fmt.dtype)
    return np.where(zero, ones, np.where(over, a, cut)).astype(fmt.dtype)


def remainder(fmt: Format, a: Array, b: Array) -> Array:
    return np.where(b == 0, a, a - b * divide(fmt, a, b)).astype(fmt.dtype)


def greater_merge(fmt: Format, a: Array, b: Array) -> Array:
    return np.where(a > b, a, b)


def less_merge(fmt: Format, a: Array, b: Array) -> Array:
    return np.where(a < b, a, b)


def greater(fmt: Format, a: Array, b: Array) -> Array:
    return (a > b).astype(fmt.dtype)


def greater_equal(fmt: Format, a: Array, b: Array) -> Array:
    return (a >= b).astype(fmt.dtype)


def equal(fmt: Format, a: Array, b: Array) -> Array:
    return np.asarray((a == b).astype(fmt.dtype))


def not_equal(fmt: Format, a: Array, b: Array) -> Array:
    return np.asarray((a != b).astype(fmt.dtype))


def less(fmt: Format, a: Array, b: Array) -> Array:
    return (a < b).astype(fmt.dtype)


def less_equal(fmt: Format, a: Array, b: Array) -> Array:
    return (a <= b).astype(fmt.dtype)


def logical_and(fmt: Format, a: Array, b: Array) -> Array:
    return np.asarray(((a != 0) & (b != 0)).astype(fmt.dtype))


def logical_or(fmt: Format, a: Array, b: Array) -> Array:
    return np.asarray(((a != 0) | (b != 0)).astype(fmt.dtype))


def logical_xor(fmt: Format, a: Array, b: Array) -> Array:
    return np.asarray(((a != 0) ^ (b != 0)).astype(fmt.dtype))


def logical_not(fmt: Format, a: Array) -> Array:
    return np.asarray((a == 0).astype(fmt.dtype))


def _bits(fmt: Format, x: Array) -> Array:
    return np.ascontiguousarray(x).view(_UNSIGNED[fmt.bits])


def bit_and(fmt: Format, a: Array, b: Array) -> Array:
    return (_bits(fmt, a) & _bits(fmt, b)).view(fmt.dtype)


def bit_or(fmt: Format, a: Array, b: Array) -> Array:
    return (_bits(fmt, a) | _bits(fmt, b)).view(fmt.dtype)


def bit_xor(fmt: Format, a: Array, b: Array) -> Array:
    return (_bits(fmt, a) ^ _bits(fmt, b)).view(fmt.dtype)


def bit_not(fmt: Format, a: Array) -> Array:
    return (~_bits(fmt, a)).view(fmt.dtype)


def _amount(fmt: Format, b: Array) -> Array:
    return np.asarray((_bits(fmt, b) % _UNSIGNED[fmt.bits](fmt.bits)).astype(_UNSIGNED[fmt.bits]))


def shift_left(fmt: Format, a: Array, b: Array) -> Array:
    return (_bits(fmt, a) << _amount(fmt, b)).astype(_UNSIGNED[fmt.bits]).view(fmt.dtype)


def shift_right(fmt: Format, a: Array, b: Array) -> Array:
    return np.asarray((a >> _amount(fmt, b).astype(fmt.dtype)).astype(fmt.dtype))


def rotate_left(fmt: Format, a: Array, b: Array) -> Array:
    bits, left = _bits(fmt, a), _amount(fmt, b)
    right = (_UNSIGNED[fmt.bits](fmt.bits) - left) % _UNSIGNED[fmt.bits](fmt.bits)
    return np.asarray(((bits << left) | (bits >> right)).astype(_UNSIGNED[fmt.bits]).view(fmt.dtype))


def multiply_high(fmt: Format, a: Array, b: Array) -> Array:
    """The upper half of the exact product."""
    if fmt.bits < 64:
        wide = np.int64 if fmt.kind == "int" else np.uint64
        return ((a.astype(wide) * b.astype(wide)) >> wide(fmt.bits)).astype(fmt.dtype)
    high = _unsigned_high(_bits(fmt, a), _bits(fmt, b))
    if fmt.kind == "int":  # correct for the weight of the sign bits
        high = high - np.where(a < 0, _bits(fmt, b), 0) - np.where(b < 0, _bits(fmt, a), 0)
    return high.astype(np.uint64).view(fmt.dtype)


def _unsigned_high(a: Array, b: Array) -> Array:
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    middle = a1 * b0 + ((a0 * b0) >> half)
    carry = a0 * b1 + (middle & low)
    return np.asarray(a1 * b1 + (middle >> half) + (carry >> half))


def negate(fmt: Format, a: Array) -> Array:
    if fmt.kind != "float":
        return (np.zeros_like(a) - a).astype(fmt.dtype)
    return np.asarray((_bits(fmt, a) ^ _UNSIGNED[fmt.bits](1 << (fmt.bits - 1))).view(fmt.dtype))


def absolute(fmt: Format, a: Array) -> Array:
    if fmt.kind == "float":
        return np.asarray((_bits(fmt, a) & _UNSIGNED[fmt.bits]((1 << (fmt.bits - 1)) - 1)).view(fmt.dtype))
    return np.where(a < 0, negate(fmt, a), a).astype(fmt.dtype)


def sign(fmt: Format, a: Array) -> Array:
    """-1, 0 or 1; NaN stays NaN."""
    return (
        ((a > 0).astype(np.int8) - (a < 0)).astype(fmt.dtype)
        if fmt.kind != "float"
        else finish(fmt, np.where(np.isnan(widen(fmt, a)), np.nan, np.sign(widen(fmt, a))))
    )


def rectify(fmt: Format, a: Array) -> Array:
    """The larger of a and +0; NaN stays NaN."""
    return np.where((a > 0) | (a != a), a, fmt.dtype.type(0)).astype(fmt.dtype)


def population(fmt: Format, a: Array) -> Array:
    return np.bitwise_count(_bits(fmt, a)).astype(fmt.dtype)


def leading_zeros(fmt: Format, a: Array) -> Array:
    bits, one = _bits(fmt, a), _UNSIGNED[fmt.bits]
    shift = 1
    while shift < fmt.bits:
        bits = bits | (bits >> one(shift))
        shift *= 2
    return (fmt.bits - np.bitwise_count(bits).astype(np.int64)).astype(fmt.dtype)


def trailing_zeros(fmt: Format, a: Array) -> Array:
    bits = _bits(fmt, a)
    below = ~bits & (bits - _UNSIGNED[fmt.bits](1))
    return np.asarray(np.bitwise_count(below).astype(fmt.dtype))


def square_root(fmt: Format, a: Array) -> Array:
    return _computed(fmt, np.sqrt, a)


def reciprocal(fmt: Format, a: Array) -> Array:
    return _computed(fmt, lambda x: x.dtype.type(1) / x, a)


def fused(fmt: Format, a: Array, b: Array, c: Array) -> Array:
    """a * b + c with one rounding."""
    if fmt is F64:
        return finish(fmt, fma64(a, b, c))
    if fmt.bits < 32:
        return finish(fmt, fma_wide(a, b, c))
    return finish(fmt, fma32(a, b, c))


def _whole(fmt: Format, a: Array, rounding: str) -> Array:
    return _computed(fmt, lambda x: round_whole(x, rounding), a)


def floor(fmt: Format, a: Array) -> Array:
    return _whole(fmt, a, "rd")


def ceil(fmt: Format, a: Array) -> Array:
    return _whole(fmt, a, "ru")


def truncate(fmt: Format, a: Array) -> Array:
    return _whole(fmt, a, "rz")


def round_even(fmt: Format, a: Array) -> Array:
    return _whole(fmt, a, "rn")


def round_away(fmt: Format, a: Array) -> Array:
    return _whole(fmt, a, "ra")


def _stated(fmt: Format, algorithm: Callable[[Array], Array], a: Array) -> Array:
    return finish(fmt, algorithm(a.astype(np.float64)))


def exp(fmt: Format, a: Array) -> Array:
    return _stated(fmt, functions.exp, a)


def exp2(fmt: Format, a: Array) -> Array:
    return _stated(fmt, functions.exp2, a)


def log(fmt: Format, a: Array) -> Array:
    return _stated(fmt, functions.log, a)


def log2(fmt: Format, a: Array) -> Array:
    return _stated(fmt, functions.log2, a)


def sin(fmt: Format, a: Array) -> Array:
    return _stated(fmt, functions.sin, a)


def cos(fmt: Format, a: Array) -> Array:
    return _stated(fmt, functions.cos, a)


def tanh(fmt: Format, a: Array) -> Array:
    return _stated(fmt, functions.tanh, a)


def sigmoid(fmt: Format, a: Array) -> Array:
    return _stated(fmt, functions.sigmoid, a)


def erf(fmt: Format, a: Array) -> Array:
    return _stated(fmt, functions.erf, a)


def gelu(fmt: Format, a: Array) -> Array:
    return _stated(fmt, functions.gelu, a)


def reciprocal_root(fmt: Format, a: Array) -> Array:
    """1 / sqrt(a) in float64, then rounded."""
    return _stated(fmt, lambda x: 1.0 / np.sqrt(x), a)
