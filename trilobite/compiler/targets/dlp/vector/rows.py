"""What each elementwise primitive becomes: a function from an equation to vector instructions on tiles.

Meanings that the vector unit does not have as one row are short sequences here: NaN-keeping extremes,
quotients rounded down, shifts by the width or more. Functions that need longer ones are composed of these
primitives by `expand` before anything gets here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from trilobite.base.dtypes import bits, bool_, is_float, is_integer, is_signed
from trilobite.compiler.targets.dlp.vector.casts import bitcast, cast, join, rescale, scaled, to_grid
from trilobite.compiler.targets.dlp.vector.formats import WORDS, format_of
from trilobite.ir.graph import Equation, Var
from trilobite.processor.isa.formats import Format
from trilobite.processor.lang.ir import Constant, Value

if TYPE_CHECKING:
    from trilobite.compiler.targets.dlp.vector.chain import Emission

Write = Callable[["Emission", Equation], None]


def _format(e: Equation) -> Format:
    return format_of(e.inputs[0].type.dtype)


def _unary(row: str) -> Write:
    def write(c: Emission, e: Equation) -> None:
        c.put(row, _format(e), c.result(e.outputs[0]), c.tile(e.inputs[0]))

    return write


def _binary(row: str, right: str = "", left: str = "") -> Write:
    """`right` is the row with a scalar second operand, `left` the one with a scalar first operand."""

    def write(c: Emission, e: Equation) -> None:
        x, y = e.inputs
        fmt = _format(e)
        if right and c.number(y) is not None and c.number(x) is None:
            c.put(right, fmt, c.result(e.outputs[0]), c.tile(x), c.scalar(y, fmt))
        elif left and c.number(x) is not None and c.number(y) is None:
            c.put(left, fmt, c.result(e.outputs[0]), c.tile(y), c.scalar(x, fmt))
        else:
            a, b = c.tile(x), c.tile(y)
            c.put(row, fmt, c.result(e.outputs[0]), a, b)

    return write


# -- truth ---------------------------------------------------------------------------------------------------


def _truth_format(c: Emission, *truths: Var) -> Format:
    """A format in which all of them lie, if there is one; else that of the first."""
    held = [dict(c.held.get(v, {})) for v in truths if c.number(v) is None]
    for fmt in held[0] if held else ():
        if all(fmt in h for h in held):
            return fmt
    return next(iter(held[0])) if held else format_of(bool_)


def _compare(row: str, right: str, mirrored: str) -> Write:
    def write(c: Emission, e: Equation) -> None:
        x, y = e.inputs
        truth = x.type.dtype == bool_
        fmt = _truth_format(c, x, y) if truth else _format(e)
        if c.number(y) is not None and c.number(x) is None:
            a = c.tile(x, fmt)
            c.put(right, fmt, c.result(e.outputs[0], fmt), a, c.scalar(y, fmt))
        elif c.number(x) is not None and c.number(y) is None:
            a = c.tile(y, fmt)
            c.put(mirrored, fmt, c.result(e.outputs[0], fmt), a, c.scalar(x, fmt))
        else:
            a, b = c.tile(x, fmt), c.tile(y, fmt)
            c.put(row, fmt, c.result(e.outputs[0], fmt), a, b)

    return write


def _logic(truths: str, words: str, right: str) -> Write:
    """and, or, xor: of truth values by their truth, of integers by their bits."""
    by_bits = _binary(words, right, right)

    def write(c: Emission, e: Equation) -> None:
        x, y = e.inputs
        if x.type.dtype != bool_:
            by_bits(c, e)
            return
        fmt = _truth_format(c, x, y)
        a, b = c.tile(x, fmt), c.tile(y, fmt)
        c.put(truths, fmt, c.result(e.outputs[0], fmt), a, b)

    return write


def _not(c: Emission, e: Equation) -> None:
    (x,) = e.inputs
    if x.type.dtype == bool_:
        fmt = _truth_format(c, x)
        a = c.tile(x, fmt)
        c.put("VNOT", fmt, c.result(e.outputs[0], fmt), a)
    else:
        c.put("VBNOT", _format(e), c.result(e.outputs[0]), c.tile(x))


def _select(c: Emission, e: Equation) -> None:
    p, x, y = e.inputs
    fmt = format_of(x.type.dtype)
    if x.type.dtype == bool_:
        fmt = _truth_format(c, p, x, y)
    mask, a, b = c.tile(p, fmt), c.tile(x, fmt), c.tile(y, fmt)
    c.put("VSEL", fmt, c.result(e.outputs[0], fmt), mask, a, b)


# -- floats --------------------------------------------------------------------------------------------------


def _with_number(c: Emission, row: str, number: Var, fmt: Format) -> tuple[str, *tuple[Value, ...]] | None:
    """The row that has the number as a scalar, if it keeps NaN."""
    known = c.number(number)
    if row == "VGTM" and known is not None and known == 0:
        return ("VRELU",)
    if known is None or fmt.kind == "float":
        return None
    return f"{row}S", c.scalar(number, fmt)


def _extreme(row: str) -> Write:
    """The row keeps its second operand where the comparison fails, so a NaN there stays; one in the first is
    put back.
    """

    def write(c: Emission, e: Equation) -> None:
        x, y = e.inputs
        fmt = format_of(x.type.dtype)
        if x.type.dtype == bool_:
            fmt = _truth_format(c, x, y)
        if c.number(y) is not None:
            x, y = y, x
        short = _with_number(c, row, x, fmt) if c.number(y) is None else None
        if short is not None:
            a = c.tile(y, fmt)
            c.put(short[0], fmt, c.result(e.outputs[0], fmt), a, *short[1:])
            return
        a, b = c.tile(x, fmt), c.tile(y, fmt)
        out = c.result(e.outputs[0], fmt)
        known = c.number(x)
        if not is_float(x.type.dtype) or (known is not None and known == known):
            c.put(row, fmt, out, a, b)
            return
        largest, unordered = c.temporary(fmt), c.temporary(fmt)
        c.put(row, fmt, largest, a, b)
        c.put("VNE", fmt, unordered, a, a)
        c.put("VSEL", fmt, out, unordered, a, largest)

    return write


def _is_nan(c: Emission, e: Equation) -> None:
    fmt, a = _format(e), c.tile(e.inputs[0])
    c.put("VNE", fmt, c.result(e.outputs[0], fmt), a, a)


def _against_infinity(row: str) -> Write:
    def write(c: Emission, e: Equation) -> None:
        fmt, size = _format(e), c.temporary(_format(e))
        c.put("VABS", fmt, size, c.tile(e.inputs[0]))
        c.put(row, fmt, c.result(e.outputs[0], fmt), size, Constant(fmt, float("inf")))

    return write


def _signbit(c: Emission, e: Equation) -> None:
    """The highest bit, read as a word."""
    dtype = e.inputs[0].type.dtype
    word = WORDS[dtype.itemsize]
    out = c.result(e.outputs[0], word)
    c.put("VSHRS", word, out, c.tile(e.inputs[0], format_of(dtype)), Constant(word, word.bits - 1))


# -- integers ------------------------------------------------------------------------------------------------


def _quotient(c: Emission, e: Equation, remainder: bool) -> None:
    """Rounded down, 0 for a divisor of 0: the machine's quotient is cut, so one less where signs differ."""
    x, y = e.inputs
    fmt = _format(e)
    a, b = c.tile(x), c.tile(y)
    rest, zero, mask = c.temporary(fmt), c.temporary(fmt), c.temporary(fmt)
    out = c.result(e.outputs[0])
    c.put("VREM", fmt, rest, a, b)
    c.put("VSET", fmt, zero, Constant(fmt, 0))
    if is_signed(x.type.dtype):
        _mark_unequal_signs(c, fmt, mask, rest, b)
    else:
        c.put("VSET", fmt, mask, Constant(fmt, 0))
    if remainder:
        step = c.temporary(fmt)
        c.put("VSEL", fmt, step, mask, b, zero)
        c.put("VAV", fmt, rest, rest, step)
        c.put("VSEL", fmt, out, b, rest, zero)
        return
    whole = c.temporary(fmt)
    c.put("VDV", fmt, whole, a, b)
    c.put("VSV", fmt, whole, whole, mask)
    c.put("VSEL", fmt, out, b, whole, zero)


