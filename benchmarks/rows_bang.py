"""BANG C: sources, checked launches, scalar code.

One thread. How long sources take from their text to instructions with nothing in a cache: the median and the
slowest of the library's sources, and one with a large host part (containers, streams, an absent
library). A checked launch beside the same launch unchecked: both in a fresh program, so that what is compiled
on the way counts. Scalar loops of five million steps: half and bfloat16 beside float, a loop that reads GDRAM
beside one in registers.
"""

from __future__ import annotations

import itertools
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.row import Row, Work

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "examples" / "kernels" / "bang").glob("*.mlu"))
STEPS = 5_000_000
_drawn = itertools.count(int(perf_counter() * 1e6))
HOST = """#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>
#include "core/absent_library.h"
#include <bang.h>
"""
HOST_FUNCTION = """libraryStatus_t check_%d(libraryHandle_t handle, const std::vector<int> &dims) {
  std::map<std::string, int> found;
  for (auto d : dims) { std::stringstream s; s << d; found[s.str()] += d + %d; }
  if (handle == nullptr) { LOG(ERROR) << "no handle in check_%d"; return LIBRARY_STATUS_BAD_PARAM; }
  return found.empty() ? LIBRARY_STATUS_SUCCESS : handle->status;
}
"""
KERNEL = """__mlu_global__ void scaled(float *y, const float *x, int n) {
  __nram__ float a[1024];
  __memcpy(a, x, n * sizeof(float), GDRAM2NRAM);
  __bang_mul_scalar(a, a, %d.5f, n);
  __memcpy(y, a, n * sizeof(float), NRAM2GDRAM);
}
"""
LOOP = """#include <bang.h>
__mlu_global__ void loop(TYPE *y, const TYPE *x, int n) {
  TYPE s = 1;
  for (int i = 0; i < n; ++i) s = s * (TYPE)0.99f + READ;
  y[0] = s;
}
"""
SMALL_TILES = """#include <bang.h>
#define T 96
__nram__ float in[2][T];
__nram__ float out[2][T];
__mlu_global__ void small_tiles(const float *x, float *y, int n) {
  int tiles = n / T / taskDim;
  x += taskId * tiles * T;
  y += taskId * tiles * T;
  for (int i = 0; i < tiles + 2; ++i) {
    if (i >= 2) __memcpy_async(y + (i - 2) * T, out[i % 2], T * sizeof(float), NRAM2GDRAM);
    if (i < tiles) __memcpy_async(in[i % 2], x + i * T, T * sizeof(float), GDRAM2NRAM);
    if (i >= 1 && i <= tiles) {
      __bang_mul_scalar(out[(i - 1) % 2], in[(i - 1) % 2], 2.0f, T);
      __bang_active_relu(out[(i - 1) % 2], out[(i - 1) % 2], T);
    }
    __sync();
  }
}
"""
PADDED_ROWS = """#include <bang.h>
__nram__ float a[128];
__nram__ float b[128];
__mlu_global__ void padded_rows(const float *x, float *y, int n) {
  for (int r = taskId; r < n / 100; r += taskDim) {
    __memcpy(a, x + r * 100, 400, GDRAM2NRAM);
    __bang_mul_scalar(b, a, 2.0f, 128);
    __bang_active_exp(b, b, 128);
    __bang_add(b, b, a, 128);
    __memcpy(y + r * 100, b, 400, NRAM2GDRAM);
  }
}
"""


def compiled(text: str, name: str) -> float:
    from trilobite.processor.lang.bang.source import compile_file
    from trilobite.processor.machine import load_machine

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text, encoding="utf-8")
        start = perf_counter()
        compile_file(path, load_machine("mlu370-x4"))
        return perf_counter() - start


