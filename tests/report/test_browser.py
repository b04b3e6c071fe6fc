"""The page in a real browser: every view opens, numbers on it are the data's, the console stays silent.

Chromium prints the page's document after its script ran (`--dump-dom`); where no Chromium is installed the
tests are skipped.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import trilobite as tb
from trilobite.processor import Device
from trilobite.report import Subject, processor_subject, write_page
from trilobite.report.graphs import stages_data
from trilobite.report.subjects import Lane, Roofs, Table

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --virtual-time-budget=5000 --enable-logging=stderr --dump-dom"
).split()
KERNEL = """
    .entry f
    .nram
    x: .space 4096
    .text
    f:
        LA     $10, x
        VLOAD  $10, $1, $0, #0
        VEXP   $10, $1, $10
        VSTORE $10, $1, $0, #0
"""


def opened(page: Path, view: int, tmp_path: Path) -> str:
    """The document after the script ran; what the console said is an error."""
    command = [str(CHROMIUM), *OPTIONS, f"--user-data-dir={tmp_path / 'profile'}", f"file://{page}#{view}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert "CONSOLE" not in done.stderr, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert "<nav" in done.stdout
    return re.sub(r'<script type="application/json".*?</script>', "", done.stdout, flags=re.S)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    device = Device("dlp-s")
    run = device.launch(device.load(KERNEL)["f"], args=[device.array(np.ones(777, np.float32)), 777])
    graph = tb.jit(lambda x: tb.sin(x) @ x).lower(tb.ones((4, 4))).graph
    lane = Lane("kernels", "kernel", np.arange(5.0) * 10, np.full(5, 8.0), np.zeros(5, np.uint32))
    other = Subject(
        "cpu", "cpu", "A sentence & more.", "ns", 50.0, [("cycles", "12,345")], [lane], [("a <b>", "")],
        [Table("Kernels", ["kernel", "µs"], [["one", 3.25], ["two", 17]])],
        Roofs([("float32", 2e11)], [("DRAM", 2e10)], [("one", 4e6, 1e6, 1e-4)]),
        [("w", 0.0, 3.0, 4096.0), ("x", 1.0, 2.0, 100.0)], stages_data({"graph": graph}),
    )  # fmt: skip
    path = tmp_path_factory.mktemp("page") / "page.html"
    return write_page(path, "Two runs", [processor_subject(run), other])


@pytest.mark.parametrize(
    ("view", "wanted"),
    [
        (0, ("A sentence &amp; more.", "dlp:dlp-s")),
        (1, ("Comparison", "12,345")),
        (2, ("<canvas", "vector")),
        (3, ("<canvas", "kernel")),
        (4, ("<circle", "float32: 200 Gop/s")),
        (5, ("sin f32[4,4]", "<select")),
        (6, ("Who owns the peak", "4,096")),
        (7, ("Stalls", "Critical path", "Energy")),
        (8, ("Kernels", "3.250", "17")),
    ],
)
def test_every_view_opens_with_its_numbers(
    page: Path, view: int, wanted: tuple[str, ...], tmp_path: Path
) -> None:
    document = opened(page, view, tmp_path)
    for text in wanted:
        assert text in document, text
