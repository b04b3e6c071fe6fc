"""Host code beside kernels: found, and left out where it needs libraries that are not there.

Enters: rewritten text with its line markers, places of faults. Leaves: text of the same lines without the
declarations, types and functions of the host that hold a fault; templates that a left-out function launches
stay instantiated. Device code is never touched: its faults are the author's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trilobite.processor.lang.bang.rewrite import MARKER, TOKEN, chunks

DEVICE = re.compile(r'annotate\("bang\.|always_inline|__mlu_|section\("')
_KEEP = "__attribute__((used)) static auto __launch"
_ELSE = " // else "
_LAUNCHER = re.compile(r"(.*?void \w+)\((.*?)\)( \{.*)$")
_STANDARD = frozenset(("ptrdiff_t", "ssize_t", "nullptr_t", "max_align_t"))
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
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
LAUNCH = "<launch "  # the file that a kept instantiation is said to lie in
_LAUNCHED = re.compile(
    r"((?:[A-Za-z_]\w*\s*(?:<[^;(){}]*>)?\s*::\s*)*[A-Za-z_]\w*\s*(?:<[^;(){}]*>)?)\s*/\*launch\*/\s*\("
)
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*<([^;(){}<>]*)>\s*\(")
_NAMESPACE = re.compile(r'\bnamespace\b[^=;()]*$|extern\s*"C"\s*$')
_TYPE = re.compile(r"^\s*(?:typedef\b\s*)?(?:template\s*<[^;]*>)?\s*(?:struct|class|union|enum)\b[^()]*$")
_TEMPLATE = re.compile(r"\s*(template\s*<[^{};]*?>)\s*(?=[A-Za-z_\[:])")
_MARKED = re.compile(r"^# .*$", re.MULTILINE)
_WRITTEN = re.compile(r"^(?!# ).+$", re.MULTILINE)
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|alignas\s*\([^()]*\)")


@dataclass(frozen=True)
class Item:
    """A declaration or definition at namespace scope, as a span of the text; `body` is -1 if it has none."""

    start: int
    body: int
    end: int
    is_function: bool
    is_device: bool


def items(text: str) -> list[Item]:
    """Everything at namespace scope in the user's own lines."""
    found: list[Item] = []
    offset = 0
    for chunk, is_user in chunks(text):
        if is_user:
            found += [
                Item(i.start + offset, i.body + offset, i.end + offset, i.is_function, i.is_device)
                for i in _items(chunk)
            ]
        offset += len(chunk)
    return found


def _items(text: str) -> Iterator[Item]:
    start = at = 0
    while (token := TOKEN.search(text, at)) is not None:
        at = token.end()
        if token[0] == ";":
            yield _item(text, start, -1, at)
            start = at
        elif token[0] == "}":  # of a namespace
            start = at
        elif token[0] == "(":
            at = _closing(text, at, "(", ")")
        elif token[0] == "{":
            head = _plain(text[start : token.start()])
            if _NAMESPACE.search(head):
                start = at
                continue
            at = _closing(text, at, "{", "}")
            if "(" not in head or _TYPE.match(head) or head.rstrip().endswith("="):
                continue  # a type or a value, which a semicolon ends
            yield _item(text, start, token.start(), at)
            start = at


def _plain(head: str) -> str:
    """Without line markers and attributes."""
    return _ATTRIBUTE.sub("", _MARKED.sub("", head))


def _item(text: str, start: int, body: int, end: int) -> Item:
    head = text[start : body if body >= 0 else end]
    return Item(start, body, end, body >= 0, bool(DEVICE.search(head)))


def _closing(text: str, at: int, opening: str, closing: str) -> int:
    depth = 1
    while depth and (token := TOKEN.search(text, at)) is not None:
        at = token.end()
        depth += (token[0] == opening) - (token[0] == closing)
    return at


def without_host_items(text: str, faults: Iterable[tuple[str, int, str]]) -> str:
    """The text without the host's declarations that hold a fault (file, line, message), else unchanged.

    A template that such a function launches is still instantiated, if it can be.
    """
    known = list(faults)
    unknown = {name for _, _, message in known for name in _UNKNOWN.findall(message)}
    text = _second_forms(text, {file for file, _, _ in known}, unknown)
    places = _places(text, {(file, line) for file, line, _ in known if not file.startswith(LAUNCH)})
    found = items(text)
    launching = _launching_templates(text, found)
    for item in reversed(found):
        if not item.is_device and any(item.start <= place < item.end for place in places):
            text = _left_out(text, item, launching, unknown)
    return text


