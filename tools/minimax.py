"""Fit the polynomials of the vectorised functions and print compiler/targets/cpu/emit/coefficients.py.

Remez' exchange in decimal arithmetic (60 digits): for each kernel, the coefficients whose largest relative
error on the interval is least, and that error as a power of two. Run it when a kernel, its interval or its
degree changes:

    python -m tools.minimax > trilobite/compiler/targets/cpu/emit/coefficients.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, getcontext
from decimal import Decimal as D

import numpy as np

getcontext().prec = 60
Function = Callable[[D], D]
_BITS = 1280  # of 2/π: the largest double has 1024 before its point
_TINY = D(10) ** -45


def _pi() -> D:
    """Machin's formula."""
    return 4 * (4 * _arctan_series(D(1) / 5) - _arctan_series(D(1) / 239))


def _series(first: D, step: Callable[[int, D], D]) -> D:
    """first + step(1, first) + step(2, ...) + ... until it no longer changes."""
    total, term, n = first, first, 0
    while abs(term) > _TINY * _TINY + abs(total) * D(10) ** -58:
        n += 1
        term = step(n, term)
        total += term
    return total


def _arctan_series(x: D) -> D:
    total, power, n = D(0), x, 1
    while abs(power) > D(10) ** -60:
        total += power / n if n % 4 == 1 else -power / n
        power, n = power * x * x, n + 2
    return total


PI = _pi()
LN2 = D(2).ln()


def sin(x: D) -> D:
    return _series(x, lambda n, term: -term * x * x / ((2 * n) * (2 * n + 1)))


def cos(x: D) -> D:
    return _series(D(1), lambda n, term: -term * x * x / ((2 * n - 1) * (2 * n)))


def atan(x: D) -> D:
    """Halve the angle until the series is quick."""
    doubled = 0
    while abs(x) > D("0.05"):
        x, doubled = x / (1 + (1 + x * x).sqrt()), doubled + 1
    return _arctan_series(x) * D(2) ** doubled


def asin(x: D) -> D:
    return atan(x / (1 - x * x).sqrt())


def erf(x: D) -> D:
    """2/√π·exp(-x²)·Σ 2^n·x^(2n+1)/(2n+1)!!: all terms have one sign."""
    total = _series(x, lambda n, term: term * 2 * x * x / (2 * n + 1))
    return 2 / PI.sqrt() * (-x * x).exp() * total


def erfcx(x: D) -> D:
    """exp(x²)·erfc(x) for x >= 0; by its continued fraction where that is quick."""
    if x < 3:
        return (1 - erf(x)) * (x * x).exp()
    fraction = x
    for k in range(600, 0, -1):
        fraction = x + D(k) / 2 / fraction
    return 1 / (fraction * PI.sqrt())


@dataclass(frozen=True)
class Fit:
    """A polynomial in x (or in x², if `even`) for `f` on low..high, of relative error against `weight`."""

    name: str
    f: Function
    low: D
    high: D
    degree: int
    weight: Function  # the error is (f - P)·weight
    double: bool


def _solve(rows: list[list[D]], right: list[D]) -> list[D]:
    """Gaussian elimination with pivoting."""
    n = len(rows)
    a = [[*row, b] for row, b in zip(rows, right, strict=True)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(a[r][i]))
        a[i], a[pivot] = a[pivot], a[i]
        for r in range(i + 1, n):
            factor = a[r][i] / a[i][i]
            if factor:
                a[r] = [u - factor * v for u, v in zip(a[r], a[i], strict=True)]
    out = [D(0)] * n
    for i in reversed(range(n)):
        out[i] = (a[i][n] - sum((a[i][k] * out[k] for k in range(i + 1, n)), D(0))) / a[i][i]
    return out


def _value(coefficients: Sequence[D], x: D) -> D:
    out = D(0)
    for c in reversed(coefficients):
        out = out * x + c
    return out


def _chebyshev(low: D, high: D, n: int) -> list[D]:
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle - half * cos(PI * i / (n - 1)) for i in range(n)]


def remez(fit: Fit) -> tuple[list[D], D]:
    """Coefficients from the constant on, and the largest weighted error."""
    n = fit.degree + 2
    grid = _chebyshev(fit.low, fit.high, 24 * n)
    exact = [(x, fit.f(x), fit.weight(x)) for x in grid]
    points = [exact[round(i * (len(grid) - 1) / (n - 1))] for i in range(n)]
    for _ in range(12):
        rows = [[x**k for k in range(n - 1)] + [(-1) ** i / w] for i, (x, _, w) in enumerate(points)]
        *coefficients, level = _solve(rows, [f for _, f, _ in points])
        errors = [(f - _value(coefficients, x)) * w for x, f, w in exact]
        peaks = _alternating(errors, n)
        points = [exact[i] for i in peaks]
        worst = max(map(abs, errors))
        if worst <= abs(level) * D("1.01"):
            break
    return coefficients, worst


