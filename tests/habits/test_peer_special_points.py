"""Values and gradients at points where formulas break, beside PyTorch's: zeros, ties, bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import trilobite as tb  # noqa: E402

pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]
R = np.random.default_rng(0)
A, Z, E, V = R.normal(size=(2, 3)), np.zeros((2, 3)), np.ones((2, 3)), R.normal(size=(2, 3, 8, 8))
POINTS = np.array([0.0, 1.0, -1.0, 2.5, -2.5, 0.5, -0.5, 4.0, -4.0, 20.0, -20.0, 1e-8])
LEFT, RIGHT = np.repeat(POINTS, len(POINTS)), np.tile(POINTS, len(POINTS))
UNARY = (
    "abs asinh atan cos cosh deg2rad erf erfc exp exp2 expm1 lgamma neg rad2deg relu sigmoid sin sinc sinh "
    "square tan tanh sqrt log log1p log2 log10 rsqrt reciprocal nan_to_num i0"
)
ACTIVATIONS = (
    "relu relu6 elu selu celu gelu silu mish softplus softsign tanhshrink hardtanh hardsigmoid hardswish "
    "hardshrink softshrink leaky_relu logsigmoid"
)
BINARY = "add sub mul div pow atan2 maximum minimum fmax fmin fmod hypot xlogy logaddexp logaddexp2 eq lt ge"
ORDERS = (0, 1, 2, 3, 0.5, 2.5, math.inf, -math.inf, -1)


def cases() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    found: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
    for n in UNARY.split():
        found[n] = (lambda t, x, n=n: getattr(t, n)(x), (POINTS,))
    for n in ACTIVATIONS.split():
        found[f"F.{n}"] = (lambda t, x, n=n: getattr(t.nn.functional, n)(x), (POINTS,))
    for n in BINARY.split():
        found[n] = (lambda t, x, y, n=n: getattr(t, n)(x, y), (LEFT, RIGHT))
    for p in ORDERS:
        found[f"norm {p}"] = (lambda t, x, p=p: t.norm(x, p, dim=1), (A,))
        found[f"norm of zeros {p}"] = (lambda t, x, p=p: t.norm(x, p), (Z,))
        found[f"normalize {p}"] = (lambda t, x, p=p: t.nn.functional.normalize(x, p=p, dim=1), (A,))
        found[f"normalize zeros {p}"] = (lambda t, x, p=p: t.nn.functional.normalize(x, p=p, dim=1), (Z,))
        found[f"vector_norm {p}"] = (lambda t, x, p=p: t.linalg.vector_norm(x, p, dim=0), (A,))
        found[f"pairwise {p}"] = (
            lambda t, x, y, p=p: t.nn.functional.pairwise_distance(x, y, p=p, eps=0.0), (A, A * 2)
        )  # fmt: skip
        found[f"triplet {p}"] = (
            lambda t, x, y, z, p=p: t.nn.functional.triplet_margin_loss(x, y, z, p=p), (A, A * 2, A * 3)
        )  # fmt: skip
        if p >= 0:
            found[f"cdist {p}"] = (lambda t, x, y, p=p: t.cdist(x, y, p=p), (A, A * 2))
            found[f"cdist of equals {p}"] = (lambda t, x, y, p=p: t.cdist(x, y, p=p), (A, A))
        if p > 0:
            found[f"lp_pool {p}"] = (lambda t, x, p=p: t.nn.functional.lp_pool2d(x, p, 2), (V,))
    for mode in ("circular", "reflect", "replicate", "constant"):
        for pad in ((1, -1, -2, 1), (-1, -1, -1, -1), (2, 2, 1, 0), (7, 7, 0, 0)):
            found[f"pad {mode} {pad}"] = (
                lambda t, x, m=mode, pad=pad: t.nn.functional.pad(x, pad, mode=m), (V,)
            )  # fmt: skip
    number = np.array(2.0)
    return found | {
        "fmod at multiples": (lambda t, x, y: t.fmod(x, y), (np.array([4.0, -6.0]), np.array([2.0, 3.0]))),
        "cosine of zeros": (lambda t, x, y: t.nn.functional.cosine_similarity(x, y), (Z, A)),
        "std of equals": (lambda t, x: x.std(1), (E,)),
        "std of one": (lambda t, x: x.std(0), (E[:1],)),
        "topk of a number": (lambda t, x: t.topk(x, 1).values, (number,)),
        "sort of a number": (lambda t, x: t.sort(x)[0], (number,)),
        "max of a number": (lambda t, x: x.max(0).values, (number,)),
        "matrix_power 0": (lambda t, x: t.matrix_power(x, 0), (R.normal(size=(3, 3)),)),
        "diff 0": (lambda t, x: t.diff(x, n=0, prepend=x), (A,)),
        "quantiles": (lambda t, x: t.quantile(x, t.tensor([0.1, 0.5, 0.9], dtype=t.float64), dim=1), (A,)),
    }


CASES = cases()


def run(t: Any, fn: Callable[..., Any], arrays: tuple[Any, ...]) -> list[Any]:
    xs = [t.from_numpy(a.copy()).requires_grad_() for a in arrays]
    y = fn(t, *xs)
    if y.requires_grad:
        y.sum().backward()
    return [y.detach().numpy()] + [np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in xs]


@pytest.mark.parametrize("name", list(CASES))
def test_values_and_slopes_are_pytorchs(name: str) -> None:
    fn, arrays = CASES[name]
    for found, wanted in zip(run(tb, fn, arrays), run(torch, fn, arrays), strict=True):
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
        known = np.isfinite(wanted)  # where PyTorch has no number ours may be better
        np.testing.assert_allclose(found[known], wanted[known], rtol=1e-7, atol=1e-8)
