"""Kernels of other shapes than the library's, each with its meaning, and slips of the pen in them.

A slip is a piece of the source, what stands there instead, how the checkers must call it, and a piece of the line
that they must name.
"""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

RNG = np.random.default_rng(16)


@dataclass(frozen=True)
class Kernel:
    """A source, what it is launched with, and what the arrays hold afterwards."""

    text: str
    args: Callable[[], list[Any]]
    wanted: Callable[[list[Any]], dict[int, Any]]  # by argument
    dim: tuple[int, int, int] = (4, 1, 1)
    task: str = "union1"


def _normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


SOFTMAX = """#include <bang.h>
#define WIDTH 200
__nram__ float row[WIDTH]; __nram__ float top[8];
__mlu_global__ void k(const float *x, float *y, int rows, int cols) {
  for (int r = taskId; r < rows; r += taskDim) {
    __memcpy(row, x + r * cols, cols * sizeof(float), GDRAM2NRAM);
    __bang_argmax(top, row, cols);
    __bang_sub_scalar(row, row, top[0], cols);
    __bang_active_exphp(row, row, cols);
    float sum = __bang_sum(row, cols);
    __bang_mul_scalar(row, row, 1.0f / sum, cols);
    __memcpy(y + r * cols, row, cols * sizeof(float), NRAM2GDRAM);
  }
}
"""


def _softmax(args: list[Any]) -> dict[int, Any]:
    e = np.exp(args[0] - args[0].max(1, keepdims=True))
    return {1: e / e.sum(1, keepdims=True)}


EMBED = """#include <bang.h>
__nram__ int ids[64]; __nram__ float line[48]; __nram__ float scale[48];
__mlu_global__ void k(const int *tokens, const float *table, const float *weight, float *y, int n, int width) {
  __memcpy(scale, weight, width * sizeof(float), GDRAM2NRAM);
  int per = (n + taskDim - 1) / taskDim, first = taskId * per;
  int mine = first + per > n ? n - first : per;
  if (mine <= 0) return;
  __memcpy(ids, tokens + first, mine * sizeof(int), GDRAM2NRAM);
  for (int i = 0; i < mine; ++i) {
    __memcpy(line, table + ids[i] * width, width * sizeof(float), GDRAM2NRAM);
    __bang_mul(line, line, scale, width);
    __memcpy(y + (first + i) * width, line, width * sizeof(float), NRAM2GDRAM);
  }
}
"""

SPLIT = """#include <bang.h>
#define PART 128
__mlu_shared__ float near[2][4 * PART];
__nram__ float a[PART];
__mlu_global__ void k(const float *x, float *y, int rounds) {
  for (int i = 0; i < rounds + 1; ++i) {
    if (__is_mpu()) {
      if (i < rounds) __memcpy(near[i % 2], x + i * 4 * PART, 4 * PART * sizeof(float), GDRAM2SRAM);
    } else if (i > 0) {
      __memcpy(a, near[(i - 1) % 2] + coreId * PART, PART * sizeof(float), SRAM2NRAM);
      __bang_add_scalar(a, a, 1.5f, PART);
      __memcpy(y + (i - 1) * 4 * PART + coreId * PART, a, PART * sizeof(float), NRAM2GDRAM);
    }
    __sync_cluster();
  }
}
"""

TURN = """#include <bang.h>
#define R 24
#define C 40
__nram__ float tile[R * C]; __nram__ float turned[C * R];
__mlu_global__ void k(const float *x, float *y, int ld) {
  int at = taskId * C;
  __memcpy(tile, x + at, C * sizeof(float), GDRAM2NRAM, C * sizeof(float), ld * sizeof(float), R - 1);
  __bang_transpose(turned, tile, R, C);
  __memcpy(y + at * R, turned, R * sizeof(float), NRAM2GDRAM, R * sizeof(float), R * sizeof(float), C - 1);
}
"""

COUNTING = """#include <bang.h>
__nram__ int bins[256]; __nram__ int old[16];
__mlu_global__ void k(const int *x, int *counts, float *share, int n) {
  int per = n / taskDim, first = taskId * per;
  __memcpy(bins, x + first, per * sizeof(int), GDRAM2NRAM);
  for (int i = 0; i < per; ++i) __bang_atomic_add(old, counts + bins[i], 1);
  __sync_all();
  if (taskId == 0) {
    for (int b = 0; b < 16; ++b) share[b] = (float)counts[b] / n;
  }
}
"""

