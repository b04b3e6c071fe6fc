"""The page in a real browser: every view opens, its numbers are the data's, the console stays silent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.report.conftest import HOSTILE, KEPT
from tools.browser import Browser
from trilobite.report import Subject

ON_BOTH = ("overview", "modules", "timeline", "roofline", "graph", "memory", "tables", "compare")
ON_CHIP = ("stalls", "energy", "mapping")
VIEWS = [*(f"{v}.0" for v in ON_BOTH), *(f"{v}.1" for v in (*ON_BOTH, *ON_CHIP))]


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\d[\d,]*(?:\.\d+)?", text))


def opened(browser: Browser, page: Path, view: str) -> str:
    browser.problems.clear()
    browser.open(page, f"#{view}")
    text = browser.text("#view")
    assert not browser.problems
    return text


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_opens_in_silence(browser: Browser, page: Path, view: str) -> None:
    opened(browser, page, view)
    assert browser.run("document.querySelector('[aria-selected=true]').innerText") == view.split(".")[0]
    assert browser.run("window.hacked") is None
    browser.picture(KEPT / f"{view}.png")


def test_figures_on_the_page_are_the_runs(browser: Browser, page: Path, subjects: list[Subject]) -> None:
    text = opened(browser, page, "overview")
    for subject in subjects:
        assert subject.sentence in text
        for name, value in subject.figures:
            assert name in text and value in text


def test_stalls_sum_to_the_launch(browser: Browser, page: Path, subjects: list[Subject]) -> None:
    opened(browser, page, "stalls.1")
    sums = browser.run("[...document.querySelectorAll('.barsum')].map(e => e.innerText)")
    assert sums and set(sums) == {f"{subjects[1].total:,.0f}"}


def test_kernels_energy_and_mapping_are_the_profiles(
    browser: Browser, page: Path, subjects: list[Subject]
) -> None:
    rows = {f"{kernel.time:,.0f}" for kernel in subjects[1].kernels}
    assert rows <= numbers(opened(browser, page, "mapping.1"))
    joules = sum(row[1] for row in next(t for t in subjects[1].tables if t.title == "Energy").rows)
    assert joules == pytest.approx(subjects[1].numbers["energy in µJ"])
    assert "Energy by layer" in opened(browser, page, "energy.1")


def test_memory_names_the_owners_of_the_peak(browser: Browser, page: Path, subjects: list[Subject]) -> None:
    text = opened(browser, page, "memory.0")
    moments = {row[1] for row in subjects[0].memory}
    use = {t: sum(r[3] for r in subjects[0].memory if r[1] <= t < r[2]) for t in moments}
    assert f"{max(use.values()):,.0f} bytes in" in text and "Who owns the peak" in text


def test_a_module_opens_down_to_instructions_and_the_users_line(browser: Browser, page: Path) -> None:
    opened(browser, page, "modules.1")
    for _ in range(4):  # each level appears when the one above is opened
        browser.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        browser.frame()
    text = browser.text("#view")
    assert "block.0" in text and "conv f32[1,16,7,7]" in text
    assert "x = self.block(tb.maximum(self.first(x), 0.0))" in text
    assert re.search(r"\d+\s+\d+ {2}CONV", text), "instructions with cycles and runs"
    opened(browser, page, "modules.0")
    for _ in range(4):
        browser.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        browser.frame()
    assert "assembly" in browser.text("#view")


def test_hostile_names_stay_text(browser: Browser, page: Path) -> None:
    assert HOSTILE in opened(browser, page, "overview")
    assert HOSTILE in opened(browser, page, "modules.0")
    assert browser.run("document.images.length") == 0 and browser.run("window.hacked") is None
    assert browser.run("document.title") == f"Three runs {HOSTILE}"


def test_the_policy_refuses_what_is_not_the_pages_own(browser: Browser, page: Path) -> None:
    opened(browser, page, "overview")
    browser.run(
        "{ const s = document.createElement('script'); s.textContent = 'window.hacked = 3';"
        " document.body.append(s); }"
    )
    browser.run("fetch('data:text/plain,x').catch(() => { window.refused = true; })")
    assert browser.run("window.hacked") is None and browser.run("window.refused") is True
    browser.problems.clear()


def test_keys_move_through_views_events_and_boxes(
    browser: Browser, page: Path, subjects: list[Subject]
) -> None:
    opened(browser, page, "overview")
    browser.run("document.querySelector('[role=tab]').focus()")
    browser.press("ArrowRight")
    assert browser.run("document.activeElement.innerText") == "modules"
    opened(browser, page, "timeline.1")
    browser.run("document.querySelector('canvas').focus()")
    whole = float(browser.run("document.querySelector('canvas').dataset.to"))
    assert whole == subjects[1].total
    for key in ("ArrowDown", "n", "n", "z"):
        browser.press(key)
    seen = [float(browser.run(f"document.querySelector('canvas').dataset.{end}")) for end in ("from", "to")]
    assert seen[1] - seen[0] < whole / 10
    told = re.search(r"([\d,]+) to ([\d,]+) cycles", browser.text(".tip"))
    assert told is not None
    start, end = (int(n.replace(",", "")) for n in told.groups())
    assert seen[0] <= start and end <= seen[1]
    browser.press("0")
    assert float(browser.run("document.querySelector('canvas').dataset.to")) == whole


def test_modules_of_the_graph_open_and_close(browser: Browser, page: Path, subjects: list[Subject]) -> None:
    opened(browser, page, "graph.0")
    boxes = "Number(document.querySelector('canvas.graph').dataset.boxes)"
    whole = browser.run(boxes)
    browser.run("[...document.querySelectorAll('button')].find(b => b.innerText === 'close all').click()")
    browser.frame()
    closed = browser.run(boxes)
    assert closed < whole
    browser.run("document.querySelector('canvas.graph').focus()")
    for _ in range(closed):
        browser.press("n")
        browser.press("Enter")
        if browser.run(boxes) > closed:
            break
    assert browser.run(boxes) > closed
    last = len(subjects[0].stages) - 1
    browser.run(
        f"{{ const s = document.querySelector('select[aria-label=stage]'); s.value = '{last}';"
        " s.dispatchEvent(new Event('change')); }"
    )
    browser.click("input[type=checkbox]")
    browser.frame()
    assert browser.run("document.querySelectorAll('canvas.graph').length") == 2
    assert "equations are new" in browser.text("#view")
    assert not browser.problems
    browser.picture(KEPT / "graph-difference.png")


def test_the_comparison_divides_the_runs_own_numbers(
    browser: Browser, page: Path, subjects: list[Subject]
) -> None:
    text = opened(browser, page, "compare")
    cpu, chip = (s.seconds for s in subjects)
    ratio = max(cpu / chip, chip / cpu)
    assert f"{ratio:.2f} times" in text


@pytest.mark.parametrize(
    "view",
    [
        "overview",
        "modules.1",
        "timeline.1",
        "roofline.1",
        "graph.1",
        "stalls.1",
        "memory.1",
        "mapping.1",
        "compare",
    ],
)
def test_nothing_is_wider_than_a_phone(browser: Browser, page: Path, view: str) -> None:
    browser.resize(360, 740, phone=True)
    try:
        opened(browser, page, view)
        assert browser.run("document.documentElement.scrollWidth") <= 360
        browser.picture(KEPT / f"phone-{view}.png")
    finally:
        browser.resize(1200, 900)


def test_dark_mode_follows_the_system(browser: Browser, page: Path) -> None:
    opened(browser, page, "timeline.1")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = browser.run(paper)
    browser.dark()
    try:
        browser.frame()
        assert browser.run(paper) != light
        browser.picture(KEPT / "dark-timeline.png")
    finally:
        browser.dark(False)
    assert not browser.problems


def test_tables_sort_by_their_numbers(browser: Browser, page: Path) -> None:
    opened(browser, page, "tables.0")
    column = "[...document.querySelectorAll('tbody tr')].map(r => r.children[3].innerText)"
    browser.run("document.querySelectorAll('th button')[3].click()")
    found = [float(x.replace(",", "")) for x in browser.run(column)]
    assert found == sorted(found, reverse=True) and len(found) > 2
    browser.run("document.querySelectorAll('th button')[3].click()")
    assert [float(x.replace(",", "")) for x in browser.run(column)] == found[::-1]
