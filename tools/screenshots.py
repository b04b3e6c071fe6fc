"""Pictures of pages for the pages: the demo's pictures and its index, and views of a report, as small JPEGs.

Enters: the directory that `trilobite demo` wrote (`out/demo` if none is named). Leaves: demo*.jpg and
report-*.jpg in docs/pictures. The report is that of a small transformer on the CPU and on dlp-m, profiled
anew. Needs Chromium. `python -m tools.screenshots [DIRECTORY]` wants a quiet machine: figures in the pictures
are measured.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from tools.browser import Browser
from tools.pictures import PICTURES, ROOT
from trilobite.cli.models.profile import profile

PAINTED = ("content", "style-2", "style-7", "style-11", "style-18", "any-style")
NETWORK = "char_transformer"
SIZE = (1200, 800)  # of the browser's window
SHOWN = (1000, 667)  # of the pictures
QUALITY = 74


def sheet(demo: Path, target: Path) -> None:
    """The photograph and what was made of it, three a row."""
    width, gap = 304, 2
    found = [Image.open(demo / f"{name}.png").convert("RGB") for name in PAINTED]
    height = round(found[0].height * width / found[0].width)
    whole = Image.new("RGB", (3 * width + 2 * gap, 2 * height + gap), "white")
    for number, picture in enumerate(found):
        row, column = divmod(number, 3)
        whole.paste(picture.resize((width, height)), (column * (width + gap), row * (height + gap)))
    whole.save(target, quality=QUALITY)


def kept(browser: Browser, target: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        taken = Path(directory) / "taken.png"
        browser.picture(taken)
        Image.open(taken).convert("RGB").resize(SHOWN, Image.Resampling.LANCZOS).save(target, quality=QUALITY)


def open_modules(browser: Browser) -> None:
    """Down to the equations of the longest kernel."""
    for _ in range(6):
        browser.run(
            "(() => { const all = document.querySelectorAll('.tree details:not([open])');"
            " const inside = [...all].find(d => !d.previousElementSibling ||"
            " d.previousElementSibling.tagName !== 'DETAILS'); if (inside) inside.open = true; })()"
        )
        browser.frame()


def open_graph(browser: Browser) -> None:
    browser.run(
        "[...document.querySelectorAll('button')].find(b => b.innerText === 'open all modules').click()"
    )
    browser.frame()


VIEWS: dict[str, Callable[[Browser], None]] = {
    "modules": open_modules,
    "graph": open_graph,
    "timeline": lambda browser: None,
    "roofline": lambda browser: None,
}


def main(demo: Path) -> None:
    sheet(demo, PICTURES / "demo.jpg")
    with Browser(*SIZE) as browser, tempfile.TemporaryDirectory() as directory:
        browser.open(demo / "index.html")
        kept(browser, PICTURES / "demo-page.jpg")
        page = Path(directory) / "report.html"
        profile(NETWORK, on=["cpu", "dlp:dlp-m"], output=str(page))
        for view, prepare in VIEWS.items():
            browser.open(page, f"#{view}.1")
            prepare(browser)
            kept(browser, PICTURES / f"report-{view}.jpg")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "out" / "demo")
