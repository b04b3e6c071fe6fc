"""Along everything that a function's code names: which values of Python a recording depends on.

Enters: a function that was just recorded, and what it was called with. Leaves: `Guards`. What the code names
is noted, whether this recording came by it or not.
"""

from __future__ import annotations

import functools
import itertools
import operator
import sys
import threading
import warnings
import weakref
from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from enum import EnumType
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from trilobite.framework.class_guards import ClassGuard
from trilobite.framework.code_names import (
    EVERYTHING,
    OWN,
    REFLECTING,
    asked_by_code,
    asked_by_methods,
    imported_by_code,
    in_class,
    names_of_class,
    names_of_code,
    names_of_methods,
    plain_function,
)
from trilobite.framework.guards import Attributes, Current, Guards, Place, forget, look_at
from trilobite.framework.snapshots import (
    ATOMS,
    CHANGING,
    CONTAINERS,
    LARGEST,
    MISSING,
    can_change,
    is_too_large,
    seen,
)
from trilobite.framework.tensor import Tensor

DEEPEST = 12  # attributes of attributes, functions that call functions
MOST = 4096  # places that one recording looks at in every call
_LIBRARIES = frozenset(sys.stdlib_module_names) | {
    "numpy",
    "ml_dtypes",
    "scipy",
    "torch",
    "jax",
    "pytest",
    "_pytest",
}
_HOLDING = frozenset({"types", "argparse", "collections"})  # whose objects hold what is the user's
_OF_FUNCTIONS = {"__code__": "the code", "__defaults__": "a default", "__kwdefaults__": "a default"}
_MAKING = frozenset({"__init__", "__post_init__", "__call__", "__new__"})


