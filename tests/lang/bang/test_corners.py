"""Corners of the language that kernels seldom visit, each at both levels with the checkers on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

from trilobite.processor.device import Device
from trilobite.processor.lang.bang.kernel import BangKernel
from trilobite.processor.lang.bang.source import Options, compile_file
from trilobite.processor.machine import load_machine

pytestmark = needs_clang
SOURCE = Path(__file__).parent / "corpus" / "corners.mlu"
levels = pytest.mark.parametrize("level", LEVELS)
BITS = 64


def integers(count: int) -> Any:
    return np.zeros(count, np.int32)


def launched(kernel: str, args: list[Any], level: int) -> Any:
    device = Device("mlu370-x4")
    given = [device.array(a) if isinstance(a, np.ndarray) else a for a in args]
    chosen = BangKernel(SOURCE, kernel, Options(level=level))
    device.launch(chosen, given, traced=False, checks=True)
    return given[0].numpy()


@levels
def test_functions_by_their_addresses(level: int) -> None:
    out = run(SOURCE, "virtual_functions", [integers(4), 7], level=level)[0]
    assert out.tolist() == [494, 243, 814, 303]
    for which, want in ((0, -1.25), (1, 6.25)):
        assert launched("table_of_functions", [np.zeros(1, np.float32), -2.5, which], level)[0] == want
    assert run(SOURCE, "table_of_texts", [integers(3), 1], level=level)[0].tolist() == [4, 7, 3]


@levels
def test_built_ins_by_reference(level: int) -> None:
    out = run(SOURCE, "built_ins_by_reference", [integers(4), 3], (2, 2, 1), level=level)[0]
    assert out.tolist() == [300, 313, 316, 319]


@levels
def test_bytes_set(level: int) -> None:
    out = run(SOURCE, "bytes_set", [integers(100), 20, 0x7F], level=level)[0]
    want = np.full(100, 0x7F7F7F7F)
    want[:60:3] = np.arange(20)
    np.testing.assert_array_equal(out, want)


@levels
def test_pointers_with_a_qualifier_are_each_cores_own(level: int) -> None:
    bits = int(np.float32(0.5).view(np.uint32))
    args = [np.zeros((4, 64), np.float32), bits]
    out = run(SOURCE, "qualified_pointers", args, (4, 1, 1), "union1", level=level)[0]
    want = np.repeat(np.arange(4, dtype=np.float32)[:, None] + np.float32(0.5), 64, axis=1)
    want[:, 2] = -1
    np.testing.assert_array_equal(out, want)


@levels
def test_exit(level: int) -> None:
    assert [run(SOURCE, "leaves_early", [integers(1), n], level=level)[0][0] for n in (4, 3)] == [1, 2]


@levels
def test_angles(level: int, rng: np.random.Generator) -> None:
    edges = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 1e-30, -3e20], np.float32)
    y, x = (np.concatenate([a.ravel(), rng.standard_normal(9) * 20]).astype(np.float32)
            for a in np.meshgrid(edges, edges))  # fmt: skip
    n = x.size
    out = run(SOURCE, "angles", [np.zeros((7, n), np.float32), y, x, n], level=level)[0]
    a, b = y.astype(np.float64), x.astype(np.float64)
    with np.errstate(all="ignore"):
        area = np.arcsinh(b) + np.arccosh(1 + np.abs(b))
        want = [np.arctan2(a, b), np.arctan(a), np.arcsin(np.sin(b)), np.arccos(np.cos(b)), np.cbrt(b), area,
                np.arctanh(np.tanh(b * 0.125))]  # fmt: skip
    calm = np.abs(b) < 60
    for place, expected in enumerate(want):
        known = np.isfinite(expected) & (calm if place in (2, 3, 5, 6) else True)
        loose = 1e-3 if place in (2, 3) else 2e-6  # where cos is 1 in fp32, half of its digits are gone
        np.testing.assert_allclose(out[place][known], expected[known], rtol=2e-5, atol=loose)
    np.testing.assert_array_equal(np.signbit(out[0]), np.signbit(want[0]))
    assert out[4][np.isinf(b)].tolist() == b[np.isinf(b)].tolist()


@levels
def test_numbers_taken_apart(level: int, rng: np.random.Generator) -> None:
    x = np.concatenate([rng.standard_normal(40) * 10.0 ** rng.integers(-4, 4, 40),
                        [0.5, -2.5, 1e-40, -8.0, 3.5]]).astype(np.float32)  # fmt: skip
    n = x.size
    out = run(SOURCE, "taken_apart", [np.zeros((8, n), np.float32), x, n], level=level)[0]
    part, power = np.frexp(x)
    rest, whole = np.modf(x)
    away = np.copysign(np.floor(np.abs(x) + np.float32(0.5)), x)
    near = np.rint(x.astype(np.float64) / 0.75)
    want = [part, power, rest, whole, np.ldexp(x, 5) + np.ldexp(x, -3), 2 * (power - 1),
            6 * away + 3 * np.rint(x), np.maximum(x - np.float32(1.5), 0) + (x - near * 0.75)]  # fmt: skip
    for place, expected in enumerate(want):
        np.testing.assert_allclose(out[place], expected, rtol=1e-6, atol=1e-6 if place == 7 else 0)


def wrapped(value: int) -> int:
    low = value & ((1 << BITS) - 1)
    return low - (1 << BITS) if low >> (BITS - 1) else low


@levels
@pytest.mark.parametrize(
    ("a", "b"),
    [(2**62, 2**62), (-(2**63), 1), (-1, -(2**63)), (3, -7), (2**32, 2**31), (0, -1), (-(2**63), -1)],
)
def test_full_words(a: int, b: int, level: int) -> None:
    out = launched("full_words", [np.zeros(13, np.int64), a, b], level).tolist()
    ua, ub = a % 2**BITS, b % 2**BITS
    fits = [-(2**63) <= v < 2**63 for v in (a + b, a - b, a * b)]
    assert out[:5] == [not fits[0], wrapped(a + b), not fits[1], not fits[2], wrapped(a * b)]
    assert out[5:8] == [ua + ub >= 2**BITS, ua < ub, ua * ub >= 2**BITS]
    assert out[8:10] == [wrapped(max(ua - ub, 0)), wrapped(min(ua + ub, 2**BITS - 1))]
    turned = [
        int(f"{value:0{bits}b}"[::-1], 2) for value, bits in ((ua, 64), (ub % 2**32, 32), (ub % 2**16, 16))
    ]
    assert out[10:] == [wrapped(turned[0]), *turned[1:]]


@levels
def test_strided_copies_into_another_cluster(level: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal(16).astype(np.float32)
    args = [np.zeros(16, np.float32), x]
    out = run(SOURCE, "into_another_cluster", args, (8, 1, 1), "union2", level=level)[0]
    np.testing.assert_array_equal(out, np.concatenate([x[:8], x[:8]]))


@levels
def test_integers_with_two_fix_positions(level: int, rng: np.random.Generator) -> None:
    x = rng.integers(-400000, 400000, 131).astype(np.int32)
    out = run(SOURCE, "rescaled", [np.zeros(131, np.int16), x, 131], level=level)[0]
    np.testing.assert_array_equal(out, np.clip(np.rint(x / 8.0), -32768, 32767))


@levels
@pytest.mark.parametrize(
    ("way", "n", "machine"),
    [
        (0, 128, "mlu370-x4"),
        (1, 128, "mlu370-x4"),
        (1, 64, "mlu290"),
        (2, 64, "mlu370-x4"),
        (1, 128, "mlu270"),
    ],
)
def test_filters_go_to_their_lanes(
    way: int, n: int, machine: str, level: int, rng: np.random.Generator
) -> None:
    m, k = 5, 32
    x, y = (rng.standard_normal((rows, k)).astype(np.float32) for rows in (m, n))
    args = [np.zeros((m, n), np.float32), x, y, m, n, k, way]
    out = run(SOURCE, "lanes", args, machine=machine, level=level)[0]
    np.testing.assert_allclose(out, x @ y.T, rtol=1e-5, atol=1e-5)


@levels
def test_variables_that_begin_with_addresses(level: int) -> None:
    out = launched("begin_with_addresses", [np.zeros(2, np.float32), 2.5], level)
    assert out.tolist() == [6.25, -2.5]


def test_two_kernels_of_one_source_divide_their_work(tmp_path: Path) -> None:
    """Each has a word of its own for what the memory core would do in NRAM."""
    body = (
        "(float *x) {\n  __nram__ float a[64];\n  a[0] = 2.0f;\n  __sync_cluster();\n"
        "  if (__is_ipu()) x[taskId] = a[0] + taskId;\n}\n"
    )
    text = f"#include <bang.h>\n__mlu_global__ void one{body}__mlu_global__ void two{body}"
    path = written(text, tmp_path)
    for kernel in ("one", "two"):
        program = compile_file(path, load_machine("mlu370-x4"))  # both, as a program
        device = Device("mlu370-x4")
        out = device.array(np.zeros(4, np.float32))
        device.launch(device.load(program)[kernel], [out], (4, 1, 1), "union1", checks=True)
        assert out.numpy().tolist() == [2, 3, 4, 5]
