"""The algebra of truth, bits and choice."""

from __future__ import annotations

from trilobite.base.dtypes import ALL, COMPLEX, INTEGERS, bool_
from trilobite.compiler.graph.rewrite import Match, Rule

WORD = INTEGERS | {bool_}
ORDERED = ALL - COMPLEX


def _on_words(m: Match) -> bool:
    """Integers and bools are ordered, whole: NaN is not."""
    return m["x"].type.dtype in WORD


RULES = (
    # choice
    Rule("select(true, x, y)", "x"),
    Rule("select(false, x, y)", "y"),
    Rule("select(p, x, x)", "x"),
    Rule("select(not(p), x, y)", "select(p, y, x)"),
    Rule("select(p, true, false)", "p"),
    Rule("select(p, false, true)", "not(p)"),
    Rule("select(p, select(p, x, y), z)", "select(p, x, z)"),
    Rule("select(p, x, select(p, y, z))", "select(p, x, z)"),
    # comparisons; of NaN every one is false but ne
    Rule("eq(x, x)", "true", WORD),
    Rule("le(x, x)", "true", WORD),
    Rule("ge(x, x)", "true", WORD),
    Rule("ne(x, x)", "false", WORD),
    Rule("lt(x, x)", "false", ORDERED),
    Rule("gt(x, x)", "false", ORDERED),
    Rule("eq(x, true)", "x"),
    Rule("ne(x, false)", "x"),
    Rule("eq(x, false)", "not(x)"),
    Rule("ne(x, true)", "not(x)"),
    Rule("not(eq(x, y))", "ne(x, y)"),
    Rule("not(ne(x, y))", "eq(x, y)"),
    Rule("not(lt(x, y))", "ge(x, y)", when=_on_words),
    Rule("not(le(x, y))", "gt(x, y)", when=_on_words),
    Rule("not(gt(x, y))", "le(x, y)", when=_on_words),
    Rule("not(ge(x, y))", "lt(x, y)", when=_on_words),
    Rule("is_nan(x)", "false", WORD),
    Rule("is_inf(x)", "false", WORD),
    Rule("is_finite(x)", "true", WORD),
    # bits
    Rule("not(not(x))", "x"),
    Rule("and(x, x)", "x"),
    Rule("or(x, x)", "x"),
    Rule("xor(x, x)", "0"),
    Rule("and(x, 0)", "0"),
    Rule("and(x, ones)", "x"),
    Rule("or(x, 0)", "x"),
    Rule("or(x, ones)", "ones"),
    Rule("xor(x, 0)", "x"),
    Rule("xor(x, ones)", "not(x)"),
    Rule("and(x, not(x))", "0"),
    Rule("or(x, not(x))", "ones"),
    Rule("xor(xor(x, y), y)", "x"),
    Rule("shift_left(x, 0)", "x"),
    Rule("shift_right(x, 0)", "x"),
)
