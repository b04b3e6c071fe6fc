"""What a source stands among: its own headers, those that are absent, and what it takes for granted.

Enters: a file and the folders of headers. Leaves: the text of the source with the quoted headers that are
there, the names of those that are not, the sources beside it that hold bodies of device functions which it
only declares, and the library headers that its words call for: the vendor's compiler has the C library at
hand before the first line, so sources call `fabs` without an include; and of `<algorithm>`, which alone takes
clang half a second, the few parts that a source names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trilobite.processor.lang.bang.headers import INCLUDE

_QUOTED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
_MATH = (
    "abs fabs sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh erf "
    "floor ceil round trunc rint nearbyint pow fmax fmin fmod fma hypot copysign lround isnan isinf isfinite "
    "isnormal signbit asinf acosf cbrtf hypotf copysignf lroundf fdimf nearbyintf"
)
_CALLED = re.compile(rf"\b({'|'.join(_MATH.split())})\s*\(")
_NAMED = re.compile(r"\bstd::|\b(?:numeric_limits|is_same|enable_if)\b")
_TRAITS = ("limits", "type_traits")
_ALGORITHMS = re.compile(r"#[ \t]*include[ \t]*<algorithm>")
_EVERY_NAME = re.compile(r"\busing\s+namespace\s+std\b")
_DEFINED = re.compile(r"\bvoid\s+(\w+)\s*\(")
_ASSERTS = re.compile(r"\bassert\s*\(")
_HEAD = r"__mlu_(?:device|func)__[^;{}()=]*?\b(\w+)\s*\([^;{}]*\)\s*"
_PROTOTYPE, _BODY = re.compile(_HEAD + ";"), re.compile(_HEAD + r"\{")


@dataclass(frozen=True)
class Surroundings:
    """The text of everything that was found, headers that were not, further sources."""

    text: str
    absent: list[str]
    parts: list[Path]


def read(file: Path, includes: Sequence[str]) -> Surroundings:
    """The source with its headers, and the sources beside it that it needs, with theirs."""
    known = [INCLUDE, *(Path(place) for place in includes)]
    found = _with_headers(file.resolve(), known)
    text, absent, parts = "\n".join(found.values()), _absent(found, known, file), []
    wanted = set(_PROTOTYPE.findall(text)) - set(_BODY.findall(text))
    for beside in sorted(file.resolve().parent.glob("*.mlu")) if wanted else ():
        more = _with_headers(beside, known) if beside not in found else {}
        if more and wanted & set(_BODY.findall(more[beside])):
            parts.append(beside)
            text += "\n" + "\n".join(more.values())
            absent += [name for name in _absent(more, known, file) if name not in absent]
    return Surroundings(text, absent, parts)


def _with_headers(file: Path, known: Sequence[Path]) -> dict[Path, str]:
    """The texts of a source and of the quoted headers that it comes to, but for our own."""
    texts: dict[Path, str] = {}
    work = [file]
    while work:
        current = work.pop()
        if current in texts:
            continue
        texts[current] = current.read_text(encoding="utf-8", errors="replace")
        for name in _QUOTED.findall(texts[current]):
            header = _found(name, current, known, file)
            if header is not None and INCLUDE not in header.parents:
                work.append(header)
    return texts


def _absent(texts: Mapping[Path, str], known: Sequence[Path], file: Path) -> list[str]:
    named = [(name, current) for current, text in texts.items() for name in _QUOTED.findall(text)]
    return list(dict.fromkeys(n for n, current in named if _found(n, current, known, file) is None))


def _found(name: str, current: Path, known: Sequence[Path], file: Path) -> Path | None:
    places = (current.parent, *known, *file.resolve().parents)
    return next(((place / name).resolve() for place in places if (place / name).is_file()), None)


def taken_for_granted(text: str, extremes: Sequence[str]) -> list[str]:
    """Library headers for the words of a text; a kernel that has the name of a function keeps it."""
    called = set(_CALLED.findall(text))
    names_its_own = bool(called & set(_DEFINED.findall(text)))
    wanted = ["cassert"] if _ASSERTS.search(text) else []
    if _NAMED.search(text):
        return [*wanted, *extremes, "cmath", *_TRAITS]
    return [*wanted, "cmath", *_TRAITS] if called and not names_its_own else wanted


def named_algorithms(text: str, known: frozenset[str]) -> list[str]:
    """The algorithms that a text which includes them calls by their names."""
    if not _ALGORITHMS.search(text):
        return []
    before = "" if _EVERY_NAME.search(text) else r"std\s*::\s*"
    return sorted(known & set(re.findall(rf"\b{before}(\w+)\s*[(<]", text)))
