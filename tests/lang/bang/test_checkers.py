"""Kernels with one seeded mistake each: the checker names the lines."""

# ruff: noqa: E501 (tables and sources of kernels)
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bang_harness import KERNELS, needs_clang, run, written

from trilobite.base.errors import ProcessorFault
from trilobite.processor.device import Device
from trilobite.processor.lang.bang.kernel import BangKernel

pytestmark = needs_clang


def floats(*shape: int) -> Any:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def ladder() -> list[Any]:
    return [np.zeros((64, 32), np.float32), floats(64, 16), floats(32, 16), 64, 32, 16]


def pieces() -> list[Any]:
    return [floats(8 * 256 * 3), np.zeros(8 * 256 * 3, np.float32), 8 * 256 * 3]


# file, kernel, arguments, task type, what is replaced, by what, lines that the finding must name
MISTAKES: dict[str, tuple[str, str, Any, str, str, str, list[str]]] = {
    "pipeline without its sync": (
        "clusters", "ping_pong", pieces, "union2", "    __sync();\n  }\n}\n\n// SRAM", "  }\n}\n\n// SRAM",
        ["__memcpy_async(in[", "__bang_square("],
    ),
    "one buffer for two": (
        "clusters", "ping_pong", pieces, "union2", "__memcpy_async(in[i % 2], from", "__memcpy_async(in[(i + 1) % 2], from",
        ["__memcpy_async(in["],
    ),
    "stored before it is computed": (
        "clusters", "ping_pong", pieces, "union2", "result[i % 2], PART", "result[(i + 1) % 2], PART",
        ["__memcpy_async(to"],
    ),
    "neighbours without a barrier": (
        "clusters", "neighbours", lambda: [floats(2, 4, 64), np.zeros((2, 4, 64), np.float32), 64], "union2",
        "  __sync_cluster();\n  if (!__is_mpu()) {\n    __memcpy(other", "  if (!__is_mpu()) {\n    __memcpy(other",
        ["__memcpy(other, shared", "__memcpy(shared + coreId"],
    ),
    "a table that is read before it is there": (
        "clusters", "broadcast_table", lambda: [floats(64), floats(8, 64), np.zeros((8, 64), np.float32), 64], "union2",
        "  __sync_cluster();\n  if (__is_ipu())", "  if (__is_ipu())",
        ["__memcpy(shared, table", "__memcpy(other, shared"],
    ),
    "parts that overlap": (
        "clusters", "neighbours", lambda: [floats(2, 4, 64), np.zeros((2, 4, 64), np.float32), 64], "union2",
        "__memcpy(shared + coreId * n, mine", "__memcpy(shared + coreId * (n - 8), mine",
        ["__memcpy(shared + coreId"],
    ),
    "sums before the barrier": (
        "clusters", "reduce_all", lambda: [floats(8, 32), np.zeros(8, np.float32), np.zeros(1, np.float32), 32], "union2",
        "  __sync_all_ipu();\n", "", ["partial[taskId] = sum", "total += partial[i]"],
    ),
    "rows one too far": (
        "rows", "add_bias", lambda: [floats(8, 32), floats(32), np.zeros((8, 32), np.float32), 8, 32], "block",
        "__memcpy(out + i * n, block, now * n", "__memcpy(out + (i + 1) * n, block, now * n", ["__memcpy(out + (i + 1)"],
    ),
    "a stride that is off by one": (
        "rows", "transpose", lambda: [floats(70, 70), np.zeros((70, 70), np.float32), 70, 70], "block",
        "h * sizeof(float), w - 1);", "h * sizeof(float), w);", ["__memcpy(out + j * rows"],
    ),
    "a result that nobody computed": (
        "selection", "compact", lambda: [floats(64), np.zeros(64, np.float32), np.zeros(1, np.int32), 64, 0.0], "block",
        "int kept = __bang_filter(c, a, b, n);", "int kept = n;", ["__memcpy(out, c"],
    ),
    "the last stage without a sync": (
        "matmul_ladder", "matmul_5_pipeline", ladder, "union1", "    __sync();\n  }\n}\n\n// 6", "  }\n}\n\n// 6",
        ["__memcpy_async(rows[i % 2]", "__bang_matmul(result[(i - 1)"],
    ),
    "five stages without a barrier": (
        "matmul_ladder", "matmul_6_sram", ladder, "union1", "    __sync_cluster();\n", "    __sync();\n",
        ["shared_rows"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_the_mistake_is_named(name: str, tmp_path: Path) -> None:
    file, kernel, args, task, right, wrong, lines = MISTAKES[name]
    text = (KERNELS / f"{file}.mlu").read_text(encoding="utf-8")
    assert text.count(right) == 1
    path = tmp_path / f"{file}.mlu"
    path.write_text(text.replace(right, wrong), encoding="utf-8")
    dim = {"union2": (8, 1, 1), "union1": (4, 1, 1)}.get(task, (1, 1, 1))
    with pytest.raises(ProcessorFault) as caught:
        run(path, kernel, args(), dim, task, level=0 if name == "a result that nobody computed" else 2)
    said, changed = str(caught.value), path.read_text(encoding="utf-8").splitlines()
    for wanted in lines:
        places = [f"{file}.mlu:{n}" for n, line in enumerate(changed, 1) if wanted in line]
        assert any(f"{place})" in said for place in places), (wanted, said)


ENDLESS = """#include <bang.h>
__mlu_global__ void vectors(float *y, unsigned step) {
  __nram__ float a[64];
  __bang_write_value(a, 64, 1.0f);
  for (unsigned i = 0; i != 1; i += step) __bang_mul_scalar(a, a, 0.5f, 64);
  __memcpy(y, a, sizeof(a), NRAM2GDRAM);
}
"""


def test_an_endless_kernel_is_bounded_under_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the instructions that are looked at one by one, which take the time; a limit that is given stands."""
    kernel = BangKernel(written(ENDLESS, tmp_path), "vectors")
    device = Device("mlu370-x4")
    given = [device.array(np.zeros(64, np.float32)), 2]
    monkeypatch.setattr("trilobite.processor.device.MOST_ONE_BY_ONE", 2000)
    with pytest.raises(ProcessorFault, match="the check looked at 2000 instructions one by one"):
        device.launch(kernel, given, checks=True, traced=False)
    with pytest.raises(ProcessorFault, match=r"over its limit of 3000 instructions"):
        device.launch(kernel, given, checks=True, traced=False, limit=3000)


def test_undefined_bytes_of_another_core_are_called_by_their_source(tmp_path: Path) -> None:
    """Through shared memory, and where the first of them are not the first bytes that are read."""
    text = """#include <bang.h>
__mlu_shared__ float all[4 * 64];
__nram__ float mine[64];
__nram__ float never[64];
__mlu_global__ void k(float *y) {
  if (coreId == 0) __bang_write_value(mine, 64, 1.0f);
  if (coreId > 0 && coreId < 4) __bang_add_scalar(mine, never, 1.0f, 64);
  if (coreId < 4) __memcpy(all + coreId * 64, mine, 256, NRAM2SRAM);
  __sync_cluster();
  if (coreId == 0) __memcpy(y, all, 1024, SRAM2GDRAM);
}
"""
    with pytest.raises(ProcessorFault, match="768 of 1024 bytes, byte 0 of never"):
        run(written(text, tmp_path), "k", [np.zeros(256, np.float32)], (4, 1, 1), "union1")
