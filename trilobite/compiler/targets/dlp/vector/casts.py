"""Casts on tiles: what the framework's cast means, in conversions that saturate where it wraps.

Floats to integers are cut towards zero and saturate, NaN gives 0: that is the unit's conversion. Integers
wrap in a narrower one: their upper bits are filled with the sign, or cleared, before the unit converts. 4-bit
integers lie in the low half of a byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilobite.base import dtypes as d
from trilobite.base.dtypes import DType, bits, bool_, is_integer, is_signed
from trilobite.base.reciprocals import exact_reciprocal
from trilobite.compiler.targets.dlp.vector.byte_floats import decode, encode
from trilobite.compiler.targets.dlp.vector.formats import CONVERTED, FORMATS, SIGNED_WORDS, WORDS, format_of
from trilobite.ir.graph import Equation, Var
from trilobite.ir.primitives.common import integer_range
from trilobite.processor.isa.formats import E5M2, F32, F64, U8, Format
from trilobite.processor.isa.row import JOINED
from trilobite.processor.lang.ir import Constant, Value

if TYPE_CHECKING:
    from trilobite.compiler.targets.dlp.vector.chain import Emission

HALF = 4  # bits of a 4-bit integer


def bitcast(c: Emission, e: Equation) -> None:
    c.alias(e.outputs[0], e.inputs[0])


def cast(c: Emission, e: Equation) -> None:
    source, to = e.inputs[0], e.outputs[0]
    a, b = source.type.dtype, to.type.dtype
    if a == b:
        c.alias(to, source)
    elif b == bool_:
        _to_truth(c, source, to)
    elif a == bool_ and (b in FORMATS or is_integer(b)):
        c.convert(*_into(c, to), *_truth(c, source))
    elif a == bool_:
        _to_small_float(c, *_truth(c, source), to)
    elif is_integer(a) and is_integer(b):
        _between_integers(c, c.tile(source), a, to)
    elif is_integer(b):
        _to_integer(c, source, to)
    else:
        _to_float(c, source, to)


def _into(c: Emission, to: Var) -> tuple[Value, Format]:
    return c.result(to), format_of(to.type.dtype)


def _truth(c: Emission, source: Var) -> tuple[Value, Format]:
    c.tile(source) if source in c.numbers else None
    fmt, pointer = next(iter(c.held[source].items()))
    return pointer, fmt


def _to_truth(c: Emission, source: Var, to: Var) -> None:
    pointer, fmt = _as_computed(c, source)
    c.put("VNES", fmt, c.result(to, fmt), pointer, Constant(fmt, 0.0 if fmt.kind == "float" else 0))


def _as_computed(c: Emission, source: Var) -> tuple[Value, Format]:
    """The tile in a format with arithmetic."""
    dtype = source.type.dtype
    pointer = c.tile(source)
    if dtype in FORMATS:
        return pointer, FORMATS[dtype]
    if is_integer(dtype):
        return _widened(c, pointer, dtype), SIGNED_WORDS[1] if is_signed(dtype) else U8
    if dtype not in CONVERTED:
        return decode(c, pointer, dtype), F32
    wide = c.temporary(F32)
    c.convert(wide, F32, pointer, CONVERTED[dtype])
    return wide, F32


# -- integers ------------------------------------------------------------------------------------------------


def _widened(c: Emission, pointer: Value, dtype: DType) -> Value:
    """A 4-bit integer as the byte of the same value."""
    fmt = SIGNED_WORDS[1] if is_signed(dtype) else U8
    if not is_signed(dtype):
        return pointer
    out = c.temporary(fmt)
    c.put("VSHLS", fmt, out, pointer, Constant(fmt, HALF))
    c.put("VSHRS", fmt, out, out, Constant(fmt, HALF))
    return out


def _between_integers(c: Emission, pointer: Value, a: DType, to: Var) -> None:
    b = to.type.dtype
    if bits(a) == HALF:
        pointer = _widened(c, pointer, a)
        a = d.int8 if is_signed(a) else d.uint8
    if bits(b) == HALF:
        _to_half(c, pointer, a, to)
        return
    _wrapped(c, pointer, a, c.result(to), b)


def _to_half(c: Emission, pointer: Value, a: DType, to: Var) -> None:
    byte = c.temporary(U8)
    _wrapped(c, pointer, a, byte, d.uint8)
    c.put("VBANDS", U8, c.result(to), byte, Constant(U8, 15))


def _wrapped(c: Emission, pointer: Value, a: DType, out: Value, b: DType) -> None:
    """Whole bytes to whole bytes."""
    source, target = format_of(a), format_of(b)
    size = c.w.mul(c.count, b.itemsize)
    if source.bits == target.bits:
        c.w.copy(out, pointer, size)
    elif target.bits > source.bits:  # the operand's own sign fills the upper bits
        wide = (SIGNED_WORDS if is_signed(a) else WORDS)[b.itemsize]
        c.convert(out, wide, pointer, source)
    else:
        kept = c.temporary(source)
        word = (SIGNED_WORDS if is_signed(b) else WORDS)[a.itemsize]
        if is_signed(b):
            shift = Constant(word, source.bits - target.bits)
            c.put("VSHLS", word, kept, pointer, shift)
            c.put("VSHRS", word, kept, kept, shift)
        else:
            c.put("VBANDS", word, kept, pointer, Constant(word, (1 << target.bits) - 1))
        c.convert(out, target, kept, word)


def _to_integer(c: Emission, source: Var, to: Var) -> None:
    pointer, fmt = _as_computed(c, source)
    b = to.type.dtype
    if bits(b) != HALF:
        c.convert(*_into(c, to), pointer, fmt, "rz")
        return
    low, high = (-8, 7) if is_signed(b) else (0, 15)
    wide = d.int8 if is_signed(b) else d.uint8
    byte = c.temporary(U8)
    c.convert(byte, format_of(wide), pointer, fmt, "rz")
    kept = format_of(wide)
    c.put("VLTMS", kept, byte, byte, Constant(kept, high))
    c.put("VGTMS", kept, byte, byte, Constant(kept, low))
    c.put("VBANDS", U8, c.result(to), byte, Constant(U8, 15))


def rescale(c: Emission, e: Equation) -> None:
    """Integers times a scale, rounded once: the unit's conversion saturates. NaN gives the zero point."""
    x, scale, zero = e.inputs
    wide = c.temporary(F64)
    c.convert(wide, F64, c.tile(x), format_of(x.type.dtype))
    if c.number(scale) is not None:
        c.put("VMS", F64, wide, wide, c.scalar(scale, F64))
    else:
        by = c.temporary(F64)
        c.convert(by, F64, c.tile(scale), F32)
        c.put("VMV", F64, wide, wide, by)
    if c.number(zero) != 0:
        at, unordered = c.temporary(F64), c.temporary(F64)
        c.convert(at, F64, c.tile(zero), format_of(zero.type.dtype))
        c.put("VRINT", F64, wide, wide)
        c.put("VAV", F64, wide, wide, at)
        c.put("VNE", F64, unordered, wide, wide)
        c.put("VSEL", F64, wide, unordered, at, wide)
    c.convert(*_into(c, e.outputs[0]), wide, F64)


