"""A corpus of sources in the ways operator libraries write them: every operation in every style.

A style is a way to organise a kernel (tiles, padded vectors carved out of one buffer, pipelines, functors behind host
launchers, split roles, modes of absent headers, staging inside NRAM); an operation is what it computes, with NumPy's
meaning. `sources()` gives all of them, `MISTAKES` what can go wrong in a style and how the checkers call it.
"""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Meaning = Callable[[Any, Any], Any]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


# On a (in and out), b (second input) and t (scratch), n elements of T.
OPERATIONS: dict[str, tuple[str, Meaning]] = {
    "neg": ("__bang_neg(a, a, n);", lambda a, b: -a),
    "abs": ("__bang_abs(a, a, n);", lambda a, b: abs(a)),
    "relu": ("__bang_relu(a, a, n);", lambda a, b: np.maximum(a, 0)),
    "square": ("__bang_square(a, a, n);", lambda a, b: a * a),
    "exp": ("__bang_active_exp(a, a, n);", lambda a, b: np.exp(a)),
    "log": ("__bang_abs(a, a, n); __bang_add_scalar(a, a, (T)0.5f, n); __bang_active_log(a, a, n);", lambda a, b: np.log(abs(a) + 0.5)),
    "sqrt": ("__bang_abs(a, a, n); __bang_active_sqrt(a, a, n);", lambda a, b: np.sqrt(abs(a))),
    "recip": ("__bang_square(a, a, n); __bang_add_scalar(a, a, (T)1.0f, n); __bang_active_reciphp(a, a, n);", lambda a, b: 1 / (a * a + 1)),
    "sigmoid": ("__bang_active_sigmoid(a, a, n);", lambda a, b: _sigmoid(a)),
    "tanh": ("__bang_active_tanh(a, a, n);", lambda a, b: np.tanh(a)),
    "sin": ("__bang_sin(a, a, n);", lambda a, b: np.sin(a)),
    "cos": ("__bang_cos(a, a, n);", lambda a, b: np.cos(a)),
    "floor": ("__bang_floor(a, a, n);", lambda a, b: np.floor(a)),
    "sign": ("__bang_sign(a, a, n);", lambda a, b: np.sign(a)),
    "step": ("__bang_gt_scalar(a, a, (T)0.25f, n);", lambda a, b: (a > 0.25) * 1.0),
    "clamp": ("__bang_maximum_scalar(a, a, (T)-0.5f, n); __bang_minimum_scalar(a, a, (T)0.75f, n);", lambda a, b: np.clip(a, -0.5, 0.75)),
    "affine": ("__bang_mul_scalar(a, a, (T)1.5f, n); __bang_add_scalar(a, a, (T)-0.25f, n);", lambda a, b: a * 1.5 - 0.25),
    "leaky": ("__bang_mul_scalar(t, a, (T)0.125f, n); __bang_maxequal(a, a, t, n);", lambda a, b: np.maximum(a, a * 0.125)),
    "swish": ("__bang_active_sigmoid(t, a, n); __bang_mul(a, a, t, n);", lambda a, b: a * _sigmoid(a)),
    "cube": ("__bang_mul(t, a, a, n); __bang_mul(a, a, t, n);", lambda a, b: a**3),
    "add": ("__bang_add(a, a, b, n);", lambda a, b: a + b),
    "sub": ("__bang_sub(a, a, b, n);", lambda a, b: a - b),
    "mul": ("__bang_mul(a, a, b, n);", lambda a, b: a * b),
    "div": ("__bang_abs(b, b, n); __bang_add_scalar(b, b, (T)1.0f, n); __bang_div(a, a, b, n);", lambda a, b: a / (abs(b) + 1)),
    "maximum": ("__bang_maxequal(a, a, b, n);", lambda a, b: np.maximum(a, b)),
    "minimum": ("__bang_minequal(a, a, b, n);", lambda a, b: np.minimum(a, b)),
    "distance": ("__bang_mul(t, b, b, n); __bang_mul(a, a, a, n); __bang_add(a, a, t, n); __bang_active_sqrt(a, a, n);", lambda a, b: np.sqrt(a * a + b * b)),
    "loss": ("__bang_sub(t, a, b, n); __bang_mul(a, t, t, n);", lambda a, b: (a - b) ** 2),
    "gate": ("__bang_active_sigmoid(t, b, n); __bang_mul(a, a, t, n);", lambda a, b: a * _sigmoid(b)),
    "less": ("__bang_lt(a, a, b, n);", lambda a, b: (a < b) * 1.0),
    "fused": ("__bang_fusion(FUSION_FMA, a, a, b, t, n);", lambda a, b: a * b + 0.5),
    "chosen": ("__bang_gt(t, a, b, n); __bang_mul(a, a, t, n); __bang_not(t, t, n); __bang_mul(b, b, t, n); __bang_add(a, a, b, n);", lambda a, b: np.where(a > b, a, b)),
}  # fmt: skip

