"""Hyperbolic functions of single numbers, beside NumPy's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from bang_harness import needs_clang, run, written

pytestmark = needs_clang

SOURCE = """
#include <bang.h>
#include <cmath>
__mlu_entry__ void curves(float *out, const float *x, int n) {
  for (int i = 0; i < n; ++i) {
    out[i] = sinhf(x[i]);
    out[n + i] = coshf(x[i]);
    out[2 * n + i] = tanhf(x[i]);
  }
}
"""


def test_sinh_cosh_and_tanh(tmp_path: Path) -> None:
    x = np.float32([0.0, -0.0, 1e-4, -3e-3, 0.5, -2.0, 7.5])
    out = np.zeros(3 * x.size, np.float32)
    (found, *_) = run(written(SOURCE, tmp_path), "curves", [out, x, x.size])
    wide = x.astype(np.float64)
    wanted = np.concatenate([np.sinh(wide), np.cosh(wide), np.tanh(wide)])
    np.testing.assert_allclose(found, wanted, rtol=3e-7, atol=0)
