"""Sources as course labs write them: host program and kernel in one file, older spellings, several files."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

from trilobite.base.errors import ArgumentError, KernelError, ProcessorFault
from trilobite.cli.kernel import kernel

pytestmark = needs_clang


def test_lines_behind_host_code_that_was_left_out(tmp_path: Path) -> None:
    """The first function behind the headers is left out; what follows is still in the source's own lines."""
    text = (
        "#include <bang.h>\n#include <sys/time.h>\n\n"
        "float worst(float a) { return nowhere_declared(a); }\n"
        "__mlu_global__ void late(float *x, float *out) {\n"
        "  __nram__ float a[64];\n"
        "  __memcpy_async(a, x, 256, GDRAM2NRAM);\n"
        "  __bang_add(a, a, a, 64);\n"
        "  __memcpy(out, a, 256, NRAM2GDRAM);\n"
        "}\n"
    )
    source = written(text, tmp_path)
    for level in LEVELS:
        with pytest.raises(ProcessorFault) as caught:
            run(source, "late", [np.ones(64, np.float32), np.zeros(64, np.float32)], level=level)
        assert f"{source.name}:7" in str(caught.value) and f"{source.name}:8" in str(caught.value)


def test_functions_of_the_library_without_an_include(tmp_path: Path) -> None:
    """`abs` of a large integer stays an integer; floats take their own overload, also in a header's text."""
    (tmp_path / "parts.h").write_text("__mlu_func__ float size(float x) { return fabs(x) + sqrt(x * x); }\n")
    text = """#include "parts.h"
__mlu_entry__ void k(int *whole, float *real, int n) {
  float *none = NULL;
  uint bits = UINT_MAX;
  assert(n < INT_MAX);
  whole[0] = abs(n);
  whole[1] = bits == UINT32_MAX && none == nullptr;
  real[0] = size(-1.0f / 3.0f);
  real[1] = fmax(-INFINITY, -FLT_MAX);
  real[2] = floor((float)M_PI);
}
"""
    source = written(text, tmp_path)
    for level in LEVELS:
        whole, real = run(source, "k", [np.zeros(2, np.int32), np.zeros(3, np.float32), -70001], level=level)
        assert whole.tolist() == [70001, 1]
        third = np.float32(1) / np.float32(3)
        assert real.tolist() == [2 * third, -np.finfo(np.float32).max, 3]


def test_a_kernel_with_the_name_of_a_function(tmp_path: Path) -> None:
    text = 'extern "C" __mlu_entry__ void exp(float *x) { x[0] = expf(x[0]) - 1.0f; }\n'
    (x,) = run(written(text, tmp_path), "exp", [np.zeros(1, np.float32)])
    assert x[0] == 0


OLDER = """
struct Joined {
  __mlu_func__ void operator()(half *z, half *x, half *y, int n) { __mlvm_stream_maxequal_f16(z, x, y, n); }
};
template <typename T>
__mlu_func__ void __mlvm_memcpy_gdram_to_gdram(T *dst, T *src, int size, int pieces, T *through) {
  for (int i = 1; i < pieces; ++i) __mlvm_memcpy_gdram_to_gdram(dst + i * size / sizeof(T), src, size);
  __memcpy(through, src, size, GDRAM2NRAM);
  __memcpy(dst, through, size, NRAM2GDRAM);
}
__mlu_entry__ void older(half *x, half *y, half *out, half *copies, int rows) {
  __nram__ half a[128], b[4 * 64], c[64];
  __mlvm_memcpy_gdram_to_nram(a, x, 64 * sizeof(half));
  __mlvm_memcpy_stride_gdram_to_nram_async(b, y, 64 * sizeof(half), 64 * sizeof(half), 128 * sizeof(half), rows - 1);
  __mlvm_sync();
  __mlvm_memset_nram_f16(a + 64, 64, (half)0.5);
  for (int i = 0; i < rows; ++i) Joined()(a, a, b + i * 64, 64);
  __mlvm_stream_mul_f16(c, a, a + 64, 64);
  __mlvm_stream_relu_f16(c, c, 64);
  __mlvm_memcpy_nram_to_gdram(out, c, 64 * sizeof(half));
  __mlvm_memcpy_gdram_to_gdram(copies, out, 64 * (int)sizeof(half), 3, a);
}
"""


