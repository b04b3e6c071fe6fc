"""Elements and rows by index: the interpreter's values on chips of all sizes, at the cost of elements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb

F = tb.nn.functional
SHAPES = [((5, 7, 11), 1, 9), ((3, 401), 1, 600), ((2, 3, 10, 21), 3, 37), ((6, 9, 2), 0, 31),
          ((40, 33), 0, 3), ((1, 1, 5), 2, 2), ((2, 9000), 1, 40), ((3, 2, 30, 70), 1, 4)]  # fmt: skip
KINDS: dict[str, Callable[[Any, int, Any, Any], Any]] = {
    "gather": lambda x, axis, i, y: tb.take(x, i, axis=axis),
    "add": lambda x, axis, i, y: tb.index_add(x, axis, i, y),
    "set": lambda x, axis, i, y: tb.index_copy(x, axis, i[:1], tb.take(y, tb.tensor([0]), axis=axis)),
    "max": lambda x, axis, i, y: tb.index_reduce(x, axis, i, y, "amax"),
    "along": lambda x, axis, i, y: tb.take_along_dim(x, _spread(x, axis, i), axis),
    "scatter": lambda x, axis, i, y: tb.scatter_add(x, axis, _spread(x, axis, i), y),
}


def _spread(x: Any, axis: int, i: Any) -> Any:
    """Indices along an axis, the same everywhere else."""
    shape = [1] * x.ndim
    shape[axis] = i.shape[0]
    return i.reshape(shape).expand(*x.shape[:axis], i.shape[0], *x.shape[axis + 1 :])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "axis", "count"), SHAPES, ids=str)
def test_values(kind: str, shape: tuple[int, ...], axis: int, count: int, odd_machine: Path) -> None:
    machine = ("dlp-s", "dlp-m", str(odd_machine))[(len(kind) + len(shape) + count) % 3]
    rng = np.random.default_rng(count)
    dtype = (np.float32, np.float64, np.int8, np.int64)[(count + len(kind)) % 4]
    x = tb.tensor(rng.integers(-50, 50, shape).astype(dtype))
    y = tb.tensor(rng.integers(-9, 9, (*shape[:axis], count, *shape[axis + 1 :])).astype(dtype))
    i = tb.tensor(rng.integers(0, shape[axis], count))
    f = KINDS[kind]
    options = {"checks": kind != "max"}  # whose elements go one by one where rows are short
    found = tb.jit(lambda x, i, y: f(x, axis, i, y), target=f"dlp:{machine}", options=options)(
        x, i, y
    ).numpy()
    wanted = f(x, axis, i, y).numpy()
    assert found.dtype == wanted.dtype and np.array_equal(found, wanted)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_enlarging_costs_about_its_elements(mode: str) -> None:
    """Places along the last axis were read one by one from DRAM: 2,700 cycles an element."""
    x = tb.tensor(np.random.default_rng(0).normal(size=(2, 5, 24, 20)).astype(np.float32))
    fast = tb.jit(lambda v: F.interpolate(v, size=(37, 51), mode=mode), target="dlp:dlp-s")
    wanted = F.interpolate(x, size=(37, 51), mode=mode).numpy()
    np.testing.assert_allclose(fast(x).numpy(), wanted, 1e-5, 1e-5)
    assert fast.last_run.cycles < 40 * wanted.size


def test_sums_by_segment_stay_on_chip() -> None:
    rng = np.random.default_rng(0)
    x, i = tb.tensor(rng.normal(size=(500, 12)).astype(np.float32)), tb.tensor(rng.integers(0, 40, 500))
    fast = tb.jit(lambda x, i: tb.zeros((40, 12)).index_add(0, i, x), target="dlp:dlp-s")
    np.testing.assert_allclose(fast(x, i).numpy(), tb.zeros((40, 12)).index_add(0, i, x).numpy(), 1e-5, 1e-5)
    assert fast.last_run.cycles < 500 * 150
