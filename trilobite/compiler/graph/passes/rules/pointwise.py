"""Which primitives work element by element, and the folding of those over numbers."""

from __future__ import annotations

from trilobite.compiler.graph.rewrite import Match, Rule
from trilobite.ir.graph import Var

# Element i of the result depends on element i of each operand alone, and on attributes that no shape is in.
POINTWISE = frozenset(
    """
    add sub mul div neg floor_div rem pow sqrt rsqrt hypot abs sign copysign nextafter floor ceil trunc round
    not and or xor shift_left shift_right popcount clz bitcast cast
    eq ne lt le gt ge is_finite is_nan is_inf signbit select maximum minimum
    conj real imag complex
    exp exp2 expm1 log log2 log10 log1p logaddexp
    erf erfc erf_inv lgamma digamma polygamma
    sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2
    """.split()
)


def is_number(m: Match, v: Var) -> bool:
    return m.number(v) is not None


def _number(m: Match) -> Var | None:
    """A pointwise operation on numbers is a number."""
    inputs = m.equation.inputs
    if m.equation.primitive.name not in POINTWISE or m.number(inputs[0]) is None:
        return None
    known = [x for v in inputs if (x := m.number(v)) is not None]
    if len(known) < len(inputs):
        return None
    return m.full(m.equation.primitive.evaluate(*known, **m.attributes))


# A function of one element may differ from the same function of a vector in its last bit.
NUMBERS = (Rule("*", _number, exact=False),)
