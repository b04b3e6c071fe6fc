"""Datasets: items, batches, parts, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, DataError, DTypeError, IndexingError, ShapeError
from trilobite.framework.data import ArrayDataset, ConcatDataset, Dataset, Subset, collate, random_split
from trilobite.framework.data.dataset import get_batch


class HasArray:
    """Something that is an array only through `__array__`, as a framework's tensor is."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.values


class TestArrayDataset:
    def test_items(self) -> None:
        x, y = np.random.default_rng(0).normal(size=(5, 2, 3)), np.array([4, 3, 2, 1, 0], np.uint8)
        data = ArrayDataset(HasArray(x), y)
        assert len(data) == 5 and isinstance(data, Dataset)
        np.testing.assert_array_equal(data[1][0], x[1])
        assert data[-1][1] == 0 and data[np.int64(2)][1] == 2

    def test_one_array_gives_bare_items(self) -> None:
        assert ArrayDataset([3, 1, 2])[1] == 1
        assert [int(v) for v in ArrayDataset([3, 1, 2])] == [
            3,
            1,
            2,
        ]  # IndexingError ends iteration as in lists

    @pytest.mark.parametrize("index", [5, -6])
    def test_out_of_range(self, index: int) -> None:
        with pytest.raises(
            IndexingError, match=rf"index {index} is out of range\n  where: .*\n  expected: -5 <= index < 5"
        ):
            ArrayDataset(np.zeros(5))[index]

    def test_slices_are_not_items(self) -> None:
        with pytest.raises(TypeError):
            ArrayDataset(np.zeros(5))[1:3]  # type: ignore[index]

    def test_refused(self) -> None:
        with pytest.raises(ShapeError, match=r"differ in length: shapes \[\(3,\), \(4, 2\)\]"):
            ArrayDataset(np.zeros(3), np.zeros((4, 2)))
        with pytest.raises(ShapeError, match="0-d array has no rows"):
            ArrayDataset(np.float32(3))
        with pytest.raises(ArgumentError, match="at least one array"):
            ArrayDataset()


class TestParts:
    def test_subset(self) -> None:
        data = Subset(range(100, 110), [7, 0, 7, 3])
        assert [data[i] for i in range(4)] == [107, 100, 107, 103] and len(data) == 4 and data[-1] == 103
        assert len(Subset(range(3), [])) == 0

    def test_subset_of_a_subset_takes_whole_batches(self) -> None:
        x = np.random.default_rng(0).normal(size=(9, 2))
        data = Subset(Subset(ArrayDataset(x), [8, 6, 4, 2, 0]), [0, 4, 3])
        indices = np.array([2, 0])
        np.testing.assert_array_equal(get_batch(data, indices), x[[2, 8]])
        np.testing.assert_array_equal(collate([data[2], data[0]]), x[[2, 8]])
        assert get_batch(Subset(range(3), [1]), np.array([0])) is None

    @pytest.mark.parametrize(
        ("indices", "error", "text"),
        [
            ([0, 3], IndexingError, "index 3 is out of range"),
            ([-1], IndexingError, "index -1 is out of range"),
            (
                [True, False, True],
                DTypeError,
                r"dtype bool\n  expected: integers\n  remedy: for a mask, pass np.flatnonzero",
            ),
            ([[0, 1]], ShapeError, r"shape \(1, 2\)"),
            ([0.0, 1.0], DTypeError, "float64"),
        ],
    )
    def test_subset_refuses(self, indices: object, error: type[Exception], text: str) -> None:
        with pytest.raises(error, match=text):
            Subset(range(3), indices)

    def test_concat(self) -> None:
        data = ConcatDataset([range(3), [], range(10, 12), "ab"])
        assert [data[i] for i in range(7)] == [0, 1, 2, 10, 11, "a", "b"] and data[-3] == 11
        with pytest.raises(IndexingError, match="index 7"):
            data[7]
        with pytest.raises(ArgumentError, match="at least one dataset"):
            ConcatDataset([])

    def test_split_is_disjoint_complete_and_seeded(self) -> None:
        parts = random_split(range(101), [0.6, 0.3, 0.1], seed=3)
        assert [len(p) for p in parts] == [61, 30, 10]
        assert sorted(i for p in parts for i in p) == list(range(101))
        again = random_split(range(101), [0.6, 0.3, 0.1], seed=3)
        other = random_split(range(101), [0.6, 0.3, 0.1], seed=4)
        assert all(list(a) == list(b) for a, b in zip(parts, again, strict=True))
        assert list(parts[0]) != list(other[0]) and list(parts[0]) != sorted(parts[0])

    def test_split_counts(self) -> None:
        assert [len(p) for p in random_split(range(10), [7, 0, 3])] == [7, 0, 3]
        assert [len(p) for p in random_split(range(3), [0.0, 0.5, 0.5])] == [0, 2, 1]
        assert [len(p) for p in random_split(range(0), [0.5, 0.5])] == [0, 0]

    @pytest.mark.parametrize(
        ("sizes", "error", "text"),
        [
            ([3, 3], DataError, r"add up to 6\n  where: .*\n  expected: 10"),
            ([0.5, 0.4], DataError, "fractions"),
            ([-0.5, 1.5], ArgumentError, "not all >= 0"),
            ([float("nan"), 1.0], ArgumentError, "not all >= 0"),
            ([], ArgumentError, "not all >= 0"),
        ],
    )
    def test_split_refuses(self, sizes: list[float], error: type[Exception], text: str) -> None:
        with pytest.raises(error, match=text):
            random_split(range(10), sizes)
