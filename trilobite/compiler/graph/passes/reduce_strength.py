"""reduce_strength: expensive operations become cheaper ones with the same bits.

Enters: a graph after the algebra is done (these forms would hide sums of products from it). Leaves: the graph
with multiplications, quotients and remainders of integers by powers of two as shifts and masks, and doubling
as a sum. What rounds otherwise is no business of this table: powers are simplify's.
"""

from __future__ import annotations

from trilobite.base.dtypes import FLOATS, INTEGERS, float8_e8m0fnu
from trilobite.compiler.graph.rewrite import (
    UNCOUNTED,
    Counters,
    Match,
    Rule,
    by_head,
    element_of,
    python_number,
    rewrite,
)
from trilobite.ir.graph import Graph, Var


def _exponent(m: Match) -> int | None:
    """k where the number is 2^k, k > 0."""
    element = m.number(m["c"])
    assert element is not None
    value = python_number(element)
    return value.bit_length() - 1 if value > 1 and value & (value - 1) == 0 else None


def _shift_left(m: Match) -> Var | None:
    return _with_number(m, "shift_left", _exponent(m))


def _shift_right(m: Match) -> Var | None:
    return _with_number(m, "shift_right", _exponent(m))


def _mask(m: Match) -> Var | None:
    k = _exponent(m)
    return _with_number(m, "and", None if k is None else 2**k - 1)


def _with_number(m: Match, name: str, number: int | None) -> Var | None:
    element = None if number is None else element_of(number, m["x"].type.dtype)
    return None if element is None else m.make(name, m["x"], m.full(element))


RULES = (
    Rule("mul(x, 2)", "add(x, x)", FLOATS - {float8_e8m0fnu}),
    Rule("mul(x, c)", _shift_left, INTEGERS),  # x·2^k -> x << k, wrapping alike
    Rule("floor_div(x, c)", _shift_right, INTEGERS),  # rounded down, as the arithmetic shift does
    Rule("rem(x, c)", _mask, INTEGERS),  # x - 2^k·floor(x/2^k): the low bits, also of negative x
)
_RULES = by_head(RULES)


def reduce_strength(graph: Graph, counters: Counters = UNCOUNTED) -> Graph:
    """The graph in cheaper operations."""
    return rewrite(graph, _RULES, counters)
