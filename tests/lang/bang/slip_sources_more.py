"""More kernels of other shapes, each with its meaning, and slips of the pen in them (see `slip_sources`)."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from typing import Any

import numpy as np
from slip_sources import Kernel

RNG = np.random.default_rng(61)


def _normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


MEAN = """#include <bang.h>
#define T 128
__nram__ float part[T];
__mlu_global__ void k(const float *x, float *total, float *y, int n) {
  int per = n / taskDim;
  const float *mine = x + taskId * per;
  float s = 0;
  for (int at = 0; at < per; at += T) {
    int m = at + T > per ? per - at : T;
    __memcpy(part, mine + at, m * sizeof(float), GDRAM2NRAM);
    s += __bang_sum(part, m);
  }
  __bang_atomic_reduce_add(total, s);
  __sync_all();
  float mean = total[0] / n;
  for (int at = 0; at < per; at += T) {
    int m = at + T > per ? per - at : T;
    __memcpy(part, mine + at, m * sizeof(float), GDRAM2NRAM);
    __bang_sub_scalar(part, part, mean, m);
    __memcpy(y + taskId * per + at, part, m * sizeof(float), NRAM2GDRAM);
  }
}
"""

HISTORY = """#include <bang.h>
#define BINS 64
__nram__ int mine[BINS];
__nram__ int all[BINS];
__mlu_global__ void k(const int *x, int *bins, int *copy, int n) {
  for (int b = 0; b < BINS; ++b) mine[b] = 0;
  for (int i = taskId; i < n; i += taskDim) mine[x[i] & (BINS - 1)] += 1;
  __bang_atomic_reduce_add(bins, mine, BINS);
  __sync_all();
  if (taskId == 1) {
    __memcpy(all, bins, BINS * sizeof(int), GDRAM2NRAM);
    __memcpy(copy, all, BINS * sizeof(int), NRAM2GDRAM);
  }
}
"""

RELAY = """#include <bang.h>
#define W 256
__mlu_shared__ float mail[4 * W];
__nram__ float a[W];
__nram__ float b[W];
__mlu_global__ void k(const float *x, float *y, int rounds) {
  if (__is_mpu()) { for (int r = 0; r < rounds; ++r) { __sync_cluster(); __sync_cluster(); } return; }
  __memcpy(a, x + coreId * W, W * sizeof(float), GDRAM2NRAM);
  for (int r = 0; r < rounds; ++r) {
    __memcpy(mail + coreId * W, a, W * sizeof(float), NRAM2SRAM);
    __sync_cluster();
    __memcpy(b, mail + (coreId + 1) % 4 * W, W * sizeof(float), SRAM2NRAM);
    __sync_cluster();
    __bang_add(a, a, b, W);
  }
  __memcpy(y + coreId * W, a, W * sizeof(float), NRAM2GDRAM);
}
"""

LAYER = """#include <bang.h>
#define D 100
#define P 128
__nram__ float row[P];
__nram__ float sq[P];
__nram__ float g[P];
__nram__ float out[P];
__mlu_global__ void k(const float *x, const float *gamma, float *y, int rows) {
  __bang_write_value(row, P, 0.0f);
  __bang_write_value(g, P, 0.0f);
  __memcpy(g, gamma, D * sizeof(float), GDRAM2NRAM);
  for (int r = taskId; r < rows; r += taskDim) {
    __memcpy(row, x + r * D, D * sizeof(float), GDRAM2NRAM);
    __bang_mul(sq, row, row, P);
    float scale = 1.0f / sqrtf(__bang_sum(sq, P) / D + 1e-5f);
    __bang_mul_scalar(out, row, scale, P);
    __bang_mul(out, out, g, P);
    __memcpy(y + r * D, out, D * sizeof(float), NRAM2GDRAM);
  }
}
"""

PINGPONG = """#include <bang.h>
#define T 64
__nram__ float buf[2][T];
__nram__ float res[2][T];
__mlu_global__ void k(const float *x, float *y, int tiles) {
  int first = taskId * tiles;
  __memcpy_async(buf[0], x + first * T, T * sizeof(float), GDRAM2NRAM);
  __sync_io();
  for (int i = 0; i < tiles; ++i) {
    if (i + 1 < tiles) __memcpy_async(buf[(i + 1) % 2], x + (first + i + 1) * T, T * sizeof(float), GDRAM2NRAM);
    __bang_active_relu(res[i % 2], buf[i % 2], T);
    __sync_compute();
    __memcpy_async(y + (first + i) * T, res[i % 2], T * sizeof(float), NRAM2GDRAM);
    __sync_io();
  }
}
"""

GATHER = """#include <bang.h>
#define C 40
__nram__ int idx[64];
__nram__ float rows[8 * C];
__mlu_global__ void k(const int *index, const float *table, float *y, int n) {
  for (int at = taskId * 8; at < n; at += taskDim * 8) {
    int m = n - at < 8 ? n - at : 8;
    __memcpy(idx, index + at, m * sizeof(int), GDRAM2NRAM);
    for (int j = 0; j < m; ++j)
      __memcpy_async(rows + j * C, table + idx[j] * C, C * sizeof(float), GDRAM2NRAM);
    __sync_io();
    __bang_mul_scalar(rows, rows, 0.5f, m * C);
    __memcpy(y + at * C, rows, m * C * sizeof(float), NRAM2GDRAM);
  }
}
"""

TILES = """#include <bang.h>
#define H 16
#define W 48
__nram__ float in[H * W];
__nram__ float out[W * H];
__mlu_global__ void k(const float *x, float *y, int ld) {
  int column = taskId * W;
  __memcpy(in, x + column, W * sizeof(float), GDRAM2NRAM, W * sizeof(float), ld * sizeof(float), H - 1);
  __bang_transpose(out, in, H, W);
  __memcpy(y + column * H, out, W * H * sizeof(float), NRAM2GDRAM);
}
"""


def _history(a: list[Any]) -> dict[int, Any]:
    counts = np.bincount(a[0] & 63, minlength=64)
    return {1: counts, 2: counts}


def _relay(a: list[Any]) -> dict[int, Any]:
    rows = a[0].reshape(4, 256).astype(np.float64)
    for _ in range(a[2]):
        rows = rows + np.roll(rows, -1, axis=0)
    return {1: rows.reshape(-1)}


def _layer(a: list[Any]) -> dict[int, Any]:
    x = a[0].astype(np.float64)
    return {2: x / np.sqrt((x * x).sum(1, keepdims=True) / 100 + 1e-5) * a[1]}


def _indices() -> Any:
    return RNG.integers(0, 30, 45).astype(np.int32)


KERNELS = {
    "mean": Kernel(MEAN, lambda: [_normal(1200), np.zeros(1, np.float32), np.zeros(1200, np.float32), 1200],
                   lambda a: {2: a[0] - a[0].astype(np.float64).mean()}),
    "history": Kernel(HISTORY, lambda: [RNG.integers(0, 999, 500).astype(np.int32), np.zeros(64, np.int32), np.zeros(64, np.int32), 500], _history),
    "relay": Kernel(RELAY, lambda: [_normal(1024), np.zeros(1024, np.float32), 3], _relay),
    "layer": Kernel(LAYER, lambda: [_normal(13, 100), _normal(100), np.zeros((13, 100), np.float32), 13], _layer),
    "pingpong": Kernel(PINGPONG, lambda: [_normal(4 * 5 * 64), np.zeros(4 * 5 * 64, np.float32), 5], lambda a: {1: np.maximum(a[0], 0)}),
    "gather": Kernel(GATHER, lambda: [_indices(), _normal(30, 40), np.zeros((45, 40), np.float32), 45], lambda a: {2: a[1][a[0]] * 0.5}),
    "tiles": Kernel(TILES, lambda: [_normal(16, 192), np.zeros((192, 16), np.float32), 192], lambda a: {1: a[0].T}),
}  # fmt: skip

RACE = r"without order"
SLIPS: list[tuple[str, str, str, str, str]] = [
    (
        "mean",
        "__sync_all();\n  float mean",
        "float mean",
        r"(?s)read after write without order.*let both cores come to",
        "total[0] / n",
    ),
    ("mean", "__bang_atomic_reduce_add(total, s);", "total[0] += s;", RACE, "total[0] += s"),
    (
        "mean",
        "__bang_sum(part, m)",
        "__bang_sum(part, T + 1)",
        r"outside the array part: __bang_sum",
        "__bang_sum",
    ),
    (
        "mean",
        "__memcpy(part, mine + at, m * sizeof(float), GDRAM2NRAM);\n    __bang_sub",
        "__memcpy_async(part, mine + at, m * sizeof(float), GDRAM2NRAM);\n    __bang_sub",
        r"(?s)without order.*__sync_io",
        "__bang_sub_scalar",
    ),
    ("mean", "y + taskId * per + at", "y + taskId + at", r"write after write without order", "NRAM2GDRAM"),
    ("history", "__sync_all();", "", r"read after write without order", "__memcpy(all"),
    (
        "history",
        "__sync_all();\n  if (taskId == 1) {",
        "if (taskId == 1) {\n    __sync();",
        r"read after write without order",
        "__memcpy(all",
    ),
    (
        "history",
        "__bang_atomic_reduce_add(bins, mine, BINS)",
        "__memcpy(bins, mine, BINS * sizeof(int), NRAM2GDRAM)",
        r"write after write without order",
        "NRAM2GDRAM",
    ),
    (
        "history",
        "__bang_atomic_reduce_add(bins, mine, BINS)",
        "__bang_atomic_reduce_add(bins, mine, BINS + 8)",
        r"outside the array mine",
        "__bang_atomic_reduce_add",
    ),
    (
        "history",
        "for (int b = 0; b < BINS; ++b) mine[b] = 0;",
        "for (int b = 1; b < BINS; ++b) mine[b] = 0;",
        r"uninitialised bytes reach an atomic",
        "__bang_atomic_reduce_add",
    ),
    ("history", "mine[x[i] & (BINS - 1)]", "mine[x[i] & BINS]", r"outside the array mine", "mine[x[i]"),
    (
        "history",
        "__memcpy(copy, all, BINS * sizeof(int)",
        "__memcpy(copy, all, 2 * BINS * sizeof(int)",
        r"outside the array all",
        "__memcpy(copy",
    ),
    (
        "history",
        "__nram__ int all[BINS];",
        "__nram__ int all[BINS - 1];",
        r"outside the array all: __memcpy: dst touches bytes 0 to 256 of its 252",
        "__memcpy(all",
    ),
    (
        "relay",
        "__memcpy(mail + coreId * W, a, W * sizeof(float), NRAM2SRAM);\n    __sync_cluster();",
        "__memcpy(mail + coreId * W, a, W * sizeof(float), NRAM2SRAM);",
        r"deadlock|diverges|without order",
        "",
    ),
    ("relay", "mail + coreId * W, a", "mail, a", r"write after write without order.*mail", "NRAM2SRAM"),
    (
        "relay",
        "__mlu_shared__ float mail[4 * W]",
        "__mlu_shared__ float mail[3 * W]",
        r"outside the array mail",
        "mail + coreId * W",
    ),
    (
        "relay",
        "SRAM2NRAM);\n    __sync_cluster();\n    __bang_add",
        "SRAM2NRAM);\n    __bang_add",
        r"deadlock|diverges|without order",
        "",
    ),
    (
        "relay",
        "__memcpy(a, x + coreId",
        "__memcpy_async(a, x + coreId",
        r"(?s)without order.*__sync_io",
        "NRAM2SRAM",
    ),
    (
        "relay",
        "__bang_add(a, a, b, W);",
        "__bang_add(a, a, b, W + 64);",
        r"outside the array (a|b): __bang_add",
        "__bang_add",
    ),
    (
        "relay",
        "__sync_cluster(); __sync_cluster(); } return;",
        "__sync_cluster(); } return;",
        r"deadlock",
        "",
    ),
    ("layer", "__bang_write_value(row, P, 0.0f);\n", "", r"uninitialised bytes reach DRAM", "__memcpy(y"),
    (
        "layer",
        "__bang_sum(sq, P)",
        "__bang_sum(sq + 64, P)",
        r"outside the array sq: __bang_sum",
        "__bang_sum",
    ),
    (
        "layer",
        "__bang_sum(sq, P)",
        "(__bang_reduce_sum(sq - 32, sq, P), sq[0])",
        r"outside the array sq: __bang_reduce_sum",
        "__bang_reduce_sum",
    ),
    ("layer", "__memcpy(row, x", "__memcpy_async(row, x", r"(?s)without order.*__sync_io", "__bang_mul"),
    (
        "layer",
        "__nram__ float out[P];",
        "__nram__ float out[D];",
        r"outside the array out: __bang_mul_scalar: dst touches bytes 0 to 512 of its 400",
        "__bang_mul_scalar",
    ),
    (
        "layer",
        "__memcpy(y + r * D, out, D * sizeof(float)",
        "__memcpy(y + r * D, out, P * sizeof(float)",
        r"write after write without order|are in no allocated block",
        "",
    ),
    (
        "layer",
        "for (int r = taskId; r < rows; r += taskDim)",
        "for (int r = taskId; r <= rows; r += taskDim)",
        r"allocated block|outside",
        "__memcpy(row",
    ),
    ("pingpong", "buf[(i + 1) % 2], x", "buf[i % 2], x", r"without order", ""),
    (
        "pingpong",
        "__bang_active_relu(res[i % 2], buf[i % 2], T)",
        "__bang_active_relu(res[i % 2], buf[i % 2] + 1, T)",
        r"outside the array buf|without order",
        "__bang_active_relu",
    ),
    (
        "pingpong",
        "sizeof(float), NRAM2GDRAM);\n    __sync_io();",
        "sizeof(float), NRAM2GDRAM);",
        r"(?s)without order.*__sync_io",
        "",
    ),
    ("pingpong", "y + (first + i) * T", "y + i * T", r"write after write without order", "NRAM2GDRAM"),
    (
        "pingpong",
        "__nram__ float res[2][T];",
        "__nram__ float res[2][T - 8];",
        r"outside the array res: __bang_active_relu",
        "__bang_active_relu",
    ),
    (
        "pingpong",
        "  __sync_io();\n  for",
        "  for",
        r"(?s)read after write without order.*__sync_io",
        "__bang_active_relu",
    ),
    (
        "gather",
        "    __sync_io();\n",
        "",
        r"(?s)read after write without order.*__sync_io",
        "__bang_mul_scalar",
    ),
    (
        "gather",
        "__memcpy(idx, index + at, m * sizeof(int), GDRAM2NRAM);",
        "__memcpy(idx, index + at, m, GDRAM2NRAM);",
        r"uninitialised bytes reach an address",
        "table + idx[j]",
    ),
    (
        "gather",
        "__nram__ float rows[8 * C];",
        "__nram__ float rows[7 * C];",
        r"outside the array rows",
        "rows",
    ),
    (
        "gather",
        "idx[j] * C, C * sizeof(float)",
        "idx[j] * C * C, C * sizeof(float)",
        r"allocated block",
        "table + idx[j]",
    ),
    (
        "gather",
        "__memcpy(y + at * C, rows",
        "__memcpy(y + at, rows",
        r"write after write without order",
        "NRAM2GDRAM",
    ),
    (
        "tiles",
        "__bang_transpose(out, in, H, W)",
        "__bang_transpose(in, in, H, W)",
        r"dst and src are one place; it does not work in place",
        "__bang_transpose",
    ),
    (
        "tiles",
        "__bang_transpose(out, in, H, W)",
        "__bang_transpose(in + 16, in, H, W - 1)",
        r"source and result overlap",
        "__bang_transpose",
    ),
    ("tiles", "ld * sizeof(float), H - 1)", "ld * sizeof(float), H)", r"outside the array in", "__memcpy(in"),
    (
        "tiles",
        "ld * sizeof(float), H - 1)",
        "ld * sizeof(float), H - 2)",
        r"uninitialised bytes reach DRAM",
        "NRAM2GDRAM",
    ),
    (
        "tiles",
        "int column = taskId * W;",
        "int column = taskId;",
        r"write after write without order",
        "NRAM2GDRAM",
    ),
    (
        "tiles",
        "GDRAM2NRAM, W * sizeof(float), ld",
        "GDRAM2NRAM, W, ld",
        r"uninitialised bytes reach DRAM|overlap",
        "",
    ),
]