def scaled(c: Emission, e: Equation) -> None:
    """Integers without their zero point times a scale, in double precision, rounded to single."""
    x, scale, zero = e.inputs
    wide = c.temporary(F64)
    c.convert(wide, F64, c.tile(x), format_of(x.type.dtype))
    if c.number(zero) != 0:
        at = c.temporary(F64)
        c.convert(at, F64, c.tile(zero), format_of(zero.type.dtype))
        c.put("VSV", F64, wide, wide, at)
    if c.number(scale) is not None:
        c.put("VMS", F64, wide, wide, c.scalar(scale, F64))
    else:
        by = c.temporary(F64)
        c.convert(by, F64, c.tile(scale), F32)
        c.put("VMV", F64, wide, wide, by)
    c.convert(*_into(c, e.outputs[0]), wide, F64)


def to_grid(c: Emission, e: Equation) -> None:
    """Floats over a scale: the unit's conversion rounds and saturates. NaN gives the zero point."""
    x, scale, zero = e.inputs
    steps, by = c.temporary(F32), _reciprocal(c, e)
    if by is not None:
        c.put("VMS", F32, steps, c.tile(x), Constant(F32, by))
    elif c.number(scale) is not None:
        c.put("VDS", F32, steps, c.tile(x), c.scalar(scale, F32))
    else:
        c.put("VDV", F32, steps, c.tile(x), c.tile(scale))
    if c.number(zero) != 0:
        at, unordered = c.temporary(F32), c.temporary(F32)
        c.convert(at, F32, c.tile(zero), format_of(zero.type.dtype))
        c.put("VRINT", F32, steps, steps)
        c.put("VAV", F32, steps, steps, at)
        c.put("VNE", F32, unordered, steps, steps)
        c.put("VSEL", F32, steps, unordered, at, steps)
    c.convert(*_into(c, e.outputs[0]), steps, F32)