def with_absent_names(text: str, faults: Iterable[tuple[str, int, str]]) -> str:
    """The text with stand-ins for what device code takes from headers that are not there: a type that a
    kernel gets by value is an enumeration, and the values of the libraries' data types are public."""
    known = list(faults)
    device = [item for item in items(text) if item.is_device]
    made: dict[str, None] = {}
    for file, line, message in known:
        for kind, name in _ABSENT.findall(message):
            prefix = name[: name.find("_DTYPE_") + len("_DTYPE_")]
            declared = f"typedef int {name};" if kind == "unknown type name" else _DATA_TYPES.get(prefix)
            places = _places(text, {(file, line)}) if declared else ()
            if any(item.start <= place < item.end for item in device for place in places):
                made[str(declared)] = None
    return f'# 1 "absent" 3\n{" ".join(made)}\n{text}' if made else text


def instantiated(text: str, entry: str) -> str:
    """The text with one more instance, `name<types>`, of a kernel template, if it has that template."""
    name = entry.partition("<")[0].split("::")[-1].strip()
    for item in reversed(items(text)):
        head = text[item.start : item.body]
        if item.is_function and 'annotate("bang.entry")' in head and _name(head) == name:
            call = f"{name}<{entry.partition('<')[2]}"
            return (
                text[: item.end]
                + _kept(text, item.end, [f"{_KEEP}_{item.end} = &{call};"])
                + text[item.end :]
            )
    return text


def kernel_templates(text: str) -> list[tuple[str, int]]:
    """Kernel templates whose parameters are all types, and how many those are."""
    found = []
    for item in items(text):
        head = text[item.start : item.body]
        template = _TEMPLATE.match(_plain(head))
        if item.is_function and template and 'annotate("bang.entry")' in head:
            kinds = [part.split()[0] for part in template[1][9:].strip("<> ").split(",") if part.split()]
            if kinds and all(kind in ("typename", "class") for kind in kinds):
                found.append((_name(head), len(kinds)))
    return found


def _name(head: str) -> str:
    """What a function's head declares: the word in front of the parameters."""
    found = re.search(r"([A-Za-z_]\w*)\s*\(", _plain(head))
    return found[1] if found else ""


def _launching_templates(text: str, found: list[Item]) -> frozenset[str]:
    """Host function templates that launch a kernel, themselves or through each other."""
    bodies = {
        _name(text[i.start : i.body]): text[i.body : i.end]
        for i in found
        if i.is_function and not i.is_device and _TEMPLATE.match(_plain(text[i.start : i.body]))
    }
    names: set[str] = set()
    while True:
        more = {
            name
            for name, body in bodies.items()
            if name not in names
            and ("/*launch*/" in body or any(called in names for called, _ in _CALLED.findall(body)))
        }
        if not more:
            return frozenset(names)
        names |= more


def _left_out(text: str, item: Item, launching: frozenset[str], unknown: set[str]) -> str:
    """The text with an item blanked, but for line markers; what a function launches stays."""
    inside = text[item.start : item.end]
    blank = _WRITTEN.sub(lambda found: " " * len(found[0]), inside)
    kept = ""
    if item.is_function:
        kept = _kept(text, item.start, _stays(text, item, launching, unknown))
    return text[: item.start] + kept + blank + text[item.end :]


