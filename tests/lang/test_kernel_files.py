"""Python kernels from the command line: run, check, profile and the debugger take a .py file."""

from __future__ import annotations

from pathlib import Path

import pytest

from trilobite.base.errors import ArgumentError
from trilobite.cli.kernel import kernel
from trilobite.processor.lang.python.file import kernel_of
from trilobite.processor.tools.findings import CheckFailed
from trilobite.processor.tools.launching import named_launch

SOURCE = """
from neighbour import ONE
from trilobite import dlp

@dlp.kernel
def scale(x: dlp.gm[dlp.f32], n: int, a: float, *, tile: int = 64):
    for i in dlp.pipeline(dlp.task_id() * tile, n, dlp.task_dim() * tile):
        m = min(tile, n - i)
        u = dlp.nram(tile, dlp.f32)
        dlp.load(u[:m], x[i : i + m])
        dlp.mul(u[:m], u[:m], a)
        dlp.store(x[i : i + m], u[:m])

@dlp.autotune([{"tile": 32}, {"tile": 64}])
@dlp.kernel
def racy(x: dlp.gm[dlp.f32], *, tile: int = 64):
    u = dlp.nram(tile, dlp.f32)
    dlp.copy_async(u, x[:tile])
    dlp.add(u, u, ONE)
    dlp.copy(x[:tile], u)
"""


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "neighbour.py").write_text("ONE = 1.0\n", encoding="utf-8")
    path = tmp_path / "mine.py"
    path.write_text(SOURCE, encoding="utf-8")
    return str(path)


def test_run_check_and_profile(source: str) -> None:
    words = ["zeros:f32:200", "200", "0.5"]
    told = kernel("run", source, "scale", dim="4", arg=words, define=["tile=32"])
    assert "nram: 384 of" in told and "argument 0: float32 200 [0. 0." in told
    assert "no errors in" in kernel("check", source, "scale", dim="4", arg=words)
    assert "mine.py:10" in kernel("profile", source, "scale", arg=words)
    with pytest.raises(CheckFailed, match=r"mine\.py:18\)[\s\S]*mine\.py:19\)"):
        kernel("check", source, "racy", machine="dlp-m", arg=["zeros:f32:64"])


def test_the_debugger_loads_it(source: str) -> None:
    named = named_launch(source, "dlp-m", "scale", ["zeros:f32:64", "64", "2.0"], "1", "block", level=0)
    run = named.device.launch(named.kernel, named.args, named.dim, named.task)
    assert "mine.py" in run.program.where(0)


def test_what_is_no_kernel_is_said(source: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"mine\.py has 2 kernels[\s\S]*one of scale, racy"):
        kernel_of(source)
    with pytest.raises(ArgumentError, match="has no kernel 'scales'"):
        kernel_of(source, "scales")
    with pytest.raises(ArgumentError, match="scale has no meta-parameter 'tiles'"):
        kernel_of(source, "scale", meta=["tiles=3"])
    with pytest.raises(ArgumentError, match="there is no file"):
        kernel_of(str(tmp_path / "none.py"))
    broken = tmp_path / "broken.py"
    broken.write_text("x = 1\ny = x / 0\n", encoding="utf-8")
    with pytest.raises(ArgumentError, match=r"ZeroDivisionError[\s\S]*broken\.py:2"):
        kernel_of(str(broken))
    broken.write_text("x = 1\n\nfor\n", encoding="utf-8")
    with pytest.raises(ArgumentError, match=r"SyntaxError[\s\S]*broken\.py:3"):
        kernel_of(str(broken))
