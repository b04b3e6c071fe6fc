"""Where things are: the questions of CONTRIBUTING with the lines that answer them.

Enters: the table under "Where is it?". Leaves: each row with the line at which its name is defined today; a
place that is gone is an error. Lines are not kept in the page, because they move with every edit.

    python -m tools.questions
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_ROW = re.compile(
    r"^\| (?P<question>[^|]+\?) \| `(?P<file>[\w/.]+)`, `(?P<name>\w+)`(?P<rest>[^|]*) \|$", re.MULTILINE
)


class Answer(NamedTuple):
    """A question, and the place that answers it."""

    question: str
    file: Path
    name: str

    @property
    def line(self) -> int:
        """Where the name is defined, at the top or within a class; 0 if nowhere."""
        if not self.file.is_file():
            return 0
        for node in ast.walk(ast.parse(self.file.read_text(encoding="utf-8"))):
            if self.name in _defined(node):
                return int(getattr(node, "lineno", 0))
        return 0


def _defined(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (t.id for t in targets if isinstance(t, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def answers() -> list[Answer]:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return [Answer(m["question"], ROOT / "trilobite" / m["file"], m["name"]) for m in _ROW.finditer(page)]


def main() -> None:
    for a in answers():
        print(f"{a.question}\n    {a.file.relative_to(ROOT)}:{a.line}  {a.name}")


if __name__ == "__main__":
    main()
