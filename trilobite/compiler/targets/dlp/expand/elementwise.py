"""Functions of real numbers that the vector unit lacks, in those it has.

Floats of up to 32 bits are computed in float64, where plain formulas lose nothing that shows; float64 itself
goes through forms without cancellation. Complex numbers are taken apart elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, nan, pi
from typing import Any

import numpy as np

from trilobite.base.dtypes import (
    bits,
    bool_,
    float32,
    float64,
    int64,
    is_complex,
    is_float,
    is_integer,
    is_unsigned,
)
from trilobite.compiler.targets.dlp.expand import terms as t
from trilobite.compiler.targets.dlp.expand.terms import add, div, mul, select, sub
from trilobite.ir.graph import Equation
from trilobite.ir.primitive import table

Body = Callable[..., Any] | None
LN2, HALF_PI = log(2.0), pi / 2
ATAN_TERMS = tuple((-1.0) ** n / (2 * n + 1) for n in range(10, -1, -1))


def one(name: str, x: Any) -> Any:
    return table[name](x)


def horner(terms: Any, x: Any) -> Any:
    total = t.like(x, terms[0])
    for term in terms[1:]:
        total = add(mul(total, x), term)
    return total


def wide(function: Callable[..., Any]) -> Callable[[Equation], Body]:
    """A function on float64, for every float."""

    def rule(e: Equation) -> Body:
        dtype = e.inputs[0].type.dtype
        if not is_float(dtype):
            return None
        return lambda *xs: t.cast(function(*(t.cast(x, float64) for x in xs)), e.outputs[0].type.dtype)

    return rule


# -- exponentials --------------------------------------------------------------------------------------------


def expm1(x: Any) -> Any:
    """(u - 1) x / log u with u = exp x: what rounding does to u cancels (Kahan)."""
    u = one("exp", x)
    ratio = mul(sub(u, 1.0), div(x, one("log", u)))
    found = select(t.compare("eq", u, 1.0), x, ratio)
    found = select(t.compare("gt", x, 40.0), u, found)
    return select(t.compare("lt", x, -40.0), -1.0, found)


def log1p(x: Any) -> Any:
    u = add(x, 1.0)
    ratio = mul(one("log", u), div(x, sub(u, 1.0)))
    found = select(t.compare("eq", u, 1.0), x, ratio)
    return select(t.compare("eq", x, inf), inf, select(t.compare("eq", x, -1.0), -inf, found))


def _log10(x: Any) -> Any:
    return div(one("log", x), log(10.0))


def _logaddexp(x: Any, y: Any) -> Any:
    largest = t.maximum(x, y)
    distance = one("neg", one("abs", sub(x, y)))
    found = add(largest, log1p(one("exp", distance)))
    return select(t.compare("eq", x, y), add(x, LN2), found)


def _hypot(x: Any, y: Any) -> Any:
    a, b = one("abs", x), one("abs", y)
    large, small = t.maximum(a, b), t.minimum(a, b)
    ratio = div(small, large)
    found = mul(large, one("sqrt", add(mul(ratio, ratio), 1.0)))
    found = select(t.compare("eq", large, 0.0), 0.0, found)
    endless = table["or"](t.compare("eq", a, inf), t.compare("eq", b, inf))
    return select(endless, inf, found)


def _sinh(x: Any) -> Any:
    a = one("abs", x)
    u = expm1(a)
    small = mul(add(u, div(u, add(u, 1.0))), 0.5)
    half = one("exp", mul(a, 0.5))
    found = select(t.compare("gt", a, 20.0), mul(mul(half, 0.5), half), small)
    return table["copysign"](found, x)


def _cosh(x: Any) -> Any:
    a = one("abs", x)
    u = one("exp", a)
    half = one("exp", mul(a, 0.5))
    return select(t.compare("gt", a, 20.0), mul(mul(half, 0.5), half), mul(add(u, div(1.0, u)), 0.5))


def _asinh(x: Any) -> Any:
    a = one("abs", x)
    root = one("sqrt", add(mul(a, a), 1.0))
    small = log1p(add(a, div(mul(a, a), add(root, 1.0))))
    found = select(t.compare("gt", a, 1e8), add(one("log", a), LN2), small)
    return table["copysign"](found, x)


def _acosh(x: Any) -> Any:
    above = sub(x, 1.0)
    small = log1p(add(above, one("sqrt", mul(above, add(above, 2.0)))))
    return select(t.compare("gt", x, 1e8), add(one("log", x), LN2), small)


def _atanh(x: Any) -> Any:
    a = one("abs", x)
    found = mul(log1p(div(mul(a, 2.0), sub(1.0, a))), 0.5)
    return table["copysign"](found, x)


# -- angles --------------------------------------------------------------------------------------------------


def _atan_small(x: Any) -> Any:
    """Of 0 to 1: halved three times, then a short series."""
    for _ in range(3):
        x = div(x, add(one("sqrt", add(mul(x, x), 1.0)), 1.0))
    return mul(mul(x, horner(ATAN_TERMS, mul(x, x))), 8.0)


def atan(x: Any) -> Any:
    a = one("abs", x)
    large = t.compare("gt", a, 1.0)
    found = _atan_small(select(large, div(1.0, a), a))
    return table["copysign"](select(large, sub(HALF_PI, found), found), x)


def _asin(x: Any) -> Any:
    root = one("sqrt", mul(sub(1.0, x), add(x, 1.0)))
    return mul(atan(div(x, add(root, 1.0))), 2.0)


def _acos(x: Any) -> Any:
    found = mul(atan(one("sqrt", div(sub(1.0, x), add(x, 1.0)))), 2.0)
    return select(t.compare("gt", one("abs", x), 1.0), nan, found)


def _atan2(y: Any, x: Any) -> Any:
    a, b = one("abs", x), one("abs", y)
    large, small = t.maximum(a, b), t.minimum(a, b)
    ratio = div(small, large)
    ratio = select(t.compare("eq", large, 0.0), 0.0, select(t.compare("eq", small, inf), 1.0, ratio))
    found = _atan_small(ratio)
    found = select(t.compare("gt", b, a), sub(HALF_PI, found), found)
    found = select(one("signbit", x), sub(pi, found), found)
    unordered = table["or"](one("is_nan", x), one("is_nan", y))
    return select(unordered, nan, table["copysign"](found, y))


# -- powers --------------------------------------------------------------------------------------------------


def _pow(x: Any, y: Any) -> Any:
    found = one("exp", mul(y, one("log", one("abs", x))))
    whole = t.compare("eq", one("floor", y), y)
    half = mul(y, 0.5)
    odd = table["and"](whole, t.compare("ne", one("floor", half), half))
    found = select(table["and"](odd, one("signbit", x)), one("neg", found), found)
    strange = table["and"](t.compare("lt", x, 0.0), table["and"](table["not"](whole), one("is_finite", x)))
    found = select(strange, nan, found)
    unit = table["and"](t.compare("eq", one("abs", x), 1.0), one("is_inf", y))
    sure = table["or"](table["or"](t.compare("eq", y, 0.0), t.compare("eq", x, 1.0)), unit)
    return select(sure, 1.0, found)


def _integer_pow(e: Equation) -> Body:
    """By squaring, one bit of the exponent at a time; a negative one leaves only powers of 1 and -1."""
    dtype = e.inputs[0].type.dtype

    def body(x: Any, y: Any) -> Any:
        result, base, left = t.like(x, 1), x, y
        for _ in range(bits(dtype)):
            is_odd = t.compare("ne", t.bitwise("and", left, 1), 0)
            result = select(is_odd, mul(result, base), result)
            base, left = mul(base, base), t.bitwise("shift_right", left, 1)
        if is_unsigned(dtype):
            return result
        is_odd = t.compare("ne", t.bitwise("and", y, 1), 0)
        minus = select(t.compare("eq", x, -1), select(is_odd, t.like(x, -1), t.like(x, 1)), t.like(x, 0))
        unit = select(t.compare("eq", x, 1), t.like(x, 1), minus)
        return select(t.compare("lt", y, 0), unit, result)

    return body


def _power(e: Equation) -> Body:
    dtype = e.inputs[0].type.dtype
    if bits(dtype) == 4 and is_integer(dtype):
        return None
    return _integer_pow(e) if is_integer(dtype) else wide(_pow)(e)


# -- signs and neighbours ------------------------------------------------------------------------------------


def _words(x: Any) -> tuple[Any, Any, int]:
    dtype = np.dtype(f"int{8 * x.dtype.itemsize}")
    return t.bitcast(x, dtype), dtype, int(np.iinfo(dtype).min)


def _copysign(e: Equation) -> Body:
    if e.inputs[0].type.dtype.itemsize == 1:
        return None

    def body(x: Any, y: Any) -> Any:
        a, _, sign = _words(x)
        b, _, _ = _words(y)
        size, signs = t.bitwise("and", a, ~sign), t.bitwise("and", b, sign)
        return t.bitcast(t.bitwise("or", size, signs), x.dtype)

    return body


def _nextafter(e: Equation) -> Body:
    if e.inputs[0].type.dtype.itemsize == 1:
        return None

    def body(x: Any, y: Any) -> Any:
        a, _, sign = _words(x)
        b, _, _ = _words(y)
        grows = t.compare("eq", t.compare("gt", y, x), t.compare("gt", x, 0.0))
        step = select(grows, t.like(a, 1), t.like(a, -1))
        near = t.bitcast(add(a, step), x.dtype)
        least = t.bitcast(t.bitwise("or", t.bitwise("and", b, sign), 1), x.dtype)
        found = select(t.compare("eq", x, 0.0), least, near)
        found = select(t.compare("eq", x, y), y, found)
        unordered = table["or"](one("is_nan", x), one("is_nan", y))
        return select(unordered, nan, found)

    return body


# -- quotients -----------------------------------------------------------------------------------------------


def _small(x: Any) -> Any:
    """A float64 with 24 bits: products of two such are exact."""
    return t.cast(t.cast(x, float32), float64)


def _fmod(a: Any, b: Any) -> Any:
    """What |a| leaves of |b|, exactly: multiples with few bits are taken away until none is left."""
    a, b = one("abs", a), one("abs", b)
    normal = table["and"](one("is_finite", a), t.compare("gt", b, 0.0))
    normal = table["and"](normal, one("is_finite", b))
    start, by = select(normal, a, 0.0), select(normal, b, 1.0)
    high = _small(by)

    def test(r: Any, d: Any, h: Any) -> list[Any]:
        left = t.cast(t.compare("ge", one("abs", r), d), np.dtype("int32"))
        some = t.reduce("max", t.reshape(left, t.size(left.shape)), (0,))
        return [t.compare("gt", some, 0)]

    def step(r: Any, d: Any, h: Any) -> list[Any]:
        q = _small(one("trunc", div(r, d)))
        rest = sub(sub(r, mul(q, h)), mul(q, sub(d, h)))
        return [rest, d, h]

    rest = start
    if t.size(start.shape):
        from trilobite.ir.transforms.record import record_graph
        from trilobite.ir.types import type_of

        types = [type_of(v) for v in (start, by, high)]
        graphs = {"test": record_graph(test, types, "left"), "body": record_graph(step, types, "rest")}
        rest = table["while"](start, by, high, **graphs, consts=(0, 0))[0]
    rest = select(t.compare("lt", rest, 0.0), add(rest, by), rest)
    rest = select(t.compare("eq", b, inf), a, rest)
    wrong = table["or"](table["not"](one("is_finite", a)), t.compare("eq", b, 0.0))
    wrong = table["or"](wrong, one("is_nan", b))
    return select(wrong, nan, rest)


def _quotient(remainder: bool) -> Callable[[Equation], Body]:
    def rule(e: Equation) -> Body:
        dtype = e.inputs[0].type.dtype
        if not is_float(dtype):
            return None
        work = float64 if dtype == float64 else float32

        def body(x: Any, y: Any) -> Any:
            a, b = t.cast(x, work), t.cast(y, work)
            rest = table["copysign"](t.cast(_fmod(t.cast(a, float64), t.cast(b, float64)), work), a)
            zero = t.compare("eq", rest, 0.0)
            unlike = t.compare("ne", t.compare("lt", b, 0.0), t.compare("lt", rest, 0.0))
            unlike = table["and"](unlike, table["not"](table["or"](zero, one("is_nan", rest))))
            if remainder:
                moved = select(unlike, add(rest, b), rest)
                return t.cast(select(zero, table["copysign"](t.like(a, 0.0), b), moved), dtype)
            whole = div(sub(a, rest), b)
            whole = select(unlike, sub(whole, 1.0), whole)
            floor = one("floor", whole)
            floor = select(t.compare("gt", sub(whole, floor), 0.5), add(floor, 1.0), floor)
            floor = select(t.compare("eq", whole, 0.0), table["copysign"](t.like(a, 0.0), div(a, b)), floor)
            return t.cast(select(t.compare("eq", b, 0.0), div(a, b), floor), dtype)

        return body

    return rule


# -- what integers are ---------------------------------------------------------------------------------------


def _of_integers(value: bool) -> Callable[[Equation], Body]:
    def rule(e: Equation) -> Body:
        dtype = e.inputs[0].type.dtype
        if is_float(dtype) or is_complex(dtype):
            return None
        return lambda x: t.full(x.shape, bool_, value)

    return rule


def _signbit(e: Equation) -> Body:
    dtype = e.inputs[0].type.dtype
    if is_unsigned(dtype) or dtype == bool_:
        return lambda x: t.full(x.shape, bool_, False)
    if is_integer(dtype):
        return lambda x: t.compare("lt", t.cast(x, int64), 0)
    return None


RULES = {
    "expm1": wide(expm1), "log1p": wide(log1p), "log10": wide(_log10), "logaddexp": wide(_logaddexp),
    "hypot": wide(_hypot), "sinh": wide(_sinh), "cosh": wide(_cosh), "asinh": wide(_asinh),
    "acosh": wide(_acosh), "atanh": wide(_atanh), "atan": wide(atan), "asin": wide(_asin),
    "acos": wide(_acos), "atan2": wide(_atan2),
    "tan": wide(lambda x: div(one("sin", x), one("cos", x))),
    "pow": _power, "copysign": _copysign, "nextafter": _nextafter,
    "floor_div": _quotient(False), "rem": _quotient(True),
    "is_nan": _of_integers(False), "is_inf": _of_integers(False), "is_finite": _of_integers(True),
    "signbit": _signbit,
}  # fmt: skip