PIPELINE = """#include <bang.h>
#define T 96
struct Slots { float *in; float *out; };
__nram__ float pool[4 * T];
__mlu_func__ Slots slot(int i) { return {pool + i % 2 * T, pool + 2 * T + i % 2 * T}; }
__mlu_global__ void k(const float *x, float *y, int n) {
  int per = n / taskDim, first = taskId * per, tiles = per / T;
  for (int i = 0; i < tiles + 2; ++i) {
    if (i >= 2) __memcpy_async(y + first + (i - 2) * T, slot(i - 2).out, T * sizeof(float), NRAM2GDRAM);
    if (i < tiles) __memcpy_async(slot(i).in, x + first + i * T, T * sizeof(float), GDRAM2NRAM);
    if (i >= 1 && i <= tiles) __bang_mul(slot(i - 1).out, slot(i - 1).in, slot(i - 1).in, T);
    __sync();
  }
}
"""

SHARED_SUM = """#include <bang.h>
__nram__ float part[512]; __nram__ float all[64];
__mlu_global__ void k(const float *x, float *work, float *y, int n) {
  int per = n / taskDim;
  __memcpy(part, x + taskId * per, per * sizeof(float), GDRAM2NRAM);
  work[taskId] = __bang_sum(part, per);
  __sync_all();
  __memcpy(all, work, taskDim * sizeof(float), GDRAM2NRAM);
  float mean = __bang_sum(all, taskDim) / n;
  __bang_sub_scalar(part, part, mean, per);
  __memcpy(y + taskId * per, part, per * sizeof(float), NRAM2GDRAM);
}
"""

PRODUCT = """#include <bang.h>
#define N 64
#define K 32
__wram__ float right[N * K]; __nram__ float left[8 * K]; __nram__ float out[8 * N]; __nram__ float bias[N];
__mlu_global__ void k(const float *a, const float *b, const float *c, float *y, int m) {
  __memcpy(right, b, N * K * sizeof(float), GDRAM2WRAM);
  __memcpy(bias, c, N * sizeof(float), GDRAM2NRAM);
  for (int r = taskId * 8; r < m; r += taskDim * 8) {
    int rows = r + 8 > m ? m - r : 8;
    __memcpy(left, a + r * K, rows * K * sizeof(float), GDRAM2NRAM);
    __bang_matmul(out, left, right, rows, K, N);
    __bang_cycle_add(out, out, bias, rows * N, N);
    __memcpy(y + r * N, out, rows * N * sizeof(float), NRAM2GDRAM);
  }
}
"""

WIDEN = """#include <bang.h>
#define MOST 160
__nram__ char buffer[MOST * 4 + MOST * 2];
__mlu_global__ void k(const half *x, half *y, int n) {
  float *wide = (float *)buffer;
  half *narrow = (half *)buffer + MOST, *result = (half *)(buffer + MOST * 4);
  int per = n / taskDim, first = taskId * per;
  __memcpy(narrow, x + first, per * sizeof(half), GDRAM2NRAM);
  __bang_half2float(wide, narrow, per);
  __bang_mul_scalar(wide, wide, 3.0f, per);
  __bang_float2half_rn(result, wide, per);
  __memcpy(y + first, result, per * sizeof(half), NRAM2GDRAM);
}
"""

KEEP = """#include <bang.h>
__nram__ float a[256], mask[256], kept[256];
__mlu_global__ void k(const float *x, float *y, int *count, int n) {
  if (taskId != 0) return;
  __memcpy(a, x, n * sizeof(float), GDRAM2NRAM);
  __bang_gt_scalar(mask, a, 0.25f, n);
  int many = __bang_count(mask, n);
  __bang_filter(kept, a, mask, n);
  __memcpy(y, kept, many * sizeof(float), NRAM2GDRAM);
  count[0] = many;
}
"""

POOL = """#include <bang.h>
#define H 12
#define W 10
#define CH 16
__nram__ float image[H * W * CH]; __nram__ float pooled[(H / 2) * (W / 2) * CH];
__mlu_global__ void k(const float *x, float *y) {
  __memcpy(image, x + taskId * H * W * CH, H * W * CH * sizeof(float), GDRAM2NRAM);
  __bang_maxpool(pooled, image, CH, H, W, 2, 2, 2, 2);
  __memcpy(y + taskId * (H / 2) * (W / 2) * CH, pooled, (H / 2) * (W / 2) * CH * sizeof(float), NRAM2GDRAM);
}
"""


