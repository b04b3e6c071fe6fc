"""Contracts of intrinsics: refused with the line where a source shows a breach, stopped where a run does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import needs_clang

from trilobite.base.errors import KernelError, ProcessorFault
from trilobite.processor import Device
from trilobite.processor.lang.bang.kernel import BangKernel
from trilobite.processor.lang.bang.source import Options, compile_file
from trilobite.processor.machine import load_machine

pytestmark = needs_clang
HEAD = "#include <bang.h>\n__nram__ float a[256], b[256], c[256];\n"


def written(body: str, folder: Path) -> Path:
    path = folder / "contract.mlu"
    path.write_text(HEAD + "__mlu_global__ void k(float *x, int n, int skip) {\n" + body + "\n}\n", "utf-8")
    return path


def refused(body: str, folder: Path, machine: str) -> str:
    with pytest.raises(KernelError) as caught:
        compile_file(written(body, folder), load_machine(machine))
    return str(caught.value)


def test_2xx_takes_vectors_of_whole_lines(tmp_path: Path) -> None:
    body = "  __bang_add(a, b, c, 33);\n  __bang_mul(a, b + 3, c, 64);\n  __bang_add_scalar(a, a, 2, 32);"
    said = refused(body, tmp_path, "mlu270")
    assert (
        "contract.mlu:4:3: __bang_add: n is 33, 132 bytes; mlu270 takes vectors of multiples of 128" in said
    )
    assert "contract.mlu:5:3: __bang_mul: a lies 12 bytes behind a multiple of 64" in said
    assert "contract.mlu:6" not in said
    compile_file(written(body, tmp_path), load_machine("mlu370-x4"))


@pytest.mark.parametrize("machine", ["mlu270", "mlu370-x4"])
def test_what_does_not_work_in_place(machine: str, tmp_path: Path) -> None:
    said = refused(
        "  __bang_transpose(a, a, 16, 16);\n  __bang_mirror(b + 8, b + 8, 2, 32);", tmp_path, machine
    )
    assert "contract.mlu:4:3: __bang_transpose: dst and src are one place; it does not work in place" in said
    assert "contract.mlu:5:3: __bang_mirror: dst and src are one place" in said


def test_what_sources_do_in_place_is_allowed(tmp_path: Path) -> None:
    body = "  __bang_add(a, a, a, n);\n  __bang_sumpool(a, a, 4, 1, 8, 1, 8, 1, 1);\n  __bang_relu(b, b, n);"
    compile_file(written(body, tmp_path), load_machine("mlu270"))


def test_negative_counts(tmp_path: Path) -> None:
    assert "n is -4, a count is at least 0" in refused("  __bang_add(a, b, c, -4);", tmp_path, "mlu370-x4")


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize(
    ("n", "skip", "fine"), [(64, 0, True), (64, 16, True), (63, 0, False), (64, 1, False)]
)
def test_a_run_stops_where_a_contract_breaks(
    n: int, skip: int, fine: bool, level: int, tmp_path: Path
) -> None:
    body = "  __memcpy(b, x, 256, GDRAM2NRAM);\n  __bang_add(a, b + skip, b, n);"
    kernel = BangKernel(written(body, tmp_path), "k", Options(level=level, contracts=True))
    device = Device("mlu270")
    args = [device.array(np.ones(64, np.float32)), n, skip]
    if fine:
        device.launch(kernel, args, traced=False)
        return
    with pytest.raises(ProcessorFault, match=r"trapped with code 3[\s\S]*contract\.mlu:5"):
        device.launch(kernel, args, traced=False)


def test_a_run_stops_where_places_meet(tmp_path: Path) -> None:
    body = "  __memcpy(b, x, 256, GDRAM2NRAM);\n  __bang_transpose(b + skip, b, 8, 8);"
    kernel = BangKernel(written(body, tmp_path), "k", Options(contracts=True))
    device = Device("mlu370-x4")
    x = device.array(np.ones(64, np.float32))
    device.launch(kernel, [x, 0, 64], traced=False)
    with pytest.raises(ProcessorFault, match="trapped with code 3"):
        device.launch(kernel, [x, 0, 0], traced=False)
