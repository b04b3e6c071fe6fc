"""Runs the Python snippets of a Markdown page, so that the pages cannot promise what the code does not do.

Enters: a page. Leaves: nothing, or a `SnippetError` that names the page and the line. The info string of a
fenced block says what happens to it:

    python          runs; the blocks of one page share a namespace, in order, in an empty working directory
    python no-run   must be valid Python, and is not run
    text output     what the python block before it prints; `...` stands for anything

Blocks of other languages are left alone. `python -m tools.snippets PAGE` runs one page in this process; tests
give each page a process of its own.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import os
import re
import sys
import tempfile
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<indent> {0,3})(?P<ticks>`{3,})(?P<info>[^`]*)$")


class SnippetError(Exception):
    """A snippet is malformed, or printed something else than its page says."""


@dataclass(frozen=True)
class Block:
    """A fenced block: the words after its ticks, its text, and the page's line on which the text begins."""

    info: tuple[str, ...]
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        opening = FENCE.match(lines[number])
        number += 1
        if opening is None:
            continue
        first = number
        while number < len(lines) and not _closes(lines[number], opening["ticks"]):
            number += 1
        if number == len(lines):
            raise SnippetError(f"{page}:{first}: this block is never closed")
        indent = len(opening["indent"])
        text = "".join(line[indent:] + "\n" for line in lines[first:number])
        yield Block(tuple(opening["info"].split()), text, first + 1)
        number += 1


def _closes(line: str, ticks: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(ticks) and set(stripped) == {"`"}


def run_page(page: Path) -> int:
    """Runs a page's snippets in this process and gives their number."""
    page = page.resolve()
    # Classes and dataclasses look their module up, so the page is a module while it runs.
    module = types.ModuleType("__main__")
    module.__file__ = str(page)
    known, sys.modules["__main__"] = sys.modules["__main__"], module
    try:
        with tempfile.TemporaryDirectory() as workspace, contextlib.chdir(workspace):
            return _run_blocks(page, module.__dict__)
    finally:
        sys.modules["__main__"] = known


def _run_blocks(page: Path, namespace: dict[str, object]) -> int:
    printed: str | None = None
    count = 0
    for block in blocks(page):
        if block.info[:1] == ("python",):
            printed = _run(page, block, namespace)
            count += 1
        elif block.info == ("text", "output"):
            _compare(page, block, printed)
            printed = None
    return count


def _run(page: Path, block: Block, namespace: dict[str, object]) -> str | None:
    """What the block prints; None for a block that is only read."""
    options = block.info[1:]
    if options not in ((), ("no-run",)):
        raise SnippetError(f"{page}:{block.line}: a python block cannot be {' '.join(options)!r}")
    # Empty lines before the text make line numbers in tracebacks those of the page.
    source = "\n" * (block.line - 1) + block.text
    tree = ast.parse(source, str(page))
    if options:
        return None
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(tree, str(page), "exec"), namespace)
    return output.getvalue()


def _compare(page: Path, block: Block, printed: str | None) -> None:
    if printed is None:
        raise SnippetError(f"{page}:{block.line}: no python block that runs stands before this output")
    expected, found = _tidy(block.text), _tidy(printed)
    if not doctest.OutputChecker().check_output(expected, found, doctest.ELLIPSIS):
        raise SnippetError(f"{page}:{block.line}: the page says\n{expected}but the code prints\n{found}")


def _tidy(text: str) -> str:
    return "".join(line.rstrip() + "\n" for line in text.strip("\n").splitlines())


def pages(root: Path) -> list[Path]:
    """The pages whose snippets are promises: the README and all of docs. Translations have the same snippets
    to the letter, which a test of theirs compares, so theirs need not run again.
    """
    docs = root / "docs"
    return [root / "README.md", *(p for p in sorted(docs.rglob("*.md")) if not p.is_relative_to(docs / "zh"))]


if __name__ == "__main__":
    found = run_page(Path(sys.argv[1]))
    print(f"{os.path.relpath(sys.argv[1])}: {found} snippets")
