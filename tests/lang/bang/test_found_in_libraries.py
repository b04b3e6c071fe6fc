"""What operator libraries do that no lesson shows: enumerations of absent headers, formats that are handed on, atomics
on the last half of an array, instances called by their full names."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

from trilobite.base.errors import KernelError
from trilobite.processor.device import Device
from trilobite.processor.lang.bang.kernel import BangKernel
from trilobite.processor.lang.bang.source import Options

pytestmark = needs_clang

ABSENT = """
#include "core/some_library.h"
#include <bang.h>
__mlu_global__ void typed(int *y, const mluOpDataType_t type, const otherMode_t mode) {
  switch (type) {
    case MLUOP_DTYPE_HALF: y[0] = 16; break;
    case MLUOP_DTYPE_FLOAT: y[0] = 32; break;
    default: y[0] = -1;
  }
  y[1] = (int)mode + 1;
}
void launch(cnrtQueue_t queue, int *y, mluOpDataType_t type) {
  typed<<<someDim(), someKind(), queue>>>(y, type, OTHER_MODE_FAST);
}
"""


def test_enumerations_of_absent_headers(tmp_path: Path) -> None:
    source = written(ABSENT, tmp_path)
    for kind, bits in ((1, 16), (2, 32), (6, -1)):
        (got,) = run(source, "typed", [np.zeros(2, np.int32), kind, 4])
        assert got.tolist() == [bits, 5]


def test_other_names_of_absent_headers_are_refused(tmp_path: Path) -> None:
    text = '#include "lib.h"\n#include <bang.h>\n__mlu_global__ void k(int *y, Layout l) { y[0] = l.rows + LIMIT; }\n'
    with pytest.raises(KernelError) as caught:
        run(written(text, tmp_path), "k", [np.zeros(1, np.int32), 0])
    assert "use of undeclared identifier 'LIMIT'" in str(caught.value) and "lib.h" in str(caught.value)


PRINTED = """
#include <bang.h>
template <typename T> __mlu_func__ void shown(const char *format, const T *p, int n) {
  for (int i = 0; i < n; ++i) __bang_printf(format, p[i]);
}
__mlu_global__ void show(const float *x, const int *k, int n) {
  shown("%.2f;", x, n);
  shown("<%d>", k, n);
}
"""


@pytest.mark.parametrize("level", LEVELS)
def test_a_format_may_be_handed_on(level: int, tmp_path: Path) -> None:
    device = Device("mlu370-x4")
    x, k = device.array(np.array([1.5, -2.25], np.float32)), device.array(np.array([7, -8], np.int32))
    kernel = BangKernel(written(PRINTED, tmp_path), "show", Options(level=level))
    assert "".join(device.launch(kernel, [x, k, 2]).printed) == "1.50;-2.25;<7><-8>"


ATOMIC = """
#include <bang.h>
template <typename T> __mlu_global__ void gather_up(const T *x, T *sum, T *most) {
  __nram__ T mine[64], old[64];
  __memcpy(mine, x + taskId * 3, 3 * sizeof(T), GDRAM2NRAM);
  __bang_atomic_add(old, sum, mine, 3);
  __bang_atomic_reduce_max(most, mine[0]);
}
template __mlu_global__ void gather_up<half>(const half *, half *, half *);
template __mlu_global__ void gather_up<short>(const short *, short *, short *);
"""


@pytest.mark.parametrize(("kind", "dtype"), [("half", np.float16), ("short", np.int16)])
def test_atomics_on_the_last_sixteen_bits(kind: str, dtype: type, tmp_path: Path) -> None:
    x = (np.arange(12).reshape(4, 3) - 5).astype(dtype)
    least = np.full(1, -100, dtype)
    _, total, most = run(
        written(ATOMIC, tmp_path), f"gather_up<{kind}>", [x, np.zeros(3, dtype), least], (4, 1, 1), "union1"
    )
    np.testing.assert_array_equal(total, x.sum(0))
    assert most[0] == x[:, 0].max()


NAMED = """
#include <bang.h>
namespace app { enum Kind { kAdd = 0, kMul = 1 };
template <typename T, Kind K = kAdd> __mlu_global__ void both(const T *a, T *out, T b) {
  for (int i = 0; i < 4; ++i) out[i] = K == kAdd ? a[i] + b : a[i] * b;
}
template __mlu_global__ void both<float, kMul>(const float *, float *, float);
template __mlu_global__ void both<float, kAdd>(const float *, float *, float);
}
"""


@pytest.mark.parametrize(
    ("name", "want"),
    [("app::both<float, app::kMul>", 6.0), ("app::both<float, app::kAdd>", 5.0), ("app::both<int32_t>", 5)],
)
def test_an_instance_is_called_by_its_full_name(name: str, want: float, tmp_path: Path) -> None:
    device = Device("mlu370-x4")
    dtype = np.int32 if "int" in name else np.float32
    a, out = device.array(np.full(4, 2, dtype)), device.array(np.zeros(4, dtype))
    device.launch(BangKernel(written(NAMED, tmp_path), name), [a, out, 3])
    assert (out.numpy() == want).all()


LIBRARY = """
#include <bang.h>
__nram__ float a[256], t[256]; __nram__ half h[256];
__mlu_global__ void chirp(float *re, float *im, half *root, int n) {
  for (int i = 0; i < n; ++i) a[i] = i * i;
  __bang_mul_scalar(a, a, M_PI, n);
  __bang_write_value(t, n, (float)n);
  __cn_vector_div_f32_rn(n, t, a, t);
  __cn_vector_cos_f32(n, a, t);
  __cn_vector_sin_f32(n, t, t);
  __memcpy(re, a, n * sizeof(float), NRAM2GDRAM);
  __memcpy(im, t, n * sizeof(float), NRAM2GDRAM);
  for (int i = 0; i < n; ++i) h[i] = (half)i;
  __cn_vector_sqrt_f16(n, h, h);
  __cn_vector_add_f16(n, h, h, h);
  __memcpy(root, h, n * sizeof(half), NRAM2GDRAM);
}
"""


def test_vectors_of_the_device_library_have_their_count_first(tmp_path: Path) -> None:
    n = 77
    given = [np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(n, np.float16), n]
    re, im, root = run(written(LIBRARY, tmp_path), "chirp", given)
    angle = (np.arange(n, dtype=np.float32) ** 2 * np.float32(np.pi)) / np.float32(n)
    np.testing.assert_allclose(re, np.cos(angle), atol=2e-5)
    np.testing.assert_allclose(im, np.sin(angle), atol=2e-5)
    half = np.sqrt(np.arange(n, dtype=np.float16))
    np.testing.assert_allclose(root, half + half, rtol=2e-3)
