"""The number rules: rounding, saturation, NaN, fused multiply-add, conversions.

Enters and leaves: NumPy arrays. Everything is built of IEEE additions, multiplications, divisions and square
roots of NumPy, which are exact by definition, so the bits are the same on every host. NaN results are the one
canonical quiet NaN. Denormals are kept everywhere.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf, isfinite

import numpy as np

from trilobite.processor.isa.formats import E4M3, E5M2, F16, F32, F64, I4, TF32, Array, Format

ROUNDINGS = ("rn", "rz", "rd", "ru", "ra")  # to nearest even, to zero, down, up, to nearest with ties away


def canonical(x: Array) -> Array:
    """The same array with every NaN replaced by the canonical one."""
    nan = x != x
    return np.where(nan, x.dtype.type(np.nan), x) if nan.any() else x


def widen(fmt: Format, x: Array) -> Array:
    """To the type a unit computes in: float32 for floats up to 32 bits, everything else as it is."""
    return x.astype(np.float32) if fmt.kind == "float" and fmt.bits < 32 else x


def finish(fmt: Format, x: Array) -> Array:
    """A computed float32 or float64 array as results of `fmt`: to float32 first, then to the format."""
    if fmt is F64:
        return canonical(x.astype(np.float64))
    single = canonical(x.astype(np.float32))
    return single if fmt in (F32, TF32) else narrow(fmt, single, "rn")


def fma32(a: Array, b: Array, c: Array) -> Array:
    """round(a * b + c) with one rounding, in float32.

    The product of two float32 is exact in float64. Its sum with c is rounded to odd there, so that the final
    rounding to float32 sees every lost bit (Boldo and Melquiond).
    """
    product = a.astype(np.float64) * b
    wide = c.astype(np.float64)
    total = product + wide
    part = total - product
    lost = (product - (total - part)) + (wide - part)
    bits = total.view(np.int64)
    inexact = (lost != 0) & ((bits & 1) == 0) & np.isfinite(total)
    step = np.where((lost > 0) == (total > 0), 1, -1)
    return (bits + np.where(inexact, step, 0)).view(np.float64).astype(np.float32)


def fma_wide(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of 16-bit floats as the float32 that one more rounding, to their format, makes right.

    Products of 16-bit floats are exact in float64. What the sum loses there and on the way to float32 is kept
    in a last bit that is 1 (Boldo and Melquiond).
    """
    exact = _odd_sum(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))
    near = exact.astype(np.float32)
    bits, back = near.view(np.int32), near.astype(np.float64)
    is_moved = (exact != back) & (exact == exact) & ((bits & 1) == 0)
    step = np.where(np.abs(exact) > np.abs(back), 1, -1)
    return (bits + np.where(is_moved, step, 0)).astype(np.int32).view(np.float32)


def fma64(a: Array, b: Array, c: Array) -> Array:
    """round(a * b + c) with one rounding, in float64.

    The product and the sums are split into exact pairs; the small parts meet rounded to odd (Boldo and
    Melquiond). Where a part could leave the range of float64 the sum is taken in whole numbers.
    """
    a, b, c = (np.array(x, np.float64) for x in np.broadcast_arrays(a, b, c))
    high, low = _exact_product(a, b)
    upper, lower = _exact_sum(c, low)
    top, rest = _exact_sum(high, upper)
    result = np.asarray(top + _odd_sum(lower, rest))
    sizes = [np.abs(x) for x in (a, b, c, a * b)]
    inside = [((x > 2.0**-400) | (x == 0)) & (x < 2.0**400) for x in sizes]
    safe = np.logical_and.reduce(inside) & ((a * b != 0) | (a == 0) | (b == 0))
    for place in np.argwhere(~safe):
        at = tuple(place)
        result[at] = _whole_fma(float(a[at]), float(b[at]), float(c[at]))
    return result


def _exact_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a * b and what rounding took from it (Dekker)."""
    product = a * b
    (a1, a0), (b1, b0) = _halves(a), _halves(b)
    return product, np.asarray(((a1 * b1 - product) + a1 * b0 + a0 * b1) + a0 * b0)


def _halves(x: Array) -> tuple[Array, Array]:
    wide = x * 134217729.0  # 2^27 + 1
    upper = wide - (wide - x)
    return upper, x - upper


def _exact_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    part = total - a
    return total, np.asarray((a - (total - part)) + (b - part))


def _odd_sum(a: Array, b: Array) -> Array:
    """a + b; if bits are lost, the neighbour whose last bit is 1."""
    total, lost = _exact_sum(a, b)
    bits = np.ascontiguousarray(total).view(np.int64)
    inexact = (lost != 0) & ((bits & 1) == 0) & np.isfinite(total)
    step = np.where((lost > 0) == (total > 0), 1, -1)
    return np.asarray((bits + np.where(inexact, step, 0)).view(np.float64))


def _whole_fma(a: float, b: float, c: float) -> float:
    if isfinite(a) and isfinite(b) and not isfinite(c):
        return c  # also where the rounded product would be infinite
    with np.errstate(all="ignore"):
        plain = float(np.float64(a) * np.float64(b) + np.float64(c))
    if not all(map(isfinite, (a, b, c))) or a == 0 or b == 0:
        return plain  # infinities, NaN, and a sum with an exact product
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        return plain  # the sign of an exact zero is that of the sum
    try:
        return float(total)
    except OverflowError:
        return inf if total > 0 else -inf


def tf32(x: Array) -> Array:
    """float32 rounded to ten bits of fraction, to nearest even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(x), rounded.astype(np.uint32).view(np.float32), canonical(x)).astype(
        np.float32
    )


