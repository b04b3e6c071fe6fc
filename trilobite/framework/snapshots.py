"""What values of Python look like: snapshots that a guard compares with what is there now.

Enters: a value that a recording saw. Leaves: something that says whether another value, or the same object
later, would mean the same to the recording. Atoms are compared by type and value, containers and NumPy arrays
by what they hold, all else by identity.
"""

from __future__ import annotations

import array
from collections import deque
from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import is_
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.dtypes import dtype
from trilobite.ir.primitive import Table
from trilobite.native.ownership import Count, counter

ATOMS = (int, float, complex, bool, str, bytes, type(None), dtype)
_MAPPINGS: tuple[Any, ...] = (dict, MappingProxyType)
_VIEWS: tuple[Any, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_MEMORY = (np.ndarray, bytearray, memoryview, array.array)
CONTAINERS: tuple[Any, ...] = (list, tuple, set, frozenset, deque, *_MAPPINGS, *_VIEWS)
CHANGING = (*CONTAINERS, *_MEMORY)  # look otherwise though they are the same object
LARGEST = 4096  # elements of a container that are looked at
DEEPEST = 8  # containers in containers
MOST_BYTES = 1 << 24  # of an array that is compared
_MANY = 64  # elements that machine code compares
MISSING = object()


class Atom(NamedTuple):
    """A value that is compared by type and value; a NaN equals itself, -0.0 is not 0.0."""

    kind: type
    value: Any
    sign: str = ""


class Object:
    """A value that is compared by identity, and kept alive so that nothing else gets its address."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Object) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class Contents(NamedTuple):
    """What an array or another piece of memory holds."""

    kind: type
    shape: tuple[int, ...]
    dtype: Any
    data: Any


def frozen(value: Any, depth: int = 0) -> Any:
    """What a value looks like now; equal ones are equal, and changes in place show."""
    if type(value) in ATOMS:
        zero = type(value) is float and value == 0
        return Atom(type(value), "nan" if value != value else value, str(value) if zero else "")
    if isinstance(value, np.generic) and value.dtype.kind != "O":
        return Contents(type(value), (), value.dtype, value.tobytes())
    if isinstance(value, _MEMORY):
        return _contents(value, depth)
    if isinstance(value, CONTAINERS) and depth < DEEPEST and len(value) <= LARGEST:
        if isinstance(value, _MAPPINGS):
            return type(value), tuple((_key(k), frozen(v, depth + 1)) for k, v in value.items())
        if isinstance(value, set | frozenset):
            return type(value), frozenset(_key(v) for v in value)
        return type(value), tuple(frozen(v, depth + 1) for v in value)
    return Object(value)


def _contents(value: Any, depth: int) -> Any:
    if isinstance(value, np.ma.MaskedArray):
        return _contents(value.data, depth), _contents(np.ma.getmaskarray(value), depth)
    if is_too_large(value):
        return Object(value)
    if not isinstance(value, np.ndarray):
        return Contents(type(value), (), getattr(value, "typecode", ""), bytes(value))
    if value.dtype.hasobject:
        elements = tuple(frozen(v, depth + 1) for v in value.flat) if depth < DEEPEST else ()
        return Contents(type(value), value.shape, value.dtype, elements)
    return Contents(type(value), value.shape, value.dtype, value.tobytes())


def is_too_large(value: Any) -> bool:
    """Would looking at it cost more than most calls?"""
    if isinstance(value, np.ndarray | memoryview):
        return value.nbytes > MOST_BYTES or (
            isinstance(value, np.ndarray) and value.dtype.hasobject and value.size > LARGEST
        )
    if isinstance(value, bytearray | array.array):
        return len(value) > MOST_BYTES
    return isinstance(value, CONTAINERS) and len(value) > LARGEST


def _key(value: Any) -> Any:
    return frozen(value) if type(value) in ATOMS else Object(value)


class Snapshot:
    """A container or an array as it was."""

    __slots__ = ("content", "elements", "kind")

    def __init__(self, value: Any) -> None:
        self.kind = type(value)
        self.content = frozen(value)
        whole = isinstance(value, (*_MEMORY, set, frozenset)) or is_too_large(value)
        parts = None if whole else list(_elements(value))
        self.elements = parts if parts is not None and not any(map(can_change, parts)) else None

    def matches(self, now: Any) -> bool:
        """First whether the very same elements are in it, which is quick."""
        if type(now) is not self.kind:
            return False
        elements = self.elements
        if elements is not None and len(now) <= LARGEST and _identical(_elements(now), elements):
            return True
        return bool(frozen(now) == self.content)


def _identical(now: Iterable[Any], elements: list[Any]) -> bool:
    found = now if type(now) is list else list(now)
    if len(found) != len(elements):
        return False
    if len(found) > _MANY:
        return _native_count()(found, elements) >= 0
    return all(map(is_, found, elements))


@lru_cache(maxsize=1)
def _native_count() -> Count:
    return counter()


def _elements(value: Any) -> Iterable[Any]:
    return (*value, *value.values()) if isinstance(value, _MAPPINGS) else value


def can_change(value: Any, depth: int = 0) -> bool:
    """May it look otherwise though it is the same object? Objects are looked into elsewhere."""
    if type(value) is tuple:
        return depth < DEEPEST and any(can_change(v, depth + 1) for v in value)
    return isinstance(value, CHANGING)


def seen(value: Any) -> Any:
    """What to keep of a value to compare with later. The table of primitives only ever grows."""
    return Snapshot(value) if isinstance(value, CHANGING) and type(value) is not Table else value


def same(now: Any, kept: Any) -> bool:
    """Of values that are not the same object: do they mean the same?"""
    if type(kept) is Snapshot:
        return kept.matches(now)
    if type(now) is not type(kept):
        return False
    if type(now) not in ATOMS:
        return isinstance(now, np.generic) and bool(frozen(now) == frozen(kept))
    return bool(now == kept and (now or repr(now) == repr(kept))) or bool(now != now and kept != kept)


def shown(value: Any) -> str:
    """A value for a reader."""
    if value is MISSING:
        return "gone"
    if isinstance(value, Snapshot):
        return f"another {value.kind.__name__}" if value.kind is np.ndarray else "another container"
    if type(value) in ATOMS or isinstance(value, np.generic):
        return repr(value)
    return f"{'another ' if not isinstance(value, type) else ''}{type(value).__name__}"


def told(look: Mapping[str, Any], name: str) -> str:
    """An entry of the look of a module for a reader."""
    value = look.get(name, MISSING)
    if isinstance(value, Atom):
        return value.sign or repr(value.value)
    if isinstance(value, Object):
        return f"another {type(value.value).__name__}"
    return "gone" if value is MISSING else "something else"
