"""Aligned arrays."""

from __future__ import annotations

import itertools
import mmap
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

from trilobite.native import pages
from trilobite.native.memory import empty, zeros


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (7, 13), 5, (1025, 1024)])
@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.complex128, ml_dtypes.bfloat16, ml_dtypes.int4])
def test_arrays_are_what_was_asked_for(shape: int | tuple[int, ...], dtype: type) -> None:
    for make in (empty, zeros):
        array = make(shape, dtype)
        expected = np.empty(shape, dtype)
        assert (array.shape, array.dtype) == (expected.shape, expected.dtype)
        assert array.flags.c_contiguous and array.flags.writeable
        assert array.ctypes.data % 64 == 0 or array.size == 0
        array[...] = 1
        assert array.astype(np.complex128).sum() == array.size
    assert not zeros(shape, dtype).astype(np.complex128).any()


def test_large_arrays_begin_with_a_huge_page() -> None:
    assert empty(8 << 20, np.uint8).ctypes.data % (2 << 20) == 0


@pytest.mark.parametrize("size", [5, 8 << 20])
def test_every_view_refers_to_the_array_itself(size: int) -> None:
    array = empty((size, 2), np.uint8)
    views = [array[1:], array[1:][2:].T, array.reshape(-1), array.view(np.int8), np.asarray(array)[:, 0]]
    assert all(view.base is array for view in views)
    assert memoryview(array).obj is array


def test_making_an_array_resident_keeps_its_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    for dear in (False, True):
        monkeypatch.setattr(pages._System, "huge_pages_are_dear", dear)
        array = np.arange(3 << 20, dtype=np.int32)  # neither page of its ends is whole
        pages.populate(array[1:-1])
        assert (array == np.arange(3 << 20)).all()


def test_dear_huge_pages_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0, 10)
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(pages, "thread_time", lambda: next(clock))
    monkeypatch.setattr(pages._System, "huge_pages_are_dear", False)
    monkeypatch.setattr(pages, "advise", lambda begin, size, advice: bool(given.append((size, advice)) or 1))
    array = np.empty(16 << 20, np.uint8)
    pages.populate(array)
    assert pages._System.huge_pages_are_dear
    assert given[0] == (2 << 20, 23)  # one huge page, which took seconds
    assert given[1] == (16 << 20, mmap.MADV_NOHUGEPAGE)
    assert sum(size for size, advice in given if advice == 23) == 16 << 20
    assert given[-1] == (16 << 20, mmap.MADV_HUGEPAGE)
    given.clear()
    pages.populate(np.empty(1 << 20, np.uint8))
    assert not given  # small arrays have no huge pages


def test_small_pages_of_an_array_that_stays_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int, int]] = []
    monkeypatch.setattr(pages, "_STEADY", 0.0)
    monkeypatch.setattr(pages, "advise", lambda *call: bool(given.append(call) or 1))
    array = empty(9 << 20, np.uint8)
    begin = array[5:].ctypes.data  # the first whole huge page is the second
    pages._join(weakref.ref(array), begin, array.nbytes - 5)
    assert given == [(array.ctypes.data + (k << 20), 2 << 20, 25) for k in (2, 4, 6)]
    given.clear()
    gone = weakref.ref(array)
    del array
    pages._join(gone, begin, 9 << 20)
    assert not given  # nor for memory that may be another's by now


def test_joined_pages_hold_what_they_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_STEADY", 0.0)
    array = empty(3 << 20, np.int32)
    monkeypatch.setattr(pages._System, "huge_pages_are_dear", True)
    array[...] = np.arange(array.size)
    pages.populate(array)
    for thread in threading.enumerate():
        if thread.name == "trilobite pages":
            thread.join(30)
    assert (array == np.arange(array.size)).all()
