"""Elements at any byte, and the older dialect: what published samplers and image kernels rely on."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

from trilobite.base.errors import ProcessorFault
from trilobite.processor.device import Device, Module
from trilobite.processor.isa.assembler import assemble
from trilobite.processor.isa.program import link
from trilobite.processor.lang.bang.kernel import compile_bang
from trilobite.processor.lang.bang.source import Options
from trilobite.processor.tools.findings import CheckFailed

pytestmark = needs_clang

# Parts carved out of one buffer behind an odd number of halves: indices at 2 and 4 modulo 8, floats at 2 modulo 4.
CARVED = """
#include <bang.h>
__nram__ char pool[4096];
template <typename T> __mlu_global__ void ranked(const T *x, long *order, float *wide, int n, int skip) {
  T *a = (T *)pool;
  long *index = (long *)(a + n + skip);
  float *f = (float *)(index + n);
  __memcpy(a, x, n * sizeof(T), GDRAM2NRAM);
  for (int i = 0; i < n; ++i) index[i] = i;
  for (int i = 0; i < n; ++i)
    for (int j = i + 1; j < n; ++j)
      if (a[i] < a[j]) { T t = a[i]; a[i] = a[j]; a[j] = t; long k = index[i]; index[i] = index[j]; index[j] = k; }
  for (int i = 0; i < n; ++i) f[i] = (float)a[i];
  __bang_mul_scalar(f, f, 2.0f, n);
  __bang_add(f + 1, f + 1, f + 1, n - 1);
  __memcpy(order, index, n * sizeof(long), NRAM2GDRAM);
  __memcpy(wide, f, n * sizeof(float), NRAM2GDRAM);
}
template __mlu_global__ void ranked<half>(const half *, long *, float *, int, int);
template __mlu_global__ void ranked<float>(const float *, long *, float *, int, int);
template __mlu_global__ void ranked<signed char>(const signed char *, long *, float *, int, int);
"""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("machine", ["dlp-m", "mlu370-x4"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8])
def test_elements_lie_at_any_byte(level: int, machine: str, dtype: type, tmp_path: Path) -> None:
    kind = {np.float16: "half", np.float32: "float", np.int8: "signed char"}[dtype]
    for n, skip in ((7, 0), (33, 1), (41, 2)):
        x = np.random.default_rng(n).permutation(n).astype(dtype)
        given = [x, np.zeros(n, np.int64), np.zeros(n, np.float32), n, skip]
        is_even = (n + skip) * x.itemsize % 4 == 0
        for checks in (False, True) if is_even else (False,):
            _, order, wide = run(
                written(CARVED, tmp_path),
                f"ranked<{kind}>",
                given,
                machine=machine,
                level=level,
                checks=checks,
            )
            np.testing.assert_array_equal(order, np.argsort(-x.astype(np.int64)))
            np.testing.assert_array_equal(
                wide, -np.sort(-x.astype(np.float32)) * np.where(np.arange(n), 4, 2)
            )
        if (
            not is_even
        ):  # words may lie anywhere, a vector of floats at an odd half is a slip that `check` names
            with pytest.raises(
                CheckFailed,
                match=r"__bang_mul_scalar: dst lies at byte .* of pool .*multiples of the 4 bytes",
            ):
                run(written(CARVED, tmp_path), f"ranked<{kind}>", given, machine=machine, level=level)


# The place of the largest as one 64-bit word, read four bytes into the result: its upper half is nobody's.
PLACE = """
#include <bang.h>
__nram__ char pool[4096];
__mlu_global__ void largest(const float *x, long *out, int n, int clear) {
  float *a = (float *)pool, *top = a + 512;
  if (clear) __bang_write_zero(top, 16);
  __memcpy(a, x, n * sizeof(float), GDRAM2NRAM);
  __bang_argmax(top, a, n);
  out[0] = *((long *)&top[1]);
}
"""


@pytest.mark.parametrize("level", LEVELS)
def test_the_place_of_the_largest_read_as_64_bits(level: int, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal(77).astype(np.float32)
    source, given = written(PLACE, tmp_path), [x, np.zeros(1, np.int64), 77]
    for clear, checks in ((0, False), (1, False), (1, True)):
        _, out = run(source, "largest", [*given, clear], level=level, checks=checks)
        assert out[0] == x.argmax()
    with pytest.raises(CheckFailed, match="uninitialised bytes reach DRAM"):
        run(source, "largest", [*given, 0], level=level)


def test_code_that_is_not_bang_c_still_faults_there(tmp_path: Path) -> None:
    """On the same device, behind a launch of BANG C."""
    device = Device("dlp-m")
    source, x = written(PLACE, tmp_path), np.arange(9, dtype=np.float32)
    program = compile_bang(source, device.machine, Options())
    assert not program.aligned
    device.launch(Module(program)["largest"], [device.array(x), device.array(np.zeros(1, np.int64)), 9, 1])
    strict = link([assemble(".entry main\nmain: LI $1, #nram(2)\nSLOAD.i32 $2, $1, #0\nHALT", "strict")])
    with pytest.raises(ProcessorFault, match="is not aligned to the 4 bytes of i32"):
        device.launch(Module(strict)["main"], [])


OLDER = """
#include "mlu.h"
__mlu_func__ void weigh(half *x, half *weights, int n) { __bang_mul_const(x, x, weights[1], n); }
__mlu_entry__ void image(half *x, unsigned char *out, int n) {
  __nram__ half a[512], weights[4];
  for (int i = 0; i < 4; ++i) weights[i] = (half)(i + 1);
  __memcpy(&a, x, n * sizeof(half), GDRAM2NRAM);
  weigh(a, &weights, n);
  __bang_half2uchar_dn((signed char *)a, a, n);
  __memcpy(out, & a, n, NRAM2GDRAM);
}
"""


@pytest.mark.parametrize("machine", ["mlu270", "mlu370-x4"])
def test_the_address_of_an_array_and_signed_bytes(machine: str, tmp_path: Path) -> None:
    x = (np.random.default_rng(2).random(512) * 127).astype(np.float16)
    _, out = run(written(OLDER, tmp_path), "image", [x, np.zeros(512, np.uint8), 512], machine=machine)
    np.testing.assert_array_equal(out, np.floor(x * np.float16(2)).astype(np.uint8))


def test_a_pointer_to_an_array_stays_one(tmp_path: Path) -> None:
    text = """
