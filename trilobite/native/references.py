"""Who holds the elements of a list: compared and counted by machine code, since a call asks for hundreds.

Enters: two lists. Leaves: the largest reference count among the elements of the first, as far as lists and
other objects hold them (a call's own arguments are not counted), or -1 if the second list does not hold the
very same elements. It reads lists of CPython, and makes sure first that they are what it takes them for.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from trilobite.base.errors import DeviceError
from trilobite.native.cache import kernels
from trilobite.native.driver import builtin, described, words_of_method
from trilobite.native.runtime import filled

Count = Callable[[list[Any], list[Any]], int]
_FAST = 0x80  # METH_FASTCALL: arguments as an array and their number
_HEADER = object.__basicsize__  # of every object: its count first; a list's size and items follow

_TEXT = """
define internal ptr @most(ptr %self, ptr %args, i64 %count) {
start:
  %words = getelementptr i8, ptr %self, i64 $header
  %word = load ptr, ptr %words
  %make = load ptr, ptr %word
  %seconds = getelementptr ptr, ptr %args, i64 1
  %first = load ptr, ptr %args
  %second = load ptr, ptr %seconds
  %first_sizes = getelementptr i8, ptr %first, i64 $header
  %second_sizes = getelementptr i8, ptr %second, i64 $header
  %size = load i64, ptr %first_sizes
  %second_size = load i64, ptr %second_sizes
  %first_items = getelementptr i8, ptr %first, i64 $items
  %second_items = getelementptr i8, ptr %second, i64 $items
  %a = load ptr, ptr %first_items
  %b = load ptr, ptr %second_items
  %as_many = icmp eq i64 %size, %second_size
  br i1 %as_many, label %test, label %differ
test:
  %i = phi i64 [ 0, %start ], [ %after, %same ]
  %most = phi i64 [ 0, %start ], [ %more, %same ]
  %left = icmp slt i64 %i, %size
  br i1 %left, label %compare, label %done
compare:
  %as = getelementptr ptr, ptr %a, i64 %i
  %bs = getelementptr ptr, ptr %b, i64 %i
  %x = load ptr, ptr %as
  %y = load ptr, ptr %bs
  %is = icmp eq ptr %x, %y
  br i1 %is, label %same, label %differ
same:
  %references = load i32, ptr %x
  %wide = zext i32 %references to i64
  %larger = icmp ugt i64 %wide, %most
  %more = select i1 %larger, i64 %wide, i64 %most
  %after = add i64 %i, 1
  br label %test
done:
  %number = call ptr %make(i64 %most)
  ret ptr %number
differ:
  %none = call ptr %make(i64 -1)
  ret ptr %none
}
define void @entry(ptr %out, i64 %begin, i64 %end, ptr %scratch) {
  store ptr @most, ptr %out
  ret void
}
"""


class _Counter:
    """The function, and what must live as long as it."""

    def __init__(self) -> None:
        _check_layout()
        self.code = kernels([(filled(_TEXT, {"header": _HEADER, "items": _HEADER + 8}), 1)])
        found = np.zeros(1, np.int64)
        pointer, integer = ctypes.c_void_p, ctypes.c_int64
        tell = ctypes.CFUNCTYPE(None, pointer, integer, integer, pointer)(self.code.addresses[0])
        tell(found.ctypes.data, 0, 0, None)
        make = ctypes.cast(ctypes.pythonapi.PyLong_FromLongLong, ctypes.c_void_p).value or 0
        self.words = words_of_method(1)
        self.words[0] = make
        self.method = described(self.words, b"most_referenced", int(found[0]), _FAST)
        self.count: Count = builtin(ctypes.byref(self.method), self.words, None)


@lru_cache(maxsize=1)
def _counter() -> _Counter:
    return _Counter()


def counter() -> Count:
    """The function that counts and compares."""
    return _counter().count


def _check_layout() -> None:
    probe = object()
    pair = [probe, None]
    size = ctypes.c_ssize_t.from_address(id(pair) + _HEADER).value
    items = ctypes.c_void_p.from_address(id(pair) + _HEADER + 8).value or 0
    seen = ctypes.c_void_p.from_address(items).value if size == 2 else None
    count = ctypes.c_uint32.from_address(id(probe)).value
    if (seen, count) != (id(probe), sys.getrefcount(probe) - 1):
        raise DeviceError(
            "this Python keeps lists or reference counts in a way that the native runtime does not know",
            where=f"Python {sys.version.split()[0]}",
            expected="CPython with its global lock",
            remedy='use target="reference"',
        )