def join(c: Emission, e: Equation) -> None:
    """A sum with what stands around it in one instruction."""
    formats = [format_of(v.type.dtype) for v in (*e.outputs, *e.inputs)]
    a, b = map(c.tile, e.inputs)
    numbers = [Constant(F32, e.attributes[name]) for name in JOINED]
    flags = ("relu" if e.attributes["relu"] else "",)
    c.w.vector("VJOIN", formats, c.result(e.outputs[0]), c.count, a, b, *numbers, flags=flags)


def _reciprocal(c: Emission, e: Equation) -> float | None:
    """What to multiply with instead of dividing by the scale, where all codes are the same: a quarter of the
    time."""
    _, scale, zero = e.inputs
    step, at = c.number(scale), c.number(zero)
    low, high = integer_range(e.outputs[0].type.dtype)
    if step is None or at is None:
        return None
    return exact_reciprocal(float(step), int(low) - int(at), int(high) - int(at))


# -- floats --------------------------------------------------------------------------------------------------


def _to_float(c: Emission, source: Var, to: Var) -> None:
    b = to.type.dtype
    pointer, fmt = _as_computed(c, source)
    if b in FORMATS:
        out, target = _into(c, to)
        c.convert(out, target, pointer, fmt)
        return
    _to_small_float(c, pointer, fmt, to)


def _to_small_float(c: Emission, pointer: Value, fmt: Format, to: Var) -> None:
    """To a float without arithmetic, by way of float32."""
    b = to.type.dtype
    if fmt is not F32:
        wide = c.temporary(F32)
        c.convert(wide, F32, pointer, fmt)
        pointer = wide
    if b in CONVERTED:
        _to_byte_float(c, pointer, to, CONVERTED[b])
    else:
        encode(c, pointer, b, c.result(to))


def _to_byte_float(c: Emission, pointer: Value, to: Var, target: Format) -> None:
    """The unit gives the largest number where the framework gives infinity, or NaN in a format without it."""
    fmt = F32
    size, beyond, edge = c.temporary(fmt), c.temporary(fmt), c.temporary(fmt)
    c.put("VABS", fmt, size, pointer)
    if target is E5M2:
        c.put("VGES", fmt, beyond, size, Constant(fmt, 61440.0))
        c.put("VMS", fmt, edge, pointer, Constant(fmt, float("inf")))
    else:
        c.put("VGTS", fmt, beyond, size, Constant(fmt, 464.0))
        c.put("VSET", fmt, edge, Constant(fmt, float("nan")))
    c.put("VSEL", fmt, edge, beyond, edge, pointer)
    c.convert(c.result(to), target, edge, fmt)


def converts(dtype: DType) -> bool:
    """Is there a way between this dtype and those the unit computes?"""
    return dtype in FORMATS or dtype in CONVERTED or (bits(dtype) == HALF and is_integer(dtype))
