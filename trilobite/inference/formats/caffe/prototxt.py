"""Protocol buffers in their text form, as Caffe describes networks.

Enters: text. Leaves: `Block`s, that is for each name the values under it, in order: numbers, words, strings
or blocks. Does not know any field's meaning.
"""

from __future__ import annotations

import re
from typing import Any

from trilobite.framework.checkpoint.refusal import corrupt, shown

_TOKEN = re.compile(
    r"""(?P<space>[\s,;]+|\#[^\n]*)|(?P<word>[A-Za-z_][\w.]*)|(?P<number>[-+]?(?:\d[\w.+-]*|\.\d[\w+-]*|inf|nan))"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<mark>[{}:\[\]<>])"""
)
_DEEPEST = 32
_OPEN, _CLOSE = "{<", "}>"


class Block(dict[str, list[Any]]):
    """Values by name; a name may come more than once."""

    def one(self, name: str, default: Any = None) -> Any:
        return self[name][-1] if self.get(name) else default

    def block(self, name: str) -> Block:
        found = self.one(name)
        return found if isinstance(found, Block) else Block()

    def blocks(self, *names: str) -> list[Block]:
        return [b for name in names for b in self.get(name, ()) if isinstance(b, Block)]

    def integer(self, name: str, default: int = 0) -> int:
        found = self.one(name, default)
        return int(found) if isinstance(found, int | float) else default

    def number(self, name: str, default: float = 0.0) -> float:
        found = self.one(name, default)
        return float(found) if isinstance(found, int | float) else default

    def flag(self, name: str, default: bool) -> bool:
        found = self.one(name, default)
        return found in (True, "true", "True", 1)

    def word(self, name: str, default: str = "") -> str:
        return str(self.one(name, default))

    def words(self, name: str) -> list[str]:
        return [str(v) for v in self.get(name, ())]

    def integers(self, name: str) -> list[int]:
        return [int(v) for v in self.get(name, ()) if isinstance(v, int | float)]


def parse(text: str, where: str) -> Block:
    tokens = _tokens(text, where)
    root = Block()
    stack, at = [root], 0
    while at < len(tokens):
        kind, token = tokens[at]
        if token in _CLOSE and kind == "mark":
            if len(stack) == 1:
                raise corrupt("a bracket closes that was never opened", where, "pairs of brackets")
            stack.pop()
            at += 1
            continue
        if kind != "word":
            raise corrupt(f"{shown(token)} stands where a name is due", where, "name: value, or name { ... }")
        at = _field(tokens, at, stack, where)
    if len(stack) != 1:
        raise corrupt("a bracket is not closed", where, "pairs of brackets")
    return root


def _field(tokens: list[tuple[str, str]], at: int, stack: list[Block], where: str) -> int:
    """A name and its value; where the next field begins."""
    name = tokens[at][1]
    at += 1
    if at < len(tokens) and tokens[at][1] == ":":
        at += 1
    if at >= len(tokens):
        raise corrupt(f"{shown(name)} has no value", where, "name: value, or name { ... }")
    kind, token = tokens[at]
    rows = stack[-1].setdefault(name, [])
    if kind == "mark" and token in _OPEN:
        if len(stack) >= _DEEPEST:
            raise corrupt(f"blocks are nested more than {_DEEPEST} deep", where, "a network of Caffe's")
        inner = Block()
        rows.append(inner)
        stack.append(inner)
        return at + 1
    if token == "[":
        at += 1
        while at < len(tokens) and tokens[at][1] != "]":
            rows.append(_value(*tokens[at], where))
            at += 1
        return at + 1
    rows.append(_value(kind, token, where))
    return at + 1


def _tokens(text: str, where: str) -> list[tuple[str, str]]:
    out, at = [], 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            line = text.count("\n", 0, at) + 1
            raise corrupt(f"{shown(text[at : at + 20])} in line {line}", where, "a network as text")
        at = found.end()
        kind = str(found.lastgroup)
        if kind != "space":
            out.append((kind, found.group()))
    return out


def _value(kind: str, token: str, where: str) -> Any:
    if kind == "text":
        return token[1:-1]
    if kind == "number":
        try:
            return int(token, 0)
        except ValueError:
            pass
        try:
            return float(token.rstrip("fF"))
        except ValueError:
            raise corrupt(f"{shown(token)} is no number", where, "a number") from None
    if kind == "mark":
        raise corrupt(f"{shown(token)} stands where a value is due", where, "a value")
    return {"true": True, "false": False}.get(token, token)
