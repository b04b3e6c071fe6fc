"""The native walk down decision trees beside its meaning in NumPy, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, FileError
from trilobite.inference.operators.ml.forest import LEAF, Forest

Array = np.ndarray[Any, Any]


def grown(seed: int, trees: int, features: int, nodes: int) -> Forest:
    """Trees of random form: each node takes an open leaf and makes two of it."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {k: [] for k in ("feature", "split", "mode", "yes", "no", "missing")}
    roots = []

    def leaf() -> int:
        place = len(columns["mode"])
        for name, value in zip(columns, (-1, 0.0, LEAF, place, place, False), strict=True):
            columns[name].append(value)
        return place

    for _ in range(trees):
        roots.append(leaf())
        open_leaves = [roots[-1]]
        for _ in range(int(rng.integers(nodes + 1))):
            at = open_leaves.pop(int(rng.integers(len(open_leaves))))
            yes, no = leaf(), leaf()
            split = rng.choice([rng.standard_normal(), 0.0, -0.0, 0.5, np.inf, -np.inf, 1e-40])
            row = (int(rng.integers(features)), split, int(rng.integers(6)), yes, no, bool(rng.integers(2)))
            for name, value in zip(columns, row, strict=True):
                columns[name][at] = value
            open_leaves += [yes, no]
    return Forest(np.asarray(roots), *map(np.asarray, columns.values()))


def samples(seed: int, count: int, features: int, dtype: Any) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, features))
    special = rng.choice([0.0, -0.0, 0.5, np.nan, np.inf, -np.inf, 1e-40], x.shape)
    return np.where(rng.random(x.shape) < 0.4, special, x).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(12))
def test_leaves_are_those_of_the_walk(seed: int, dtype: Any) -> None:
    features = 1 + seed % 5
    forest = grown(seed, trees=1 + seed % 7, features=features, nodes=40)
    for count in (0, 1, 7, 8, 9, 31):
        x = samples(100 + seed, count, features, dtype)
        np.testing.assert_array_equal(forest.leaves(x), forest.walk(x))
        wide = np.concatenate([x, x], axis=1)[:, :features]  # rows that lie apart
        np.testing.assert_array_equal(forest.leaves(wide), forest.walk(x))


@pytest.mark.parametrize("seed", range(8))
def test_sums_are_those_of_leaves_tree_after_tree(seed: int) -> None:
    rng = np.random.default_rng(200 + seed)
    forest = grown(seed, trees=(1, 7, 8, 9, 33)[seed % 5], features=3, nodes=20)
    targets = 1 + seed % 3
    said = rng.standard_normal((len(forest.mode), targets)) * np.exp2(rng.integers(-30, 30, (1, targets)))
    base = np.append(rng.standard_normal(targets), rng.choice([1.0, 3.0]))
    for count, dtype in ((0, np.float32), (1, np.float64), (8, np.float32), (13, np.float64)):
        x = samples(300 + seed, count, 3, dtype)
        total = np.zeros((count, targets))
        for leaves in forest.walk(x).T:
            total = total + said[leaves]
        for result in (np.float32, np.float64):
            expected = (total / base[-1] + base[:-1]).astype(result)
            np.testing.assert_array_equal(forest.sums(x, said, base, result), expected)
    with pytest.raises(ArgumentError, match="samples in 3 dimensions"):
        forest.sums(np.zeros((1, 3, 3), np.float32), said, base, np.float32)


def test_a_chain_is_walked_to_its_end() -> None:
    n = 300
    inner = np.arange(n)
    mode = np.concatenate([np.zeros(n, int), np.full(n + 1, LEAF)])
    yes = np.concatenate([inner + n, np.arange(n, 2 * n + 1)])
    no = np.concatenate([inner + 1, np.arange(n, 2 * n + 1)])
    no[n - 1] = 2 * n
    split = np.concatenate([inner.astype(float), np.zeros(n + 1)])
    forest = Forest(
        np.zeros(1, int), np.zeros(2 * n + 1, int), split, mode, yes, no, np.zeros(2 * n + 1, bool)
    )
    x = np.arange(-1, n + 2, dtype=np.float32)[:, None]
    expected = [[n], *([i + n] for i in range(n)), [2 * n], [2 * n]]
    np.testing.assert_array_equal(forest.leaves(x), expected)


def one_split(**changed: Any) -> Forest:
    columns = {
        "roots": np.array([0]), "feature": np.array([2, 0, 0]), "split": np.array([0.5, 0.0, 0.0]),
        "mode": np.array([0, LEAF, LEAF]), "yes": np.array([1, 1, 2]), "no": np.array([2, 1, 2]),
        "missing_is_yes": np.zeros(3, bool),
    }  # fmt: skip
    return Forest(**{**columns, **changed})


def test_a_split_at_nan_holds_for_nothing() -> None:
    forest = one_split(split=np.array([np.nan, 0.0, 0.0]))
    assert forest.leaves(np.zeros((1, 3), np.float32)).tolist() == [[2]]


def test_refusals() -> None:
    with pytest.raises(FileError, match="never ends in a leaf"):
        one_split(yes=np.array([0, 1, 2]))
    with pytest.raises(FileError, match="a child that is not there"):
        one_split(yes=np.array([3, 1, 2]))
    with pytest.raises(ArgumentError, match="samples of 2 features"):
        one_split().leaves(np.zeros((4, 2), np.float32))
    assert one_split().leaves(np.array([[9, 9, 0.5], [0, 0, 0.75]], np.float32)).tolist() == [[1], [2]]
