"""The demo's index page: what was shown, with its pictures and figures, in one HTML file beside them.

Enters: the parts of the demo. Leaves: a page without scripts that needs no network. All text is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from trilobite.apps.assets import ASSETS
from trilobite.apps.demo_part import Part


def write_index(path: Path, parts: Sequence[Part], machine: str, seconds: float) -> Path:
    """The page's own path."""
    style = files("trilobite.apps").joinpath("demo.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src 'self' file: data:; style-src 'sha256-{digest}'"
    body = "\n".join(line for part in parts for line in _section(part))
    text = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>Trilobite: the demo</title><style>{style}</style></head><body><main>
<header><h1>Trilobite</h1>
<p class="lead">One network, from the picture to the chip: native code on this CPU, machine code on the
simulated processor {escape(machine)}. All of it was computed in {seconds:.0f} seconds on this machine.</p>
</header>
{"".join(_hero(parts))}{"".join(_tiles(parts))}
{body}
<section><h2>Try next</h2><pre>{escape(_next(machine))}</pre></section>
<footer>{_credits()}</footer>
</main></body></html>
"""
    path.write_text(text, encoding="utf-8")
    return path


def _next(machine: str) -> str:
    return "\n".join(f"# {what}\n{line}" for what, line in next_steps(machine))


def next_steps(machine: str) -> list[tuple[str, str]]:
    """What one might do next, and the line to type: the command as this shell finds it."""
    trilobite = command_name()
    return [
        (
            "another style: 0 to 25, or a mixture such as 3:0.7,11:0.3",
            f"{trilobite} style YOUR.jpg 11 -o styled.png",
        ),
        ("any picture as the style", f"{trilobite} style YOUR.jpg PAINTING.jpg -o styled.png"),
        (
            "where the time of a network goes, on both",
            f"{trilobite} profile resnet18 --on cpu --on dlp:{machine} -o report.html",
        ),
        ("watch something in the browser while it runs", f"{trilobite} studio digits"),
        ("the labs of the course", f"{trilobite} labs"),
    ]


def command_name() -> str:
    """`trilobite` where the shell finds it, else its path: its environment need not be active."""
    beside = Path(sys.executable).parent / "trilobite"
    if shutil.which("trilobite") or not beside.is_file():
        return "trilobite"
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


def _hero(parts: Sequence[Part]) -> Iterator[str]:
    shown = [pair for part in parts for pair in part.shown][:3]
    if len(shown) == 3:
        yield '<div class="hero">'
        for name, caption in shown:
            yield f'<img src="{escape(name)}" alt="{escape(caption)}">'
        yield "</div>"


def _tiles(parts: Sequence[Part]) -> Iterator[str]:
    """The figures that people ask for first."""
    numbers = {name: value for part in parts for name, value in part.numbers.items()}
    found = [
        ("a picture", 1e3, "{:.0f} ms", "a picture of {width:.0f} x {height:.0f} in a style, on this CPU"),
        (
            "chip seconds",
            1e3,
            "{:.2f} ms",
            "a picture of {chip width:.0f} x {chip height:.0f} on the processor, simulated",
        ),
        ("joules", 1e3, "{:.1f} mJ", "energy of that one there"),
        ("levels apart", 1, "{:.3f} / 255", "between CPU and processor, at most"),
        ("jit step", 1e3, "{:.2f} ms", "a compiled training step of 32 digits"),
        ("read right", 100, "{:.1f} %", "of new digits read right afterwards"),
    ]
    tiles = [
        (form.format(numbers[n] * scale), text.format_map(numbers))
        for n, scale, form, text in found
        if n in numbers
    ]
    if tiles:
        inside = "".join(
            f'<div class="tile"><b>{escape(a)}</b><span>{escape(b)}</span></div>' for a, b in tiles
        )
        yield f'<div class="tiles">{inside}</div>'


def _section(part: Part) -> Iterator[str]:
    yield f"<section><h2>{escape(part.title)} <small>{part.seconds:.0f} s</small></h2>"
    if part.lines:
        yield "<ul>" + "".join(_line(line) for line in part.lines) + "</ul>"
    if part.shown:
        kind = "row" if len(part.shown) > 1 else "wide"
        yield f'<div class="{kind}">' + "".join(_figure(*pair) for pair in part.shown) + "</div>"
    if part.pairs:
        inside = "".join(f'<div class="pair">{_figure(*a)}{_figure(*b)}</div>' for a, b in part.pairs)
        yield f'<div class="pairs">{inside}</div>'
    if part.code[1]:
        yield f"<details><summary>{escape(part.code[0])}</summary><pre>{escape(part.code[1])}</pre></details>"
    if part.pages:
        links = "".join(f'<li><a href="{escape(n)}">{escape(n)}</a>{escape(t)}</li>' for n, t in part.pages)
        yield f'<ul class="pages">{links}</ul>'
    if part.failed:
        yield f'<p class="failed">Left out: {escape(part.failed)}</p>'
    yield "</section>"


def _line(text: str) -> str:
    kind = next((f' class="{w}"' for w in ("agrees", "differs") if text.lower().startswith(f"{w}:")), "")
    return f"<li{kind}>{escape(text)}</li>"


def _figure(name: str, caption: str) -> str:
    image = f'<img src="{escape(name)}" alt="{escape(caption)}">'
    linked = f'<a href="{escape(name)}">{image}</a>'
    return f"<figure>{linked}<figcaption>{escape(caption)}</figcaption></figure>"


def _credits() -> str:
    return "Pictures and weights: " + "; ".join(escape(asset.credit) for asset in ASSETS.values()) + "."