def _ints(most: int, *shape: int) -> Any:
    return RNG.integers(0, most, shape).astype(np.int32)


KERNELS = {
    "softmax": Kernel(SOFTMAX, lambda: [_normal(11, 200), np.zeros((11, 200), np.float32), 11, 200], _softmax),
    "embed": Kernel(EMBED, lambda: [_ints(30, 37), _normal(30, 48), _normal(48), np.zeros((37, 48), np.float32), 37, 48],
                    lambda a: {3: a[1][a[0]] * a[2]}),
    "split": Kernel(SPLIT, lambda: [_normal(5 * 512), np.zeros(5 * 512, np.float32), 5], lambda a: {1: a[0] + np.float32(1.5)}),
    "turn": Kernel(TURN, lambda: [_normal(24, 160), np.zeros((160, 24), np.float32), 160], lambda a: {1: a[0].T}),
    "counting": Kernel(COUNTING, lambda: [_ints(16, 400), np.zeros(16, np.int32), np.zeros(16, np.float32), 400],
                       lambda a: {1: np.bincount(a[0], minlength=16), 2: np.bincount(a[0], minlength=16) / np.float32(400)}),
    "pipeline": Kernel(PIPELINE, lambda: [_normal(4 * 96 * 5), np.zeros(4 * 96 * 5, np.float32), 4 * 96 * 5], lambda a: {1: a[0] * a[0]}),
    "shared sum": Kernel(SHARED_SUM, lambda: [_normal(1200), np.zeros(4, np.float32), np.zeros(1200, np.float32), 1200],
                         lambda a: {2: a[0] - a[0].mean()}),
    "product": Kernel(PRODUCT, lambda: [_normal(37, 32), _normal(64, 32), _normal(64), np.zeros((37, 64), np.float32), 37],
                      lambda a: {3: a[0] @ a[1].T + a[2]}),
    "widen": Kernel(WIDEN, lambda: [_normal(640).astype(np.float16), np.zeros(640, np.float16), 640],
                    lambda a: {1: (a[0].astype(np.float32) * 3).astype(np.float16)}),
    "keep": Kernel(KEEP, lambda: [_normal(250), np.zeros(250, np.float32), np.zeros(1, np.int32), 250],
                   lambda a: {1: np.resize(np.append(a[0][a[0] > 0.25], np.zeros(250)), 250), 2: [(a[0] > 0.25).sum()]}),
    "pool": Kernel(POOL, lambda: [_normal(4, 12, 10, 16), np.zeros((4, 6, 5, 16), np.float32)],
                   lambda a: {1: a[0].reshape(4, 6, 2, 5, 2, 16).max((2, 4))}),
}  # fmt: skip

