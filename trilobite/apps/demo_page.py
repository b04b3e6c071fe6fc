"""The demo's index page: what was shown, with its pictures and figures, in one HTML file beside them.

Enters: the parts of the demo. Leaves: a page without scripts that needs no network. All text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Protocol

from trilobite.apps.assets import ASSETS


class Shown(Protocol):
    """What a part of the demo has to show."""

    title: str
    lines: list[str]
    shown: list[tuple[str, str]]
    failed: str


STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fbfaf7; --soft: #6b7280; --line: #d9d6ce;
        --mark: #0b6e8f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e6e1; --paper: #16181c; --soft: #9aa3ad; --line: #33373d; --mark: #5fc0de; }
}
body { margin: 0 auto; max-width: 66rem; padding: 1.5rem; font: 1rem/1.55 system-ui, sans-serif;
       color: var(--ink); background: var(--paper); }
h1 { font-size: 1.7rem; margin: .4rem 0; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; }
p.lead, footer, figcaption { color: var(--soft); }
.row { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 1rem; }
figure { margin: 0; } img { width: 100%; border-radius: .4rem; border: 1px solid var(--line); }
figcaption { font-size: .9rem; } ul { padding-left: 1.2rem; } a { color: var(--mark); }
.failed { border-left: .3rem solid #c2410c; padding-left: .8rem; white-space: pre-wrap; }
footer { border-top: 1px solid var(--line); margin-top: 3rem; padding-top: 1rem; font-size: .85rem; }
"""
POLICY = "default-src 'none'; img-src 'self' file: data:; style-src 'unsafe-inline'"


def write_index(path: Path, parts: Sequence[Shown], machine: str, seconds: float) -> Path:
    """The page's own path."""
    body = "\n".join(line for part in parts for line in _section(part))
    pages = [p.name for p in sorted(path.parent.glob("*.html")) if p.name != path.name]
    links = " · ".join(f'<a href="{escape(name)}">{escape(name)}</a>' for name in pages)
    text = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>Trilobite: the demo</title><style>{STYLE}</style></head><body>
<h1>Trilobite</h1>
<p class="lead">One network, from the picture to the chip: native code on this CPU, machine code on the
simulated processor {escape(machine)}. {seconds:.0f} seconds in all. {links}</p>
{body}
<footer>{_credits()}</footer>
</body></html>
"""
    path.write_text(text, encoding="utf-8")
    return path


def _section(part: Shown) -> Iterator[str]:
    yield f"<section><h2>{escape(part.title)}</h2>"
    if part.lines:
        yield "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in part.lines) + "</ul>"
    if part.shown:
        yield '<div class="row">'
        for name, caption in part.shown:
            yield f'<figure><img src="{escape(name)}" alt="{escape(caption)}">'
            yield f"<figcaption>{escape(caption)}</figcaption></figure>"
        yield "</div>"
    if part.failed:
        yield f'<p class="failed">Left out: {escape(part.failed)}</p>'
    yield "</section>"


def _credits() -> str:
    return "Pictures and weights: " + "; ".join(escape(asset.credit) for asset in ASSETS.values()) + "."
