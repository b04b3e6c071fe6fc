"""Scalar rows: constants, arithmetic, comparison, bits, conversion, scalar memory access, atomics.

A GPR has 64 bits. Integers narrower than that stand in it sign- or zero-extended by their format, floats in
the low bits with zeros above. Float arithmetic is the vector unit's, on one element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from trilobite.processor.isa import arithmetic
from trilobite.processor.isa.formats import F32, F64, FLOATS, I16, I32, I64, INTEGERS, U32, U64, Array, Format
from trilobite.processor.isa.numbers import ROUNDINGS, convert
from trilobite.processor.isa.row import SCALAR, Flag, Operands, Row, each, operands, signed

MASK = (1 << 64) - 1
INTEGER_FORMATS = (I64, *(fmt for fmt in INTEGERS if fmt is not I64))
ANY = each(*INTEGER_FORMATS, *FLOATS)
WHOLE = each(*INTEGER_FORMATS)
REAL = each(*FLOATS)


def from_register(fmt: Format, value: int) -> Array:
    """The one element of `fmt` in a GPR's low bits."""
    raw = np.frombuffer((value & MASK).to_bytes(8, "little"), np.uint8)
    return raw[: fmt.bits // 8].view(fmt.dtype)


def to_register(fmt: Format, element: Array) -> int:
    raw = int.from_bytes(np.ascontiguousarray(element, fmt.dtype).tobytes(), "little")
    return signed(raw, fmt.bits) & MASK if fmt.kind == "int" else raw


def from_immediate(fmt: Format, imm: int) -> int:
    """An immediate is a signed whole number for integer formats, the bits of an fp32 for float formats."""
    if fmt.kind != "float":
        return to_register(fmt, from_register(fmt, signed(imm, 32)))
    return to_register(fmt, convert(fmt, F32, from_register(F32, imm), "rn"))


def _elementwise(function: Callable[..., Array], names: Sequence[str], o: Operands) -> Sequence[Any]:
    fmt = o.f0
    values = [from_register(fmt, getattr(o, name)) for name in names]
    return (to_register(fmt, function(fmt, *values)),)


def _compare(function: Callable[..., Array], o: Operands) -> Sequence[Any]:
    truth = function(o.f0, from_register(o.f0, o.a), from_register(o.f0, o.b))
    return (int(truth.astype(np.float64)[0]),)


def _immediate_form(meaning: Callable[[Operands], Sequence[Any]], o: Operands) -> Sequence[Any]:
    return meaning(Operands({**o.values, "b": from_immediate(o.f0, o.imm)}))


def _binary(mnemonic: str, function: Callable[..., Array], formats: Any, timing: str, line: str) -> list[Row]:
    """The form with two registers and the form with an immediate second operand."""
    meaning = partial(_elementwise, function, ("a", "b"))
    return _two_forms(mnemonic, meaning, formats, timing, line)


def _comparison(mnemonic: str, function: Callable[..., Array], line: str) -> list[Row]:
    return _two_forms(mnemonic, partial(_compare, function), ANY, "add", line)


def _two_forms(mnemonic: str, meaning: Any, formats: Any, timing: str, line: str) -> list[Row]:
    return [
        Row(mnemonic, operands("rd! a b"), formats, SCALAR, timing, line, meaning),
        Row(
            mnemonic,
            operands("rd! a #imm"),
            formats,
            SCALAR,
            timing,
            line + ", b an immediate",
            partial(_immediate_form, meaning),
        ),
    ]


def _unary(mnemonic: str, function: Callable[..., Array], formats: Any, timing: str, line: str) -> Row:
    return Row(
        mnemonic, operands("rd! a"), formats, SCALAR, timing, line, partial(_elementwise, function, ("a",))
    )


def _convert(o: Operands) -> Sequence[Any]:
    return (to_register(o.f0, convert(o.f0, o.f1, from_register(o.f1, o.a), o.rounding)),)


def _select(o: Operands) -> Sequence[Any]:
    return (o.a if o.p else o.b,)


CONVERSIONS = tuple(
    (to, source) for to in (*INTEGERS, *FLOATS) for source in (*INTEGERS, *FLOATS) if to is not source
)
ATOMICS = ("add", "exch", "and", "or", "xor", "max", "min", "inc", "dec")

ROWS = (
    Row("SLI", operands("rd! #imm"), (), SCALAR, "add", "rd = the immediate, sign-extended",
        lambda o: (signed(o.imm, 32) & MASK,)),
    Row("SLIH", operands("rd! a #imm"), (), SCALAR, "add",
        "rd = the immediate above, the lower half of a below",
        lambda o: ((o.imm & 0xFFFFFFFF) << 32 | o.a & 0xFFFFFFFF,)),
    Row("SMOVE", operands("rd! a"), (), SCALAR, "add", "rd = a", lambda o: (o.a,)),
    Row("SMOVE", operands("rd! #imm"), ANY, SCALAR, "add", "rd = the immediate in the format",
        lambda o: (from_immediate(o.f0, o.imm),)),
    *_binary("SADD", arithmetic.add, ANY, "add", "rd = a + b; integers wrap"),
    *_binary("SSUB", arithmetic.subtract, ANY, "add", "rd = a - b; integers wrap"),
    *_binary("SMUL", arithmetic.multiply, ANY, "multiply", "rd = a * b; integers wrap"),
    *_binary("SDIV", arithmetic.divide, ANY, "divide", "rd = a / b; integers to zero, by 0 all ones"),
    *_binary("SREM", arithmetic.remainder, WHOLE, "divide", "rd = a - b * (a / b); by 0 gives a"),
    *_binary("SMAX", arithmetic.greater_merge, ANY, "add", "rd = a > b ? a : b"),
    *_binary("SMIN", arithmetic.less_merge, ANY, "add", "rd = a < b ? a : b"),
    *_binary("SAND", arithmetic.bit_and, WHOLE, "add", "rd = a & b, bit by bit"),
    *_binary("SOR", arithmetic.bit_or, WHOLE, "add", "rd = a | b, bit by bit"),
    *_binary("SXOR", arithmetic.bit_xor, WHOLE, "add", "rd = a ^ b, bit by bit"),
    *_binary("SSHL", arithmetic.shift_left, WHOLE, "add", "rd = a << b, b modulo the width"),
    *_binary("SSHR", arithmetic.shift_right, WHOLE, "add", "rd = a >> b, arithmetic for signed formats"),
    *_comparison("SGT", arithmetic.greater, "rd = a > b"),
    *_comparison("SGE", arithmetic.greater_equal, "rd = a >= b"),
    *_comparison("SE", arithmetic.equal, "rd = a = b"),
    *_comparison("SNE", arithmetic.not_equal, "rd = a != b"),
    *_comparison("SLT", arithmetic.less, "rd = a < b"),
    *_comparison("SLE", arithmetic.less_equal, "rd = a <= b"),
    _unary("SNOT", arithmetic.bit_not, WHOLE, "add", "rd = every bit of a inverted"),
    _unary("SNEG", arithmetic.negate, ANY, "add", "rd = -a"),
    _unary("SABS", arithmetic.absolute, ANY, "add", "rd = a without its sign; the smallest integer stays"),
    _unary("SCTZ", arithmetic.trailing_zeros, WHOLE, "add", "rd = zeros below the lowest set bit of a"),
    _unary("SCLZ", arithmetic.leading_zeros, WHOLE, "add", "rd = zeros above the highest set bit of a"),
    _unary("SPOPC", arithmetic.population, WHOLE, "add", "rd = number of set bits"),
    _unary("SSQRT", arithmetic.square_root, REAL, "divide", "rd = square root of a, correctly rounded"),
    _unary("SRSQRT", arithmetic.reciprocal_root, REAL, "transcendental", "rd = 1 / square root of a"),
    _unary("SEXP", arithmetic.exp, REAL, "transcendental", "rd = e to the power a"),
    _unary("SLOG", arithmetic.log, REAL, "transcendental", "rd = natural logarithm of a"),
    _unary("SSIN", arithmetic.sin, REAL, "transcendental", "rd = sine of a"),
    _unary("SCOS", arithmetic.cos, REAL, "transcendental", "rd = cosine of a"),
    _unary("SFLOOR", arithmetic.floor, REAL, "add", "rd = a rounded down to a whole number"),
    _unary("SCEIL", arithmetic.ceil, REAL, "add", "rd = a rounded up to a whole number"),
    Row("SFMA", operands("rd! a b c"), each(F32, F64), SCALAR, "multiply",
        "rd = a * b + c with one rounding",
        partial(_elementwise, arithmetic.fused, ("a", "b", "c"))),
    Row("SSEL", operands("rd! p a b"), (), SCALAR, "add", "rd = p != 0 ? a : b", _select),
    Row("SCVT", operands("rd! a"), CONVERSIONS, SCALAR, "add",
        "rd = a converted from the second format to the first; integers saturate, NaN becomes 0", _convert,
        flags=(Flag("rounding", ROUNDINGS),)),
    Row("SLOAD", operands("rd! base #offset"), ANY, SCALAR, "load", "rd = the element at base + offset"),
    Row("SSTORE", operands("a base #offset"), ANY, SCALAR, "store", "the element at base + offset = a"),
    Row("ATOMIC", operands("rd! address a"), each(I32, I64, U32, U64, F32), SCALAR, "atomic",
        "rd = old element at the address, which becomes old op a; undivided",
        flags=(Flag("op", ATOMICS),)),
    Row("CAS", operands("rd! address expected a"), each(I32, I64, I16), SCALAR, "atomic",
        "rd = old element at the address; it becomes a if it was the expected one; undivided"),
)  # fmt: skip

__all__ = ["ROWS", "from_immediate", "from_register", "to_register"]
