"""Writes into parts of values whose sizes are symbols: every place, with and without steps, at all sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.test_bounded import through_bounds
from trilobite.ir.evaluate import run

MOST = 7


def written(key: Any) -> Callable[[Any, Any], Any]:
    def f(x: Any, y: Any) -> Any:
        out = x * 1
        out[key] = y[: out[key].shape[0]] if not isinstance(key, tuple) else y[:, : out[key].shape[1]]
        return out

    return f


CASES: dict[str, Any] = {  # what is written to
    "rows": slice(0, 2),
    "later rows": slice(1, 3),
    "all but the last": slice(0, -1),
    "all but the first": slice(1, None),
    "columns": (slice(None), slice(1, 4)),
    "every second column": (slice(None), slice(0, 5, 2)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [3, 4, MOST])
def test_writes(name: str, n: int) -> None:
    key = CASES[name]
    rng = np.random.default_rng(n)
    size = tb.dim("n", min=3, max=MOST)
    x, y = rng.standard_normal((2, n, 5)).astype(np.float32)
    jitted = tb.jit(written(key), shapes=[(size, None), (size, None)])
    graph = jitted.lower(tb.tensor(x), tb.tensor(y)).graph
    want = run(graph, [x, y])
    plain = x.copy()
    plain[key] = y[: plain[key].shape[0]] if not isinstance(key, tuple) else y[:, : plain[key].shape[1]]
    np.testing.assert_array_equal(want[0], plain)
    np.testing.assert_array_equal(through_bounds(graph, [x, y], rng)[0], plain)
