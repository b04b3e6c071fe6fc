"""What hostile programs are held against: the same bits, a bound, and slopes by finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import trilobite as tb

rng = np.random.default_rng(0)


def draw(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Normal numbers of either sign."""
    return rng.normal(size=shape).astype(dtype)


def array(x: Any) -> np.ndarray:
    return x.detach().numpy() if isinstance(x, tb.Tensor) else np.asarray(x)


def same_bits(a: Any, b: Any) -> None:
    a, b = array(a), array(b)
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    assert a.tobytes() == b.tobytes(), f"{a}\n{b}"


def near(a: Any, b: Any, bound: float = 1e-5) -> None:
    a, b = array(a), array(b)
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=bound, atol=bound)


def slopes(f: Callable[[tb.Tensor], Any], x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """The gradient by central differences in float64."""
    x = x.astype(np.float64)
    out = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        out[i] = (float(f(tb.tensor(up))) - float(f(tb.tensor(down)))) / (2 * step)
    return out
