"""What a source stands among: its own headers, those that are absent, and what it takes for granted.

Enters: a file and the folders of headers. Leaves: the text of the source with the quoted headers that are
there, the names of those that are not, and the library headers that its words call for: the vendor's compiler
has the C library at hand before the first line, so sources call `fabs` without an include.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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
_DEFINED = re.compile(r"\bvoid\s+(\w+)\s*\(")
_ASSERTS = re.compile(r"\bassert\s*\(")


def read(file: Path, includes: Sequence[str]) -> tuple[str, list[str]]:
    """The source and the headers it has, as one text; the quoted headers that are nowhere near."""
    known = [INCLUDE, *(Path(place) for place in includes)]
    absent: dict[str, None] = {}
    texts: list[str] = []
    seen, work = {file.resolve()}, [file.resolve()]
    while work:
        current = work.pop()
        texts.append(current.read_text(encoding="utf-8", errors="replace"))
        for name in _QUOTED.findall(texts[-1]):
            places = [current.parent, *known, *file.resolve().parents]
            found = next((place / name for place in places if (place / name).is_file()), None)
            if found is None:
                absent[name] = None
            elif found.resolve() not in seen and INCLUDE not in found.resolve().parents:
                seen.add(found.resolve())
                work.append(found.resolve())
    return "\n".join(texts), list(absent)


def taken_for_granted(text: str, extremes: Sequence[str]) -> list[str]:
    """Library headers for the words of a text; a kernel that has the name of a function keeps it."""
    called = set(_CALLED.findall(text))
    names_its_own = bool(called & set(_DEFINED.findall(text)))
    wanted = ["cassert"] if _ASSERTS.search(text) else []
    if _NAMED.search(text):
        return [*wanted, *extremes, "cmath", *_TRAITS]
    return [*wanted, "cmath", *_TRAITS] if called and not names_its_own else wanted
