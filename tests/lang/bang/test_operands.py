"""Operands at their edges: 48-bit registers with the top bit set, and vectors read at an index of run time."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

pytestmark = [needs_clang, pytest.mark.parametrize("level", LEVELS)]

WIDE = """
#include <bang.h>
__mlu_global__ void wide(unsigned x, int s, unsigned long long *y) {
  unsigned long long a = 0, b = 0, c = 0;
  long long d = 0, e = 0;
  __asm__ volatile("add.gpr.u48 %0, %1, 1;" : "=&r"(a) : "r"(x));
  __asm__ volatile("sll.gpr.u48 %0, %1, 4;" : "=&r"(b) : "r"(x));
  __asm__ volatile("div.gpr.u64 %0, %1, 3;" : "=&r"(c) : "r"(x));
  __asm__ volatile("add.gpr.s48 %0, %1, 1;" : "=&r"(d) : "r"(s));
  __asm__ volatile("div.gpr.s64 %0, %1, 3;" : "=&r"(e) : "r"(s));
  y[0] = a; y[1] = b; y[2] = c; y[3] = (unsigned long long)d; y[4] = (unsigned long long)e;
}
"""


@pytest.mark.parametrize("x", [0x80000000, 0xFFFFFFFF, 0x7FFFFFFF, 5])
def test_unsigned_operands_are_widened_with_zeros(level: int, x: int, tmp_path: Path) -> None:
    signed = x - (1 << 32) if x >> 31 else x
    out = np.zeros(5, np.uint64)
    got = run(written(WIDE, tmp_path), "wide", [np.uint32(x), np.int32(signed), out], level=level)[-1]
    whole = [x + 1, x << 4, x // 3, signed + 1, int(signed / 3)]
    assert got.tolist() == [v & ((1 << 64) - 1) for v in whole]


LOADED = """
#include <bang.h>
__mlu_global__ void loaded(const unsigned *m, const int *zero, unsigned long long *y) {
  unsigned x = m[0], made = m[0] + (unsigned)zero[0];
  unsigned short half = ((const unsigned short *)m)[1];
  int s = ((const int *)m)[0];
  unsigned long long a = 0, b = 0, c = 0, d = 0, e = 0, g = 0;
  __asm__ volatile("add.gpr.u48 %0, %1, 1;" : "=&r"(a) : "r"(x));
  __asm__ volatile("add.gpr.u64 %0, %1, 1;" : "=&r"(b) : "r"(made));
  __asm__ volatile("div.gpr.u48 %0, %1, 3;" : "=&r"(c) : "r"(made));
  __asm__ volatile("add.gpr.u48 %0, %1, 1;" : "=&r"(d) : "r"((unsigned)half));
  __asm__ volatile("add.gpr.s48 %0, %1, 1;" : "=&r"(e) : "r"(s));
  __asm__ volatile("div.gpr.s64 %0, %1, 3;" : "=&r"(g) : "r"(s));
  y[0] = a; y[1] = b; y[2] = c; y[3] = d; y[4] = e; y[5] = g;
}
"""


@pytest.mark.parametrize("x", [0x80000000, 0xFFFFFFFF, 0x7FFFFFFF, 0x12348765])
def test_operands_that_were_loaded_or_made_are_widened_the_same(level: int, x: int, tmp_path: Path) -> None:
    """In registers they are signed, unlike an argument that came in unsigned."""
    signed = x - (1 << 32) if x >> 31 else x
    words = [np.asarray([x], np.uint32), np.zeros(1, np.int32), np.zeros(6, np.uint64)]
    got = run(written(LOADED, tmp_path), "loaded", words, level=level)[-1]
    whole = [x + 1, x + 1, x // 3, (x >> 16) + 1, signed + 1, int(signed / 3)]
    assert got.tolist() == [v & ((1 << 64) - 1) for v in whole]


LANES = """
#include <bang.h>
typedef int int4v __attribute__((ext_vector_type(4)));
typedef float float8v __attribute__((ext_vector_type(8)));
__mlu_global__ void lanes(const int *at, int *y, float *z) {
  int4v v = {11, 22, 33, 44};
  float8v w = {0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f, 6.5f, 7.5f};
  for (int i = 0; i < 4; i++) y[i] = v[at[i]];
  for (int i = 0; i < 8; i++) z[i] = w[at[4 + i]];
  v[at[3]] = 99;
  for (int i = 0; i < 4; i++) y[4 + i] = v[i];
}
"""


def test_vectors_are_read_and_written_at_every_index(level: int, tmp_path: Path) -> None:
    at = np.asarray([2, 0, 1, 3, 7, 6, 0, 5, 4, 1, 3, 2], np.int32)
    y, z = run(
        written(LANES, tmp_path), "lanes", [at, np.zeros(8, np.int32), np.zeros(8, np.float32)], level=level
    )[-2:]
    assert y.tolist() == [33, 11, 22, 44, 11, 22, 33, 99]
    assert z.tolist() == [n + 0.5 for n in at[4:]]