IN_DRAM = r"are in no allocated block"
SLIPS: list[tuple[str, str, str, str, str]] = [
    (
        "softmax",
        "__nram__ float row[WIDTH]",
        "__nram__ float row[WIDTH - 1]",
        r"outside the array row: __memcpy: dst touches bytes 0 to 800 of its 796.*4 bytes too many",
        "__memcpy(row",
    ),
    (
        "softmax",
        "__memcpy(row, x + r * cols, cols * sizeof(float)",
        "__memcpy(row, x + r * cols, cols",
        r"uninitialised bytes reach DRAM: 800 of 800 bytes, byte 200 of row",
        "NRAM2GDRAM",
    ),
    ("softmax", "x + r * cols, cols", "x + (r + 1) * cols, cols", IN_DRAM, "__memcpy(row, x + (r"),
    (
        "softmax",
        "__memcpy(row, x",
        "__memcpy_async(row, x",
        r"read after write without order: .*row[\s\S]*put __sync_io\(\) between them",
        "__bang_argmax(top",
    ),
    (
        "softmax",
        "__nram__ float top[8]",
        "__nram__ float top[1]",
        r"outside the array top: __bang_argmax touches bytes 4 to 8 of its 4.*4 bytes too many",
        "__bang_argmax(top",
    ),
    (
        "embed",
        "ids[i] * width",
        "ids[i + 1] * width",
        r"uninitialised bytes reach an address|" + IN_DRAM,
        "table + ids[i + 1]",
    ),
    ("embed", "mine = first + per > n ? n - first : per", "mine = per", IN_DRAM, "__memcpy(ids"),
    (
        "embed",
        "y + (first + i) * width",
        "y + (first + i) * width - 1",
        r"write after write without order|" + IN_DRAM,
        "__memcpy(y",
    ),
    (
        "embed",
        "__bang_mul(line, line, scale, width)",
        "__bang_mul(line, line, scale, width + 1)",
        r"outside the array (line|scale): __bang_mul: (dst|a|b) touches bytes 0 to 196 of its 192",
        "__bang_mul(line",
    ),
    (
        "split",
        "    __sync_cluster();\n",
        "",
        r"without order: .*near[\s\S]*__sync_cluster\(\)",
        "near[i % 2]",
    ),
    (
        "split",
        "near[(i - 1) % 2]",
        "near[i % 2]",
        r"(read after write|write after read) without order: .*near",
        "SRAM2NRAM",
    ),
    (
        "split",
        "i > 0",
        "i >= 0",
        r"outside the array near: __memcpy: src touches bytes -2048 to -1536 of its 4096.*2048 bytes too early",
        "SRAM2NRAM",
    ),
    (
        "split",
        "+ coreId * PART, PART * sizeof(float), SRAM2NRAM",
        "+ coreId * PART + 1, PART * sizeof(float), SRAM2NRAM",
        r"uninitialised|outside the array near|without order",
        "SRAM2NRAM",
    ),
    (
        "turn",
        "R - 1);\n  __bang",
        "R);\n  __bang",
        r"outside the array tile: __memcpy: dst touches bytes 0 to 4000 of its 3840|" + IN_DRAM,
        "GDRAM2NRAM",
    ),
    (
        "turn",
        "__bang_transpose(turned, tile, R, C)",
        "__bang_transpose(tile + 4, tile, R, C)",
        r"__bang_transpose: source and result overlap|outside the array tile",
        "__bang_transpose",
    ),
    (
        "turn",
        "__bang_transpose(turned, tile, R, C)",
        "__bang_transpose(turned, tile, R, C + 1)",
        r"outside the array (tile|turned): __bang_transpose",
        "__bang_transpose",
    ),
    ("turn", "y + at * R, turned", "y + at * C, turned", IN_DRAM, "NRAM2GDRAM"),
    (
        "counting",
        "__bang_atomic_add(old, counts + bins[i], 1)",
        "counts[bins[i]] += 1",
        r"without order",
        "counts[bins[i]] += 1",
    ),
    (
        "counting",
        "i < per; ++i",
        "i <= per; ++i",
        r"uninitialised bytes reach an address|" + IN_DRAM,
        "counts + bins[i]",
    ),
    ("pipeline", "pool + i % 2 * T,", "pool,", r"without order: .*pool", "__memcpy_async(slot(i).in"),
    (
        "pipeline",
        "pool + 2 * T + i % 2 * T",
        "pool + 2 * T + i % 2 * T + 1",
        r"without order: .*pool|outside the array pool",
        "slot(i - 1).out",
    ),
    (
        "pipeline",
        "slot(i).in, x + first",
        "slot(i - 1).in, x + first",
        r"outside the array pool: __memcpy_async: dst touches bytes -384 to 0 of its 1536",
        "__memcpy_async(slot(i - 1).in",
    ),
    (
        "pipeline",
        "(i - 2) * T, slot(i - 2).out, T *",
        "(i - 2) * T, slot(i - 2).out, (T + 4) *",
        IN_DRAM + r"|write after write without order",
        "NRAM2GDRAM",
    ),
    (
        "shared sum",
        "  __sync_all();\n",
        "  __sync();\n",
        r"without order[\s\S]*__sync_cluster\(\)|without order[\s\S]*__sync_all\(\)",
        "__memcpy(all, work",
    ),
    ("shared sum", "work[taskId] =", "work[0] =", r"write after write without order", "work[0] ="),
    (
        "shared sum",
        "__memcpy(all, work, taskDim * sizeof(float)",
        "__memcpy(all, work, taskDim",
        r"uninitialised bytes reach DRAM: 1200 of 1200 bytes, byte 4 of all",
        "__memcpy(y + taskId",
    ),
    (
        "shared sum",
        "__nram__ float part[512]",
        "__nram__ float part[256]",
        r"outside the array part: __memcpy: dst touches bytes 0 to 1200 of its 1024",
        "__memcpy(part",
    ),
    (
        "product",
        "__wram__ float right[N * K]",
        "__wram__ float right[N * K - 64]",
        r"outside the array right: __memcpy: dst",
        "GDRAM2WRAM",
    ),
    ("product", "rows = r + 8 > m ? m - r : 8", "rows = 8", IN_DRAM, "__memcpy(left"),
    (
        "product",
        "__bang_cycle_add(out, out, bias, rows * N, N)",
        "__bang_cycle_add(out, out, bias, rows * N, 2 * N)",
        r"320 elements are no whole number of rows of 128[\s\S]*task 0, __bang_cycle_add",
        "__bang_cycle_add",
    ),
    (
        "product",
        "__bang_matmul(out, left, right, rows, K, N)",
        "__bang_matmul(out, left, right, rows, K + 1, N)",
        r"outside the array (left|right): __bang_matmul|uninitialised",
        "__bang_matmul",
    ),
    (
        "widen",
        "(half *)buffer + MOST,",
        "(half *)buffer + MOST / 2,",
        r"__bang_half2float: source and result overlap",
        "__bang_half2float",
    ),
    (
        "widen",
        "result = (half *)(buffer + MOST * 4)",
        "result = (half *)(buffer + MOST * 4 + 2)",
        r"outside the array buffer: __bang_float2half_rn: dst touches bytes 642 to 962 of its 960",
        "__bang_float2half_rn",
    ),
    ("keep", "y, kept, many *", "y, kept, n *", r"uninitialised bytes reach DRAM", "__memcpy(y, kept"),
    (
        "keep",
        "__bang_gt_scalar(mask, a, 0.25f, n);\n  int",
        "int",
        r"uninitialised bytes reach",
        "__bang_count(mask",
    ),
    (
        "pool",
        "[(H / 2) * (W / 2) * CH]",
        "[(H / 2) * (W / 2) * CH - 1]",
        r"outside the array pooled: __bang_maxpool: dst",
        "__bang_maxpool",
    ),
    (
        "pool",
        "__bang_maxpool(pooled, image, CH, H, W, 2, 2, 2, 2)",
        "__bang_maxpool(pooled, image, CH, H + 1, W, 2, 2, 2, 2)",
        r"outside the array image: __bang_maxpool",
        "__bang_maxpool",
    ),
    (
        "pool",
        "__memcpy(image, x + taskId * H * W * CH, H * W * CH",
        "__memcpy(image, x + taskId * H * W * CH, H * W",
        r"uninitialised bytes reach DRAM",
        "NRAM2GDRAM",
    ),
    (
        "keep",
        "__bang_filter(kept, a, mask, n)",
        "__bang_filter(kept, a, mask, n + 8)",
        r"outside the array (a|mask|kept): __bang_filter",
        "__bang_filter",
    ),
    (
        "pool",
        "H * W * CH * sizeof(float), GDRAM2NRAM);",
        "H * W * CH * sizeof(float), NRAM2GDRAM);",
        r"NRAM2GDRAM",
        "__memcpy(image",
    ),
    (
        "embed",
        "__memcpy(line, table",
        "__memcpy_async(line, table",
        r"read after write without order: line[\s\S]*put __sync_io\(\) between them",
        "__bang_mul(line",
    ),
    (
        "widen",
        "x + first, per * sizeof(half), GDRAM2NRAM",
        "x + first, per * sizeof(float), GDRAM2NRAM",
        IN_DRAM,
        "__memcpy(narrow",
    ),
    (
        "product",
        "__memcpy(left, a",
        "__memcpy_async(left, a",
        r"read after write without order: left[\s\S]*put __sync_io\(\) between them",
        "__bang_matmul",
    ),
    (
        "shared sum",
        "y + taskId * per, part, per",
        "y + taskId * (per - 1), part, per",
        r"write after write without order",
        "__memcpy(y + taskId",
    ),
    (
        "turn",
        "__nram__ float turned[C * R]",
        "__nram__ float turned[C * R - 8]",
        r"outside the array turned: __bang_transpose: dst touches bytes 0 to 3840 of its 3808",
        "__bang_transpose",
    ),
]
