"""The demo: its parts' claims are checked, its page shows them, and hostile captions stay text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tools.browser import CHROMIUM, Browser
from trilobite.apps import assets, demo
from trilobite.apps.demo_page import write_index
from trilobite.apps.demo_part import Part
from trilobite.apps.style import int8

NASTY = '"><img src=x onerror=hacked=1><script>hacked=2</script>'
RNG = np.random.default_rng(3)


def pixels() -> np.ndarray:
    return RNG.random((8, 12, 3)).astype(np.float32)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    good, bad = Part("A part"), Part(NASTY)
    for n in range(3):
        good.show(tmp_path, f"p{n}.png", f"picture {n}", pixels())
    good.beside(tmp_path, ("a.png", "left", pixels()), ("b.png", "right", pixels()))
    good.numbers |= {"a picture": 0.1234, "width": 12, "height": 8, "joules": 0.002}
    good.check(True, "they are equal", "they are not")
    good.code = ("kernel.mlu", f"// {NASTY}")
    bad.failed = NASTY
    bad.check(False, "they are equal", f"not equal {NASTY}")
    assert bad.wrong and not good.wrong
    return write_index(tmp_path / "index.html", [good, bad], NASTY, 12.0)


def test_the_page_names_licences_and_figures(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for asset in assets.ASSETS.values():
        assert asset.credit in text
    assert (
        "a picture of 12 x 8 in a style" in text
        and "123 ms" in text
        and "2.0 mJ" in text
        and "agrees: they are equal" in text
    )
    assert "<script" not in text and "DIFFERS: not equal" in text


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_the_page_opens_with_all_its_pictures(page: Path) -> None:
    with Browser() as browser:
        browser.open(page)
        assert browser.run("[...document.images].every(i => i.complete && i.naturalWidth === 12)")
        assert browser.run("window.hacked") is None and not browser.problems
        assert NASTY in browser.text()
        browser.resize(360, 800, phone=True)
        assert browser.run("document.documentElement.scrollWidth") <= 360


@pytest.mark.long
def test_the_demo_runs_twice_and_its_checks_hold(tmp_path: Path) -> None:
    for _ in range(2):
        demo.main("", tmp_path, "dlp-s", 96, 32)
    timings = json.loads((tmp_path / "timings.json").read_text())
    assert timings["The same network on the processor dlp-s"]["levels apart"] <= 1
    for name in ("index.html", "report.html", "kernel.html", "style-7.png", "chip-7.png", "any-style.png"):
        assert (tmp_path / name).stat().st_size > 500


@pytest.mark.long
@pytest.mark.parametrize("asset", ["arbitrary_transform", "arbitrary_predict"])
def test_every_8_bit_convolution_is_the_same_on_the_processor(asset: str) -> None:
    singles = list(int8.convolutions(asset))
    assert len(singles) == {"arbitrary_transform": 42, "arbitrary_predict": 53}[asset]
    differing = [single.name for n, single in enumerate(singles) if not int8.compare(single, "dlp:dlp-m", n)]
    assert not differing
