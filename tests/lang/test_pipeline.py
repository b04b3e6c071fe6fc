"""Pipelined loops: any number of iterations, steps, parts that are missing, buffers that pass three."""

from __future__ import annotations

import numpy as np
import pytest
from harness import run

from trilobite import dlp
from trilobite.base.errors import KernelError

WAYS = ("host", "ir", "O0", "O2")


@dlp.kernel
def scaled(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], start: int, stop: int, step: int):
    for i in dlp.pipeline(start, stop, step):
        a, b = dlp.nram(8, dlp.f32), dlp.nram(8, dlp.f32)
        dlp.load(a, x[i * 8 : i * 8 + 8])
        dlp.mul(b, a, dlp.f32(i))
        dlp.store(out[i * 8 : i * 8 + 8], b)


@pytest.mark.parametrize(
    "bounds", [(0, 0, 1), (3, 1, 1), (0, 1, 1), (0, 2, 1), (1, 9, 3), (2, 10, 5), (0, 12, 1)]
)
def test_any_number_of_iterations(bounds: tuple[int, int, int]) -> None:
    x = np.random.default_rng(0).normal(size=96).astype(np.float32)
    _, out = run(scaled, [x, np.zeros(96, np.float32), *bounds], dim=(1, 1, 1), ways=WAYS)
    want = np.zeros(96, np.float32)
    for i in range(*bounds):
        want[i * 8 : i * 8 + 8] = x[i * 8 : i * 8 + 8] * np.float32(i)
    assert (out == want).all()


@dlp.kernel
def in_place(x: dlp.gm[dlp.f32], n: int):
    for i in dlp.pipeline(n):
        a = dlp.nram(16, dlp.f32)
        dlp.load(a, x[i * 16 : i * 16 + 16])
        dlp.add(a, a, 1.0)
        dlp.store(x[i * 16 : i * 16 + 16], a)


def test_a_buffer_that_passes_all_parts_has_three_copies() -> None:
    x = np.arange(112, dtype=np.float32)
    (out,) = run(in_place, [x, 7], dim=(1, 1, 1), ways=WAYS)
    assert (out == x + 1).all()
    (buffer,) = in_place.program("dlp-m").buffers
    assert (buffer.slots, buffer.bytes) == (3, 192)


@dlp.kernel
def reduced(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    """Loads and computation only; the total is carried from one iteration to the next."""
    total = dlp.nram(16, dlp.f32)
    dlp.fill(total, 0.0)
    for i in dlp.pipeline(n):
        a = dlp.nram(16, dlp.f32)
        if i % 2 == 0:
            dlp.load(a, x[i * 16 : i * 16 + 16])
            dlp.add(total, total, a)
        else:
            dlp.load(a[:8], x[i * 16 : i * 16 + 8])
            dlp.sub(total[:8], total[:8], a[:8])
    dlp.copy(out[:16], total)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_branches_are_split_with_their_parts(n: int) -> None:
    x = np.random.default_rng(1).normal(size=96).astype(np.float32)
    _, out = run(reduced, [x, np.zeros(16, np.float32), n], dim=(1, 1, 1), ways=WAYS)
    want = np.zeros(16, np.float32)
    for i in range(n):
        if i % 2 == 0:
            want = want + x[i * 16 : i * 16 + 16]
        else:
            want[:8] = want[:8] - x[i * 16 : i * 16 + 8]
    assert (out == want).all()


@dlp.kernel
def written(out: dlp.gm[dlp.f32], n: int):
    """Nothing to load."""
    for i in dlp.pipeline(n):
        a = dlp.nram(8, dlp.f32)
        dlp.iota(a, dlp.f32(i * 8), 1.0)
        dlp.store(out[i * 8 : i * 8 + 8], a)


@dlp.kernel
def nested(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], rows: int, n: int):
    for r in range(rows):
        for i in dlp.pipeline(0, n, 8):
            m = min(8, n - i)
            a = dlp.nram(8, dlp.f32)
            dlp.load(a[:m], x[r * n + i : r * n + i + m])
            dlp.neg(a[:m], a[:m])
            dlp.store(out[r * n + i : r * n + i + m], a[:m])
        dlp.sync()


def test_other_shapes_of_pipelines() -> None:
    (out,) = run(written, [np.zeros(40, np.float32), 5], dim=(1, 1, 1), ways=WAYS)
    assert (out == np.arange(40)).all()
    x = np.random.default_rng(2).normal(size=(3, 21)).astype(np.float32)
    _, out = run(nested, [x, x * 0, 3, 21], dim=(1, 1, 1), ways=WAYS)
    assert (out == -x).all()


