"""Counter-based random numbers: Philox 4x32 with ten rounds (Salmon and others, 2011).

Enters: a 64-bit key, the number of the first block, a count. Leaves: 32-bit words or uniform float32 in [0,
1). The same key and counter give the same numbers on every machine; nothing is kept here.
"""

from __future__ import annotations

import numpy as np

from trilobite.processor.isa.formats import Array

MULTIPLIERS, WEYL, ROUNDS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85), 10
_M0, _M1 = map(np.uint64, MULTIPLIERS)
_W0, _W1 = WEYL
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox(key: int, first_block: int, count: int) -> Array:
    """`count` 32-bit words of the stream, from block `first_block` on (four words a block)."""
    blocks = np.arange(-(-count // 4), dtype=np.uint64) + np.uint64(first_block & 0xFFFFFFFFFFFFFFFF)
    c = [blocks & _LOW, blocks >> _HALF, np.zeros_like(blocks), np.zeros_like(blocks)]
    k0, k1 = key & 0xFFFFFFFF, (key >> 32) & 0xFFFFFFFF
    for _ in range(ROUNDS):
        p0, p1 = c[0] * _M0, c[2] * _M1
        c = [(p1 >> _HALF) ^ c[1] ^ np.uint64(k0), p1 & _LOW, (p0 >> _HALF) ^ c[3] ^ np.uint64(k1), p0 & _LOW]
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return np.stack(c, axis=-1).reshape(-1)[:count].astype(np.uint32)


def uniform(key: int, first_block: int, count: int) -> Array:
    """The upper 24 bits of each word times 2^-24."""
    return (philox(key, first_block, count) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
