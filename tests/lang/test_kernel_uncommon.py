"""Kernels that no library has: each gives NumPy's result, with the same bits in every way of running it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import MACHINES, run

from trilobite import dlp

F32, I32 = np.float32, np.int32
rng = np.random.default_rng(17)


def normal(*shape: int, scale: float = 1.0) -> Any:
    return (rng.standard_normal(shape) * scale).astype(F32)


@dlp.kernel
def argmin_rows(
    x: dlp.gm[dlp.f32], val: dlp.gm[dlp.f32], idx: dlp.gm[dlp.i32], rows: int, n: int, *, tile: int = 1024
):
    for r in range(dlp.task_id(), rows, dlp.task_dim()):
        a = dlp.nram(tile, dlp.f32)
        v = dlp.nram(16, dlp.f32)
        j = dlp.nram(16, dlp.i32)
        best = dlp.f32(float("inf"))
        at = -1
        for i in range(0, n, tile):
            m = min(tile, n - i)
            dlp.copy(a[:m], x[r * n + i : r * n + i + m])
            dlp.min(v, a[:m])
            dlp.argmin(j, a[:m])
            if v[0] < best:
                best = v[0]
                at = i + j[0]
        val[r] = best
        idx[r] = at


@dlp.kernel
def histogram(x: dlp.gm[dlp.i32], out: dlp.gm[dlp.i32], n: int, *, bins: int = 37, tile: int = 512):
    h, one, a = dlp.nram(bins, dlp.i32), dlp.nram(tile, dlp.i32), dlp.nram(tile, dlp.i32)
    dlp.fill(h, 0)
    dlp.fill(one, 1)
    for i in range(dlp.task_id() * tile, n, dlp.task_dim() * tile):
        m = min(tile, n - i)
        dlp.copy(a[:m], x[i : i + m])
        dlp.scatter(h, one[:m], a[:m], add=True)
    for b in range(bins):
        if h[b] != 0:
            dlp.atomic("add", out[b : b + 1], h[b])


@dlp.kernel
def gemv(
    a: dlp.gm[dlp.f16],
    x: dlp.gm[dlp.f16],
    y: dlp.gm[dlp.f32],
    m: int,
    k: int,
    *,
    rows: int = 16,
    kt: int = 64,
):
    w = dlp.wram((rows, kt), dlp.f16)
    v = dlp.nram(kt, dlp.f16)
    o = dlp.nram(rows, dlp.f32)
    for r in range(dlp.task_id() * rows, m, dlp.task_dim() * rows):
        c = min(rows, m - r)
        dlp.fill(o, 0.0)
        for p in range(0, k, kt):
            q = min(kt, k - p)
            ww = w.view(rows * kt)[: c * q].view(c, q)
            dlp.copy(ww, a.view(m, k)[r : r + c, p : p + q])
            dlp.copy(v[:q], x[p : p + q])
            dlp.matvec(o[:c], ww, v[:q], accumulate=True)
        dlp.copy(y[r : r + c], o[:c])


@dlp.kernel
def trsm(
    lower: dlp.gm[dlp.f32], b: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], batch: int, *, n: int = 7, w: int = 64
):
    x = dlp.nram((n, w), dlp.f32)
    low = dlp.nram((n, n), dlp.f32)
    t = dlp.nram(w, dlp.f32)
    dlp.copy(low, lower.view(n, n))
    for i in range(dlp.task_id() * w, batch, dlp.task_dim() * w):
        m = min(w, batch - i)
        dlp.copy(x[:, :m], b.view(n, batch)[:, i : i + m])
        for r in range(n):
            for c in range(r):
                dlp.mul(t[:m], x[c, :m], low[r, c])
                dlp.sub(x[r, :m], x[r, :m], t[:m])
            dlp.div(x[r, :m], x[r, :m], low[r, r])
        dlp.copy(out.view(n, batch)[:, i : i + m], x[:, :m])


@dlp.kernel
def top_p(
    logits: dlp.gm[dlp.f32],
    u: dlp.gm[dlp.f32],
    out: dlp.gm[dlp.i32],
    rows: int,
    n: int,
    p: float,
    *,
    tile: int = 1024,
):
    a, b, c = dlp.nram(tile, dlp.f32), dlp.nram(tile, dlp.f32), dlp.nram(tile, dlp.f32)
    ix = dlp.nram(tile, dlp.i32)
    s = dlp.nram(16, dlp.f32)
    for r in range(dlp.task_id(), rows, dlp.task_dim()):
        dlp.copy(a[:n], logits[r * n : (r + 1) * n])
        dlp.max(s, a[:n])
        dlp.sub(a[:n], a[:n], s[0])
        dlp.exp(a[:n], a[:n])
        dlp.sum(s, a[:n])
        dlp.div(a[:n], a[:n], s[0])
        dlp.sort(b[:n], ix[:n], a[:n], descending=True)
        dlp.scan(c[:n], b[:n])
        last = 0
        while last < n - 1 and c[last] < p:
            last += 1
        want = u[r] * c[last]
        k = 0
        while k < last and c[k] < want:
            k += 1
        out[r] = ix[k]


@dlp.kernel
def spmv(
    ptr: dlp.gm[dlp.i32],
    col: dlp.gm[dlp.i32],
    val: dlp.gm[dlp.f32],
    x: dlp.gm[dlp.f32],
    y: dlp.gm[dlp.f32],
    rows: int,
    n: int,
    *,
    nmax: int = 512,
):
    xs, v, g, s, c = (
        dlp.nram(nmax, dlp.f32),
        dlp.nram(nmax, dlp.f32),
        dlp.nram(nmax, dlp.f32),
        dlp.nram(16, dlp.f32),
        dlp.nram(nmax, dlp.i32),
    )
    dlp.copy(xs[:n], x[:n])
    for r in range(dlp.task_id(), rows, dlp.task_dim()):
        b, e = ptr[r], ptr[r + 1]
        m = e - b
        dlp.copy(c[:m], col[b:e])
        dlp.copy(v[:m], val[b:e])
        dlp.gather(g[:m], xs[:n], c[:m])
        dlp.dot(s, v[:m], g[:m])
        y[r] = s[0]


@dlp.kernel
def grid_scan(
    x: dlp.gm[dlp.i32],
    out: dlp.gm[dlp.i32],
    totals: dlp.gm[dlp.i32],
    n: int,
    *,
    tile: int = 96,
    cores: int = 4,
):
    part = dlp.sram(64, dlp.i32)
    a, b = dlp.nram(tile, dlp.i32), dlp.nram(tile, dlp.i32)
    i = dlp.task_id() * tile
    mem = dlp.is_memory_core()
    m = max(0, min(tile, n - i))
    if not mem:
        dlp.copy(a[:m], x[i : i + m])
        dlp.scan(b[:m], a[:m])
        last = b[m - 1] if m > 0 else 0
        part[dlp.core_id()] = last
    dlp.sync_cluster()
    if mem:
        t = 0
        for c in range(cores):
            old = part[c]
            part[16 + c] = t
            t += old
        totals[dlp.cluster_id()] = t
    dlp.sync_all()
    if not mem:
        base = part[16 + dlp.core_id()]
        for c in range(dlp.cluster_id()):
            base += totals[c]
        dlp.add(b[:m], b[:m], base)
        dlp.copy(out[i : i + m], b[:m])


@dlp.kernel
def quant(
    x: dlp.gm[dlp.f32],
    q: dlp.gm[dlp.i8],
    scale: dlp.gm[dlp.f32],
    back: dlp.gm[dlp.f32],
    n: int,
    *,
    block: int = 128,
):
    for t in range(dlp.task_id(), (n + block - 1) // block, dlp.task_dim()):
        i = t * block
        m = min(block, n - i)
        a, b, y, s = (
            dlp.nram(block, dlp.f32),
            dlp.nram(block, dlp.f32),
            dlp.nram(block, dlp.i8),
            dlp.nram(16, dlp.f32),
        )
        dlp.copy(a[:m], x[i : i + m])
        dlp.abs(b[:m], a[:m])
        dlp.max(s, b[:m])
        sc = max(s[0], 1e-12) / 127.0
        scale[t] = sc
        dlp.div(a[:m], a[:m], sc)
        dlp.convert(y[:m], a[:m])
        dlp.copy(q[i : i + m], y[:m])
        dlp.convert(b[:m], y[:m])
        dlp.mul(b[:m], b[:m], sc)
        dlp.copy(back[i : i + m], b[:m])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("rows", "n"), [(5, 1), (4, 2500), (0, 5), (3, 0)])
def test_the_first_of_equal_minima(machine: str, rows: int, n: int) -> None:
    x = rng.integers(-3, 3, (rows, n)).astype(F32)
    args = [x, np.zeros(rows, F32), np.zeros(rows, I32), rows, n]
    _, value, place = run(argmin_rows, args, machine, dim=(3, 1, 1))
    if n:
        assert (value == x.min(1)).all() and (place == x.argmin(1)).all()
    else:
        assert np.isinf(value).all() and (place == -1).all()


@pytest.mark.parametrize("machine", MACHINES)
def test_histograms_meet_in_atomics(machine: str) -> None:
    for n in (0, 1, 3000):
        x = rng.integers(0, 37, n).astype(I32)
        _, out = run(histogram, [x, np.zeros(37, I32), n], machine)
        assert (out == np.bincount(x, minlength=37)).all()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("m", "k"), [(1, 1), (37, 131), (0, 7), (7, 0)])
def test_matrix_times_vector(machine: str, m: int, k: int) -> None:
    a, x = normal(m, k).astype(np.float16), normal(k).astype(np.float16)
    *_, y = run(gemv, [a, x, np.full(m, 9, F32), m, k], machine, dim=(2, 1, 1))
    exact = a.astype(np.float64) @ x.astype(np.float64)
    bound = np.abs(a.astype(np.float64)) @ np.abs(x.astype(np.float64))
    assert (np.abs(y - exact) <= (k + 1) * 2.0**-24 * bound).all()


@pytest.mark.parametrize("machine", MACHINES)
def test_batched_triangular_solve(machine: str) -> None:
    low, b = (np.tril(normal(7, 7)) + 4 * np.eye(7)).astype(F32), normal(7, 131)
    *_, x = run(trsm, [low, b, b * 0, 131], machine, dim=(2, 1, 1))
    assert np.allclose(low.astype(np.float64) @ x, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("machine", MACHINES)
def test_top_p_sampling(machine: str) -> None:
    rows, n = 5, 77
    x, u = normal(rows, n, scale=3), rng.random(rows).astype(F32)
    *_, out = run(top_p, [x, u, np.zeros(rows, I32), rows, n, 0.8], machine, dim=(2, 1, 1))
    for r in range(rows):
        p = np.exp(x[r].astype(np.float64) - x[r].max())
        order = np.argsort(-p, kind="stable")
        total = np.cumsum(p[order] / p.sum())
        last = np.searchsorted(total, 0.8)
        assert out[r] == order[np.searchsorted(total[: last + 1], u[r] * total[last])]


@pytest.mark.parametrize("machine", MACHINES)
def test_sparse_matrix_times_vector(machine: str) -> None:
    dense = normal(13, 40) * (rng.random((13, 40)) < 0.2)
    dense[3] = 0
    ends = np.concatenate([[0], np.cumsum((dense != 0).sum(1))]).astype(I32)
    columns, values, x = np.nonzero(dense)[1].astype(I32), dense[dense != 0].astype(F32), normal(40)
    *_, y = run(spmv, [ends, columns, values, x, np.full(13, 5, F32), 13, 40], machine, dim=(2, 1, 1))
    assert np.allclose(y, dense.astype(np.float64) @ x, rtol=1e-5, atol=1e-5) and y[3] == 0


@pytest.mark.parametrize(("machine", "task", "tasks"), [("dlp-m", "union4", 16), ("mlu370-x4", "union1", 4)])
def test_a_prefix_sum_across_cores_and_clusters(machine: str, task: str, tasks: int) -> None:
    for n in (5, tasks * 96 - 50):
        x = rng.integers(-9, 9, n).astype(I32)
        _, out, _ = run(grid_scan, [x, x * 0, np.zeros(8, I32), n], machine, (tasks, 1, 1), task)
        assert (out == np.cumsum(x)).all()


@pytest.mark.parametrize("machine", MACHINES)
def test_blocks_are_quantised_and_come_back(machine: str) -> None:
    n, block = 333, 128
    x, blocks = normal(n, scale=20), 3
    args = [x, np.zeros(n, np.int8), np.zeros(blocks, F32), x * 0, n]
    _, q, scale, back = run(quant, args, machine, dim=(2, 1, 1))
    for t in range(blocks):
        part = slice(t * block, (t + 1) * block)
        step = F32(np.abs(x[part]).max() / F32(127))
        want = np.rint(x[part] / step).astype(np.int8)
        assert scale[t] == step and (q[part] == want).all() and (back[part] == want.astype(F32) * step).all()
