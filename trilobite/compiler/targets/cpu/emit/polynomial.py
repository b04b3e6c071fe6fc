"""What the vectorised functions share: polynomials, powers of two, and the choice of float or double.

Enters and leaves: `Value`s of type float or double, any lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.emit import coefficients as c
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant, element_of

INFINITY, NAN = float("inf"), float("nan")
LOG2_E, LN_2 = c.LOG2_E_64[0], sum(c.LN_2_64)


@dataclass(frozen=True)
class Precision:
    """One of the two formats that functions compute in."""

    mantissa: int  # bits after the point
    bias: int
    ln2: tuple[float, float]  # the first so short that its product with an exponent is exact

    @property
    def anchor(self) -> float:
        """Added to a number it rounds it to a whole one, and leaves that in the last bits."""
        return 1.5 * 2.0**self.mantissa

    @property
    def anchor_bits(self) -> int:
        return ((self.bias + self.mantissa) << self.mantissa) + (1 << (self.mantissa - 1))

    def choose(self, float_: float, double: float) -> float:
        return float_ if self.mantissa == 23 else double


FLOAT = Precision(23, 127, c.LN_2_32)
DOUBLE = Precision(52, 1023, c.LN_2_64)


def precision(x: Value) -> Precision:
    return FLOAT if element_of(x.type) == "float" else DOUBLE


def horner(t: Text, x: Value, coefficients: Sequence[float]) -> Value:
    """c0 + x·(c1 + x·(...)): the fewest operations."""
    out = constant(x.type, coefficients[-1])
    for term in reversed(coefficients[:-1]):
        out = t.fma(out, x, term)
    return out


def estrin(t: Text, x: Value, coefficients: Sequence[float]) -> Value:
    """The same by pairs, for long polynomials: a chain of half the length keeps both pipes busy."""
    terms: list[Value | float] = list(coefficients)
    while len(terms) > 1:
        terms = [
            t.fma(b, x, a) if b is not None else a
            for a, b in zip(terms[::2], [*terms[1::2], None][: len(terms[::2])], strict=True)
        ]
        x = t.fmul(x, x) if len(terms) > 1 else x
    (out,) = terms
    return out if isinstance(out, Value) else constant(x.type, out)


def whole(t: Text, x: Value, factor: float = 1.0, more: int = 0) -> tuple[Value, Value]:
    """x·factor to the nearest whole number: as a float; and with the anchor still on it, and `more`."""
    anchor = precision(x).anchor + more
    anchored = t.fadd(x, anchor) if factor == 1.0 else t.fma(x, factor, anchor)
    return t.fsub(anchored, anchor), anchored


def times_power(t: Text, y: Value, anchored: Value) -> Value:
    """y·2^n for the anchored n: in two exact factors, so that results may be subnormal or infinite."""
    p = precision(y)
    doubled = t.sub(t.bits(anchored), p.anchor_bits - 2 * p.bias)
    first = t.lshr(doubled, 1)
    second = t.sub(doubled, first)
    y = t.fmul(y, t.as_float(t.shl(first, p.mantissa)))
    return t.fmul(y, t.as_float(t.shl(second, p.mantissa)))


def clamped(t: Text, x: Value, low: float, high: float) -> Value:
    """x held between two numbers; NaN stays."""
    return t.fmin(high, t.fmax(low, x))


def in_double(fn: Callable[..., Value]) -> Callable[..., Value]:
    """A function of doubles, for floats too: they widen, and round once at the end."""

    def either(t: Text, *xs: Value) -> Value:
        if element_of(xs[0].type) == "double":
            return fn(t, *xs)
        out = fn(t, *(t.convert("fpext", x, "double") for x in xs))
        return t.convert("fptrunc", out, "float")

    return either
