"""Chains that fuse.

Between two matrix products of a transformer stand chains that only pass over memory. The tensors are those of
GPT-2 small with 512 tokens. Error functions and exponentials are computed, not looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import ours
from benchmarks.peers import weights
from benchmarks.row import Job, Row, both_thread_counts

TOKENS, WIDTH, HEADS = 512, 768, 12
Chain = Callable[[Any, Any], Any]
"""(operations, arrays) -> the result."""


def residual_norm(ops: Any, a: Any) -> Any:
    """LayerNorm(gelu(x + bias) + residual)."""
    return ops.layer_norm(ops.add(ops.gelu(ops.add(a[0], a[4]), True), a[1]), a[2], a[3], 1e-5)


def layer_norm(ops: Any, a: Any) -> Any:
    return ops.layer_norm(a[0], a[2], a[3], 1e-5)


def gelu(ops: Any, a: Any) -> Any:
    return ops.gelu(ops.add(a[0], a[4]), False)


def softmax(ops: Any, a: Any) -> Any:
    return ops.softmax(a[0])


def rows_of_tokens() -> list[Any]:
    size = (TOKENS, WIDTH)
    scale, shift, bias = (weights.drawn(n, (WIDTH,)) for n in ("a.weight", "b.bias", "c.bias"))
    return [weights.images(*size), weights.images(*size, seed=2), scale, shift, bias]


def scores() -> list[Any]:
    return [4 * weights.images(HEADS * TOKENS, TOKENS)]


CHAINS: dict[str, tuple[Chain, Callable[[], list[Any]]]] = {
    "bias, GELU, residual, LayerNorm": (residual_norm, rows_of_tokens),
    "LayerNorm": (layer_norm, rows_of_tokens),
    "bias, GELU with erf": (gelu, rows_of_tokens),
    "softmax of 12 × 512 × 512": (softmax, scores),
}


class Ours:
    """The same operations in ours."""

    def __init__(self) -> None:
        import trilobite as tb

        self.F = tb.nn.functional

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def gelu(self, x: Any, tanh: bool) -> Any:
        return self.F.gelu(x, approximate="tanh" if tanh else "none")

    def layer_norm(self, x: Any, scale: Any, shift: Any, eps: float) -> Any:
        return self.F.layer_norm(x, (x.shape[-1],), scale, shift, eps)

    def softmax(self, x: Any) -> Any:
        return self.F.softmax(x, -1)


def on_trilobite(name: str) -> Job:
    chain, arrays = CHAINS[name]
    ops = Ours()
    return ours.job(lambda *a: chain(ops, a), *arrays())


def on_torch(name: str, variant: str) -> Job:
    import torch

    from benchmarks.peers import on_torch

    chain, arrays = CHAINS[name]

    def run(*a: Any) -> Any:
        return chain(on_torch.Ops, a)

    fn = on_torch.compiled(run) if variant == "compile" else run
    return on_torch.job(fn, *map(torch.from_numpy, arrays()))


def on_onnxruntime(name: str) -> Job:
    from benchmarks.peers import on_onnxruntime

    chain, arrays = CHAINS[name]
    return on_onnxruntime.job(chain, {f"x{i}": a for i, a in enumerate(arrays())})


def on_jax(name: str) -> Job:
    from benchmarks.peers import on_jax

    chain, arrays = CHAINS[name]
    return on_jax.job(lambda *a: chain(on_jax.Ops, a), *arrays())


ROWS = both_thread_counts(
    [
        Row(
            name,
            {
                "trilobite": partial(on_trilobite, name),
                "torch": partial(on_torch, name, "eager"),
                "torch.compile": partial(on_torch, name, "compile"),
                "onnxruntime": partial(on_onnxruntime, name),
                "jax": partial(on_jax, name),
            },
            aim_ratio=1.0,
            quick=name == "LayerNorm",
        )
        for name in CHAINS
    ]
)
