"""TFLite's sparse weights: random tensors written in every order, with and without blocks, come back."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import FileError
from trilobite.inference.formats.tflite.sparse import densified

DTYPE = np.dtype(np.float32)
WIDTHS = {1: np.int32, 2: np.uint16, 3: np.uint8}


class Fields:
    """As a table of a file answers."""

    def __init__(self, **slots: Any) -> None:
        self.slots = {int(name[1:]): value for name, value in slots.items()}

    def number(self, slot: int, kind: str) -> Any:
        return self.slots.get(slot, 0)

    def ints(self, slot: int) -> list[int]:
        return list(self.slots[slot])

    def tables(self, slot: int) -> list[Fields]:
        return list(self.slots[slot])

    def table(self, slot: int) -> Fields | None:
        return self.slots.get(slot)

    def array(self, slot: int, dtype: Any) -> np.ndarray:
        return np.asarray(self.slots[slot], dtype)


def written(dense: np.ndarray, order: list[int], blocks: dict[int, int], listed: set[int], width: int) -> Any:
    """The tree of a tensor: its axes in some order, blocks innermost; some levels name their entries."""
    rank = dense.ndim
    split = dense
    for axis in sorted(blocks, reverse=True):
        shape = [
            *split.shape[:axis],
            split.shape[axis] // blocks[axis],
            blocks[axis],
            *split.shape[axis + 1 :],
        ]
        split = np.moveaxis(split.reshape(shape), axis + 1, rank)
    tree = np.transpose(split, order)
    prefixes: list[tuple[int, ...]] = [()]
    levels = []
    for at, size in enumerate(tree.shape):
        if at not in listed:
            levels.append(Fields(_0=0, _1=size))
            prefixes = [(*p, i) for p in prefixes for i in range(size)]
            continue
        kept = [[i for i in range(size) if np.any(tree[(*p, i)])] for p in prefixes]
        segments = np.cumsum([0, *map(len, kept)])
        lists = {"_2": width, "_3": Fields(_0=segments), "_4": width}
        levels.append(Fields(_0=1, _1=size, **lists, _5=Fields(_0=[i for found in kept for i in found])))
        prefixes = [(*p, i) for p, found in zip(prefixes, kept, strict=True) for i in found]
    values = np.array([tree[p] for p in prefixes], DTYPE)
    return Fields(_0=order, _1=sorted(blocks), _2=levels), values.view(np.uint8)


@pytest.mark.parametrize("listed", [set(), {0}, {1}, {2}, {0, 1}, {1, 2}, {0, 1, 2}])
@pytest.mark.parametrize("width", WIDTHS)
def test_tensors_come_back(listed: set[int], width: int) -> None:
    rng = np.random.default_rng(3)
    dense = (rng.standard_normal((3, 4, 5)) * (rng.random((3, 4, 5)) < 0.3)).astype(DTYPE)
    dense[1] = 0
    for order in itertools.permutations(range(3)):
        table, raw = written(dense, list(order), {}, listed, width)
        assert np.array_equal(densified(table, raw, dense.shape, DTYPE, "here"), dense)


@pytest.mark.parametrize("blocks", [{0: 2}, {1: 3}, {0: 2, 1: 3}])
@pytest.mark.parametrize("listed", [{0}, {1}, {0, 1}])
def test_blocks_come_back(blocks: dict[int, int], listed: set[int]) -> None:
    rng = np.random.default_rng(4)
    dense = (rng.standard_normal((4, 6)) * (rng.random((4, 6)) < 0.4)).astype(DTYPE)
    for order in itertools.permutations(range(2)):
        inner = list(range(2, 2 + len(blocks)))
        table, raw = written(dense, [*order, *inner], blocks, listed, 1)
        assert np.array_equal(densified(table, raw, dense.shape, DTYPE, "here"), dense)


def rows(segments: Any = (0, 1, 1, 2), indices: Any = (1, 0), **more: Any) -> Fields:
    """Rows of a (3, 2) matrix."""
    lists = {"_2": 1, "_3": Fields(_0=segments), "_4": 1, "_5": Fields(_0=indices)}
    return Fields(_0=1, _1=2, **{**lists, **more})


def matrix(level: Fields | None = None, **more: Any) -> Fields:
    return Fields(**{"_0": [0, 1], "_1": [], "_2": [Fields(_0=0, _1=3), level or rows()], **more})


RAW = np.array([5, 7], DTYPE).view(np.uint8)
WRONG: dict[str, tuple[Fields, str]] = {
    "an axis twice": (matrix(_0=[0, 0]), "each axis once"),
    "an axis less": (matrix(_0=[0]), "each axis once"),
    "a level less": (matrix(_2=[rows()]), "each axis once"),
    "a block elsewhere": (
        matrix(_0=[0, 1, 2], _1=[2], _2=[Fields(_0=0, _1=3), rows(), rows()]),
        "axes of the tensor",
    ),
    "a width": (matrix(rows(_2=4)), "segments and indices"),
    "no list": (matrix(rows(_5=None)), "segments and indices"),
    "falling": (matrix(rows((0, 2, 1, 2))), "rising within its indices"),
    "short": (matrix(rows((0, 1, 2))), "rising within its indices"),
    "beyond": (matrix(rows((0, 1, 1, 3))), "rising within its indices"),
    "before": (matrix(rows((-1, 1, 1, 2))), "more places than numbers"),
    "outside": (matrix(rows(indices=(1, 2))), "outside of its shape"),
    "negative": (matrix(rows(indices=(1, -1))), "outside of its shape"),
    "more numbers": (matrix(rows((0, 1, 1, 1))), "2 numbers for 1 places"),
    "no entries": (matrix(_2=[Fields(_0=0, _1=0), rows()]), "a level of 0 entries"),
    "too many": (matrix(_2=[Fields(_0=0, _1=7), rows()]), "a level of 7 entries"),
}


def test_a_matrix_by_rows() -> None:
    assert densified(matrix(), RAW, (3, 2), DTYPE, "here").tolist() == [[0, 5], [0, 0], [7, 0]]


@pytest.mark.parametrize("fault", WRONG)
def test_what_does_not_fit_is_refused(fault: str) -> None:
    table, message = WRONG[fault]
    with pytest.raises(FileError, match=message):
        densified(table, RAW, (3, 2), DTYPE, "here")


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(FileError, match="axes of the tensor"):
        densified(matrix(), RAW, (3, -2), DTYPE, "here")
    with pytest.raises(FileError, match="a sparse tensor of"):
        densified(matrix(), RAW, (1 << 16, 1 << 16), DTYPE, "here")
    with pytest.raises(FileError, match="a sparse tensor of 6 numbers"):
        densified(matrix(), RAW[:7], (3, 2), DTYPE, "here")