_COMPUTE = """template <typename T> __mlu_func__ void compute(T *a, T *b, T *t, int n) {
  __bang_write_value(t, n, (T)0.5f);
  OPERATION
}
"""
TILES = """#include <bang.h>
#define TILE 128
COMPUTE
__mlu_entry__ void op(float *y, const float *x, const float *z, int n) {
  __nram__ float a[TILE];
  __nram__ float b[TILE];
  __nram__ float t[TILE];
  int tiles = (n + TILE - 1) / TILE;
  for (int i = taskId; i < tiles; i += taskDim) {
    int count = n - i * TILE < TILE ? n - i * TILE : TILE;
    __memcpy(a, x + i * TILE, count * sizeof(float), GDRAM2NRAM);
    __memcpy(b, z + i * TILE, count * sizeof(float), GDRAM2NRAM);
    compute(a, b, t, count);
    __memcpy(y + i * TILE, a, count * sizeof(float), NRAM2GDRAM);
  }
}
"""
PADDED = """#include "kernel.h"
#include <algorithm>
#include "float.h"
#include <vector>
__nram__ int8_t nram_buffer[MAX_NRAM_SIZE];
COMPUTE
template <typename T> __mlu_global__ void op(T *y, const T *x, const T *z, int n) {
  const int span = PAD_DOWN((int)(MAX_NRAM_SIZE / 3 / sizeof(T)), NFU_ALIGN_SIZE);
  T *a = (T *)nram_buffer, *b = a + span, *t = b + span;
  const int per = n / taskDim, rest = n % taskDim;
  const int mine = per + (taskId < rest), first = taskId * per + std::min((int)taskId, rest);
  if (mine <= 0) return;
  const int padded = PAD_UP(mine, NFU_ALIGN_SIZE / sizeof(T));
  __bang_write_zero(a, padded);
  __bang_write_zero(b, padded);
  __memcpy(a, x + first, mine * sizeof(T), GDRAM2NRAM);
  __memcpy(b, z + first, mine * sizeof(T), GDRAM2NRAM);
  compute(a, b, t, padded);
  __memcpy(y + first, a, mine * sizeof(T), NRAM2GDRAM);
}
libStatus_t LIB_WIN_API libOp(libHandle_t handle, const libTensor_t xd, const void *x, const void *z, void *y) {
  std::vector<int> dims(xd->dim);
  LIB_CHECK(handle != NULL);
  cnrtDim3_t dim; cnrtFunctionType_t kind; policy(handle, &dim, &kind);
  KERNEL_CHECK((op<float><<<dim, kind, handle->queue>>>((float *)y, (float *)x, (float *)z, xd->n)));
  return LIB_STATUS_SUCCESS;
}
"""
KERNEL_H = """#pragma once
#include <mlu.h>
#include "core/absent_context.h"
#define NFU_ALIGN_SIZE 128
#define REM_FOR_STACK (128 * 1024)
#define MAX_NRAM_SIZE (__MLU_NRAM_SIZE__ * 1024 - REM_FOR_STACK)
#define PAD_UP(x, y) (((x) / (y) + (int)((x) % (y) > 0)) * (y))
#define PAD_DOWN(x, y) (((x) / (y)) * (y))
#define sizeof(T) (uint32_t(sizeof(T)))
"""
PIPELINE = """#include <bang.h>
#define DEAL 96
COMPUTE
__nram__ float pool[6 * DEAL];
__mlu_func__ void load(int slot, const float *x, const float *z, int first, int count) {
  __memcpy_async(pool + slot * 2 * DEAL, x + first, count * sizeof(float), GDRAM2NRAM);
  __memcpy_async(pool + slot * 2 * DEAL + DEAL, z + first, count * sizeof(float), GDRAM2NRAM);
}
__mlu_func__ void store(int slot, float *y, int first, int count) {
  __memcpy_async(y + first, pool + slot * 2 * DEAL, count * sizeof(float), NRAM2GDRAM);
}
__mlu_global__ void op(float *y, const float *x, const float *z, int n) {
  int tiles = (n + DEAL - 1) / DEAL, mine = (tiles - taskId + taskDim - 1) / taskDim;
  auto first = [&](int i) { return (i * taskDim + taskId) * DEAL; };
  auto count = [&](int i) { return n - first(i) < DEAL ? n - first(i) : DEAL; };
  for (int i = 0; i < mine + 2; ++i) {
    if (i >= 2) store(i % 2, y, first(i - 2), count(i - 2));
    __sync_io();
    if (i < mine) load(i % 2, x, z, first(i), count(i));
    if (i >= 1 && i <= mine) {
      float *at = pool + (i - 1) % 2 * 2 * DEAL;
      compute(at, at + DEAL, pool + 4 * DEAL, count(i - 1));
    }
    __sync();
  }
}
"""
FUNCTOR_H = """#pragma once
#include <bang.h>
namespace lib {
template <typename T, typename Op, int kTile> __mlu_func__ void each_tile(T *y, const T *x, const T *z, int n) {
  __nram__ T near[3][kTile];
  for (int first = taskId * kTile; first < n; first += taskDim * kTile) {
    const int count = n - first < kTile ? n - first : kTile;
    __memcpy(near[0], x + first, count * sizeof(T), GDRAM2NRAM);
    __memcpy(near[1], z + first, count * sizeof(T), GDRAM2NRAM);
    Op::apply(near[0], near[1], near[2], count);
    __memcpy(y + first, near[0], count * sizeof(T), NRAM2GDRAM);
  }
}
}
"""
FUNCTOR = """#include "functor.h"
namespace lib {
COMPUTE
struct Op { template <typename T> static __mlu_func__ void apply(T *a, T *b, T *t, int n) { compute(a, b, t, n); } };
template <typename T, typename F> __mlu_global__ void op(T *y, const T *x, const T *z, int n) {
  if (__is_mpu()) return;
  each_tile<T, F, 160>(y, x, z, n);
}
template __mlu_global__ void op<float, Op>(float *, const float *, const float *, int);
}
"""
ROLES = """#include <bang.h>
#define PART 64
COMPUTE
__mlu_shared__ float in_shared[2][2][4 * PART];
__mlu_shared__ float out_shared[2][4 * PART];
__mlu_func__ bool is_memory_core() { return coreId == 0x80; }
__mlu_global__ void op(float *y, const float *x, const float *z, int n) {
  __nram__ float a[PART], b[PART], t[PART];
  const int deal = 4 * PART, loops = (n + deal * clusterDim - 1) / (deal * clusterDim);
  for (int i = 0; i < loops + 2; ++i) {
    auto first = [&](int k) { return (k * clusterDim + clusterId) * deal; };
    auto count = [&](int k) { int left = n - first(k); return left < 0 ? 0 : left < deal ? left : deal; };
    if (is_memory_core()) {
      if (i < loops && count(i) > 0) {
        __memcpy_async(in_shared[i % 2][0], x + first(i), count(i) * sizeof(float), GDRAM2SRAM);
        __memcpy_async(in_shared[i % 2][1], z + first(i), count(i) * sizeof(float), GDRAM2SRAM);
      }
      if (i >= 2 && count(i - 2) > 0)
        __memcpy_async(y + first(i - 2), out_shared[i % 2], count(i - 2) * sizeof(float), SRAM2GDRAM);
      __sync();
    } else if (i >= 1 && i <= loops) {
      const int k = (i - 1) % 2, left = count(i - 1) - coreId * PART, mine = left < 0 ? 0 : left < PART ? left : PART;
      if (mine > 0) {
        __memcpy(a, in_shared[k][0] + coreId * PART, mine * sizeof(float), SRAM2NRAM);
        __memcpy(b, in_shared[k][1] + coreId * PART, mine * sizeof(float), SRAM2NRAM);
        compute(a, b, t, mine);
        __memcpy(out_shared[k] + coreId * PART, a, mine * sizeof(float), NRAM2SRAM);
      }
    }
    __sync_cluster();
  }
}
"""
MODES = """#include "library_modes.h"
#include <bang.h>
struct Shape { int n, tile; float scale; };
COMPUTE
__mlu_global__ void op(float *y, const float *x, const float *z, Shape shape, const libMode_t mode) {
  __nram__ float near[4][200];
  for (int i = taskId * shape.tile; i < shape.n; i += taskDim * shape.tile) {
    int count = shape.n - i < shape.tile ? shape.n - i : shape.tile;
    __memcpy(near[0], x + i, count * sizeof(float), GDRAM2NRAM);
    __memcpy(near[1], z + i, count * sizeof(float), GDRAM2NRAM);
    switch (mode) {
      case 1: compute(near[0], near[1], near[2], count); break;
      case 2: for (int k = 0; k < count; ++k) near[0][k] = near[0][k] * shape.scale; break;
      default: __bang_write_zero(near[0], count);
    }
    __memcpy(y + i, near[0], count * sizeof(float), NRAM2GDRAM);
  }
}
"""
STAGED = """#include <bang.h>
#define ROW 48
COMPUTE
__mlu_global__ void op(float *y, const float *x, const float *z, int n) {
  __nram__ float whole[2][4 * ROW], a[4 * ROW], b[4 * ROW], t[4 * ROW];
  for (int first = taskId * 4 * ROW; first < n; first += taskDim * 4 * ROW) {
    int count = n - first < 4 * ROW ? n - first : 4 * ROW;
    __memcpy_async(whole[0], x + first, count * sizeof(float), GDRAM2NRAM);
    __memcpy_async(whole[1], z + first, count * sizeof(float), GDRAM2NRAM);
    __sync_io();
    __memcpy_async(a, whole[0], count * sizeof(float), NRAM2NRAM);
    __memcpy_async(b, whole[1], count * sizeof(float), NRAM2NRAM);
    __sync_compute();
    compute(a, b, t, count);
    __memcpy_async(whole[0], a, count * sizeof(float), NRAM2NRAM);
    __sync_compute();
    __memcpy_async(y + first, whole[0], count * sizeof(float), NRAM2GDRAM);
    __sync_io();
  }
}
"""


