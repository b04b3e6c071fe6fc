"""Collating: items become a batch.

In: a list of items of one structure (tuples, dicts, dataclasses, nested). Out: the same structure with a new
first axis: numbers and arrays are stacked as NumPy arrays, strings and bytes stay lists, anything else is
refused. It converts no dtypes: an item of another shape or dtype is an error, because the batch would
otherwise depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trilobite.base import pytree
from trilobite.base.errors import ArgumentError, DataError, DTypeError, ShapeError
from trilobite.base.wrong_use import explain_room

Stack = Callable[[Sequence[Any], str], Any]


def collate(items: Sequence[Any]) -> Any:
    """Stack the items leaf by leaf; all must have equal structure, shapes and dtypes."""
    return _columns(items, _stack)


class PadCollate:
    """Like `collate`, for arrays of unequal extents: they are filled up at the end to the largest.

    `multiple` rounds the first extent up, which keeps the number of different shapes small.
    """

    def __init__(self, value: float = 0, *, multiple: int = 1) -> None:
        if multiple < 1:
            raise ArgumentError(f"PadCollate: multiple is {multiple}", expected="an integer >= 1")
        self.value, self.multiple = value, multiple

    def __call__(self, items: Sequence[Any]) -> Any:
        return _columns(items, self._stack)

    def _stack(self, column: Sequence[Any], name: str) -> Any:
        if isinstance(column[0], str | bytes):
            return list(column)
        arrays = [_array(x, name) for x in column]
        if len({a.ndim for a in arrays}) > 1:
            raise ShapeError(
                f"{name} differs in rank within a batch: {sorted({a.ndim for a in arrays})} axes",
                expected="equal rank; only extents are padded",
            )
        _same_dtype(arrays, name)
        shape = list(np.max([a.shape for a in arrays], axis=0).astype(int)) if arrays[0].ndim else []
        if shape:
            shape[0] += -shape[0] % self.multiple
        out = np.full((len(arrays), *shape), self.value, arrays[0].dtype)
        for i, a in enumerate(arrays):
            window: tuple[Any, ...] = (i, *(slice(n) for n in a.shape))
            out[window] = a
        return out


def _columns(items: Sequence[Any], stack: Stack) -> Any:
    if not len(items):
        raise DataError("an empty batch cannot be collated", expected="at least one item")
    first, tree = pytree.flatten(items[0])
    rows = [first]
    for i, item in enumerate(items[1:], start=1):
        leaves, other = pytree.flatten(item)
        if other != tree:
            raise DataError(
                f"items 0 and {i} of a batch differ in structure: {tree} and {other}",
                expected="the same structure in every item",
                remedy="give the loader your own collate=",
            )
        rows.append(leaves)
    names = [f"field {name!r}" if name else "the item" for name, _ in pytree.paths(items[0])]
    columns = zip(*rows, strict=True)
    return tree.unflatten([stack(column, name) for column, name in zip(columns, names, strict=True)])


def _stack(column: Sequence[Any], name: str) -> Any:
    if isinstance(column[0], str | bytes):
        return list(column)
    arrays = [_array(x, name) for x in column]
    shapes = {a.shape for a in arrays}
    if len(shapes) > 1:
        raise ShapeError(
            f"{name} differs in shape within a batch: {sorted(shapes)}",
            expected="equal shapes",
            remedy="resize or crop in a transform, or collate=PadCollate()",
        )
    _same_dtype(arrays, name)
    return np.stack(arrays)


def _array(leaf: Any, name: str) -> npt.NDArray[Any]:
    array = np.asarray(leaf)
    if array.dtype == object:
        raise DTypeError(
            f"{name} is a {type(leaf).__name__}, which cannot be stacked",
            expected="numbers, arrays or strings",
            remedy="give the loader your own collate=",
        )
    return array


def _same_dtype(arrays: Sequence[npt.NDArray[Any]], name: str) -> None:
    dtypes = {a.dtype for a in arrays}
    if len(dtypes) > 1:
        raise DTypeError(
            f"{name} differs in dtype within a batch: {', '.join(sorted(map(str, dtypes)))}",
            expected="one dtype",
            remedy="cast in a transform, for example ToFloat()",
        )


explain_room(globals())
