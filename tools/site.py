"""The documentation as a site: the pages of this project, staged for mkdocs, which turns them into out/site.

Enters: README, CONTRIBUTING, CHANGELOG and docs/. Leaves: build/site-pages with the same pages, and the site.
Links between pages stay; a link to a source file leads to a page with that file's text, so that the site is
whole by itself.
What GitHub's Markdown takes and Python-Markdown does not (a list right below a line, words behind a fence's
language) is put into the form that both take. Needs only the standard library; `main` calls mkdocs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAGED = ROOT / "build" / "site-pages"
SITE = ROOT / "out" / "site"
# pages outside of docs/, and what they are called in the site
MOVED = {
    "README.md": "index.md",
    "README.zh-CN.md": "zh/index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/environment/README.md": "bench_environment.md",
    "examples/processor/README.md": "processor_examples.md",
}
LANGUAGES = {".py": "python", ".mlu": "cpp", ".s": "asm", ".yaml": "yaml", ".toml": "toml", ".ll": "llvm"}
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#]*)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^ {0,3}(`{3,})(.*)$")
ITEM = re.compile(r"^\s*([-*]|\d+\.) ")


def pages() -> dict[Path, Path]:
    """Every page of the site: where it stands in the project, and below the site."""
    found = {ROOT / name: Path(place) for name, place in MOVED.items() if (ROOT / name).is_file()}
    docs = ROOT / "docs"
    return {**found, **{page: page.relative_to(docs) for page in sorted(docs.rglob("*.md"))}}


def staged(page: Path, place: Path, known: dict[Path, Path], sources: set[Path]) -> str:
    """A page's text for the site; source files that it links to are added to `sources`."""
    lines: list[str] = []
    ticks = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = FENCE.match(line)
        if fence and not ticks:
            ticks = fence[1]
            words = fence[2].split()
            line = line[: fence.end(1)] + (words[0] if words else "")
        elif fence and ticks and fence[1].startswith(ticks) and not fence[2].strip():
            ticks = ""
        elif not ticks:
            line = LINK.sub(
                lambda m: m[1] + _linked(page, place, m[2], known, sources) + (m[3] or "") + m[4], line
            )
            if lines and _begins_block(lines[-1], line):
                lines.append("")
        lines.append(line)
    return "\n".join(lines) + "\n"


def _begins_block(before: str, line: str) -> bool:
    """A list or a table that stands right below a line of text."""
    if not before.strip() or before.startswith("#"):
        return False
    if ITEM.match(line) and not line.startswith(" "):
        return not ITEM.match(before) and not before.startswith(" ")
    return line.startswith("|") and not before.startswith("|")


def _linked(page: Path, place: Path, target: str, known: dict[Path, Path], sources: set[Path]) -> str:
    if not target or re.match(r"[a-z]+:", target):
        return target
    there = (page.parent / target).resolve()
    if there == ROOT / "docs" / "decisions":
        inside = Path("decisions/all.md")
    elif there in known:
        inside = known[there]
    elif there.is_file() and there.is_relative_to(ROOT / "docs"):
        inside = there.relative_to(ROOT / "docs")
    elif there.is_file():
        sources.add(there)
        inside = source_place(there)
    else:
        raise FileNotFoundError(f"{page.relative_to(ROOT)} links to {target}, which is not there")
    return Path(os.path.relpath(inside, place.parent)).as_posix()


def source_place(source: Path) -> Path:
    return Path("source") / f"{source.relative_to(ROOT)}.md"


def source_page(source: Path) -> str:
    """A source file as a page."""
    name = source.relative_to(ROOT).as_posix()
    text = source.read_text(encoding="utf-8")
    return f"# {name}\n\n`````{LANGUAGES.get(source.suffix, 'text')}\n{text}`````\n"


def decisions() -> str:
    """The list of decisions, by number."""
    rows = [page for page in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    lines = ["# Decisions", "", "Choices that a newcomer would question, each with its reasons.", ""]
    for page in rows:
        title = page.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        lines.append(f"- [{page.name[:4]}: {re.sub(r'^0*[0-9]+[.:] *', '', title)}]({page.name})")
    return "\n".join(lines) + "\n"


def stage(directory: Path = STAGED) -> list[Path]:
    """Write all pages of the site below a directory; gives their places."""
    shutil.rmtree(directory, ignore_errors=True)
    known, sources = pages(), set[Path]()
    texts = {place: staged(page, place, known, sources) for page, place in known.items()}
    texts |= {source_place(source): source_page(source) for source in sources}
    texts[Path("decisions/all.md")] = decisions()
    for place, text in texts.items():
        (directory / place).parent.mkdir(parents=True, exist_ok=True)
        (directory / place).write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "pictures", directory / "pictures", dirs_exist_ok=True)
    return sorted(texts)


def main() -> None:
    found = stage()
    print(f"site: {len(found)} pages", flush=True)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(SITE)]
    # The theme's makers announce their plans on every build; that is no warning about these pages.
    environment = {**os.environ, "DISABLE_MKDOCS_2_WARNING": "true", "NO_MKDOCS_2_WARNING": "1"}
    if subprocess.run(command, cwd=ROOT, env=environment).returncode:
        sys.exit("site: mkdocs found something wrong with the pages; see above")
    print(f"site: open {SITE.relative_to(ROOT)}/index.html")


if __name__ == "__main__":
    main()
