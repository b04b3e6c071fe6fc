"""The site: pages are staged, links lead inside it, the navigation names what is there, pictures drawn."""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tools import pictures, site

ROOT = Path(__file__).resolve().parents[2]
FENCED = re.compile(r"^ {0,3}(`{3,}).*?^ {0,3}\1`*\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site") / "pages"
    site.stage(directory)
    return directory


def test_all_links_of_the_site_lead_inside_it(staged: Path) -> None:
    broken = []
    for page in staged.rglob("*.md"):
        for target in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
            there = (page.parent / target).resolve()
            if not re.match(r"[a-z]+:", target) and not (there.is_relative_to(staged) and there.is_file()):
                broken.append((page.name, target))
    assert broken == []


def test_the_navigation_names_pages_that_are_there(staged: Path) -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"([\w/-]+\.md)\s*$", text.partition("\nnav:\n")[2], re.MULTILINE)
    assert len(named) > 50
    assert [name for name in named if not (staged / name).is_file()] == []
    assert len(named) == len(set(named))


def test_source_files_that_pages_link_to_are_pages(staged: Path) -> None:
    toy = staged / "source" / "examples" / "targets" / "toy.py.md"
    assert "def toy(" in toy.read_text(encoding="utf-8")


def test_what_python_markdown_does_not_take_is_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "ROOT", tmp_path)
    page = tmp_path / "docs" / "a.md"
    page.parent.mkdir()
    page.write_text("text\n- one\n- two\n```python no-run\n- three\n```\nmore\n| a |\n|---|\n[b](gone.md)\n")
    with pytest.raises(FileNotFoundError, match=r"gone\.md"):
        site.staged(page, Path("a.md"), {}, set())
    (tmp_path / "tool.py").write_text("x = 1\n")
    page.write_text(page.read_text().replace("gone.md", "../tool.py#x"))
    sources: set[Path] = set()
    text = site.staged(page, Path("a.md"), {}, sources)
    wanted = "text\n\n- one\n- two\n```python\n- three\n```\nmore\n\n| a |\n|---|\n[b](source/tool.py.md#x)\n"
    assert text == wanted
    assert sources == {tmp_path / "tool.py"}


@pytest.mark.timeout(300)
def test_the_site_builds_without_a_warning() -> None:
    python = ROOT / ".venv-site" / "bin" / "python"
    if not python.is_file():
        pytest.skip("mkdocs is not there: `make site` sets it up")
    done = subprocess.run([python, "-m", "tools.site"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    home = (ROOT / "out" / "site" / "index.html").read_text(encoding="utf-8")
    assert not re.search(r'(?:src|href)="(?:https?:)?//[^"]*\.(?:js|css|woff2?)', home)


# -- pictures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "pictures").glob("*.svg")), ids=lambda p: p.name)
def test_a_picture_is_whole_and_says_what_it_shows(path: Path) -> None:
    tree = ET.parse(path).getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert tree.find(f"{space}title") is not None
    assert len((tree.find(f"{space}desc").text or "").split()) > 3  # type: ignore[union-attr]
    assert "prefers-color-scheme:dark" in path.read_text(encoding="utf-8")
    _, _, width, height = map(float, tree.attrib["viewBox"].split())
    for box in tree.iter(f"{space}rect"):
        x, y, w, h = (float(box.attrib[name]) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width + 1
        assert 0 <= y <= y + h <= height + 1


@pytest.mark.parametrize("name", ["chip", "step"])
def test_a_picture_is_up_to_date(name: str) -> None:
    drawn = getattr(pictures, name)()
    kept = (ROOT / "docs" / "pictures" / f"{name}.svg").read_text(encoding="utf-8")
    assert drawn == kept, "run: python -m tools.pictures"


def test_the_house_shows_every_room() -> None:
    drawn = pictures.house()
    rooms = {p.name for p in (ROOT / "trilobite").iterdir() if (p / "__init__.py").is_file()}
    assert {room for room in rooms if f">{room}</text>" not in drawn} == set()


def test_the_ladder_is_drawn_from_launches_that_overlap() -> None:
    runs = {name.split(",")[0]: (cycles, bars) for name, cycles, bars in pictures.ladder_runs()}
    assert runs["step5"][0] < runs["step4"][0]

    def overlap(entry: str) -> int:
        bars = runs[entry][1]
        moves = [(a, b) for queue, a, b in bars if queue == "io"]
        products = [(a, b) for queue, a, b in bars if queue == "matrix"]
        return sum(max(0, min(b, d) - max(a, c)) for a, b in moves for c, d in products)

    assert overlap("step5") > 10 * overlap("step4")
