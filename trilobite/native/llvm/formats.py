"""How elements change between memory and registers, and how floats are rounded to small formats.

Enters: a dtype and a `Value` in one form. Leaves: it in the other. Small formats are widened exactly and
rounded to nearest even by integer code, because LLVM's own conversions of them are library calls; float16
uses the machine's instruction where there is one.
"""

from __future__ import annotations

from typing import Literal

from trilobite.base.dtypes import (
    DType,
    bfloat16,
    bool_,
    float4_e2m1fn,
    float8_e3m4,
    float8_e4m3,
    float8_e4m3b11fnuz,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    int4,
    uint4,
)
from trilobite.base.records import dataclass
from trilobite.native.llvm.arithmetic import Arithmetic
from trilobite.native.llvm.types import Value, constant, element_of


@dataclass(frozen=True)
class Format:
    """A sign bit, then exponent, then mantissa. `special` says what the highest codes are: `ieee` infinity
    and NaNs, `fn` one NaN with all bits set, `uz` one NaN in the place of -0, `none` numbers like the others.
    """

    exponent: int
    mantissa: int
    bias: int
    special: Literal["ieee", "fn", "uz", "none"]

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.mantissa)

    @property
    def highest(self) -> int:
        """The code of the largest finite number."""
        if self.special == "ieee":
            return self.infinity - 1
        return self.sign - 2 if self.special == "fn" else self.sign - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def beyond(self) -> int:
        """The code of what is too large, without its sign."""
        return {"ieee": self.infinity, "fn": self.sign - 1, "uz": self.sign, "none": self.highest}[
            self.special
        ]

    @property
    def nan(self) -> int:
        """The code of NaN, without its sign."""
        quiet = self.infinity | 1 << (self.mantissa - 1)
        return {"ieee": quiet, "fn": self.sign - 1, "uz": self.sign, "none": self.sign}[self.special]


FORMATS = {
    float16: Format(5, 10, 15, "ieee"),
    float8_e5m2: Format(5, 2, 15, "ieee"),
    float8_e4m3: Format(4, 3, 7, "ieee"),
    float8_e3m4: Format(3, 4, 3, "ieee"),
    float8_e4m3fn: Format(4, 3, 7, "fn"),
    float8_e4m3fnuz: Format(4, 3, 8, "uz"),
    float8_e5m2fnuz: Format(5, 2, 16, "uz"),
    float8_e4m3b11fnuz: Format(4, 3, 11, "uz"),
    float4_e2m1fn: Format(2, 1, 1, "none"),
}
_NAN, _SIGN = 0x7FC00000, 1 << 31


def to_register(t: Arithmetic, dtype: DType, raw: Value) -> Value:
    """From memory form."""
    if dtype == bool_:
        return t.icmp("ne", raw, 0)
    if dtype == int4:
        return t.ashr(t.shl(raw, 4), 4)
    if dtype == uint4:
        return t.and_(raw, 15)
    if dtype == float16 and t.host.f16c:
        return t.convert("fpext", raw, "float")
    if dtype in FORMATS or dtype in (bfloat16, float8_e8m0fnu):
        return widened(t, dtype, t.bits(raw))
    return raw


def to_memory(t: Arithmetic, dtype: DType, value: Value) -> Value:
    """To memory form; floats round to nearest even."""
    if dtype == bool_:
        return t.convert("zext", value, "i8")
    if dtype in (int4, uint4):
        return t.and_(value, 15)
    if dtype == float16 and t.host.f16c:
        return t.convert("fptrunc", _as_float(t, dtype, value), "half")
    if dtype == float16:
        return t.convert("bitcast", narrowed(t, dtype, value), "half")
    if dtype in FORMATS or dtype in (bfloat16, float8_e8m0fnu):
        return narrowed(t, dtype, value)
    return value


def rounded(t: Arithmetic, dtype: DType, value: Value) -> Value:
    """A float in registers, rounded to what `dtype` can hold."""
    return to_register(t, dtype, to_memory(t, dtype, value))


# -- widening ----------------------------------------------------------------------------------------------


def widened(t: Arithmetic, dtype: DType, code: Value) -> Value:
    """The bits of a small float (as an integer of its storage) as float; exact."""
    word = t.convert("zext", code, "i32")
    if dtype == bfloat16:
        return t.as_float(t.shl(word, 16))
    if dtype == float8_e8m0fnu:
        power = t.select(t.icmp("eq", word, 0), 1 << 22, t.shl(word, 23))
        return t.as_float(t.select(t.icmp("eq", word, 255), _NAN, power))
    return _widened(t, FORMATS[dtype], word)


