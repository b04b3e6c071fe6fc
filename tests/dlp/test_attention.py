"""Attention as one routine: the composite's values at any sizes, and no scores in device memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from benchmarks.chip_attention import measured
from trilobite.base.dtypes import float16, float32
from trilobite.processor.machine import load_machine

F = tb.nn.functional
BOUND = {"float32": 2e-6, "float16": 2e-3}


def _attend(
    machine: str, q: tuple[int, ...], k: tuple[int, ...], values: int, dtype: str, causal: bool
) -> Any:
    rng = np.random.default_rng(sum(q) + values)
    shapes = (q, k, (*k[:-1], values))
    given = [tb.tensor(rng.normal(size=shape).astype(dtype)) for shape in shapes]

    def body(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    fast = tb.jit(body, target=f"dlp:{machine}", options={"checks": True})
    got, want = (f(*given).numpy().astype(np.float64) for f in (fast, body))
    assert np.abs(got - want).max() <= BOUND[dtype]
    return fast


SIZES = [
    ((1, 2, 96, 64), (1, 2, 96, 64), 64),
    ((2, 3, 37, 20), (2, 3, 53, 20), 12),  # other keys than queries, odd sizes, narrower values
    ((3, 1, 8), (3, 1, 8), 8),
    ((1, 1, 300, 33), (1, 1, 270, 33), 17),
]


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m"])
@pytest.mark.parametrize(("q", "k", "values"), SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_values(machine: str, q: tuple[int, ...], k: tuple[int, ...], values: int, dtype: str) -> None:
    for causal in (False, True) if q[-2] <= k[-2] else (False,):
        _attend(machine, q, k, values, dtype, causal)


def test_scores_stay_on_chip() -> None:
    fast = _attend("dlp-m", (1, 4, 256, 64), (1, 4, 256, 64), 64, "float32", False)
    moved = sum(fast.last_run.bytes[f"gdram {way}"] for way in ("read", "write"))
    assert moved < 4 * 4 * 256 * 64 * 4 * 4, "less than the scores alone"


def test_long_rows_come_near_the_array() -> None:
    """With 128 features the array's time exceeds the vector unit's eleven passes over scores."""
    q, k, v = (tb.tensor(np.zeros((1, 2, 1024, 128), np.float32)) for _ in range(3))
    fast = tb.jit(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), target="dlp:dlp-s")
    fast(q, k, v)
    array = 2 * 2 * 1024 * 1024 * 128 / load_machine("dlp-s").core.mfu.macs_per_cycle["fp32"]
    assert fast.last_run.cycles <= array / 0.75


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m"])
def test_halves_take_less_time_than_floats(machine: str) -> None:
    """Exponentials of halves pass the vector unit at twice the rate; the routine comes near that unit."""
    rows = {dtype: measured(load_machine(machine), dtype, 4, 512, 64) for dtype in (float16, float32)}
    assert rows[float16].cycles <= 0.7 * rows[float32].cycles
    assert all(row.with_vector >= 0.6 * row.cycles for row in rows.values())


def test_halves_of_distant_scores() -> None:
    """Differences from the maximum are rounded to float16 before the exponential: also where they are large,
    where the maximum comes late, and where all scores are far from 0."""
    rng = np.random.default_rng(5)
    for shift, spread in ((0.0, 8.0), (6.0, 0.5), (-6.0, 3.0)):
        q = rng.normal(size=(1, 2, 40, 16)).astype(np.float16)
        k = (shift + spread * np.sort(rng.normal(size=(1, 2, 200, 16)), axis=-2)).astype(np.float16)
        v = rng.normal(size=(1, 2, 200, 16)).astype(np.float16)
        scores = (q.astype(np.float64) @ np.swapaxes(k.astype(np.float64), -1, -2)) / 4
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        want = weights / weights.sum(-1, keepdims=True) @ v.astype(np.float64)
        fast = tb.jit(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), target="dlp:dlp-m")
        got = fast(*map(tb.tensor, (q, k, v))).numpy().astype(np.float64)
        assert np.abs(got - want).max() <= BOUND["float16"]


def test_what_the_routine_does_not_run_is_inlined() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (tb.tensor(rng.normal(size=(1, 2, 9, 8)).astype(np.float32)) for _ in range(3))
    mask = tb.tensor(rng.random((9, 9)) > 0.4)

    def body(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    fast = tb.jit(body, target="dlp:dlp-s")
    assert np.abs(fast(q, k, v, mask).numpy() - body(q, k, v, mask).numpy()).max() <= 2e-6


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m"])
@pytest.mark.parametrize("keys", [40, 300])
def test_rounded_weights_are_divided_by_their_own_sum(machine: str, keys: int) -> None:
    """All but one of a query's weights are equal and round to the same side; the mean of equal values is the
    value, whose neighbours in float16 are half as far away as these roundings."""
    q = np.linspace(0.05, 0.7, 64).astype(np.float16).reshape(1, 1, 64, 1)
    k, v = np.zeros((1, 1, keys, 1), np.float16), np.full((1, 1, keys, 3), 1.999, np.float16)
    k[..., 0, :] = 1
    fast = tb.jit(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), target=f"dlp:{machine}")
    assert np.array_equal(
        fast(*map(tb.tensor, (q, k, v))).numpy(), np.broadcast_to(v[:, :, :1], (1, 1, 64, 3))
    )


def test_halves_are_those_of_the_definition() -> None:
    """As exactly as the ONNX suite asks for: its sizes, numbers between 0 and 1."""
    fast = tb.jit(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), target="dlp:dlp-s")
    for seed in range(8):
        rng = np.random.default_rng(seed)
        given = [tb.tensor(rng.random((2, 3, n, 8)).astype(np.float16)) for n in (4, 6, 6)]
        want = F.scaled_dot_product_attention(*given).numpy()
        np.testing.assert_allclose(fast(*given).numpy(), want, rtol=1e-3, atol=1e-7)