def narrow(fmt: Format, x: Array, rounding: str) -> Array:
    """float32 or float64 to a float format. Beyond the range: infinity, in fp8 the largest finite value."""
    if fmt is TF32:
        return tf32(x.astype(np.float32))
    if rounding == "rn":
        return _nearest(fmt, x)
    return _directed(fmt, x, rounding)


def _nearest(fmt: Format, x: Array) -> Array:
    x = _fp8_range(fmt, x)
    if fmt is not F16 and fmt.bits < 32:
        x = x.astype(np.float32)
    return canonical(x.astype(fmt.dtype))


def _fp8_range(fmt: Format, x: Array) -> Array:
    """Finite values beyond the range of an fp8 format become its largest."""
    if fmt not in (E4M3, E5M2):
        return x
    top = 448.0 if fmt is E4M3 else 57344.0
    return np.where(np.isfinite(x), np.clip(x, -top, top), x)


def _directed(fmt: Format, x: Array, rounding: str) -> Array:
    near = np.atleast_1d(_nearest(fmt, x))
    value, exact = near.astype(np.float64), np.atleast_1d(_fp8_range(fmt, x)).astype(np.float64)
    if rounding == "ra":
        return _ties_away(fmt, near, exact).reshape(np.shape(x))
    too_high, too_low = value > exact, value < exact
    down = too_high & (True if rounding == "rd" else (exact > 0) & (rounding == "rz"))
    up = too_low & (True if rounding == "ru" else (exact < 0) & (rounding == "rz"))
    return _step(fmt, near, up.astype(np.int64) - down).reshape(np.shape(x))


def _ties_away(fmt: Format, near: Array, exact: Array) -> Array:
    value = near.astype(np.float64)
    away = np.where(exact > 0, 1, -1)
    inward = np.abs(value) < np.abs(exact)
    further = _step(fmt, near, np.where(inward, away, 0)).astype(np.float64)
    tie = inward & np.isfinite(further) & (np.abs(exact - value) == np.abs(further - exact))
    return _step(fmt, near, np.where(tie, away, 0))


def _step(fmt: Format, x: Array, direction: Array) -> Array:
    """The neighbour above (1), below (-1), or the value itself (0)."""
    integer = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}[fmt.bits]
    bits = np.ascontiguousarray(x).view(integer).astype(np.int64)
    low = -(1 << (fmt.bits - 1))
    order = np.where(bits < 0, low - bits, bits) + direction
    # the order of the two zeros is one place; a step down from it lands on the smallest negative
    back = np.where(order < 0, low - order, order)
    stepped = back.astype(integer).view(fmt.dtype)
    return np.asarray(np.where(direction == 0, x, stepped), fmt.dtype)


def to_integer(fmt: Format, x: Array, rounding: str) -> Array:
    """Float to integer: rounded, then saturated; NaN becomes 0."""
    whole = round_whole(x.astype(np.float64), rounding)
    low, high = integer_range(fmt)
    whole = np.where(np.isnan(whole), 0.0, whole)
    inside = np.clip(whole, float(low), _below(float(high) + 1.0))
    result = inside.astype(np.uint64 if fmt.kind == "uint" else np.int64)
    result = np.where(whole >= float(high), high, result) if fmt.bits == 64 else result
    return np.asarray(result).astype(fmt.dtype)


def _below(limit: float) -> float:
    return float(np.nextafter(limit, 0.0))


def integer_range(fmt: Format) -> tuple[int, int]:
    if fmt.kind == "uint":
        return 0, (1 << fmt.bits) - 1
    return -(1 << (fmt.bits - 1)), (1 << (fmt.bits - 1)) - 1


def round_whole(x: Array, rounding: str) -> Array:
    """To a whole number in the float's own type."""
    if rounding == "rn":
        return np.rint(x)
    if rounding == "rd":
        return np.floor(x)
    if rounding == "ru":
        return np.ceil(x)
    whole = np.trunc(x)
    if rounding == "ra":
        whole = whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(x.dtype.type(1), x), x.dtype.type(0))
    return np.copysign(whole, x)


def convert(to: Format, source: Format, x: Array, rounding: str) -> Array:
    """Any format to any other: floats by `narrow`, integers saturate, float to integer by `to_integer`."""
    if source.kind == "float":
        exact = x.astype(np.float64)
        if to.kind != "float":
            return to_integer(to, exact, rounding)
        return narrow(to, tf32(x) if source is TF32 else exact, rounding)
    if to.kind == "float":
        wide = x.astype(np.float64 if to is F64 else np.float32)
        return wide if to in (F32, F64) else narrow(to, wide, rounding)
    return saturate(to, source, x)


def saturate(to: Format, source: Format, x: Array) -> Array:
    low, high = integer_range(to)
    from_low, from_high = integer_range(source)
    kept = np.clip(x, x.dtype.type(max(low, from_low)), x.dtype.type(min(high, from_high)))
    return kept.astype(np.int8 if to is I4 else to.dtype)
