"""Points in a plane: where they lie in the picture, by the picture's own scale."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from trilobite.report.scatter import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Mark, scatter, ticks

SVG = "{http://www.w3.org/2000/svg}"


def drawn(marks: list[Mark]) -> ET.Element:
    return ET.fromstring(scatter(marks, "a <title>", "across", "up", ("one", "two")))


def marks_of(seed: int, count: int) -> list[Mark]:
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, [70, 0.003], (count, 2))
    return [
        Mark(float(x), float(y), f"point {n}", bool(n % 2), bool(n % 3 == 0))
        for n, (x, y) in enumerate(places)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_marks_lie_between_the_axes_in_proportion(seed: int) -> None:
    marks = marks_of(seed, 11)
    circles = {c.find(f"{SVG}title").text: c for c in drawn(marks).iter(f"{SVG}circle") if len(c)}  # type: ignore[union-attr]
    most_x, most_y = (ticks(max(values))[-1] for values in zip(*((m.x, m.y) for m in marks), strict=True))
    for m in marks:
        x, y = (float(circles[m.text].attrib[name]) for name in ("cx", "cy"))
        assert x == pytest.approx(LEFT + (WIDTH - LEFT - RIGHT) * m.x / most_x, abs=0.06)
        assert y == pytest.approx(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * m.y / most_y, abs=0.06)
        assert LEFT <= x <= WIDTH - RIGHT and TOP <= y <= HEIGHT - BOTTOM


def test_the_grid_and_its_numbers_are_at_the_ticks() -> None:
    marks = [Mark(3.0, 40.0, "a", True, True), Mark(7.5, 20.0, "b", False, True)]
    texts = {t.text: t for t in drawn(marks).iter(f"{SVG}text")}
    across, up = ticks(7.5), ticks(40.0)
    for n, value in enumerate(across):
        at = LEFT + (WIDTH - LEFT - RIGHT) * n / (len(across) - 1)
        label = [t for t in drawn(marks).iter(f"{SVG}text") if t.text == f"{value:.4g}"]
        assert any(float(t.attrib["x"]) == pytest.approx(at, abs=0.06) for t in label)
    for n, value in enumerate(up):
        at = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * n / (len(up) - 1) + 4
        label = [t for t in drawn(marks).iter(f"{SVG}text") if t.text == f"{value:.4g}"]
        assert any(float(t.attrib["y"]) == pytest.approx(at, abs=0.06) for t in label)
    assert {"a <title>", "across", "up"} <= texts.keys()
    turned = next(g for g in drawn(marks).iter(f"{SVG}g") if "rotate" in g.attrib.get("transform", ""))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    assert [float(v) for v in re.findall(r"[-\d.]+", turned.attrib["transform"])] == [-90, 18, middle]


def test_the_front_goes_down_in_steps() -> None:
    marks = [
        Mark(2.0, 8.0, "a", True, True),
        Mark(4.0, 4.0, "b", True, True),
        Mark(9.0, 9.0, "c", True, False),
    ]
    (line,) = drawn(marks).iter(f"{SVG}polyline")
    found = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]

    def place(x: float, y: float) -> tuple[float, float]:
        wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return LEFT + wide * x / 10, HEIGHT - BOTTOM - high * y / 10

    wanted = [place(*corner) for corner in ((2, 10), (2, 8), (4, 8), (4, 4), (10, 4))]
    np.testing.assert_allclose(found, wanted, atol=0.06)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_lies_outside_the_picture(seed: int) -> None:
    root = drawn(marks_of(seed, 9))
    seen = 0
    for part in root.iter():
        for name in ("x", "cx", "x1", "x2", "y", "cy", "y1", "y2"):
            most = WIDTH if "x" in name else HEIGHT
            if name in part.attrib and "transform" not in part.attrib:
                assert 0 <= float(part.attrib[name]) <= most, (part.tag, part.attrib)
                seen += 1
    assert seen > 40
    legend = {t.text: float(t.attrib["x"]) for t in root.iter(f"{SVG}text") if t.text in ("one", "two")}
    assert WIDTH / 2 < legend["one"] < legend["two"] < WIDTH - RIGHT
