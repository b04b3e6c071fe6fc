"""What a kernel says means what Python means by it: compiled, interpreted and as IR alike."""

from __future__ import annotations

import numpy as np
import pytest
from harness import run

from trilobite import dlp
from trilobite.base.errors import KernelError, ProcessorFault
from trilobite.processor import Device

I32, F32 = np.int32, np.float32
ONE = (1, 1, 1)


@dlp.kernel
def counted(out: dlp.gm[dlp.i32], start: int, stop: int, step: int):
    k = 0
    for i in range(start, stop, step):
        out[k] = i
        k += 1
    out[31] = k


@pytest.mark.parametrize("bounds", [(10, -3, -2), (9, 0, -3), (0, 7, 2), (3, 3, -1), (0, 9, -1), (5, 1, 4)])
def test_a_step_that_only_a_run_knows_may_fall(bounds: tuple[int, int, int]) -> None:
    (out,) = run(counted, [np.full(32, -1, I32), *bounds], dim=ONE)
    want = list(range(*bounds))
    assert out[31] == len(want) and out[: len(want)].tolist() == want


@dlp.kernel
def piped(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], start: int, stop: int, step: int):
    for i in dlp.pipeline(start, stop, step):
        t = dlp.nram(8, dlp.f32)
        dlp.load(t, x[i * 8 : i * 8 + 8])
        dlp.add(t, t, 1.0)
        dlp.store(out[i * 8 : i * 8 + 8], t)


@dlp.kernel
def piped_down(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], start: int, stop: int, step: int):
    for i in dlp.pipeline(start, stop, -3):
        t = dlp.nram(8, dlp.f32)
        dlp.load(t, x[i * 8 : i * 8 + 8])
        dlp.add(t, t, 1.0)
        dlp.store(out[i * 8 : i * 8 + 8], t)


@pytest.mark.parametrize("bounds", [(9, 0, -3), (10, 0, -3), (11, 1, -3), (0, 4, -3), (2, -1, -3)])
@pytest.mark.parametrize("kernel", [piped, piped_down])
def test_pipelines_may_fall(kernel: dlp.Kernel, bounds: tuple[int, int, int]) -> None:
    x = np.random.default_rng(0).normal(size=(12, 8)).astype(F32)
    _, out = run(kernel, [x, x * 0, *bounds], dim=ONE)
    want = x * 0
    for i in range(*bounds):
        want[i] = x[i] + F32(1)
    assert (out == want).all()


def test_a_step_of_0_is_refused_with_its_line() -> None:
    line = counted.function.__code__.co_firstlineno + 3
    with pytest.raises(ProcessorFault, match=rf"test_python_meaning\.py:{line}:\d+: a loop whose step is 0"):
        run(counted, [np.zeros(32, I32), 0, 5, 0], dim=ONE, ways=("O2",))


@dlp.kernel
def logic(x: dlp.gm[dlp.i32], out: dlp.gm[dlp.i32], n: int, *, tile: int | None = None):
    out[3 * n] = tile or 128
    for i in range(n):
        out[i] = x[i] or x[i + 1] or 99
        out[n + i] = x[i] and x[i + 1] and (more := x[i] + 1) + more - x[i] - 1
        if not (x[i] and x[i + 1] > 2) or x[i] == 7:
            out[2 * n + i] = 1


def test_and_or_give_one_of_their_operands() -> None:
    x = np.array([0, 0, 3, 4, 7, 9, 0, 1], I32)
    n = len(x) - 1
    _, out = run(logic, [x, np.zeros(3 * n + 1, I32), n], dim=ONE)
    for i in range(n):
        a, b = int(x[i]), int(x[i + 1])
        assert out[i] == (a or b or 99)
        assert out[n + i] == (a and b and a + 1)
        assert out[2 * n + i] == int(not (a and b > 2) or a == 7)
    assert out[-1] == 128


@dlp.kernel
def extremes(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    for i in range(n):
        out[2 * i] = min(x[2 * i], x[2 * i + 1])
        out[2 * i + 1] = max(x[2 * i], x[2 * i + 1])


def test_min_and_max_meet_nan_and_zeros_as_python_does() -> None:
    nan, inf = np.nan, np.inf
    x = np.array([nan, 1, 1, nan, 0.0, -0.0, -0.0, 0.0, -inf, inf, 3, -4], F32)
    _, out = run(extremes, [x, np.zeros(12, F32), 6], dim=ONE)
    want = np.array([f(a, b) for a, b in x.reshape(6, 2) for f in (min, max)], F32)
    assert (out.view(np.uint32) == want.view(np.uint32)).all()


@dlp.kernel
def first_positive(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.i32]):
    at = -1
    for j in range(2):
        for k in dlp.static_range(9):
            if k == 6:
                break
            v = x[k]
            if v > 0.0:
                at = k
                break
            if v == 0.0:
                continue
            w = v * 2.0
            out[k] = out[k] + int(w)
        out[6 + j] = at


@pytest.mark.parametrize("values", [(-1, 0, -3, 4, -5, 6), (-1, -2, -3, -4, 0, -6), (1, 2, 3, 4, 5, 6)])
def test_unrolled_loops_are_left_by_the_compiler_or_by_the_run(values: tuple[int, ...]) -> None:
    _, out = run(first_positive, [np.array(values, F32), np.zeros(8, I32)], dim=ONE)
    want, at = [0] * 8, -1
    for j in range(2):
        for k, v in enumerate(values):
            if v > 0:
                at = k
                break
            want[k] += 2 * v
        want[6 + j] = at
    assert out.tolist() == want


