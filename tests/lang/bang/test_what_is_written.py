"""Exactly the bytes that an intrinsic writes, at zero, one, odd and full counts; order and barriers as real code uses
them."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

from trilobite.processor.tools.findings import CheckFailed

pytestmark = needs_clang

FILTER = """#include <bang.h>
__mlu_global__ void kept(float *y, int *count, const float *x, const float *m, int n, int in_place) {
  __nram__ float a[256], b[256], c[256];
  __memcpy(a, x, 256 * 4, GDRAM2NRAM);
  __memcpy(b, m, 256 * 4, GDRAM2NRAM);
  __bang_write_value(c, 256, -7.0f);
  float *to = in_place ? a : c;
  count[0] = __bang_filter(to, a, b, n);
  __memcpy(y, to, 256 * 4, NRAM2GDRAM);
}
"""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("in_place", [0, 1])
@pytest.mark.parametrize(("n", "share"), [(1, 0.0), (1, 1.0), (77, 0.4), (256, 0.5), (256, 1.0), (128, 0.0)])
def test_a_filter_leaves_alone_what_lies_behind_its_count(
    n: int, share: float, in_place: int, level: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    x = rng.standard_normal(256).astype(np.float32)
    mask = (rng.random(256) < share).astype(np.float32)
    args = [np.zeros(256, np.float32), np.zeros(1, np.int32), x, mask, n, in_place]
    y, count, _, _ = run(written(FILTER, tmp_path), "kept", args, level=level)
    kept = x[:n][mask[:n] != 0]
    want = x.copy() if in_place else np.full(256, -7, np.float32)
    want[: kept.size] = kept
    assert count[0] == kept.size
    np.testing.assert_array_equal(y, want)


LOOKUP = """#include <bang.h>
__mlu_global__ void look(float *y, const unsigned *index, const float *table) {
  __nram__ float t[64], d[64];
  __nram__ unsigned i[64];
  __memcpy(t, table, 64 * 4, GDRAM2NRAM);
  __memcpy(i, index, 64 * 4, GDRAM2NRAM);
  __bang_lut(d, i, t, 64, 64);
  __memcpy(y, d, 64 * 4, NRAM2GDRAM);
}
"""


def test_an_index_outside_a_table_gives_nothing(tmp_path: Path, rng: np.random.Generator) -> None:
    table = rng.standard_normal(64).astype(np.float32)
    index = rng.integers(0, 64, 64).astype(np.int32)
    index[[3, 40, 63]] = [-1, 64, 1 << 20]
    y, _, _ = run(written(LOOKUP, tmp_path), "look", [np.zeros(64, np.float32), index, table])
    inside = (index >= 0) & (index < 64)
    np.testing.assert_array_equal(y, np.where(inside, table[index % 64], 0))


NEAR = """#include <bang.h>
__mlu_global__ void covered(float *y, const float *x, int n) {
  __nram__ float a[256], b[256];
  __memcpy_async(a, x, n * 4, GDRAM2NRAM);
  __sync_io();
  __memcpy_async(b, a, n * 4, NRAM2NRAM);
  __sync_compute();
  __bang_add(b, b, a, n);
  __memcpy_async(a, b, n * 4, NRAM2NRAM);
  __bang_add(b, b, a, n);
  __memcpy_async(a, b, n * 4, NRAM2NRAM, 0, 0, 0);
  __sync_compute();
  __memcpy_async(y, a, n * 4, NRAM2GDRAM);
  __sync_io();
}
__mlu_global__ void forgotten(float *y, const float *x, int n) {
  __nram__ float a[256], b[256];
  __memcpy(a, x, n * 4, GDRAM2NRAM);
  __memcpy_async(b, a, n * 4, NRAM2NRAM);
  __memcpy_async(y, b, n * 4, NRAM2GDRAM);
  __sync();
}
"""


@pytest.mark.parametrize("level", LEVELS)
def test_copies_within_nram_are_ordered_with_compute(level: int, tmp_path: Path) -> None:
    x = np.linspace(-3, 5, 100, dtype=np.float32)
    source = written(NEAR, tmp_path)
    y, _ = run(source, "covered", [np.zeros(100, np.float32), x, 100], level=level)
    np.testing.assert_array_equal(y, 4 * x)
    with pytest.raises(CheckFailed, match="read after write"):
        run(source, "forgotten", [np.zeros(100, np.float32), x, 100], level=level)


BARRIERS = """#include <bang.h>
__mlu_shared__ float s[256];
__mlu_global__ void meet(float *y, const float *x, int n) {
  __nram__ float a[256];
  if (__is_mpu()) __memcpy(s, x, n * 4, GDRAM2SRAM);
  __sync_cluster();
  if (__is_ipu()) { __memcpy(a, s, n * 4, SRAM2NRAM); __bang_add(a, a, a, n); }
  __sync_all_ipu();
  __sync_all_ipu_within_cluster();
  __sync_all_mpu();
  if (__is_ipu() && coreId == 0) __memcpy(y + clusterId * n, a, n * 4, NRAM2GDRAM);
  __sync_all();
}
"""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("clusters", [1, 2])
def test_barriers_of_one_kind_of_core_let_the_other_pass(clusters: int, level: int, tmp_path: Path) -> None:
    x = np.linspace(-3, 5, 100, dtype=np.float32)
    args = [np.zeros(100 * clusters, np.float32), x, 100]
    y, _ = run(
        written(BARRIERS, tmp_path), "meet", args, (4 * clusters, 1, 1), f"union{clusters}", level=level
    )
    np.testing.assert_array_equal(y, np.tile(2 * x, clusters))
