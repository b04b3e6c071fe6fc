"""Seeded mistakes in the BANG C kernels of the library: compiler and checkers name the lines.

A row names a kernel of the table in `library`, the kind of mistake, and what a mistaken author would have
written. `test_library` checks the correct kernels, and none of them is accused.
"""

# ruff: noqa: E501 (a table of lines of source)
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from harness import EXAMPLES
from library import CASES, Call

from trilobite.base.errors import KernelError, ProcessorFault
from trilobite.processor import Device
from trilobite.processor.lang.bang.clang import find_clang
from trilobite.processor.lang.bang.kernel import BangKernel
from trilobite.processor.lang.bang.source import Options

pytestmark = pytest.mark.skipif(find_clang() is None, reason="there is no clang")

MISTAKES = (
    ("ladder_5", "missing sync", "    __sync();\n", "\n", "__memcpy_async(rows[i % 2]"),
    ("ladder_6", "missing barrier", "    __sync_cluster();\n", "    __sync();\n", "shared_rows[i % 2]"),
    ("ladder_4", "wrong direction", "i += taskDim * ROWS) {\n    int now = i + ROWS <= m ? ROWS : m - i;\n    __memcpy(rows[0], a + i * k, now * k * sizeof(float), GDRAM2NRAM)", "i += taskDim * ROWS) {\n    int now = i + ROWS <= m ? ROWS : m - i;\n    __memcpy(rows[0], a + i * k, now * k * sizeof(float), NRAM2GDRAM)", "__memcpy(rows[0], a + i * k"),
    ("ladder_3", "off by one", "i += ROWS) {\n    int now = i + ROWS <= m ? ROWS : m - i;\n    __memcpy(rows[0], a + i * k, now * k", "i += ROWS) {\n    int now = i + ROWS <= m ? ROWS : m - i + 1;\n    __memcpy(rows[0], a + i * k, now * k", "__memcpy(rows[0], a + i * k"),
    ("matmul_fp16", "missing sync", "    __sync();\n", "\n", "__memcpy_async(rows[s], (half *)a"),
    ("matmul_int8", "overlap", "store(t - 2, t % 2)", "store(t - 2, (t + 1) % 2)", "__memcpy_async(c + first(t) * n"),
    ("convolution", "overlap", "load(t, t % 2)", "load(t, (t + 1) % 2)", "__memcpy_async(band[s]"),
    ("softmax", "missing sync", "    __sync();\n", "\n", "__memcpy_async(row[s]"),
    ("layer_norm", "off by one", "auto at = [&](int t) { return (long)(taskId + t * taskDim) * n; }", "auto at = [&](int t) { return (long)(taskId + t * taskDim) * n + 1; }", "__memcpy_async("),
    ("power_difference", "overlap", "first = taskId * per,", "first = taskId * (per - 3),", "__memcpy(out + i"),
    ("sigmoid", "wrong direction", "__memcpy(nram_a, x + i, now * sizeof(float), GDRAM2NRAM)", "__memcpy(nram_a, x + i, now * sizeof(float), NRAM2GDRAM)", "__memcpy(nram_a"),
    ("sigmoid_backward", "off by one", "const int now = n - i < CHUNK ? n - i : CHUNK;", "const int now = n - i < CHUNK ? n - i + 1 : CHUNK;", "__memcpy(nram_a"),
    ("transpose", "off by one", "h * sizeof(float), w - 1);", "h * sizeof(float), w);", "__memcpy(out + j * rows + i"),
    ("reduce_rows", "wrong direction", "n * sizeof(float), GDRAM2NRAM); }\n__mlu_func__ void store_row", "n * sizeof(float), NRAM2GDRAM); }\n__mlu_func__ void store_row", "void load_row"),
    ("reduce_columns", "off by one", "x + (long)i * n + j, now", "x + (long)(i + 1) * n + j, now", "__memcpy(row, x + (long)(i + 1)"),
    ("top_k", "off by one", "values[i * k + j] = work[0]", "values[i * k + j + 1] = work[0]", "values[i * k + j + 1]"),
    ("embedding_gather", "overlap", "out + (long)i * width", "out + (long)i * (width - 1)", "__memcpy(out + (long)i"),
    ("scatter_add", "off by one", "x + i * width, width * sizeof(float)", "x + i * width, (width + 1) * sizeof(float)", "__memcpy(nram_x, x + i"),
    ("max_pool", "off by one", "__bang_maxpool(pooled, image, c, h, w, kh, kw, sw, sh);\n  __memcpy(out, pooled, p * q", "__bang_maxpool(pooled, image, c, h, w, kh, kw, sw, sh);\n  __memcpy(out, pooled, (p + 1) * q", "__memcpy(out, pooled, (p + 1)"),
    ("average_pool", "alignment", "void average_pool(const float *x, float *out, int h, int w, int c, int kh, int kw, int sh, int sw) {\n  float *image = (float *)nram_buffer;", "void average_pool(const float *x, float *out, int h, int w, int c, int kh, int kw, int sh, int sw) {\n  float *image = (float *)(nram_buffer + 2);", "__bang_avgpool(pooled, image"),
    ("depthwise", "alignment", "float *image = (float *)nram_buffer, *taps", "float *image = (float *)(nram_buffer + 1), *taps", "__bang_write_zero(sum"),
    ("depthwise", "overlap", "out + i * q * c, sum", "out + i * (q * c - 4), sum", "__memcpy(out + i"),
    ("roi_align", "alignment", "float *sum = (float *)nram_buffer, *pixel", "float *sum = (float *)(nram_buffer + 2), *pixel", "__bang_write_value(sum"),
    ("roi_align", "overlap", "* bins + q) * c, sum", "* bins + q) * (c - 1), sum", "__memcpy(out + ((n * bins"),
    ("flash_attention", "missing sync", "      __sync();                                 // units", "      __sync_compute();  // units", "__memcpy_async(to, (float *)from"),
    ("nms", "off by one", "__memcpy(score, scores, n * sizeof(float)", "__memcpy(score, scores + 1, n * sizeof(float)", "__memcpy(score, scores + 1"),
    ("lstm_cell", "overlap", "__memcpy(h + r * hidden, f,", "__memcpy(h + r * (hidden - 1), f,", "__memcpy(h + r"),
    ("flash_attention", "overlap", "__memcpy(out + first * d + c, even", "__memcpy(out + first * (d - 1) + c, even", "__memcpy(out + first"),
    ("matmul_int4", "wrong direction", "__memcpy(left, a, m * k / a_byte, GDRAM2NRAM)", "__memcpy(left, a, m * k / a_byte, NRAM2GDRAM)", "__memcpy(left, a, m * k / a_byte"),
)  # fmt: skip


