"""Casts by value, bitcasts and quantisation, between all real dtypes; bit for bit as ir/primitives defines.

Enters: a `Value` in register form of one dtype. Leaves: it in register form of another. Floats to integers
truncate, saturate and make 0 of NaN; integers wrap around; floats round once to nearest even.
"""

from __future__ import annotations

from trilobite.base.dtypes import (
    DType,
    bits,
    bool_,
    float32,
    float64,
    int4,
    int32,
    is_float,
    is_signed,
    uint4,
    uint32,
)
from trilobite.compiler.targets.cpu.emit.rounding import rint
from trilobite.ir.primitives.common import float_range, integer_range
from trilobite.native.llvm import formats
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import (
    REGISTER,
    constant,
    element_of,
    lanes_of,
    mangled,
    memory_type,
    with_element,
)


def wrap(t: Text, dtype: DType, value: Value) -> Value:
    """A 4-bit integer in its byte, after arithmetic may have left its range."""
    if dtype == int4:
        return t.ashr(t.shl(value, 4), 4)
    return t.and_(value, 15) if dtype == uint4 else value


def cast(t: Text, value: Value, source: DType, target: DType) -> Value:
    """The meaning of `cast`."""
    if source == target:
        return value
    if target == bool_:
        zero = 0.0 if is_float(source) else 0
        return t.fcmp("une", value, zero) if is_float(source) else t.icmp("ne", value, zero)
    if is_float(target):
        return to_float(t, value, source, target)
    if is_float(source):
        return _saturated(t, value, target)
    return wrap(t, target, _resized(t, value, source, REGISTER[target]))


def _resized(t: Text, value: Value, source: DType, element: str) -> Value:
    if bits_of(value) > int(element[1:]):
        return t.convert("trunc", value, element)
    return t.convert("sext" if is_signed(source) else "zext", value, element)


def bits_of(value: Value) -> int:
    return int(element_of(value.type)[1:])


def to_float(t: Text, value: Value, source: DType, target: DType) -> Value:
    if not is_float(source):
        wide = t.convert("sitofp" if is_signed(source) else "uitofp", value, REGISTER[target])
        return wide if target in (float32, float64) else formats.rounded(t, target, wide)
    if target == float64:
        return t.convert("fpext", value, "double")
    if target == float32:
        return t.convert("fptrunc", value, "float") if source == float64 else value
    return formats.rounded(t, target, value)


def _saturated(t: Text, value: Value, target: DType) -> Value:
    """Truncated; beyond the range its ends, and 0 for NaN."""
    if bits(target) == 64 or target == uint32:
        # Their intrinsics work lane by lane, and so would everything else before AVX-512.
        name = "fptosi.sat" if is_signed(target) else "fptoui.sat"
        type = with_element(value.type, REGISTER[target])
        return t.intrinsic(name, type, value, suffix=f"{mangled(type)}.{mangled(value.type)}")
    low, high = integer_range(target)
    # The highest float that does not exceed the range: for int32 there is no float 2^31 - 1.
    edge = 2.0**31 - 128 if element_of(value.type) == "float" and target == int32 else float(high)
    known = t.select(t.fcmp("ord", value, value), value, 0.0)
    inside = t.convert("fptosi", t.fmin(t.fmax(known, float(low)), edge), "i32")
    if edge != high:
        inside = t.select(t.fcmp("ogt", known, edge), constant(inside.type, high), inside)
    return t.convert("trunc", inside, REGISTER[target])


def bitcast(t: Text, value: Value, source: DType, target: DType) -> Value:
    """The same bits read as another dtype of the same width."""
    raw = formats.to_memory(t, source, value)
    element = element_of(memory_type(target, lanes_of(value.type)))
    return formats.to_register(t, target, t.convert("bitcast", raw, element))


# -- quantisation ------------------------------------------------------------------------------------------


def _width(*dtypes: DType) -> DType:
    return float64 if float64 in dtypes or int32 in dtypes else float32


def quantise(t: Text, x: Value, scale: Value, zero: Value, source: DType, target: DType) -> Value:
    """x/scale to nearest even, plus the zero point, held inside the range; NaN gives the zero point."""
    wide = _width(source, target)
    xw, sw, zw = (cast(t, v, d, wide) for v, d in ((x, source), (scale, source), (zero, target)))
    steps = t.fdiv(xw, sw)
    if is_float(target):
        low, high = float_range(target)
        held = t.fmin(high, t.fmax(low, t.fadd(steps, zw)))  # constants first: NaN stays
        return formats.rounded(t, target, held)
    return _on_grid(t, steps, zero, zw, target)


def quantise_product(t: Text, x: Value, zero: Value, target: DType, factor: float, rest: float) -> Value:
    """The same without a division: see `quantise_product`."""
    by, more = (t.constant(x.type, n) for n in (factor, rest))
    steps = t.fma(x, by, t.fmul(x, more)) if rest else t.fmul(x, by)
    return _on_grid(t, steps, zero, cast(t, zero, target, float32), target)


def requantise(t: Text, x: Value, scale: Value, zero: Value, source: DType, target: DType) -> Value:
    """x·scale in float64 to nearest even, plus the zero point, held inside the range."""
    xw, sw, zw = (cast(t, v, d, float64) for v, d in ((x, source), (scale, float32), (zero, target)))
    return _on_grid(t, t.fmul(xw, sw), zero, zw, target)


_WHOLE = 1.5 * 2.0**23  # float32 beside it are whole numbers: a sum with it rounds to nearest even


def requantise_single(t: Text, x: Value, scale: Value, zero: Value, target: DType) -> Value:
    """The same in float32, for scales that `requantise_single` allows: product, sum and rounding are one
    instruction, so the product is rounded once, to a whole number.
    """
    factor = t.convert("sitofp", x, "float")
    point = to_float(t, zero, target, float32)
    low, high = (t.fsub(t.constant(point.type, _WHOLE + n), point) for n in integer_range(target))
    moved = t.fmin(high, t.fmax(low, t.fma(factor, scale, t.constant(factor.type, _WHOLE))))
    number = t.add(t.bits(moved), _resized(t, zero, target, "i32"))  # _WHOLE has no low bits of its own
    return wrap(t, target, t.convert("trunc", number, REGISTER[target]))


def _on_grid(t: Text, steps: Value, zero: Value, zw: Value, target: DType) -> Value:
    """Steps to nearest even, plus the zero point (which `zw` is in the steps' dtype); NaN gives it alone."""
    # Held inside the range before it is rounded, which one instruction then does together with the cast.
    bottom, top = (t.fsub(t.constant(zw.type, float(n)), zw) for n in integer_range(target))
    known = t.select(t.fcmp("uno", steps, steps), t.constant(steps.type, 0.0), steps)
    near = rint(t, t.fmin(top, t.fmax(bottom, known)))
    if target == int32:  # the steps alone may need more bits
        return t.convert("fptosi", t.fadd(near, zw), "i32")
    number = t.add(t.convert("fptosi", near, "i32"), _resized(t, zero, target, "i32"))
    return wrap(t, target, t.convert("trunc", number, REGISTER[target]))


def dequantise(t: Text, q: Value, scale: Value, zero: Value, source: DType, target: DType) -> Value:
    """(q - zero point)·scale in the scale's dtype."""
    wide = _width(source, target)
    qw, zw, sw = (cast(t, v, d, wide) for v, d in ((q, source), (zero, source), (scale, target)))
    return cast(t, t.fmul(t.fsub(qw, zw), sw), wide, target)
