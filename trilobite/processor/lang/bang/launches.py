"""Launches of host functions that were left out: the kernel templates that they name stay instantiated.

Enters: a host function as a span of the rewritten text. Leaves: lines of C++, each in a file of its own so
that clang's word about it is known: the instance by its full name, or the call with what is known of its
parameters, the one in a comment behind the other.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

from trilobite.processor.lang.bang.headers import INCLUDE
from trilobite.processor.lang.bang.host_items import (
    TEMPLATE,
    Item,
    closing,
    items,
    lines,
    marked_away,
    name_of,
    plain,
)
from trilobite.processor.lang.bang.rewrite import chunks

LAUNCH = "<launch "  # the file that a kept instantiation is said to lie in
GUESS = f"{LAUNCH}guess "  # the same of one that nobody wrote
ENTRY = 'annotate("bang.entry")'
_KEEP = "__attribute__((used)) static auto __launch"
_ELSE = " // else "
_LAUNCHER = re.compile(r"(.*?void \w+)\((.*?)\)( \{.*)$")
_INDEX = re.compile(r"[Ii](?:dx|nd|nt)|[Oo]ffset|[Pp]os|^I$")
_STANDARD = frozenset(
    "size_t ptrdiff_t ssize_t nullptr_t max_align_t intptr_t uintptr_t int8_t int16_t int32_t int64_t "
    "uint8_t uint16_t uint32_t uint64_t".split()
)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_LAUNCHED = re.compile(
    r"((?:[A-Za-z_]\w*\s*(?:<[^;(){}]*>)?\s*::\s*)*[A-Za-z_]\w*\s*(?:<[^;(){}]*>)?)\s*/\*launch\*/\s*\("
)
_KEPT = re.compile(r'(\n# 1 "(<launch [^"]*)"\n)([^\n]*)')
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*<([^;(){}<>]*)>\s*\(")


@dataclass(frozen=True)
class Launching:
    """What a text has of kernels and of host templates that launch them."""

    text: str
    own: str  # the user's lines
    kernels: dict[str, int]  # kernel templates, and how many parameters each has; 0 if that may vary
    hosts: frozenset[str]  # names of host templates that launch, themselves or through each other

    @staticmethod
    def of(text: str, found: list[Item]) -> Launching:
        heads = [text[i.start : i.body] for i in found if i.is_function]
        kernels = {
            name_of(h): _counted(m[1]) for h in heads if ENTRY in h and (m := TEMPLATE.match(plain(h)))
        }
        own = "".join(chunk for chunk, is_user in chunks(text) if is_user)
        return Launching(text, own, kernels, _launching_templates(text, found))

    def stays(self, item: Item, unknown: set[str]) -> str:
        """The lines that stand for a function that is left out."""
        rows = self._rows(item, unknown) if item.is_function else []
        return kept(self.text, item.start, rows)

    def _rows(self, item: Item, unknown: set[str]) -> list[str]:
        head, inside = self.text[item.start : item.body], self.text[item.body : item.end]
        if "/*launch*/" not in inside and not any(name in inside for name in self.hosts):
            return []
        launches = [found for found in _LAUNCHED.finditer(inside) if self._counts(found[1])]
        calls = [(found[1], _arguments(inside, found.end())) for found in launches]
        named = [f"{name}<{types}>" for name, types in _CALLED.findall(inside) if name in self.hosts]
        given = parameters_of(head)
        names = {word for p in given for word in re.findall(r"\b[A-Za-z]\w*_t\b", p)}
        strange = names - _STANDARD - _of_our_headers()
        unknown = unknown | {name for name in strange if not _is_declared(self.own, name)}
        params = ", ".join(_known(p, unknown) for p in given)
        template = TEMPLATE.match(plain(head))
        if template is not None:
            named += [name for name, _ in calls if "<" in name]
            first = " ".join(f"{name}({args});" for name, args in calls)
            second = " ".join(f"(void)&{name};" for name in dict.fromkeys(named))
            start = f"{template[1]} void {name_of(head)}({params})"
            rows = [_line(f"{start} {{ {first} {second} }}", f"{start} {{ {second} }}")]
            return rows if first or second else []
        made = []
        for place, (name, args) in enumerate(calls):
            call = f"__attribute__((used)) static void __launch_{item.start}_{place}({params})"
            call += f" {{ {name}({args}); }}"
            full = f"{_KEEP}_{item.start}_{place} = &{name};"
            if self._is_full(name):
                made.append(_line(full, call))
            else:
                made.append(_line(call, full if "<" in name else ""))
        rest = dict.fromkeys(named)
        return made + [_line(f"{_KEEP}_{item.start}_t{n} = &{name};", "") for n, name in enumerate(rest)]

    def _counts(self, name: str) -> bool:
        """Whether a launch instantiates something: a kernel that is no template is there in any case."""
        return "<" in name or _last(name) in self.kernels

    def _is_full(self, name: str) -> bool:
        """Whether a name gives every argument of its template: then it means one instance without a call."""
        wanted = self.kernels.get(_last(name), 0)
        return wanted > 0 and wanted == _counted(name.partition("<")[2].join("<>"))


@lru_cache(maxsize=1)
def _of_our_headers() -> frozenset[str]:
    """Types that the device's headers and the runtime's declare."""
    texts = [path.read_text(encoding="utf-8") for path in INCLUDE.glob("*.h")]
    return frozenset(name for text in texts for name in re.findall(r"\b[A-Za-z]\w*_t\b", text))


def _last(name: str) -> str:
    return re.sub(r"<.*", "", name, flags=re.DOTALL).split("::")[-1].strip()


def _counted(text: str) -> int:
    """How many parameters or arguments stand in angle brackets; 0 if they are a pack."""
    inside = text[text.index("<") + 1 : text.rindex(">")]
    return 0 if "..." in inside or not inside.strip() else len(_split(inside))


def _launching_templates(text: str, found: list[Item]) -> frozenset[str]:
    bodies = {
        name_of(text[i.start : i.body]): text[i.body : i.end]
        for i in found
        if i.is_function and not i.is_device and TEMPLATE.match(plain(text[i.start : i.body]))
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


def instantiated(text: str, entry: str) -> str:
    """The text with one more instance, `name<types>`, of a kernel template, if it has that template."""
    owner = re.search(r"(\w+)\s*<.*>\s*::\s*\w+\s*$", entry)
    if owner is not None:
        return _behind_class(text, owner[1], f"&{entry[owner.start() :]};")
    name = entry.partition("<")[0].split("::")[-1].strip()
    return _behind_kernel(text, name, f"&{name}<{entry.partition('<')[2]};", LAUNCH)


def with_guessed_instances(text: str) -> str:
    """The text with an instance of every kernel template: numbers are floats, what is called an index is an
    integer; if clang refuses that, the first is a float and the others are integers."""
    for name, parameters in _kernel_templates(text):
        guesses = [
            ["int" if _INDEX.search(parameter) else "float" for parameter in parameters],
            ["float", *["int"] * (len(parameters) - 1)] if len(parameters) > 1 else ["int"],
        ]
        first, second = (f"&{name}<{', '.join(types)}>;" for types in guesses)
        text = _behind_kernel(text, name, first, GUESS, second)
    return text


def _behind_kernel(text: str, name: str, instance: str, file: str, other: str = "") -> str:
    for item in reversed(items(text)):
        head = text[item.start : item.body]
        if item.is_function and ENTRY in head and name_of(head) == name:
            kept_name = f"{_KEEP}_{item.end} = "
            line = f"{kept_name}{instance}" + (f"{_ELSE}{kept_name}{other}" if other else "")
            return text[: item.end] + kept(text, item.end, [line], file) + text[item.end :]
    return text


def _behind_class(text: str, name: str, instance: str) -> str:
    """The same of a function of a class template."""
    for item in items(text):
        head = plain(text[item.start : item.end]).partition("{")[0]
        if not item.is_function and re.search(rf"\b(?:struct|class)\s+{name}\b[^;]*$", head):
            line = f"{_KEEP}_{item.end} = {instance}"
            return text[: item.end] + kept(text, item.end, [line]) + text[item.end :]
    return text


def _kernel_templates(text: str) -> list[tuple[str, list[str]]]:
    """Kernel templates whose parameters are all types, and what those are called."""
    found = []
    for item in items(text):
        head = text[item.start : item.body]
        template = TEMPLATE.match(plain(head))
        if item.is_function and template and ENTRY in head:
            words = [part.split() for part in template[1][9:].strip("<> ").split(",") if part.split()]
            if words and all(word[0] in ("typename", "class") for word in words):
                found.append((name_of(head), [word[-1] for word in words]))
    return found


def second_forms(text: str, files: set[str], unknown: set[str]) -> str:
    """Kept lines that clang refused: without types it does not know, else in their other form, else not."""

    def other(first: str, second: str) -> str:
        shape = _LAUNCHER.match(first)
        params = ", ".join(_known(p, unknown) for p in parameters_of(first)) if shape else ""
        if shape and params != shape[2]:
            return f"{shape[1]}({params}){shape[3]}{_ELSE}{second}"
        return second

    def replaced(found: re.Match[str]) -> str:
        if found[2] not in files:
            return found[0]
        first, _, second = found[3].partition(_ELSE)
        return found[1] + other(first, second)

    return _KEPT.sub(replaced, text)


def kept(text: str, at: int, rows: list[str], said_to_lie: str = LAUNCH) -> str:
    """Lines, each said to lie in a file of its own."""
    if not rows:
        return ""
    file, line = _place_of(text, at)
    made = [f'\n# 1 "{said_to_lie}{at}.{i}>"\n{row}' for i, row in enumerate(rows)]
    return "".join(made) + f'\n# {line} "{file}"\n'


def _line(first: str, second: str) -> str:
    """One line: the first form, and in a comment the one that takes its place if clang refuses it."""
    return re.sub(r"\s+", " ", _COMMENT.sub("", marked_away(first))) + _ELSE + re.sub(r"\s+", " ", second)


def _arguments(text: str, at: int) -> str:
    return text[at : closing(text, at, "(", ")") - 1]


def parameters_of(head: str) -> list[str]:
    """A function's parameters as they are written."""
    found = re.search(r"[A-Za-z_]\w*\s*\(", plain(head))
    if found is None:
        return []
    return [part.partition("=")[0].strip() for part in _split(_arguments(plain(head), found.end()))]


def _split(inside: str) -> list[str]:
    """What commas divide, outside of brackets."""
    made, depth = [""], 0
    for letter in inside:
        depth += (letter in "(<[{") - (letter in ")>]}")
        if letter == "," and depth == 0:
            made.append("")
        else:
            made[-1] += letter
    return [part for part in made if part.strip()]


def _is_declared(text: str, name: str) -> bool:
    shape = rf"\b(?:struct|class|union|enum|using|typename)\s+{name}\b|\b{name}\s*;|[*&]\s*{name}\s*;"
    return re.search(shape, text) is not None


def _known(parameter: str, unknown: set[str]) -> str:
    """A parameter whose type does not exist becomes an integer of its name."""
    words = re.findall(r"\w+", parameter)
    return f"int {words[-1]}" if unknown & set(words[:-1]) else parameter


def _place_of(text: str, at: int) -> tuple[str, int]:
    """File and line of an offset."""
    rows = lines(text)
    found = bisect_right(rows, (at, "\uffff", 0)) - 1
    return rows[found][1:] if found >= 0 else ("", 1)
