"""How tensors are stored in GGUF: one row a type, with its block as a record and its values as a formula.

The formulas stand in `plain` (numbers and blocks of 32), `k_quants` (super-blocks of 256 with scales of their
own), `i_quants` (indices into tables of points) and `ternary`. All of them take an array of records and give
float32, one row of `block` numbers a record; numbers are as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from trilobite.inference.formats.gguf import i_quants, k_quants, plain, ternary
from trilobite.inference.formats.mapped import Array


class BlockType(NamedTuple):
    """A name, the numbers a block holds, a block's record, and what turns records into numbers."""

    name: str
    block: int
    record: np.dtype[Any]
    values: Callable[[Array], Array]


def _number(name: str, dtype: Any) -> BlockType:
    return BlockType(name, 1, np.dtype(dtype), lambda x: x)


def _blocks(name: str, block: int, fields: str, values: Callable[[Array], Array]) -> BlockType:
    """`fields`: `name:dtype` or `name:dtype*count`, in the order in which they lie."""
    rows: list[Any] = []
    for field in fields.split():
        label, _, form = field.partition(":")
        form, _, count = form.partition("*")
        rows.append((label, "<" + form, (int(count),)) if count else (label, "<" + form))
    return BlockType(name, block, np.dtype(rows), values)


TYPES: dict[int, BlockType] = {
    0: _number("F32", np.float32),
    1: _number("F16", np.float16),
    2: _blocks("Q4_0", 32, "d:f2 qs:u1*16", plain.q4_0),
    3: _blocks("Q4_1", 32, "d:f2 m:f2 qs:u1*16", plain.q4_1),
    6: _blocks("Q5_0", 32, "d:f2 qh:u4 qs:u1*16", plain.q5_0),
    7: _blocks("Q5_1", 32, "d:f2 m:f2 qh:u4 qs:u1*16", plain.q5_1),
    8: _blocks("Q8_0", 32, "d:f2 qs:i1*32", plain.q8),
    9: _blocks("Q8_1", 32, "d:f2 s:f2 qs:i1*32", plain.q8),
    10: _blocks("Q2_K", 256, "scales:u1*16 qs:u1*64 d:f2 dmin:f2", k_quants.q2),
    11: _blocks("Q3_K", 256, "hmask:u1*32 qs:u1*64 scales:u1*12 d:f2", k_quants.q3),
    12: _blocks("Q4_K", 256, "d:f2 dmin:f2 scales:u1*12 qs:u1*128", k_quants.q4),
    13: _blocks("Q5_K", 256, "d:f2 dmin:f2 scales:u1*12 qh:u1*32 qs:u1*128", k_quants.q5),
    14: _blocks("Q6_K", 256, "ql:u1*128 qh:u1*64 scales:i1*16 d:f2", k_quants.q6),
    15: _blocks("Q8_K", 256, "d:f4 qs:i1*256 bsums:i2*16", plain.q8),
    16: _blocks("IQ2_XXS", 256, "d:f2 qs:u4*16", i_quants.iq2_xxs),
    17: _blocks("IQ2_XS", 256, "d:f2 qs:u2*32 scales:u1*8", i_quants.iq2_xs),
    18: _blocks("IQ3_XXS", 256, "d:f2 qs:u1*64 signs:u4*8", i_quants.iq3_xxs),
    19: _blocks("IQ1_S", 256, "d:f2 qs:u1*32 qh:u2*8", i_quants.iq1_s),
    20: _blocks("IQ4_NL", 32, "d:f2 qs:u1*16", i_quants.iq4_nl),
    21: _blocks("IQ3_S", 256, "d:f2 qs:u1*64 qh:u1*8 signs:u1*32 scales:u1*4", i_quants.iq3_s),
    22: _blocks("IQ2_S", 256, "d:f2 qs:u1*32 signs:u1*32 qh:u1*8 scales:u1*8", i_quants.iq2_s),
    23: _blocks("IQ4_XS", 256, "d:f2 scales_h:u2 scales_l:u1*4 qs:u1*128", i_quants.iq4_xs),
    24: _number("I8", np.int8),
    25: _number("I16", np.int16),
    26: _number("I32", np.int32),
    27: _number("I64", np.int64),
    28: _number("F64", np.float64),
    29: _blocks("IQ1_M", 256, "qs:u1*32 qh:u1*16 scales:u2*4", i_quants.iq1_m),
    30: _number("BF16", ml_dtypes.bfloat16),
    34: _blocks("TQ1_0", 256, "qs:u1*48 qh:u1*4 d:f2", ternary.tq1_0),
    35: _blocks("TQ2_0", 256, "qs:u1*64 d:f2", ternary.tq2_0),
    39: _blocks("MXFP4", 32, "e:u1 qs:u1*16", plain.mxfp4),
    40: _blocks("NVFP4", 64, "d:u1*4 qs:u1*32", plain.nvfp4),
}
"""By the number that a file has for it."""