def library(which: str) -> Work:
    """The middle or the slowest of the library's sources; a number nobody drew before keeps caches out."""

    def work() -> float:
        times = [
            compiled(f"{path.read_text('utf-8')}\nstatic const int drawn = {next(_drawn)};\n", path.name)
            for path in SOURCES
        ]
        return sorted(times)[len(times) // 2] if which == "median" else max(times)

    compiled(f"#include <bang.h>\n{KERNEL % 1}", "imports.mlu")
    return work


def with_host_part() -> Work:
    def work() -> float:
        number = next(_drawn) % 100_000
        functions = "".join(HOST_FUNCTION % (number + i, i, i) for i in range(40))
        return compiled(HOST + functions + KERNEL % number, "host.mlu")

    compiled(f"#include <bang.h>\n{KERNEL % 1}", "imports.mlu")
    return work


def file_of(source: str) -> Path:
    """A source of the library by its name, or a text."""
    found = [path for path in SOURCES if path.stem == source]
    if found:
        return found[0]
    path = Path(tempfile.mkdtemp()) / "kernel.mlu"
    path.write_text(source, encoding="utf-8")
    return path


def vector_of(n: int) -> list[Any]:
    x = np.random.default_rng(2).standard_normal(n).astype(np.float32)
    return [x, np.zeros_like(x), n]


def launch(entry: str, file: str, args: Any, checks: bool, dim: tuple[int, int, int]) -> Work:
    """A fresh kernel each time; its compilation from the source is not counted."""
    from trilobite.processor import Device
    from trilobite.processor.lang.bang.kernel import BangKernel
    from trilobite.processor.lang.bang.source import Options

    path = file_of(file)

    def work() -> float:
        device = Device("mlu370-x4")
        kernel = BangKernel(path, entry, Options(contracts=checks))
        kernel.program(device.machine)
        given = [device.array(a) if isinstance(a, np.ndarray) else a for a in args()]
        start = perf_counter()
        device.launch(kernel, given, dim, checks=checks, traced=False)
        return perf_counter() - start

    return work


def rows_of(m: int, n: int) -> list[Any]:
    x = np.random.default_rng(0).standard_normal((m, n)).astype(np.float32)
    return [x, np.zeros_like(x), m, n]


def product_of(m: int, n: int, k: int) -> list[Any]:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (n, k)))
    return [np.zeros((m, n), np.float32), a, b, m, n, k]


def checked(name: str, entry: str, file: str, args: Any, dim: tuple[int, int, int] = (1, 1, 1)) -> Row:
    systems = {
        "trilobite": partial(launch, entry, file, args, True, dim),
        "unchecked": partial(launch, entry, file, args, False, dim),
    }
    return Row(name, systems, unit="ms", aim_ratio=5.0, times_itself=True, most_rounds=5)


def scalar(kind: str, dtype: Any, read: str) -> Work:
    from trilobite.processor import Device
    from trilobite.processor.lang.bang.kernel import BangKernel

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "loop.mlu"
        path.write_text(LOOP.replace("READ", read).replace("TYPE", kind), encoding="utf-8")
        device = Device("mlu370-x4")
        kernel = BangKernel(path)
        kernel.program(device.machine)
    given = [device.array(np.zeros(4096, dtype)) for _ in range(2)]
    return lambda: device.launch(kernel, [*given, STEPS], traced=False)


def loop(name: str, other: str, ratio: float, kind: str, dtype: Any, read: str = "(TYPE)0.5f") -> Row:
    """Beside the loop on floats in registers."""
    plain = partial(scalar, "float", np.float32, "0.5f")
    systems = {"trilobite": partial(scalar, kind, dtype, read), other: plain}
    return Row(name, systems, unit="ms", aim_ratio=ratio)


ROWS = (
    Row("library sources, cold, median", {"trilobite": partial(library, "median")}, unit="s", aim=0.5,
        times_itself=True, most_rounds=1),
    Row("library sources, cold, slowest", {"trilobite": partial(library, "slowest")}, unit="s", aim=3.0,
        times_itself=True, most_rounds=1),
    Row("a source with a large host part, cold", {"trilobite": with_host_part}, unit="s", aim=3.0,
        times_itself=True, most_rounds=3),
    checked("checked launch: rows (softmax)", "softmax", "rows", partial(rows_of, 64, 300), (4, 1, 1)),
    checked("checked launch: scalar product in GDRAM", "matmul_1_scalar_gdram", "matmul_ladder",
            partial(product_of, 24, 24, 24)),
    checked("checked launch: product on four cores", "matmul_4_cores", "matmul_ladder",
            partial(product_of, 128, 64, 64), (4, 1, 1)),
    checked("checked launch: pipeline of small tiles", "small_tiles", SMALL_TILES,
            partial(vector_of, 96 * 1024), (4, 1, 1)),
    checked("checked launch: rows with padded lanes", "padded_rows", PADDED_ROWS, partial(vector_of, 100_000),
            (4, 1, 1)),
    loop("scalar loop on half", "float", 2.0, "half", np.float16),
    loop("scalar loop on bfloat16", "float", 2.0, "bfloat16_t", np.uint16),
    loop("scalar loop that reads GDRAM", "float", 10.0, "float", np.float32, "x[i & 4095]"),
)  # fmt: skip
