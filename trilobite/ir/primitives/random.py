"""Counter-based random bits: Philox 4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw, "Parallel random
numbers: as easy as 1, 2, 3", SC 2011). The same key and counter give the same bits on every target, in any
order, on any machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import uint32
from trilobite.base.errors import IRError
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Absent, Attributes, Primitive, Value
from trilobite.ir.primitives.common import elements
from trilobite.ir.transforms.batch import all_mapped
from trilobite.ir.types import Dim, Shape, TensorType

Array = np.ndarray[Any, Any]
ROUNDS = 10
MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))
_LOW, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox(counter: Sequence[Array], key: tuple[Array, Array]) -> list[Array]:
    """Four words from four counter words and two key words; arrays of uint32 of one shape."""
    c0, c1, c2, c3 = (c.astype(np.uint64) for c in counter)
    k0, k1 = key
    for _ in range(ROUNDS):
        p0, p1 = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1, c2, c3 = (p1 >> _32) ^ c1 ^ k0, p1 & _LOW, (p0 >> _32) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = k0 + WEYL[0], k1 + WEYL[1]
    return [c.astype(np.uint32) for c in (c0, c1, c2, c3)]


def _bits(key: Array, counter: Array, shape: tuple[int, ...], stream: int) -> Array:
    lead = key.shape[:-1]
    total = int(np.prod(shape, dtype=np.int64))
    blocks = -(-total // 4)
    start = (counter[..., :1].astype(np.uint64) | (counter[..., 1:].astype(np.uint64) << _32)).reshape(
        *lead, 1
    )
    index = start + np.arange(blocks, dtype=np.uint64)
    words = [index & _LOW, index >> _32, np.zeros_like(index), np.full_like(index, stream)]
    out = np.stack(philox(words, (key[..., :1], key[..., 1:])), axis=-1).reshape(*lead, blocks * 4)
    return out[..., :total].reshape((*lead, *shape))


def _type(key: TensorType, counter: TensorType, shape: Shape, stream: int) -> TensorType:
    if key != counter or key.dtype != uint32 or key.shape[-1:] != (2,):
        raise IRError(
            f"random_bits takes a key and a counter of two uint32 words each, not {key} and {counter}"
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
