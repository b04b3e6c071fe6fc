"""Lines of assembly text without comments, with macros replaced.

Enters: text. Leaves: lines that still know their number in the text (those of a macro: the line that uses
it).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

LABEL = re.compile(r"(?:\s*[A-Za-z_.][\w.]*\s*:)+")
COMMENT = re.compile(r"""("(?:[^"\\]|\\.)*")|//.*|;.*""")
MOST_MADE = 1_000_000  # lines that macros may make; a text itself may have any number
DEEPEST = 100  # macros within macros; beyond this one uses itself


@dataclass(frozen=True)
class Line:
    text: str
    number: int
    depth: int = 0  # of macros that it came out of


class SourceError(Exception):
    """What is wrong with a line; the assembler adds the file."""

    def __init__(self, what: str, expected: str, remedy: str, line: Line | None = None) -> None:
        super().__init__(what)
        self.what, self.expected, self.remedy, self.line = what, expected, remedy or None, line


@dataclass(frozen=True)
class _Macro:
    parameters: tuple[str, ...]
    body: tuple[str, ...]


def expand(text: str) -> Iterator[Line]:
    """Every line that is left when comments are cut and macros replaced."""
    macros: dict[str, _Macro] = {}
    waiting = [Line(_uncommented(raw), number) for number, raw in enumerate(text.splitlines(), 1)]
    waiting.reverse()
    uses = made = 0
    while waiting:
        line = waiting.pop()
        if match := LABEL.match(line.text):  # labels stand on lines of their own from here on
            yield Line(match[0], line.number)
            line = replace(line, text=line.text[match.end() :])
        words = line.text.split(None, 1)
        if words and words[0] == ".macro":
            _define(line, waiting, macros)
        elif words and words[0] in macros:
            uses += 1
            body = _use(line, macros[words[0]], words[1] if len(words) > 1 else "", uses)
            waiting.extend(reversed(body))
            made += len(body)
            if line.depth >= DEEPEST or made > MOST_MADE:
                expected = f"at most {DEEPEST} macros within each other, and {MOST_MADE} lines made by them"
                raise SourceError("the text grows beyond all bounds", expected, "a macro uses itself", line)
        else:
            yield line


def _uncommented(text: str) -> str:
    return COMMENT.sub(lambda match: match[1] or "", text)


def _define(line: Line, waiting: list[Line], macros: dict[str, _Macro]) -> None:
    words = line.text.replace(",", " ").split()[1:]
    if not words or words[0] in macros:
        raise SourceError("a macro needs a new name", ".macro NAME parameters", "name it", line)
    body: list[str] = []
    while waiting:
        inner = waiting.pop()
        if inner.text.strip() == ".endm":
            macros[words[0]] = _Macro(tuple(words[1:]), tuple(body))
            return
        body.append(inner.text)
    raise SourceError(f"the macro {words[0]} does not end", ".endm", "close it", line)


def _use(line: Line, macro: _Macro, rest: str, number: int) -> list[Line]:
    arguments = [part.strip() for part in rest.split(",")] if rest.strip() else []
    if len(arguments) != len(macro.parameters):
        raise SourceError(
            f"the macro takes {len(macro.parameters)} arguments, not {len(arguments)}",
            ", ".join(macro.parameters) or "none",
            "correct the use",
            line,
        )
    replaced = dict(zip(macro.parameters, arguments, strict=True)) | {"@": str(number)}

    def fill(match: re.Match[str]) -> str:
        return replaced.get(match[1], match[0])

    inner = line.depth + 1
    return [Line(re.sub(r"\\(@|\w+)", fill, text), line.number, inner) for text in macro.body]
