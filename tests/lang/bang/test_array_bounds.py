"""Arrays in scratchpads have bounds, sources and results that must lie apart are held to it, lanes whose value does not
matter are no error, and findings speak BANG C."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

from trilobite.processor.tools.findings import CheckFailed

pytestmark = needs_clang
levels = pytest.mark.parametrize("level", LEVELS)

HEAD = """#include <bang.h>
struct Tile { float *to; const float *from; int n; };
__mlu_func__ void add_one(Tile t) { __bang_add_scalar(t.to, t.from, 1.0f, t.n); }
__mlu_func__ void scaled(const Tile &t, int from) { __bang_mul_scalar(t.to + from, t.from, 2.0f, 32); }
__mlu_func__ void planned(Tile &t, float *to, const float *from) { t.to = to; t.from = from; }
__mlu_func__ void forwarded(const Tile &t, int from) { scaled(t, from); }
__mlu_func__ void twice(Tile *t, int from) { Tile *same = t; same->to[from] = same->from[0] * 2.0f; }
__mlu_shared__ float shared[256];
"""
KERNELS = {
    "plain": ("__bang_add(a, a, b, n);", "outside the array a: __bang_add: dst touches bytes 0 to 260 of its 256 (a[0] to [64] of 64), 4 bytes too many"),
    "source": ("__bang_add(c, b + n - 64, b, 64);", "outside the array b: __bang_add: a touches bytes 4 to 260 of its 256"),
    "struct": ("Tile t = {a, b, n}; add_one(t);", "outside the array a: __bang_add_scalar: dst touches bytes 0 to 260"),
    "reference": ("Tile t; planned(t, a, b); forwarded(t, n - 32);", "outside the array a: __bang_mul_scalar: dst touches bytes 132 to 260 of its 256"),
    "past_reference": ("Tile t; planned(t, a, b); scaled(t, n == 64 ? 0 : 70);", "outside the array a: __bang_mul_scalar: dst touches bytes 280 to 408 of its 256"),
    "pointer_to_struct": ("Tile t = {a, b, n}; twice(&t, n - 1);", "outside the array a: a scalar access touches bytes 256 to 260 of its 256"),
    "begins_in_next": ("Tile t; planned(t, b, a); __bang_add(t.to, t.from + (n == 64 ? 0 : 64), t.from, 32);", "outside the array a: __bang_add: a touches bytes 256 to 384 of its 256"),
    "scalar": ("for (int i = 0; i < n; ++i) b[i] = b[i] + 1.0f;", "outside the array b: a scalar access touches bytes 256 to 260 of its 256 (b[64] to [64] of 64), 4 bytes too many"),
    "chosen": ("float *p = n > 1000 ? a : b; __bang_add_scalar(p, p, 1.0f, n);", "__bang_add_scalar: dst touches bytes 0 to 260"),
    "copy": ("__memcpy(c, x, n * sizeof(float), GDRAM2NRAM);", "outside the array c: __memcpy: dst touches bytes 0 to 260 of its 256"),
    "strided": ("__memcpy(a, b, 4, NRAM2NRAM, 8, 4, n / 2 - 1 + n % 2);", "outside the array a: __memcpy: dst touches bytes 0 to 260"),
    "before": ("__bang_add_scalar(b + 64 - n, b, 1.0f, 32);", "outside the array b: __bang_add_scalar: dst touches bytes -4 to 124 of its 256 (b[-1] to [30] of 64), 4 bytes too early"),
    "shared": ("__memcpy(shared + 192, a, n * sizeof(float), NRAM2SRAM);", "outside the array shared: __memcpy: dst touches bytes 768 to 1028 of its 1024"),
    "ping_pong": ("for (int i = 0; i < 4; ++i) { float *p = i % 2 ? a : b; __bang_add_scalar(p, p, 1.0f, i == 3 ? n : 8); }", "touches bytes 0 to 260 of its 256"),
    "carved": ("float *at = buffer; float *u = at; at += 60; float *v = at; __bang_add_scalar(v, u, 1.0f, n + 4);", "outside the array buffer: __bang_add_scalar: dst touches bytes 240 to 516 of its 512"),
}  # fmt: skip


def source_of(body: str) -> str:
    return f"""{HEAD}