def test_the_compilers_own_names(tmp_path: Path) -> None:
    """`__mlvm_*` beside the public names; a source may add a form of its own to one of them."""
    rng = np.random.default_rng(1)
    x, y = rng.uniform(-4, 4, 64).astype(np.float16), rng.uniform(-4, 4, (4, 2, 64)).astype(np.float16)
    wanted = np.maximum(np.maximum(x, y[:, 0].max(0)) * np.float16(0.5), 0)
    for level in LEVELS:
        given = [x, y, np.zeros(64, np.float16), np.zeros((3, 64), np.float16), 4]
        out = run(written(OLDER, tmp_path), "older", given, machine="mlu270", level=level)
        np.testing.assert_array_equal(out[2], wanted)
        np.testing.assert_array_equal(out[3], np.tile(wanted, (3, 1)))


def test_sums_of_wide_integers_are_exact(tmp_path: Path) -> None:
    """Products of 16-bit numbers leave 32 bits soon; a float result loses nothing before it is rounded."""
    text = """
__mlu_entry__ void k(int16_t *x, int16_t *w, float *out, int position) {
  __nram__ int16_t a[256];
  __wram__ int16_t b[64 * 256];
  __nram__ float y[64];
  __memcpy(a, x, sizeof(a), GDRAM2NRAM);
  __memcpy(b, w, sizeof(b), GDRAM2WRAM);
  __bang_conv(y, a, b, 64, 2, 2, 2, 2, 1, 1, 64, position);
  __memcpy(out, y, sizeof(y), NRAM2GDRAM);
}
"""
    rng = np.random.default_rng(2)
    x = rng.integers(-32000, 32000, 256).astype(np.int16)
    w = rng.integers(-32000, 32000, (64, 256)).astype(np.int16)
    sums = w.astype(np.int64) @ x.astype(np.int64)
    assert np.abs(sums).max() > 2**32
    out = run(written(text, tmp_path), "k", [x, w, np.zeros(64, np.float32), -20], machine="mlu270")[2]
    np.testing.assert_array_equal(out, (sums * 2.0**-20).astype(np.float32))


MIXED = """#include <bang.h>
#include <iostream>
#include <vector>
#include <cnnl.h>
#include "absent/tensors.h"
template <typename T> struct Kept { std::vector<T> held; cnnlHandle_t handle; ~Kept() { cnnlDestroy(handle); } };
#define TRY(x) do { if ((x) != CNNL_STATUS_SUCCESS) { std::cerr << #x << std::endl; exit(1); } } while (0)
static std::vector<float> wanted(const std::vector<float> &x) { auto y = x; for (auto &v : y) v = -v; return y; }
__mlu_global__ void negative(float *x, float *y, int n) {
  __nram__ float a[512];
  __memcpy(a, x, n * sizeof(float), GDRAM2NRAM);
  __bang_NEGATION(a, a, n);
  __memcpy(y, a, n * sizeof(float), NRAM2GDRAM);
}
int main(int argc, char **argv) {
  cnnlHandle_t handle;
  TRY(cnnlCreate(&handle));
  Kept<float> kept{std::vector<float>(100), handle};
  cnrtDim3_t dim = {1, 1, 1};
  negative<<<dim, CNRT_FUNC_TYPE_BLOCK, nullptr>>>(nullptr, nullptr, 100);
  std::cout << wanted(kept.held)[0] << std::endl;
}
"""


