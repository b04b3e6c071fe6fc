"""Ten sources that mix what operator libraries use, each against NumPy, at both levels, under the checkers."""

# ruff: noqa: E501 (references are written as they are read)
from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bang_harness import needs_clang

from trilobite.processor.device import Device, DeviceArray
from trilobite.processor.lang.bang.kernel import BangKernel
from trilobite.processor.lang.bang.source import Options

LEVELS = [pytest.param(0, marks=pytest.mark.long), 2]
pytestmark = [needs_clang, pytest.mark.parametrize("level", LEVELS)]
STRESS = Path(__file__).parent / "corpus" / "stress"


def launched(
    file: str, kernel: str, args: list[Any], level: int, dim: tuple[int, int, int] = (1, 1, 1), task: str = "block",
    device: Device | None = None,
) -> list[Any]:  # fmt: skip
    """What the arrays among the arguments hold afterwards."""
    where = device or Device("mlu370-x4")
    given = [where.array(a) if isinstance(a, np.ndarray) else a for a in args]
    made = BangKernel(STRESS / f"{file}.mlu", kernel, Options(level=level))
    where.launch(made, given, dim, task, checks=True, traced=False)
    return [g.numpy() for g in given if isinstance(g, DeviceArray)]


def test_five_stages_through_sram(level: int, rng: np.random.Generator) -> None:
    x = (rng.standard_normal(7001) * 3).astype(np.float32)
    args = [np.zeros_like(x), x, len(x), 2, 0, 0.1, 0.0]
    got = launched("activation_pipeline", "activation", args, level, (8, 1, 1), "union2")[0]
    np.testing.assert_allclose(got, np.where(x > 0, x, x * np.float32(0.1)), rtol=1e-6)
    h = (rng.standard_normal(2999) * 3).astype(np.float16)
    args = [np.zeros_like(h), h, len(h), 1, 1, -0.5, 0.75]
    got = launched("activation_pipeline", "activation", args, level, (4, 1, 1), "union1")[0]
    np.testing.assert_array_equal(got, np.clip(h, np.float16(-0.5), np.float16(0.75)))


def test_modern_cpp(level: int, rng: np.random.Generator) -> None:
    x = (rng.standard_normal(300) * 2).astype(np.float32)
    args = [x, np.zeros_like(x), np.zeros(9, np.int32), 300]
    _, y, info = launched("modern_cpp", "modern", args, level)
    np.testing.assert_allclose(y, [math.erf(v) for v in x], rtol=3e-6, atol=3e-6)
    assert info.tolist() == [3120, 4, 101, 0, 7, 32767, 32752, ((3 * 4 + 1) * 4 + 2) * 4, 900]


def geometry(sizes: tuple[int, ...], scale: Any, stride: int, flip: int, tag: int) -> bytes:
    return struct.pack("<4i2fqBb", *sizes, *scale, stride, flip, tag).ljust(48, b"\0")


def test_structs_by_value_and_unions(level: int, rng: np.random.Generator) -> None:
    device, total = Device("mlu370-x4"), 210
    table = (rng.standard_normal(total) * 5).astype(np.float32)
    there, inner, outer = (
        device.array(table),
        np.array([0.5, -1.25], np.float32),
        np.array([0.125, 3], np.float32),
    )
    given = geometry((2, 3, 5, 7), inner, 12345678901, 1, -3) + geometry((1, 1, 1, 1), outer, 0, 0, 0)
    given += int(there.address).to_bytes(8, "little").ljust(16, b"\0")
    i = np.arange(total)
    v = ((table * inner[i & 1]).astype(np.float32) + outer[(i >> 1) & 1]).astype(np.float32)
    with np.errstate(over="ignore"):
        z = (
            np.uint64(12345678901)
            + i.astype(np.uint64)
            + np.uint64(0x9E3779B97F4A7C15) * np.int64(-3).astype(np.uint64)
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    swapped = v.view(np.uint32).byteswap()
    args = [given, np.zeros(total, np.float32), np.zeros(total, np.uint64), np.zeros(total, np.int32)]
    out, mixed, bits = launched("punning", "punning", args, level, (4, 1, 1), "union1", device)
    np.testing.assert_allclose(out, -1 / np.sqrt(v.astype(np.float64) ** 2 + 1), rtol=2e-6)
    np.testing.assert_array_equal(mixed, z ^ (z >> np.uint64(31)))
    np.testing.assert_array_equal(bits.view(np.uint32), swapped ^ ((swapped >> 16) << 4) ^ np.uint32(7 ^ 128))


def test_ping_pong_over_ragged_rows(level: int, rng: np.random.Generator) -> None:
    x = (rng.standard_normal((11, 1003)) * 4).astype(np.float32)
    args = [x, np.zeros_like(x), np.zeros(11, np.float32), np.zeros(11, np.int32), 11, 1003]
    _, y, sums, places = launched("softmax_rows", "softmax_rows", args, level, (4, 1, 1), "union1")
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=2e-5, atol=1e-9)
    np.testing.assert_allclose(sums, e.sum(1), rtol=2e-5)
    np.testing.assert_array_equal(places, x.argmax(1))


