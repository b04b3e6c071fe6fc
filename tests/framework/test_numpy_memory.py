"""Tensors on the memory of NumPy arrays."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb


def sealed() -> np.ndarray:
    a = np.arange(3.0)
    a.flags.writeable = False
    return a


def test_a_read_only_array_is_copied():
    a = sealed()
    for make in (tb.asarray, tb.from_numpy, tb.tensor):
        x = make(a)
        x += 1
        assert x.tolist() == [1.0, 2.0, 3.0]
        assert a.tolist() == [0.0, 1.0, 2.0]


def test_asarray_without_a_copy_refuses_a_read_only_array():
    with pytest.raises(tb.errors.ArgumentError, match=r"(?s)read-only NumPy array.*setflags\(write=True\)"):
        tb.asarray(sealed(), copy=False)


def test_an_array_that_may_be_written_is_shared():
    a = np.arange(3.0)
    x = tb.asarray(a, copy=False)
    x += 1
    assert a.tolist() == [1.0, 2.0, 3.0]
