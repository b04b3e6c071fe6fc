"""Derivatives against finite differences, first and second order, forward and reverse mode, in float64.

Everything is compared along random directions: with u for the results and v, w for the arguments,
  first:   u·J v   by differences, by jvp, and as (Jᵀu)·v by vjp;
  second:  d/dv (Jᵀu)·w   by differences of vjp, by jvp of vjp, by vjp of vjp, and by vjp of jvp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.base import pytree

Array = np.ndarray
STEP = 1e-5


def is_tensor(x: Any) -> bool:
    return isinstance(x, tb.Tensor)


def numbers(tree: Any) -> list[Array]:
    """The float leaves as arrays."""
    found = [np.asarray(t.detach().numpy() if is_tensor(t) else t) for t in pytree.leaves(tree, is_tensor)]
    return [a for a in found if a.dtype.kind == "f"]


def dot(a: Sequence[Array], b: Sequence[Array]) -> float:
    return float(sum(np.sum(x * y) for x, y in zip(a, b, strict=True)))


def tensors(arrays: Sequence[Array]) -> tuple[tb.Tensor, ...]:
    return tuple(tb.tensor(a) for a in arrays)


def moved(x: Sequence[Array], v: Sequence[Array], by: float) -> tuple[tb.Tensor, ...]:
    return tensors([a + by * d for a, d in zip(x, v, strict=True)])


class Floats:
    """A function with only its float results, as a tuple: those that have derivatives."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        out = pytree.leaves(self.fn(*args), is_tensor)
        return tuple(t for t in out if t.dtype.kind == "f")


def check_gradients(
    fn: Callable[..., Any], *arrays: Array, second: bool = True, tol: float = 2e-6, seed: int = 0
) -> None:
    """`fn` over float64 tensors; every argument is differentiated."""
    rng = np.random.default_rng(seed)
    f = Floats(fn)
    x = [np.asarray(a, np.float64) for a in arrays]
    v = [rng.standard_normal(a.shape) for a in x]
    w = [rng.standard_normal(a.shape) for a in x]
    u = [rng.standard_normal(a.shape) for a in numbers(f(*tensors(x)))]
    assert u, "the function has no float result"
    _first(f, x, v, u, tol)
    if second:
        _second(f, x, v, w, u, tol)


def _close(name: str, found: float, expected: float, scale: float, tol: float) -> None:
    assert abs(found - expected) <= tol * max(1.0, scale, abs(expected)), (
        f"{name}: {found} instead of {expected}"
    )


def _first(f: Floats, x: list[Array], v: list[Array], u: list[Array], tol: float) -> None:
    high, low = numbers(f(*moved(x, v, STEP))), numbers(f(*moved(x, v, -STEP)))
    expected = (dot(u, high) - dot(u, low)) / (2 * STEP)
    scale = sum(float(np.abs(a).sum()) for a in high) * 1e-3
    _, tangents = tb.jvp(f, tensors(x), tensors(v))
    _close("jvp", dot(u, numbers(tangents)), expected, scale, tol)
    _close("vjp", dot(numbers(pulled(f, u)(*tensors(x))), v), expected, scale, tol)


def pulled(f: Floats, u: list[Array]) -> Callable[..., Any]:
    """x -> Jᵀu."""

    def gradient(*args: Any) -> Any:
        _, pull = tb.vjp(f, *args)
        return pull(tensors(u))

    return gradient


def _second(f: Floats, x: list[Array], v: list[Array], w: list[Array], u: list[Array], tol: float) -> None:
    g = pulled(f, u)
    high, low = numbers(g(*moved(x, v, STEP))), numbers(g(*moved(x, v, -STEP)))
    expected = (dot(w, high) - dot(w, low)) / (2 * STEP)
    scale = sum(float(np.abs(a).sum()) for a in high) * 1e-3
    _, tangents = tb.jvp(g, tensors(x), tensors(v))
    _close("jvp of vjp", dot(w, numbers(tangents)), expected, scale, tol)
    _, pull = tb.vjp(g, *tensors(x))
    _close("vjp of vjp", dot(numbers(pull(tensors(w))), v), expected, scale, tol)
    _, pull = tb.vjp(lambda *args: tb.jvp(f, args, tensors(w))[1], *tensors(x))
    _close("vjp of jvp", dot(numbers(pull(tensors(u))), v), expected, scale, tol)
