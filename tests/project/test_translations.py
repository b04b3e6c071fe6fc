"""The Chinese pages are in step with the English ones: headings, snippets, pictures, figures of tasks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.snippets import blocks

ROOT = Path(__file__).resolve().parents[2]
ZH = ROOT / "docs" / "zh"
FENCED = re.compile(r"^ {0,3}(`{3,}).*?^ {0,3}\1`*\s*$", re.MULTILINE | re.DOTALL)
PAIRS = {
    ROOT / "README.zh-CN.md": ROOT / "README.md",
    **{page: ROOT / "docs" / page.relative_to(ZH) for page in sorted(ZH.rglob("*.md"))},
}


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def headings(page: Path) -> list[int]:
    """The levels of the headings, in order."""
    return [len(found) for found in re.findall(r"^(#{1,6}) ", prose(page), re.MULTILINE)]


def pictures(page: Path) -> list[str]:
    return [Path(found).name for found in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", prose(page))]


@pytest.mark.parametrize("page", PAIRS, ids=lambda page: str(page.relative_to(ROOT)))
def test_headings_are_the_same(page: Path) -> None:
    assert headings(page) == headings(PAIRS[page])


@pytest.mark.parametrize("page", PAIRS, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_are_the_same(page: Path) -> None:
    """To the letter, so that what runs for one runs for the other."""
    theirs = [(block.info, block.text) for block in blocks(PAIRS[page])]
    assert [(block.info, block.text) for block in blocks(page)] == theirs


@pytest.mark.parametrize("page", PAIRS, ids=lambda page: str(page.relative_to(ROOT)))
def test_pictures_are_the_same(page: Path) -> None:
    assert pictures(page) == pictures(PAIRS[page])


@pytest.mark.parametrize(
    "page", [p for p in PAIRS if "labs" in p.parts and p.stem != "index"], ids=lambda page: page.name
)
def test_figures_of_a_lab_are_the_same(page: Path) -> None:
    """Limits and sizes that a student is told."""
    table = re.compile(r"^\|.*$", re.MULTILINE)
    rows, theirs = (["\n".join(table.findall(prose(p)))] for p in (page, PAIRS[page]))
    figures = [
        sorted(re.findall(r"\d[\d.,]*\d|\d", re.sub(r"`[^`]+`", " ", text[0]))) for text in (rows, theirs)
    ]
    assert figures[0] == figures[1]
    assert rows[0].count("\n") == theirs[0].count("\n")


def test_the_chinese_readme_leads_to_every_page_that_the_english_one_does() -> None:
    link = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s#]+)")
    here, there = (
        {
            name.replace("docs/zh/", "docs/")
            for name in link.findall(prose(page))
            if not name.startswith("README")
        }
        for page in (ROOT / "README.zh-CN.md", ROOT / "README.md")
    )
    assert here == there


def test_tables_of_the_readme_have_the_same_rows() -> None:
    rows = [
        len(re.findall(r"^\|", prose(ROOT / name), re.MULTILINE)) for name in ("README.zh-CN.md", "README.md")
    ]
    assert rows[0] == rows[1]


def test_every_lab_and_the_first_pages_are_there() -> None:
    labs = {page.name for page in (ROOT / "docs" / "labs").glob("*.md")}
    assert {page.name for page in (ZH / "labs").glob("*.md")} == labs
    assert {"start.md", "walk.md"} <= {page.name for page in ZH.glob("*.md")}


@pytest.mark.parametrize("page", PAIRS, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_translation_is_chinese(page: Path) -> None:
    text = re.sub(r"`[^`\n]+`|\]\([^)]*\)|\w+\.md", " ", prose(page))
    chinese, latin = len(re.findall(r"[\u4e00-\u9fff]", text)), len(re.findall(r"[a-z]{3,}", text))
    assert chinese > 2 * latin


def test_a_page_out_of_step_is_seen(tmp_path: Path) -> None:
    one, two = tmp_path / "one.md", tmp_path / "two.md"
    one.write_text("# A\n## B\n![x](a/p.svg)\n```python\nx = 1\n```\n")
    two.write_text("# 甲\n![x](b/p.svg)\n```python\nx = 2\n```\n")
    assert headings(one) == [1, 2] != headings(two)
    assert pictures(one) == pictures(two) == ["p.svg"]
    assert [b.text for b in blocks(one)] != [b.text for b in blocks(two)]