def checked(call: Call, path: Path) -> None:
    _, entry, *define = call.kernel
    dev = Device("mlu370-x4")
    given = [dev.array(a) if isinstance(a, np.ndarray) else a for a in call.args]
    kernel = BangKernel(path, entry, Options(defines=tuple(define)))
    dev.launch(kernel, given, dim=call.dim, task=call.task, checks=True)


@pytest.mark.parametrize("name, kind, right, wrong, line", MISTAKES, ids=lambda v: str(v)[:18].strip())
def test_a_seeded_mistake_is_named(
    name: str, kind: str, right: str, wrong: str, line: str, tmp_path: Path
) -> None:
    call = CASES[name](np.random.default_rng(3)).bang
    text = (EXAMPLES / "bang" / f"{call.kernel[0]}.mlu").read_text(encoding="utf-8")
    assert right in text
    path = tmp_path / f"{call.kernel[0]}.mlu"
    path.write_text(text.replace(right, wrong, 1), encoding="utf-8")
    with pytest.raises((ProcessorFault, KernelError)) as caught:
        checked(call, path)
    said = str(caught.value)
    changed = path.read_text(encoding="utf-8").splitlines()
    places = [f"{path.name}:{n}" for n, content in enumerate(changed, 1) if line in content]
    assert any(place in said for place in places), said
    if kind in ("missing sync", "missing barrier", "overlap"):
        assert said.count(f"{path.name}:") >= 2, "a race has two lines"


def test_every_kind_occurs_often() -> None:
    kinds = [kind for _, kind, *_ in MISTAKES]
    assert all(
        kinds.count(kind) >= 3
        for kind in ("missing sync", "wrong direction", "off by one", "overlap", "alignment")
    )
    assert len({name for name, *_ in MISTAKES}) >= 25
