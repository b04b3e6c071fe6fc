"""The error function's complement and inverse, the gamma family: on float64, in exponentials and series."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import erfc, exp, factorial, inf, log, nan, pi, sqrt
from typing import Any

import numpy as np

from trilobite.compiler.targets.dlp.expand import terms as t
from trilobite.compiler.targets.dlp.expand.elementwise import horner, one, wide
from trilobite.compiler.targets.dlp.expand.terms import add, div, mul, select, sub
from trilobite.ir.graph import Equation
from trilobite.ir.primitive import table

TERMS = 34  # of the expansion of exp(x^2) erfc(x) in 2 / (2 + x)
# Bernoulli numbers B2, B4, ...
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)
SHIFT = 10  # the series of the gamma family are taken from here on


def _scaled_erfc(x: float) -> float:
    """exp(x^2) erfc(x)"""
    if x < 3.0:
        return exp(x * x) * erfc(x)
    tail = 0.0
    for k in range(120, 0, -1):  # continued fraction
        tail = (k / 2) / (x + tail)
    return 1.0 / (sqrt(pi) * (x + tail))


@lru_cache(maxsize=1)
def erfc_terms() -> tuple[float, ...]:
    """Chebyshev coefficients on 0 < t <= 1."""
    nodes = np.cos(pi * (np.arange(4 * TERMS) + 0.5) / (4 * TERMS))
    values = [_scaled_erfc(2.0 / max((1 + node) / 2, 1e-300) - 2.0) for node in nodes]
    fitted = np.polynomial.chebyshev.chebfit(nodes, np.array(values), TERMS)
    return tuple(float(c) for c in fitted)


def _chebyshev(terms: tuple[float, ...], x: Any) -> Any:
    """Clenshaw's recurrence."""
    twice = mul(x, 2.0)
    before, last = t.like(x, 0.0), t.like(x, 0.0)
    for term in reversed(terms[1:]):
        before, last = last, add(sub(mul(twice, last), before), term)
    return add(sub(mul(x, last), before), terms[0])


def erfc_of(x: Any) -> Any:
    a = one("abs", x)
    place = sub(mul(div(2.0, add(a, 2.0)), 2.0), 1.0)
    tail = mul(one("exp", one("neg", mul(a, a))), _chebyshev(erfc_terms(), place))
    tail = select(t.compare("eq", a, inf), 0.0, tail)
    near = sub(1.0, one("erf", x))
    found = select(t.compare("lt", x, 0.0), sub(2.0, tail), tail)
    return select(t.compare("lt", a, 0.5), near, found)


def _erf_inv(x: Any) -> Any:
    """A first guess (Winitzki's), then Newton's steps on erfc, which keeps its digits near 1."""
    a = one("abs", x)
    rest = sub(1.0, a)
    near = one("log", mul(rest, add(a, 1.0)))
    middle = add(mul(near, 0.5), 2.0 / (pi * 0.147))
    guess = one("sqrt", sub(one("sqrt", sub(mul(middle, middle), div(near, 0.147))), middle))
    y = select(t.compare("lt", a, 1e-8), mul(a, sqrt(pi) / 2), guess)
    for _ in range(4):
        slope = mul(one("exp", one("neg", mul(y, y))), 2.0 / sqrt(pi))
        small = sub(one("erf", y), a)
        large = sub(rest, erfc_of(y))
        error = div(select(t.compare("lt", a, 0.5), small, large), slope)
        error = div(error, add(mul(mul(y, error), 1.0), 1.0))  # Halley
        y = sub(y, error)
    found = select(t.compare("eq", a, 1.0), inf, y)
    found = select(t.compare("le", a, 1.0), found, nan)
    return table["copysign"](found, x)


# -- gamma ---------------------------------------------------------------------------------------------------


def _log_gamma_large(x: Any) -> Any:
    """Stirling's series."""
    inverse = div(1.0, x)
    terms = [b / ((2 * k + 2) * (2 * k + 1)) for k, b in enumerate(BERNOULLI)]
    series = mul(horner(terms[::-1], mul(inverse, inverse)), inverse)
    head = sub(mul(sub(x, 0.5), one("log", x)), x)
    return add(add(head, 0.5 * log(2 * pi)), series)


def _lgamma_positive(x: Any) -> Any:
    product, shifted = t.like(x, 1.0), x
    for _ in range(SHIFT):
        below = t.compare("lt", shifted, float(SHIFT))
        product = select(below, mul(product, shifted), product)
        shifted = select(below, add(shifted, 1.0), shifted)
    return sub(_log_gamma_large(shifted), one("log", product))


