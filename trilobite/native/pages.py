"""Pages of large arrays, made resident before they are needed.

Enters: an array that a program will write as a whole. Leaves: the same array, for whose pages another thread
asks the system while this one does something else; contents do not change, so it may be used meanwhile. Huge
pages are taken for as long as they come quickly. In a virtual machine whose host finds memory page by page,
the first touch of one takes milliseconds: then the rest begins as small pages, and if the array is still
there a second later, a thread has them joined to huge ones (messages between processes of one machine take
twice as long from small pages). Systems without the calls (Linux has them since 5.14 and 6.1) give pages when
they are touched and leave them as they are.
"""

from __future__ import annotations

import mmap
import threading
import weakref
from collections.abc import Callable
from time import sleep, thread_time
from typing import Any

import numpy as np

from trilobite.native.memory import advise

Array = np.ndarray[Any, Any]
_LARGE = 4 << 20  # bytes; below, there are no huge pages
_FIRST, _NEXT = 2 << 20, 8 << 20  # bytes to ask for at once: others wait for their memory meanwhile
_POPULATE_WRITE, _COLLAPSE = 23, 25  # the system's numbers
_HUGE = 2 << 20  # bytes that are joined at once
_STEADY = 1.0  # seconds after which an array is worth the work
_DEAR = 0.5e-9  # seconds of processor time a byte; clearing it takes a fifth of that


class _System:
    """What was seen of this machine."""

    huge_pages_are_dear = False


def settle(array: Array) -> None:
    """Makes a large array resident, in a thread of its own."""
    if array.nbytes >= _LARGE:
        _in_a_thread(populate, array)


def populate(array: Array) -> None:
    """Makes a large array resident. The time is that of this thread: waiting for others does not count."""
    if array.nbytes < _LARGE or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return
    begin, whole, size = array.ctypes.data, array.nbytes, _FIRST
    at, end = begin, begin + whole
    dear = _System.huge_pages_are_dear and advise(begin, whole, mmap.MADV_NOHUGEPAGE)
    while at < end:
        size, start = min(size, end - at), thread_time()
        if not advise(at, size, _POPULATE_WRITE):
            return
        at += size
        if not dear and thread_time() - start > _DEAR * size:
            dear = _System.huge_pages_are_dear = advise(begin, whole, mmap.MADV_NOHUGEPAGE)
        size = _NEXT
    if dear:
        advise(begin, whole, mmap.MADV_HUGEPAGE)
        _in_a_thread(_join, weakref.ref(array), begin, whole)


def _join(array: weakref.ref[Array], begin: int, whole: int) -> None:
    """Has an array's small pages joined, piece by piece, for as long as it is there. Contents do not change,
    so a piece that is freed meanwhile and belongs to somebody else takes no harm.
    """
    sleep(_STEADY)
    for at in range(-(-begin // _HUGE) * _HUGE, begin + whole - _HUGE + 1, _HUGE):
        if array() is None or not advise(at, _HUGE, _COLLAPSE):
            return


def _in_a_thread(work: Callable[..., None], *args: Any) -> None:
    threading.Thread(target=work, args=args, name="trilobite pages", daemon=True).start()
