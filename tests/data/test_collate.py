"""Collating: structure is kept, nothing is converted, misfits are named."""

from __future__ import annotations

from collections import namedtuple

import ml_dtypes
import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, DataError, DTypeError, ShapeError
from trilobite.framework.data import PadCollate, collate

Point = namedtuple("Point", "x y")


def test_structures() -> None:
    items = [{"p": Point(i, [i / 2, "s"]), "n": None, "b": b"q"} for i in (1, -3)]
    batch = collate(items)
    assert isinstance(batch["p"], Point) and batch["p"].x.tolist() == [1, -3]
    assert batch["p"].y[0].tolist() == [0.5, -1.5] and batch["p"].y[1] == ["s", "s"]
    assert batch["n"] is None and batch["b"] == [b"q", b"q"]


@pytest.mark.parametrize(
    "dtype",
    [np.float16, np.float64, np.int8, np.uint16, np.bool_, np.complex64, ml_dtypes.bfloat16, ml_dtypes.int4],
)
def test_dtypes_stay(dtype: type) -> None:
    rows = np.arange(6).reshape(3, 2).astype(dtype)
    assert collate(list(rows)).dtype == dtype and np.array_equal(collate(list(rows)), rows)
    assert collate([r[1] for r in rows]).dtype == dtype


def test_python_numbers() -> None:
    assert collate([1, 2]).dtype == np.int64 and collate([1.0, 2.0]).dtype == np.float64
    assert collate([True, False]).dtype == np.bool_


@pytest.mark.parametrize(
    ("items", "error", "text"),
    [
        ([], DataError, "empty batch"),
        ([(1, 2), (1, 2, 3)], DataError, r"items 0 and 1 of a batch differ in structure"),
        (
            [{"a": 1}, {"b": 1}],
            DataError,
            r"differ in structure.*\n  expected: the same structure.*\n  remedy: .*collate=",
        ),
        ([(0, np.zeros(2)), (0, np.zeros(3))], ShapeError, r"field '1' differs in shape.*\(2,\), \(3,\)"),
        ([{"k": 1}, {"k": 1.5}], DTypeError, r"field 'k' differs in dtype within a batch: float64, int64"),
        ([object(), object()], DTypeError, "the item is a object, which cannot be stacked"),
    ],
)
def test_refused(items: list[object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        collate(items)


class TestPad:
    def test_fills_to_the_largest(self) -> None:
        batch = PadCollate(-1)([(np.array([[1, 2]]), "a"), (np.array([[3], [4], [5]]), "b")])
        assert batch[0].tolist() == [[[1, 2], [-1, -1], [-1, -1]], [[3, -1], [4, -1], [5, -1]]]
        assert batch[1] == ["a", "b"] and batch[0].dtype == np.int64

    def test_multiple(self) -> None:
        assert PadCollate(multiple=8)([np.ones(3), np.ones(9)]).shape == (2, 16)
        assert PadCollate(multiple=4)([np.ones(8)]).shape == (1, 8)
        assert PadCollate()([np.ones(0), np.ones(0)]).shape == (2, 0)

    def test_scalars_pass(self) -> None:
        assert PadCollate()([3, 4]).tolist() == [3, 4]

    def test_refused(self) -> None:
        with pytest.raises(ShapeError, match=r"differs in rank within a batch: \[1, 2\] axes"):
            PadCollate()([np.ones(2), np.ones((2, 2))])
        with pytest.raises(DTypeError, match="differs in dtype"):
            PadCollate()([np.ones(2), np.ones(3, np.float32)])
        with pytest.raises(ArgumentError, match="multiple is 0"):
            PadCollate(multiple=0)
