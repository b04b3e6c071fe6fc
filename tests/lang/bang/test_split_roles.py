"""Kernels whose memory core and compute cores have paths of their own: values that only one of them has."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

pytestmark = needs_clang

SELECTED = """
#include <bang.h>
#include <algorithm>
#define SEGMENT 256
__nram__ float near[SEGMENT * 3];
__mlu_shared__ float shared[2][SEGMENT * 4];
__mlu_func__ int above(float *to, const float *from, float *mask, int n, float limit) {
  __bang_gt_scalar(mask, from, limit, n);
  int counted = __bang_count(mask, n);
  int kept = __bang_filter(to, from, mask, n);
  return kept == counted ? kept : -1;
}
__mlu_global__ void selected(float *out, int *counts, const float *x, int n, float limit) {
  const bool is_memory = __is_mpu();
  const int deal = SEGMENT * coreDim, rounds = (n + deal - 1) / deal;
  int total = 0, kept = 0;
  for (int r = 0; r <= rounds; ++r) {
    if (is_memory) {
      if (r < rounds) {
        __memcpy_async(shared[r & 1], x + r * deal, std::min(deal, n - r * deal) * sizeof(float), GDRAM2SRAM);
        __sync_io();
      }
    } else if (r > 0) {
      int behind = coreId * SEGMENT, mine = std::max(0, std::min(SEGMENT, n - (r - 1) * deal - behind));
      if (mine > 0) {
        __memcpy(near, shared[(r - 1) & 1] + behind, mine * sizeof(float), SRAM2NRAM);
        kept = above(near + SEGMENT, near, near + 2 * SEGMENT, mine, limit);
        if (kept > 0) __memcpy(out + (r - 1) * deal + behind, near + SEGMENT, kept * sizeof(float), NRAM2GDRAM);
        total += kept;
      }
    }
    __sync_cluster();
  }
  if (!is_memory) counts[taskId] = total;
}
"""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("machine", ["mlu370-x4", "mlu590"])
def test_results_of_intrinsics_behind_a_question_for_the_core(
    level: int, machine: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    x = rng.standard_normal(1500).astype(np.float32)
    args = [np.zeros(1500, np.float32), np.zeros(4, np.int32), x, 1500, 0.5]
    out, counts, _ = run(written(SELECTED, tmp_path), "selected", args, (4, 1, 1), "union1", machine, level)
    want, numbers = np.zeros(1500, np.float32), np.zeros(4, np.int32)
    for place in range(0, 1500, 256):
        kept = x[place : place + 256][x[place : place + 256] > 0.5]
        want[place : place + kept.size] = kept
        numbers[place // 256 % 4] += kept.size
    np.testing.assert_array_equal(counts, numbers)
    np.testing.assert_array_equal(out, want)