def _mark_unequal_signs(c: Emission, fmt: Format, mask: Value, rest: Value, divisor: Value) -> None:
    """1 where something remains whose sign is not the divisor's."""
    negative = c.temporary(fmt)
    c.put("VBXOR", fmt, mask, rest, divisor)
    c.put("VLTS", fmt, mask, mask, Constant(fmt, 0))
    c.put("VNES", fmt, negative, rest, Constant(fmt, 0))
    c.put("VAND", fmt, mask, mask, negative)


def _shift(row: str, is_left: bool) -> Write:
    """By the width or more, or less than 0, nothing remains, or the sign."""

    def write(c: Emission, e: Equation) -> None:
        x, n = e.inputs
        dtype = x.type.dtype
        fmt, word, width = _format(e), WORDS[dtype.itemsize], bits(dtype)
        known = c.number(n)
        if known is not None and 0 <= known < width:
            c.put(f"{row}S", fmt, c.result(e.outputs[0]), c.tile(x), c.scalar(n, fmt))
            return
        a, amount = c.tile(x), c.tile(n)
        beyond, shifted, rest = c.temporary(fmt), c.temporary(fmt), c.temporary(fmt)
        c.put("VGES", word, beyond, amount, Constant(word, width))
        c.put(row, fmt, shifted, a, amount)
        if is_left or not is_signed(dtype):
            c.put("VSET", fmt, rest, Constant(fmt, 0))
        else:
            c.put("VSHRS", fmt, rest, a, Constant(fmt, width - 1))
        c.put("VSEL", fmt, c.result(e.outputs[0]), beyond, rest, shifted)

    return write