def _alternating(errors: Sequence[D], n: int) -> list[int]:
    """The peaks of the error, one per run of equal sign; the n neighbouring ones with the highest ends."""
    peaks: list[int] = []
    for i, e in enumerate(errors):
        if peaks and (e > 0) == (errors[peaks[-1]] > 0):
            if abs(e) > abs(errors[peaks[-1]]):
                peaks[-1] = i
        else:
            peaks.append(i)
    while len(peaks) > n:
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    return peaks


# -- the kernels -------------------------------------------------------------------------------------------


def _exp_rest(r: D) -> D:
    """(exp(r) - 1 - r)/r²"""
    return _series(D(1) / 2, lambda n, term: term * r / (n + 2))


def _log_rest(f: D) -> D:
    """(log(1+f) - f + f²/2)/f³"""
    if abs(f) < D("1e-6"):
        return D(1) / 3 - f / 4 + f * f / 5 - f**3 / 6 + f**4 / 7
    return ((1 + f).ln() - f + f * f / 2) / f**3


def _log_ratio(z: D) -> D:
    """(log((1+s)/(1-s)) - 2s)/s³ for z = s²"""
    return _series_in(z, lambda n: D(2) / (2 * n + 3))


def _series_in(z: D, coefficient: Callable[[int], D]) -> D:
    total, power, n = D(0), D(1), 0
    while power > D(10) ** -58 or n == 0:
        total, power, n = total + coefficient(n) * power, power * z, n + 1
    return total


def _rest(f: Function, first: Callable[[D], D], power: int) -> Function:
    """(f(x) - first(x))/x^power as a function of z = x²."""

    def rest(z: D) -> D:
        x = max(z, D(10) ** -16).sqrt()
        return D((f(x) - first(x)) / x**power)

    return rest


_sin_rest = _rest(sin, lambda x: x, 3)
_cos_rest = _rest(cos, lambda x: 1 - x * x / 2, 4)
_atan_rest = _rest(atan, lambda x: x, 3)
_asin_rest = _rest(asin, lambda x: x, 3)


def _erf_ratio(z: D) -> D:
    """erf(x)/x - 1 for z = x²"""
    return erf(z.sqrt()) / z.sqrt() - 1


def _erfcx_at(centre: D) -> Function:
    """(1 + 2x)·exp(x²)·erfc(x) as a function of t = (x - c)/(x + c)."""

    def function(t: D) -> D:
        x = centre * (1 + t) / (1 - t)
        return (1 + 2 * x) * erfcx(x)

    return function


def _log_erfc(x: D) -> D:
    """An error in it is an error of erf, times erfc."""
    return erfcx(x).ln() - x * x


def _log_erfc_ratio(x: D) -> D:
    """log(erfc(x))/x"""
    return _log_erfc(x) / x


def _relative(f: Function) -> Function:
    return lambda x: 1 / f(x)


def _rests(f: Function, power: int) -> Function:
    """Weight of an error in the rest: how much of f it is."""
    return lambda z: D(z.sqrt() ** power / f(z.sqrt()))


def _tail(c: D, x: D) -> D:
    return (x - c) / (x + c)


