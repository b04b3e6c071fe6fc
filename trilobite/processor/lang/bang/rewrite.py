"""Preprocessed BANG C to C++ that clang takes: memory qualifiers, launches, half literals.

Enters: the text that `clang -E` writes, with its line markers. Leaves: text of the same lines. System headers
pass as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from trilobite.processor.lang.bang.headers import declarations
from trilobite.processor.lang.bang.llvm.debug import GENERATED
from trilobite.processor.lang.bang.spellings import PREFIX, defined, overloads, spelled

SPACES = {
    "__nram__": "nram", "__wram__": "wram", "__mlu_shared__": "sram", "__ldram__": "ldram",
    "__mlu_nram__": "nram", "__sram__": "sram",
}  # fmt: skip
TOKEN = re.compile(
    r"""(?P<string>(?:u8|[LuU])?"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<half>(?<![\w.])(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?[hH]\b)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<launch><<<)
      | (?P<mark>[(){};])""",
    re.VERBOSE,
)
MARKER = re.compile(r'^# (\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)', re.MULTILINE)
_REGISTER_ASSEMBLY = re.compile(r'"index\.vvr\.[^;"]*;[^:]*:[^:]*')
_PRAGMA = re.compile(r"^#pragma dlp_intrinsics.*$", re.MULTILINE)


def qualifier(space: str) -> str:
    """thread_local gives static storage in every scope."""
    return f'thread_local __attribute__((section("{space}"), used))'


def rewrite(text: str) -> str:
    """The whole preprocessed text, with the intrinsics it names declared where the header says so."""
    names: set[str] = set()
    own = defined(text)
    parts = [_user(_registers(chunk), names, own) if is_user else chunk for chunk, is_user in chunks(text)]
    beside = overloads(own)
    if beside:
        names.add("__memcpy")
    header = f'# 1 "{GENERATED}" 3\n' + declarations(names) + beside
    return _PRAGMA.sub(lambda _: header, "".join(parts), count=1)


def chunks(text: str) -> Iterable[tuple[str, bool]]:
    """Runs of lines that are the user's, or that are not."""
    is_user, start = True, 0
    for found in MARKER.finditer(text):
        if is_user != ("3" not in found[3]):
            yield text[start : found.start()], is_user
            start, is_user = found.start(), not is_user
    yield text[start:], is_user


def _registers(text: str) -> str:
    """Vector registers live in memory: assembly that writes one takes it as such."""
    return _REGISTER_ASSEMBLY.sub(lambda m: m[0].replace('"+r"', '"+m"').replace('"=r"', '"=m"'), text)


def _user(text: str, names: set[str], own: frozenset[str]) -> str:
    made: list[str] = []
    at = depth = 0
    while True:
        found = TOKEN.search(text, at)
        if found is None:
            made.append(text[at:])
            return "".join(made)
        made.append(text[at : found.start()])
        at = found.end()
        token = found[0]
        if found["launch"]:
            at = behind_launch(text, at)
            made.append("/*launch*/" + "\n" * text.count("\n", found.end(), at))
            continue
        if found["mark"]:
            depth = 0 if token in ";{}" else depth + (1 if token == "(" else -1)
        elif found["half"]:
            token = token[:-1] + ("" if re.search(r"[.eE]", token) else ".0") + "f16"
        elif found["word"]:
            if token.startswith(PREFIX) and token not in own:
                token = spelled(token)
            names.add(token.partition("<")[0])
            if token in SPACES:
                token = "" if depth > 0 else qualifier(SPACES[token])
        made.append(token)


def behind_launch(text: str, at: int) -> int:
    """Where the `>>>` of a launch ends; a launch without one is left to clang."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if depth <= 0 and text.startswith(">>>", place):
            return place + 3
    return at


_ENUM = re.compile(r"\benum\s+(?:class\s+|struct\s+)?(\w+)[^;{}()]*\{([^{}]*)\}")


def enumerators(text: str) -> dict[tuple[str, int], str]:
    """(enumeration, value) -> name, as far as values are written as numbers."""
    found: dict[tuple[str, int], str] = {}
    for kind, body in _ENUM.findall("".join(chunk for chunk, is_user in chunks(text) if is_user)):
        value = -1
        for item in body.split(","):
            name, _, given = (part.strip() for part in item.partition("="))
            try:
                value = int(given, 0) if given else value + 1
            except ValueError:
                break
            found.setdefault((kind, value), name)
    return found
