"""Col2Im beside the plain sum of blocks: strides, dilations, pads, ranks, blocks that overlap a lot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.inference.conftest import model, node

Ints = tuple[int, ...]
CASES: dict[str, tuple[Ints, Ints, dict[str, list[int]]]] = {
    "line": ((13,), (4,), {}),
    "stride that leaves a rest": ((13, 12), (3, 2), {"strides": [2, 3]}),
    "dilation": ((11, 9), (3, 2), {"dilations": [2, 3]}),
    "dilation and stride": ((14, 12), (3, 3), {"dilations": [2, 1], "strides": [3, 2], "pads": [1, 2, 0, 1]}),
    "stride longer than the block": ((17, 10), (2, 1), {"strides": [5, 3]}),
    "uneven pads": ((6, 5), (3, 4), {"pads": [2, 0, 1, 3]}),
    "volume": ((5, 6, 4), (2, 3, 2), {"strides": [1, 2, 1], "pads": [1, 0, 0, 0, 1, 1]}),
    "many over one place": ((20, 15), (9, 8), {}),
    "many with strides": ((40, 15), (19, 10), {"strides": [2, 1], "pads": [3, 1, 0, 2]}),
}


def settings(space: Ints, block: Ints, given: dict[str, list[int]]) -> tuple[Any, ...]:
    rank = len(space)
    stride, dilation = (given.get(k, [1] * rank) for k in ("strides", "dilations"))
    pads = given.get("pads", [0] * (2 * rank))
    counts = [
        (n + pads[i] + pads[i + rank] - dilation[i] * (block[i] - 1) - 1) // stride[i] + 1
        for i, n in enumerate(space)
    ]
    return stride, dilation, pads, counts


def summed(x: np.ndarray, space: Ints, block: Ints, given: dict[str, list[int]]) -> np.ndarray:
    """Element by element."""
    stride, dilation, pads, counts = settings(space, block, given)
    columns = x.reshape(x.shape[0], -1, *block, *counts)
    out = np.zeros((*columns.shape[:2], *space), x.dtype)
    for k in np.ndindex(*block):
        for b in np.ndindex(*counts):
            at = tuple(b[i] * stride[i] + k[i] * dilation[i] - pads[i] for i in range(len(space)))
            if all(0 <= p < n for p, n in zip(at, space, strict=True)):
                out[(..., *at)] += columns[(..., *k, *b)]
    return out


def run(x: np.ndarray, space: Ints, block: Ints, given: dict[str, list[int]], target: str) -> np.ndarray:
    nodes = [node("Col2Im", "x s b", "y", **given)]
    constants = {"s": np.array(space), "b": np.array(block)}
    session = tb.inference.load(
        model(nodes, {"x": (x.dtype, list(x.shape))}, ["y"], constants), target=target
    )
    found: np.ndarray = session.run({"x": x})["y"]
    return found


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("name", CASES)
def test_blocks_are_added_at_their_places(name: str, dtype: Any, target: str) -> None:
    space, block, given = CASES[name]
    counts = settings(space, block, given)[-1]
    shape = (2, 3 * int(np.prod(block)), int(np.prod(counts)))
    x = (np.random.default_rng(len(name)).standard_normal(shape) * 10).astype(dtype)
    found, expected = run(x, space, block, given, target), summed(x, space, block, given)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_an_infinity_stays_where_it_lies() -> None:
    x = np.random.default_rng(0).standard_normal((1, 9, 16)).astype(np.float32)
    x[0, 4, 5] = np.inf
    found = run(x, (6, 6), (3, 3), {}, "cpu")
    assert np.isinf(found).sum() == 1 and not np.isnan(found).any()


def test_short_floats_are_rounded_once() -> None:
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((1, 2 * 16, 49)) * 100).astype(np.float16)
    plain = summed(x.astype(np.float32), (10, 10), (4, 4), {}).astype(np.float16)
    np.testing.assert_array_equal(run(x, (10, 10), (4, 4), {}, "cpu"), plain)