def test_strided_copies_between_all_memories(level: int, rng: np.random.Generator) -> None:
    g = rng.standard_normal((12, 57)).astype(np.float32)
    window = g[:, 3:43]
    half = window.reshape(-1, 4)[:, :2].reshape(-1)
    cube = np.zeros((2, 3, 4, 8), np.float32)
    cube[:, :, 1] = half[:48].reshape(2, 3, 8)
    args = [g, np.zeros(432, np.float32), np.zeros((40, 12), np.float32), 57]
    _, out, turned = launched("strided_copies", "moves", args, level)
    np.testing.assert_array_equal(out, np.concatenate([cube.reshape(-1), half]))
    np.testing.assert_array_equal(turned, window.T)
    x, y = rng.standard_normal((4, 200)).astype(np.float32), np.full((4, 256), -7, np.float32)
    y[:, :200] = np.roll(x, -1, 0)[:, ::-1]
    args = [x, np.zeros_like(y), 200]
    got = launched("strided_copies", "shared_exchange", args, level, (4, 1, 1), "union1")[1]
    np.testing.assert_array_equal(got, y)


def halves(x: np.ndarray, seed: int) -> tuple[list[Any], list[Any]]:
    f, wide = np.float16, np.float32
    table = np.array([0.5, -1.25, 3.0, 1e-3], f)
    bias = ((seed * 3) & 31) - 32 * (((seed * 3) & 31) >= 16)
    ys, zs = [], []
    for i, a in enumerate(x):
        b = f(0)
        for k in (3, 2, 1, 0):
            b = f(f(b * a) + table[k])
        b = f(f(f(wide(f(b + f(1))) - wide(0.25)) * f(2)) / f(3))
        if float(a) > 0.5 and not b < f(-1):
            b = -b
        elif a == 0:
            b = f(7)
        b = f(b + f(1))
        q = ml_dtypes.bfloat16(wide(b))
        first = wide(wide(-wide(b) - wide(a)) * wide(0.5) + wide(seed & 7))
        second = wide(wide(a) * wide(0.5) + wide((seed * 12345) & 0xFFFFF))
        more = wide(wide(ml_dtypes.bfloat16(q * q)) + int(a > b) + ((i * 37) & 255))
        ys.append(b)
        zs += [wide(wide(first + bias) + wide(q)), wide(second + more)]
    return ys, zs


