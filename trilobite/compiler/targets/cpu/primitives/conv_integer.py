"""Convolutions and products of 8-bit integers with int32 sums, as the CPU target runs them.

Made by the compiler after derivatives and batching. Activations are bytes x[N, *space, C] from which `zero`
is taken: int8 becomes uint8 by adding 128. Around them is the byte `outside` (None: `zero`). Without spatial
axes it is a product, x[..., K] to [..., columns].

A weight is one run of 32-bit words, made for instructions that multiply neighbours and add them. Word 0 is
the form, then 31 words of 16-bit ones, which kernels multiply by (the widest vector, of 16 words, begins at
word 1); then the panels of every group, each a row of `lanes` sums to begin with (-zero times the sum of a
column) and, for every tap and every four channels, one row (form 1) of four bytes to a lane or two rows
(form 2) of two 16-bit numbers to a lane. Form 1 takes half the memory and is chosen where all numbers are
signed bytes and |a| + |b| <= `limit` for all neighbours: 128 where sums of two products are kept in 16 bits,
which hold 255·128; 256, which is always so, where there is VNNI; 0 where bytes are not multiplied.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trilobite.base.dtypes import DType, bits, int8, int32, is_integer, uint8
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.base.quiet import array_rule
from trilobite.compiler.targets.cpu.primitives.conv_last import channels_first, channels_last, surrounded
from trilobite.ir.graph import Equation
from trilobite.ir.primitive import TargetPrimitive, table
from trilobite.ir.primitives import conv as _first  # noqa: F401 (the meaning is its rules)
from trilobite.ir.primitives.common import count, elements
from trilobite.ir.primitives.conv_geometry import Ints
from trilobite.ir.types import TensorType, size_of

Array = np.ndarray[Any, Any]
HEADER = 32
"""Words before the first panel."""
ONES = 0x00010001
"""Of which the header is full, but for its first word."""
IN_16_BITS, ANY_BYTES = 128, 256
"""Limits of form 1 (`neighbours_limit`)."""
_SIGNED = 127  # the largest signed byte


def outside_of(e: Equation) -> int:
    """The byte around the images of a convolution."""
    value = e.attributes.get("outside")
    return int(e.attributes["zero"] if value is None else value)


def quads(depth: int) -> int:
    """Channels of a group in fours, the last filled up with zeros."""
    return -(-depth // 4)


def panel_words(depth: int, taps: int, lanes: int, form: int) -> int:
    """Of one panel, with its row of sums."""
    return (1 + taps * quads(depth) * form) * lanes


def weight_words(filters: int, depth: int, taps: int, groups: int, lanes: int) -> int:
    """Of a whole weight: there is room for the larger form."""
    panels = groups * -(-(filters // groups) // lanes)
    return HEADER + panels * panel_words(depth, taps, lanes, 2)


# -- weights -------------------------------------------------------------------------------------------------


def _sizes(w: TensorType | Array, transposed: bool) -> tuple[int, int, int]:
    """Filters, channels of a filter, taps."""
    filters, depth = (w.shape[1], w.shape[0]) if transposed else w.shape[:2]
    return int(filters), int(depth), math.prod(int(n) for n in w.shape[2:])


def _panels_type(
    w: TensorType, groups: int, lanes: int, zero: int, limit: int, transposed: bool
) -> TensorType:
    if w.dtype not in (int8, uint8):
        raise DTypeError(f"conv_integer_panels of {w}", expected="int8 or uint8")
    known = all(isinstance(n, int) for n in w.shape)
    if w.ndim < 2 or not known or w.shape[0] % groups or lanes < 1 or (transposed and w.ndim != 2):
        raise ShapeError(
            f"conv_integer_panels of {w} in {groups} groups, {lanes} lanes",
            expected="(filters, channels, *kernel) of fixed sizes, or (channels, filters) if transposed",
        )
    filters, depth, taps = _sizes(w, transposed)
    return TensorType((weight_words(filters, depth, taps, groups, lanes),), int32)


def _panels(w: Array, groups: int, lanes: int, zero: int, limit: int, transposed: bool) -> Array:
    filters, depth, taps = _sizes(w, transposed)
    each = filters // groups
    panels, fours = -(-each // lanes), quads(depth)
    numbers = (w.T if transposed else w).astype(np.int32).reshape(groups, each, depth, taps)
    filled = np.zeros((groups, panels * lanes, fours * 4, taps), np.int32)
    filled[:, :each, :depth] = numbers
    cut = filled.reshape(groups, panels, lanes, fours, 2, 2, taps)
    fits = np.abs(cut).sum(axis=5).max(initial=0) <= limit and cut.max(initial=0) <= _SIGNED
    form = 1 if limit and fits else 2
    if form == 1:
        rows = cut.transpose(0, 1, 6, 3, 2, 4, 5).astype(np.int8)
    else:
        rows = cut.transpose(0, 1, 6, 3, 4, 2, 5).astype(np.int16)
    body = np.ascontiguousarray(rows).reshape(groups * panels, -1).view(np.int32)
    start = (-zero * filled.sum(axis=(2, 3))).astype(np.int32).reshape(groups * panels, lanes)
    out = np.zeros(weight_words(filters, depth, taps, groups, lanes), np.int32)
    whole = np.concatenate([start, body], axis=1).reshape(-1)
    out[0], out[1:HEADER] = form, ONES
    out[HEADER : HEADER + whole.size] = whole
    return out


def unpacked(w: Array, filters: int, depth: int, kernel: Ints, groups: int, lanes: int) -> Array:
    """The numbers of a weight in words, (filters, channels, *kernel) of int32."""
    taps, form, fours = math.prod(kernel), int(w[0]), quads(depth)
    each = filters // groups
    panels, words = -(-each // lanes), panel_words(depth, taps, lanes, form)
    body = w[HEADER : HEADER + groups * panels * words].reshape(groups * panels, words)[:, lanes:]
    small = np.ascontiguousarray(body).view(np.int8 if form == 1 else np.int16)
    if form == 1:
        rows = small.reshape(groups, panels, taps, fours, lanes, 2, 2).transpose(0, 1, 4, 3, 5, 6, 2)
    else:
        rows = small.reshape(groups, panels, taps, fours, 2, lanes, 2).transpose(0, 1, 5, 3, 4, 6, 2)
    filled = rows.reshape(groups, panels * lanes, fours * 4, taps).astype(np.int32)
    return filled[:, :each, :depth].reshape(filters, depth, *kernel)


# -- the convolution -----------------------------------------------------------------------------------------


def _conv_type(
    x: TensorType, w: TensorType, columns: int, kernel: Ints, groups: int, lanes: int, zero: int,
    dtype: DType, outside: int | None = None, **window: Any,
) -> TensorType:  # fmt: skip
    if x.dtype != uint8 or w.dtype != int32 or not is_integer(dtype) or bits(dtype) > 32:
        raise DTypeError(
            f"conv_integer of {x} and {w} to {dtype}", expected="uint8, words of int32, at most 32 bits"
        )
    depth = x.shape[-1]
    if not isinstance(depth, int) or w.shape != (
        weight_words(columns * groups, depth // groups, math.prod(kernel), groups, lanes),
    ):
        raise ShapeError(f"conv_integer of {x} and {w}", expected="the value of conv_integer_panels")
    if not kernel:
        return TensorType((*x.shape[:-1], columns), dtype)
    weight = TensorType((columns * groups, depth // groups, *kernel), x.dtype)
    first = TensorType(channels_first(x.shape), x.dtype)
    found = table["conv"].type(first, weight, groups=groups, dtype=dtype, **window)
    return TensorType(channels_last(found.shape), dtype)


def _conv(
    x: Array, w: Array, columns: int, kernel: Ints, groups: int, lanes: int, zero: int, dtype: DType,
    outside: int | None = None, **window: Any,
) -> Array:  # fmt: skip
    numbers = x.astype(np.int32) - np.int32(zero)
    if outside is not None:
        numbers, window = surrounded(numbers, outside - zero, window)
    depth = x.shape[-1]
    weight = unpacked(w, columns * groups, depth // groups, kernel, groups, lanes)
    if not kernel:
        return np.asarray(np.matmul(numbers, weight.T), dtype)
    first = np.moveaxis(numbers, -1, 1)
    found = table["conv"].evaluate(first, weight, groups=groups, dtype=int32, **window)
    return np.ascontiguousarray(np.moveaxis(found, 1, -1)).astype(dtype)


conv_integer_panels = TargetPrimitive(
    "conv_integer_panels", "w", type=_panels_type, evaluate=array_rule(_panels),
    cost=lambda i, o, a: elements(o),
    doc="an 8-bit weight (K, C/groups, *kernel) as words of four bytes or two 16-bit numbers, in panels",
)  # fmt: skip

conv_integer = TargetPrimitive(
    "conv_integer", "x w", type=_conv_type, evaluate=array_rule(_conv),
    cost=lambda i, o, a: (
        2.0 * count(o[0].size) * count(i[0].shape[-1]) * count(size_of(a["kernel"])) / a["groups"]
    ),
    doc="conv of bytes x[N, *space, C] less `zero`, or a product of x[..., K]; w: see conv_integer_panels",
)  # fmt: skip
