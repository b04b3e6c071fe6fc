"""Sources whose headers and host parts were written for a card's toolchain: keyword macros, system headers in quotes,
libraries that are not there, the C library on 16-bit floats, shared memory to the last bytes."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from bang_harness import LEVELS, compiled, needs_clang, run, written

from trilobite.base.errors import KernelError
from trilobite.processor.lang.bang import clang
from trilobite.processor.lang.bang.source import Options, compile_file
from trilobite.processor.machine import load_machine

pytestmark = needs_clang

DEFINES = """#pragma once
#include <mlu.h>
#define sizeof(T) (uint32_t(sizeof(T)))
"""
HOST = """#include "defines.h"
#include "host/log.h"
#include "float.h"
#include "string.h"
__mlu_global__ void twice(float *y, const float *x, int n) {
  __nram__ float a[256];
  __memcpy(a, x, n * sizeof(float), GDRAM2NRAM);
  __bang_mul_scalar(a, a, 2.0f, n);
  __memcpy(y, a, std::min(n * sizeof(float), 1024u), NRAM2GDRAM);
  if (x[0] == -INFINITY) y[0] = FLT_MAX;
}
void host(cnrtQueue_t queue, float *y, float *x, int n) {
  Log() << "launching " << n;
  std::map<std::string, std::vector<int>> sizes;
  sizes["x"].push_back(sizeof(sizes));
  cnrtDim3_t dim = {1, 1, 1};
  twice<<<dim, CNRT_FUNC_TYPE_BLOCK, queue>>>(y, x, n);
}
"""
LOG = """#pragma once
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>
struct Log {
  std::ostringstream text;
  ~Log() { std::cerr << text.str() << std::endl; }
  template <typename T> Log &operator<<(const T &value) { text << value; return *this; }
};
"""


def test_a_keyword_macro_before_library_headers(tmp_path: Path) -> None:
    """`sizeof` is the source's own 32-bit one in its lines, and the language's in the library's."""
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "log.h").write_text(LOG, "utf-8")
    (tmp_path / "defines.h").write_text(DEFINES, "utf-8")
    source = written(HOST, tmp_path)
    x = np.array([-np.inf, 1.5, -2.25, 3], np.float32)
    for level in LEVELS:
        y, _ = run(source, "twice", [np.zeros(4, np.float32), x, 4], level=level)
        assert y.tolist() == [np.finfo(np.float32).max, 3.0, -4.5, 6.0]


def host_heavy(kernels: int) -> str:
    """Host code of a library that is not there: descriptors, checks, launches behind a choice of types."""
    lines = ['#include "core/context.h"', "#include <absentlib.h>", "#include <gtest/gtest.h>", "#include <map>",
             "#include <string>", "#include <vector>", "#include <bang.h>"]  # fmt: skip
    lines += [
        f"""
struct Shape{i} {{ libTensor_t d; std::vector<libHandle_t> all; int n{i}; Shape{i}(libHandle_t h) : n{i}(h->n) {{}} }};
static libStatus_t check{i}(const Shape{i} &s, libHandle_t handle, const char *api) {{
  LIB_CHECK(api, handle != NULL);
  if (s.n{i} > {i}) {{ LIB_LOG(ERROR) << api << s.n{i}; return LIB_STATUS_BAD; }}
  return LIB_STATUS_GOOD;
}}
template <typename T> __mlu_global__ void shift{i}(T *y, const T *x, int n) {{
  __nram__ T a[128];
  __memcpy(a, x, n * sizeof(T), GDRAM2NRAM);
  __bang_add_scalar(a, a, (T){i + 1}, n);
  __memcpy(y, a, n * sizeof(T), NRAM2GDRAM);
}}
libStatus_t LIB_API libShift{i}(libHandle_t handle, const libTensor_t xd, const void *x, void *y) {{
  Shape{i} shape(handle);
  check{i}(shape, handle, "shift");
  cnrtDim3_t dim; cnrtFunctionType_t kind;
  policy(handle, &dim, &kind);
  if (xd->type == LIB_HALF) {{ KERNEL_CHECK((shift{i}<half><<<dim, kind, handle->queue>>>((half *)y, (half *)x, xd->n))); }}
  else {{ KERNEL_CHECK(shift{i}<float><<<dim, kind, handle->queue>>>((float *)y, (float *)x, xd->n)); }}
  return LIB_STATUS_GOOD;
}}"""
        for i in range(kernels)
    ]
    return "\n".join(lines)