@dlp.kernel
def within(x: dlp.gm[dlp.f32], w: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int, k: int):
    """A pipeline in the computation of another one."""
    for i in dlp.pipeline(0, n, 16):
        m = min(16, n - i)
        a, b = dlp.nram(16, dlp.f32), dlp.nram(16, dlp.f32)
        dlp.load(a[:m], x[i : i + m])
        dlp.fill(b[:m], 0.0)
        for j in dlp.pipeline(k):
            c = dlp.nram(16, dlp.f32)
            dlp.load(c[:m], w[j * 16 : j * 16 + m])
            dlp.fma(b[:m], a[:m], c[:m], b[:m])
        dlp.store(out[i : i + m], b[:m])


@pytest.mark.parametrize(("n", "k"), [(0, 2), (5, 0), (16, 1), (77, 3)])
def test_a_pipeline_in_a_pipeline_keeps_its_loads(n: int, k: int) -> None:
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=n).astype(np.float32), rng.integers(-4, 5, (k, 16)).astype(np.float32)
    x = np.rint(x * 8).astype(np.float32)
    *_, out = run(within, [x, w, np.zeros(n, np.float32), n, k], dim=(1, 1, 1), ways=WAYS)
    assert (out == x * np.resize(w.sum(0), n)).all()


@dlp.kernel
def searched(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    """A loop of the computation that is left early."""
    for i in dlp.pipeline(n):
        a, b = dlp.nram(16, dlp.f32), dlp.nram(16, dlp.f32)
        dlp.load(a, x[i * 16 : i * 16 + 16])
        dlp.fill(b, -1.0)
        for k in range(16):
            if a[k] < 0.0:
                continue
            if a[k] > 1.0:
                b[0] = dlp.f32(k)
                break
        dlp.store(out[i * 16 : i * 16 + 16], b)


def test_loops_of_the_computation_may_be_left() -> None:
    x = np.random.default_rng(4).normal(size=(9, 16)).astype(np.float32)
    _, out = run(searched, [x, x * 0, 9], dim=(1, 1, 1), ways=WAYS)
    assert out[:, 0].tolist() == [int(np.argmax(row > 1)) if (row > 1).any() else -1 for row in x]


def test_loads_stand_in_no_loop_that_may_be_left() -> None:
    @dlp.kernel
    def left(x: dlp.gm[dlp.f32], n: int):
        for _ in dlp.pipeline(n):
            a = dlp.nram(16, dlp.f32)
            for k in range(4):
                dlp.load(a, x[k * 16 : k * 16 + 16])
                if a[0] > 0.0:
                    break

    with pytest.raises(
        KernelError, match=r"may be left early has a load of the pipelined loop[\s\S]*:\d+:17"
    ):
        left.program("dlp-m")


@dlp.kernel
def one_buffer(x: dlp.gm[dlp.f32], n: int):
    a = dlp.nram(16, dlp.f32)
    for i in dlp.pipeline(n):
        dlp.load(a, x[i * 16 : i * 16 + 16])
        dlp.add(a, a, 1.0)
        dlp.store(x[i * 16 : i * 16 + 16], a)


@dlp.kernel
def one_element(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a = dlp.nram(16, dlp.f32)
    for i in dlp.pipeline(n):
        dlp.load(a, x[i * 16 : i * 16 + 16])
        out[i] = a[0]


@pytest.mark.parametrize(
    ("kernel", "parts"), [(one_buffer, "store and the load"), (one_element, "load and the compute")]
)
def test_a_buffer_of_several_parts_is_made_in_the_loop(kernel: dlp.Kernel, parts: str) -> None:
    text = rf"'a' is used by the {parts} part[\s\S]*move a = dlp\.nram\(\.\.\.\) into the loop"
    with pytest.raises(KernelError, match=text):
        kernel.program("dlp-m")


@dlp.kernel
def by_hand(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    """Two places of one buffer in turn, one that only the computation uses, one that only stores do."""
    a, total, zero = dlp.nram((2, 16), dlp.f32), dlp.nram(16, dlp.f32), dlp.nram(16, dlp.f32)
    dlp.fill(total, 0.0)
    dlp.fill(zero, 0.0)
    for i in dlp.pipeline(n):
        dlp.load(a[i % 2], x[i * 16 : i * 16 + 16])
        dlp.add(total, total, a[i % 2])
        dlp.store(x[i * 16 : i * 16 + 16], zero)
    dlp.copy(out[:16], total)


def test_buffers_that_alternate_by_hand_are_let_alone() -> None:
    x = np.rint(np.random.default_rng(5).normal(size=(7, 16)) * 8).astype(np.float32)
    cleared, out = run(by_hand, [x, np.zeros(16, np.float32), 7], dim=(1, 1, 1), ways=WAYS)
    assert (out == x.sum(0)).all() and not cleared.any()