def kernels() -> list[Fit]:
    half = LN2 / 2 * D("1.01")
    low, high = 1 / D(2).sqrt() - 1, D(2).sqrt() - 1
    ratio = (high / (2 + high)) ** 2 * D("1.001")
    quarter = (D("0.80")) ** 2
    eighth = (D(2).sqrt() - 1) ** 2 * D("1.001")
    two = D(2)
    decay = _erfcx_at(two)

    def exp_weight(r: D) -> D:
        return r * r / r.exp()

    def log_weight(f: D) -> D:
        return f**3 / (1 + f).ln() if abs(f) > D("1e-9") else f * f

    def log_ratio_weight(z: D) -> D:
        return z / (2 + z * _log_ratio(z))

    def erf_weight(z: D) -> D:
        return 1 / (1 + _erf_ratio(z))

    return [
        Fit("EXP", _exp_rest, -half, half, 4, exp_weight, False),
        Fit("EXP", _exp_rest, -half, half, 9, exp_weight, True),
        Fit("LOG", _log_rest, low, high, 7, log_weight, False),
        Fit("LOG", _log_ratio, ratio / 999, ratio, 6, log_ratio_weight, True),
        Fit("SIN", _sin_rest, quarter / 999, quarter, 2, _rests(sin, 3), False),
        Fit("SIN", _sin_rest, quarter / 999, quarter, 5, _rests(sin, 3), True),
        Fit("COS", _cos_rest, quarter / 999, quarter, 2, _rests(cos, 4), False),
        Fit("COS", _cos_rest, quarter / 999, quarter, 5, _rests(cos, 4), True),
        Fit("ATAN", _atan_rest, D(1) / 999, D(1), 8, _rests(atan, 3), False),
        Fit("ATAN", _atan_rest, eighth / 999, eighth, 10, _rests(atan, 3), True),
        Fit("ASIN", _asin_rest, D(1) / 999, D("0.25"), 4, _rests(asin, 3), False),
        Fit("ASIN", _asin_rest, D(1) / 999, D("0.25"), 12, _rests(asin, 3), True),
        Fit("ERF", _erf_ratio, D(1) / 9999, D(1), 6, erf_weight, False),
        Fit("ERF", _erf_ratio, D(1) / 9999, D(1), 12, erf_weight, True),
        Fit("ERF_TAIL", _log_erfc, D("0.99"), D(4), 6, lambda x: _log_erfc(x).exp(), False),
        Fit("LOG_ERFC", _log_erfc_ratio, D(1) / 9999, D(4), 7, lambda x: x * _log_erfc(x).exp(), False),
        Fit("ERFC", decay, _tail(two, D("0.5")), _tail(two, D(11)), 10, _relative(decay), False),
        Fit("ERFC", decay, _tail(two, D("0.5")), _tail(two, D(28)), 22, _relative(decay), True),
    ]  # fmt: skip


@dataclass(frozen=True)
class Parts:
    """A number as a sum of floats or doubles, each of so many bits."""

    name: str
    value: D
    bits: tuple[int, ...]


def numbers() -> list[Parts]:
    # Where a product with an exponent or a count has to be exact, the first parts are short.
    return [
        Parts("LN_2_32", LN2, (15, 24)),
        Parts("LN_2_64", LN2, (41, 53)),
        Parts("LOG2_E_32", 1 / LN2, (24, 24)),
        Parts("LOG2_E_64", 1 / LN2, (53, 53)),
        Parts("LOG10_E_32", 1 / D(10).ln(), (24, 24)),
        Parts("LOG10_E_64", 1 / D(10).ln(), (53, 53)),
        Parts("LOG10_2_32", LN2 / D(10).ln(), (15, 24)),
        Parts("LOG10_2_64", LN2 / D(10).ln(), (41, 53)),
        Parts("TWO_THIRDS_64", D(2) / 3, (53, 53)),
        Parts("HALF_PI_32", PI / 2, (24, 24, 24)),
        Parts("HALF_PI_64", PI / 2, (33, 33, 53)),
        Parts("HALF_PI_WHOLE_64", PI / 2, (53, 53)),
    ]


def split(p: Parts) -> list[float]:
    out, left = [], p.value
    for bits in p.bits:
        exponent = int((abs(left).ln() / LN2).to_integral_value(ROUND_FLOOR))
        unit = D(2) ** (exponent - bits + 1)
        part = (left / unit).to_integral_value() * unit
        out.append(float(part))
        left -= part
    return out


_HEADER = '''"""Numbers of the vectorised functions: coefficients of polynomials from the constant on, and
constants in parts that add up to them.

Written by tools/minimax.py, which says what each approximates; not edited by hand. The comment is the largest
relative error of the function that a polynomial is part of, before rounding.
"""

from __future__ import annotations
'''


def main() -> None:
    print(_HEADER)
    for fit in kernels():
        coefficients, worst = remez(fit)
        bound = float(abs(worst).ln() / LN2)
        words = [float(c) if fit.double else float(np.float32(float(c))) for c in coefficients]
        name = f"{fit.name}_{64 if fit.double else 32}"
        print(f"# 2^{bound:.1f}")
        print(f"{name} = (")
        for word in words:
            print(f"    {word!r},")
        print(")")
    for p in numbers():
        print(f"{p.name} = ({', '.join(map(repr, split(p)))})")
    print(f"# The first {_BITS} bits of 2/π after the point, in words of 64.")
    print("TWO_OVER_PI = (")
    for i in reversed(range(_BITS // 64)):
        print(f"    0x{(_two_over_pi() >> 64 * i & (1 << 64) - 1):016X},")
    print(")")


def _two_over_pi() -> int:
    """Machin's formula in integers, with bits to spare."""
    one = 1 << (_BITS + 64)

    def arctan_of_inverse(k: int) -> int:
        total, power, n = 0, one // k, 1
        while power:
            total += power // n if n % 4 == 1 else -(power // n)
            power, n = power // (k * k), n + 2
        return total

    pi = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    return (2 * one << _BITS) // pi


if __name__ == "__main__":
    main()