def _stays(text: str, item: Item, launching: frozenset[str], unknown: set[str]) -> list[str]:
    """Lines that instantiate what a function launches: by the call itself, or else by the full name."""
    head, inside = text[item.start : item.body], text[item.body : item.end]
    calls = [(name, _arguments(inside, found.end())) for found in _LAUNCHED.finditer(inside)
             for name in [found[1]]]  # fmt: skip
    named = [f"{name}<{types}>" for name, types in _CALLED.findall(inside) if name in launching]
    named += [name for name, _ in calls if "<" in name]
    template = _TEMPLATE.match(_plain(head))
    given = _parameters(head)
    names = {word for p in given for word in re.findall(r"\b[A-Za-z]\w*_t\b", p)}
    own = "".join(chunk for chunk, is_user in chunks(text) if is_user)
    unknown = unknown | {name for name in names - _STANDARD if not _is_declared(own, name)}
    params = ", ".join(_known(p, unknown) for p in given)
    if template is not None:
        first = " ".join(f"{name}({args});" for name, args in calls)
        second = " ".join(f"(void)&{name};" for name in dict.fromkeys(named))
        start = f"{template[1]} void {_name(head)}({params})"
        return (
            [_line(f"{start} {{ {first} {second} }}", f"{start} {{ {second} }}")] if first or second else []
        )
    made = []
    for place, (name, args) in enumerate(calls):
        start = f"__attribute__((used)) static void __launch_{item.start}_{place}({params})"
        second = f"{_KEEP}_{item.start}_{place} = &{name};" if "<" in name else ""
        made.append(_line(f"{start} {{ {name}({args}); }}", second))
    rest = [name for name in dict.fromkeys(named) if name.partition("<")[0] in launching]
    return made + [_line(f"{_KEEP}_{item.start}_t{n} = &{name};", "") for n, name in enumerate(rest)]


def _line(first: str, second: str) -> str:
    """One line: the first form, and in a comment the one that takes its place if clang refuses it."""
    return re.sub(r"\s+", " ", _COMMENT.sub("", _MARKED.sub("", first))) + _ELSE + re.sub(r"\s+", " ", second)


def _arguments(text: str, at: int) -> str:
    return text[at : _closing(text, at, "(", ")") - 1]


def _parameters(head: str) -> list[str]:
    """A function's parameters as they are written."""
    found = re.search(r"[A-Za-z_]\w*\s*\(", _plain(head))
    if found is None:
        return []
    inside, made, depth = _arguments(_plain(head), found.end()), [""], 0
    for letter in inside:
        depth += (letter in "(<[{") - (letter in ")>]}")
        if letter == "," and depth == 0:
            made.append("")
        else:
            made[-1] += letter
    return [part.partition("=")[0].strip() for part in made if part.strip()]


def _kept(text: str, at: int, rows: list[str]) -> str:
    """Lines, each said to lie in a file of its own."""
    if not rows:
        return ""
    file, line = _place_of(text, at)
    made = [f'\n# 1 "{LAUNCH}{at}.{i}>"\n{row}' for i, row in enumerate(rows)]
    return "".join(made) + f'\n# {line} "{file}"\n'


def _second_forms(text: str, files: set[str], unknown: set[str]) -> str:
    """Kept lines that clang refused: without types it does not know, else in their other form, else not."""

    def other(found: re.Match[str]) -> str:
        first, _, second = found[2].partition(_ELSE)
        shape = _LAUNCHER.match(first)
        params = ", ".join(_known(p, unknown) for p in _parameters(first)) if shape else ""
        if shape and params != shape[2]:
            return f"{found[1]}{shape[1]}({params}){shape[3]}{_ELSE}{second}"
        return f"{found[1]}{second}"

    for file in files:
        if file.startswith(LAUNCH):
            text = re.sub(rf'(\n# 1 "{re.escape(file)}"\n)([^\n]*)', other, text)
    return text


def _is_declared(text: str, name: str) -> bool:
    shape = rf"\b(?:struct|class|union|enum|using|typename)\s+{name}\b|\b{name}\s*;|[*&]\s*{name}\s*;"
    return re.search(shape, text) is not None


def _known(parameter: str, unknown: set[str]) -> str:
    """A parameter whose type does not exist becomes an integer of its name."""
    words = re.findall(r"\w+", parameter)
    return f"int {words[-1]}" if unknown & set(words[:-1]) else parameter


def _lines(text: str) -> Iterator[tuple[int, str, int]]:
    """Every line that is no marker: its offset, and the file and line that the markers call it."""
    offset, file, line = 0, "", 0
    for row in text.splitlines(keepends=True):
        marker = MARKER.match(row) if row.startswith("# ") else None
        if marker:
            file, line = marker[2], int(marker[1])
        else:
            yield offset, file, line
            line += 1
        offset += len(row)


def _places(text: str, faults: set[tuple[str, int]]) -> list[int]:
    return [offset for offset, file, line in _lines(text) if (file, line) in faults]


def _place_of(text: str, at: int) -> tuple[str, int]:
    """File and line of an offset."""
    found = ("", 1)
    for offset, file, line in _lines(text):
        if offset > at:
            break
        found = (file, line)
    return found