class _Walk:
    """From a function along everything that its code names."""

    def __init__(
        self,
        guards: Guards,
        skipped: Callable[[Place], bool],
        names: frozenset[str],
        looks: Mapping[Any, Any],
        recorder: Any = None,
    ) -> None:
        self.guards, self.skipped = guards, skipped
        self.recorder = recorder  # the recording that has just ended
        self.looks = looks  # of modules that a walk with fewer names has come by
        self.names = names  # of all functions on the way: objects are passed from one to another
        self.known: set[Any] = set()
        self.asked: frozenset[str] = frozenset()
        self.visited: dict[int, tuple[Any, frozenset[str]]] = {}  # objects, and with which names

    def place(self, place: Place, names: frozenset[str], depth: int) -> None:
        value = place.now()
        if isinstance(value, ModuleType):
            self.python_module(value, names, depth)
            return
        self.note(place, value)
        if value is not MISSING:
            self.value(value, names, place.name, depth)

    def note(self, place: Place, value: Any) -> None:
        """One more place that every call looks at."""
        if place.identity in self.known or self.skipped(place):
            return
        self.known.add(place.identity)
        if len(self.guards.places) == MOST:
            _warn(f"depends on more than {MOST} values of Python", f"{place.name} and of further ones")
        if is_too_large(value):
            _warn(f"reads {place.name}, a large {type(value).__name__}", "its elements")
        if len(self.guards.places) < MOST:
            self.guards.places.append(place)
            self.guards.seen.append(seen(value))

    def value(self, value: Any, names: frozenset[str], name: str, depth: int) -> None:
        """What is reached through a value."""
        if type(value) in ATOMS or depth > DEEPEST:
            return
        if isinstance(value, Tensor):
            self.marks(value, name)
            return
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return
        while type(value).__module__.startswith(OWN) and "fn" in (_attributes(value) or ()):
            value = value.fn  # a compiled function, a rule: what it stands for
        if isinstance(value, MethodType):
            self.value(value.__self__, names | {value.__func__.__name__}, name, depth)
        if self.indirect(value, names, name, depth):
            return
        function = plain_function(value)
        if function is not None:
            self.function(function, depth)
        elif isinstance(value, type):
            self.class_(value, names | _MAKING, depth)
        else:
            self.elements(value, names, name, depth)
            if type(value) not in CONTAINERS:
                self.object(value, names, name, depth)

    def marks(self, tensor: Tensor, name: str) -> None:
        """Attributes that the user gave a tensor; and whether the recording made it, which has ended."""
        if tensor._cell.owner is self.recorder is not None:
            self.guards.escaped.append(name)
        own = tensor.__dict__
        for key in sorted(self.names & own.keys()):
            self.note(Place(own, key, f"a tensor's {key}"), own[key])
        for key in sorted(n for n in self.asked - own.keys() if in_class(type(tensor), n) is MISSING):
            self.note(Place(own, key, f"a tensor's {key}"), MISSING)

    def indirect(self, value: Any, names: frozenset[str], name: str, depth: int) -> bool:
        """Is it a reference to what it stands for here and now?"""
        if isinstance(value, functools.partial):
            for key in ("func", "args", "keywords"):
                self.place(Place(Attributes(value), key, f"{key} of a partial"), names, depth + 1)
        elif isinstance(value, weakref.ref):
            self.value(value(), names, name, depth + 1)
        elif isinstance(value, weakref.ProxyTypes):
            self.value(value.__reduce__.__self__, names, name, depth + 1)
        elif isinstance(value, operator.attrgetter | operator.methodcaller):
            self.names |= {part for text in value.__reduce__()[1] for part in str(text).split(".")}
        elif isinstance(value, ContextVar):
            self.place(Place(Current(value), None, value.name), names, depth + 1)
        elif isinstance(value, threading.local):
            for key in sorted(n for n in names if hasattr(value, n)):
                self.place(Place(Attributes(value), key, f"{name}.{key}"), names, depth + 1)
        else:
            return False
        return True

    def elements(self, value: Any, names: frozenset[str], name: str, depth: int) -> None:
        if isinstance(value, np.ndarray):
            value = value.ravel().tolist()
        if not isinstance(value, CONTAINERS):
            return
        inside: Iterable[Any] = (*value.values(), *value) if isinstance(value, Mapping) else value
        for element in itertools.islice(inside, LARGEST):
            if type(element) not in ATOMS:
                self.value(element, names, name, depth + 1)

    def function(self, function: FunctionType, depth: int) -> None:
        code = function.__code__
        if function in self.known or str(function.__module__).startswith(OWN):
            return
        self.known.add(function)
        self.names |= names_of_code(code)
        self.asked |= asked_by_code(code)
        names = self.names
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            self.place(Place(cell, None, name), names, depth)
        installed = _is_installed(code.co_filename)
        for name in sorted(names_of_code(code) & function.__globals__.keys()):
            if not installed or _is_plain(function.__globals__[name]):
                self.place(Place(function.__globals__, name, name), names, DEEPEST if installed else depth)
        for name in sorted(names & function.__dict__.keys()):
            self.place(Place(function.__dict__, name, f"{function.__name__}.{name}"), names, depth)
        for key in sorted(imported_by_code(code) & sys.modules.keys()):
            self.python_module(sys.modules[key], names, depth)
        for key, what in _OF_FUNCTIONS.items():
            if getattr(function, key):
                place = Place(Attributes(function), key, f"{what} of {function.__name__}")
                self.note(place, getattr(function, key))
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self.value(value, names, "a default", depth + 1)

    def python_module(self, module: ModuleType, names: frozenset[str], depth: int) -> None:
        """Settings in a file of the user's: `settings.T`. Of the package's own files, functions that may be
        replaced.
        """
        name = module.__name__
        own = f"{name}.".startswith(OWN)
        if (module, names) in self.known or (_is_library(name) and not own):
            return
        self.known.add((module, names))
        for key in sorted(names & vars(module).keys()):
            value = vars(module)[key]
            place = Place(vars(module), key, f"{name}.{key}")
            if own and isinstance(value, ModuleType):
                self.python_module(value, names, depth)
            elif own and isinstance(value, FunctionType):
                self.note(place, value)
            elif not own and not _is_installed(getattr(module, "__file__", None)):
                self.place(place, names, depth + 1)
            elif not own and _is_plain(value):
                self.place(place, names, DEEPEST)

    def object(self, value: Any, names: frozenset[str], name: str, depth: int) -> None:
        cls: Any = type(value)
        before = self.visited.get(id(value), (value, frozenset()))[1]
        if id(value) in self.visited and names <= before:
            return
        self.visited[id(value)] = value, names | before
        if hasattr(cls, "named_modules"):
            if value not in self.guards.modules:  # else all under it is there too, or will be
                self.tree(value, depth)
            return
        attributes = _attributes(value)
        if getattr(cls, "guarded_whole", False) and isinstance(attributes, dict):
            for key in sorted(attributes):  # of the package, and its own code reads all of it
                self.place(Place(attributes, key, f"{cls.__name__}.{key}"), names, depth + 1)
        if cls.__module__ in ("builtins", "threading") or cls.__module__.startswith(OWN):
            return
        self.own_attributes(value, attributes if isinstance(attributes, dict) else None, names, depth)

    def own_attributes(
        self, value: Any, attributes: dict[str, Any] | None, names: frozenset[str], depth: int
    ) -> None:
        cls: Any = type(value)
        mine = names_of_methods(cls, names)
        asked = mine & (self.asked | asked_by_methods(cls, mine))
        own = attributes or {}
        self.note(Place(Attributes(value), "__class__", f"the class of a {cls.__name__}"), cls)
        machinery = _is_library(cls.__module__) and cls.__module__ not in _HOLDING
        for key in sorted(mine & own.keys()):
            place = Place(own, key, f"{cls.__name__}.{key}")
            if machinery and not _is_plain(own[key]):
                self.note(place, own[key])
            else:
                self.place(place, mine, depth + 1)
        for key in sorted(mine - own.keys()):
            found = in_class(cls, key)
            if _is_slot(found):
                self.place(Place(Attributes(value), key, f"{cls.__name__}.{key}"), mine, depth + 1)
            elif attributes is not None and (key in asked or _may_be_hidden(found)):
                self.note(Place(attributes, key, f"{cls.__name__}.{key}"), MISSING)  # may get one of its own
        if not REFLECTING.isdisjoint(mine | self.names):
            self.plain_attributes(own, cls.__name__)
        self.class_(cls, mine, depth)

    def plain_attributes(self, own: dict[str, Any], name: str) -> None:
        """Whatever their names: code may build those when it runs."""
        for key, value in own.items():
            if type(value) in ATOMS or (isinstance(value, CHANGING) and not is_too_large(value)):
                self.note(Place(own, key, f"{name}.{key}"), value)

    def class_(self, cls: Any, names: frozenset[str], depth: int) -> None:
        """A class: settings in it, methods that may be replaced, with what they read."""
        if _is_library(cls.__module__) or (cls, names) in self.known:
            return
        self.known.add((cls, names))
        if type(cls) not in (type, ABCMeta, EnumType):
            self.class_(type(cls), names, depth)
        for base in cls.__mro__:  # each, since `super()` passes over the first
            if not _is_library(base.__module__):
                self.guards.classes.setdefault(base, ClassGuard(base)).note(names)
                for key in sorted(names & vars(base).keys()):
                    self.class_attribute(base, key, vars(base)[key], names, depth)

    def class_attribute(self, owner: Any, key: str, found: Any, names: frozenset[str], depth: int) -> None:
        function = plain_function(found)
        if function is not None:
            self.function(function, depth + 1)
        elif can_change(found):
            self.place(Place(Attributes(owner), key, f"{owner.__name__}.{key}"), names, depth + 1)
        else:
            self.value(found, names, f"{owner.__name__}.{key}", depth + 1)

    def tree(self, root: Any, depth: int) -> None:
        """A module and all under it, with what their own code names."""
        for module in root.modules():
            if module in self.guards.modules:
                continue
            self.guards.modules[module] = self.looks.get(module) or look_at(module)
            kind: Any = type(module)
            named = names_of_class(kind)
            for key, value in list(module.__dict__.items()):
                if (
                    key in named
                    and key not in module._slots
                    and key not in module.HIDDEN
                    and can_change(value)
                ):
                    self.note(Place(module.__dict__, key, f"{kind.__name__}.{key}"), value)
            for key in module._slots:
                if isinstance(module.__dict__[key], Tensor) and module.__dict__[key].__dict__:
                    self.marks(module.__dict__[key], key)
            for row in module._hooks.all() if module._hooks is not None else ():
                self.value(row.fn, self.names, f"a hook of {kind.__name__}", depth + 1)
            if named is EVERYTHING:
                continue
            for value in [v for k, v in module.__dict__.items() if k in named and k not in module._slots]:
                self.value(value, named, kind.__name__, depth + 1)
            self.class_(kind, named | {"forward"}, depth)


