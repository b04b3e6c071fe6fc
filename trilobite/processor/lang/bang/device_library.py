"""Bodies of functions that a C library or libc++ keeps in its binary, for device code that calls them.

Enters: what clang made of a source. Leaves: C++ that defines those of the functions declared there which
`include/device_library.h` knows, each under `PREFIX` and its name; nothing where none is called. libc++'s
sort of plain numbers, declared in its header and defined in its binary, is instantiated for the types that
are sorted. There is no heap: `new` that may give nothing gives nothing, the others are refused by name.
"""

from __future__ import annotations

import re
from functools import lru_cache

from trilobite.processor.lang.bang.headers import INCLUDE

PREFIX = "__dlp_lib_"
MARK = '\n# 1 "intrinsics" 3\n'
_DECLARED = re.compile(r'^declare [^@\n]*@"?([\w.$]+)"?\(', re.MULTILINE)
_SORT = re.compile(r"_ZNSt3__16__sortIRNS_6__lessI([a-z])")
_DEFINED = re.compile(rf"{PREFIX}(\w+)\(")
_TYPES = {
    "a": "signed char", "c": "char", "h": "unsigned char", "s": "short", "t": "unsigned short", "i": "int",
    "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long", "y": "unsigned long long",
    "f": "float", "d": "double", "w": "wchar_t",
}  # fmt: skip
_SORTED = """namespace std { inline namespace __1 {
template <class C, class I> void __sort(I first, I last, C) {
  if (first == last) return;
  long depth = 2 * (63 - __builtin_clzl((unsigned long)(last - first)));
  auto less = [](const auto &a, const auto &b) { return a < b; };
  std::__introsort<_ClassicAlgPolicy, decltype(less) &, I, false>(first, last, less, depth);
}
%s} }
"""
_ALLOCATING = {
    "_Znwm": "operator new", "_Znam": "operator new[]", "_ZnwmSt11align_val_t": "operator new",
    "_ZnamSt11align_val_t": "operator new[]",
    **{name: name for name in ("malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "strdup")},
}  # fmt: skip
_NOTHROW, _RELEASING = "RKSt9nothrow_t", ("_Zdl", "_Zda")
_COMPONENT = re.compile(r"(\d+)|St|N|[rVK]|S[a-z_]")


@lru_cache(maxsize=1)
def _bodies() -> dict[str, str]:
    """The definitions of the header by the name of the function that they stand for."""
    text = (INCLUDE / "device_library.h").read_text(encoding="utf-8")
    found = (chunk.strip() for chunk in re.split(r"\n(?=extern )", text))
    return {name[1]: chunk for chunk in found if (name := _DEFINED.search(chunk))}


def bodies(llvm: str) -> str:
    """Definitions for what the text declares and does not define."""
    declared = sorted(set(_DECLARED.findall(llvm)))
    known = _bodies()
    made = [known[name] for name in declared if name in known and f"@{PREFIX}{name}(" not in llvm]
    sorted_types = {
        _TYPES[found[1]] for name in declared if (found := _SORT.match(name)) and found[1] in _TYPES
    }
    if sorted_types:
        lines = [
            f"template void __sort<__less<{t}>&, {t}*>({t}*, {t}*, __less<{t}>&);\n"
            for t in sorted(sorted_types)
        ]
        made.append(_SORTED % "".join(lines))
    return MARK + "\n".join(made) if made else ""


def allocates(name: str) -> str:
    """What a function that takes memory from a heap is called, else nothing."""
    return _ALLOCATING.get(name, "")


def gives_nothing(name: str) -> bool:
    """Whether it may say that there is no memory, or gives back what nobody got."""
    return (
        name == "free" or name.startswith(_RELEASING) or (name.startswith("_Zn") and name.endswith(_NOTHROW))
    )


def stops(name: str) -> str:
    """The error by which a function of the library ends a program, else nothing."""
    found = re.match(r"_ZNSt3__1\d+__throw_([a-z_]+?)B?E?[A-Z]", name) or re.match(
        r"_ZSt\d+__throw_([a-z_]+?)[A-Zv]", name
    )
    if found:
        return found[1]
    return "assertion" if "__libcpp_verbose_abort" in name else ""


def readable(name: str) -> str:
    """A mangled name's own words up to its template arguments: std::basic_string."""
    if not name.startswith("_Z"):
        return name
    at, words = 2, []
    while found := _COMPONENT.match(name, at):
        at = found.end()
        if found[1]:
            word = name[at : at + int(found[1])]
            at += int(found[1])
            words += [word] if word != "__1" else []
        elif found[0] == "St":
            words.append("std")
    return "::".join(words) or name
