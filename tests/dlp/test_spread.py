"""Operands that repeat within a tile: the interpreter's values, and no granule of DRAM an element."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.targets.dlp.kernels.spread import Spread

SHAPES = [
    ((7, 33), (7, 1), (1, 33)),
    ((5, 1, 19), (1, 6, 1), (5, 6, 19)),
    ((3, 4, 5, 6), (3, 1, 5, 1), (1, 4, 1, 6)),
    ((2, 1, 700), (2, 90, 1), (1, 90, 700)),
    ((1, 300), (257, 1), (257, 300)),
    ((40000,), (1,), (40000,)),
    ((4, 1), (4, 30011), (1, 1)),
]


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64"])
def test_repeated_operands(machine: str, dtype: str) -> None:
    rng = np.random.default_rng(3)

    def f(a, b, c):
        return (a + b) * c - b

    fast = tb.jit(f, target=f"dlp:{machine}", options={"checks": True})
    for shapes in SHAPES[:: 1 if dtype == "float32" else 3]:
        given = [rng.integers(-5, 6, s).astype(dtype) for s in shapes]
        found = fast(*map(tb.tensor, given)).numpy()
        np.testing.assert_array_equal(found, f(*given))


def test_elements_come_from_memory_once() -> None:
    """A number for each row costs about as much as nothing beside the rows themselves."""
    rng = np.random.default_rng(4)
    x, whole = (tb.tensor(rng.normal(size=(256, 512)).astype(np.float32)) for _ in range(2))
    rows = tb.tensor(rng.normal(size=(256, 1)).astype(np.float32))
    cycles = []
    for other in (whole, rows):
        fast = tb.jit(lambda a, b: a * b, target="dlp:dlp-s")
        fast(x, other)
        cycles.append(fast.last_run.cycles)
    assert cycles[1] < cycles[0]


def test_what_a_spread_needs() -> None:
    made = Spread((4, 3, 8), (1, 0, 0), 4)
    assert (made.repeats, made.compact) == (24, 4)
    made = Spread((4, 3, 8), (0, 1, 0), 4)
    assert (made.repeats, made.compact, made.bytes) == (8, 3, (128, 128, 384))
    assert not Spread((4, 3), (3, 1), 4).is_needed
