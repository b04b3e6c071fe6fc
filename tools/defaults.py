"""What stands where a caller gives nothing: defaults of public functions, methods and records everywhere.

    python -m tools.defaults        # writes tests/project/defaults.txt

Enters: the package, every module of it. Leaves: one line for each function and class that has defaults:
its parameters with them, and for a record whether it is frozen and which fields are compared. A test
compares each with the kept line, so that a default changes only together with the line that tells so.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import trilobite

KEPT = Path(__file__).resolve().parent.parent / "tests" / "project" / "defaults.txt"
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
        for name, value in vars(module).items():
            if getattr(value, "__module__", "") == module.__name__ and not name.startswith("_"):
                rows.update(_of(f"{module.__name__}.{name}", value))
    return {place: row for place, row in rows.items() if row}


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
            is_own = name == "__init__" and not dataclasses.is_dataclass(value)
            if isinstance(method, FunctionType) and (is_own or not name.startswith("_")):
                yield f"{place}.{name}", _parameters(method)


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
