"""Preprocessed BANG C to C++ that clang takes: memory qualifiers, launches, half literals.

Enters: the text that `clang -E` writes, with its line markers. Leaves: text of the same lines. System headers
pass as they are. `Host functions` are found here as well, so that those that do not compile (they call
libraries that are not there) can be taken out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from trilobite.processor.lang.bang.headers import declarations
from trilobite.processor.lang.bang.llvm.debug import GENERATED

SPACES = {
    "__nram__": "nram", "__wram__": "wram", "__mlu_shared__": "sram", "__ldram__": "ldram",
    "__mlu_nram__": "nram", "__sram__": "sram",
}  # fmt: skip
_TOKEN = re.compile(
    r"""(?P<string>(?:u8|[LuU])?"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<half>(?<![\w.])(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?[hH]\b)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<launch><<<)
      | (?P<mark>[(){};])""",
    re.VERBOSE,
)
_MARKER = re.compile(r'^# (\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)')
_PRAGMA = re.compile(r"^#pragma dlp_intrinsics.*$", re.MULTILINE)
_LAUNCHED = re.compile(r"([A-Za-z_][\w:]*\s*<[^;(){}]*>)\s*/\*launch\*/")
DEVICE = re.compile(r'annotate\("bang\.entry"\)|always_inline|__mlu_')


def qualifier(space: str) -> str:
    """thread_local gives static storage in every scope."""
    return f'thread_local __attribute__((section("{space}"), used))'


def rewrite(text: str) -> str:
    """The whole preprocessed text, with the intrinsics it names declared where the header says so."""
    names: set[str] = set()
    parts = [_user(chunk, names) if is_user else chunk for chunk, is_user in _chunks(text)]
    header = f'# 1 "{GENERATED}" 3\n' + declarations(names)
    return _PRAGMA.sub(lambda _: header, "".join(parts), count=1)


def _chunks(text: str) -> Iterable[tuple[str, bool]]:
    """Runs of lines with one origin; whether they are the user's."""
    is_user = True
    run: list[str] = []
    for line in text.splitlines(keepends=True):
        found = _MARKER.match(line) if line.startswith("# ") else None
        if found and run:
            yield "".join(run), is_user
            run = []
        if found:
            is_user = "3" not in found[3].split()
        run.append(line)
    yield "".join(run), is_user


def _user(text: str, names: set[str]) -> str:
    made: list[str] = []
    at = depth = 0
    while True:
        found = _TOKEN.search(text, at)
        if found is None:
            made.append(text[at:])
            return "".join(made)
        made.append(text[at : found.start()])
        at = found.end()
        token = found[0]
        if found["launch"]:
            at = _behind_launch(text, at)
            made.append("/*launch*/" + "\n" * text.count("\n", found.end(), at))
            continue
        if found["mark"]:
            depth = 0 if token in ";{}" else depth + (1 if token == "(" else -1)
        elif found["half"]:
            token = token[:-1] + ("" if re.search(r"[.eE]", token) else ".0") + "f16"
        elif found["word"]:
            names.add(token)
            if token in SPACES:
                token = "" if depth > 0 else qualifier(SPACES[token])
        made.append(token)


def _behind_launch(text: str, at: int) -> int:
    """Where the `>>>` of a launch ends; a launch without one is left to clang."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if depth <= 0 and text.startswith(">>>", place):
            return place + 3
    return at


@dataclass(frozen=True)
class Definition:
    """A function with its body, as a span of the text."""

    start: int
    body: int
    end: int
    is_device: bool


def definitions(text: str) -> list[Definition]:
    """Functions at namespace scope in the user's own lines."""
    found: list[Definition] = []
    offset = 0
    for chunk, is_user in _chunks(text):
        if is_user:
            found += [
                Definition(d.start + offset, d.body + offset, d.end + offset, d.is_device)
                for d in _defined(chunk)
            ]
        offset += len(chunk)
    return found


def _defined(text: str) -> list[Definition]:
    found: list[Definition] = []
    start = at = 0
    open_braces = 0  # of namespaces and linkage blocks, which are no bodies
    while (token := _TOKEN.search(text, at)) is not None:
        at = token.end()
        if token[0] == ";":
            start = at
        elif token[0] == "}":
            open_braces, start = open_braces - 1, at
        elif token[0] == "{":
            head = _MARKER.sub("", text[start : token.start()])
            if re.search(r'\bnamespace\b|extern\s*"C"\s*$', head):
                open_braces, start = open_braces + 1, at
                continue
            at = _closing(text, at)
            if "(" in head and not re.search(
                r"^\s*(template\s*<[^;]*>)?\s*(struct|class|union|enum)\b", head
            ):
                found.append(Definition(start, token.start(), at, bool(DEVICE.search(head))))
            start = at
    return found


def _closing(text: str, at: int) -> int:
    depth = 1
    while depth and (token := _TOKEN.search(text, at)) is not None:
        at = token.end()
        depth += (token[0] == "{") - (token[0] == "}")
    return at


_ENUM = re.compile(r"\benum\s+(?:class\s+|struct\s+)?(\w+)[^;{}()]*\{([^{}]*)\}")


def enumerators(text: str) -> dict[tuple[str, int], str]:
    """(enumeration, value) -> name, as far as values are written as numbers."""
    found: dict[tuple[str, int], str] = {}
    for kind, body in _ENUM.findall("".join(chunk for chunk, is_user in _chunks(text) if is_user)):
        value = -1
        for item in body.split(","):
            name, _, given = (part.strip() for part in item.partition("="))
            try:
                value = int(given, 0) if given else value + 1
            except ValueError:
                break
            found.setdefault((kind, value), name)
    return found


def without_launching_functions(text: str) -> str:
    """The text without host functions that launch templates by their full names: the launches stay."""
    for found in reversed(definitions(text)):
        inside = text[found.start : found.end]
        launches = inside.count("/*launch*/")
        if launches and not found.is_device and len(_LAUNCHED.findall(inside)) == launches:
            text = _blanked(text, found, keep_launches=True)
    return text


def without_host_functions(text: str, faults: Iterable[tuple[str, int]], keep_launches: bool) -> str:
    """The text without the host functions that hold a fault (file, line), else unchanged.

    A template that such a function launches is still instantiated, if `keep_launches` and it can be.
    """
    places = _places(text, set(faults))
    for found in reversed(definitions(text)):
        if found.is_device or not any(found.start <= place < found.end for place in places):
            continue
        text = _blanked(text, found, keep_launches)
    return text


def _blanked(text: str, found: Definition, keep_launches: bool) -> str:
    inside = text[found.start : found.end]
    blank = re.sub(r"[^\n]", " ", inside)
    if keep_launches:
        names = dict.fromkeys(re.sub(r"\s+", " ", name) for name in _LAUNCHED.findall(inside))
        keep = "__attribute__((used)) static auto __launch"
        blank = "".join(f"{keep}_{found.start}_{i} = &{name};" for i, name in enumerate(names)) + blank
    return text[: found.start] + blank + text[found.end :]


def _places(text: str, faults: set[tuple[str, int]]) -> list[int]:
    """Offsets of the lines that the markers call (file, line)."""
    found, offset, file, line = [], 0, "", 0
    for row in text.splitlines(keepends=True):
        marker = _MARKER.match(row) if row.startswith("# ") else None
        if marker:
            file, line = marker[2], int(marker[1])
        else:
            if (file, line) in faults:
                found.append(offset)
            line += 1
        offset += len(row)
    return found
