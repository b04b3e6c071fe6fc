"""Regular expressions of model files, in the syntax of RE2, without its captures.

Enters: a pattern as text. Leaves: a `Pattern` that says where its longest match at a place ends. All ways
through the pattern are followed at once, so the time is the length of the text times that of the pattern,
whatever they are: a file cannot make it hang. Look-around and references to groups do not exist in RE2.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

Chosen = Callable[[str], bool]
Tree = tuple[Any, ...]
STATES, NESTED, REPEATS = 20_000, 100, 1000


class PatternError(ValueError):
    """What is wrong with a pattern."""


class Pattern:
    def __init__(self, text: str) -> None:
        self._states: list[Tree] = []
        self._emit(_Parser(text).whole())
        self._add("match")

    def longest(self, text: str, start: int = 0) -> int:
        """Where the longest match that begins at a place ends; -1 if there is none."""
        now, best = self._reached([0], text, start), -1
        for place in range(start, len(text) + 1):
            if any(self._states[s][0] == "match" for s in now):
                best = place
            if not now or place == len(text):
                break
            here = text[place]
            taken = [s + 1 for s in now if self._states[s][0] == "one" and self._states[s][1](here)]
            now = self._reached(taken, text, place + 1)
        return best

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Matches that hold something, from left to right."""
        place = 0
        while place < len(text):
            end = self.longest(text, place)
            if end > place:
                yield place, end
            place = max(end, place + 1)

    def _reached(self, states: list[int], text: str, place: int) -> list[int]:
        """States that take a character or end, from these on."""
        seen, out = set(states), []
        while states:
            at = states.pop()
            kind, *to = self._states[at]
            if kind in ("one", "match"):
                out.append(at)
                continue
            ahead = to if kind == "go" else [at + 1] if _holds(to[0], text, place) else []
            states += [s for s in ahead if s not in seen]
            seen.update(ahead)
        return out

    def _add(self, *state: Any) -> int:
        if len(self._states) == STATES:
            raise PatternError(f"its repetitions make more than {STATES:,} states")
        self._states.append(state)
        return len(self._states) - 1

    def _emit(self, tree: Tree) -> None:
        kind, *parts = tree
        if kind == "repeat":
            self._repeat(*parts)
        elif kind == "or":
            self._either(parts)
        elif kind == "all":
            for part in parts:
                self._emit(part)
        else:
            self._add(*tree)

    def _either(self, parts: list[Tree]) -> None:
        ends = []
        for part in parts[:-1]:
            fork = self._add("go")
            self._emit(part)
            ends.append(self._add("go"))
            self._states[fork] = ("go", fork + 1, len(self._states))
        self._emit(parts[-1])
        for end in ends:
            self._states[end] = ("go", len(self._states))

    def _repeat(self, part: Tree, least: int, most: int | None) -> None:
        for _ in range(least):
            self._emit(part)
        forks = []
        for _ in range(1 if most is None else most - least):
            forks.append(self._add("go"))
            self._emit(part)
        if most is None:
            self._add("go", forks[0])
        for fork in forks:
            self._states[fork] = ("go", fork + 1, len(self._states))


def _holds(what: str, text: str, place: int) -> bool:
    if what == "start":
        return place == 0
    if what == "end":
        return place == len(text)
    if what in ("line start", "line end"):
        at = place - 1 if what == "line start" else place
        return not 0 <= at < len(text) or text[at] == "\n"
    sides = [0 <= i < len(text) and _word(text[i]) for i in (place - 1, place)]
    return (sides[0] != sides[1]) == (what == "edge")


def _word(c: str) -> bool:
    return c.isascii() and (c.isalnum() or c == "_")


_CLASSES: dict[str, Chosen] = {
    "d": lambda c: "0" <= c <= "9",
    "w": _word,
    "s": lambda c: c in "\t\n\f\r ",
}
_POSIX: dict[str, Chosen] = {
    "alnum": lambda c: c.isascii() and c.isalnum(),
    "alpha": lambda c: c.isascii() and c.isalpha(),
    "ascii": str.isascii,
    "blank": lambda c: c in "\t ",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": _CLASSES["d"],
    "graph": lambda c: "!" <= c <= "~",
    "lower": lambda c: "a" <= c <= "z",
    "print": lambda c: " " <= c <= "~",
    "punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "space": lambda c: c in "\t\n\v\f\r ",
    "upper": lambda c: "A" <= c <= "Z",
    "word": _word,
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}
_ANCHORS = {"A": "start", "z": "end", "b": "edge", "B": "inside"}
_CONTROL = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_COUNTED = re.compile(r"\{(\d{1,9})(,(\d{0,9}))?\}")
_CODE = re.compile(r"x(?:\{([0-9a-fA-F]{1,8})\}|([0-9a-fA-F]{2}))|([0-7]{3})")
_PROPERTY = re.compile(r"([pP])(?:\{(\^?)([A-Za-z]{1,2})\}|([A-Z]))")
_GROUP = re.compile(r"\?(?:P?<[A-Za-z_]\w*>|([imsU]*)(?:-([imsU]*))?([:)]))")


def _not(chosen: Chosen) -> Chosen:
    return lambda c: not chosen(c)


def _any_case(chosen: Chosen) -> Chosen:
    return lambda c: chosen(c) or chosen(c.lower()) or chosen(c.upper())


