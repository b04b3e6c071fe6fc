"""Assembly on scalar registers, rounding modes that no instruction has, tilings, fills by every core."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

from trilobite.base.errors import KernelError

pytestmark = needs_clang

REGISTERS = """
#include <bang.h>
template <typename T> __mlu_func__ const T *row(const T *src, unsigned m, unsigned n) {
  const T *at = nullptr;
  unsigned high = m * (n >> 16) * sizeof(T), low = m * (n % 65536) * sizeof(T);
  __asm__ volatile("sll.gpr.u48 %[at], %[high], %[s];\\n\\t"
                   "add.gpr.ptr %[at], %[at], %[src];\\n\\t"
                   "add.gpr.ptr %[at], %[at], %[low];\\n\\t"
                   : [at] "+&r"(at) : [src] "r"(src), [high] "r"(high), [low] "r"(low), [s] "i"(16));
  return at;
}
__mlu_global__ void scalars(const int *x, int *y, int n) {
  int sum = 5, shifted, least;
  unsigned rest, whole;
  __asm__ volatile("add.gpr.s32 %0, %0, %5; sra.gpr.s32 %1, %5, 2; srl.gpr.s32 %2, %5, 2;\\n"
                   "div.gpr.u32 %3, %6, 7; rem.gpr.u32 %4, %6, 7;"
                   : "+&r"(sum), "=&r"(shifted), "=&r"(least), "=&r"(whole), "=&r"(rest) : "r"(n), "r"(4000000000u));
  float f = 1.5f, g;
  __asm__ volatile("mul.gpr.f32 %0, %1, 2.5; max.gpr.f32 %0, %0, %2;" : "=&r"(g) : "r"(f), "r"(-f));
  y[0] = sum; y[1] = shifted; y[2] = least; y[3] = whole; y[4] = rest; y[5] = (int)(g * 4);
  y[6] = *row(x, 3, 5);
}
"""


@pytest.mark.parametrize("level", LEVELS)
def test_scalar_registers(level: int, tmp_path: Path) -> None:
    x = np.arange(100, 130, dtype=np.int32)
    got = run(written(REGISTERS, tmp_path), "scalars", [x, np.zeros(7, np.int32), -9], level=level)[1]
    least = ((-9) & 0xFFFFFFFF) >> 2
    assert got.tolist() == [-4, -3, least, 4000000000 // 7, 4000000000 % 7, 15, 115]


GUARDED = """
#include <bang.h>
__mlu_global__ void larger(const int *x, int *y, int n) {
  for (int i = 0; i < n; ++i) {
    int a = x[i], top = 5, sign = 1;
    __asm__ volatile("setp.gt.s32 %%p0, %[a], 5;\\n\\t@%%p0 mv.gpr.s32 %[top], %[a];\\n\\t"
                     "setp.lt.s32 %%p1, %[a], 0;\\n\\t@%%p1 sub.gpr.s32 %[sign], 0, 1;\\n\\t@!%%p1 add.gpr.s32 %[sign], %[sign], 1;\\n\\t"
                     : [top] "+&r"(top), [sign] "+&r"(sign) : [a] "r"(a));
    y[2 * i] = top; y[2 * i + 1] = sign;
  }
}
"""


@pytest.mark.parametrize("level", LEVELS)
def test_statements_behind_a_predicate(level: int, tmp_path: Path) -> None:
    x = np.array([-7, 0, 5, 6, 100, -1], np.int32)
    _, y = run(written(GUARDED, tmp_path), "larger", [x, np.zeros(12, np.int32), 6], level=level)
    assert y[0::2].tolist() == np.maximum(x, 5).tolist()
    assert y[1::2].tolist() == np.where(x < 0, -1, 2).tolist()


def test_a_predicate_that_nothing_set_is_refused(tmp_path: Path) -> None:
    text = GUARDED.replace("setp.lt.s32 %%p1, %[a], 0;", "nop;")
    with pytest.raises(KernelError, match=r"@%p1 sub\.gpr\.s32"):
        run(written(text, tmp_path), "larger", [np.zeros(6, np.int32), np.zeros(12, np.int32), 6])


def test_an_output_that_holds_nothing_is_not_read(tmp_path: Path) -> None:
    source = written(
        '#include <bang.h>\n__mlu_global__ void k(int *x) {\n  int a;\n  __asm__ volatile("add.gpr.s32 %0, %0, 1;" : "=r"(a));\n  *x = a;\n}\n',
        tmp_path,
    )
    with pytest.raises(KernelError, match=r"4:.*add\.gpr\.s32"):
        run(source, "k", [np.zeros(1, np.int32)])


ROUNDED = """
#include <bang.h>
__nram__ float a[64];
__nram__ half b[64];
__mlu_global__ void rounded(const float *x, half *y, int n) {
  for (int i = 0; i < n; i++) {
    y[i] = __float2half_oz(x[i]);
    y[n + i] = __float2half_rm(x[i]);
    y[2 * n + i] = __float2half(x[i]);
  }
  __memcpy(a, x, n * sizeof(float), GDRAM2NRAM);
  __bang_float2half_oz(b, a, n);
  __memcpy(y + 3 * n, b, n * sizeof(half), NRAM2GDRAM);
}
"""


@pytest.mark.parametrize("level", LEVELS)
def test_neighbours_of_a_number(level: int, tmp_path: Path, rng: np.random.Generator) -> None:
    x = (rng.standard_normal(40) * 90).astype(np.float32)
    tie = np.float32(1 + 2**-11)  # halfway between two halves
    x[:4] = [tie, -tie, 0.5, 0]
    near = x.astype(np.float16)
    wide, close = x.astype(np.float64), near.astype(np.float64)
    up = np.where(close < wide, np.nextafter(near, np.float16(np.inf)), near)
    down = np.where(close > wide, np.nextafter(near, np.float16(-np.inf)), near)
    away = np.where(x > 0, up, down)
    middle = np.where(up.astype(np.float64) - wide <= wide - down.astype(np.float64), up, down)
    want = np.concatenate([away, middle, np.where(x > 0, down, up), away]).astype(np.float16)
    got = run(written(ROUNDED, tmp_path), "rounded", [x, np.zeros(160, np.float16), 40], level=level)[1]
    np.testing.assert_array_equal(got, want)


TILINGS = """
#include <bang.h>
__nram__ char a[64 * 64], b[64 * 64];
__mlu_global__ void tiled(const char *x, char *y, char *z) {
  __memcpy(a, x, 4096, GDRAM2NRAM);
  __bang_write_zero(b, 4096);
  __bang_tiling_2d_b16(b, a, 4, 1, 8, 4, 2, 32, 16, 2);
  __memcpy(y, b, 4096, NRAM2GDRAM);
  __bang_write_zero(b, 4096);
  __bang_tiling_3d_b1024(b, a, 2, 32, 2, 8, 4, 2, 1, 0, 4, 16, 4, 3, 64);
  __memcpy(z, b, 4096, NRAM2GDRAM);
}
"""


def test_tilings(tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.integers(-128, 128, 4096).astype(np.int8)
    _, y, z = run(written(TILINGS, tmp_path), "tiled", [x, np.zeros_like(x), np.zeros_like(x)])
    lines, want, moved = x.reshape(64, 64), np.zeros((64, 64), np.int8), np.zeros((64, 64), np.int8)
    read = np.stack([lines[r // 8 + r % 8 * 4] for r in range(32)]).view(np.int16)
    for c, line in enumerate(np.ascontiguousarray(read.T)):
        want[c // 16 * 32 + c % 16 * 2] = line.view(np.int8)
    for i in range(16):
        moved[i // 4 * 16 + i % 4 * 3] = lines[i // 8 * 32 + i // 4 % 2 * 8 + i % 4 * 2]
    np.testing.assert_array_equal(y.reshape(64, 64), want)
    np.testing.assert_array_equal(z.reshape(64, 64), moved)


FILLED = """
#include <bang.h>
__mlu_shared__ float board[256];
__mlu_global__ void filled(float *y) {
  __sramset(board, 256, VALUE);
  __sync_cluster();
  __nram__ float mine[256];
  if (coreId != 0x80) {
    __memcpy(mine, board, sizeof(mine), SRAM2NRAM);
    __memcpy(y + coreId * 256, mine, sizeof(mine), NRAM2GDRAM);
  }
}
"""


@pytest.mark.parametrize("level", LEVELS)
def test_every_core_may_fill_with_one_value(level: int, tmp_path: Path) -> None:
    from trilobite.processor.tools.findings import CheckFailed

    same = written(FILLED.replace("VALUE", "2.5f"), tmp_path)
    (got,) = run(same, "filled", [np.zeros(1024, np.float32)], (4, 1, 1), "union1", level=level)
    assert (got == 2.5).all()
    with pytest.raises(CheckFailed, match="write after write"):
        different = written(FILLED.replace("VALUE", "(float)coreId"), tmp_path)
        run(different, "filled", [np.zeros(1024, np.float32)], (4, 1, 1), "union1", level=level)


HISTOGRAM = """
#include <bang.h>
__mlu_global__ void counted(D *y, const S *x, const S *bins, int n) {
  __nram__ S a[700];
  __nram__ D o[64];
  __wram__ S k[64];
  __memcpy(a, x, n * sizeof(S), GDRAM2NRAM);
  __memcpy(k, bins, sizeof(k), GDRAM2WRAM);
  __bang_histogram(o, a, k, n);
  __memcpy(y, o, sizeof(o), NRAM2GDRAM);
}
"""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("d", "s", "into", "of"),
    [
        ("int", "int8_t", np.int32, np.int8),
        ("half", "int16_t", np.float16, np.int16),
        ("float", "half", np.float32, np.float16),
    ],
)
def test_histogram_counts_what_equals_each_bin(
    d: str, s: str, into: Any, of: Any, level: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    source = written(f"#define D {d}\n#define S {s}\n" + HISTOGRAM, tmp_path)
    x, bins = rng.integers(-50, 50, 700).astype(of), rng.permutation(np.arange(-60, 60))[:64].astype(of)
    y, *_ = run(source, "counted", [np.zeros(64, into), x, bins, 700], level=level)
    np.testing.assert_array_equal(y, [(x == b).sum() for b in bins])