def test_a_large_host_part_takes_two_rounds_of_clang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One round finds what the host cannot have, the next compiles; every launched instance is there."""
    monkeypatch.setenv("TRILOBITE_CACHE", str(tmp_path / "cache"))
    rounds: list[str] = []
    plain = clang._run
    monkeypatch.setattr(clang, "_run", lambda words, text=None: rounds.append(words[0]) or plain(words, text))
    source = written(host_heavy(12), tmp_path)
    program = compile_file(source, load_machine("mlu370-x4"), Options())
    assert rounds == ["-E", "-x", "-x"]
    names = {name for name, place in program.symbols.items() if place.is_entry}
    assert names == {f"shift{i}<{kind}>" for i in range(12) for kind in ("half", "float")}
    rounds.clear()
    compile_file(source, load_machine("mlu370-x4"), Options())
    assert rounds == ["-E"]


def test_an_absent_header_is_told_as_such(tmp_path: Path) -> None:
    text = (
        '#include "macros.h"\n#include <bang.h>\n__mlu_global__ void k(int *y, int n) { y[0] = LIMIT(n); }\n'
    )
    with pytest.raises(KernelError) as caught:
        compile_file(written(text, tmp_path), load_machine("mlu370-x4"))
    said = str(caught.value)
    assert "a header that it includes was not found: macros.h" in said
    assert "use of undeclared identifier 'LIMIT'" in said and "-I" in said


def test_a_fault_inside_a_library_header_is_told_at_the_line_that_led_there(tmp_path: Path) -> None:
    text = """#include <bang.h>
