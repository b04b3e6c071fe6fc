"""Which names the code of functions and classes reads.

Enters: code objects and classes of the user's. Leaves: sets of names: globals, attributes, and what `getattr`
and `hasattr` are asked for by a text in the code. Nothing is run.
"""

from __future__ import annotations

import functools
import opcode
from types import CodeType, FunctionType, MethodType
from typing import Any

from trilobite.framework.snapshots import MISSING

OWN = __name__.partition(".")[0] + "."
ASKING = frozenset({"getattr", "hasattr", "attrgetter", "methodcaller", "__getattribute__"})
# with one of these, code may come by any attribute of what it has
REFLECTING = frozenset({"getattr", "vars", "__dict__", "asdict", "astuple", "fields", "eval", "exec"})
_IMPORT = opcode.opmap["IMPORT_NAME"]


class _Everything:
    def __contains__(self, name: object) -> bool:
        return True


EVERYTHING = _Everything()


@functools.lru_cache(maxsize=4096)
def names_of_class(cls: Any) -> Any:
    """Names that the code of a class reads; of the package's own layers all that they have."""
    if cls.__module__.startswith(OWN):
        return EVERYTHING
    found: set[str] = set()
    for base in cls.__mro__:
        if base.__module__.startswith(OWN) and base is not cls:
            if "forward" in vars(base) and "named_modules" not in vars(base):
                return EVERYTHING  # a layer of the package with a part of the user's own
            continue
        for value in vars(base).values():
            function = plain_function(value)
            if function is not None:
                found |= names_of_code(function.__code__)
    return frozenset(found)


@functools.lru_cache(maxsize=4096)
def names_of_code(code: CodeType) -> frozenset[str]:
    """Globals and attributes that the code names, those of functions inside it too."""
    inner = (names_of_code(c) for c in code.co_consts if isinstance(c, CodeType))
    return frozenset(code.co_names).union(asked_by_code(code), *inner)


@functools.lru_cache(maxsize=4096)
def asked_by_code(code: CodeType) -> frozenset[str]:
    """Names that the code asks objects for, which may not have them."""
    found: set[str] = set()
    if not ASKING.isdisjoint(code.co_names):
        for constant in code.co_consts:
            texts = constant if isinstance(constant, tuple) else (constant,)
            parts = (part for t in texts if isinstance(t, str) for part in t.split("."))
            found.update(part for part in parts if part.isidentifier())
    inner = (asked_by_code(c) for c in code.co_consts if isinstance(c, CodeType))
    return frozenset(found).union(*inner)


@functools.lru_cache(maxsize=4096)
def imported_by_code(code: CodeType) -> frozenset[str]:
    """Modules that the code may import when it runs."""
    inner = (imported_by_code(c) for c in code.co_consts if isinstance(c, CodeType))
    named = code.co_names if _IMPORT in code.co_code[::2] else ()
    return frozenset(named).union(*inner)


def plain_function(value: Any) -> FunctionType | None:
    """The function behind a method, a property, a partial, a decorator that says what it wraps."""
    for _ in range(8):
        if isinstance(value, FunctionType):
            wrapped = getattr(value, "__wrapped__", None)
            if wrapped is None or not value.__module__.startswith(OWN):
                return value
            value = wrapped
        elif isinstance(value, (staticmethod, classmethod, MethodType)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        elif isinstance(value, functools.partial | functools.partialmethod | functools.cached_property):
            value = value.func
        elif isinstance(value, functools._lru_cache_wrapper):
            value = value.__wrapped__
        else:
            value = getattr(value, "fn", None) if type(value).__module__.startswith(OWN) else None
    return None


@functools.lru_cache(maxsize=4096)
def names_of_methods(cls: Any, names: frozenset[str]) -> frozenset[str]:
    """Names that methods read which are themselves named; and those that they call in turn."""
    found, waiting = set(names), [*names, *_by_operators(cls)]
    while waiting:
        function = plain_function(in_class(cls, waiting.pop()))
        if function is not None and not function.__module__.startswith(OWN):
            new = names_of_code(function.__code__) - found
            found |= new
            waiting += new
    return frozenset(found)


@functools.lru_cache(maxsize=4096)
def asked_by_methods(cls: Any, names: frozenset[str]) -> frozenset[str]:
    """What methods with these names ask objects for."""
    functions = (plain_function(in_class(cls, name)) for name in (*names, *_by_operators(cls)))
    return frozenset().union(*(asked_by_code(f.__code__) for f in functions if f is not None))


def _by_operators(cls: type) -> list[str]:
    """Methods that code calls without naming them: `x()`, `x[0]`, `x * 2`, an attribute that is not there."""
    users = (vars(base) for base in cls.__mro__ if not base.__module__.startswith(OWN) and base is not object)
    return sorted({name for own in users for name in own if name.startswith("__") and name not in _MAKERS})


_MAKERS = frozenset({"__init__", "__new__", "__init_subclass__", "__class_getitem__", "__set_name__"})


def in_class(cls: type, name: str) -> Any:
    """What a class or the first of its bases has under a name, as it stands there."""
    for base in cls.__mro__:
        if name in vars(base) and base is not object:
            return vars(base)[name]
    return MISSING


def forget_classes() -> None:
    """A method may have been replaced: what is known of classes is found out anew."""
    for known in (names_of_class, names_of_methods, asked_by_methods):
        known.cache_clear()
