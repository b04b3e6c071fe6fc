"""Casts that undo each other, or of which one is enough."""

from __future__ import annotations

from functools import cache

import numpy as np

from trilobite.base.dtypes import (
    COMPLEX,
    DType,
    bits,
    bool_,
    float32,
    float64,
    is_complex,
    is_float,
    is_integer,
    real_of,
)
from trilobite.base.quiet import quiet
from trilobite.compiler.graph.rewrite import Match, Rule
from trilobite.ir.graph import Var
from trilobite.ir.primitives.cast import by_value
from trilobite.ir.primitives.common import integer_range


@cache
def holds(wide: DType, narrow: DType) -> bool:
    """Does one dtype have every value of another, both zeros, infinities and NaN included?"""
    if wide == narrow:
        return True
    if is_complex(wide):
        return holds(real_of(wide), real_of(narrow))
    if is_complex(narrow) or wide == bool_:
        return False
    if narrow.itemsize <= 2:
        found: bool = _holds_each(wide, narrow)
        return found
    if is_integer(wide) and is_integer(narrow):
        (low, high), (least, most) = integer_range(wide), integer_range(narrow)
        return low <= least and most <= high
    return wide == float64 and (narrow == float32 or (is_integer(narrow) and bits(narrow) == 32))


@quiet
def _holds_each(wide: DType, narrow: DType) -> bool:
    """Every pattern of up to 16 bits, there and compared by value."""
    patterns = np.arange(2 if narrow == bool_ else 2 ** bits(narrow), dtype=np.uint16)
    x = patterns.astype(f"u{narrow.itemsize}").view(narrow)
    a, b = x.astype(np.float64), by_value(x, wide).astype(np.float64)
    same = (a == b) & (np.signbit(a) == np.signbit(b))
    return bool((same | (np.isnan(a) & np.isnan(b) & is_float(wide))).all())


def _of_same(m: Match) -> Var | None:
    return m["x"] if m.attributes["dtype"] == m["x"].type.dtype else None


def _by_one(m: Match) -> Var | None:
    """cast(cast(x, a), b) -> cast(x, b), if a keeps every value of x, or integers are only cut shorter."""
    source, middle, target = m["x"].type.dtype, m.inner().attributes["dtype"], m.attributes["dtype"]
    cut = all(is_integer(d) for d in (source, middle, target)) and bits(middle) >= bits(target)
    if not (cut or holds(middle, source)) or (source in COMPLEX and middle not in COMPLEX):
        return None
    if is_integer(source) and is_integer(target) and not is_integer(middle) and not holds(target, source):
        return None  # integers of floats end at the range's ends, integers of integers wrap around
    return m["x"] if source == target else m.make("cast", m["x"], dtype=target)


def _bits_by_one(m: Match) -> Var:
    target = m.attributes["dtype"]
    return m["x"] if m["x"].type.dtype == target else m.make("bitcast", m["x"], dtype=target)


RULES = (
    Rule("cast(x)", _of_same),
    Rule("cast(cast(x))", _by_one),
    Rule("bitcast(x)", _of_same),
    Rule("bitcast(bitcast(x))", _bits_by_one),
)
