"""One line of the text form of a graph as tokens, and errors that name it."""

from __future__ import annotations

import re

from trilobite.base.errors import IRError
from trilobite.base.locations import UNKNOWN, Location

TOKEN = re.compile(
    r'\s*(?:(?P<comment>#.*)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>\d+(?:\.(?!\.)\d*)?(?:[eE][+-]?\d+)?)'
    r"|(?P<mark>[%^@]\d+)|(?P<name>[^\W\d]\w*(?:~\d+)?)|(?P<sign>\.\.|[-+*:,=(){}\[\].]))"
)


class Line:
    """The tokens of one line, and errors that name it."""

    def __init__(self, number: int, text: str) -> None:
        self.number, self.text = number, text.strip()
        self.tokens: list[tuple[str, str]] = []
        self.at, self.location = 0, UNKNOWN
        place = 0
        while place < len(self.text):
            found = TOKEN.match(self.text, place)
            if found is None:
                raise self.error(f"unexpected character {self.text[place:].strip()[0]!r}")
            kind = found.lastgroup or ""
            place = found.end()
            if kind == "comment":
                self._locate(found.group(kind))
            else:
                self.tokens.append((kind, found.group(kind)))

    def _locate(self, comment: str) -> None:
        found = re.fullmatch(r"#\s*(.+):(\d+)\s*", comment)
        if found is not None:
            self.location = Location(found.group(1), int(found.group(2)), "?")

    def error(self, what: str, expected: object = None) -> IRError:
        return IRError(what, where=f"line {self.number}: {self.text[:100]}", expected=expected)

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at][1] if at < len(self.tokens) else ""

    def kind(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else "end"

    def take(self, expected: str) -> str:
        """The next token, which must be this one, or of this kind."""
        kind, text = self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")
        if expected not in (kind, text):
            raise self.error(f"unexpected {text!r}" if text else "the line ends too early", expected=expected)
        self.at += 1
        return text

    def skip(self, text: str) -> bool:
        if self.peek() == text and self.kind() != "string":
            self.at += 1
            return True
        return False

    def end(self) -> None:
        if self.at < len(self.tokens):
            raise self.error(f"unexpected {self.peek()!r}", expected="the end of the line")

    def whole(self) -> int:
        sign = -1 if self.skip("-") else 1
        digits = self.take("number")
        if not digits.isdigit():
            raise self.error(f"{digits} is not a whole number", expected="digits")
        return sign * int(digits)