def _widened(t: Arithmetic, f: Format, word: Value) -> Value:
    size = t.and_(word, f.sign - 1)
    normal = t.add(t.shl(size, 23 - f.mantissa), (127 - f.bias) << 23)
    # Below the smallest normal number the mantissa alone counts, in steps of the smallest number.
    steps = t.convert("sitofp", size, "float")
    small = t.bits(t.fmul(steps, 2.0 ** (1 - f.bias - f.mantissa)))
    bits = t.select(t.icmp("ult", size, 1 << f.mantissa), small, normal)
    sign = t.shl(t.and_(word, f.sign), 31 - f.exponent - f.mantissa)
    if f.special == "ieee":
        # Infinity and NaN keep their payload; NaN is quiet.
        payload = t.or_(t.shl(size, 23 - f.mantissa), 0x7F800000)
        quiet = t.select(t.icmp("ugt", size, f.infinity), t.or_(payload, 1 << 22), payload)
        bits = t.select(t.icmp("uge", size, f.infinity), quiet, bits)
    elif f.special == "fn":
        bits = t.select(t.icmp("eq", size, f.sign - 1), _NAN, bits)
    elif f.special == "uz":
        bits = t.select(t.icmp("eq", t.and_(word, 2 * f.sign - 1), f.sign), _NAN, bits)
    return t.as_float(t.or_(bits, sign))


# -- rounding ----------------------------------------------------------------------------------------------


def narrowed(t: Arithmetic, dtype: DType, value: Value) -> Value:
    """A float or a double as the bits of a small format, in an integer of its storage."""
    value = _as_float(t, dtype, value)
    word = t.bits(value)
    if dtype == bfloat16:
        return t.convert("trunc", t.lshr(_bfloat16(t, value, word), 16), "i16")
    if dtype == float8_e8m0fnu:
        return t.convert("trunc", _power_of_two(t, value, word), "i8")
    storage = f"i{8 * dtype.itemsize}"
    return t.convert("trunc", _narrowed(t, FORMATS[dtype], value, word), storage)


def _bfloat16(t: Arithmetic, value: Value, word: Value) -> Value:
    odd = t.and_(t.lshr(word, 16), 1)
    near = t.add(t.add(word, 0x7FFF), odd)
    return t.select(t.fcmp("uno", value, value), t.or_(t.and_(word, _SIGN), _NAN), near)


def _power_of_two(t: Arithmetic, value: Value, word: Value) -> Value:
    """e8m0: the exponent alone; what is not a positive number is NaN."""
    # Halfway goes up: there is no mantissa whose last bit could be even.
    near = t.lshr(t.add(word, 1 << 22), 23)
    # Between the two smallest powers, 2^-127 and 2^-126, ml_dtypes goes up.
    low = t.convert("zext", t.icmp("ugt", word, 1 << 22), "i32")
    code = t.select(t.icmp("ult", word, 1 << 23), low, near)
    positive = t.fcmp("ogt", value, 0.0)
    finite = t.and_(positive, t.icmp("ult", code, 255))
    return t.select(finite, code, 255)


def _narrowed(t: Arithmetic, f: Format, value: Value, word: Value) -> Value:
    size = t.and_(word, _SIGN - 1)
    shift = 23 - f.mantissa
    odd = t.and_(t.lshr(size, shift), 1)
    near = t.lshr(t.add(t.add(size, (1 << (shift - 1)) - 1), odd), shift)
    normal = t.sub(near, (127 - f.bias) << f.mantissa)
    # Added to a number whose last place is the smallest number of the format, the sum rounds as it should.
    anchor = constant(value.type, 2.0 ** (24 - f.bias - f.mantissa))
    sum_bits = t.bits(t.fadd(t.as_float(size), anchor))
    small = t.sub(sum_bits, t.bits(anchor))
    code = t.select(t.icmp("ult", size, (128 - f.bias) << 23), small, normal)
    code = t.select(t.icmp("ugt", code, f.highest), f.beyond, code)
    sign = t.lshr(t.and_(word, _SIGN), 31 - f.exponent - f.mantissa)
    nan = t.icmp("ugt", size, 0x7F800000)
    if f.special == "none":  # NaN becomes zero, with its sign turned over as ml_dtypes does
        return t.xor(t.select(nan, f.nan, code), sign)
    code = t.select(nan, f.nan, code)
    if f.special != "uz":
        return t.or_(code, sign)
    # There is no -0: its code is NaN, and NaN has no sign.
    bare = t.icmp("eq", t.and_(code, f.sign - 1), 0)
    return t.select(bare, code, t.or_(code, sign))


def _as_float(t: Arithmetic, dtype: DType, value: Value) -> Value:
    """A double on its way to a small format. NumPy rounds it once to float16; ml_dtypes, whose formats the
    others are, rounds it to float first, and so do we.
    """
    if element_of(value.type) != "double":
        return value
    return _round_to_odd(t, value) if dtype == float16 else t.convert("fptrunc", value, "float")


def _round_to_odd(t: Arithmetic, value: Value) -> Value:
    """A double as float so that rounding it again to 22 bits or fewer gives what rounding once gives: what is
    not exact is cut towards zero and its last bit set (Boldo and Melquiond, "Emulation of a FMA and correctly
    rounded sums", IEEE Trans. Computers 57, 2008).
    """
    near = t.convert("fptrunc", value, "float")
    back = t.convert("fpext", near, "double")
    bits = t.bits(near)
    over = t.convert("zext", t.fcmp("ogt", t.fabs(back), t.fabs(value)), "i32")
    cut = t.or_(t.sub(bits, over), 1)
    return t.as_float(t.select(t.fcmp("one", back, value), cut, bits))
