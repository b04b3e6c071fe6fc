"""What stands where a caller gives nothing, and the numbers that modules name: of everything, everywhere.

    python -m tools.defaults        # writes tests/project/defaults.txt

Enters: the package, every module of it. Leaves: one line for each function and class that has defaults:
its parameters with them, and for a record whether it is frozen and which fields are compared; and one for the
constants of each module, long ones by a digest. A test compares each with the kept line, so that a default or
a constant changes only together with the line that tells so.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

import trilobite

KEPT = Path(__file__).resolve().parent.parent / "tests" / "project" / "defaults.txt"
LONGEST = 120  # letters of a constant that is shown whole
_PURE = {
    "frozenset",
    "tuple",
    "dict",
    "set",
    "range",
    "sum",
    "zip",
    "re.compile",
    "float",
    "bytes",
    "enumerate",
}
_NAMED = re.compile(r"^[A-Z_, ]+[A-Z0-9_, ]*(?::[^=]*)?=", re.MULTILINE)  # may be a constant
_PLAIN = (bool, int, float, complex, str, bytes, re.Pattern, np.dtype)
_HERE = {str(KEPT.parent.parent.parent), sys.prefix, sys.base_prefix, str(Path.home())}  # not elsewhere
_OUTSIDE = {"os", "sys", "mmap", "platform", "time"}  # say something of this machine
_NEVER = (".material.", "__main__")  # files for students; what runs when it is imported
_ADDRESS = re.compile(r" at 0x[0-9a-f]+|<factory>")


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(trilobite.__path__, "trilobite."):
        if not any(part in found.name for part in _NEVER):
            yield importlib.import_module(found.name)


def defaults() -> dict[str, dict[str, str]]:
    """By place: parameter -> default, as texts."""
    rows: dict[str, dict[str, str]] = {}
    for module in modules():
        rows.update(of_module(module))
    return rows


def of_module(module: ModuleType) -> dict[str, dict[str, str]]:
    rows: dict[str, dict[str, str]] = {}
    for name, value in vars(module).items():
        if getattr(value, "__module__", "") == module.__name__ and not name.startswith("__"):
            rows.update(_of(f"{module.__name__}.{name}", value))
    rows[f"{module.__name__} (constants)"] = dict(_constants(module))
    return {place: row for place, row in rows.items() if row}


def kept() -> dict[str, dict[str, str]]:
    lines = (line.partition(": ") for line in KEPT.read_text(encoding="utf-8").splitlines())
    return {place: dict(part.split("=", 1) for part in row.split("  ")) for place, _, row in lines}


def changed(now: Mapping[str, Mapping[str, str]], before: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What is in both, and another one; what came or went is no matter."""
    return [
        f"{place}: {name}={now[place][name]} was {value}"
        for place, row in before.items()
        if place in now
        for name, value in row.items()
        if now[place].get(name, value) != value
    ]


def text(rows: dict[str, dict[str, str]]) -> str:
    lines = (
        f"{place}: {'  '.join(f'{name}={value}' for name, value in row.items())}"
        for place, row in sorted(rows.items())
    )
    return "\n".join(lines) + "\n"


def _of(place: str, value: Any) -> Iterator[tuple[str, dict[str, str]]]:
    if isinstance(value, FunctionType):
        yield place, _parameters(value)
    elif isinstance(value, type):
        yield place, _record(value)
        for name, method in vars(value).items():
            method = getattr(method, "__func__", method)
            is_own = name in ("__init__", "__call__") and not dataclasses.is_dataclass(value)
            if isinstance(method, FunctionType) and (is_own or not name.startswith("__")):
                yield f"{place}.{name}", _parameters(method)


def _constants(module: ModuleType) -> Iterator[tuple[str, str]]:
    """What is assigned once for all in the module, and is made of numbers, texts and their like alone."""
    text = inspect.getsource(module)
    if not _NAMED.search(text):
        return
    tree = ast.parse(text)
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        inner = [n for target in targets for n in ast.walk(target or tree) if isinstance(n, ast.Name)]
        for name in (n.id for n in inner if isinstance(node, ast.Assign | ast.AnnAssign)):
            value = vars(module).get(name)
            if name.isupper() and _is_plain(value) and _is_pure(node, value):
                shown = _plain(value)
                if any(place in shown for place in _HERE):
                    continue
                digest = hashlib.sha256(shown.encode()).hexdigest()[:16]
                yield name, shown if len(shown) <= LONGEST else f"{shown[: LONGEST // 2]}... {digest}"


def _is_pure(node: ast.AST, value: Any) -> bool:
    """Is it the same on each machine and at any time? It asks nobody, or is a table that nobody changes."""
    calls = {ast.unparse(part.func) for part in ast.walk(node) if isinstance(part, ast.Call)}
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return (calls <= _PURE or isinstance(value, tuple | frozenset)) and not names & _OUTSIDE


def _is_plain(value: Any) -> bool:
    """Numbers, texts and containers of them; of functions and records only what nobody can add to."""
    if isinstance(value, dict):
        return all(map(_is_word, value)) and all(map(_is_word, value.values()))
    if isinstance(value, list | set):
        return all(map(_is_word, value))
    if isinstance(value, tuple | frozenset):
        return all(map(_is_plain, value))
    if _is_record(value):
        return all(_is_plain(getattr(value, field.name)) for field in dataclasses.fields(value))
    return _is_word(value) or isinstance(value, FunctionType | type)


def _is_word(value: Any) -> bool:
    if isinstance(value, tuple | frozenset):
        return all(map(_is_word, value))
    return value is None or isinstance(value, _PLAIN)


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _plain(value: Any) -> str:
    """The same in each process, whatever order a set has."""
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{_plain(k)}: {_plain(v)}' for k, v in value.items()))}}}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_plain, value))})"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(_plain, value)))}}}"
    if _is_record(value):
        fields = (_plain(getattr(value, field.name)) for field in dataclasses.fields(value) if field.repr)
        return f"{type(value).__name__}({', '.join(fields)})"
    if isinstance(value, FunctionType | type):
        return str(value.__qualname__)
    shown = repr(value.pattern if isinstance(value, re.Pattern) else value)
    return " ".join(shown.split())


def _parameters(function: Any) -> dict[str, str]:
    given = inspect.signature(function).parameters.values()
    return {p.name: _shown(p.default) for p in given if p.default is not inspect.Parameter.empty}


def _record(cls: Any) -> dict[str, str]:
    """Of a record or named tuple: what a caller may leave out, and what makes two of it equal."""
    if issubclass(cls, tuple) and hasattr(cls, "_field_defaults"):
        return {name: _shown(value) for name, value in cls._field_defaults.items()}
    if "__dataclass_params__" not in vars(cls):
        return {}
    row = {"(frozen)": str(cls.__dataclass_params__.frozen), "(hashed)": str(cls.__hash__ is not None)}
    for field in dataclasses.fields(cls):
        said = [kind for kind in ("init", "repr", "compare", "kw_only") if not getattr(field, kind)]
        if field.default is not dataclasses.MISSING:
            said.append(_shown(field.default))
        if said and said != ["kw_only"]:
            row[field.name] = " ".join(part for part in said if part != "kw_only")
    return row


def _shown(value: Any) -> str:
    if isinstance(value, FunctionType | type):
        return str(value.__name__)
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}(...)"  # whose own defaults have a line
    if isinstance(value, frozenset):
        return ", ".join(sorted(map(str, value)))
    return " ".join(_ADDRESS.sub("", repr(value)).split())


if __name__ == "__main__":
    KEPT.write_text(text(defaults()), encoding="utf-8")
