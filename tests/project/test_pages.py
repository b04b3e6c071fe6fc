"""The pages are true about the tree: links lead somewhere, commands exist, nothing private is named."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tools.snippets import blocks

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^ {0,3}(`{3,}).*?^ {0,3}\1`*\s*$", re.MULTILINE | re.DOTALL)


def tracked_files() -> list[Path]:
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("git is not installed")
    if done.returncode != 0:
        pytest.skip(f"not a git checkout: {done.stderr.strip()}")
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def every_page() -> list[Path]:
    places = [ROOT, ROOT / "docs", ROOT / "benchmarks", ROOT / "examples"]
    return sorted({*ROOT.glob("*.md"), *(page for place in places[1:] for page in place.rglob("*.md"))})


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get: lower case, spaces to hyphens, punctuation dropped."""
    headings = re.findall(r"^#{1,6} +(.+?)\s*$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    broken = []
    for target in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        place = (page.parent / name) if name else page
        if not place.exists() or (anchor and place.suffix == ".md" and anchor not in anchors(place)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", every_page(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One, two\n[a](#one-two) [b](#three) [c](gone.md) [d](page.md#one-two)\n```\n[e](no)\n```\n"
    )
    assert broken_links(page) == ["#three", "gone.md"]


def test_the_make_targets_that_pages_name_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert {"help", "setup", "test", "test-long", "bench", "conformance", "demo", "docs", "clean"} <= targets
    named = {}
    for page in every_page():
        code = re.findall(r"`([^`\n]+)`", prose(page)) + [block.text for block in blocks(page)]
        for target in re.findall(r"(?:^|[\s;&])make ((?:[a-z-]+ ?)+)", "\n".join(code), re.MULTILINE):
            named.update(dict.fromkeys(target.split(), page.name))
    assert {target: page for target, page in named.items() if target not in targets} == {}
    assert {"test", "demo"} <= set(named)


def test_every_make_target_is_explained_and_phony() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert targets == set(re.findall(r"^([a-z-]+):.*## \S", makefile, re.MULTILINE))
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == targets


# Written in two halves, so that this file does not contain what it looks for.
FORBIDDEN = [
    "py" + "pi.org", "pythonhosted" + ".org", "npmjs" + ".org", "npmjs" + ".com", "deb.debian" + ".org",
    "/wo" + "rk/", "/opt/" + "wheels", "sub" + "agent",
]  # fmt: skip


def test_tracked_files_name_no_hosts_and_no_private_places() -> None:
    found = []
    for path in tracked_files():
        text = path.read_bytes().decode("utf-8", errors="ignore").lower()
        found += [f"{path.relative_to(ROOT)}: {word}" for word in FORBIDDEN if word in text]
    assert found == []
