"""The kernels of features.mlu and selection.mlu: C++ as kernels use it, masks, tables, conversions."""

# ruff: noqa: E501 (tables and sources of kernels)
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from bang_harness import KERNELS, LEVELS, compiled, needs_clang, run

from trilobite.base.errors import ProcessorFault
from trilobite.processor.device import Device, Kernel

pytestmark = [needs_clang, pytest.mark.parametrize("level", LEVELS)]
FEATURES = KERNELS / "features.mlu"
SELECTION = KERNELS / "selection.mlu"


@pytest.mark.parametrize("mode", [0, 1, 2, 9])
def test_struct_parameter(mode: int, level: int) -> None:
    packed = np.array([(3, 5, 7, 1.25, 1000)], np.dtype("i4,i4,i4,f4,i8", align=True)).tobytes()
    words = [int.from_bytes(packed[i : i + 8], "little") for i in range(0, len(packed), 8)]
    out = run(FEATURES, "struct_parameter", [np.zeros(2, np.int32), *words, mode], level=level)[0]
    value = 15 * 4 + 7 + 1000
    assert out.tolist() == [{0: value, 1: 2 * value, 2: -value}.get(mode, 7), 10]


def test_templates(level: int) -> None:
    out = run(FEATURES, "templates", [np.zeros(7, np.int32), 3, 8], level=level)[0]
    assert out.tolist() == [8, 18, 720, 19, 8, 1, 32767]


def test_operators(level: int, rng: np.random.Generator) -> None:
    a, b = (rng.integers(-5, 5, (9, 2)).astype(np.float32) for _ in range(2))
    out = run(FEATURES, "complex_dot", [a, b, np.zeros(2, np.float32), 9], level=level)[2]
    want = np.sum((a[:, 0] + 1j * a[:, 1]) * (b[:, 0] + 1j * b[:, 1]))
    assert out.tolist() == [want.real, want.imag]