class _Parser:
    """One pass over the text; each method leaves `at` behind what it read."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth, self.flags = text, 0, 0, ""

    def whole(self) -> Tree:
        tree = self._choices()
        if self.at < len(self.text):
            raise PatternError("a group is closed that was not opened")
        return tree

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _found(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    def _choices(self) -> Tree:
        parts: list[Tree] = []
        while True:
            row: list[Tree] = []
            while self._next() not in ("", "|", ")"):
                row.append(self._repeated(self._one()))
            parts.append(("all", *row))
            if self._next() != "|":
                return parts[0] if len(parts) == 1 else ("or", *parts)
            self.at += 1

    def _repeated(self, tree: Tree) -> Tree:
        limits = self._limits()
        if limits is None:
            return tree
        if self._next() == "?":  # as few as possible: the same matches, and the longest is asked for
            self.at += 1
        if self._next() in ("*", "+", "?"):
            raise PatternError("a repetition of a repetition")
        least, most = limits
        if max(least, most or 0) > REPEATS or (most is not None and most < least):
            raise PatternError(f"a repetition of {least} to {most} times, where {REPEATS} is the most")
        return ("repeat", tree, least, most)

    def _limits(self) -> tuple[int, int | None] | None:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._next())
        if simple is not None:
            self.at += 1
            return simple
        counted = self._found(_COUNTED)
        if counted is None:
            return None
        least = int(counted[1])
        return least, (int(counted[3]) if counted[3] else None) if counted[2] else least

    def _one(self) -> Tree:
        c = self._next()
        self.at += 1
        if c in "*+?":
            raise PatternError("a repetition of nothing")
        if c == "(":
            return self._group()
        if c == "[":
            return ("one", self._members())
        if c == "\\":
            return self._escaped()
        if c == ".":
            return ("one", (lambda _: True) if "s" in self.flags else (lambda x: x != "\n"))
        if c in "^$":
            where = "start" if c == "^" else "end"
            return ("at", f"line {where}" if "m" in self.flags else where)
        return self._set(lambda x: x == c)

    def _set(self, chosen: Chosen) -> Tree:
        return ("one", _any_case(chosen) if "i" in self.flags else chosen)

    def _group(self) -> Tree:
        self.depth += 1
        if self.depth > NESTED:
            raise PatternError(f"groups nested deeper than {NESTED}")
        before = self.flags
        if self._next() == "?":
            found = self._found(_GROUP)
            if found is None:
                raise PatternError("a group of an unknown kind")
            self.flags = "".join({*self.flags, *(found[1] or "")} - {*(found[2] or "")})
            if found[3] == ")":  # from here to the end of what holds it
                self.depth -= 1
                return ("all",)
        tree = self._choices()
        if self._next() != ")":
            raise PatternError("a group that is not closed")
        self.at, self.depth, self.flags = self.at + 1, self.depth - 1, before
        return tree

    def _escaped(self) -> Tree:
        c = self._next()
        if c in _ANCHORS:
            self.at += 1
            return ("at", _ANCHORS[c])
        if c == "Q":
            end = self.text.find("\\E", self.at)
            words = self.text[self.at + 1 : end if end >= 0 else None]
            self.at = len(self.text) if end < 0 else end + 2
            return ("all", *(self._set(lambda x, c=c: x == c) for c in words))  # type: ignore[misc]
        found = self._escape()
        return self._set(found if not isinstance(found, str) else lambda x: x == found)

    def _escape(self) -> Chosen | str:
        """What stands behind a backslash: a class of characters, or one."""
        code = self._found(_CODE)
        if code is not None:
            value = int(code[1] or code[2], 16) if code[3] is None else int(code[3], 8)
            if value > 0x10FFFF:
                raise PatternError(f"the character {value:#x}")
            return chr(value)
        kind = self._found(_PROPERTY)
        if kind is not None:
            name, other = kind[3] or kind[4], (kind[1] == "P") != (kind[2] == "^")
            return lambda c: unicodedata.category(c).startswith(name) != other
        c = self._next()
        self.at += 1
        if c.lower() in _CLASSES:
            return _CLASSES[c] if c.islower() else _not(_CLASSES[c.lower()])
        if c in _CONTROL:
            return _CONTROL[c]
        if not c or (c.isascii() and c.isalnum()):
            raise PatternError(f"the escape \\{c}")
        return c

    def _members(self) -> Chosen:
        """Of a set, behind its bracket."""
        other = self._next() == "^"
        self.at += other
        parts: list[Chosen] = []
        while not parts or self._next() != "]":
            first = self._member()
            if callable(first):
                parts.append(first)
                continue
            last: Chosen | str = first
            if self._next() == "-" and self.text[self.at + 1 : self.at + 2] not in ("", "]"):
                self.at += 1
                last = self._member()
            if callable(last) or last < first:
                raise PatternError("a range of characters without order")
            parts.append(lambda c, a=first, b=last: a <= c <= b)  # type: ignore[misc]
        self.at += 1
        among = _any_case(_any_of(parts)) if "i" in self.flags else _any_of(parts)
        return _not(among) if other else among

    def _member(self) -> Chosen | str:
        c = self._next()
        if not c:
            raise PatternError("a set that is not closed")
        if self.text.startswith("[:", self.at):
            end = self.text.find(":]", self.at)
            name = self.text[self.at + 2 : end].removeprefix("^")
            if end < 0 or name not in _POSIX:
                raise PatternError("a class of characters that is not known")
            other, self.at = self.text[self.at + 2] == "^", end + 2
            return _not(_POSIX[name]) if other else _POSIX[name]
        self.at += 1
        return self._escape() if c == "\\" else c


def _any_of(parts: list[Chosen]) -> Chosen:
    return lambda c: any(part(c) for part in parts)