#include <array>
struct Bare { int x; };
__mlu_global__ void k(int *y) {
  Bare a[3] = {{3}, {1}, {2}};
  std::sort(a, a + 3);
  y[0] = a[0].x;
}
"""
    with pytest.raises(KernelError) as caught:
        compile_file(written("#include <algorithm>\n" + text, tmp_path), load_machine("mlu370-x4"))
    assert "libcxx" not in str(caught.value) and ":7:" in str(caught.value)


MATH = """#include <bang.h>
#include <cmath>
#include <algorithm>
template <typename T> __mlu_global__ void functions(T *y, const T *x, int n) {
  for (int i = 0; i < n; ++i) {
    T v = x[i], *out = y + 16 * i;
    out[0] = std::cos(v); out[1] = std::sqrt(std::abs(v)); out[2] = std::exp(v); out[3] = std::floor(v);
    out[4] = std::max(v, (T)0.5f); out[5] = std::min(v, (T)0.5f); out[6] = std::pow(v, (T)2.0f);
    out[7] = std::tanh(v); out[8] = std::log(std::fabs(v)); out[9] = std::round(v);
    out[10] = (T)(float)(std::isnan(v) + 2 * std::isinf(v) + 4 * std::signbit(v) + 8 * std::isfinite(v));
    out[11] = std::fmax(v, (T)1.0f); out[12] = (T)std::pow(v, 2); out[13] = (T)std::pow(v, 1.0f);
    out[14] = v == -INFINITY ? (T)7.0f : v == INFINITY ? (T)8.0f : (T)9.0f; out[15] = std::fmod(v, (T)1.5f);
  }
}
template __mlu_global__ void functions<float>(float *, const float *, int);
template __mlu_global__ void functions<half>(half *, const half *, int);
template __mlu_global__ void functions<bfloat16_t>(bfloat16_t *, const bfloat16_t *, int);
"""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("kind", "dtype", "error"),
    [("float", np.float32, 3e-6), ("half", np.float16, 2e-3), ("bfloat16_t", ml_dtypes.bfloat16, 2e-2)],
)
def test_the_c_library_in_std_on_every_float(
    kind: str, dtype: type, error: float, level: int, tmp_path: Path
) -> None:
    x = np.array([-3.25, 2.75, -0.5, 4.0, np.inf, -np.inf], dtype)
    y, _ = run(written(MATH, tmp_path), f"functions<{kind}>", [np.zeros((6, 16), dtype), x, 6], level=level)
    v = x.astype(np.float64)
    with np.errstate(all="ignore"):
        away = np.sign(v) * np.floor(np.abs(v) + 0.5)
        want = np.stack([
            np.cos(v), np.sqrt(abs(v)), np.exp(v), np.floor(v), np.maximum(v, 0.5), np.minimum(v, 0.5), v * v,
            np.tanh(v), np.log(abs(v)), away,
            np.isnan(v) + 2 * np.isinf(v) + 4 * np.signbit(v) + 8 * np.isfinite(v),
            np.maximum(v, 1), v * v, v, np.where(v == -np.inf, 7, np.where(v == np.inf, 8, 9)), np.fmod(v, 1.5),
        ], axis=1)  # fmt: skip
    finite = np.isfinite(v)
    np.testing.assert_allclose(y.astype(np.float64)[finite], want[finite], rtol=error, atol=error)
    np.testing.assert_array_equal(y.astype(np.float64)[:, [4, 5, 10, 14]], want[:, [4, 5, 10, 14]])


CLASSES = """#include <bang.h>
__mlu_global__ void classes(int *y, const float *x, int n) {
  for (int i = 0; i < n; ++i) {
    y[i] = 0;
#define ASK(bit) if (__builtin_isfpclass(x[i], 1 << bit)) y[i] |= 1 << bit;
    ASK(2) ASK(3) ASK(4) ASK(5) ASK(6) ASK(7) ASK(8) ASK(9)
    if (__builtin_isfpclass(x[i], 3)) y[i] |= 3;
  }
}
"""


def test_classes_of_numbers_of_one_sign(tmp_path: Path) -> None:
    x = np.array([-np.inf, -1, -1e-40, -0.0, 0.0, 1e-40, 1, np.inf, np.nan], np.float32)
    for level in LEVELS:
        y, _ = run(written(CLASSES, tmp_path), "classes", [np.zeros(9, np.int32), x, 9], level=level)
        assert y.tolist() == [4, 8, 16, 32, 64, 128, 256, 512, 3]


REMAINDER = """#include <bang.h>
template <typename T> __mlu_global__ void rest(T *y, const T *x, const T *z, T c, int n) {
  __nram__ T a[64], b[64];
  __memcpy(a, x, n * sizeof(T), GDRAM2NRAM);
  __memcpy(b, z, n * sizeof(T), GDRAM2NRAM);
  __bang_rem(b, a, b, n);
  __bang_rem(a, a, c, n);
  __memcpy(y, b, n * sizeof(T), NRAM2GDRAM);
  __memcpy(y + n, a, n * sizeof(T), NRAM2GDRAM);
}
template __mlu_global__ void rest<float>(float *, const float *, const float *, float, int);
template __mlu_global__ void rest<int>(int *, const int *, const int *, int, int);
template <typename T> cnrtQueue_t chosen(T *, cnrtQueue *queue) { return queue; }
template cnrtQueue_t chosen<int>(int *, cnrtQueue_t);
template cnrtNotifier_t chosenNotifier<half>(half *, cnrtNotifier *);
"""


def test_remainders_and_handles(tmp_path: Path, rng: np.random.Generator) -> None:
    """Explicit instances of host templates may name the types that handles point to."""
    source = written(REMAINDER, tmp_path)
    for dtype, kind in ((np.float32, "float"), (np.int32, "int")):
        a, b = (rng.uniform(-50, 50, (2, 20)) * 3).astype(dtype)
        b[b == 0] = 3
        c = dtype(7)
        word = int(c.view(np.uint32)) if dtype is np.float32 else int(c)
        y, _, _ = run(source, f"rest<{kind}>", [np.zeros(40, dtype), a, b, word, 20])
        np.testing.assert_array_equal(y, np.concatenate([np.fmod(a, b), np.fmod(a, c)]))


SHARED = """#include <bang.h>
__mlu_shared__ int8_t all[__MLU_SRAM_SIZE__ * 1024 - REST];
__mlu_global__ void through(float *y, const float *x, int n) {
  __nram__ float a[256];
  float *last = (float *)(all + sizeof(all) - 1024);
  if (__is_mpu()) __memcpy(last, x, n * 4, GDRAM2SRAM);
  __sync_cluster();
  if (__is_ipu()) {
    __memcpy(a, last, n * 4, SRAM2NRAM);
    __bang_add(a, a, a, n);
    if (coreId == 0) __memcpy(y, a, n * 4, NRAM2GDRAM);
  }
}
"""


@pytest.mark.parametrize("machine", ["mlu590", "mlu370-x4"])
@pytest.mark.parametrize("rest", [32 * 1024, 4 * 1024, 1024])
def test_shared_memory_may_be_filled(
    machine: str, rest: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    source = written(SHARED.replace("REST", str(rest)), tmp_path)
    x = rng.standard_normal(200).astype(np.float32)
    for level in LEVELS:
        y, _ = run(
            source, "through", [np.zeros(200, np.float32), x, 200], (4, 1, 1), "union1", machine, level
        )
        np.testing.assert_array_equal(y, 2 * x)
        said = compiled(source, "through", machine, level).scratchpad_text()
        kept = 32 if machine == "mlu590" else 128
        assert (f"warning: sram goes into the {kept} KiB" in said) == (rest < kept * 1024)


def test_more_than_all_of_shared_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match="sram overflows by 64 bytes"):
        compile_file(written(SHARED.replace("REST", "-64"), tmp_path), load_machine("mlu590"))
