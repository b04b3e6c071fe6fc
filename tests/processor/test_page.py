"""The page of a launch is well-formed, whole and self-contained, and shows what the run says."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from trilobite.processor import Device
from trilobite.processor.tools import page

SOURCE = """
    LI $1, #nram(0)
    SMOVE $2, #999
    VLOAD $1, $2, $0, #0
    SYNC
    VEXP $1, $2, $1
    SYNC
    VSTORE $1, $2, $0, #0
"""


def test_the_page_shows_every_slice_and_figure(tmp_path: Path, monkeypatch) -> None:
    device = Device("dlp-m")
    x = device.array(np.zeros(999, np.float32))
    run = device.launch(device.load(SOURCE), [x], dim=(3, 1, 1))
    run.report(tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text()
    assert "<script" not in text and "href=" not in text and "src=" not in text
    body = text.replace("<!doctype html>", "").replace('<meta charset="utf-8">', "")
    tree = ElementTree.fromstring(body)
    assert tree.find(".//h1").text == f"dlp-m: {run.cycles} cycles"
    names = {"{http://www.w3.org/2000/svg}rect", "rect"}
    slices = [node for node in tree.iter() if node.tag in names]
    wanted = sum(len(core.operations) + len(core.segments) for core in run.timeline.cores)
    assert len(slices) == wanted
    cells = [node.text for node in tree.iter("td")]
    assert cells.count(str(run.cycles)) == len(run.stalls)
    assert "0.0 vector" in cells and "<text>:6" in cells
    monkeypatch.setattr(page, "MAX_SLICES", 5)
    assert f"{wanted - 5} shorter slices are not drawn." in page.html_page(run)
