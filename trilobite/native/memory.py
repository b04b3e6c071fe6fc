"""Arrays that begin where vectors and pages begin.

Enters: a shape and a dtype. Leaves: a NumPy array whose first byte is 64-byte aligned; from 4 MiB on it is
aligned to 2 MiB, so that the system can back it with huge pages (NumPy asks for them). It counts nothing and
frees nothing: arrays do that themselves. Every view of such an array refers to the array, never to the memory
behind it, so the array's own reference count tells whether anybody holds any of it.
"""

from __future__ import annotations

import ctypes
import math
import mmap
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
    array = np.ndarray(sizes, kind, room, -room.ctypes.data % alignment)
    if alignment == _PAGE:
        _end_in_small_pages(array.ctypes.data + length, room.ctypes.data + room.nbytes)
    return array


def _end_in_small_pages(end: int, behind: int) -> None:
    """Of the room behind an array, no page is part of a huge one: that would make it resident, half a huge
    page for each array in the mean.
    """
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        advise(end, behind - end, mmap.MADV_NOHUGEPAGE)


def advise(begin: int, length: int, advice: int) -> bool:
    """Tells the system about all whole pages of some memory; false where it does not listen."""
    first = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
    whole = (begin + length - first) // mmap.PAGESIZE * mmap.PAGESIZE
    return _madvise is not None and (whole <= 0 or _madvise(first, whole, advice) == 0)


def _system_call() -> Any:
    """The system's call, where there is one for this."""
    found: Any = getattr(ctypes.CDLL(None), "madvise", None)
    if found is not None:
        found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found


_madvise = _system_call()


def give_back() -> None:
    """Pages that the C library has free go to the system, where there is a call for it (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


_DATA = object.__basicsize__  # where NumPy's arrays keep the address of their elements


def _data_word(array: np.ndarray[Any, Any]) -> int:
    return ctypes.c_ssize_t.from_address(id(array) + _DATA).value


_PROBE = np.zeros(1)
_HAS_DATA_WORD = _data_word(_PROBE) == _PROBE.ctypes.data


def address(array: np.ndarray[Any, Any]) -> int:
    """Where its elements begin. `array.ctypes` takes eight times as long."""
    return _data_word(array) if _HAS_DATA_WORD else int(array.ctypes.data)


def zeros(shape: int | Sequence[int], dtype: Any = np.float32) -> np.ndarray[Any, np.dtype[Any]]:
    """The same, filled with zeros."""
    array = empty(shape, dtype)
    array[...] = 0
    return array
