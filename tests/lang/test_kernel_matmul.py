"""The ladder of examples/kernels and its integer forms: same product from scalar loops to five stages."""

from __future__ import annotations

import numpy as np
import pytest
from harness import MACHINES, example, run

from trilobite.processor.isa.formats import I4, pack

ladder = example("matmul")
rng = np.random.default_rng(7)
SHAPE = (37, 19, 23)


def chain(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(float) @ b.astype(float)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("step", ["step1", "step2"])
def test_scalar_steps(machine: str, step: str) -> None:
    a, b = (rng.normal(size=s).astype(np.float32) for s in ((5, 7), (7, 3)))
    out = run(getattr(ladder, step), [a, b, np.zeros((5, 3), np.float32), 5, 7, 3], machine, dim=(1, 1, 1))[2]
    want = np.zeros((5, 3), np.float32)
    for p in range(7):
        want = want + a[:, p : p + 1] * b[p]
    assert (out == want).all()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("step", ["step3", "step4", "step5"])
def test_matrix_steps(machine: str, step: str) -> None:
    m, k, n = SHAPE
    a, b = (rng.normal(size=s).astype(np.float32) for s in ((m, k), (k, n)))
    kernel = getattr(ladder, step) if step == "step3" else getattr(ladder, step).meta(rows=4)
    dim = (1, 1, 1) if step == "step3" else (4, 1, 1)
    out = run(kernel, [a, b, np.zeros((m, n), np.float32), m, k, n], machine, dim)[2]
    assert np.allclose(out, chain(a, b), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("machine", ["dlp-m", "mlu270", "mlu370-x4"])
@pytest.mark.parametrize("m", [1, 101])
def test_five_stages(machine: str, m: int) -> None:
    _, k, n = SHAPE
    a, b = (rng.normal(size=s).astype(np.float32) for s in ((m, k), (k, n)))
    given = [a, b, np.zeros((m, n), np.float32), m, k, n]
    out = run(ladder.step6.meta(rows=3, room=2432), given, machine, (8, 1, 1), "union1")[2]
    assert np.allclose(out, chain(a, b), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("bits", [4, 8])
def test_integers(machine: str, bits: int) -> None:
    m, k, n = 37, 20, 24
    low, high = -(1 << (bits - 1)), 1 << (bits - 1)
    a, b = (rng.integers(low, high, s).astype(np.int8) for s in ((m, k), (k, n)))
    scale = rng.normal(size=n).astype(np.float32)
    want = ((a.astype(np.int64) @ b.astype(np.int64)).astype(float) * scale).astype(np.float32)
    if bits == 4:
        a, b = pack(I4, a), pack(I4, b)
    kernel = ladder.matmul_int4 if bits == 4 else ladder.matmul_int8
    out = run(kernel.meta(rows=4), [a, b, scale, np.zeros((m, n), np.float32), m, k, n], machine)[3]
    assert (out == want).all()


@pytest.mark.parametrize("machine", MACHINES)
def test_fp16(machine: str) -> None:
    m, k, n = SHAPE
    a, b = (rng.normal(size=s).astype(np.float16) for s in ((m, k), (k, n)))
    given = [a, b, np.zeros((m, n), np.float16), m, k, n]
    out = run(ladder.matmul_fp16.meta(rows=4), given, machine)[2]
    assert np.allclose(out.astype(float), chain(a, b), rtol=1e-3, atol=1e-3)
