"""Memory that notices who reads or writes beyond it: closed pages behind operands, marks around results."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
PAGE = mmap.PAGESIZE
_MARK, _ROOM = 0xB7, 4096  # around what kernels write: more than any vector or row of a tile is long


class Fenced:
    """An array whose last byte is the last of a page, and the page behind it is closed."""

    def __init__(self, array: Array) -> None:
        whole = -(-max(array.nbytes, 1) // PAGE) * PAGE
        self.memory = mmap.mmap(-1, whole + PAGE)
        self.raw = np.frombuffer(self.memory, np.uint8)
        self.fence = ctypes.c_void_p(self.raw.ctypes.data + whole)
        self.array = self.raw[whole - array.nbytes : whole].view(array.dtype).reshape(array.shape)
        self.array[...] = array
        self._protect(0)

    def _protect(self, rights: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(self.fence, ctypes.c_size_t(PAGE), rights) == 0

    def open(self) -> None:
        self._protect(mmap.PROT_READ | mmap.PROT_WRITE)


@contextmanager
def fenced(arrays: Sequence[Array]) -> Iterator[list[Array]]:
    """The same arrays, each before a closed page."""
    made = [Fenced(a) for a in arrays]
    try:
        yield [f.array for f in made]
    finally:
        for f in made:
            f.open()


class Marked:
    """So many bytes, full of `fill`, that begin at a whole line of the cache between two rows of marks."""

    def __init__(self, count: int, fill: int = 0xFF) -> None:
        raw = np.full(2 * _ROOM + count + 64, _MARK, np.uint8)
        at = _ROOM + -(raw.ctypes.data + _ROOM) % 64
        self.before, self.bytes, self.after = np.split(raw, [at, at + count])
        self.bytes[...] = fill

    def array(self, shape: Sequence[int], dtype: Any) -> Array:
        return self.bytes.view(dtype).reshape(tuple(shape))

    @property
    def address(self) -> int:
        return int(self.bytes.ctypes.data)

    def check(self, what: str) -> None:
        assert (self.before == _MARK).all(), f"something was written before {what}"
        beyond = np.flatnonzero(self.after != _MARK)
        assert not beyond.size, f"written {int(beyond[-1]) + 1} bytes behind the end of {what}"
