"""What a source stands among: its own headers, those that are absent, and what it takes for granted.

Enters: a file and the folders of headers. Leaves: the text of the source with the headers of its own that are
there, the names of those that are not and of the library's, the sources beside it that hold bodies of device
functions which it only declares, and the library headers that its words call for: the vendor's compiler has
the C library at hand before the first line, so sources call `fabs` without an include; and of `<algorithm>`,
which alone takes clang half a second, the few parts that a source names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trilobite.processor.lang.bang.clang import Clang
from trilobite.processor.lang.bang.headers import INCLUDE

_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)
_ASKED_FOR = re.compile(r'__has_include\s*\(\s*["<]([^">]+)[">]')
_KEYWORD_MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?:sizeof|alignof|private|protected|class|struct|static|inline|register"
    r"|virtual|const|constexpr|volatile|auto|typename|template|new|delete|bool|int|long|float|double|if|for|while|return"
    r"|static_assert|noexcept|nullptr|true|false|min|max)\b",
    re.MULTILINE,
)
_MATH = (
    "abs fabs sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh erf "
    "floor ceil round trunc rint nearbyint pow fmax fmin fmod fma hypot copysign lround isnan isinf isfinite "
    "isnormal signbit asinf acosf cbrtf hypotf copysignf lroundf fdimf nearbyintf"
)
_CALLED = re.compile(rf"\b({'|'.join(_MATH.split())})\s*\(")
_NAMED = re.compile(r"\bstd::|\b(?:numeric_limits|is_same|enable_if)\b")
_OF_THE_SYSTEM = ("/", "/usr", "/usr/local")
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
    library: list[str]  # the compiler's own headers that it includes, in their order

    @property
    def early(self) -> list[str]:
        """Headers that must come first, because the source makes a macro of a word they use."""
        return self.library if _KEYWORD_MACRO.search(self.text) else []


def read(file: Path, includes: Sequence[str], compiler: Clang) -> Surroundings:
    """The source with its headers, and the sources beside it that it needs, with theirs."""
    known = [INCLUDE, *(Path(place) for place in includes)]
    found = _with_headers(file.resolve(), known)
    parts: list[Path] = []
    text = "\n".join(found.values())
    wanted = set(_PROTOTYPE.findall(text)) - set(_BODY.findall(text))
    for beside in sorted(file.resolve().parent.glob("*.mlu")) if wanted else ():
        more = _with_headers(beside, known) if beside not in found else {}
        if more and wanted & set(_BODY.findall(more[beside])):
            parts.append(beside)
            found |= more
    own, absent = _elsewhere(found, known, file, compiler)
    return Surroundings("\n".join(found.values()), absent, parts, own)


def _with_headers(file: Path, known: Sequence[Path]) -> dict[Path, str]:
    """The texts of a source and of the headers of its own that it comes to."""
    texts: dict[Path, str] = {}
    work = [file]
    while work:
        current = work.pop()
        if current in texts:
            continue
        texts[current] = current.read_text(encoding="utf-8", errors="replace")
        for mark, name in _INCLUDED.findall(texts[current]):
            header = _found(mark, name, current, known, file)
            if header is not None and INCLUDE not in header.parents:
                work.append(header)
    return texts


def _elsewhere(
    texts: Mapping[Path, str], known: Sequence[Path], file: Path, compiler: Clang
) -> tuple[list[str], list[str]]:
    """Of the headers that are not the source's: those of the compiler, and those that are nowhere."""
    own: dict[str, None] = {}
    absent: dict[str, None] = {}
    for current, text in texts.items():
        for mark, name in _INCLUDED.findall(text):
            if _found(mark, name, current, known, file) is not None:
                continue
            if compiler.has_header(name):
                own[name] = None
            elif compiler.folders and name not in _ASKED_FOR.findall(text):
                absent[name] = None
    return list(own), list(absent)


def folders_above(file: Path) -> Iterator[Path]:
    """Where a header that is missing may lie: in a folder above the source, or in its `include`."""
    for folder in file.resolve().parents:
        yield folder
        if str(folder) not in _OF_THE_SYSTEM:
            yield folder / "include"


def _found(mark: str, name: str, current: Path, known: Sequence[Path], file: Path) -> Path | None:
    near = (current.parent,) if mark == '"' else ()
    above = folders_above(file) if mark == '"' or "/" in name else ()
    places = (*near, *known, *above)
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
