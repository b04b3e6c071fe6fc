"""Declarations of intrinsics, written out of the table for the names that a source uses.

Enters: a set of identifiers. Leaves: C++ text. A form with a meaning in ISA rows becomes one declaration a
type, whose assembler name `bang.<form>.<types>.<name>` tells the lowering everything; a form with a body
becomes a template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import product
from pathlib import Path

from trilobite.processor.lang.bang.table import C_NAMES, FORMS, Intrinsic, Parameter

INCLUDE = Path(__file__).parent / "include"
INLINE = "__attribute__((always_inline)) inline"  # what mlu.h calls __mlu_func__
_NAME = re.compile(r"\b__\w+\b")
_DEFINED = re.compile(r"(__dlp_\w+)\(")


@lru_cache(maxsize=1)
def _parts() -> dict[str, list[str]]:
    """The definitions of `intrinsic_parts.h` by the function that they define."""
    text = (INCLUDE / "intrinsic_parts.h").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for chunk in re.split(r"\n(?=__mlu_func__|template)", text):
        name = _DEFINED.search(chunk)
        if name and not chunk.startswith("//"):
            found.setdefault(name[1], []).append(chunk.strip())
    return found


def known_names() -> frozenset[str]:
    return frozenset(FORMS) | frozenset(_parts())


def declarations(names: Iterable[str]) -> str:
    """What must be declared so that these names, and those that their bodies name, are known."""
    needed = _closure(names)
    parts = _parts()
    rows = [row for name in sorted(needed) for row in FORMS.get(name, ())]
    chunks = [chunk for name in sorted(needed) for chunk in parts.get(name, ())]
    lines = [text for row in rows if not row.is_body for text in _declared(row)]
    lines += [_prototype(chunk) for chunk in chunks] + [
        _prototype(_defined(row)) for row in rows if row.is_body
    ]
    lines += [_defined(row) for row in rows if row.is_body] + chunks
    return "\n".join(lines).replace("__mlu_func__", INLINE) + "\n"


def _prototype(definition: str) -> str:
    """The declaration in front of a definition's body: bodies may call each other in any order."""
    return definition[: definition.index("{")].rstrip() + ";"


def _closure(names: Iterable[str]) -> set[str]:
    known, parts = known_names(), _parts()
    needed: set[str] = set()
    work = [name for name in names if name in known]
    while work:
        name = work.pop()
        if name in needed:
            continue
        needed.add(name)
        texts = [row.how for row in FORMS.get(name, ()) if row.is_body] + parts.get(name, [])
        work += [found for text in texts for found in _NAME.findall(text) if found in known]
    return needed


def label(row: Intrinsic, types: str) -> str:
    return f"bang.{FORMS[row.name].index(row)}.{types or 'none'}.{row.name}"


def _declared(row: Intrinsic) -> list[str]:
    """One declaration for every spelling of every type."""
    made = []
    for types in row.types:
        formats = dict(zip(row.letters, types.split("-"), strict=True)) if types else {}
        fixed = {p.type for p in row.parameters if p.type in C_NAMES}
        keys = [*formats, *sorted(fixed)]
        for spelled in product(*(C_NAMES[formats.get(key, key)] for key in keys)):
            names = dict(zip(keys, spelled, strict=True))
            params = ", ".join(_parameter(p, names) for p in row.parameters)
            made.append(f'{_c_type(row.returns, names)} {row.name}({params}) __asm__("{label(row, types)}");')
    return made


def _c_type(kind: str, names: dict[str, str]) -> str:
    if kind == "lane":
        return "typename T::element"
    return names.get(kind) or C_NAMES.get(kind, (kind,))[0]


def _parameter(p: Parameter, names: dict[str, str]) -> str:
    if p.sign in "#%:":
        return f"long {p.name}"
    if p.sign == "?":
        return f"int {p.name}"
    kind = _c_type(p.type, names)
    if p.sign == "@":
        return f"{kind} &{p.name}"
    if p.sign == "=":
        return f"{kind} {p.name}"
    return f"{'const ' if p.sign == '<' else ''}{kind} *{p.name}"


def _defined(row: Intrinsic) -> str:
    """A template; a scalar follows the arrays, it does not decide the type."""
    arrays = {p.type for p in row.parameters if p.is_array}
    names = {kind: C_NAMES[kind][0] for kind in C_NAMES}
    names |= {letter: letter for letter in row.letters}
    params = []
    for p in row.parameters:
        if p.sign == "=" and p.type in row.letters and p.type in arrays:
            params.append(f"typename __dlp_same<{p.type}>::type {p.name}")
        else:
            params.append(_parameter(p, names))
    head = f"template <{', '.join(f'typename {letter}' for letter in row.letters)}> " if row.letters else ""
    return f"{head}__mlu_func__ {_c_type(row.returns, names)} {row.name}({', '.join(params)}) {row.how}"