#include <bang.h>
template <int N> __mlu_func__ int length(float (*p)[N]) { (*p)[0] = N; return N; }
__mlu_global__ void k(int *out) { __nram__ float a[24]; out[0] = length(&a); out[1] = (int)a[0]; }
"""
    (out,) = run(written(text, tmp_path), "k", [np.zeros(2, np.int32)])
    assert out.tolist() == [24, 24]


ASYNC = """
#include <bang.h>
template <typename T> __mlu_global__ void scatter(const int *where, const T *x, T *out, int n, int width) {
  __nram__ T v[1024]; __nram__ int at[256];
  int per = n / taskDim, first = taskId * per;
  __memcpy_async(at, where + first, per * sizeof(int), GDRAM2NRAM);
  __memcpy_async(v, x + first * width, per * width * sizeof(T), GDRAM2NRAM);
  __sync_io();
  for (int i = 0; i < per; ++i) __bang_atomic_reduce_add_async(out + at[i] * width, v + i * width, width);
  __sync();
  __bang_atomic_reduce_max_async(out + 9 * width, v[0]);
}
template __mlu_global__ void scatter<float>(const int *, const float *, float *, int, int);
template __mlu_global__ void scatter<half>(const int *, const half *, half *, int, int);
template __mlu_global__ void scatter<int>(const int *, const int *, int *, int, int);
"""


@pytest.mark.parametrize(("kind", "dtype"), [("float", np.float32), ("half", np.float16), ("int", np.int32)])
def test_atomics_that_run_beside_the_core(kind: str, dtype: type, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    where, x = rng.integers(0, 9, 60).astype(np.int32), rng.integers(-4, 5, (60, 5)).astype(dtype)
    given = [where, x, np.zeros((10, 5), dtype), 60, 5]
    _, _, out = run(written(ASYNC, tmp_path), f"scatter<{kind}>", given, (4, 1, 1), "union1")
    want = np.zeros((10, 5))
    np.add.at(want, where, x)
    want[9, 0] = max(0, *x[::15, 0])
    np.testing.assert_array_equal(out, want)
