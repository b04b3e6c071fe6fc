"""Contracts of intrinsics: refused with the line where a source shows a breach, stopped where a run does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import needs_clang

from trilobite.base.errors import KernelError, ProcessorFault
from trilobite.processor import Device
from trilobite.processor.isa.rows.matrix import float_chain
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
    with pytest.raises(ProcessorFault, match=r"code 3: .*__bang_transpose: dst and src are one place"):
        device.launch(kernel, [x, 0, 0], traced=False)


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize(("ci", "co"), [(16, 128), (5, 7)])
def test_a_partial_sum_goes_on_in_its_own_place(level: int, ci: int, co: int, tmp_path: Path) -> None:
    """The bits of one chain; apart from it the sum is added behind the product."""
    source = tmp_path / "partial.mlu"
    source.write_text(
        f"""#include <bang.h>
__nram__ float image[6 * {ci}], start[6 * {co}], apart[6 * {co}];
__nram__ float deal[{co * ci}];
__wram__ float filters[{co * ci}];
__mlu_entry__ void k(float *x, float *f, float *s, float *in_place, float *other) {{
  __memcpy(image, x, sizeof(image), GDRAM2NRAM);
  __memcpy(deal, f, sizeof(deal), GDRAM2NRAM);
  __memcpy(start, s, sizeof(start), GDRAM2NRAM);
  __memcpy(filters, deal, sizeof(deal), NRAM2WRAM);
  __bang_conv_partial(apart, image, filters, start, {ci}, 3, 2, 1, 1, 1, 1, {co});
  __bang_conv_partial(start, image, filters, start, {ci}, 3, 2, 1, 1, 1, 1, {co});
  __memcpy(in_place, start, sizeof(start), NRAM2GDRAM);
  __memcpy(other, apart, sizeof(apart), NRAM2GDRAM);
}}
""",
        "utf-8",
    )
    rng = np.random.default_rng(3)
    x, f, s = (rng.normal(size=n).astype(np.float32) for n in ((6, ci), (co, ci), (6, co)))
    order = np.arange(co).reshape(64, -1).T.reshape(-1) if co % 64 == 0 else np.arange(co)
    device = Device("mlu370-x4")
    given = [device.array(a) for a in (x, f, s, np.zeros_like(s), np.zeros_like(s))]
    device.launch(BangKernel(source, "k", Options(level=level)), given)
    chain = float_chain(x, f[order].T, s)
    behind = s + float_chain(x, f[order].T, np.zeros_like(s))
    assert (given[3].numpy() == chain).all()
    assert (given[4].numpy() == behind).all()


def test_a_kernel_with_contracts_is_its_own_checked_form(tmp_path: Path) -> None:
    machine, path = load_machine("mlu370-x4"), written("  __bang_add(a, b, c, n);", tmp_path)
    strict = BangKernel(path, "k", Options(contracts=True))
    assert strict.checked(machine) is strict
    plain = BangKernel(path, "k", Options())
    eager = plain.checked(machine)
    assert eager is not plain and plain.checked(machine) is eager and eager.checked(machine) is eager
