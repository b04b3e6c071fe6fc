"""Matrix products.

Square matrices of float32, both given anew with every call, so nothing can be packed beforehand. NumPy's are
OpenBLAS's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks import ours
from benchmarks.peers import weights
from benchmarks.row import Job, Row, Work, both_thread_counts

SIZES = (256, 512, 1024, 2048)


def on_trilobite(n: int) -> Job:
    return ours.job(lambda a, b: a @ b, weights.images(n, n), weights.images(n, n, seed=2))


def on_torch(n: int) -> Job:
    import torch

    from benchmarks.peers import on_torch

    a, b = (torch.from_numpy(weights.images(n, n, seed=seed)) for seed in (1, 2))
    return on_torch.job(torch.matmul, a, b)


def on_jax(n: int) -> Job:
    from benchmarks.peers import on_jax

    return on_jax.job(lambda a, b: a @ b, weights.images(n, n), weights.images(n, n, seed=2))


def on_onnxruntime(n: int) -> Job:
    from benchmarks.peers import on_onnxruntime

    inputs = {"a": weights.images(n, n), "b": weights.images(n, n, seed=2)}
    return on_onnxruntime.job(lambda ops, given: ops.node("MatMul", *given), inputs)


def on_numpy(n: int) -> Work:
    a, b = weights.images(n, n), weights.images(n, n, seed=2)
    return lambda: a @ b


SYSTEMS: dict[str, Callable[[int], Work | Job]] = {
    "trilobite": on_trilobite,
    "torch": on_torch,
    "onnxruntime": on_onnxruntime,
    "jax": on_jax,
    "numpy": on_numpy,
}

ROWS = both_thread_counts(
    [
        Row(
            f"matmul {n}×{n}×{n}",
            {name: partial(make, n) for name, make in SYSTEMS.items()},
            unit="ms",
            flops=2 * n**3,
            aim_ratio=1.0,
            quick=n == 512,
        )
        for n in SIZES
    ]
)
