"""Vector rows that work element by element: arithmetic, functions, comparison, logic, bits, selection,
conversion.

Operand order is the Cambricon papers': destination, number of elements, sources. All operands lie in NRAM;
sources are read whole before the destination is written, so operands may overlap in any way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from trilobite.processor.isa import arithmetic
from trilobite.processor.isa.formats import (
    BF16,
    E4M3,
    E5M2,
    F16,
    F32,
    FLOATS,
    I4,
    I8,
    I16,
    I32,
    I64,
    INTEGERS,
    TF32,
    U8,
    U32,
    U64,
    Array,
)
from trilobite.processor.isa.numbers import ROUNDINGS, convert, finish, to_integer
from trilobite.processor.isa.random import uniform
from trilobite.processor.isa.row import (
    JOINED,
    VECTOR,
    Flag,
    IllegalOperands,
    Operands,
    Region,
    Row,
    each,
    operands,
    region,
)
from trilobite.processor.isa.rows.scalar import from_immediate, from_register

ANY = each(*FLOATS, *INTEGERS)
REAL = each(*FLOATS)
WHOLE = each(I32, *(fmt for fmt in INTEGERS if fmt is not I32))
Function = Callable[..., Array]


def vectors(*names: str) -> Callable[[Operands], Sequence[Region]]:
    """Regions of n elements of the first format at each of the named operands."""
    return lambda o: [region(getattr(o, name), o.f0, (o.n,)) for name in names]


def _elementwise(function: Function, o: Operands, *arrays: Array) -> Sequence[Array]:
    return (function(o.f0, *arrays),)


def _with_scalar(function: Function, o: Operands, a: Array) -> Sequence[Array]:
    return (function(o.f0, a, np.broadcast_to(from_register(o.f0, o.s), a.shape)),)


def _with_immediate(function: Function, o: Operands, a: Array) -> Sequence[Array]:
    scalar = from_register(o.f0, from_immediate(o.f0, o.imm))
    return (function(o.f0, a, np.broadcast_to(scalar, a.shape)),)


def _cyclic(function: Function, o: Operands, a: Array, b: Array) -> Sequence[Array]:
    rows = a.reshape(-1, b.size) if b.size else a.reshape(0, 0)  # of no elements nothing is read
    return (function(o.f0, rows, b.reshape(1, -1)).reshape(-1),)


def _cyclic_reads(o: Operands) -> Sequence[Region]:
    if o.n and (o.m < 1 or o.n % o.m):
        raise IllegalOperands(f"{o.n} elements are no whole number of rows of {o.m}")
    return [region(o.a, o.f0, (o.n,)), region(o.b, o.f0, (o.m if o.n else 0,))]


def _row(mnemonic: str, text: str, formats: Any, timing: str, line: str, meaning: Any, *sources: str) -> Row:
    return Row(
        mnemonic, operands(text), formats, VECTOR, timing, line, meaning, vectors(*sources), vectors("dst")
    )


def _binary(mnemonic: str, function: Function, formats: Any, line: str, timing: str = "vector") -> Row:
    return _row(
        mnemonic, "dst n a b", formats, timing, f"dst[i] = {line}", partial(_elementwise, function), "a", "b"
    )


def _unary(mnemonic: str, function: Function, formats: Any, line: str, timing: str = "vector") -> Row:
    return _row(
        mnemonic, "dst n a", formats, timing, f"dst[i] = {line}", partial(_elementwise, function), "a"
    )


def _scalar(mnemonic: str, function: Function, formats: Any, line: str, timing: str = "vector") -> list[Row]:
    """A vector with a scalar: from a register, or as an immediate."""
    return [
        _row(mnemonic, "dst n a s", formats, timing, f"dst[i] = {line}",
             partial(_with_scalar, function), "a"),
        _row(mnemonic, "dst n a #imm", formats, timing, f"dst[i] = {line}, s an immediate",
             partial(_with_immediate, function), "a"),
    ]  # fmt: skip


def _cycle(mnemonic: str, function: Function, formats: Any, line: str, timing: str = "vector") -> Row:
    return Row(
        mnemonic,
        operands("dst n a b m"),
        formats,
        VECTOR,
        timing,
        f"dst[i] = {line}, b of m elements",
        partial(_cyclic, function),
        _cyclic_reads,
        vectors("dst"),
    )


def _reversed(function: Function) -> Function:
    return lambda fmt, a, s: function(fmt, s, a)


_BINARY = [
    _binary("VAV", arithmetic.add, ANY, "a[i] + b[i]"),
    _binary("VSV", arithmetic.subtract, ANY, "a[i] - b[i]"),
    _binary("VMV", arithmetic.multiply, ANY, "a[i] * b[i]"),
    _binary("VDV", arithmetic.divide, ANY, "a[i] / b[i]; integers to zero, by 0 all ones", "vector-divide"),
    _binary(
        "VREM", arithmetic.remainder, WHOLE, "a[i] - b[i] * (a[i] / b[i]); by 0 gives a[i]", "vector-divide"
    ),
    _binary("VGTM", arithmetic.greater_merge, ANY, "a[i] > b[i] ? a[i] : b[i]"),
    _binary("VLTM", arithmetic.less_merge, ANY, "a[i] < b[i] ? a[i] : b[i]"),
    _binary("VGT", arithmetic.greater, ANY, "a[i] > b[i]"),
    _binary("VGE", arithmetic.greater_equal, ANY, "a[i] >= b[i]"),
    _binary("VE", arithmetic.equal, ANY, "a[i] = b[i]"),
    _binary("VNE", arithmetic.not_equal, ANY, "a[i] != b[i]"),
    _binary("VLT", arithmetic.less, ANY, "a[i] < b[i]"),
    _binary("VLE", arithmetic.less_equal, ANY, "a[i] <= b[i]"),
    _binary("VAND", arithmetic.logical_and, ANY, "a[i] and b[i], as truth values 1 and 0"),
    _binary("VOR", arithmetic.logical_or, ANY, "a[i] or b[i], as truth values"),
    _binary("VXOR", arithmetic.logical_xor, ANY, "either a[i] or b[i], as truth values"),
    _binary("VBAND", arithmetic.bit_and, ANY, "a[i] & b[i], bit by bit"),
    _binary("VBOR", arithmetic.bit_or, ANY, "a[i] | b[i], bit by bit"),
    _binary("VBXOR", arithmetic.bit_xor, ANY, "a[i] ^ b[i], bit by bit"),
    _binary("VSHL", arithmetic.shift_left, WHOLE, "a[i] << b[i], modulo the width"),
    _binary("VSHR", arithmetic.shift_right, WHOLE, "a[i] >> b[i], arithmetic for signed formats"),
    _binary("VROL", arithmetic.rotate_left, WHOLE, "a[i] rotated left by b[i]"),
    _binary("VMULH", arithmetic.multiply_high, each(I32, U32, I64, U64), "upper half of a[i] * b[i]"),
]

_UNARY = [
    _unary("VEXP", arithmetic.exp, REAL, "e to the power a[i]", "vector-function"),
    _unary("VEXP2", arithmetic.exp2, REAL, "2 to the power a[i]", "vector-function"),
    _unary("VLOG", arithmetic.log, REAL, "natural logarithm of a[i]", "vector-function"),
    _unary("VLOG2", arithmetic.log2, REAL, "binary logarithm of a[i]", "vector-function"),
    _unary("VSIN", arithmetic.sin, REAL, "sine of a[i]", "vector-function"),
    _unary("VCOS", arithmetic.cos, REAL, "cosine of a[i]", "vector-function"),
    _unary("VTANH", arithmetic.tanh, REAL, "hyperbolic tangent of a[i]", "vector-function"),
    _unary("VSIGM", arithmetic.sigmoid, REAL, "1 / (1 + e to the power -a[i])", "vector-function"),
    _unary("VERF", arithmetic.erf, REAL, "error function of a[i]", "vector-function"),
    _unary("VGELU", arithmetic.gelu, REAL, "a[i] times the normal distribution function", "vector-function"),
    _unary("VSQRT", arithmetic.square_root, REAL, "square root of a[i], correctly rounded", "vector-divide"),
    _unary("VRSQRT", arithmetic.reciprocal_root, REAL, "1 / square root of a[i]", "vector-divide"),
    _unary("VRECIP", arithmetic.reciprocal, REAL, "1 / a[i], correctly rounded", "vector-divide"),
    _unary("VABS", arithmetic.absolute, ANY, "a[i] without its sign"),
    _unary("VNEG", arithmetic.negate, ANY, "-a[i]"),
    _unary("VSIGN", arithmetic.sign, ANY, "-1, 0 or 1 by the sign of a[i]"),
    _unary("VRELU", arithmetic.rectify, ANY, "the larger of a[i] and +0; NaN stays"),
    _unary("VFLOOR", arithmetic.floor, REAL, "a[i] rounded down to a whole number"),
    _unary("VCEIL", arithmetic.ceil, REAL, "a[i] rounded up to a whole number"),
    _unary("VTRUNC", arithmetic.truncate, REAL, "a[i] rounded towards zero"),
    _unary("VRINT", arithmetic.round_even, REAL, "a[i] rounded to the nearest whole number, ties to even"),
    _unary(
        "VROUND", arithmetic.round_away, REAL, "a[i] rounded to the nearest whole number, ties away from 0"
    ),
    _unary("VNOT", arithmetic.logical_not, ANY, "a[i] = 0"),
    _unary("VBNOT", arithmetic.bit_not, ANY, "every bit of a[i] inverted"),
    _unary("VPOPC", arithmetic.population, WHOLE, "number of set bits of a[i]"),
    _unary("VCLZ", arithmetic.leading_zeros, WHOLE, "zeros above the highest set bit of a[i]"),
    _unary("VCTZ", arithmetic.trailing_zeros, WHOLE, "zeros below the lowest set bit of a[i]"),
]

_SCALAR = [
    *_scalar("VAS", arithmetic.add, ANY, "a[i] + s"),
    *_scalar("VSS", arithmetic.subtract, ANY, "a[i] - s"),
    *_scalar("VMS", arithmetic.multiply, ANY, "a[i] * s"),
    *_scalar("VDS", arithmetic.divide, ANY, "a[i] / s", "vector-divide"),
    *_scalar("VRSS", _reversed(arithmetic.subtract), ANY, "s - a[i]"),
    *_scalar("VRDS", _reversed(arithmetic.divide), ANY, "s / a[i]", "vector-divide"),
    *_scalar("VGTMS", arithmetic.greater_merge, ANY, "a[i] > s ? a[i] : s"),
    *_scalar("VLTMS", arithmetic.less_merge, ANY, "a[i] < s ? a[i] : s"),
    *_scalar("VGTS", arithmetic.greater, ANY, "a[i] > s"),
    *_scalar("VGES", arithmetic.greater_equal, ANY, "a[i] >= s"),
    *_scalar("VES", arithmetic.equal, ANY, "a[i] = s"),
    *_scalar("VNES", arithmetic.not_equal, ANY, "a[i] != s"),
    *_scalar("VLTS", arithmetic.less, ANY, "a[i] < s"),
    *_scalar("VLES", arithmetic.less_equal, ANY, "a[i] <= s"),
    *_scalar("VBANDS", arithmetic.bit_and, WHOLE, "a[i] & s, bit by bit"),
    *_scalar("VBORS", arithmetic.bit_or, WHOLE, "a[i] | s, bit by bit"),
    *_scalar("VBXORS", arithmetic.bit_xor, WHOLE, "a[i] ^ s, bit by bit"),
    *_scalar("VSHLS", arithmetic.shift_left, WHOLE, "a[i] << s"),
    *_scalar("VSHRS", arithmetic.shift_right, WHOLE, "a[i] >> s"),
    *_scalar("VROLS", arithmetic.rotate_left, WHOLE, "a[i] rotated left by s"),
]

_CYCLIC = [
    _cycle("VCAV", arithmetic.add, ANY, "a[i] + b[i mod m]"),
    _cycle("VCSV", arithmetic.subtract, ANY, "a[i] - b[i mod m]"),
    _cycle("VCMV", arithmetic.multiply, ANY, "a[i] * b[i mod m]"),
    _cycle("VCDV", arithmetic.divide, ANY, "a[i] / b[i mod m]", "vector-divide"),
    _cycle("VCGTM", arithmetic.greater_merge, ANY, "the larger of a[i] and b[i mod m]"),
    _cycle("VCLTM", arithmetic.less_merge, ANY, "the smaller of a[i] and b[i mod m]"),
    _cycle("VCGT", arithmetic.greater, ANY, "a[i] > b[i mod m]"),
    _cycle("VCGE", arithmetic.greater_equal, ANY, "a[i] >= b[i mod m]"),
    _cycle("VCE", arithmetic.equal, ANY, "a[i] = b[i mod m]"),
    _cycle("VCNE", arithmetic.not_equal, ANY, "a[i] != b[i mod m]"),
    _cycle("VCLT", arithmetic.less, ANY, "a[i] < b[i mod m]"),
    _cycle("VCLE", arithmetic.less_equal, ANY, "a[i] <= b[i mod m]"),
    _cycle("VCAND", arithmetic.logical_and, ANY, "a[i] and b[i mod m], as truth values"),
    _cycle("VCOR", arithmetic.logical_or, ANY, "a[i] or b[i mod m], as truth values"),
]


def _fused(o: Operands, a: Array, b: Array, c: Array) -> Sequence[Array]:
    return (arithmetic.fused(o.f0, a, b, c),)


def _select(o: Operands, mask: Array, a: Array, b: Array) -> Sequence[Array]:
    return (np.where(mask != 0, a, b),)


def _filter(o: Operands, a: Array, mask: Array) -> Sequence[Array]:
    """The kept elements in front, zeros behind, and how many were kept."""
    kept = a[mask != 0]
    out = np.zeros_like(a)
    out[: kept.size] = kept
    return out, np.array(kept.size)


def _pack(o: Operands, a: Array, mask: Array, rest: Array) -> Sequence[Array]:
    """The kept elements in front of what the destination held."""
    kept = a[mask != 0]
    return np.concatenate([kept, rest[kept.size :]]), np.array(kept.size)


def _set(o: Operands) -> Sequence[Array]:
    return (np.repeat(from_register(o.f0, o.s), o.n),)


def _set_immediate(o: Operands) -> Sequence[Array]:
    return (np.repeat(from_register(o.f0, from_immediate(o.f0, o.imm)), o.n),)


def _iota(o: Operands) -> Sequence[Array]:
    start, step = (from_register(o.f0, value).astype(o.f0.dtype) for value in (o.start, o.step))
    index = np.arange(o.n).astype(o.f0.dtype)
    return (arithmetic.add(o.f0, arithmetic.multiply(o.f0, index, step), start),)


def _random(o: Operands) -> Sequence[Array]:
    return (convert(o.f0, F32, uniform(o.seed, o.counter, o.n), "rz"),)


def _joined(o: Operands, a: Array, b: Array) -> Sequence[Array]:
    """Every step in fp32; whole results are rounded, NaN gives the zero point."""
    b_zero, b_scale, scale, zero = (from_register(F32, o.values[name])[0] for name in JOINED)
    with np.errstate(all="ignore"):
        total = a.astype(np.float32) + (b.astype(np.float32) - b_zero) * b_scale
        if o.activation == "relu":
            total = np.where((total > 0) | np.isnan(total), total, np.float32(0))
        steps = total * scale
        if o.f0.kind == "float":
            return (finish(o.f0, steps + zero),)
        found = np.rint(steps) + zero
        return (to_integer(o.f0, np.where(np.isnan(found), zero, found), "rn"),)


JOINS = tuple(product((I8, U8, I16, F32, F16, BF16), (F32, F16, BF16), (I8, U8, I16, F32, F16, BF16)))
CONVERTIBLE = (*INTEGERS, *FLOATS, I4, E4M3, E5M2, TF32)
CONVERSIONS = tuple((to, source) for to in CONVERTIBLE for source in CONVERTIBLE if to is not source)
_MORE = [
    _row("VFMA", "dst n a b c", REAL, "vector", "dst[i] = a[i] * b[i] + c[i], one rounding", _fused,
         "a", "b", "c"),
    _row("VSEL", "dst n mask a b", ANY, "vector", "dst[i] = mask[i] != 0 ? a[i] : b[i]", _select,
         "mask", "a", "b"),
    Row("VFILT", operands("dst n a mask count!"), ANY, VECTOR, "vector-permute",
        "the a[i] with mask[i] != 0 move to the front of dst, zeros follow; count = how many", _filter,
        vectors("a", "mask"), vectors("dst"), scalar_results=("count",)),
    _row("VSET", "dst n s", ANY, "vector", "dst[i] = s", _set),
    _row("VSET", "dst n #imm", ANY, "vector", "dst[i] = the immediate", _set_immediate),
    _row("VIOTA", "dst n start step", ANY, "vector", "dst[i] = start + i * step", _iota),
    _row("RV", "dst n", REAL, "vector-function",
         "dst[i] = the core's next random number in [0, 1), Philox 4x32-10", _random),
    Row("VCVT", operands("dst n a"), CONVERSIONS, VECTOR, "vector",
        "dst[i] = a[i] converted from the second format to the first; see the number rules", lambda o, a: (
            convert(o.f0, o.f1, a, o.rounding),), lambda o: [region(o.a, o.f1, (o.n,))], vectors("dst"),
        flags=(Flag("rounding", ROUNDINGS),)),
    Row("VPACK", operands("dst n a mask count!"), ANY, VECTOR, "vector-permute",
        "the a[i] with mask[i] != 0 move to the front of dst, the rest of dst stays; count = how many", _pack,
        vectors("a", "mask", "dst"), vectors("dst"), scalar_results=("count",)),
    Row("VJOIN", operands("dst n a b join:" + ",".join(JOINED)), JOINS, VECTOR, "vector",
        "dst[i] = act(a[i] + (b[i] - b_zero) * b_scale) * out_scale + out_zero, each step in fp32; integers "
        "are rounded before and after out_zero is added and saturate, NaN gives out_zero; the run is fp32",
        _joined, lambda o: [region(o.a, o.f1, (o.n,)), region(o.b, o.f2, (o.n,))], vectors("dst"),
        flags=(Flag("activation", ("", "relu")),)),
]  # fmt: skip

ROWS = (*_BINARY, *_UNARY, *_SCALAR, *_CYCLIC, *_MORE)
