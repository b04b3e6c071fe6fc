"""Declarations and definitions at namespace scope in the user's lines of a preprocessed text.

Enters: rewritten text with its line markers. Leaves: spans of the text, each with what it is, and the places
that the markers give to its lines. Nothing is parsed beyond brackets, names and attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from trilobite.processor.lang.bang.rewrite import MARKER, TOKEN, chunks

DEVICE = re.compile(r'annotate\("bang\.|always_inline|__mlu_|section\("')
TEMPLATE = re.compile(r"\s*(template\s*<[^{};]*?>)\s*(?=[A-Za-z_\[:])")
_NAMESPACE = re.compile(r'\bnamespace\b[^=;()]*$|extern\s*"C"\s*$')
_TYPE = re.compile(r"^\s*(?:typedef\b\s*)?(?:template\s*<[^;]*>)?\s*(?:struct|class|union|enum)\b[^()]*$")
_MARKED = re.compile(r"^# .*$", re.MULTILINE)
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|alignas\s*\([^()]*\)")


@dataclass(frozen=True)
class Item:
    """A declaration or definition at namespace scope, as a span of the text; `body` is -1 if it has none."""

    start: int
    body: int
    end: int
    is_function: bool
    is_device: bool


def items(text: str) -> list[Item]:
    """Everything at namespace scope in the user's own lines."""
    found: list[Item] = []
    offset = 0
    for chunk, is_user in chunks(text):
        if is_user:
            found += [
                Item(i.start + offset, i.body + offset, i.end + offset, i.is_function, i.is_device)
                for i in _items(chunk)
            ]
        offset += len(chunk)
    return found


def _items(text: str) -> Iterator[Item]:
    start = at = 0
    while (token := TOKEN.search(text, at)) is not None:
        at = token.end()
        if token[0] == ";":
            yield _item(text, start, -1, at)
            start = at
        elif token[0] == "}":  # of a namespace
            start = at
        elif token[0] == "(":
            at = closing(text, at, "(", ")")
        elif token[0] == "{":
            head = plain(text[start : token.start()])
            if _NAMESPACE.search(head):
                start = at
                continue
            at = closing(text, at, "{", "}")
            if "(" not in head or _TYPE.match(head) or head.rstrip().endswith("="):
                continue  # a type or a value, which a semicolon ends
            yield _item(text, start, token.start(), at)
            start = at


def plain(head: str) -> str:
    """Without line markers and attributes."""
    return _ATTRIBUTE.sub("", marked_away(head))


def _item(text: str, start: int, body: int, end: int) -> Item:
    head = text[start : body if body >= 0 else end]
    return Item(start, body, end, body >= 0, bool(DEVICE.search(head)))


def closing(text: str, at: int, opening: str, closing: str) -> int:
    depth = 1
    while depth and (token := TOKEN.search(text, at)) is not None:
        at = token.end()
        depth += (token[0] == opening) - (token[0] == closing)
    return at


def marked_away(text: str) -> str:
    """Without line markers."""
    return _MARKED.sub("", text)


def name_of(head: str) -> str:
    """What a function's head declares: the word in front of the parameters."""
    found = re.search(r"([A-Za-z_]\w*)\s*\(", plain(head))
    return found[1] if found else ""


@lru_cache(maxsize=4)
def lines(text: str) -> tuple[tuple[int, str, int], ...]:
    """Every line that is no marker: its offset, and the file and line that the markers call it."""
    made = []
    offset, file, line = 0, "", 0
    for row in text.splitlines(keepends=True):
        marker = MARKER.match(row) if row.startswith("# ") else None
        if marker:
            file, line = marker[2], int(marker[1])
        else:
            made.append((offset, file, line))
            line += 1
        offset += len(row)
    return tuple(made)