@pytest.mark.parametrize("a", [-100, 5, 2**31 - 1])
def test_integers(a: int, level: int) -> None:
    b, c, d = 0xDEADBEEF, -(2**40) - 12345, -77
    out = run(FEATURES, "integers", [np.zeros(10, np.int64), a, b, c, d], level=level)[0]
    table = sorted([3, 1, 4, 1, 5, 9, 2, 6])
    byte = a * 31 & 0xFF
    want = [
        table[a & 7], int(a / 7) + int(math.fmod(a, 7)), (b // 7 + (b >> 3) + b % 7) % 2**32,
        (c * 1000003 + 2**63) % 2**64 - 2**63, (byte - 256 if byte > 127 else byte) + byte,
        d << 20 | d & 0xFFFF, b.bit_count() + 0, a if a > b - 2**32 else b, (c % 2**64) >> 5,
        ~a if a < 0 else a ^ 0x55,
    ]  # fmt: skip
    assert out.tolist() == want


def test_halves(level: int, rng: np.random.Generator) -> None:
    x = rng.integers(-20, 20, 16).astype(np.float16) / np.float16(4)
    _, out, wide = run(FEATURES, "halves", [x, np.zeros_like(x), np.zeros(4, np.float32), 16], level=level)
    np.testing.assert_array_equal(out, np.minimum(x * np.float16(2) + np.float16(0.5), np.float16(3)))
    down = (
        float(np.nextafter(np.float16(0.1), np.float16(0)))
        if float(np.float16(0.1)) > 0.1
        else float(np.float16(0.1))
    )
    assert wide.tolist() == pytest.approx(
        [
            float(x.astype(np.float64).sum()),
            float(x[0]) + abs(float(x[1])),
            float(np.float16(0.1)) + down * 16,
            int(x[2]),
        ]
    )


def test_mathematics(level: int, rng: np.random.Generator) -> None:
    x = np.concatenate([rng.standard_normal(12) * 3, [0.0, 2.5, -2.5, 1e-3]]).astype(np.float32)
    out = run(FEATURES, "mathematics", [x, np.zeros((16, 16), np.float32), 16], level=level)[1]
    w = x.astype(np.float64)
    size = np.abs(w)
    want = [
        np.sqrt(size), np.exp(w * 0.1), np.log(size + 1), (size + 0.5) ** 1.7, np.sin(w), np.cos(w), np.tanh(w), np.floor(w),
        np.ceil(w), np.copysign(np.floor(size + 0.5), w), np.trunc(w), np.fmod(w, 0.75), np.maximum(w, 0.25), w**3,
        np.log2(size + 1), w,
    ]  # fmt: skip
    np.testing.assert_allclose(out, np.stack(want, 1), rtol=3e-6, atol=3e-7)


def test_pointers_into_every_memory(level: int, rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, 64).astype(np.float32)
    out = run(
        FEATURES, "pointers", [x, np.zeros(2, np.float32), 40], (4, 1, 1), "union1", level=level, checks=False
    )[1]
    assert out.tolist() == [x[:40].sum(), x[40]]


def test_grid_and_printing(level: int) -> None:
    device = Device("mlu370-x4")
    out = device.array(np.zeros((2, 3, 4), np.int32))
    launched = device.launch(
        Kernel(compiled(FEATURES, "grid", level=level), "grid"), [out], (4, 3, 2), "block"
    )
    np.testing.assert_array_equal(out.numpy().ravel(), np.arange(24) * 1000 + 24)
    assert launched.printed == "24 tasks, dim:  2.50 x\n"


def test_abort_stops_the_launch(level: int) -> None:
    run(FEATURES, "stops", [3], level=level)
    with pytest.raises(ProcessorFault, match=r"features\.mlu"):
        run(FEATURES, "stops", [4], level=level)


def test_counters_polynomials_loops(level: int, rng: np.random.Generator) -> None:
    assert run(FEATURES, "counters", [np.zeros(2, np.int32)], level=level)[0].tolist() == [21, 13]
    x = rng.standard_normal(9).astype(np.float32)
    out = run(FEATURES, "polynomial", [x, np.zeros_like(x), 9], level=level)[1]
    np.testing.assert_allclose(
        out, np.polyval([0.125, 2, -1.25, 0.5], x.astype(np.float64)), rtol=1e-5, atol=1e-6
    )
    steps = run(FEATURES, "loops", [np.zeros(30, np.int32), 30], (3, 1, 1), level=level)[0]
    assert steps[2:].tolist() == [collatz(n) for n in range(2, 30)]


def collatz(n: int) -> int:
    steps = 0
    while n > 1:
        n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
    return steps


# selection.mlu
def test_compact(level: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal(300).astype(np.float32)
    _, out, count = run(
        SELECTION, "compact", [x, np.zeros_like(x), np.zeros(1, np.int32), 300, 0.3], level=level
    )
    kept = x[x > np.float32(0.3)]
    assert count[0] == len(kept)
    np.testing.assert_array_equal(out[: len(kept)], kept)


def test_masks_and_limits(level: int, rng: np.random.Generator) -> None:
    mask = rng.integers(0, 2, 111).astype(np.float32)
    x, y = (rng.standard_normal(111).astype(np.float32) for _ in range(2))
    out = run(SELECTION, "where_mask", [mask, x, y, np.zeros_like(x), 111], level=level)[3]
    np.testing.assert_array_equal(out, np.where(mask > 0, x, y))
    out = run(SELECTION, "clip", [x, np.zeros_like(x), 111, -0.5, 0.75], level=level)[1]
    np.testing.assert_array_equal(out, np.clip(x, np.float32(-0.5), np.float32(0.75)))


def test_look_up_and_histogram(level: int, rng: np.random.Generator) -> None:
    table, index = rng.standard_normal(37).astype(np.float32), rng.integers(0, 37, 200).astype(np.uint32)
    out = run(SELECTION, "look_up", [table, index, np.zeros(200, np.float32), 200, 37], level=level)[2]
    np.testing.assert_array_equal(out, table[index])
    values = rng.integers(-2, 12, 200).astype(np.int32)
    bins = run(
        SELECTION, "histogram", [values, np.zeros(10, np.int32), 200, 10], (4, 1, 1), "union1", level=level
    )[1]
    np.testing.assert_array_equal(bins, np.bincount(values[(values >= 0) & (values < 10)], minlength=10))


def test_conversions(level: int, rng: np.random.Generator) -> None:
    x = (rng.standard_normal(130) * 30).astype(np.float32)
    args: list[Any] = [x, np.zeros(130, np.float16), np.zeros(130, np.int32), np.zeros(130, np.float32), 130]
    _, narrow, whole, again = run(SELECTION, "conversions", args, level=level)
    np.testing.assert_array_equal(narrow, x.astype(np.float16))
    np.testing.assert_array_equal(whole, np.trunc(x))
    np.testing.assert_array_equal(again, x.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("position", [0, -2, 3])
def test_quantisation(position: int, level: int, rng: np.random.Generator) -> None:
    x = np.concatenate([rng.standard_normal(60) * 40, [2.5, -2.5, 1e4, -1e4]]).astype(np.float32)
    _, out, back = run(
        SELECTION, "quantise", [x, np.zeros(64, np.int8), np.zeros(64, np.float32), 64, position], level=level
    )
    scaled = x.astype(np.float64) / 2.0**position
    want = np.clip(np.copysign(np.floor(np.abs(scaled) + 0.5), scaled), -128, 127)
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(back, want * 2.0**position)


def test_strides(level: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal((6, 20)).astype(np.float32)
    out = run(SELECTION, "slice_columns", [x, np.zeros((6, 7), np.float32), 6, 20, 5, 7], level=level)[1]
    np.testing.assert_array_equal(out, x[:, 5:12])
    cube = rng.standard_normal((3, 4, 5)).astype(np.float32)
    out = run(SELECTION, "permute_3d", [cube, np.zeros((4, 3, 5), np.float32), 3, 4, 5], level=level)[1]
    np.testing.assert_array_equal(out, cube.transpose(1, 0, 2))


def test_fills(level: int) -> None:
    args = [np.zeros(50, np.float32), np.zeros(50, np.int32), np.zeros(50, np.float16), 50]
    floats, whole, small = run(SELECTION, "fills", args, level=level)
    assert (floats == 1.5).all() and (whole == 7).all() and (small == 0.25).all()


def test_bits(level: int, rng: np.random.Generator) -> None:
    x = rng.integers(-(2**31), 2**31, 77).astype(np.int32)
    out = run(SELECTION, "bits", [x, np.zeros_like(x), 77], level=level)[1]
    np.testing.assert_array_equal(out, [(int(v) & 0xFFFF).bit_count() & 1 for v in x])
    a, b = (rng.standard_normal(64).astype(np.float32) for _ in range(2))
    _, _, kept, count = run(
        SELECTION, "bit_masks", [a, b, np.zeros(64, np.float32), np.zeros(1, np.uint32), 64], level=level
    )
    np.testing.assert_array_equal(kept[: count[0]], a[a > b])


def test_counting(level: int) -> None:
    x = np.array([0, 0, 3, 0, -1, 5, 0], np.float32)
    assert run(SELECTION, "count_and_find", [x, np.zeros(3, np.uint32), 7], level=level)[1].tolist() == [
        3,
        2,
        5,
    ]
    assert run(SELECTION, "count_and_find", [x[:2], np.zeros(3, np.uint32), 2], level=level)[1].tolist()[
        :2
    ] == [0, 2**32 - 1]


def test_fusion(level: int, rng: np.random.Generator) -> None:
    x, y, z = (rng.integers(-9, 9, 150).astype(np.float32) for _ in range(3))
    out = run(SELECTION, "fused", [x, y, z, np.zeros_like(x), 150], level=level)[3]
    np.testing.assert_array_equal(out, 2 * x + y + (x - y) * z - 1)


def test_assembly(level: int, rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, 100).astype(np.float32)
    out = run(SELECTION, "assembly", [x, np.zeros_like(x), 100], level=level)[1]
    np.testing.assert_array_equal(out, 4 * x)