@dataclass(frozen=True)
class Style:
    """A way to write a kernel: its text, headers beside it, the entry, the launch, further arguments."""

    text: str
    headers: dict[str, str]
    entry: str
    dim: tuple[int, int, int]
    task: str

    def arguments(self, n: int) -> list[Any]:
        if self.text is not MODES:
            return [n]
        shape = np.zeros((), np.dtype([("n", "i4"), ("tile", "i4"), ("scale", "f4")]))
        shape["n"], shape["tile"], shape["scale"] = n, 200, 2.0
        return [shape[()], 1]


STYLES = {
    "tiles": Style(TILES, {}, "op", (2, 1, 1), "block"),
    "padded": Style(PADDED, {"kernel.h": KERNEL_H}, "op<float>", (4, 1, 1), "union1"),
    "pipeline": Style(PIPELINE, {}, "op", (4, 1, 1), "union1"),
    "functor": Style(FUNCTOR, {"functor.h": FUNCTOR_H}, "lib::op<float, lib::Op>", (4, 1, 1), "union1"),
    "roles": Style(ROLES, {}, "op", (4, 1, 1), "union1"),
    "modes": Style(MODES, {}, "op", (1, 1, 1), "block"),
    "staged": Style(STAGED, {}, "op", (2, 1, 1), "block"),
}


