"""Heavy eager operations run natively, with the bits of compiled functions, and share their memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.targets.cpu.target import EAGER
from trilobite.framework.heavy import WORK
from trilobite.ir.primitives import table

F = tb.nn.functional


def normal(*shape: int, seed: int = 0) -> Any:
    return tb.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


CASES: dict[str, Any] = {
    "dot": (lambda x, y: x @ y, (120, 130), (130, 140)),
    "batched": (lambda x, y: x @ y, (5, 70, 80), (5, 80, 90)),
    "conv": (lambda x, w: F.conv2d(x, w, padding=1, stride=2), (4, 16, 33, 31), (24, 16, 3, 3)),
    "grouped": (lambda x, w: F.conv2d(x, w, groups=4), (4, 16, 32, 32), (24, 4, 3, 3)),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w, stride=2), (4, 16, 17, 15), (16, 24, 3, 3)),
    "line": (lambda x, w: F.conv1d(x, w), (8, 32, 300), (32, 32, 5)),
}


@pytest.mark.parametrize("name", CASES)
def test_eager_has_the_bits_of_jit(name: str) -> None:
    f, *shapes = CASES[name]
    args = [normal(*s, seed=i) for i, s in enumerate(shapes)]
    eager, compiled = f(*args).numpy(), tb.jit(f, target="cpu")(*args).numpy()
    assert eager.tobytes() == compiled.tobytes()
    reference = tb.jit(f, target="reference")(*args).numpy()
    np.testing.assert_allclose(eager, reference, rtol=1e-4, atol=1e-4)


def test_gradients_of_heavy_operations() -> None:
    x, w = normal(4, 16, 32, 32), normal(24, 16, 3, 3, seed=1)

    def loss(x: Any, w: Any) -> Any:
        return (F.max_pool2d(F.conv2d(x, w, padding=1), 2) ** 2).sum()

    got = tb.grad(loss, argnums=(0, 1))(x, w)
    want = tb.jit(tb.grad(loss, argnums=(0, 1)), target="reference")(x, w)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=2e-4 * np.abs(b.numpy()).max())


def test_small_ones_are_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    heavy = table["dot"].eager
    monkeypatch.setattr(heavy, "_compile", None)
    x = normal(8, 8)
    assert (x @ x).numpy().tobytes() == (x.numpy() @ x.numpy()).tobytes()


def test_results_stay_when_the_operation_runs_again() -> None:
    x, y = normal(120, 130), normal(130, 140, seed=1)
    first = x @ y
    kept = first.numpy().copy()
    _ = (x * 2.0) @ y
    assert first.numpy().tobytes() == kept.tobytes()


def test_operations_share_one_arena() -> None:
    for size in (20, 30, 40):
        F.conv2d(normal(4, 16, size, size), normal(24, 16, 3, 3, seed=1))
    runs = [r for p in WORK for run in table[p].eager._known.values() for r in run.main.runners.values()]
    assert runs and all(r.shared is EAGER for r in runs)
    assert EAGER.memory.nbytes >= max(r.program.packing.peak for r in runs)


def test_inputs_of_any_layout() -> None:
    x, y = normal(130, 120), normal(140, 130, seed=1)
    want = np.ascontiguousarray(x.numpy().T) @ np.ascontiguousarray(y.numpy().T)
    np.testing.assert_allclose((x.T @ y.T).numpy(), want, rtol=1e-4, atol=1e-4)
