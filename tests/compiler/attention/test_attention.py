"""Attention kernels against the composite's meaning: sizes, masks, shared heads, slopes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.targets.cpu.contraction.attention.lower import claims
from trilobite.compiler.targets.registry import executable

attention = tb.nn.functional.scaled_dot_product_attention


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return tb.tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def kinds(jitted: Any, *args: Any) -> set[str]:
    lowered = jitted.lower(*args)
    fused = executable(lowered.graph, "cpu", lowered.usage).main.fused
    return {e.attributes["kind"] for e in fused.equations if e.primitive.name == "fusion"}


def close(got: Any, want: Any, dtype: Any = np.float32) -> None:
    bound = 2e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=bound, atol=bound)


SIZES = [(4, 4), (16, 16), (17, 5), (5, 17), (33, 200), (128, 128), (130, 97)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_any_number_of_queries_and_keys(sizes: tuple[int, int], causal: bool) -> None:
    n, m = sizes
    q, k, v = normal(2, 3, n, 32), normal(2, 3, m, 32, seed=1), normal(2, 3, m, 64, seed=2)
    f = tb.jit(lambda q, k, v: attention(q, k, v, is_causal=causal), target="cpu")
    assert "attention" in kinds(f, q, k, v)
    close(f(q, k, v), attention(q, k, v, is_causal=causal))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes_and_scale(dtype: Any) -> None:
    q, k, v = (normal(2, 20, 48, seed=i, dtype=dtype) for i in range(3))
    f = tb.jit(lambda q, k, v: attention(q, k, v, scale=0.7), target="cpu")
    assert "attention" in kinds(f, q, k, v)
    close(f(q, k, v), attention(q, k, v, scale=0.7), dtype)


def test_query_heads_share_key_heads() -> None:
    q, k, v = normal(2, 6, 20, 16), normal(2, 2, 31, 16, seed=1), normal(2, 2, 31, 16, seed=2)
    f = tb.jit(lambda q, k, v: attention(q, k, v, enable_gqa=True), target="cpu")
    assert "attention" in kinds(f, q, k, v)
    close(f(q, k, v), attention(q, k, v, enable_gqa=True))


@pytest.mark.parametrize("shape", [(1, 25), (2, 1, 1, 25), (2, 3, 1, 25), (1, 1, 1, 25)])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks_over_keys(shape: tuple[int, ...], kind: str) -> None:
    q, k, v = normal(2, 3, 18, 16), normal(2, 3, 25, 16, seed=1), normal(2, 3, 25, 16, seed=2)
    rng = np.random.default_rng(5)
    mask = tb.tensor(rng.random(shape) < 0.6) if kind == "bool" else normal(*shape, seed=6)
    f = tb.jit(lambda q, k, v, m: attention(q, k, v, attn_mask=m), target="cpu")
    assert "attention" in kinds(f, q, k, v, mask)
    close(f(q, k, v, mask), attention(q, k, v, attn_mask=mask))


SPREADS = [(18, 25), (1, 1, 18, 25), (3, 18, 25), (1, 3, 18, 25), (2, 1, 18, 25), (2, 3, 18, 25), (3, 1, 25)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SPREADS)
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks_over_queries_and_heads(shape: tuple[int, ...], kind: str, dtype: Any) -> None:
    q, k, v = (normal(2, 3, n, 16, seed=n, dtype=dtype) for n in (18, 25, 25))
    rng = np.random.default_rng(5)
    mask = tb.tensor(rng.random(shape) < 0.6) if kind == "bool" else normal(*shape, seed=6, dtype=dtype)
    f = tb.jit(lambda q, k, v, m: attention(q, k, v, attn_mask=m), target="cpu")
    assert "attention" in kinds(f, q, k, v, mask)
    close(f(q, k, v, mask), attention(q, k, v, attn_mask=mask), dtype)


@pytest.mark.parametrize("sizes", [(4, 300), (37, 96), (70, 97), (33, 193)])
def test_biases_of_windows(sizes: tuple[int, int]) -> None:
    """One bias for each head and pair of places, for all windows, over blocks of keys that are cut off."""
    n, m = sizes
    q, k, v = normal(3, 2, n, 24), normal(3, 2, m, 24, seed=1), normal(3, 2, m, 40, seed=2)
    bias = normal(2, n, m, seed=3) * 4
    f = tb.jit(lambda q, k, v, b: attention(q, k, v, attn_mask=b), target="cpu")
    assert "attention" in kinds(f, q, k, v, bias)
    close(f(q, k, v, bias), attention(q, k, v, attn_mask=bias))


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_slopes_with_a_mask_of_queries(kind: str) -> None:
    q, k, v = normal(2, 2, 21, 16), normal(2, 2, 37, 16, seed=1), normal(2, 2, 37, 32, seed=2)
    mask = tb.tensor(np.random.default_rng(4).random((21, 37)) < 0.7) if kind == "bool" else normal(2, 21, 37)

    def loss(q: Any, k: Any, v: Any) -> Any:
        return (attention(q, k, v, mask) ** 2).sum()

    f = tb.jit(tb.grad(loss, argnums=(0, 1, 2)), target="cpu")
    for got, want in zip(f(q, k, v), tb.grad(loss, argnums=(0, 1, 2))(q, k, v), strict=True):
        close(got, want)


def test_a_mask_that_allows_nothing_gives_zeros() -> None:
    q, k, v = (normal(1, 2, 9, 16, seed=i) for i in range(3))
    mask = tb.zeros((1, 9), dtype=tb.bool)
    f = tb.jit(lambda q, k, v, m: attention(q, k, v, attn_mask=m), target="cpu")
    assert not f(q, k, v, mask).numpy().any()


def test_large_scores_do_not_overflow() -> None:
    q, k, v = normal(1, 1, 20, 16) * 1e4, normal(1, 1, 20, 16, seed=1) * 1e3, normal(1, 1, 20, 16, seed=2)
    f = tb.jit(lambda q, k, v: attention(q, k, v), target="cpu")
    close(f(q, k, v), attention(q, k, v))


def test_nan_stays_with_its_query() -> None:
    q, k, v = (normal(1, 1, 20, 16, seed=i) for i in range(3))
    q[0, 0, 7, 3] = float("nan")
    got = tb.jit(lambda q, k, v: attention(q, k, v), target="cpu")(q, k, v).numpy()
    assert np.isnan(got[0, 0, 7]).all() and np.isfinite(np.delete(got, 7, axis=2)).all()


@pytest.mark.parametrize("case", ["plain", "causal", "mask", "shared"])
@pytest.mark.parametrize("sizes", [(16, 16), (21, 37), (70, 130), (7, 5)])
def test_slopes(sizes: tuple[int, int], case: str) -> None:
    n, m = sizes
    heads = 4 if case == "shared" else 2
    q, k, v = normal(2, heads, n, 16), normal(2, 2, m, 16, seed=1), normal(2, 2, m, 32, seed=2)
    g = normal(2, heads, n, 32, seed=3)
    mask = tb.tensor(np.random.default_rng(4).random((2, 1, 1, m)) < 0.7) if case == "mask" else None

    def loss(q: Any, k: Any, v: Any) -> Any:
        out = attention(q, k, v, mask, is_causal=case == "causal", enable_gqa=case == "shared")
        return (out * g).sum()

    f = tb.jit(tb.grad(loss, argnums=(0, 1, 2)), target="cpu")
    assert "attention" in kinds(f, q, k, v)
    for got, want in zip(f(q, k, v), tb.grad(loss, argnums=(0, 1, 2))(q, k, v), strict=True):
        close(got, want)


@pytest.mark.parametrize("features", [(1, 1), (3, 10), (10, 3), (40, 24), (17, 33)])
def test_any_number_of_features(features: tuple[int, int]) -> None:
    d, e = features
    q, k, v = normal(1, 2, 37, d), normal(1, 2, 99, d, seed=1), normal(1, 2, 99, e, seed=2)
    f = tb.jit(lambda q, k, v: attention(q, k, v), target="cpu")
    assert "attention" in kinds(f, q, k, v)
    close(f(q, k, v), attention(q, k, v))


def test_what_is_not_claimed_is_compiled_from_its_body() -> None:
    q, k, v = (normal(1, 2, 3, 10, seed=i) for i in range(3))
    f = tb.jit(lambda q, k, v: attention(q, k, v), target="cpu")
    assert "attention" not in kinds(f, q, k, v)
    close(f(q, k, v), attention(q, k, v))


def test_calls_of_other_composites_are_not_claimed() -> None:
    x = normal(3, 4)
    graph = tb.make_graph(lambda x: tb.nn.functional.softmax(x, -1))(x)
    assert not any(claims(e) for e in graph.equations if e.primitive.name == "call")


def test_nothing_as_large_as_the_scores_is_planned() -> None:
    n = 1024
    q, k, v = (normal(1, 2, n, 32, seed=i) for i in range(3))
    f = tb.jit(tb.grad(lambda q, k, v: attention(q, k, v).sum(), argnums=(0, 1, 2)), target="cpu")
    lowered = f.lower(q, k, v)
    compiled = executable(lowered.graph, "cpu", lowered.usage).main
    assert compiled.program({}).packing.peak < 2 * n * n * 4 / 4


def test_sizes_are_words_of_the_kernel() -> None:
    """Windows with other numbers of heads, queries and keys, and masks that repeat otherwise: one kernel."""
    texts = set()
    for heads, windows, queries, keys in ((3, 4, 49, 49), (6, 2, 49, 49), (2, 3, 49, 70)):
        q = normal(2, windows, heads, queries, 16)
        k, v = (normal(2, windows, heads, keys, 16, seed=i) for i in (1, 2))
        mask = normal(windows, 1, queries, keys, seed=3)
        f = tb.jit(lambda q, k, v, mask: attention(q, k, v, mask), target="cpu")
        assert "attention" in kinds(f, q, k, v, mask)
        close(f(q, k, v, mask), attention(q, k, v, mask))
        texts.add(f.lower(q, k, v, mask).compile().stages["llvm"])
    assert len(texts) == 1