def test_a_whole_program_from_the_command_line(tmp_path: Path) -> None:
    """Host code with absent libraries is no matter; random arguments differ; C's names and CNRT's serve."""
    source = written(MIXED.replace("NEGATION", "neg"), tmp_path)
    words = ["random:float:100", "zeros:float:10,10", "100"]
    said = kernel("run", str(source), task="CNRT_FUNC_TYPE_BLOCK", arg=words, output=str(tmp_path))
    assert said.startswith("negative on dlp-m")
    x, y = np.load(tmp_path / "argument0.npy"), np.load(tmp_path / "argument1.npy")
    np.testing.assert_array_equal(y, -x.reshape(10, 10))
    kernel("run", str(source), arg=["random:f32:100", "random:f32:100", "1"], output=str(tmp_path))
    second = np.load(tmp_path / "argument1.npy")
    assert not np.array_equal(second[1:], x[1:])
    with pytest.raises(
        ArgumentError, match=r"an array for a pointer \(--arg random:f32:8x4\), else a number"
    ):
        kernel("run", str(source), name="negative")


def test_only_faults_of_the_kernel_are_told(tmp_path: Path) -> None:
    source = written(MIXED.replace("NEGATION", "no_such"), tmp_path)
    with pytest.raises(KernelError) as caught:
        kernel("run", str(source), name="negative")
    said = str(caught.value)
    assert f"{source.name}:12:3: use of undeclared identifier '__bang_no_such'" in said
    assert said.count(source.name + ":") == 1 and "headers that it includes were not found: " in said


def test_a_device_function_in_another_source(tmp_path: Path) -> None:
    """What a source only declares is found in the sources beside it, through a header of the folder."""
    (tmp_path / "shared.mluh").write_text(
        "#pragma once\n#define TIMES 3.0f\n__mlu_func__ void more(float *x, int n) { __bang_add_scalar(x, x, 1.0f, n); }\n"
    )
    (tmp_path / "bodies.mlu").write_text(
        '#include "shared.mluh"\n__mlu_device__ void scaled(float *x, float s, int n) { __bang_mul_scalar(x, x, s, n); more(x, n); }\n'
    )
    (tmp_path / "unrelated.mlu").write_text("this is no source at all {\n")
    text = """#include "shared.mluh"
extern __mlu_device__ void scaled(float *x, float s, int n);
__mlu_global__ void k(float *x, int n) {
  __nram__ float a[256];
  __memcpy(a, x, n * 4, GDRAM2NRAM);
  scaled(a, TIMES, n);
  __memcpy(x, a, n * 4, NRAM2GDRAM);
}
"""
    x = np.random.default_rng(3).standard_normal(77).astype(np.float32)
    for level in LEVELS:
        (got,) = run(written(text, tmp_path), "k", [x, 77], level=level)
        np.testing.assert_array_equal(got, x * np.float32(3) + np.float32(1))


CLEARED = """
__mlu_shared__ int flags[4];
__mlu_global__ void cleared(int *out, int value) {
  flags[0] = 0;
  out[0] = VALUE;
  __sync_cluster();
  out[1 + coreId] = flags[0] + 1;
}
"""


def test_one_value_stored_by_all_cores_is_no_race(tmp_path: Path) -> None:
    """The usual way to clear a flag; stores of different values to one place still are a race."""
    given = [np.zeros(5, np.int32), 7]
    source = written(CLEARED.replace("VALUE", "value"), tmp_path)
    assert run(source, "cleared", given, (4, 1, 1), "union1")[0].tolist() == [7, 1, 1, 1, 1]
    source = written(CLEARED.replace("VALUE", "value + coreId"), tmp_path)
    with pytest.raises(ProcessorFault, match="write after write without order") as caught:
        run(source, "cleared", given, (4, 1, 1), "union1")
    assert f"{source.name}:5" in str(caught.value) and f"{source.name}:4" not in str(caught.value)


def test_an_instance_is_called_by_typedefs_too(tmp_path: Path) -> None:
    text = "template <typename T, typename I> __mlu_global__ void last(T *x, I *place, int n) { *place = x[n - 1] > 0; }\n"
    source = written(text, tmp_path)
    words = ["random:float:3", "zeros:int64_t:1", "1"]
    for name in ("last<float, int64_t>", "last<float,long>"):
        assert kernel("run", str(source), name, arg=words).startswith("last<float, long> on dlp-m")
