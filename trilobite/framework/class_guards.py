"""Guards of classes: settings and methods that a recording may have come by, in a class or its bases.

Enters: a class and the names that code reads. Leaves: whether the class answers to them as it did. CPython
gives a class another version when it or one of its bases is changed, so one number says that nothing was;
where it cannot be read (which is tried once) every name is looked up in every call.
"""

from __future__ import annotations

from collections.abc import Iterable
from ctypes import c_uint
from functools import lru_cache
from typing import Any

from trilobite.framework.code_names import in_class
from trilobite.framework.snapshots import MISSING, same, seen

_VERSION = 384  # where a class of CPython 3.11 to 3.13 keeps it, behind its forty-eight pointers


def _version_of(cls: type) -> c_uint:
    """The number itself: its value is what it is now."""
    return c_uint.from_address(id(cls) + _VERSION)


@lru_cache(maxsize=1)
def versions_are_told() -> bool:
    """Is that number another one after every change, and only then?"""
    base: Any = type("base", (), {"a": 1})
    cls: Any = type("cls", (base,), {})
    if cls.__class__.__basicsize__ < _VERSION + 4:
        return False
    found = []
    for changed, value in ((None, 0), (base, 2), (cls, 3), (None, 0)):
        if changed is not None:
            changed.a = value
        found.append((cls.a, _version_of(cls).value)[1])
    first, second, third, fourth = found
    return bool(first) and len({first, second, third}) == 3 and fourth == third


class ClassGuard:
    """What a class has under the names that matter, as it stands there."""

    __slots__ = ("cls", "found", "skipped", "version", "was")

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.found: dict[str, Any] = {}
        self.skipped: frozenset[str] = frozenset()  # numbers that are inputs of the recording
        self.version = _version_of(cls) if versions_are_told() else None
        self.was = 0

    def note(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.found:
                self.found[name] = seen(in_class(self.cls, name))
        self._settle()

    def _settle(self) -> None:
        if self.version is not None:
            getattr(self.cls, "__doc__", None)  # a class that was changed gets its version when it is asked
            self.was = self.version.value

    def holds(self) -> bool:
        if self.version is not None and self.version.value == self.was != 0:
            return True
        if self.differs() is not None:
            return False
        self._settle()
        return True

    def differs(self) -> str | None:
        """The name under which something else is found now."""
        for name, kept in self.found.items():
            now = in_class(self.cls, name)
            if now is not kept and name not in self.skipped and not same(now, kept):
                return name
        return None

    def place(self, name: str) -> tuple[type, Any]:
        """The class that has it, and what it has."""
        for base in self.cls.__mro__:
            if name in vars(base):
                return base, vars(base)[name]
        return self.cls, MISSING
