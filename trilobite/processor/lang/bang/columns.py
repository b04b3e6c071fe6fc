"""Columns of messages: clang reads a source whose qualifiers and macros are written out, its user does not.

Enters: the text that clang read, and messages with the places where it found something. Leaves: the same
messages, each with the column at which the same word stands in the user's line. A word that a macro wrote has
none: it gets the beginning of the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from trilobite.base.errors import KernelError
from trilobite.processor.lang.bang.clang import Diagnostic
from trilobite.processor.lang.bang.rewrite import MARKER

_WORD = re.compile(
    r"(?:thread_local\s+)?__attribute__\(\((?:section|annotate|always_inline)[^;{}]*?\)\)(?:\s*inline)?"
    r"|[A-Za-z_]\w*|\d[\w.]*|\S"
)
_PLACE = re.compile(r"^(\s*)(.+?):(\d+):(\d+): ", re.MULTILINE)


def placed(text: str, faults: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Diagnostics of clang, in the columns of the source."""
    column = _columns(text)
    return [replace(fault, column=column(fault.file, fault.line, fault.column)) for fault in faults]


def in_columns_of(text: str, file: Path, fault: KernelError) -> KernelError:
    """What the lowering refuses, in the columns of the source."""
    column = _columns(text)

    def corrected(found: re.Match[str]) -> str:
        name = str(file) if found[2] == file.name else found[2]
        return f"{found[1]}{found[2]}:{found[3]}:{column(name, int(found[3]), int(found[4]))}: "

    said = _PLACE.sub(corrected, fault.what)
    return KernelError(said, where=fault.where, expected=fault.expected, remedy=fault.remedy)


def _columns(text: str) -> Callable[[str, int, int], int]:
    written = _written(text)
    sources: dict[str, list[str]] = {}

    def column(file: str, line: int, at: int) -> int:
        if file not in sources:
            path = Path(file)
            there = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
            sources[file] = there.splitlines()
        lines, read = sources[file], written.get((file, line), "")
        if not read or not 0 < line <= len(lines) or at < 1:
            return at
        return original(read, lines[line - 1], at)

    return column


def original(read: str, line: str, column: int) -> int:
    """The column, from 1, of the word in the user's line that stands at a column of what clang read."""
    words = list(_WORD.finditer(read))
    before = [word[0] for word in words if word.start() < column]
    found = [word.start() for word in _WORD.finditer(line) if before and word[0] == before[-1]]
    if not found:
        return len(line) - len(line.lstrip()) + 1
    return found[min(before.count(before[-1]), len(found)) - 1] + 1


def _written(text: str) -> dict[tuple[str, int], str]:
    """The lines of a preprocessed text by where they are from; of several pieces the longest."""
    found: dict[tuple[str, int], str] = {}
    file, number = "", 0
    for line in text.splitlines():
        marker = MARKER.match(line)
        if marker:
            file, number = marker[2], int(marker[1])
            continue
        if len(line) > len(found.get((file, number), "")):
            found[file, number] = line
        number += 1
    return found
