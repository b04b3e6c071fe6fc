"""What sources for the 2xx parts and for the newest one ask of their machine."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

pytestmark = needs_clang

# Sign by a product with a mask of ones, magnitude by the exponent of 2^23: no conversion of integers is needed.
BY_BITS = """
#include <bang.h>
#define LINE 32
__nram__ int v[256];
__nram__ float f[256], minus[256], line[LINE];
__mlu_func__ void fillLine(unsigned bits) { __bang_write_value((unsigned *)line, LINE, bits); }
__mlu_func__ void mask(char *d, const char *s, int n) { __bang_cycle_band(d, s, (char *)line, n * 4, LINE * 4); }
__mlu_func__ void join(char *d, const char *s, int n) { __bang_cycle_bor(d, s, (char *)line, n * 4, LINE * 4); }
__mlu_global__ void by_bits(const int *x, float *y, int n) {
  __memcpy(v, x, n * sizeof(int), GDRAM2NRAM);
  fillLine(0x80000000u); mask((char *)minus, (char *)v, n);
  fillLine(1u); join((char *)minus, (char *)minus, n);
  fillLine(0x80000001u); __bang_cycle_eq(minus, minus, line, n, LINE);
  fillLine(0xffffffffu); __bang_cycle_mul(f, minus, line, n, LINE);
  __bang_bxor((char *)f, (char *)v, (char *)f, n * 4);
  fillLine(0x7fffffu); mask((char *)f, (char *)f, n);
  fillLine(0x4b000000u); join((char *)f, (char *)f, n);
  __bang_sub_scalar(f, f, 8388608.0f, n);
  __bang_add(f, f, minus, n);
  fillLine(0xffffffffu); __bang_cycle_mul(minus, minus, line, n, LINE);
  fillLine(1u); __bang_cycle_add(minus, minus, line, n, LINE);
  fillLine(0x80000000u); mask((char *)minus, (char *)minus, n);
  __bang_bor((char *)f, (char *)f, (char *)minus, n * 4);
  __memcpy(y, f, n * sizeof(float), NRAM2GDRAM);
}
"""


@pytest.mark.parametrize("machine", ["mlu270", "mlu290"])
@pytest.mark.parametrize("level", LEVELS)
def test_integers_become_floats_by_their_bits(
    machine: str, level: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    x = rng.integers(-(2**22), 2**22, 256).astype(np.int32)
    x[:4] = [0, -1, 1, -(2**22)]
    source = written(BY_BITS, tmp_path)
    got = run(source, "by_bits", [x, np.zeros(256, np.float32), 256], machine=machine, level=level)[1]
    np.testing.assert_array_equal(got, x.astype(np.float32))


PART = """
#include <bang.h>
#if __BANG_ARCH__ >= 592
#define STEP 2
#else
#define STEP 1
#endif
__mlu_global__ void part(int *y) { y[0] = __BANG_ARCH__; y[1] = STEP; y[2] = __MLU_NRAM_SIZE__; y[3] = clusterDim; }
"""


@pytest.mark.parametrize(("machine", "want"), [("mlu590", [592, 2, 512, 2]), ("mlu370-x4", [372, 1, 768, 2])])
def test_a_source_knows_its_part(machine: str, want: list[int], tmp_path: Path) -> None:
    (got,) = run(
        written(PART, tmp_path), "part", [np.zeros(4, np.int32)], (8, 1, 1), "union2", machine=machine
    )
    assert got.tolist() == want
