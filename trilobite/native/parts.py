"""A kernel's text in parts, so that functions which many kernels have are compiled once.

Enters: the LLVM text of a kernel at level 0, where no pass looks beyond a function. Leaves: the texts of the
functions that stand on their own, each as a module whose `entry` it is, and the text of the rest, which
declares them by the names that their objects define. `images.link` puts the objects together again.

Only functions that are never inlined and use nothing but intrinsics are taken out; text of any other form
stays whole.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from trilobite.native.objects import ENTRY, symbol

_HEAD = re.compile(r"define internal ([^@]+) @([\w.]+)\((.*)\) (#\d+) \{")
_NAMES = re.compile(r"@([\w.]+)")
_DECLARED = re.compile(r"^declare .*?@([\w.]+)\(.*$", re.MULTILINE)
_GROUP = re.compile(r"^attributes (#\d+) = \{ (.*) \}$", re.MULTILINE)
_PARAMETER = re.compile(r" %[\w.]+(?=,|$)")
_START, _END = "\ndefine internal ", "\n}\n"
_SMALLEST = 2000  # characters: smaller functions take longer to part than to compile twice


class Parts(NamedTuple):
    """The rest of a kernel's text, and the modules of the functions it calls, by symbol."""

    rest: str
    functions: dict[str, str]


def split(text: str, level: int) -> Parts:
    """A text of level 0 in its parts; other texts whole."""
    pieces = _pieces(text) if level == 0 and _START in text else None
    if pieces is None:
        return Parts(text, {})
    rest, bodies = pieces
    surroundings = _Surroundings(text)
    functions: dict[str, str] = {}
    kept, declared = [rest], []
    names: list[tuple[str, str]] = []
    for body in bodies:
        head = _HEAD.match(body)
        module = surroundings.module(head, body) if head is not None else None
        if head is None or module is None:
            kept.append(body)
            continue
        name = symbol(module, level)
        functions[name] = module
        names.append((head[2], name))
        declared.append(f"declare {head[1]} @{name}({_PARAMETER.sub('', head[3])}) {head[4]}\n")
    whole = "".join([*kept, *dict.fromkeys(declared)])
    for old, new in names:
        whole = whole.replace(f"@{old}(", f"@{new}(")
    return Parts(whole, functions)


def _pieces(text: str) -> tuple[str, list[str]] | None:
    """The text without its internal functions, and these."""
    rest, bodies, at = [], [], 0
    while (start := text.find(_START, max(at - 1, 0))) >= 0:
        end = text.find(_END, start)
        if end < 0:
            return None
        rest.append(text[at : start + 1])
        at = end + len(_END)
        bodies.append(text[start + 1 : at])
    rest.append(text[at:])
    return "".join(rest), bodies


class _Surroundings:
    """What stands in a module around its functions."""

    def __init__(self, text: str) -> None:
        self.first = text[: text.index("\n") + 1] if text.startswith("target ") else ""
        self.declared = {m[1]: m[0] for m in _DECLARED.finditer(text)}
        self.groups = {m[1]: m[2].split() for m in _GROUP.finditer(text)}
        self.metadata = "!0 = !{}\n" if "\n!0 = !{}\n" in text else ""

    def module(self, head: re.Match[str], body: str) -> str | None:
        """A function as the entry of its own module; None if it needs what only the whole has."""
        group = self.groups.get(head[4], [])
        if "noinline" not in group or len(body) < _SMALLEST:
            return None
        inside = body[head.end() :]
        used = dict.fromkeys(_NAMES.findall(inside))
        if any(name not in self.declared or not name.startswith("llvm.") for name in used):
            return None
        lines = "".join(f"{self.declared[name]}\n" for name in used)
        function = f"define {head[1]} @{ENTRY}({head[3]}) {head[4]} {{{inside}"
        return f"{self.first}{function}{lines}attributes {head[4]} = {{ {' '.join(group)} }}\n{self.metadata}"
