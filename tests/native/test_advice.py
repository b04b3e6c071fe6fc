"""What the system is told about memory: whole pages inside of it, no more, and never none."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from trilobite.native import memory

PAGE = mmap.PAGESIZE


@pytest.mark.parametrize(("begin", "length", "first", "whole"), [
    (0, PAGE, 0, PAGE), (PAGE, 3 * PAGE, PAGE, 3 * PAGE), (1, PAGE, None, 0), (1, 2 * PAGE - 1, PAGE, PAGE),
    (1, 2 * PAGE - 2, None, 0), (PAGE - 1, 2 * PAGE + 1, PAGE, 2 * PAGE),
    (PAGE + 1, 3 * PAGE, 2 * PAGE, 2 * PAGE),
    (0, PAGE - 1, None, 0), (5, 0, None, 0), (1, 1, None, 0),
])  # fmt: skip
@pytest.mark.parametrize("answer", [0, -1])
def test_whole_pages_are_told_of(
    begin: int, length: int, first: int | None, whole: int, answer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[int, int, int]] = []

    def system(*given: int) -> int:
        calls.append(given)  # type: ignore[arg-type]
        return answer

    monkeypatch.setattr(memory, "_madvise", system)
    assert memory.advise(begin, length, 14) == (first is None or answer == 0)
    assert calls == ([] if first is None else [(first, whole, 14)])
    monkeypatch.setattr(memory, "_madvise", None)
    assert not memory.advise(begin, length, 14)


@pytest.mark.parametrize("length", [1, 63, 64, (4 << 20) - 4, 4 << 20, (4 << 20) + 4])
def test_arrays_begin_where_vectors_or_pages_do(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(memory, "advise", lambda begin, size, advice: told.append((begin, size)))
    made = memory.empty(length, np.uint8)
    large = length >= 4 << 20
    assert made.ctypes.data % (2 << 20 if large else 64) == 0 and made.nbytes == length
    base = made.base
    assert base is not None
    behind = base.ctypes.data + base.nbytes
    assert told == ([(made.ctypes.data + length, behind - made.ctypes.data - length)] if large else [])
    assert base.nbytes == length + (2 << 20 if large else 64)
    assert memory.zeros((2, 3), np.int16).tolist() == [[0] * 3] * 2
