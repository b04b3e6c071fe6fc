"""Attention as one routine: the composite's values at any sizes, and no scores in device memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from benchmarks.chip_attention import measured, square
from trilobite.base.dtypes import float16, float32
from trilobite.compiler.targets.dlp.kernels.attention import Attention, Blocks, _kernel, _teams
from trilobite.processor import Device
from trilobite.processor.machine import load_machine

F = tb.nn.functional
BOUND = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


def _attend(
    machine: str, q: tuple[int, ...], k: tuple[int, ...], values: int, dtype: str, causal: bool
) -> Any:
    rng = np.random.default_rng(sum(q) + values)
    shapes = (q, k, (*k[:-1], values))
    given = [tb.tensor(rng.normal(size=shape).astype(np.float32)).astype(dtype) for shape in shapes]

    def body(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    fast = tb.jit(body, target=f"dlp:{machine}", options={"checks": True})
    got, want = (np.asarray(f(*given).numpy(), np.float64) for f in (fast, body))
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


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m"])
@pytest.mark.parametrize("queries", [1, 37])
def test_bfloat16_and_shared_keys_go_the_same_way(machine: str, queries: int) -> None:
    """Heads of queries that share keys, and a single query of each, as decoding has them."""
    rng = np.random.default_rng(queries)
    shapes = ((2, 4, queries, 20), (2, 2, 53, 20), (2, 2, 53, 12))
    given = [tb.tensor(rng.normal(size=shape).astype(np.float32)).astype("bfloat16") for shape in shapes]

    def body(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    fast = tb.jit(body, target=f"dlp:{machine}", options={"checks": True})
    got, want = (np.asarray(f(*given).numpy(), np.float64) for f in (fast, body))
    assert np.abs(got - want).max() <= BOUND["bfloat16"]
    assert "blocks of" in fast.lower(*given).stages["mapping"]


def test_scores_stay_on_chip() -> None:
    fast = _attend("dlp-m", (1, 4, 256, 64), (1, 4, 256, 64), 64, "float32", False)
    moved = sum(fast.last_run.bytes[f"gdram {way}"] for way in ("read", "write"))
    assert moved < 4 * 4 * 256 * 64 * 4 * 4, "less than the scores alone"


ROOFS = {
    ("dlp-s", float32): 0.9,
    ("dlp-s", float16): 0.76,
    ("dlp-m", float32): 0.62,
    ("dlp-m", float16): 0.36,
}


@pytest.mark.parametrize(("machine", "dtype"), ROOFS)
def test_how_near_the_roof(machine: str, dtype: Any) -> None:
    """Exponentials cost the array nothing, whatever their format."""
    row = measured(load_machine(machine), square(dtype, 4, 512, 64))
    assert row.roof >= ROOFS[machine, dtype] * row.cycles


def _expected(a: Attention, q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, a.group, axis=0) for x in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) * a.scale
    if a.causal:
        scores = np.where(np.arange(a.keys) > np.arange(a.queries)[:, None], -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)


def _launched(
    machine: str, blocks: Blocks, a: Attention, spread: float = 1.0, offset: float = 0.0
) -> tuple[Any, Any]:
    """What the routine gives and what it should, of numbers around `offset`; races and memory are checked."""
    part, rng = load_machine(machine), np.random.default_rng(a.queries + a.keys)
    shapes = ((a.heads, a.queries, a.width), (a.heads // a.group, a.keys, a.width))
    q, k = ((offset + spread * rng.normal(size=shape)).astype(a.dtype) for shape in shapes)
    v = rng.normal(size=(*shapes[1][:2], a.values)).astype(a.dtype)
    device = Device(part)
    given = [device.array(x) for x in (q, k, v)]
    out = device.empty((a.heads, a.queries, a.values), a.dtype)
    task = f"union{part.clusters}" if part.cores > 1 else "block"
    device.launch(_kernel(a, part, blocks), [*given, out], dim=(part.cores, 1, 1), task=task, checks=True)
    return out.numpy().astype(np.float64), _expected(a, q, k, v)


def _of(heads: int, group: int, queries: int, keys: int, width: int, values: int, scale: float, causal: bool,
        ) -> Attention:  # fmt: skip
    return Attention(heads, group, queries, keys, width, values, scale, causal, float16)


ALONE = [
    (Blocks(16, 16), _of(3, 1, 21, 16, 5, 7, 0.4, False)),  # one block of keys
    (Blocks(16, 16), _of(2, 2, 40, 23, 8, 3, 0.3, False)),  # two, heads that share keys
    (Blocks(16, 8), _of(2, 1, 33, 39, 9, 1, 0.3, False)),  # five
    (Blocks(8, 8), _of(3, 1, 30, 47, 8, 8, 0.5, True)),
    (Blocks(32, 8), _of(1, 1, 41, 41, 4, 6, 1.0, True)),
    (Blocks(8, 16), _of(70, 1, 1, 40, 8, 8, 0.5, False)),  # a query each
    (Blocks(16, 8, keeps=True), _of(4, 2, 41, 39, 8, 5, 0.4, False)),  # keys of a head stay in WRAM
    (Blocks(16, 16, keeps=True), _of(3, 1, 41, 14, 8, 5, 0.4, False)),
    (Blocks(8, 8, keeps=True), _of(2, 1, 30, 47, 8, 8, 0.5, True)),
    (Blocks(16, 8), _of(2, 1, 21, 30, 8, 8, -0.7, False)),  # a scale that turns the order of products
]
SHARED = [
    (Blocks(8, 8, 4), _of(6, 2, 61, 37, 8, 5, 0.4, False)),  # eight blocks of queries a head
    (Blocks(8, 16, 4), _of(3, 1, 32, 3, 8, 8, 0.4, False)),  # fewer keys than cores
    (Blocks(8, 8, 4), _of(5, 1, 30, 61, 8, 8, 0.4, True)),
    (Blocks(8, 8, 4), _of(2, 1, 253, 61, 8, 8, 0.4, True)),  # a head for longer than a turn
    (Blocks(8, 8, 4), _of(7, 1, 61, 61, 8, 8, 0.4, True)),  # every other two heads from behind
    (Blocks(8, 16, 4), _of(2, 2, 253, 61, 8, 8, 0.4, False)),
    (Blocks(8, 8, 2), _of(6, 3, 14, 37, 8, 5, 0.4, False)),  # two heads in a cluster
    (Blocks(8, 16, 2), _of(20, 1, 16, 61, 8, 5, 0.4, True)),
]


@pytest.mark.parametrize(
    ("machine", "blocks", "a"),
    [("dlp-s", *row) for row in ALONE] + [("dlp-m", *row) for row in (*ALONE, *SHARED)],
)
def test_blocks_of_any_size(machine: str, blocks: Blocks, a: Attention) -> None:
    """Many small blocks, whose last ones are not full; the teams are those that the search would take."""
    part = load_machine(machine)
    assert blocks.team in _teams(a, part, part.cores, blocks.rows)
    got, want = _launched(machine, blocks, a)
    assert np.abs(got - want).max() <= BOUND["float16"]


@pytest.mark.parametrize("dtype", [float32, float16])
@pytest.mark.parametrize(("spread", "offset"), [(3.0, 0.0), (30.0, 0.0), (1.0, 40.0), (3000.0, 0.0)])
def test_distant_scores(dtype: Any, spread: float, offset: float) -> None:
    """Up to scores of 10^9, whose last place is larger than what decides between two keys: every weight stays
    a number, and equal scores have equal weights."""
    a = Attention(2, 1, 32, 40, 64, 8, 1.0, False, dtype)
    got, want = _launched("dlp-s", Blocks(16, 8), a, spread, offset)
    assert np.isfinite(got).all()
    if dtype == float16 or spread <= 3:  # products of halves are exact in float32, those of floats are not
        assert np.abs(got - want).max() <= (BOUND["float16"] if spread < 3000 else 0.02)


def test_rows_without_a_number_stay_alone() -> None:
    """NaN and infinity of a query are that query's; one whose scores are all -inf gives 0."""
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=(1, 40, 8)).astype(np.float32) for _ in range(3))
    k[..., 0] = np.abs(k[..., 0]) + 0.1
    q[0, 5, 3], q[0, 17, 0], q[0, 30, 0] = np.nan, np.inf, -np.inf
    fast = tb.jit(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), target="dlp:dlp-s")
    got = fast(*map(tb.tensor, (q, k, v))).numpy()
    want = F.scaled_dot_product_attention(*map(tb.tensor, (q, k, v))).numpy()
    assert np.isnan(want[0, [5, 17]]).all()
    assert (want[0, 30] == 0).all()
    np.testing.assert_allclose(got, want, rtol=0, atol=BOUND["float32"])


def test_which_cores_are_a_team() -> None:
    """Cores of a cluster that have blocks of one head each time, and as many steps as the others."""
    part = load_machine("dlp-m")

    def teams(heads: int, queries: int, causal: bool, cores: int = part.cores) -> list[int]:
        return _teams(_of(heads, 1, queries, 64, 16, 16, 0.25, causal), part, cores, 8)

    assert teams(2, 64, False) == [1, 2, 4]
    assert teams(2, 64, True) == [1, 4]
    assert teams(2, 48, False) == [1, 2]
    assert teams(2, 48, True) == [1], "teams of one cluster would see different numbers of keys"
    assert teams(2, 16, True) == [1, 2]
    assert teams(3, 16, False) == [1], "a cluster would end with idle cores"
    assert teams(2, 64, False, 1) == [1]


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