def _same(c: Emission, e: Equation) -> None:
    c.alias(e.outputs[0], e.inputs[0])


def _whole(row: str) -> Write:
    """Rounding, of which integers are their own result."""
    of_floats = _unary(row)

    def write(c: Emission, e: Equation) -> None:
        (_same if is_integer(e.inputs[0].type.dtype) else of_floats)(c, e)

    return write


ROWS: dict[str, Write] = {
    "add": _binary("VAV", "VAS", "VAS"),
    "sub": _binary("VSV", "VSS", "VRSS"),
    "mul": _binary("VMV", "VMS", "VMS"),
    "div": _binary("VDV", "VDS", "VRDS"),
    "neg": _unary("VNEG"),
    "abs": _unary("VABS"),
    "sign": _unary("VSIGN"),
    "sqrt": _unary("VSQRT"),
    "rsqrt": _unary("VRSQRT"),
    "exp": _unary("VEXP"),
    "exp2": _unary("VEXP2"),
    "log": _unary("VLOG"),
    "log2": _unary("VLOG2"),
    "sin": _unary("VSIN"),
    "cos": _unary("VCOS"),
    "tanh": _unary("VTANH"),
    "erf": _unary("VERF"),
    "floor": _whole("VFLOOR"),
    "ceil": _whole("VCEIL"),
    "trunc": _whole("VTRUNC"),
    "round": _whole("VRINT"),
    "maximum": _extreme("VGTM"),
    "minimum": _extreme("VLTM"),
    "eq": _compare("VE", "VES", "VES"),
    "ne": _compare("VNE", "VNES", "VNES"),
    "lt": _compare("VLT", "VLTS", "VGTS"),
    "le": _compare("VLE", "VLES", "VGES"),
    "gt": _compare("VGT", "VGTS", "VLTS"),
    "ge": _compare("VGE", "VGES", "VLES"),
    "is_nan": _is_nan,
    "is_inf": _against_infinity("VES"),
    "is_finite": _against_infinity("VLTS"),
    "signbit": _signbit,
    "select": _select,
    "and": _logic("VAND", "VBAND", "VBANDS"),
    "or": _logic("VOR", "VBOR", "VBORS"),
    "xor": _logic("VXOR", "VBXOR", "VBXORS"),
    "not": _not,
    "popcount": _unary("VPOPC"),
    "clz": _unary("VCLZ"),
    "shift_left": _shift("VSHL", True),
    "shift_right": _shift("VSHR", False),
    "floor_div": lambda c, e: _quotient(c, e, False),
    "rem": lambda c, e: _quotient(c, e, True),
    "cast": cast,
    "bitcast": bitcast,
    "rescale": rescale,
    "scaled": scaled,
    "to_grid": to_grid,
    "join": join,
    "stop_gradient": _same,
    "barrier": _same,
}
