"""Fusions that differ in numbers alone become one kernel; the numbers, and every bit, stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.graph import share_kernels as room


def normal(*shape: int, dtype: str = "float32") -> tb.Tensor:
    return tb.tensor(np.random.default_rng(sum(shape)).standard_normal(shape)).astype(getattr(tb, dtype))


W = normal(9, 9)
NUMBERS = [0.3, -0.0, 1.7, 3e-39, float("inf"), -2.5, 0.1, 0.2, -1e30]


def products(x: tb.Tensor) -> list[tb.Tensor]:
    """The same number as a factor, and another one to add."""
    w, out = W.astype(x.dtype), [x]
    for a in NUMBERS:
        out.append(tb.tanh(out[-1] @ w * 0.5 + a))
    return out


def chains(x: tb.Tensor) -> list[tb.Tensor]:
    out = [x]
    for a in NUMBERS:
        out.append(tb.sort(tb.maximum(tb.sin(out[-1]), a) - out[-1] * 0.5))
    return out


def rounds(x: tb.Tensor) -> tb.Tensor:
    def body(i: tb.Tensor, y: tb.Tensor) -> tb.Tensor:
        for a in (0.1, -0.2, 0.3, 0.4, 0.5, 0.75):
            y = tb.tanh(y @ W.astype(y.dtype) + a)
        return y

    return tb.fori_loop(0, 3, body, x)


def run(f: Callable[..., Any], x: tb.Tensor, **options: Any) -> tuple[list[bytes], int]:
    """The bits of all results, and how many kernels give them."""
    jitted = tb.jit(f, options=options)
    kernels = jitted.lower(x).stages["program"].rsplit(" kernels", 1)[0].split()[-1]
    return [y.numpy().tobytes() for y in jitted(x)], int(kernels)


@pytest.mark.parametrize("f", [products, chains, rounds], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_bits_are_those_of_a_kernel_for_each(
    f: Callable[..., Any], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = normal(7, 9, dtype=dtype)
    got, shared = run(f, x)
    monkeypatch.setattr(room, "_MANY", 1000)
    want, apart = run(f, x, accuracy="strict")  # another option: what was compiled above does not serve
    assert got == want and shared + 4 <= apart


def test_a_few_keep_their_numbers() -> None:
    def f(x: tb.Tensor) -> tb.Tensor:
        for a in NUMBERS[:4]:
            x = tb.tanh(x @ W + a)
        return x

    text = tb.jit(f).lower(normal(7, 9)).stages["fuse"]
    assert "constant" not in text and "value=1.7" in text


def test_one_number_that_differs_is_one_operand() -> None:
    """What is the same everywhere stays in the kernel."""
    text = tb.jit(products).lower(normal(7, 9)).stages["fuse"]
    assert "value=0.5" in text and "value=1.7" not in text


def test_integers_stay() -> None:
    """Places that a gather reads are computed from numbers that its lowering knows."""
    x = normal(40, 9)
    f = tb.jit(lambda x: [tb.sin(x[k : k + 5]) * 2.0 for k in range(9)])
    for k, y in enumerate(f(x)):
        assert np.allclose(y.numpy(), np.sin(x.numpy()[k : k + 5]) * 2.0)
