"""Counter-based random bits: Philox 4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw, "Parallel random
numbers: as easy as 1, 2, 3", SC 2011). The same key and counter give the same bits on every target, in any
order, on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import uint32
from trilobite.base.errors import IRError
from trilobite.base.locations import user_location
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Absent, Attributes, Primitive, Value
from trilobite.ir.primitives.common import elements
from trilobite.ir.transforms.batch import all_mapped
from trilobite.ir.types import Dim, Shape, TensorType

Array = np.ndarray[Any, Any]
ROUNDS = 10
MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))
_LOW, _32, _WORD = np.uint64(0xFFFFFFFF), np.uint64(32), 0xFFFFFFFF
_STRIP, _FEW = 4096, 4  # blocks computed at a time; up to how many are computed one by one


def philox(counter: Sequence[Array], key: tuple[Array, Array]) -> list[Array]:
    """Four words from four counter words and two key words; arrays of uint32 of one shape."""
    c0, c1, c2, c3 = (c.astype(np.uint64) for c in counter)
    k0, k1 = key
    p0, p1 = np.empty_like(c0), np.empty_like(c0)
    for _ in range(ROUNDS):
        np.multiply(c0, MULTIPLIERS[0], out=p0)
        np.multiply(c2, MULTIPLIERS[1], out=p1)
        np.bitwise_xor(np.right_shift(p1, _32, out=c0), c1, out=c0)
        np.bitwise_xor(np.right_shift(p0, _32, out=c2), c3, out=c2)
        np.bitwise_xor(c0, k0, out=c0)
        np.bitwise_xor(c2, k1, out=c2)
        np.bitwise_and(p1, _LOW, out=c1)
        np.bitwise_and(p0, _LOW, out=c3)
        k0, k1 = k0 + WEYL[0], k1 + WEYL[1]
    return [c.astype(np.uint32) for c in (c0, c1, c2, c3)]


def philox_block(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """The same for one block, on Python's integers: a tenth of the time that NumPy needs to begin."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    m0, m1, w0, w1 = (int(n) for n in (*MULTIPLIERS, *WEYL))
    for _ in range(ROUNDS):
        p0, p1 = c0 * m0, c2 * m1
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & _WORD, (p0 >> 32) ^ c3 ^ k1, p0 & _WORD
        k0, k1 = (k0 + w0) & _WORD, (k1 + w1) & _WORD
    return c0, c1, c2, c3


def _bits(key: Array, counter: Array, shape: tuple[int, ...], stream: int) -> Array:
    lead = key.shape[:-1]
    total = math.prod(shape)
    blocks = -(-total // 4)
    out = np.empty((*lead, blocks, 4), np.uint32)
    if not lead and blocks <= _FEW:
        first, (k0, k1) = int(counter[0]) | int(counter[1]) << 32, key.tolist()
        for i in range(blocks):
            at = (first + i) & 0xFFFFFFFFFFFFFFFF
            out[i] = philox_block((at & _WORD, at >> 32, 0, stream), (k0, k1))
    else:
        _fill(out, key, counter, stream)
    return out.reshape((*lead, blocks * 4))[..., :total].reshape((*lead, *shape))


def _fill(out: Array, key: Array, counter: Array, stream: int) -> None:
    """All blocks, in strips that stay in the cache through all rounds."""
    first = counter[..., :1].astype(np.uint64) | (counter[..., 1:].astype(np.uint64) << _32)
    for start in range(0, out.shape[-2], _STRIP):
        strip = out[..., start : start + _STRIP, :]
        index = first + np.arange(start, start + strip.shape[-2], dtype=np.uint64)
        counters = [index & _LOW, index >> _32, np.zeros_like(index), np.full_like(index, stream)]
        for j, words in enumerate(philox(counters, (key[..., :1], key[..., 1:]))):
            strip[..., j] = words


def _type(key: TensorType, counter: TensorType, shape: Shape, stream: int) -> TensorType:
    if key != counter or key.dtype != uint32 or key.shape[-1:] != (2,):
        raise IRError(
            f"random_bits takes a key and a counter of two uint32 words each, not {key} and {counter}",
            where=user_location(),
        )
    return TensorType((*key.shape[:-1], *shape), uint32)


def _batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
    return random_bits(*all_mapped(size, values, mapped), **attrs)


random_bits: Primitive = Primitive(
    "random_bits", "key counter", type=_type, evaluate=array_rule(_bits),
    jvp=Absent("bits have no slope"), vjp=Absent("bits have no slope"), batch=_batch,
    cost=lambda i, o, a: 20 * elements(o),
    doc="word i is word i mod 4 of Philox block counter + i div 4 under the key; streams never overlap",
)  # fmt: skip
