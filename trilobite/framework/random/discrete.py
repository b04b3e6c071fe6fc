"""Integers, permutations and choices, from bits. Over values.

Integers are unbiased: words beyond the largest multiple of the range are drawn again. Permutations sort by 64
random bits per element, so that ties, which would keep their order, are too rare to matter below 2^24
elements.
"""

from __future__ import annotations

from trilobite.base import dtypes as dt
from trilobite.base.dtypes import DType
from trilobite.framework.ops.meeting import astype, together
from trilobite.framework.random.continuous import redrawn, uniform_value, working
from trilobite.framework.random.keys import bits_value, split_value
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.types import Dim, Shape


def _words(k: Value, shape: Shape, width: int) -> Value:
    if width == 32:
        return bits_value(k, shape)
    high, low = (astype(bits_value(part, shape), dt.uint64) for part in split_value(k, 2))
    shifted = table["shift_left"](high, table["full"](shape=high.shape, dtype=dt.uint64, value=32))
    return table["or"](shifted, low)


def randint_value(k: Value, shape: Shape, low: int, high: int, dtype: DType) -> Value:
    """Uniform integers from low to high - 1."""
    span = high - low
    width = 32 if span <= 2**32 else 64
    over = 2**width % span  # words in the incomplete last stretch
    if over == 0:
        found = _words(k, shape, width)
    else:
        limit = 2**width - over

        def draw(key: Value) -> tuple[Value, Value]:
            words = _words(key, shape, width)
            return words, table["lt"](words, table["full"](shape=words.shape, dtype=words.dtype, value=limit))

        found = redrawn(k, draw)
    if span < 2**width:
        found = table["rem"](found, table["full"](shape=found.shape, dtype=found.dtype, value=span))
    # Wrapping arithmetic in 64 bits puts the range where it belongs, whatever the signs.
    wide = astype(found, dt.uint64)
    offset = table["full"](shape=wide.shape, dtype=dt.uint64, value=low % 2**64)
    return (
        astype(table["add"](wide, offset), dtype)
        if dtype == dt.uint64
        else _signed(table["add"](wide, offset), dtype)
    )


def _signed(x: Value, dtype: DType) -> Value:
    return astype(table["bitcast"](x, dtype=dt.int64), dtype)


def permutation_value(k: Value, n: Dim) -> Value:
    """The numbers below n in random order."""
    first, second = split_value(k, 2)
    places = table["iota"](shape=(n,), dtype=dt.int64, axis=0)
    out: Value = table["sort"](bits_value(first, (n,)), bits_value(second, (n,)), places, axis=0, keys=2)[2]
    return out


def bernoulli_value(k: Value, shape: Shape, p: Value) -> Value:
    """True with probability p, to within 2^-32 (2^-24 for probabilities that are tensors of float32)."""
    u = uniform_value(k, shape, working(p.dtype))
    return table["lt"](*together(u, astype(p, u.dtype)))
