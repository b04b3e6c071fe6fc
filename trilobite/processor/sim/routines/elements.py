"""Elements of every number format in a routine: how they are read, widened, rounded and written.

Enters: a format, and where an element lies. Leaves: lines of a routine with the number rules of the ISA: NaN
results are canonical, rounding is to nearest even, narrow floats are computed in float32.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from trilobite.native.host import features
from trilobite.processor.isa.formats import BF16, E4M3, E5M2, F16, F32, F64, I4, TF32, Format
from trilobite.processor.sim.routines.text import Code, Value

NAN = {F16: 0x7E00, BF16: 0x7FC0, F32: 0x7FC00000, F64: 0x7FF8000000000000}
WRITABLE_FLOATS = (F16, BF16, F32, F64)
ONE = {F16: 0x3C00, BF16: 0x3F80, F32: 0x3F800000, F64: 0x3FF0000000000000}


def is_known(fmt: Format) -> bool:
    """Whether routines can read and write the format on this host."""
    return fmt in WRITABLE_FLOATS or (fmt.kind != "float" and fmt is not I4)


def is_handy(fmt: Format) -> bool:
    """The same without library calls: half floats need the host's own conversion."""
    return is_known(fmt) and (fmt is not F16 or features().f16c)


def whole(fmt: Format) -> str:
    """The integer type of a format's bits."""
    return f"i{fmt.bits}"


def computed_in(fmt: Format) -> str:
    """The type that results of the format are computed in."""
    if fmt.kind != "float":
        return whole(fmt)
    return "double" if fmt is F64 else "float"


def raw(code: Code, fmt: Format, base: Value, index: Value | int) -> Value:
    """The bits of an element."""
    if fmt is not I4:
        return code.load(whole(fmt), base, index)
    place = index if isinstance(index, Value) else code.constant("i64", index)
    pair = code.load("i8", base, place >> 1)
    return (place & 1).test("ne", 0).choose(pair >> 4, (pair << 4) >> 4)


def wide(code: Code, fmt: Format, bits: Value) -> Value:
    """What units compute with: float32 images of narrow floats, everything else as it is."""
    if fmt.kind != "float":
        return bits
    if fmt is BF16:
        return (bits.cast("zext", "i32") << 16).cast("bitcast", "float")
    if fmt is F16:
        return bits.cast("bitcast", "half").cast("fpext", "float")
    if fmt in (E4M3, E5M2):
        return code.load("float", code.table("float", fmt.name, _images(fmt)), bits.cast("zext", "i64"))
    if fmt is TF32:
        return _tf32(bits)
    return bits.cast("bitcast", computed_in(fmt))


@lru_cache(maxsize=2)
def _images(fmt: Format) -> tuple[float, ...]:
    """The float32 image of every value of an fp8 format."""
    values = np.arange(256).astype(np.uint8).view(fmt.dtype).astype(np.float32)
    return tuple(float(value) for value in values)


def _tf32(bits: Value) -> Value:
    """Ten bits of fraction, to nearest even; infinities stay, NaN becomes canonical."""
    rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & -0x2000
    x = bits.cast("bitcast", "float")
    is_special = (bits & 0x7F800000).test("eq", 0x7F800000)
    special = x.is_nan.choose(bits.code.constant("i32", NAN[F32]), bits)
    return is_special.choose(special, rounded).cast("bitcast", "float")


def read(code: Code, fmt: Format, base: Value, index: Value | int) -> Value:
    return wide(code, fmt, raw(code, fmt, base, index))


def canonical(fmt: Format, value: Value) -> Value:
    """The bits of a computed float; chosen as bits, for LLVM may take any NaN for another."""
    bits = value.cast("bitcast", whole(fmt))
    return value.is_nan.choose(value.code.constant(whole(fmt), NAN[fmt]), bits)


def finish(fmt: Format, value: Value) -> Value:
    """The bits of a result: rounded to the format, NaN canonical; whole numbers as they are."""
    if value.kind not in ("float", "double"):
        return value
    if fmt is F64:
        return canonical(fmt, value.cast("fpext", "double") if value.kind == "float" else value)
    single = value.cast("fptrunc", "float") if value.kind == "double" else value
    if fmt is F32:
        return canonical(fmt, single)
    return narrow(fmt, single)


def narrow(fmt: Format, single: Value) -> Value:
    """A float32 as bits of a 16-bit float."""
    if fmt is F16:
        bits = single.cast("fptrunc", "half").cast("bitcast", "i16")
    else:
        word = single.cast("bitcast", "i32")
        bits = ((word + 0x7FFF + ((word >> 16) & 1)) >> 16).cast("trunc", "i16")
    return single.is_nan.choose(single.code.constant("i16", NAN[fmt]), bits)


def put(code: Code, fmt: Format, base: Value, index: Value | int, value: Value) -> None:
    """Writes a computed value, or bits."""
    code.store(base, index, finish(fmt, value))


def round_to_odd(value: Value) -> Value:
    """A double as the float32 whose last bit tells of lost ones, so that one more rounding sees them."""
    code = value.code
    near = value.cast("fptrunc", "float")
    back = near.cast("fpext", "double")
    bits = near.cast("bitcast", "i32")
    is_larger = code.real("fabs", value).test("ogt", code.real("fabs", back))
    step = is_larger.choose(code.constant("i32", 1), -1)
    is_even = (bits & 1).test("eq", 0)
    is_moved = value.test("one", back) & is_even
    return is_moved.choose(bits + step, bits).cast("bitcast", "float")