__mlu_global__ void k(float *y, const float *x, int n) {{
  __nram__ float a[64];
  __nram__ float b[64];
  __nram__ float c[64];
  __nram__ float buffer[128];
  __memcpy(a, x, sizeof(a), GDRAM2NRAM);
  __memcpy(b, x, sizeof(b), GDRAM2NRAM);
  __memcpy(c, x, sizeof(c), GDRAM2NRAM);
  __memcpy(buffer, x, sizeof(buffer), GDRAM2NRAM);
  {body}
  __memcpy(y, a, sizeof(a), NRAM2GDRAM);
  __memcpy(y + 64, b, sizeof(b), NRAM2GDRAM);
  __memcpy(y + 128, c, sizeof(c), NRAM2GDRAM);
  __memcpy(y + 192, buffer, sizeof(buffer), NRAM2GDRAM);
}}
"""


@levels
@pytest.mark.parametrize("name", KERNELS)
def test_one_element_too_many_is_named(name: str, level: int, tmp_path: Path) -> None:
    body, said = KERNELS[name]
    source = written(source_of(body), tmp_path)
    x = np.arange(200, dtype=np.float32)
    run(source, "k", [np.zeros(400, np.float32), x, 64], level=level)  # as it was meant: clean
    with pytest.raises(CheckFailed) as caught:
        run(source, "k", [np.zeros(400, np.float32), x, 65], level=level)
    found = [finding for finding in caught.value.findings if finding.kind == "bounds"]
    assert any(said in finding.what for finding in found), str(caught.value)
    assert "declared at" in found[0].expected and ".mlu:" in str(found[0])


@levels
def test_a_long_scalar_loop_is_held_to_its_array_at_machine_speed(level: int, tmp_path: Path) -> None:
    text = """#include <bang.h>
