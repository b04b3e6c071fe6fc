"""Datasets: anything with a length and items by number, or anything that can be iterated.

In: arrays, other datasets, indices. Out: one item at a time, or (where that is cheaper) a whole collated
batch through `get_batch`. A dataset does not shuffle, augment or batch: samplers, transforms and the loader
do.
"""

from __future__ import annotations

import itertools
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import ArgumentError, DataError, DTypeError, IndexingError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.data import streams


@runtime_checkable
class Dataset(Protocol):
    """Items by number. `list`, `range` and arrays are datasets.

    A dataset may also offer `get_batch(indices)`: the items already collated. It must equal collating them
    one by one.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class IterableDataset(ABC):
    """A stream of items, for what has no length or no random access.

    Every worker reads the whole stream and transforms and collates only its own batches, so that the order is
    the same with any number of workers. Override `stream` as well to make resuming cheap or epochs different.
    """

    @abstractmethod
    def __iter__(self) -> Iterator[Any]: ...

    def stream(self, epoch: int, start: int) -> Iterator[Any]:
        """The items of an epoch from number `start` on; by default epochs are alike."""
        return itertools.islice(iter(self), start, None)


def place(index: int, length: int, name: str) -> int:
    """An index counted from the front, or an error; negative indices count from the back as in lists."""
    i = operator.index(index)
    if not -length <= i < length:
        raise IndexingError(
            f"{name}: index {i} is out of range",
            where=user_location(),
            expected=f"-{length} <= index < {length}",
            remedy="items count from 0 to len(data) - 1",
        )
    return i + length if i < 0 else i


class ArrayDataset:
    """Rows of one or several arrays of equal length: the item is a row, or a tuple of rows."""

    def __init__(self, *arrays: Any) -> None:
        if not arrays:
            raise ArgumentError(
                "ArrayDataset needs at least one array", expected="ArrayDataset(images, labels)"
            )
        self.arrays = tuple(np.asarray(a) for a in arrays)
        shapes = [a.shape for a in self.arrays]
        if any(not shape for shape in shapes):
            raise ShapeError(
                "ArrayDataset: a 0-d array has no rows",
                where=f"shapes {shapes}",
                expected="arrays with at least one axis",
            )
        if len({shape[0] for shape in shapes}) > 1:
            raise ShapeError(
                f"ArrayDataset: the arrays differ in length: shapes {shapes}",
                where=user_location(),
                expected="the same first extent everywhere",
                remedy="cut the arrays to one length: a row of each makes an item",
            )

    def __len__(self) -> int:
        return int(self.arrays[0].shape[0])

    def __getitem__(self, index: int, /) -> Any:
        i = place(index, len(self), "ArrayDataset")
        return self._item(tuple(a[i] for a in self.arrays))

    def get_batch(self, indices: npt.NDArray[np.int64]) -> Any:
        return self._item(tuple(a[indices] for a in self.arrays))

    def _item(self, rows: tuple[Any, ...]) -> Any:
        return rows[0] if len(rows) == 1 else rows


class Subset:
    """Some items of a dataset, by their indices, in that order."""

    def __init__(self, dataset: Dataset, indices: Any) -> None:
        self.dataset = dataset
        self.indices = _indices(indices, len(dataset))

    def __len__(self) -> int:
        return int(self.indices.size)

    def __getitem__(self, index: int, /) -> Any:
        return self.dataset[int(self.indices[place(index, len(self), "Subset")])]


def _indices(indices: Any, length: int) -> npt.NDArray[np.int64]:
    array = np.asarray(indices)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise DTypeError(
            f"Subset: indices have dtype {array.dtype}",
            expected="integers",
            remedy="for a mask, pass np.flatnonzero(mask)",
        )
    if array.ndim != 1:
        raise ShapeError(f"Subset: indices have shape {array.shape}", expected="one axis")
    wrong = array[(array < 0) | (array >= length)]
    if wrong.size:
        raise IndexingError(f"Subset: index {wrong[0]} is out of range", expected=f"0 <= index < {length}")
    return array.astype(np.int64)


class ConcatDataset:
    """Datasets one after the other."""

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        self.datasets = tuple(datasets)
        if not self.datasets:
            raise ArgumentError("ConcatDataset needs at least one dataset", expected="a non-empty sequence")
        self._ends = np.cumsum([len(d) for d in self.datasets])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: int, /) -> Any:
        i = place(index, len(self), "ConcatDataset")
        part = int(np.searchsorted(self._ends, i, side="right"))
        return self.datasets[part][i - (int(self._ends[part - 1]) if part else 0)]


def get_batch(dataset: Dataset, indices: npt.NDArray[np.int64]) -> Any | None:
    """The collated items where the dataset can give them at once, else None."""
    if isinstance(dataset, Subset):
        return get_batch(dataset.dataset, dataset.indices[indices])
    direct = getattr(dataset, "get_batch", None)
    return None if direct is None else direct(indices)


def random_split(dataset: Dataset, sizes: Sequence[float], seed: int = 0) -> list[Subset]:
    """Disjoint random parts: `sizes` are counts that add up to the length, or fractions that add up to 1."""
    n = len(dataset)
    counts = _counts(sizes, n)
    order = streams.permutation(streams.check_seed(seed), streams.SPLIT, 0, n)
    cuts = np.cumsum([0, *counts])
    return [Subset(dataset, order[a:b]) for a, b in itertools.pairwise(cuts)]


def _counts(sizes: Sequence[float], n: int) -> list[int]:
    if not len(sizes) or any(not s >= 0 for s in sizes):
        raise ArgumentError(
            f"random_split: sizes {list(sizes)} are not all >= 0", expected="counts or fractions"
        )
    if all(isinstance(s, int | np.integer) for s in sizes):
        if sum(sizes) != n:
            raise DataError(
                f"random_split: sizes {list(sizes)} add up to {sum(sizes)}",
                where=user_location(),
                expected=f"{n}, the length of the dataset",
                remedy="give fractions such as [0.9, 0.1]",
            )
        return [int(s) for s in sizes]
    if not abs(sum(sizes) - 1) < 1e-6:
        raise DataError(f"random_split: fractions {list(sizes)} add up to {sum(sizes)}", expected="1")
    cuts = np.rint(np.cumsum(sizes) * n).astype(np.int64)
    cuts[-1] = n
    return [int(c) for c in np.diff(cuts, prepend=0)]


explain_room(globals(), but=("get_batch",))  # whose errors the loader tells, with the batch
