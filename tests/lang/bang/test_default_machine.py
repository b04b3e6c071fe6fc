"""A command that names no machine: the one default, or a part that holds what a BANG C source declares."""

from __future__ import annotations

from pathlib import Path

import pytest
from bang_harness import needs_clang

from trilobite.base.errors import KernelError
from trilobite.cli.kernel import kernel

pytestmark = needs_clang

SOURCE = """
#include <bang.h>
__nram__ float whole[%d];
__mlu_global__ void doubled(float *y, const float *x, int n) {
  __memcpy(whole, x, n * sizeof(float), GDRAM2NRAM);
  __bang_add(whole, whole, whole, n);
  __memcpy(y, whole, n * sizeof(float), NRAM2GDRAM);
}
"""
ARGS = ["empty:f32:64", "random:f32:64", "64"]


def written(folder: Path, kib: int) -> str:
    path = folder / "whole.mlu"
    path.write_text(SOURCE % (kib * 256), "utf-8")
    return str(path)


def test_what_fits_the_default_machine_runs_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kernel("run", written(tmp_path, 512), arg=ARGS).startswith("doubled on dlp-m\n")
    assert capsys.readouterr().err == ""


def test_what_does_not_takes_a_part_that_has_room_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kernel("check", written(tmp_path, 700), arg=ARGS).startswith("doubled on mlu370-x4\n")
    said = capsys.readouterr().err
    assert (
        "nram overflows by 192512 bytes" in said
        and "so it runs on mlu370-x4 (--machine names another)" in said
    )


def test_a_named_machine_stays_and_the_message_names_those_that_fit(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=r"a machine with more: mlu370-x4") as caught:
        kernel("run", written(tmp_path, 700), machine="dlp-s", arg=ARGS)
    assert "dlp-s has" in str(caught.value)


def test_what_fits_nowhere_is_refused_with_the_default_machines_figures(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match="dlp-m has 524288"):
        kernel("run", written(tmp_path, 5000), arg=ARGS)
