"""The algebra of sums, products, powers and signs.

What floats lose: x + 0.0 is not x (-0.0 becomes 0.0), x·0 and x - x are not 0 (NaN, infinity), sums are not
associative. So each rule says for which dtypes it holds, and those that round otherwise than the meaning does
are marked exact=False. Products of matrices are no business of this table: AB is not BA.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from trilobite.base.dtypes import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    SIGNED,
    UNSIGNED,
    bfloat16,
    bool_,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    is_integer,
)
from trilobite.compiler.graph.passes.rules.pointwise import is_number
from trilobite.compiler.graph.rewrite import Element, Match, Rule, element_of, python_number
from trilobite.ir.graph import Var

INT = INTEGERS
FLOAT = FLOATS - {float8_e8m0fnu}  # the one format without sign and zero has no algebra worth a rule
REAL = INT | FLOAT
NUMBER = REAL | COMPLEX
WIDE = frozenset({float32, float64})
HALF = frozenset({float16, bfloat16})


def _x_varies(m: Match) -> bool:
    return not is_number(m, m["x"])


def _x_is_real(m: Match) -> bool:
    return m["x"].type.dtype not in COMPLEX


def _never_negative_zero(m: Match) -> bool:
    """Is x a value that is -0.0 nowhere?"""
    e = m.maker(m["x"])
    if e is None:
        return False
    name = e.primitive.name
    if name == "mul":
        return e.inputs[0] is e.inputs[1]
    return name in ("exp", "exp2", "abs", "cosh") or (name == "cast" and is_integer(e.inputs[0].type.dtype))


def _differs_from_zero(m: Match) -> bool:
    """Of 0.0 and -0.0, maximum gives the second: with any other number operands may be exchanged."""
    numbers = [m.number(m[letter]) for letter in ("c", "d") if letter in m.found]
    return is_integer(m.type.dtype) or m.type.dtype == bool_ or all(bool(n != 0) for n in numbers)


def _reciprocal(m: Match) -> Var | None:
    """x / 2^k -> x · 2^-k, where 2^-k is a normal number: both round alike."""
    c = m.number(m["c"])
    assert c is not None
    value = python_number(c)
    if not math.isfinite(value) or abs(math.frexp(value)[0]) != 0.5:
        return None
    inverse = element_of(1.0 / value, c.dtype)
    if inverse is None or not _is_normal(inverse):
        return None
    return m.make("mul", m["x"], m.full(inverse))


_formats: Any = ml_dtypes  # its functions carry no types


def _is_normal(c: Element) -> bool:
    return bool(abs(float(c)) >= float(_formats.finfo(c.dtype).smallest_normal))


IDENTITIES = (
    Rule("mul(x, 1)", "x", REAL),
    Rule("div(x, 1)", "x", FLOAT),
    Rule("add(x, -0.0)", "x", REAL),
    Rule("add(x, 0)", "x", FLOAT, when=_never_negative_zero),
    Rule("sub(x, 0)", "x", REAL),
    Rule("mul(x, 0)", "0", INT),
    Rule("sub(x, x)", "0", INT),
    Rule("pow(x, 1)", "x", REAL),
    Rule("pow(x, 0)", "1", REAL),
    Rule("maximum(x, x)", "x"),
    Rule("minimum(x, x)", "x"),
    Rule("maximum(x, lowest)", "x"),
    Rule("minimum(x, highest)", "x"),
    Rule("maximum(x, highest)", "highest", INT),
    Rule("minimum(x, lowest)", "lowest", INT),
    Rule("maximum(maximum(x, y), y)", "maximum(x, y)"),
    Rule("minimum(minimum(x, y), y)", "minimum(x, y)"),
    Rule("floor_div(x, 1)", "x", INT),
    Rule("rem(x, 1)", "0", INT),
)

INVERSES = (
    Rule("neg(neg(x))", "x", NUMBER),
    Rule("conj(conj(x))", "x"),
    Rule("real(complex(x, y))", "x"),
    Rule("imag(complex(x, y))", "y"),
    Rule("sub(add(x, y), y)", "x", INT),
    Rule("add(sub(x, y), y)", "x", INT),
)

SIGNS = (
    Rule("mul(x, -1)", "neg(x)", REAL),
    Rule("div(x, -1)", "neg(x)", FLOAT),
    Rule("sub(0, x)", "neg(x)", INT),
    Rule("sub(-0.0, x)", "neg(x)", FLOAT),
    Rule("add(x, neg(y))", "sub(x, y)", NUMBER),
    Rule("add(neg(x), y)", "sub(y, x)", NUMBER),
    Rule("sub(x, neg(y))", "add(x, y)", NUMBER),
    Rule("neg(sub(x, y))", "sub(y, x)", INT),
    Rule("mul(neg(x), neg(y))", "mul(x, y)", REAL),
    Rule("div(neg(x), neg(y))", "div(x, y)", FLOAT),
    Rule("mul(neg(x), c)", "mul(x, neg(c))", REAL),
    Rule("div(neg(x), c)", "div(x, neg(c))", FLOAT),
    Rule("abs(neg(x))", "abs(x)", SIGNED | FLOAT),
    Rule("abs(abs(x))", "abs(x)", SIGNED | FLOAT),
    Rule("abs(x)", "x", UNSIGNED),
    Rule("mul(abs(x), abs(x))", "mul(x, x)", SIGNED | FLOAT, when=_x_is_real),
    Rule("sign(sign(x))", "sign(x)", REAL),
)

# Numbers stand on the right, and differences of numbers are sums: fewer forms for the other rules to know.
CANONICAL = (
    *(
        Rule(f"{op}(c, x)", f"{op}(x, c)", when=_x_varies)
        for op in ("add", "mul", "and", "or", "xor", "eq", "ne")
    ),
    *(
        Rule(f"{op}(c, x)", f"{op}(x, c)", when=lambda m: _x_varies(m) and _differs_from_zero(m))
        for op in ("maximum", "minimum")
    ),
    Rule("lt(c, x)", "gt(x, c)", when=_x_varies),
    Rule("gt(c, x)", "lt(x, c)", when=_x_varies),
    Rule("le(c, x)", "ge(x, c)", when=_x_varies),
    Rule("ge(c, x)", "le(x, c)", when=_x_varies),
    Rule("sub(x, c)", "add(x, neg(c))", REAL, when=_x_varies),
)

ASSOCIATIVE = (
    *(
        Rule(f"{op}({op}(x, c), d)", f"{op}(x, {op}(c, d))", INT | {bool_}, when=_x_varies)
        for op in ("add", "mul", "and", "or", "xor")
    ),
    *(
        Rule(
            f"{op}({op}(x, c), d)",
            f"{op}(x, {op}(c, d))",
            when=lambda m: _x_varies(m) and _differs_from_zero(m),
        )
        for op in ("maximum", "minimum")
    ),
    Rule("add(mul(x, c), mul(x, d))", "mul(x, add(c, d))", INT, when=_x_varies),
    Rule("add(mul(x, c), x)", "mul(x, add(c, 1))", INT, when=_x_varies),
    Rule("add(x, mul(x, c))", "mul(x, add(c, 1))", INT, when=_x_varies),
)

_WHOLE = ("floor", "ceil", "trunc", "round")
ROUNDING = (
    *(Rule(f"{f}({g}(x))", f"{g}(x)", FLOAT) for f in _WHOLE for g in _WHOLE),
    *(Rule(f"{f}(x)", "x", INT) for f in _WHOLE),
)

# pow itself is correct to a unit or two in the last place; products round once each.
POWERS = (
    Rule("pow(x, 2)", "mul(x, x)", INT),
    Rule("pow(x, 3)", "mul(mul(x, x), x)", INT),
    Rule("pow(x, 2)", "mul(x, x)", FLOAT, exact=False),
    Rule("pow(x, 3)", "mul(mul(x, x), x)", WIDE, exact=False),
    Rule("pow(x, -1)", "div(1, x)", FLOAT, exact=False),
    Rule("pow(x, 0.5)", "sqrt(x)", WIDE, exact=False),
    Rule("pow(x, 0.5)", "select(eq(x, -inf), inf, sqrt(add(x, 0)))", HALF, exact=False),
    Rule("pow(x, -0.5)", "select(eq(x, -inf), 0, rsqrt(add(x, 0)))", WIDE | HALF, exact=False),
    Rule("div(1, sqrt(x))", "rsqrt(x)", WIDE),
    Rule("div(x, c)", _reciprocal, FLOAT),
)


def _factors(m: Match) -> list[float]:
    return [float(n) for n in (m.number(m["c"]), m.number(m["d"])) if n is not None]


def _same_side(m: Match) -> bool:
    """Both factors at least 1, or both at most 1, and their product a normal number: then one product with
    it overflows and underflows where the two would."""
    c, d = _factors(m)
    with np.errstate(all="ignore"):
        product = m.number(m["c"]) * m.number(m["d"])  # type: ignore[operator]
    alike = (abs(c) >= 1 and abs(d) >= 1) or (abs(c) <= 1 and abs(d) <= 1)
    return _x_varies(m) and alike and math.isfinite(float(product)) and _is_normal(product)


def _same_sign(m: Match) -> bool:
    c, d = _factors(m)
    return _x_varies(m) and c * d > 0 and math.isfinite(c + d)


def _finite_sum(m: Match) -> bool:
    c, d = _factors(m)
    return _x_varies(m) and abs(c) < 2.0**100 and abs(d) < 2.0**100


# On request: another order of additions and multiplications. The error stays below a few roundings of the sum
# of the magnitudes of what is added, and infinities stay where they were.
REASSOCIATE = (
    Rule("add(add(x, c), d)", "add(x, add(c, d))", WIDE, exact=False, when=_finite_sum),
    Rule("mul(mul(x, c), d)", "mul(x, mul(c, d))", WIDE, exact=False, when=_same_side),
    Rule("add(mul(x, c), mul(x, d))", "mul(x, add(c, d))", WIDE, exact=False, when=_same_sign),
)

RULES = (*IDENTITIES, *INVERSES, *SIGNS, *CANONICAL, *ASSOCIATIVE, *ROUNDING, *POWERS)