def _zeta_less_one(n: int) -> float:
    """The sum of k^-n from k = 2 on."""
    last = 1024
    tail = last ** (1 - n) / (n - 1) - last**-n / 2 + n * last ** (-n - 1) / 12
    return float(sum(k**-n for k in range(last, 1, -1)) + tail)


EULER = 0.5772156649015329
NEAR = (1.0 - EULER, *((-1.0) ** n * _zeta_less_one(n) / n for n in range(2, 28)))


def _lgamma_near(x: Any) -> Any:
    """Of 0.5 to 2.5, by the series around its zeros 1 and 2."""
    first = t.compare("lt", x, 1.5)
    z = sub(x, select(first, t.like(x, 1.0), t.like(x, 2.0)))
    series = mul(horner(NEAR[::-1], z), z)
    return select(first, sub(series, table["log1p"](z)), series)


def _sine_of_pi(x: Any) -> Any:
    """sin(pi x), exact in the argument."""
    part = sub(x, mul(one("round", mul(x, 0.5)), 2.0))
    return one("sin", mul(part, pi))


def _lgamma(x: Any) -> Any:
    negative = t.compare("lt", x, 0.5)
    y = select(negative, sub(1.0, x), x)
    found = select(t.compare("lt", y, 2.5), _lgamma_near(y), _lgamma_positive(y))
    mirror = sub(log(pi), one("log", one("abs", _sine_of_pi(x))))
    found = select(negative, sub(mirror, found), found)
    whole = table["and"](t.compare("le", x, 0.0), t.compare("eq", one("floor", x), x))
    return select(table["or"](whole, one("is_inf", x)), inf, found)


def _digamma_large(x: Any) -> Any:
    inverse = div(1.0, x)
    square = mul(inverse, inverse)
    terms = [b / (2 * k + 2) for k, b in enumerate(BERNOULLI)]
    series = mul(horner(terms[::-1], square), square)
    return sub(sub(one("log", x), mul(inverse, 0.5)), series)


def _digamma(x: Any) -> Any:
    negative = t.compare("lt", x, 0.5)
    y = select(negative, sub(1.0, x), x)
    total, shifted = t.like(x, 0.0), y
    for _ in range(SHIFT):
        below = t.compare("lt", shifted, float(SHIFT))
        total = select(below, add(total, div(1.0, shifted)), total)
        shifted = select(below, add(shifted, 1.0), shifted)
    found = sub(_digamma_large(shifted), total)
    angle = sub(x, one("round", x))
    cotangent = div(one("cos", mul(angle, pi)), one("sin", mul(angle, pi)))
    found = select(negative, sub(found, mul(cotangent, pi)), found)
    pole = table["and"](t.compare("lt", x, 0.0), t.compare("eq", one("floor", x), x))
    found = select(pole, nan, found)
    at_zero = table["copysign"](t.like(x, -inf), one("neg", x))
    return select(t.compare("eq", x, 0.0), at_zero, found)


def _polygamma(e: Equation) -> Any:
    order = e.attributes["order"]
    if order == 0:
        return lambda x: one("digamma", x)

    def body(x: Any) -> Any:
        n, sign = order + 1, (-1.0) ** (order + 1)
        total, shifted = t.like(x, 0.0), x
        for _ in range(2 * SHIFT):
            total = add(total, div(1.0, _whole_power(shifted, n)))
            shifted = add(shifted, 1.0)
        inverse = div(1.0, shifted)
        tail = mul(_whole_power(inverse, order), add(mul(inverse, 0.5), 1.0 / order))
        power = _whole_power(inverse, n + 1)
        for k, b in enumerate(BERNOULLI):
            scale = b * factorial(order + 2 * k + 1) / (factorial(2 * k + 2) * factorial(order))
            tail = add(tail, mul(power, scale))
            power = mul(power, mul(inverse, inverse))
        return mul(add(total, tail), sign * factorial(order))

    return wide(body)(e)


def _whole_power(x: Any, n: int) -> Any:
    found = x
    for _ in range(n - 1):
        found = mul(found, x)
    return found


RULES: dict[str, Callable[[Equation], Any]] = {
    "erfc": wide(erfc_of),
    "erf_inv": wide(_erf_inv),
    "lgamma": wide(_lgamma),
    "digamma": wide(_digamma),
    "polygamma": _polygamma,
}
