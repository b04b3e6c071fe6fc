"""Functions of the library that have no body in a header, and what there is none of on the processor: a heap."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

from trilobite.base.errors import KernelError, ProcessorFault
from trilobite.processor.lang.bang.device_library import readable, stops

pytestmark = needs_clang

SORTED = """
#include <bang.h>
#include <algorithm>
template <typename T> __mlu_global__ void in_order(const T *x, T *y, int n) {
  __nram__ T near[256];
  __memcpy(near, x, n * sizeof(T), GDRAM2NRAM);
  std::sort(near, near + n);
  __memcpy(y, near, n * sizeof(T), NRAM2GDRAM);
}
template __mlu_global__ void in_order(const float *, float *, int);
template __mlu_global__ void in_order(const int *, int *, int);
template __mlu_global__ void in_order(const unsigned char *, unsigned char *, int);
template __mlu_global__ void in_order(const half *, half *, int);
struct Box { float score; int index; };
__mlu_global__ void boxes(const float *x, int *index, int n) {
  Box all[200];
  for (int i = 0; i < n; ++i) all[i] = {x[i], i};
  std::stable_sort(all, all + n, [](const Box &a, const Box &b) { return a.score > b.score; });
  for (int i = 0; i < n; ++i) index[i] = all[i].index;
}
"""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("name", "dtype", "n"), [("float", np.float32, 200), ("int", np.int32, 0), ("int", np.int32, 33), ("unsigned char", np.uint8, 77), ("half", np.float16, 1)])  # fmt: skip
def test_sort_of_numbers(
    name: str, dtype: type, n: int, level: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    x = (rng.standard_normal(200) * 50).astype(np.int32).astype(dtype)
    kernel = f"in_order<{name}>"
    _, y = run(written(SORTED, tmp_path), kernel, [x, np.zeros(200, dtype), n], level=level)
    want = np.zeros(200, dtype)
    want[:n] = np.sort(x[:n])
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("level", LEVELS)
def test_stable_sort_without_a_heap(level: int, tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.integers(0, 9, 150).astype(np.float32)
    _, index = run(written(SORTED, tmp_path), "boxes", [x, np.zeros(150, np.int32), 150], level=level)
    np.testing.assert_array_equal(index, np.argsort(-x, kind="stable"))


WORDS = """
#include <bang.h>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__mlu_global__ void words(const int *x, int *y, int n) {
  int v[64];
  for (int i = 0; i < n; ++i) v[i] = x[i];
  y[0] = (int)(std::find(v, v + n, 7) - v);
  y[1] = (int)(std::find(v, v + n, -12345) - v);
  y[2] = std::equal(v, v + n, x);
  y[3] = std::memcmp(v, x, n * 4) == 0;
  qsort(v, n, sizeof(int), ascending);
  for (int i = 0; i < n; ++i) y[8 + i] = v[i];
  int key = 7, none = -12345;
  y[4] = (int)((int *)bsearch(&key, v, n, sizeof(int), ascending) - v);
  y[5] = bsearch(&none, v, n, sizeof(int), ascending) == nullptr;
  y[6] = std::accumulate(v, v + n, 0);
  const char *text = n > 3 ? "trilobite" : "shell";
  y[7] = (int)strlen(text) * 100 + (strcmp(text, "trilobite") == 0) * 10 + (strncmp(text, "trip", 3) == 0);
}
"""


@pytest.mark.parametrize("level", LEVELS)
def test_functions_of_the_c_library(level: int, tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.permutation(40).astype(np.int32)
    _, y = run(written(WORDS, tmp_path), "words", [x, np.zeros(48, np.int32), 40], level=level)
    assert y[:8].tolist() == [int(np.argmax(x == 7)), 40, 1, 1, 7, 1, 40 * 39 // 2, 911]
    assert y[8:].tolist() == list(range(40))


HEAP = "#include <bang.h>\n#include <vector>\n#include <map>\n#include <stdlib.h>\n__mlu_global__ void k(float *y, int n) {\n  %s\n}\n"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("line", "said"), [
    ("float *p = (float *)malloc(n * 4); y[0] = (float)(long)p;", r"k\w+\.mlu:6:\d+: dynamic allocation \(malloc\)"),
    ("float *p = new float[n]; y[0] = (float)(long)p;", r":6:\d+: dynamic allocation \(operator new\[\]\)"),
    ("std::vector<float> v(n); for (int i = 0; i < n; ++i) v[i] = y[i]; y[1] = v[n / 2];", r":6:\d+: dynamic allocation \(operator new\)"),
    ("std::map<int, int> m; for (int i = 0; i < n; ++i) m[i % 3] += i; y[0] = m[n];", r":6:\d+: dynamic allocation \(operator new\)"),
])  # fmt: skip
def test_dynamic_allocation_is_refused_by_name_at_the_users_line(
    line: str, said: str, level: int, tmp_path: Path
) -> None:
    with pytest.raises(KernelError, match=said) as caught:
        run(written(HEAP % line, tmp_path), "k", [np.zeros(8, np.float32), 5], level=level)
    assert "/include/" not in str(caught.value)


def test_new_that_may_give_nothing_gives_nothing(tmp_path: Path) -> None:
    line = "float *p = new (std::nothrow) float[n]; y[0] = p ? 1.0f : 2.0f; delete[] p;"
    (y,) = run(written(HEAP % line, tmp_path), "k", [np.zeros(8, np.float32), 5], level=0)
    assert y[0] == 2


def test_errors_of_the_library_stop_the_kernel(tmp_path: Path) -> None:
    text = "#include <bang.h>\n#include <array>\n__mlu_global__ void k(int *y, int n) { std::array<int, 4> a{1, 2, 3, 4}; *y = a.at(n); }\n"
    (y,) = run(written(text, tmp_path), "k", [np.zeros(1, np.int32), 2], level=0)
    assert y[0] == 3
    with pytest.raises(ProcessorFault, match=r"the library stopped: .*out_of_range"):
        run(written(text, tmp_path), "k", [np.zeros(1, np.int32), 4], level=0)


def test_mangled_names_are_read() -> None:
    assert readable("_ZNSt3__112basic_stringIcNS_11char_traitsIcEEE6appendEPKc") == "std::basic_string"
    assert readable("_ZN3lib6Widget4drawEv") == "lib::Widget::draw"
    assert readable("_Z5plainif") == "plain" and readable("puts") == "puts"
    assert stops("_ZNSt3__120__throw_length_errorB8ne220000EPKc") == "length_error" and not stops("_Z5plaini")