def scaled(value, mode):
    if mode == "double":
        return value * 2.0
    return getattr(dlp, mode)(value)


@dlp.kernel
def decided(x: dlp.gm[dlp.f32], *, mode: str = "double"):
    x[0] = scaled(x[0], mode)
    if mode == "double":
        return
    x[1] = dlp.unknown(x[1])


def test_what_stands_behind_a_return_that_is_taken_is_not_looked_at() -> None:
    (out,) = run(decided, [np.array([2.25, 7], F32)], dim=ONE)
    assert out.tolist() == [4.5, 7]
    with pytest.raises(KernelError, match="has no 'unknown'"):
        decided.meta(mode="sqrt").program("dlp-m")


@dlp.kernel
def copies(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32]):
    rows = [dlp.nram(8, dlp.f32) for _ in range(3)]
    more = ()
    for _, factor in zip((0, 1), (2.0, 4.0), strict=True):
        made = dlp.nram(8, dlp.f32)
        dlp.fill(made, factor)
        more = (*more, made)
    for k, row in enumerate(rows):
        dlp.fill(row, x[k] + sum(x[i] for i in range(3) if i != k))
    for k, row in enumerate((*rows, *more)):
        dlp.copy(out[k * 8 : k * 8 + 8], row)
    out[40] = max(x[k] for k in range(3))


def test_every_copy_of_an_unrolled_body_has_buffers_of_its_own() -> None:
    x = np.array([1, 2, 4], F32)
    _, out = run(copies, [x, np.zeros(41, F32)], dim=ONE)
    assert out[:40:8].tolist() == [7, 7, 7, 2, 4] and out[40] == 4


@dlp.kernel
def turned(out: dlp.gm[dlp.f32], n: int):
    a, b = dlp.nram(8, dlp.f32), dlp.nram(8, dlp.f32)
    dlp.fill(a, 1.0)
    dlp.fill(b, 2.0)
    for i in range(n):
        now, other = (a, b) if i % 3 == 0 else (b, a)
        dlp.sub(now, 5.0, now)
        dlp.copy(out[i * 8 : i * 8 + 8], other if i > 3 else now)


def test_views_are_chosen_and_scalars_may_stand_first() -> None:
    (out,) = run(turned, [np.zeros(56, F32), 7], dim=ONE)
    a, b, want = 1, 2, []
    for i in range(7):
        if i % 3 == 0:
            a = 5 - a
        else:
            b = 5 - b
        now, other = (a, b) if i % 3 == 0 else (b, a)
        want.append(other if i > 3 else now)
    assert out[::8].tolist() == want


FACTOR = 3
TABLE = np.arange(4)


@dlp.kernel
def around(out: dlp.gm[dlp.i32], *, bias: object = None):
    out[0] = FACTOR
    out[1] = int(TABLE[1])
    out[2] = 0 if bias is None else int(bias[-1])


def test_a_global_that_changed_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    dev = Device("dlp-m")
    out = dev.array(np.zeros(3, I32))

    def seen(kernel: dlp.Kernel) -> list[int]:
        dev.launch(kernel, [out])
        return [int(v) for v in out.numpy()]

    assert seen(around) == [3, 1, 0]
    monkeypatch.setitem(globals(), "FACTOR", 8)
    assert seen(around) == [8, 1, 0]
    TABLE[1] = 77
    assert seen(around) == [8, 77, 0]
    assert around.program("dlp-m") is around.program("dlp-m")
    long = np.arange(5000)  # its repr leaves most of it out
    for last in (4, 9):
        long = long.copy()
        long[2500], long[-1] = last, 6
        assert seen(around.meta(bias=long[:2501])) == [8, 77, last]


@dlp.kernel
def halves(x: dlp.gm[dlp.f16], y: dlp.gm[dlp.bf16], out: dlp.gm[dlp.f32], s: dlp.bf16, n: int):
    for i in range(n):
        a, b = x[i], y[i]
        values = (a + a * a, b - b * 3.0, a + b, 1.5 / b, abs(-b), max(b, 0.5), b**3, b * n + s, b * out[0])
        for k, v in enumerate(values):
            out[1 + 9 * i + k] = dlp.f32(v)
        y[i] = 2.0 * b + 1 if b < 2.0 else b
        x[i] = a if b else a * 2


def test_a_literal_takes_the_type_of_what_it_meets() -> None:
    import ml_dtypes

    values = [1.1, -3.3, 60000, 6e-8, -0.0, 0.37, np.inf]
    x, y = np.array(values, np.float16), np.array(values, ml_dtypes.bfloat16)
    out = np.full(1 + 9 * 7, 1.7, F32)
    _, stored, out = run(halves, [x, y, out, 0.3, 7], dim=ONE)
    b = ml_dtypes.bfloat16(1.1)
    assert out[2] == float(b - b * ml_dtypes.bfloat16(3)) and out[2] != float(b) - float(b) * 3
    assert float(stored[0]) == float(ml_dtypes.bfloat16(float(b) * 2) + ml_dtypes.bfloat16(1))