def sources() -> list[tuple[str, str]]:
    """Every (style, operation)."""
    return [(style, operation) for operation in OPERATIONS for style in STYLES]


def write(style: str, operation: str, folder: Path, old: str = "", new: str = "") -> Path:
    """The source with its headers in a folder; with a mistake if one is given."""
    chosen = STYLES[style]
    text = chosen.text.replace("COMPUTE", _COMPUTE.replace("OPERATION", OPERATIONS[operation][0]))
    assert not old or old in text, f"{style} has no {old!r}"
    for name, content in chosen.headers.items():
        (folder / name).write_text(content, "utf-8")
    path = folder / f"{style}_{operation}.mlu"
    path.write_text(text.replace(old, new, 1) if old else text, "utf-8")
    return path


# style, what is done instead of what, what the checkers say.
MISTAKES: list[tuple[str, str, str, str]] = [
    ("tiles", "compute(a, b, t, count);", "compute(a, b, t, TILE + 1);", r"outside the array (a|t)"),
    ("tiles", "__nram__ float b[TILE];", "__nram__ float b[TILE - 8];", r"outside the array b: __memcpy: dst"),
    ("tiles", "__memcpy(a, x + i * TILE, count * sizeof(float)", "__memcpy(a, x + i * TILE, (count - 1) * sizeof(float)", r"uninitialised bytes reach DRAM"),
    ("tiles", "__memcpy(y + i * TILE, a, count", "__memcpy(y + i * TILE, a, TILE", r"are in no allocated block|uninitialised bytes reach DRAM"),
    ("tiles", "__memcpy(b, z", "__memcpy_async(b, z", r"put __sync_io\(\) between them"),
    ("tiles", "n - i * TILE : TILE;", "n - i * TILE : TILE + 4;", r"outside the array a: __memcpy: dst touches bytes 0 to 528 of its 512"),
    ("padded", "*b = a + span, *t = b + span;", "*b = a + span, *t = a + MAX_NRAM_SIZE / 4 - 16;", r"outside the array nram_buffer"),
    ("padded", "__memcpy(y + first, a, mine", "__memcpy(y + first, a, padded", r"without order|no allocated block"),
    ("padded", "__memcpy(b, z + first, mine * sizeof(T), GDRAM2NRAM);", "__memcpy_async(b, z + first, mine * sizeof(T), GDRAM2NRAM);", r"__memcpy_async"),
    ("pipeline", "__nram__ float pool[6 * DEAL];", "__nram__ float pool[5 * DEAL - 16];", r"outside the array pool"),
    ("pipeline", "float *at = pool + (i - 1) % 2 * 2 * DEAL;", "float *at = pool + i % 2 * 2 * DEAL;", r"without order"),
    ("pipeline", "z + first, count * sizeof(float), GDRAM2NRAM);", "z + first, count * sizeof(float) + 4, GDRAM2NRAM);", r"without order|no allocated block"),
    ("functor", "each_tile<T, F, 160>", "each_tile<T, F, 0x7000000>", r"overflows"),
    ("functor", "compute(a, b, t, n);", "compute(a, b, t, n + 161);", r"outside the array near"),
    ("functor", "compute(a, b, t, n);", "compute(a - 1, b, t, n);", r"outside the array near|given where an address in nram is needed"),
    ("functor", "if (__is_mpu()) return;", "__bang_printf(taskName);", r"undeclared identifier 'taskName'"),
    ("roles", "    __sync_cluster();\n", "    __sync_all_ipu();\n", r"without order: (in_shared|out_shared|y|gdram)"),
    ("roles", "    __sync_cluster();\n", "", r"without order"),
    ("roles", "__mlu_shared__ float out_shared[2][4 * PART];", "__mlu_shared__ float out_shared[4 * PART][1];", r"error|does not compile|outside|without order"),
    ("roles", "in_shared[k][0] + coreId * PART, mine", "in_shared[1 - k][0] + coreId * PART, mine", r"without order|uninitialised"),
    ("roles", "out_shared[k] + coreId * PART, a, mine", "out_shared[k] + coreId * PART / 2, a, mine", r"without order"),
    ("roles", "mine = left < 0 ? 0 : left < PART ? left : PART;", "mine = left < 0 ? 0 : left < PART ? left : PART + 1;", r"outside the array (a|b)"),
    ("roles", "__memcpy_async(in_shared[i % 2][1], z", "__memcpy_async(in_shared[i % 2][1] + 4 * PART, z", r"outside the array in_shared|without order|uninitialised"),
    ("roles", "__memcpy(b, in_shared[k][1]", "__memcpy(b, in_shared[k][2]", r"outside the array in_shared|without order|uninitialised"),
    ("modes", "count * sizeof(float), GDRAM2NRAM);\n    __memcpy(near[1]", "(count + 1) * sizeof(float), GDRAM2NRAM);\n    __memcpy(near[1]", r"are in no allocated block|without order"),
    ("modes", "__nram__ float near[4][200];", "__nram__ float near[2][200];", r"outside the array near"),
    ("modes", "compute(near[0], near[1], near[2], count);", "compute(near[0], near[1], near[4], count);", r"outside the array near"),
    ("modes", "compute(near[0], near[1], near[2], count);", "compute(near[3] + 1, near[1], near[2], 200);", r"outside the array near"),
    ("modes", "__memcpy(near[1], z + i, count * sizeof(float), GDRAM2NRAM);", "__memcpy(near[1], z + i, count, GDRAM2NRAM);", r"uninitialised bytes reach DRAM"),
    ("modes", "__memcpy(near[0], x + i, count * sizeof(float), GDRAM2NRAM);", "__memcpy(near[0], x + i, count * sizeof(float), GDRAM2SRAM);", r"lies in nram, the direction says sram"),
    ("modes", "__memcpy(y + i, near[0]", "__memcpy(y + i, near[3]", r"uninitialised bytes reach DRAM"),
    ("modes", "__memcpy(y + i, near[0]", "__memcpy(y + i + 1, near[0]", r"are in no allocated block"),
    ("modes", "compute(near[0], near[1]", "compute(near[0], (float *)x + i", r"must lie in nram|lies in gdram|illegal|is in gdram|no nram|gdram"),
    ("staged", "    __sync_io();\n    __memcpy_async(a", "    __memcpy_async(a", r"put __sync_io\(\) between them"),
    ("staged", "    __sync_compute();\n    __memcpy_async(y", "    __memcpy_async(y", r"read after write without order: whole, bytes"),
    ("staged", "__memcpy_async(b, whole[1], count * sizeof(float), NRAM2NRAM);", "__memcpy_async(b, whole[1] + 1, count * sizeof(float), NRAM2NRAM);", r"outside the array whole|uninitialised"),
    ("staged", "__memcpy_async(a, whole[0],", "__memcpy_async(whole[0] + 3, whole[0],", r"source and result overlap"),
    ("staged", "compute(a, b, t, count);", "compute(a, b, t, count + 1);", r"outside the array|uninitialised"),
    ("staged", "__nram__ float whole[2][4 * ROW], a[4 * ROW]", "__nram__ float whole[2][4 * ROW], a[4 * ROW - 1]", r"outside the array a: __memcpy_async: dst touches bytes 0 to 768 of its 764"),
    ("tiles", "y + i * TILE, a, count", "y + i * TILE / 2, a, count", r"write after write without order"),
    ("pipeline", "    __sync_io();\n    if (i < mine) load(i % 2,", "    if (i < mine) load((i + 1) % 2,", r"without order: pool, bytes"),
    *((style, "compute(T *a, T *b, T *t, int n) {", "compute(T *a, T *b, T *t, int n) {\n  n += 4096;", r"outside the array")
      for style in ("tiles", "pipeline", "functor", "roles", "modes", "staged")),
    *((style, "__bang_write_value(t, n, (T)0.5f);", "", r"uninitialised bytes reach DRAM")
      for style in ("tiles", "padded", "pipeline", "functor", "roles", "modes", "staged")),
    ("tiles", "count * sizeof(float), NRAM2GDRAM", "count * sizeof(float), GDRAM2NRAM", r"the direction says"),
    ("modes", "count * sizeof(float), NRAM2GDRAM", "count * sizeof(float), GDRAM2NRAM", r"the direction says"),
    ("staged", "count * sizeof(float), NRAM2GDRAM", "count * sizeof(float), SRAM2GDRAM", r"the direction says"),
    ("roles", "mine * sizeof(float), NRAM2SRAM", "mine * sizeof(float), SRAM2NRAM", r"the direction says"),
    ("tiles", "    __memcpy(b, z + i * TILE, count * sizeof(float), GDRAM2NRAM);\n", "", r"uninitialised bytes reach DRAM"),
    ("modes", "    __memcpy(near[1], z + i, count * sizeof(float), GDRAM2NRAM);\n", "", r"uninitialised bytes reach DRAM"),
    ("staged", "    __memcpy_async(b, whole[1], count * sizeof(float), NRAM2NRAM);\n", "", r"uninitialised bytes reach DRAM"),
    ("roles", "        __memcpy(b, in_shared[k][1] + coreId * PART, mine * sizeof(float), SRAM2NRAM);\n", "", r"uninitialised bytes reach DRAM"),
]  # fmt: skip
