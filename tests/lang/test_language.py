"""What Python kernels may say: types, views, control flow, device functions, tasks, memory cores."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from harness import run

from trilobite import dlp
from trilobite.processor import Device

WAYS = ("host", "ir", "O0", "O2")


@dlp.device
def clamp(x, low, high):
    if x < low:
        return low
    if x > high:
        return high
    return x


@dlp.device
def both(a, b):
    return a + b, a - b


@dlp.kernel
def scalars(out: dlp.gm[dlp.i64], n: int):
    total, product = 0, 1
    for i in range(n):
        if i == 3:
            continue
        if i == 7:
            break
        total += clamp(i * 5 - 9, -2, 11)
        s, d = both(i, n)
        product = product * 3 + (s - d) % 7
    out[0], out[1] = total, product
    out[2] = -17 // n
    out[3] = -17 % n
    k = n
    while k > 1:
        k = k // 2 if k % 2 == 0 else 3 * k + 1
        out[4] = out[4] + 1
    out[5] = min(n, 3) * 10 + max(n, 4)


def test_scalars_follow_python() -> None:
    (out,) = run(scalars, [np.zeros(6, np.int64), 9], dim=(1, 1, 1), ways=WAYS)
    total, product = 0, 1
    for i in (0, 1, 2, 4, 5, 6):
        total += min(max(i * 5 - 9, -2), 11)
        product = product * 3 + ((i + 9) - (i - 9)) % 7
    steps, k = 0, 9
    while k > 1:
        k, steps = (k // 2 if k % 2 == 0 else 3 * k + 1), steps + 1
    assert out.tolist() == [total, product, -2, 1, steps, 39]


@dlp.kernel
def elements(x: dlp.gm[dlp.f16], y: dlp.gm[dlp.bf16], b: dlp.gm[dlp.u8], s: dlp.f16, out: dlp.gm[dlp.f32]):
    out[0] = dlp.f32(x[0]) * 2.0 + dlp.sqrt(dlp.f32(x[1]))
    out[1] = dlp.f32(x[0] * s)
    out[2] = dlp.f32(y[0] + y[1])
    out[3] = dlp.f32(b[0] + b[1])
    b[2] = b[0] + b[1]
    out[4] = dlp.exp(out[0]) - dlp.fma(out[0], out[1], 1.0)
    out[5] = dlp.f32(dlp.i64(x[2])) + abs(dlp.f32(x[2]))


def test_every_kind_of_element() -> None:
    x = np.array([1.5, 2.25, -7.75], np.float16)
    y = np.array([1.25, 3.0], ml_dtypes.bfloat16)
    b = np.array([200, 100, 0], np.uint8)
    given = [x, y, b, np.float16(3.3), np.zeros(6, np.float32)]
    *_, bytes_out, out = run(elements, given, dim=(1, 1, 1), ways=WAYS)
    assert bytes_out[2] == 44
    assert out[:4].tolist() == [4.5, float(np.float16(1.5) * np.float16(3.3)), 4.25, 300.0]
    assert out[5] == -7 + 7.75


@dlp.kernel
def swap(x: dlp.gm[dlp.f32], n: int, rounds: int):
    now, other = dlp.nram(64, dlp.f32), dlp.nram(64, dlp.f32)
    dlp.copy(now[:n], x[:n])
    for i in range(rounds):
        dlp.add(other[:n], now[:n], dlp.f32(i))
        now, other = other, now
    dlp.copy(x[:n], now[:n])


@pytest.mark.parametrize("rounds", [0, 1, 4, 5])
def test_views_change_places_in_a_loop(rounds: int) -> None:
    x = np.arange(37, dtype=np.float32)
    (out,) = run(swap, [x, 37, rounds], dim=(1, 1, 1), ways=WAYS)
    assert (out == x + sum(range(rounds))).all()


@dlp.kernel
def blocks(x: dlp.gm[dlp.f32, 4, 6, 8], out: dlp.gm[dlp.f32], r: int, c: int):
    a = dlp.nram((2, 3, 4), dlp.f32)
    for image in dlp.static_range(4):
        dlp.copy(a, x[image % 2 : image % 2 + 2, r : r + 3, c : c + 4])
        dlp.copy(out.view(4, 24)[image], a.view(24))
    out[96] = x[3, 5, 7] + a[1, 2, 3]


def test_strided_copies_cut_blocks_out() -> None:
    x = np.random.default_rng(0).normal(size=(4, 6, 8)).astype(np.float32)
    _, out = run(blocks, [x, np.zeros(97, np.float32), 2, 3], dim=(1, 1, 1), ways=WAYS)
    for image in range(4):
        piece = x[image % 2 : image % 2 + 2, 2:5, 3:7]
        assert (out[image * 24 : image * 24 + 24] == piece.reshape(-1)).all()
    assert out[96] == x[3, 5, 7] + x[2, 4, 6]


@dlp.kernel
def histogram(x: dlp.gm[dlp.i32], counts: dlp.gm[dlp.i32], n: int):
    for i in range(dlp.task_id(), n, dlp.task_dim()):
        dlp.atomic("add", counts[x[i] :], 1)


def test_atomics() -> None:
    x = np.random.default_rng(1).integers(0, 5, 40).astype(np.int32)
    _, counts = run(histogram, [x, np.zeros(5, np.int32), 40], dim=(3, 1, 1), ways=WAYS)
    assert (counts == np.bincount(x, minlength=5)).all()


@dlp.kernel
def shared(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    box = dlp.sram(1024, dlp.f32)
    mine = dlp.nram(256, dlp.f32)
    if dlp.is_memory_core():
        dlp.copy(box[:n], x[:n])
        dlp.sync_cluster()
        dlp.sync_cluster()
        dlp.copy(out[dlp.task_id() * n : dlp.task_id() * n + n], box[:n])
    else:
        dlp.sync_cluster()
        part = n // dlp.core_dim()
        first = dlp.core_id() * part
        dlp.copy(mine[:part], box[first : first + part])
        dlp.add(mine[:part], mine[:part], dlp.f32(dlp.task_id()))
        dlp.copy(box[first : first + part], mine[:part])
        dlp.sync_cluster()


@pytest.mark.parametrize("machine", ["dlp-m", "mlu370-x4"])
def test_memory_core_and_compute_cores_meet(machine: str) -> None:
    x = np.arange(64, dtype=np.float32)
    _, out = run(shared, [x, np.zeros((8, 64), np.float32), 64], machine, (8, 1, 1), "union1", WAYS)
    for cluster in (0, 1):
        assert (out[cluster * 4] == x + np.repeat(np.arange(4), 16) + cluster * 4).all()


@dlp.kernel
def noisy(n: int):
    for i in range(n):
        dlp.printf("task %d: %d is %.2f\n", dlp.task_id(), i, dlp.f32(i) * 0.5)


def test_printf_says_the_same_everywhere() -> None:
    dev = Device("dlp-s")
    want = "".join(f"task 0: {i} is {i * 0.5:.2f}\n" for i in range(3))
    assert noisy.interpret(dev, [3]) == want
    for level in (0, 2):
        assert dev.launch(noisy.at_level(level), [3])._execution.printed == want


@dlp.kernel
def pressure(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    """More values alive than there are registers."""
    v = (x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7])
    w = dlp.nram(16, dlp.f32)
    a0, a1, a2, a3, a4, a5, a6, a7 = n, n * 3, n * 5, n * 7, n * 11, n * 13, n * 17, n * 19
    b0, b1, b2, b3, b4, b5, b6, b7 = a0 ^ 1, a1 ^ 2, a2 ^ 3, a3 ^ 4, a4 ^ 5, a5 ^ 6, a6 ^ 7, a7 ^ 8
    c0, c1, c2, c3, c4, c5, c6, c7 = b0 + a7, b1 + a6, b2 + a5, b3 + a4, b4 + a3, b5 + a2, b6 + a1, b7 + a0
    d0, d1, d2, d3, d4, d5, d6, d7 = c0 * b1, c1 * b2, c2 * b3, c3 * b4, c4 * b5, c5 * b6, c6 * b7, c7 * b0
    e0, e1, e2, e3, e4, e5, e6, e7 = d0 - c1, d1 - c2, d2 - c3, d3 - c4, d4 - c5, d5 - c6, d6 - c7, d7 - c0
    f0, f1, f2, f3, f4, f5, f6, f7 = e0 & d1, e1 & d2, e2 & d3, e3 & d4, e4 & d5, e5 & d6, e6 & d7, e7 & d0
    g0, g1, g2, g3, g4, g5, g6, g7 = f0 | e1, f1 | e2, f2 | e3, f3 | e4, f4 | e5, f5 | e6, f6 | e7, f7 | e0
    dlp.fill(w, 1.0)
    total = dlp.f32(0.0)
    for i in range(n):
        total = total + v[0] * v[1] + v[2] * v[3] + v[4] * v[5] + v[6] * v[7] + w[i]
        dlp.mul(w[:n], w[:n], v[0])
    whole = (a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7) ^ (b0 + b1 + b2 + b3 + b4 + b5 + b6 + b7)
    whole = whole + (c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7) * (d0 + d1 + d2 + d3 + d4 + d5 + d6 + d7)
    whole = whole ^ (e0 + e1 + e2 + e3 + e4 + e5 + e6 + e7) ^ (f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7)
    whole = whole + (g0 + g1 + g2 + g3 + g4 + g5 + g6 + g7)
    out[0] = total
    out[1] = dlp.f32(whole % 65536)


def test_values_beyond_the_registers_are_spilled() -> None:
    x = np.random.default_rng(2).normal(size=8).astype(np.float32)
    run(pressure, [x, np.zeros(2, np.float32), 9], dim=(1, 1, 1), ways=WAYS)
    text = pressure.stages("dlp-m")["isa"]
    assert "$62, #-" in text  # something is kept in the frame


@dlp.kernel
def by_mnemonic(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32]):
    a, w = dlp.nram((4, 4), dlp.f32), dlp.wram((4, 4), dlp.f32)
    dlp.copy(a.view(16), x[:16])
    dlp.copy(w.view(16), x[:16])
    dlp.instruction("MAM", a, 16, a, w, formats=dlp.f32)
    dlp.instruction("MMS", a, 16, a, 0.5, formats=dlp.f32)
    kept = dlp.instruction("VFILT", a, 16, a, a, formats=dlp.f32)
    dlp.copy(out[:16], a.view(16))
    out[16] = dlp.f32(kept)


def test_any_row_of_the_isa_by_its_mnemonic() -> None:
    x = np.array([1, 0, -2, 3] * 4, np.float32)
    _, out = run(by_mnemonic, [x, np.zeros(17, np.float32)], dim=(1, 1, 1), ways=WAYS)
    assert out.tolist() == [1, -2, 3] * 4 + [0] * 4 + [12]


@dlp.kernel
def crowded(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    """Three convolutions in a loop: their runs do not all fit into registers at once."""
    image, result = dlp.nram((6, 6, 4), dlp.f32), dlp.nram(1024, dlp.f32)
    w = dlp.wram((4, 3, 3, 4), dlp.f32)
    dlp.copy(image.view(144), x[:144])
    dlp.copy(w.view(144), x[:144])
    for i in range(n):
        dlp.conv(result[:64], image, w)
        dlp.conv(result[64:208], image, w, border=(1, 1, 1, 1))
        dlp.conv(result[208:244], image, w, stride=(2, 2), border=(1, 0, 1, 0))
        dlp.pool(result[244:344], image, (2, 2))
        dlp.copy(out[i * 344 : i * 344 + 344], result[:344])


def test_runs_that_do_not_all_fit() -> None:
    x = np.random.default_rng(4).normal(size=144).astype(np.float32)
    _, out = run(crowded, [x, np.zeros(344 * 3, np.float32), 3], dim=(1, 1, 1), ways=WAYS)
    assert (out[:344] == out[688:]).all() and (out != 0).any()


def test_meta_parameters_make_variants() -> None:
    @dlp.kernel
    def repeat(out: dlp.gm[dlp.f32], *, times: int, kind: str = "add"):
        a = dlp.nram(8, dlp.f32)
        dlp.fill(a, 1.0)
        for _ in dlp.static_range(times):
            if kind == "add":
                dlp.add(a, a, a)
            else:
                dlp.mul(a, a, 3.0)
        dlp.copy(out[:8], a)

    zero = np.zeros(8, np.float32)
    assert (run(repeat.meta(times=3), [zero], dim=(1, 1, 1))[0] == 8).all()
    assert (run(repeat.meta(times=2, kind="mul"), [zero], dim=(1, 1, 1))[0] == 9).all()
    assert "VAV" not in repeat.meta(times=2, kind="mul").stages("dlp-s")["isa"]
