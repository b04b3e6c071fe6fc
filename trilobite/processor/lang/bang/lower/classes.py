"""Classes of floating-point numbers: what `llvm.is.fpclass` asks, told from the bits of a number.

Enters: a value and a mask of classes, each of one sign. Leaves: whether the value is in one of them. clang
writes such a test for `x == -INFINITY`, `isnan`, `isnormal` and their combinations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilobite.processor.isa.formats import BF16, F16, F32, F64, I16, I32, I64, Format
from trilobite.processor.lang.bang.llvm.instructions import Instruction
from trilobite.processor.lang.bang.lower.integers import format_of
from trilobite.processor.lang.ir import Constant, Value

if TYPE_CHECKING:
    from trilobite.processor.lang.bang.lower.function import FunctionLowering, Lowered

_NAN = 0x003
# A number read as an integer, with its bits of fraction and of exponent.
_LAYOUT: dict[Format, tuple[Format, int, int]] = {
    F16: (I16, 10, 5), BF16: (I16, 7, 8), F32: (I32, 23, 8), F64: (I64, 52, 11),
}  # fmt: skip


def _ranges(fraction: int, exponent: int) -> list[tuple[int, int, int, int]]:
    """Zero, subnormal, normal, infinite: bits of the mask for both signs, and the magnitudes as integers."""
    infinite = ((1 << exponent) - 1) << fraction
    return [
        (0x020, 0x040, 0, 0),
        (0x010, 0x080, 1, (1 << fraction) - 1),
        (0x008, 0x100, 1 << fraction, infinite - 1),
        (0x004, 0x200, infinite, infinite),
    ]


def float_class(f: FunctionLowering, i: Instruction) -> Lowered:
    """One comparison of ranges for every class that is asked for, both signs together where both are."""
    b, x = f.builder, f.one(i.args[0])
    fmt, mask = format_of(x), int(getattr(i.args[1].value, "value", 0))
    if fmt not in _LAYOUT:
        f.refuse(f"a test of the class of a number of type {fmt}")
        return f.dummy(i.type)
    word, fraction, exponent = _LAYOUT[fmt]
    bits = b.cast(x, word)
    bits = bits if word is I64 else b.cast(bits, I64)
    size = b.arithmetic("and", I64, bits, b.integer((1 << (fraction + exponent)) - 1))
    negative = b.arithmetic("lt", I64, bits, b.integer(0))
    made: Value = b.integer(0)
    if mask & _NAN:
        made = b.arithmetic("ne", fmt, x, x)
    for minus, plus, low, high in _ranges(fraction, exponent):
        if not mask & (minus | plus):
            continue
        above = b.arithmetic("ge", I64, size, b.integer(low))
        inside = b.arithmetic("and", I64, above, b.arithmetic("le", I64, size, b.integer(high)))
        if not mask & plus:
            inside = b.arithmetic("and", I64, inside, negative)
        elif not mask & minus:
            inside = b.arithmetic("and", I64, inside, b.arithmetic("eq", I64, negative, Constant(I64, 0)))
        made = b.arithmetic("or", I64, made, inside)
    return (made,)
