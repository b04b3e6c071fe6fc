"""Composites of large arrays run natively: the same numbers and gradients, the bits of a compiled call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.framework import heavy_composites
from trilobite.ir.transforms.composite import Composite, Plainly

F = tb.nn.functional
Array = np.ndarray[Any, Any]
LARGE, SMALL = (3, 131, 400), (3, 5, 7)

COMPOSITES: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, 1),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "layer_norm": lambda x: F.layer_norm(x, (x.shape[-1],)),
    "relu": F.relu,
    "silu": F.silu,
    "attention": lambda x: F.scaled_dot_product_attention(x, x * 0.5, x, is_causal=True),
}


def numbers(shape: tuple[int, ...], dtype: str = "float32", seed: int = 7) -> Array:
    return (3 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def value_and_slope(fn: Callable[[Any], Any], array: Array) -> tuple[Array, Array]:
    x = tb.tensor(array, requires_grad=True)
    y = fn(x)
    (y * tb.tensor(numbers(y.shape, str(array.dtype), seed=8))).sum().backward()
    assert x.grad is not None
    return y.detach().numpy(), x.grad.numpy()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", COMPOSITES)
def test_large_ones_give_the_same_numbers(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    array = numbers(LARGE, dtype)
    found = value_and_slope(COMPOSITES[name], array)
    monkeypatch.setattr(Composite, "way", Plainly())
    for mine, plain in zip(found, value_and_slope(COMPOSITES[name], array), strict=True):
        size = np.abs(plain).max()
        np.testing.assert_allclose(mine, plain, rtol=0, atol=64 * np.finfo(dtype).eps * size)


@pytest.mark.parametrize("name", ["softmax", "gelu_tanh", "layer_norm", "attention"])
def test_bits_are_those_of_a_compiled_call(name: str) -> None:
    x = tb.tensor(numbers(LARGE))
    compiled = tb.jit(COMPOSITES[name], target="cpu")(x).numpy()
    np.testing.assert_array_equal(COMPOSITES[name](x).numpy(), compiled)


def test_each_kind_of_call_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    way = heavy_composites.Native()
    monkeypatch.setattr(Composite, "way", way)
    for _ in range(3):
        F.softmax(tb.tensor(numbers(LARGE)), -1)
    F.softmax(tb.tensor(numbers(SMALL)), -1)
    assert len(way._known) == 1


def test_results_that_are_kept_keep_their_values() -> None:
    kept = [F.softmax(tb.tensor(numbers(LARGE) * k), -1) for k in range(1, 6)]
    for k, y in enumerate(kept, start=1):
        np.testing.assert_array_equal(y.numpy(), F.softmax(tb.tensor(numbers(LARGE) * k), -1).numpy())


def test_second_derivatives_of_large_ones() -> None:
    array = numbers((400, 400))
    first = tb.grad(lambda z: F.gelu(z, approximate="tanh").sum())
    slope = tb.grad(lambda x: (first(x) * x).sum())
    rows = np.concatenate([slope(tb.tensor(r)).numpy() for r in np.split(array, 20)])
    np.testing.assert_allclose(slope(tb.tensor(array)).numpy(), rows, rtol=1e-4, atol=1e-5)


def test_calls_of_other_settings_are_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    way = heavy_composites.Native()
    monkeypatch.setattr(Composite, "way", way)
    x = numbers(LARGE)
    for axis in (0, 1, 2, -1, 0):
        found = F.softmax(tb.tensor(x), axis).numpy()
        e = np.exp(x - x.max(axis, keepdims=True))
        np.testing.assert_allclose(found, e / e.sum(axis, keepdims=True), rtol=1e-5, atol=1e-7)
    for approximate in ("none", "tanh"):
        mine = F.gelu(tb.tensor(x), approximate=approximate).numpy()
        plain = F.gelu(tb.tensor(x[:1, :2, :3]), approximate=approximate).numpy()
        np.testing.assert_allclose(mine[:1, :2, :3], plain, rtol=1e-5, atol=1e-6)


def test_the_oldest_kinds_of_calls_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heavy_composites, "_REMEMBERED", 2)
    way = heavy_composites.Native()
    monkeypatch.setattr(Composite, "way", way)
    x = tb.tensor(numbers(LARGE))
    for axis in (0, 1):
        F.softmax(x, axis)
    first, second = way._known
    F.softmax(x, 2)
    assert first not in way._known and second in way._known and len(way._known) == 2
