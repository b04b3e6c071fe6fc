"""Points in a plane as a picture (SVG): who is on the front, and of which of two kinds each is.

Enters: marks, names of the axes. Leaves: the text of the picture, complete by itself. Both axes begin at
zero; the front is drawn as the steps that no point lies below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 460
LEFT, RIGHT, TOP, BOTTOM = 76, 24, 48, 56
_INK, _GRID, _FIRST, _SECOND, _FRONT = "#1c2a33", "#d9e0e4", "#0b7285", "#ffffff", "#c92a2a"


@dataclass(frozen=True)
class Mark:
    """A point: its place, what a pointer over it shows, of which kind it is, whether it is on the front."""

    x: float
    y: float
    text: str
    is_first: bool
    on_front: bool


def ticks(most: float, about: int = 5) -> list[float]:
    """Round numbers from zero to beyond `most`."""
    if not most > 0 or not math.isfinite(most):
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(most / about))
    step = next(n * power for n in (1, 2, 5, 10) if n * power * about >= most * 0.999)
    return [i * step for i in range(math.ceil(most / step - 1e-9) + 1)]


def scatter(marks: Sequence[Mark], title: str, across: str, up: str, kinds: tuple[str, str]) -> str:
    """The picture."""
    columns, rows = (
        ticks(max((v for v in values), default=0.0))
        for values in zip(*((m.x, m.y) for m in marks), strict=True)
    )

    def place(x: float, y: float) -> tuple[float, float]:
        wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return LEFT + wide * x / columns[-1], HEIGHT - BOTTOM - high * y / rows[-1]

    parts = [*_frame(columns, rows, place, across, up, title), _steps(marks, columns[-1], rows[-1], place)]
    for m in sorted(marks, key=lambda m: m.on_front):
        x, y = place(m.x, m.y)
        fill, edge = (_FIRST if m.is_first else _SECOND), (_FRONT if m.on_front else _FIRST)
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{fill}" stroke="{edge}" stroke-width="2">'
        parts.append(f"{shape}<title>{escape(m.text)}</title></circle>")
    parts += _legend(kinds)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}'
    style = 'font-family="system-ui, sans-serif" font-size="12"'
    return (
        f'{head} {style}>\n<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _frame(
    columns: list[float], rows: list[float], place: object, across: str, up: str, title: str
) -> list[str]:
    assert callable(place)
    out = [_text(LEFT, 26, title, size=15)]
    for x in columns:
        (px, _), base = place(x, 0.0), HEIGHT - BOTTOM
        out.append(_line(px, TOP, px, base, _GRID))
        out.append(_text(px, base + 18, f"{x:.4g}", "middle"))
    for y in rows:
        _, py = place(0.0, y)
        out.append(_line(LEFT, py, WIDTH - RIGHT, py, _GRID))
        out.append(_text(LEFT - 8, py + 4, f"{y:.4g}", "end"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    out.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, across, "middle"))
    out.append(f'<g transform="rotate(-90 18 {middle})">{_text(18, middle, up, "middle")}</g>')
    return out


def _steps(marks: Sequence[Mark], most_x: float, most_y: float, place: object) -> str:
    """From the fastest point of the front to the thriftiest."""
    assert callable(place)
    front = sorted({(m.x, m.y) for m in marks if m.on_front})
    corners: list[tuple[float, float]] = []
    level = most_y
    for x, y in front:
        corners += [(x, level), (x, y)]
        level = y
    corners.append((most_x, level))
    points = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in corners)
    return f'<polyline points="{points}" fill="none" stroke="{_FRONT}" stroke-dasharray="5 4"/>'


def _legend(kinds: tuple[str, str]) -> list[str]:
    out = []
    for i, (kind, fill) in enumerate(zip(kinds, (_FIRST, _SECOND), strict=True)):
        x = WIDTH - RIGHT - 230 + 120 * i
        out.append(f'<circle cx="{x}" cy="22" r="5" fill="{fill}" stroke="{_FIRST}" stroke-width="2"/>')
        out.append(_text(x + 10, 26, kind))
    return out


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{_INK}"'
    return f"<text {place}>{escape(text)}</text>"
