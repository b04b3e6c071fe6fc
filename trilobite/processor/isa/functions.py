"""Transcendental functions as stated algorithms on float64, of additions, multiplications and divisions
alone.

Enters: float64 arrays (exact images of narrower formats). Leaves: float64 arrays. No call reaches a C
library, whose bits change with the host. Relative error is a few 2^-53, so results rounded to float32 are
within half an ulp and a hair; results kept in float64 are within a few ulp.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import factorial

import numpy as np

from trilobite.processor.isa.formats import Array

LOG2E = 1.4426950408889634
LN2_HI = 0.693147180369123816490  # 32 leading bits, so that k * LN2_HI is exact for |k| < 2^20
LN2_LO = 1.90821492927058770002e-10
HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)  # 33 bits, 33 bits, the rest
EXP_TERMS = tuple(1.0 / factorial(n) for n in range(13, 0, -1))
LOG_TERMS = tuple(1.0 / n for n in range(23, 0, -2))
SIN_TERMS = tuple((-1.0) ** n / factorial(2 * n + 1) for n in range(8, -1, -1))
COS_TERMS = tuple((-1.0) ** n / factorial(2 * n) for n in range(9, -1, -1))
TWO_OVER_SQRT_PI = 1.1283791670955126
SQRT_HALF = 0.7071067811865476


def _horner(terms: tuple[float, ...], x: Array) -> Array:
    total = np.full_like(x, terms[0])
    for term in terms[1:]:
        total = total * x + term
    return total


def _power_of_two(k: Array) -> Array:
    """2^k for whole k in [-1022, 1023], by its bits."""
    return ((k.astype(np.int64) + 1023) << 52).view(np.float64)


def _scale(x: Array, k: Array) -> Array:
    """x * 2^k in two exact steps; only a denormal result is rounded."""
    half = np.floor(k * 0.5)
    return x * _power_of_two(half) * _power_of_two(k - half)


def _expm1_core(r: Array) -> Array:
    """e^r - 1 for |r| <= 0.35: Taylor to the thirteenth power."""
    return _horner(EXP_TERMS, r) * r


def _guard(function: Callable[[Array], Array], x: Array, limit: float) -> Array:
    """Runs an algorithm on arguments clipped to its range, and gives NaN back for NaN."""
    nan = np.isnan(x)
    return np.where(nan, np.nan, function(np.clip(np.where(nan, 0.0, x), -limit, limit)))


def exp(x: Array) -> Array:
    def algorithm(x: Array) -> Array:
        k = np.rint(x * LOG2E)
        r = (x - k * LN2_HI) - k * LN2_LO
        return _scale(1.0 + _expm1_core(r), k)

    return _guard(algorithm, x, 800.0)


def exp2(x: Array) -> Array:
    def algorithm(x: Array) -> Array:
        k = np.rint(x)
        return _scale(1.0 + _expm1_core((x - k) * (LN2_HI + LN2_LO)), k)

    return _guard(algorithm, x, 1200.0)


def _log_parts(x: Array) -> tuple[Array, Array]:
    """x = m * 2^e with m in [sqrt(1/2), sqrt(2)): (e, log m), for finite x > 0."""
    tiny = x < 2.2250738585072014e-308
    bits = np.where(tiny, x * 2.0**54, x).view(np.int64)
    e = ((bits >> 52) - 1023).astype(np.float64) - np.where(tiny, 54.0, 0.0)
    m = ((bits & 0xFFFFFFFFFFFFF) | (1023 << 52)).view(np.float64)
    large = m > 1.4142135623730951
    m, e = np.where(large, m * 0.5, m), e + large
    s = (m - 1.0) / (m + 1.0)
    return e, 2.0 * s * _horner(LOG_TERMS, s * s)


def _log_edges(x: Array, result: Array) -> Array:
    result = np.where(x == 0, -np.inf, result)
    result = np.where(x == np.inf, np.inf, result)
    return np.where((x < 0) | np.isnan(x), np.nan, result)


def log(x: Array) -> Array:
    e, m = _log_parts(np.where((x > 0) & (x < np.inf), x, 1.0))
    return _log_edges(x, e * LN2_HI + (m + e * LN2_LO))


def log2(x: Array) -> Array:
    e, m = _log_parts(np.where((x > 0) & (x < np.inf), x, 1.0))
    return _log_edges(x, e + m * LOG2E)


def sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + exp(-x))


def tanh(x: Array) -> Array:
    """Below 0.17 by e^2x - 1 so that small arguments keep their bits, above by 1 - 2 / (e^2x + 1)."""
    size = np.abs(x)
    small = _expm1_core(np.minimum(np.where(np.isnan(size), 0.0, size), 0.17) * 2.0)
    value = np.where(size < 0.17, small / (small + 2.0), 1.0 - 2.0 / (exp(size * 2.0) + 1.0))
    return np.copysign(value, x)


def erf(x: Array) -> Array:
    """Below 3 by the series of e^(-x^2) with positive terms only, above by 1 - its continued fraction."""
    size = np.minimum(np.abs(np.where(np.isnan(x), 0.0, x)), 6.0)
    near = np.minimum(size, 3.0)
    double_square = 2.0 * near * near
    series = np.ones_like(near)
    for n in range(50, 0, -1):
        series = 1.0 + series * double_square * (1.0 / (2 * n + 1))
    inner = TWO_OVER_SQRT_PI * near * exp(-near * near) * series
    far = np.maximum(size, 3.0)
    fraction = far
    for n in range(30, 0, -1):
        fraction = far + (0.5 * n) / fraction
    outer = 1.0 - 0.5 * TWO_OVER_SQRT_PI * exp(-far * far) / fraction
    value = np.where(size < 3.0, inner, outer)
    return np.where(np.isnan(x), np.nan, np.copysign(value, x))


def gelu(x: Array) -> Array:
    """x times the normal distribution function, by erf."""
    return np.where(x == -np.inf, -0.0, 0.5 * x * (1.0 + erf(x * SQRT_HALF)))


def sin(x: Array) -> Array:
    return _circular(x, 0)


def cos(x: Array) -> Array:
    return _circular(x, 1)


def _circular(x: Array, quarter: int) -> Array:
    finite = np.isfinite(x)
    n, r = _reduce(np.where(finite, x, 0.0))
    square = r * r
    sine, cosine = r * _horner(SIN_TERMS, square), _horner(COS_TERMS, square)
    turn = (n + quarter) & 3
    value = np.where(turn & 1, cosine, sine)
    value = np.where(turn & 2, -value, value)
    return np.where(finite, value, np.nan)


def _reduce(x: Array) -> tuple[Array, Array]:
    """x = n * pi / 2 + r with |r| <= pi / 4: three parts of pi / 2 up to 10^5, exact integers above."""
    large = np.abs(x) > 1e5
    near = np.where(large, 0.0, x)
    n = np.rint(near * (2.0 / np.pi))
    r = ((near - n * HALF_PI[0]) - n * HALF_PI[1]) - n * HALF_PI[2]
    turns = n.astype(np.int64)
    for place in np.argwhere(large):
        where = tuple(place)
        turns[where], r[where] = _reduce_exactly(float(x[where]))
    return turns, r


def _reduce_exactly(x: float) -> tuple[int, float]:
    scaled_half_pi, bits = _half_pi(), 1300
    numerator, denominator = x.as_integer_ratio()
    scaled = (numerator << bits) // denominator
    turns = (2 * scaled + scaled_half_pi) // (2 * scaled_half_pi)
    rest = scaled - turns * scaled_half_pi
    return turns & 3, rest / (1 << bits)


@lru_cache(maxsize=1)
def _half_pi() -> int:
    """pi / 2 times 2^1300, by Machin's formula on integers with 64 guard bits."""
    one = 1 << (1300 + 64)

    def arctan_of_inverse(n: int) -> int:
        power, total, k = one // n, 0, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= n * n
            k += 1
        return total

    return (2 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))) >> 64
