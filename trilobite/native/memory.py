"""Arrays that begin where vectors and pages begin.

Enters: a shape and a dtype. Leaves: a NumPy array whose first byte is 64-byte aligned; from 4 MiB on it is
aligned to 2 MiB, so that the system can back it with huge pages (NumPy asks for them). It counts nothing and
frees nothing: arrays do that themselves. Every view of such an array refers to the array, never to the memory
behind it, so the array's own reference count tells whether anybody holds any of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

LINE = 64  # bytes of a cache line, and of the widest vector
_HUGE, _PAGE = 4 << 20, 2 << 20


class Memory(np.ndarray[Any, np.dtype[Any]]):
    """Bytes that an array lies in. NumPy makes a view refer to the last array of its own type in a chain of
    bases: this type ends the chain, before the memory.
    """


def empty(shape: int | Sequence[int], dtype: Any = np.float32) -> np.ndarray[Any, np.dtype[Any]]:
    """An array with arbitrary contents."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    kind = np.dtype(dtype)
    length = math.prod(sizes) * kind.itemsize
    alignment = _PAGE if length >= _HUGE else LINE
    room = Memory(length + alignment, np.uint8)
    return np.ndarray(sizes, kind, room, -room.ctypes.data % alignment)


def zeros(shape: int | Sequence[int], dtype: Any = np.float32) -> np.ndarray[Any, np.dtype[Any]]:
    """The same, filled with zeros."""
    array = empty(shape, dtype)
    array[...] = 0
    return array
