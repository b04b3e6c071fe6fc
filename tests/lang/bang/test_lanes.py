"""Filters that a source deals to the 64 lanes of WRAM itself: by one copy, by one a row, several matrices beside each
other, for products and convolutions."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

pytestmark = [needs_clang, pytest.mark.parametrize("level", LEVELS)]

HEAD = """
#include <bang.h>
#define LANES 64
#define LANE (__MLU_WRAM_SIZE__ * 1024 / LANES)
__wram__ int8_t wram[__MLU_WRAM_SIZE__ * 1024];
__nram__ float a[16 * 256], c[16 * 512], d[16 * 512], nb[512 * 64];
// row r is slot r / 64 of lane r % 64; `offset` counts in the bytes of one lane
__mlu_func__ void row_by_row(int offset, const float *src, int n, int k) {
  for (int s = 0; s < n / LANES; s++)
    __memcpy_async(wram + offset + s * k * sizeof(float), src + s * LANES * k, k * sizeof(float), NRAM2WRAM, LANE, k * sizeof(float), LANES - 1);
  __sync();
}
__mlu_func__ void at_once(int offset, const float *src, int n, int k) {
  __memcpy(wram + offset, src, k * sizeof(float), NRAM2WRAM, LANE, LANES - 1, k * sizeof(float), n / LANES - 1,
           k * sizeof(float), LANES - 1, LANES * k * sizeof(float), n / LANES - 1);
}
"""
PRODUCTS = (
    HEAD
    + """
__mlu_global__ void twice(const float *x, const float *w, const float *v, float *y, float *z, int m, int k, int n) {
  __memcpy(a, x, m * k * sizeof(float), GDRAM2NRAM);
  __memcpy(nb, w, n * k * sizeof(float), GDRAM2NRAM);
  DEAL(0, nb, n, k);
  __memcpy(nb, v, n * k * sizeof(float), GDRAM2NRAM);
  const int behind = n / LANES * k * sizeof(float);
  DEAL(behind, nb, n, k);
  __bang_matmul(c, a, (float *)wram, m, k, n);
  __bang_matmul(d, a, (float *)(wram + behind), m, k, n);
  __memcpy(y, c, m * n * sizeof(float), NRAM2GDRAM);
  __memcpy(z, d, m * n * sizeof(float), NRAM2GDRAM);
}
"""
)


@pytest.mark.parametrize("deal", ["row_by_row", "at_once"])
@pytest.mark.parametrize("n", [64, 256])
def test_two_matrices_beside_each_other(
    deal: str, n: int, level: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    m, k = 5, 48
    x, w, v = (rng.standard_normal((rows, k)).astype(np.float32) for rows in (m, n, n))
    source = written(PRODUCTS.replace("DEAL", deal), tmp_path)
    args = [x, w, v, np.zeros((m, n), np.float32), np.zeros((m, n), np.float32), m, k, n]
    *_, y, z = run(source, "twice", args, level=level)
    np.testing.assert_allclose(y, x.astype(np.float64) @ w.T.astype(np.float64), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(z, x.astype(np.float64) @ v.T.astype(np.float64), rtol=1e-4, atol=1e-5)


CONVOLUTION = (
    HEAD
    + """
__mlu_global__ void windows(const float *x, const float *w, float *y, const float *v, float *z, int ci, int co) {
  __memcpy(a, x, 4 * 5 * ci * sizeof(float), GDRAM2NRAM);
  __memcpy(nb, w, co * 4 * ci * sizeof(float), GDRAM2NRAM);
  row_by_row(0, nb, co, 4 * ci);
  __bang_conv(c, a, (float *)wram, ci, 4, 5, 2, 2, 1, 1, co);
  __memcpy(y, c, 3 * 4 * co * sizeof(float), NRAM2GDRAM);
  // a plain copy of what reshape_filter dealt follows: rows lie as it left them
  __memcpy(nb, v, co * ci * sizeof(float), GDRAM2NRAM);
  __bang_reshape_filter(d, nb, co, 1, 1, ci);
  __memcpy(wram, d, co * ci * sizeof(float), NRAM2WRAM);
  __bang_mlp(c, a, (float *)wram, co, ci);
  __memcpy(z, c, co * sizeof(float), NRAM2GDRAM);
}
"""
)


def test_a_convolution_and_a_plain_copy_behind_it(
    level: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    ci, co = 32, 128
    x, w = (
        rng.standard_normal((4, 5, ci)).astype(np.float32),
        rng.standard_normal((co, 2, 2, ci)).astype(np.float32),
    )
    v = rng.standard_normal((co, ci)).astype(np.float32)
    args = [x, w, np.zeros((3, 4, co), np.float32), v, np.zeros(co, np.float32), ci, co]
    _, _, y, _, z = run(written(CONVOLUTION, tmp_path), "windows", args, level=level)
    patches = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (2, 2), (0, 1))
    np.testing.assert_allclose(
        y, np.einsum("pqcrs,orsc->pqo", patches, w.astype(np.float64)), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(z, v.astype(np.float64) @ x[0, 0].astype(np.float64), rtol=1e-4, atol=1e-5)
