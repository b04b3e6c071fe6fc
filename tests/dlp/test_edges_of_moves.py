"""Moves, shifts, gathers and joins on the processor at sizes on both sides of what their lowerings ask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.targets.registry import executable
from trilobite.ir.evaluate import run
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import type_of

RNG = np.random.default_rng(9)


def both(f: Any, *given: Any, machine: str = "dlp-s") -> None:
    """The processor's values and the interpreter's, equal in every bit."""
    tensors = [tb.tensor(v) for v in given]
    fast = tb.jit(f, target=f"dlp:{machine}", options={"checks": True})
    np.testing.assert_array_equal(fast(*tensors).numpy(), f(*tensors).numpy())


SIGNED = ["int8", "int16", "int32", "int64"]


@pytest.mark.parametrize("dtype", [*SIGNED, "uint8", "uint16", "uint32"])
def test_shifts_by_less_and_more_than_the_width(dtype: str) -> None:
    """Amounts of a run: beyond the width nothing is left, or the sign."""
    width = 8 * np.dtype(dtype).itemsize
    ends = np.iinfo(dtype)
    x = np.asarray([ends.min, ends.max, 0, 1, ends.max // 3, ends.min // 3, 5, ends.max - 1], dtype)
    for amount in (0, 1, width - 1, width, width + 1, 2 * width - 1, 2 * width):
        n = np.full(x.shape, min(amount, ends.max), dtype)
        both(lambda a, b: a << b, x, n)
        both(lambda a, b: a >> b, x, n)


@pytest.mark.parametrize("amount", [0, 1, 31, 32, 33])
def test_shifts_by_an_amount_that_is_known(amount: int) -> None:
    x = np.asarray([-(1 << 31), (1 << 31) - 1, -5, 77], np.int32)
    both(lambda a: a << amount, x)
    both(lambda a: a >> amount, x)


PADS = [((2, 1), (0, 3), (1, 0)), ((-1, 2), (3, -2), (2, 1)),
        ((-3, -1), (0, 0), (1, 2)), ((-2, -2), (-1, 4), (1, 1)), ((-4, 1), (-3, -3), (2, 2)),
        ((-7, 3), (1, 1), (1, 0)), ((5, -6), (0, 0), (2, 0)), ((-20, 30), (0, 0), (0, 0))]  # fmt: skip


@pytest.mark.parametrize(("rows", "columns", "between"), PADS)
def test_pads_that_cut_and_that_put_between(rows: Any, columns: Any, between: Any) -> None:
    """Edges below zero drop elements and gaps; gaps lie between elements alone."""
    x = RNG.standard_normal((5, 6)).astype(np.float32)
    low, high = (rows[0], columns[0]), (rows[1], columns[1])
    gaps = between
    sizes = [lo + n + (n - 1) * g + hi for lo, hi, n, g in zip(low, high, x.shape, gaps, strict=True)]
    if min(sizes) < 0:
        pytest.skip("nothing is left")
    attributes = {"low": low, "high": high, "between": gaps, "value": 0.5}
    graph = record_graph(lambda v: [table["pad"](v, **attributes)], [type_of(x)], "padded")
    by_hand = np.full(sizes, np.float32(0.5))
    for i in range(5):
        for j in range(6):
            at = low[0] + i * (gaps[0] + 1), low[1] + j * (gaps[1] + 1)
            if 0 <= at[0] < sizes[0] and 0 <= at[1] < sizes[1]:
                by_hand[at] = x[i, j]
    np.testing.assert_array_equal(run(graph, [x])[0], by_hand)
    np.testing.assert_array_equal(executable(graph, "dlp:dlp-s")([x])[0], by_hand)
