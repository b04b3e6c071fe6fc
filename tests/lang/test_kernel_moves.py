"""Kernels of examples/kernels that move elements, in all ways of running them, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from harness import MACHINES, example, run

moves = example("arrangement")
rng = np.random.default_rng(5)


def wide(*shape: int) -> np.ndarray:
    """Signed values over several powers of ten."""
    return (rng.normal(size=shape) * 10.0 ** rng.uniform(-2, 1, size=shape)).astype(np.float32)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("shape", [(45, 70), (16, 16), (1, 33)])
def test_transpose(machine: str, shape: tuple[int, int]) -> None:
    a = wide(*shape)
    out = run(moves.transpose.meta(block=16), [a, np.zeros(shape[::-1], np.float32), *shape], machine)[1]
    assert (out == a.T).all()


@pytest.mark.parametrize("machine", MACHINES)
def test_reductions(machine: str) -> None:
    a, none = wide(21, 70), np.zeros(21, np.float32)
    _, total, largest = run(moves.reduce_rows.meta(tile=32), [a, none, none, 21, 70], machine)
    assert np.allclose(total, a.astype(float).sum(1), rtol=1e-5, atol=1e-4)
    assert (largest == a.max(1)).all()
    columns = run(moves.reduce_columns.meta(tile=32), [a, np.zeros(70, np.float32), 21, 70], machine)[1]
    want = np.zeros(70, np.float32)
    for row in a:
        want = want + row
    assert (columns == want).all()


@pytest.mark.parametrize("machine", MACHINES)
def test_top_k(machine: str) -> None:
    a = rng.integers(-20, 20, (6, 70)).astype(np.float32)  # with equal elements
    given = [a, np.zeros((6, 7), np.float32), np.zeros((6, 7), np.int32), 6, 70, 7]
    _, values, places = run(moves.top_k.meta(tile=32, room=64), given, machine)
    want = np.argsort(-a, axis=1, kind="stable")[:, :7]
    assert (places == want).all() and (values == np.take_along_axis(a, want, 1)).all()


@pytest.mark.parametrize("machine", MACHINES)
def test_embedding(machine: str) -> None:
    table, ids, grad = wide(20, 19), rng.integers(0, 20, 33).astype(np.int32), wide(33, 19)
    out = run(moves.embedding.meta(batch=8), [table, ids, grad * 0, 33, 19], machine)[2]
    assert (out == table[ids]).all()
    summed = run(moves.embedding_backward, [grad, ids, table, 33, 19, 20], machine)[2]
    want = table.copy()
    for i, name in enumerate(ids):
        want[name] += grad[i]
    assert (summed == want).all()