def test_half_scalars_bit_fields_and_jumps(level: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal(50).astype(np.float16)
    x[3] = 0
    args = [x, np.zeros_like(x), np.zeros(100, np.float32), 50, 5]
    _, y, z = launched("half_scalars", "halves", args, level)
    ys, zs = halves(x, 5)
    np.testing.assert_array_equal(y, np.array(ys, np.float16))
    np.testing.assert_allclose(z, np.array(zs, np.float32), rtol=1e-6)


def position(most: Any) -> int:
    p, most = 0, np.float32(most)
    while most > 127:
        most, p = most * np.float32(0.5), p + 1
    while most * 2 <= 127:
        most, p = most * np.float32(2), p - 1
    return p


def test_masked_gather_and_quantised_product(level: int, rng: np.random.Generator) -> None:
    table, ids = rng.standard_normal((90, 20)).astype(np.float32), rng.permutation(90)[:37].astype(np.int64)
    keep = rng.integers(0, 2, 37).astype(bool)
    bits = np.zeros(32, np.uint8)
    bits[:5] = np.packbits(keep, bitorder="little")
    args = [table, ids, bits, np.zeros((37, 20), np.float32), np.zeros_like(table), 37, 20]
    *_, out, back = launched("gather_and_quantise", "gatherScatter", args, level)
    want = np.zeros_like(table)
    want[ids[keep]] = 2 * table[ids[keep]]
    np.testing.assert_array_equal(out, np.where(keep[:, None], table[ids], 0))
    np.testing.assert_array_equal(back, want)
    x, w = (
        (rng.standard_normal((5, 64)) * 3).astype(np.float32),
        (rng.standard_normal((64, 64)) * 0.1).astype(np.float32),
    )
    p = [position(np.abs(a).max()) for a in (x, w)]
    whole = [
        np.clip(np.copysign(np.floor(np.abs(a * 2.0**-q) + 0.5), a), -128, 127)
        for a, q in zip((x, w), p, strict=True)
    ]
    args = [x, w, np.zeros((5, 64), np.float32), np.zeros(2, np.int32), 5, 64]
    *_, y, found = launched("gather_and_quantise", "quantMatmul", args, level)
    assert found.tolist() == p
    np.testing.assert_allclose(y, whole[0] @ whole[1].T * 2.0 ** sum(p), rtol=1e-6)


def test_generic_code(level: int, rng: np.random.Generator) -> None:
    h, f = rng.standard_normal(41).astype(np.float16), rng.standard_normal(41).astype(np.float32)
    c = rng.integers(-100, 100, 41).astype(np.int8)
    out = launched("generic_code", "generic", [h, f, c, np.zeros(7, np.float32), 41], level)[3]
    one = c.astype(int) + 1
    want = [8 * h.astype(np.float64).sum(), 8 * f.max(), 4 * one.sum(), 4 * one.max(), 4, 411 * 100 + 36, 8]
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("nesterov", [False, True])
def test_lists_of_tensors(nesterov: bool, level: int, rng: np.random.Generator) -> None:
    sizes = [5, 513, 1025, 77, 0, 2048]
    p, g, v = ([rng.standard_normal(n).astype(np.float32) for n in sizes] for _ in range(3))
    device = Device("mlu370-x4")
    flat = device.array(np.concatenate(p + g + v))
    starts = int(flat.address) + 4 * np.cumsum([0, *sizes, *sizes, *sizes])
    rows = [[*starts[6 * r : 6 * r + 6].tolist(), *[0] * 6] for r in range(3)]
    given = b"".join(struct.pack("<12Q", *row) for row in rows) + struct.pack("<12qi4x", *sizes, *[0] * 6, 6)
    launched(
        "tensor_lists", "sgd", [given, 0.1, 0.9, 0.01, int(nesterov)], level, (4, 1, 1), "union1", device
    )
    lr, mu, decay = np.float32(0.1), np.float32(0.9), np.float32(0.01)
    slope = [a + b * decay for a, b in zip(g, p, strict=True)]
    speed = [a * mu + b for a, b in zip(v, slope, strict=True)]
    step = [a * mu + b if nesterov else a for a, b in zip(speed, slope, strict=True)]
    want = np.concatenate([*(a - lr * b for a, b in zip(p, step, strict=True)), *g, *speed])
    np.testing.assert_allclose(flat.numpy(), want, rtol=1e-5, atol=1e-6)


def test_sums_over_clusters(level: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 2, 33, 301)).astype(np.float32)
    args = [x, np.zeros((3, 2, 2, 301), np.float32), np.zeros((3, 2, 301), np.float32), 33, 301]
    out = launched("cluster_sums", "columnSums", args, level, (8, 2, 3), "union2")[2]
    np.testing.assert_allclose(out, x.sum(2), rtol=1e-4, atol=1e-5)
