"""Host code beside kernels, left out where it needs libraries that are not there.

Enters: rewritten text with its line markers, places of faults. Leaves: text of the same lines without the
declarations, types and functions of the host that hold a fault, and without the host's functions that name
one of those; templates that a left-out function launches stay instantiated. Device code is never touched:
its faults are the author's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from trilobite.processor.lang.bang.host_items import TEMPLATE, Item, items, lines, name_of, plain
from trilobite.processor.lang.bang.launches import LAUNCH, Launching, second_forms

Fault = tuple[str, int, int, str]  # file, line, column, message
_UNKNOWN = re.compile(r"(?:unknown type name|undeclared identifier|no type named|no member named) '(\w+)'")
_ABSENT = re.compile(r"(unknown type name|undeclared identifier) '(\w+)'")
_VALUES = (
    "INVALID=0 HALF=1 FLOAT=2 INT8=3 INT16=4 INT31=5 INT32=6 UINT8=7 BOOL=8 INT64=9 UINT32=11 UINT64=12 "
    "UINT16=13 DOUBLE=14 COMPLEX_HALF=15 COMPLEX_FLOAT=16 BFLOAT16=17"
).split()
_DATA_TYPES = {
    prefix: f"enum {{ {', '.join(prefix + value for value in _VALUES)} }};"
    for prefix in ("MLUOP_DTYPE_", "CNNL_DTYPE_")
}
_WRITTEN = re.compile(r"^(?!# ).+$", re.MULTILINE)
_TYPE_NAME = re.compile(r"\b(?:struct|class|union|enum(?:\s+class)?)\s+([A-Za-z_]\w*)")
_ALIAS = re.compile(r"\btypedef\b.*?\b([A-Za-z_]\w*)\s*;\s*$|\busing\s+([A-Za-z_]\w*)\s*=", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")


def without_host_items(text: str, faults: Iterable[Fault]) -> str:
    """The text without the host's declarations that hold a fault, else unchanged.

    A template that such a function launches is still instantiated, if it can be.
    """
    known = list(faults)
    unknown = {name for *_, message in known for name in _UNKNOWN.findall(message)}
    text = second_forms(text, {fault[0] for fault in known}, unknown)
    found = items(text)
    places = _places(text, [fault for fault in known if not fault[0].startswith(LAUNCH)], found)
    faulty = [i for i in found if not i.is_device and any(i.start <= place < i.end for place in places)]
    launching = Launching.of(text, found) if faulty else None
    for item in reversed(_with_dependants(text, faulty, found)):
        assert launching is not None
        inside = text[item.start : item.end]
        blank = _WRITTEN.sub(lambda written: " " * len(written[0]), inside)
        text = text[: item.start] + launching.stays(item, unknown) + blank + text[item.end :]
    return text


def _with_dependants(text: str, faulty: list[Item], found: list[Item]) -> list[Item]:
    """The items and the host's functions that name a type or function which one of them declares."""
    out = set(faulty)
    fresh = set(faulty)
    hosts = {i: _words(text, i) for i in found if _is_host(text, i)} if out else {}
    while fresh:
        names = {name for item in fresh for name in _declared(text, item)}
        fresh = {i for i, words in hosts.items() if i not in out and words & names}
        out |= fresh
    return [item for item in found if item in out]


def _words(text: str, item: Item) -> frozenset[str]:
    return frozenset(_WORD.findall(text[item.start : item.end]))


def _is_host(text: str, item: Item) -> bool:
    """A function that no kernel calls: neither marked, nor a template, nor computed while compiling."""
    head = text[item.start : item.body]
    is_plain = "constexpr" not in head and not TEMPLATE.match(plain(head))
    return item.is_function and not item.is_device and is_plain


def _declared(text: str, item: Item) -> set[str]:
    """The names that an item brings: of a function or a type."""
    if item.is_function:
        return {name_of(text[item.start : item.body])} - {"", "main"}
    inside = plain(text[item.start : item.end])
    if "(" in inside.partition("{")[0]:
        return set()  # a declaration of a function, which is defined elsewhere
    names = set(_TYPE_NAME.findall(inside.partition("{")[0]))
    alias = _ALIAS.search(inside)
    return names | ({alias[1] or alias[2]} if alias else set())


def with_absent_names(text: str, faults: Iterable[Fault]) -> str:
    """The text with stand-ins for what device code takes from headers that are not there: a type that a
    kernel gets by value is an enumeration, and the values of the libraries' data types are public."""
    found = items(text)
    device = [item for item in found if item.is_device]
    made: dict[str, None] = {}
    for fault in faults:
        for kind, name in _ABSENT.findall(fault[-1]):
            prefix = name[: name.find("_DTYPE_") + len("_DTYPE_")]
            declared = f"typedef int {name};" if kind == "unknown type name" else _DATA_TYPES.get(prefix)
            if declared is None or declared in made:
                continue
            places = _places(text, [fault], found)
            if any(item.start <= place < item.end for item in device for place in places):
                made[declared] = None
    return f'# 1 "absent" 3\n{" ".join(made)}\n{text}' if made else text


def _places(text: str, faults: Iterable[Fault], found: list[Item]) -> list[int]:
    """Where in the text clang found faults. A macro may write a namespace and all that is in it in one line,
    so the column counts; where nothing stands at it, the beginning of the line is the place."""
    columns: dict[tuple[str, int], set[int]] = {}
    for file, line, column, _ in faults:
        columns.setdefault((file, line), set()).add(column)
    made = []
    for offset, file, line in lines(text):
        for column in columns.get((file, line), ()):
            row = text[offset : text.find("\n", offset)].encode()
            exact = offset + len(row[: max(column - 1, 0)].decode(errors="replace"))
            is_there = column <= len(row) and any(item.start <= exact < item.end for item in found)
            made.append(exact if is_there else offset)
    return made