__mlu_global__ void k(float *y, const float *x, int n) {
  __nram__ float a[4000];
  __nram__ float b[4000];
  __memcpy(a, x, sizeof(a), GDRAM2NRAM);
  __memcpy(b, x, sizeof(b), GDRAM2NRAM);
  for (int i = 0; i < n; ++i) a[i] = a[i] * 2 + b[0];
  __memcpy(y, a, sizeof(a), NRAM2GDRAM);
}
"""
    source = written(text, tmp_path)
    x = np.arange(4000, dtype=np.float32)
    y, _ = run(source, "k", [np.zeros(4000, np.float32), x, 4000], level=level)
    np.testing.assert_array_equal(y, 2 * x)
    with pytest.raises(
        CheckFailed, match=r"outside the array a: a scalar access touches bytes 16000 to 16004"
    ):
        run(source, "k", [np.zeros(4000, np.float32), x, 4001], level=level)


OVERLAPS = {
    "transpose": (
        "__bang_transpose(buffer + n, buffer, 8, 8);",
        "__bang_transpose: source and result overlap",
    ),
    "copy": ("__memcpy(buffer + n, buffer, 256, NRAM2NRAM);", "__memcpy: source and result overlap"),
    "strided": (
        "__memcpy(buffer + n - 48, buffer, 16, NRAM2NRAM, 32, 32, 3);",
        "__memcpy: source and result overlap",
    ),
    "mirror": ("__bang_mirror(buffer + n, buffer, 4, 16);", "__bang_mirror: source and result overlap"),
}


@levels
@pytest.mark.parametrize("name", OVERLAPS)
def test_a_result_that_lies_on_its_source_is_named(name: str, level: int, tmp_path: Path) -> None:
    body, said = OVERLAPS[name]
    source = written(source_of(body), tmp_path)
    x = np.arange(200, dtype=np.float32)
    clean, wrong = (52, 50) if name == "strided" else (64, 60)
    run(source, "k", [np.zeros(400, np.float32), x, clean], level=level)
    with pytest.raises(CheckFailed) as caught:
        run(source, "k", [np.zeros(400, np.float32), x, wrong], level=level)
    assert [f.kind for f in caught.value.findings] == ["overlap"] and said in str(caught.value)
    assert "buffer, bytes 0 to" in str(caught.value)
    if name != "strided":
        assert ", 16 bytes are common" in str(caught.value)


CARRIED = """#include <bang.h>
__mlu_global__ void k(float *y, const float *x, int n) {
  __nram__ float a[64];
  __nram__ float b[64];
  float total = 0;
  __memcpy(a, x, sizeof(a), GDRAM2NRAM);
  for (int i = 0; i < n; ++i) total += b[i];
  if (total > 3) y[0] = a[5];
}
"""


@levels
def test_scalar_findings_name_variables_and_no_registers(level: int, tmp_path: Path) -> None:
    with pytest.raises(CheckFailed) as caught:
        run(
            written(CARRIED, tmp_path),
            "k",
            [np.zeros(9, np.float32), np.ones(64, np.float32), 6],
            level=level,
        )
    said = str(caught.value)
    assert "uninitialised bytes reach a branch: through total, loaded from byte 0 of b" in said
    assert "control queue, a branch (" in said and "$" not in said and "CBZ" not in said


WIDENED = """#include <bang.h>
__mlu_global__ void k(float *y, const half *x, int n, int at) {
  __nram__ float a[128];
  half *narrow = (half *)a + at;
  __memcpy(narrow, x, n * sizeof(half), GDRAM2NRAM);
  __bang_half2float(a, narrow, n);
  __memcpy(y, a, n * sizeof(float), NRAM2GDRAM);
}
"""


@levels
def test_a_wider_type_may_come_from_the_end_of_its_own_place(level: int, tmp_path: Path) -> None:
    source = written(WIDENED, tmp_path)
    x = np.arange(100).astype(np.float16)
    for at in (100, 101, 256 - 100):
        y, _ = run(source, "k", [np.zeros(100, np.float32), x, 100, at], level=level)
        np.testing.assert_array_equal(y, x)
    with pytest.raises(CheckFailed, match="__bang_half2float: source and result overlap"):
        run(source, "k", [np.zeros(100, np.float32), x, 100, 98], level=level)


PADDED = """#include <bang.h>
__mlu_global__ void fine(float *y, const float *x, int n) {
  __nram__ float a[128], m[128], valid[128], far[128];
  __memcpy(a, x, n * 4, GDRAM2NRAM);
  __bang_incseq(valid, 128);
  __bang_lt_scalar(valid, valid, (float)n, 128);
  __bang_gt_scalar(m, a, 0.5f, 128);      // 0 or 1 in the tail, whatever it compares
  __bang_mul(m, m, valid, 128);           // 0 in the tail
  y[0] = __bang_sum(m, 128);
  __bang_and(m, a, valid, 128);
  y[1] = __bang_sum(m, 128);
  __bang_sub_scalar(far, valid, 1.0f, 128);
  __bang_mul_scalar(far, far, 1e38f, 128);
  __bang_mul_scalar(far, far, 1e38f, 128);
  __bang_add(a, a, far, 128);             // -INF in the tail
  __bang_argmax(m, a, 128);
  y[2] = m[0];
}
__mlu_global__ void shorter(float *y, const float *x, int n) {
  __nram__ float a[128], m[128];
  __memcpy(a, x, n * 4, GDRAM2NRAM);
  __bang_gt_scalar(m, a, 0.5f, 128);
  y[0] = __bang_sum(m, 128);
}
"""


@levels
def test_lanes_that_do_not_matter_are_no_error(level: int, tmp_path: Path, rng: np.random.Generator) -> None:
    source = written(PADDED, tmp_path)
    x = rng.uniform(-3, 3, 100).astype(np.float32)
    y, _ = run(source, "fine", [np.zeros(3, np.float32), x, 100], level=level)
    assert y.tolist() == [(x > 0.5).sum(), 100, x.max()]
    with pytest.raises(CheckFailed, match="uninitialised bytes reach DRAM") as caught:
        run(source, "shorter", [np.zeros(3, np.float32), x, 100], level=level)
    assert "byte 400 of a (nram+" in str(caught.value)


ORDER = """#include <bang.h>
__mlu_shared__ float s[256];
__mlu_global__ void forgets_io(float *y, const float *x) {
  __nram__ float a[64];
  __memcpy_async(a, x, 256, GDRAM2NRAM);
  __bang_add(a, a, a, 64);
  __sync();
  __memcpy(y, a, 256, NRAM2GDRAM);
}
__mlu_global__ void forgets_the_barrier(float *y, const float *x) {
  __nram__ float a[64];
  if (coreId == 1) { __memcpy(a, x, 256, GDRAM2NRAM); __memcpy(s, a, 256, NRAM2SRAM); }
  if (coreId == 0) { __memcpy(a, s, 256, SRAM2NRAM); __memcpy(y, a, 256, NRAM2GDRAM); }
}
"""


@levels
def test_findings_speak_bang_c(level: int, tmp_path: Path) -> None:
    source = written(ORDER, tmp_path)
    x = np.arange(64, dtype=np.float32)
    with pytest.raises(CheckFailed) as caught:
        run(source, "forgets_io", [np.zeros(64, np.float32), x], level=level)
    said = str(caught.value)
    assert len(caught.value.findings) == 1  # one a pair of lines
    assert "a, bytes 0 to 256 (nram+" in said and "put __sync_io() between them" in said
    assert (
        "io queue, __memcpy_async (" in said and "vector queue, __bang_add (" in said and "SYNC" not in said
    )
    with pytest.raises(CheckFailed) as caught:
        run(source, "forgets_the_barrier", [np.zeros(64, np.float32), x], (4, 1, 1), "union1", level=level)
    said = str(caught.value)
    assert "__sync_cluster()" in said and "s, bytes 0 to 256" in said
