"""k-fold cross-validation. In: a number of items (or a dataset) and k. Out: k pairs (train, test)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import ArgumentError, DataError, ShapeError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.data import streams
from trilobite.framework.data.dataset import Dataset, Subset
from trilobite.framework.data.samplers import count


def kfold(
    data: int | Dataset, k: int, *, shuffle: bool = True, seed: int = 0, stratify: Any = None
) -> Iterator[tuple[Any, Any]]:
    """Pairs (train, test): index arrays if `data` is a number, subsets if it is a dataset.

    Sizes of test parts differ by at most one. With `stratify` (one label per item), so do the counts of every
    label.
    """
    n = count("kfold: data", data) if isinstance(data, int | np.integer) else len(data)
    if count("kfold: k", k, 2) > n:
        raise ArgumentError(
            f"kfold: k = {k} folds of {n} items",
            where=user_location(),
            expected=f"2 <= k <= {n}",
            remedy="use fewer folds: each holds out at least one item",
        )
    fold = _fold_of_item(n, k, _order(n, shuffle, streams.check_seed(seed)), stratify)
    return _pairs(data, k, fold)  # a generator of its own, so that wrong arguments are told at the call


def _order(n: int, shuffle: bool, seed: int) -> npt.NDArray[np.int64]:
    return streams.permutation(seed, streams.FOLD, 0, n) if shuffle else np.arange(n, dtype=np.int64)


def _fold_of_item(n: int, k: int, order: npt.NDArray[np.int64], stratify: Any) -> npt.NDArray[np.int64]:
    fold = np.empty(n, np.int64)
    if stratify is None:
        fold[order] = np.arange(n) * k // n  # contiguous runs of the order
        return fold
    labels = np.asarray(stratify)
    if labels.shape != (n,):
        raise ShapeError(f"kfold: stratify has shape {labels.shape}", expected=f"({n},): one label per item")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise DataError("kfold: stratify contains NaN", expected="labels that equal themselves")
    # Deal the items out like cards, label by label: neighbours of one label go to different folds.
    dealt = order[np.argsort(labels[order], kind="stable")]
    fold[dealt] = np.arange(n) % k
    return fold


def _pairs(data: int | Dataset, k: int, fold: npt.NDArray[np.int64]) -> Iterator[tuple[Any, Any]]:
    for i in range(k):
        train, test = np.flatnonzero(fold != i), np.flatnonzero(fold == i)
        if isinstance(data, int | np.integer):
            yield train, test
        else:
            yield Subset(data, train), Subset(data, test)


explain_room(globals())
