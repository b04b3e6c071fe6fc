"""What a kernel takes from around it: globals, closures, attributes of modules, meta-parameters.

They are constants of the compiler. Enters: where a name was looked up, and what was found. Leaves: whether a
program that was compiled with it is still right, since a global may have another value at the next launch.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

MISSING = object()
_IN_PLACE = (list, dict, set, np.ndarray)  # these may change and stay the same object
_FIXED = frozenset("trilobite numpy math builtins functools itertools operator typing dataclasses".split())


def look_up(function: Callable[..., Any], name: str) -> Any:
    """A name of a function's surroundings, or MISSING."""
    code: Any = getattr(function, "__code__", None)
    if code is not None and name in code.co_freevars:
        cell = (function.__closure__ or ())[code.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:  # assigned later than the kernel is compiled
            return MISSING
    found = getattr(function, "__globals__", {}).get(name, MISSING)
    return getattr(builtins, name, MISSING) if found is MISSING else found


def told_apart(value: Any) -> Any:
    """Something hashable that is equal for equal constants."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    return value if callable(value) else repr(value)


@dataclass(frozen=True)
class Taken:
    """One value that a compilation took from its surroundings."""

    owner: Any  # a function, or a module
    name: str
    value: Any
    contents: Any

    @classmethod
    def of(cls, owner: Any, name: str, value: Any) -> Taken:
        return cls(owner, name, value, told_apart(value) if isinstance(value, _IN_PLACE) else None)

    def still_holds(self) -> bool:
        if isinstance(self.owner, ModuleType):
            now = getattr(self.owner, self.name, MISSING)
        else:
            now = look_up(self.owner, self.name)
        if isinstance(now, _IN_PLACE):
            return now is self.value and told_apart(now) == self.contents
        constant = isinstance(now, (bool, int, float, str)) and type(now) is type(self.value)
        return now is self.value or (constant and repr(now) == repr(self.value))


def may_change(owner: Any, value: Any) -> bool:
    """Whether a value is worth remembering: those of libraries and modules themselves stay as they are."""
    if isinstance(value, ModuleType):
        return False
    return not isinstance(owner, ModuleType) or owner.__name__.split(".")[0] not in _FIXED