def _attributes(value: Any) -> Any:
    """The dict of an object, without asking code of its own."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def _is_slot(found: Any) -> bool:
    return type(found).__name__ == "member_descriptor"


def _may_be_hidden(found: Any) -> bool:
    """Something in a class that an attribute of the object itself would come before?"""
    return found is not MISSING and not hasattr(type(found), "__set__")


def _is_plain(value: Any) -> bool:
    """A setting or a function, not an object with a life of its own?"""
    return type(value) in ATOMS or isinstance(value, (FunctionType, *CHANGING))


def _is_installed(file: str | None) -> bool:
    """Not the user's own file: of what others wrote only settings and functions are looked at."""
    return file is not None and ("site-packages" in file or "dist-packages" in file)


def _warn(what: str, unseen: str) -> None:
    warnings.warn(
        f"a recorded function {what}; changes of {unseen} are not seen: pass them as arguments",
        RuntimeWarning,
        stacklevel=2,
    )


def _is_library(name: str) -> bool:
    """Code whose settings are taken to be fixed."""
    top = name.partition(".")[0]
    return (top in _LIBRARIES and name != "__main__") or f"{top}." == OWN


def guards_of(
    fn: Any,
    arguments: Iterable[Any],
    called: Iterable[Any],
    lifted: Iterable[tuple[Place, Tensor]] = (),
    recorder: Any = None,
) -> Guards:
    """What a recording of `fn` with these static arguments depends on; `called` are modules that it called,
    `lifted` numbers that are inputs of it. Where tensors are kept that `recorder` made is said too.
    """
    names: frozenset[str] = frozenset({"forward"})
    numbers, passed = list(lifted), (*arguments, *called)
    inputs = {place.identity for place, _ in numbers}
    looks: dict[Any, Any] = {}
    while True:
        guards = Guards()
        guards.lifted = numbers
        walk = _Walk(guards, lambda place: place.identity in inputs, names, looks, recorder)
        walk.value(fn, names, "the function", 0)
        for value in passed:
            walk.value(value, walk.names, "an argument", 0)
        if walk.names == names:
            break
        names, looks = walk.names, guards.modules
    for place, _ in guards.lifted:
        forget(guards.modules, place)
    guards.settle()
    return guards
