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


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(0, 3, 5, 5), (2, 3, 5, 5)])
def test_convolutions_of_nothing_and_of_something(dtype: str, shape: tuple[int, ...]) -> None:
    small = RNG.integers(-3, 4, shape)
    x, w = small.astype(np.float32), RNG.integers(-3, 4, (4, 3, 3, 3)).astype(np.float32)
    kind = getattr(tb, dtype)

    def f(a: Any, b: Any) -> Any:
        return tb.nn.functional.conv2d(a.to(kind), b.to(kind)).to(tb.float32)

    both(f, x, w)


REPEATED = [((1,), (1,), (4, 6)), ((4, 1), (0, 1), (4, 6)), ((1, 6), (0, 1), (4, 6)), ((6,), (1,), (4, 6)),
            ((4,), (0,), (4, 6)), ((1, 1), (0, 1), (4, 6)), ((5, 1, 7), (0, 1, 2), (5, 3, 7))]  # fmt: skip


@pytest.mark.parametrize(("shape", "axes", "to"), REPEATED)
def test_operands_that_are_repeated_along_axes_of_one(shape: Any, axes: Any, to: Any) -> None:
    x, y = RNG.standard_normal(shape).astype(np.float32), RNG.standard_normal(to).astype(np.float32)

    def body(a: Any, b: Any) -> Any:
        return [table["mul"](table["broadcast"](a, shape=to, axes=axes), b)]

    graph = record_graph(body, [type_of(x), type_of(y)], "repeated")
    found = executable(graph, "dlp:dlp-s")([x, y])[0]
    np.testing.assert_array_equal(found, run(graph, [x, y])[0])


@pytest.mark.parametrize("count", [1, 2, 127, 128, 129, 1000])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("rows", [2, 700, 60_000])
def test_gathers_of_elements_and_of_rows(count: int, width: int, rows: int) -> None:
    """Tables that lie in a scratchpad and those that do not; more and fewer places than cores."""
    x = RNG.standard_normal((rows, width)).astype(np.float32)
    at = RNG.integers(0, rows, count)
    for machine in ("dlp-s", "dlp-m"):
        both(lambda a, b: tb.take(a, b, axis=0), x[:, 0] if width == 1 else x, at, machine=machine)
