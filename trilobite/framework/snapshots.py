"""What values of Python look like: snapshots that a guard compares with what is there now.

Enters: a value that a recording saw. Leaves: something that says whether another value, or the same object
later, would mean the same to the recording. Atoms are compared by type and value, containers and NumPy arrays
by what they hold, all else by identity.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from operator import is_
from typing import Any, NamedTuple

import numpy as np

ATOMS = (int, float, complex, bool, str, bytes, type(None))
CONTAINERS = (list, tuple, dict, set, frozenset, deque)
LARGEST = 256  # elements of a container that are looked at
DEEPEST = 4  # containers in containers, attributes of attributes
MOST_BYTES = 1 << 24  # of a NumPy array that is compared
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
    """What a NumPy array holds."""

    shape: tuple[int, ...]
    dtype: Any
    data: bytes


def frozen(value: Any, depth: int = 0) -> Any:
    """What a value looks like now; equal ones are equal, and changes in place show."""
    if type(value) in ATOMS:
        zero = type(value) is float and value == 0
        return Atom(type(value), "nan" if value != value else value, str(value) if zero else "")
    if type(value) is np.ndarray and value.nbytes <= MOST_BYTES:
        return Contents(value.shape, value.dtype, value.tobytes())
    if isinstance(value, CONTAINERS) and depth < DEEPEST and len(value) <= LARGEST:
        if isinstance(value, dict):
            return type(value), tuple((_key(k), frozen(v, depth + 1)) for k, v in value.items())
        if isinstance(value, set | frozenset):
            return type(value), frozenset(_key(v) for v in value)
        return type(value), tuple(frozen(v, depth + 1) for v in value)
    return Object(value)


def _key(value: Any) -> Any:
    return value if type(value) in ATOMS else Object(value)


class Snapshot:
    """A container or an array as it was."""

    __slots__ = ("content", "elements", "kind")

    def __init__(self, value: Any) -> None:
        self.kind = type(value)
        self.content = frozen(value)
        parts = None if isinstance(value, np.ndarray | set | frozenset) else list(_elements(value))
        simple = parts is not None and len(parts) <= 2 * LARGEST and not any(map(can_change, parts))
        self.elements = parts if simple else None

    def matches(self, now: Any) -> bool:
        """First whether the very same elements are in it, which is quick."""
        if type(now) is not self.kind:
            return False
        elements = self.elements
        if elements is not None:
            found = list(_elements(now))
            if len(found) == len(elements) and all(map(is_, found, elements)):
                return True
        return bool(frozen(now) == self.content)


def _elements(value: Any) -> Iterable[Any]:
    return (*value, *value.values()) if isinstance(value, dict) else value


def can_change(value: Any, depth: int = 0) -> bool:
    """May it look otherwise though it is the same object? Objects are looked into elsewhere."""
    if type(value) is tuple:
        return depth < DEEPEST and any(can_change(v, depth + 1) for v in value)
    return isinstance(value, (*CONTAINERS, np.ndarray))


def seen(value: Any) -> Any:
    """What to keep of a value to compare with later."""
    return Snapshot(value) if isinstance(value, (*CONTAINERS, np.ndarray)) else value


def same(now: Any, kept: Any) -> bool:
    """Of values that are not the same object: do they mean the same?"""
    if type(kept) is Snapshot:
        return kept.matches(now)
    if type(now) is not type(kept) or type(now) not in ATOMS:
        return False
    return bool(now == kept and (now or repr(now) == repr(kept))) or bool(now != now and kept != kept)


def shown(value: Any) -> str:
    """A value for a reader."""
    if value is MISSING:
        return "gone"
    if isinstance(value, Snapshot):
        return f"another {value.kind.__name__}" if value.kind is np.ndarray else "another container"
    if type(value) in ATOMS:
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
