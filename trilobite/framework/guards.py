"""Guards: what a recording saw of Python, and whether it is still so.

Enters: a function that was just recorded, and what it was called with. Leaves: `Guards`: names, attributes
and entries that its code reads, with what they held. A global, a closure's variable or an attribute of a
plain object is looked at in every call; modules are looked at when the generation says that one of them
changed. What the code names is guarded, whether this recording came by it or not; names that it builds at run
time (`getattr(x, name)`) and state of C extensions are not seen.

It neither records nor runs anything.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from trilobite.framework.tensor import Tensor, wrap

ATOMS = (int, float, complex, bool, str, bytes, type(None))
NUMBERS = (int, float)
MOST = 512  # places that one recording looks at in every call
LARGEST = 64  # elements of a list, tuple or dict that are looked at
DEEPEST = 4  # attributes of attributes
MISSING = object()
OWN = __name__.partition(".")[0] + "."


class Place(NamedTuple):
    """Where Python keeps a value: an entry of a dict, or a closure's variable, and how a reader calls it."""

    holder: Any
    key: Any
    name: str

    def now(self) -> Any:
        if type(self.holder) is CellType:
            try:
                return self.holder.cell_contents
            except ValueError:
                return MISSING
        return self.holder.get(self.key, MISSING)

    def put(self, value: Any) -> None:
        if type(self.holder) is CellType:
            self.holder.cell_contents = value
        else:
            self.holder[self.key] = value

    @property
    def identity(self) -> tuple[int, Any]:
        return id(self.holder), self.key

    @property
    def is_writable(self) -> bool:
        return isinstance(self.holder, CellType | MutableMapping)


class Guards:
    """All that one recording depends on outside of tensors."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.seen: list[Any] = []
        self.modules: dict[Any, Any] = {}  # module -> what it looked like
        self.lifted: list[tuple[Place, Tensor]] = []  # numbers that are inputs of the recording
        self.entries: list[tuple[Any, Any, Any]] = []
        self.variables: list[tuple[Any, Any]] = []

    def settle(self) -> None:
        """All places are known: they are laid out for `hold`, which every call passes."""
        rows = list(zip(self.places, self.seen, strict=True))
        self.entries = [(p.holder.get, p.key, s) for p, s in rows if type(p.holder) is not CellType]
        self.variables = [(p.holder, s) for p, s in rows if type(p.holder) is CellType]

    def hold(self) -> bool:
        """Is everything but modules as it was? What is the same object is not looked into unless it is a
        container.
        """
        for get, key, seen in self.entries:
            now = get(key, MISSING)
            if now is not seen and not _same(now, seen):
                return False
        try:
            for cell, seen in self.variables:
                now = cell.cell_contents
                if now is not seen and not _same(now, seen):
                    return False
        except ValueError:  # a variable that was deleted
            return False
        return True

    def differs(self) -> tuple[str, Place | None]:
        """What is not as it was, for a reader, and where; an empty text if nothing is."""
        for place, seen in zip(self.places, self.seen, strict=True):
            now = place.now()
            if now is not seen and not _same(now, seen):
                return f"{place.name} is {_shown(now)} instead of {_shown(seen)}", place
        for place, _ in self.lifted:
            if type(place.now()) not in NUMBERS:
                return f"{place.name} is {_shown(place.now())} instead of a number", place
        return "", None

    def module_differs(self) -> tuple[str, Place | None]:
        """The same of modules."""
        for module, seen in self.modules.items():
            now = look_at(module)
            if now == seen:
                continue
            for name, value in {**seen, **now}.items():
                if now.get(name, MISSING) != seen.get(name, MISSING):
                    place = Place(module.__dict__, name, f"{type(module).__name__}.{name}")
                    is_number = isinstance(value, _Atom) and value.kind in NUMBERS
                    text = f"{place.name} is {_told(now, name)} instead of {_told(seen, name)}"
                    return text, place if is_number and name in module.__dict__ else None
        return "", None

    def refresh(self) -> None:
        """Numbers that are inputs get the values that Python has now."""
        for place, tensor in self.lifted:
            value = place.now()
            held = tensor._cell.value
            if held[()] != value or held.dtype.kind != ("i" if type(value) is int else "f"):
                tensor._cell.value = np.asarray(value, held.dtype)


class _Atom(NamedTuple):
    """A value that is compared by type and value; a NaN equals itself."""

    kind: type
    value: Any


class _Object:
    """A value that is compared by identity, and kept alive so that nothing else gets its address."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Object) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def frozen(value: Any, depth: int = 0) -> Any:
    """What a value looks like now; equal ones are equal, and changes in place show."""
    if type(value) in ATOMS:
        return _Atom(type(value), "nan" if value != value else value)
    if depth < DEEPEST and len_of(value) <= LARGEST:
        if type(value) in (list, tuple):
            return type(value), tuple(frozen(v, depth + 1) for v in value)
        if type(value) is dict:
            return dict, tuple((_key(k), frozen(v, depth + 1)) for k, v in value.items())
        if type(value) in (set, frozenset):
            return type(value), frozenset(_key(v) for v in value)
    return _Object(value)


def len_of(value: Any) -> int:
    return len(value) if type(value) in (list, tuple, dict, set, frozenset) else 0


def _key(value: Any) -> Any:
    return value if type(value) in ATOMS else _Object(value)


def _same(now: Any, seen: Any) -> bool:
    """Of values that are not the same object: one may stand for a frozen container."""
    if isinstance(seen, tuple) and type(seen) is _Frozen:
        return bool(frozen(now) == seen.content)
    if type(now) is not type(seen) or type(now) not in ATOMS:
        return False
    return bool(now == seen or (now != now and seen != seen))


class _Frozen(NamedTuple):
    """A list, tuple, dict or set as it was."""

    content: Any


def _seen(value: Any) -> Any:
    return _Frozen(frozen(value)) if type(value) in (list, tuple, dict, set, frozenset) else value


def _shown(value: Any) -> str:
    if value is MISSING:
        return "gone"
    if isinstance(value, _Frozen):
        return "another container"
    if type(value) in ATOMS:
        return repr(value)
    return f"{'another ' if not isinstance(value, type) else ''}{type(value).__name__}"


def _told(look: Mapping[str, Any], name: str) -> str:
    value = look.get(name, MISSING)
    if isinstance(value, _Atom):
        return repr(value.value)
    if isinstance(value, _Object):
        return f"another {type(value.value).__name__}"
    return "gone" if value is MISSING else "something else"


def look_at(module: Any) -> dict[str, Any]:
    """A module as its code may see it: attributes that its class names, all entries, hooks."""
    kind: Any = type(module)
    named = names_of_class(kind)
    own, slots = module.__dict__, module._slots
    found = {
        name: frozen(value)
        for name, value in own.items()
        if name in slots or (name in named and name not in module.HIDDEN)
    }
    found["the order of its entries"] = tuple(slots)
    hooks = own.get("_hooks")
    if hooks is not None:
        found["its hooks"] = tuple(_Object(row) for name in hooks.__slots__ for row in getattr(hooks, name))
    return found


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
            function = _plain(value)
            if function is not None:
                found |= names_of_code(function.__code__)
    return frozenset(found)


@functools.lru_cache(maxsize=4096)
def names_of_code(code: CodeType) -> frozenset[str]:
    """Globals and attributes that the code names, those of functions inside it too."""
    inner = (names_of_code(c) for c in code.co_consts if isinstance(c, CodeType))
    return frozenset(code.co_names).union(*inner)


def _plain(value: Any) -> FunctionType | None:
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
        elif isinstance(value, functools.partial):
            value = value.func
        else:
            value = getattr(value, "fn", None) if type(value).__module__.startswith(OWN) else None
    return None


class _Walk:
    """From a function along everything that its code names."""

    def __init__(self, guards: Guards, skipped: Callable[[Place], bool]) -> None:
        self.guards, self.skipped = guards, skipped
        self.known: set[Any] = set()

    def place(self, place: Place, names: frozenset[str], depth: int) -> None:
        value = place.now()
        if value is MISSING or isinstance(value, ModuleType):
            if isinstance(value, ModuleType):
                self.python_module(value, names)
            return
        if place.identity not in self.known and len(self.guards.places) < MOST and not self.skipped(place):
            self.known.add(place.identity)
            self.guards.places.append(place)
            self.guards.seen.append(_seen(value))
        self.value(value, names, place.name, depth)

    def value(self, value: Any, names: frozenset[str], name: str, depth: int) -> None:
        """What is reached through a value."""
        if type(value) in ATOMS or isinstance(value, Tensor | type) or depth > DEEPEST:
            return
        if isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self.value(part, names, name, depth + 1)
            return
        if isinstance(value, MethodType):
            self.value(value.__self__, names | {value.__func__.__name__}, name, depth)
        function = _plain(value)
        if function is not None:
            self.function(function, depth)
        elif type(value) in (list, tuple, dict, set, frozenset):
            elements: Iterable[Any] = value.values() if type(value) is dict else value
            for n, element in enumerate(elements):
                if n < LARGEST:
                    self.value(element, names, name, depth + 1)
        else:
            self.object(value, names, name, depth)

    def function(self, function: FunctionType, depth: int) -> None:
        code = function.__code__
        if function in self.known or str(function.__module__).startswith(OWN):
            return
        self.known.add(function)
        names = names_of_code(code)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            self.place(Place(cell, None, name), names, depth)
        for name in sorted(names & function.__globals__.keys()):
            self.place(Place(function.__globals__, name, name), names, depth)
        for value in function.__defaults__ or ():
            self.value(value, names, "a default", depth + 1)

    def python_module(self, module: ModuleType, names: frozenset[str]) -> None:
        """Settings in a file of the user's: `settings.T`."""
        name = module.__name__
        if module in self.known or name.partition(".")[0] in _LIBRARIES or name.startswith(OWN[:-1]):
            return
        self.known.add(module)
        for key in sorted(names & vars(module).keys()):
            value = vars(module)[key]
            if type(value) in ATOMS or isinstance(value, FunctionType):
                self.place(Place(vars(module), key, f"{name}.{key}"), names, DEEPEST)

    def object(self, value: Any, names: frozenset[str], name: str, depth: int) -> None:
        cls: Any = type(value)
        if hasattr(value, "_slots") and hasattr(cls, "named_modules"):
            self.tree(value, depth)
            return
        if cls.__module__ == "builtins" or cls.__module__.startswith(OWN):
            return
        mine = names | _methods(cls, names)
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            for key in sorted(mine & attributes.keys()):
                self.place(Place(attributes, key, f"{cls.__name__}.{key}"), mine, depth + 1)
        for key in sorted(mine):
            found = _in_class(cls, key)
            if found is not MISSING and (attributes is None or key not in attributes):
                self.class_attribute(cls, key, found, mine, depth)

    def class_attribute(self, cls: type, key: str, found: Any, names: frozenset[str], depth: int) -> None:
        function = _plain(found)
        if function is not None:
            self.function(function, depth + 1)
        elif type(found) in ATOMS:
            owner = next(base for base in cls.__mro__ if key in vars(base))
            self.place(Place(vars(owner), key, f"{owner.__name__}.{key}"), names, DEEPEST)

    def tree(self, root: Any, depth: int) -> None:
        """A module and all under it, with what their own code names."""
        for module in root.modules():
            if module in self.guards.modules:
                continue
            self.guards.modules[module] = look_at(module)
            kind: Any = type(module)
            named = names_of_class(kind)
            if named is EVERYTHING:
                continue
            for value in [v for k, v in module.__dict__.items() if k in named and k not in module._slots]:
                self.value(value, named, type(module).__name__, depth + 1)
            for base in type(module).__mro__:
                if not base.__module__.startswith(OWN):
                    for member in vars(base).values():
                        if (function := _plain(member)) is not None:
                            self.function(function, depth + 1)


_LIBRARIES = frozenset(sys.stdlib_module_names) | {"numpy", "ml_dtypes", "scipy", "torch", "jax", "pytest"}


@functools.lru_cache(maxsize=4096)
def _methods(cls: Any, names: frozenset[str]) -> frozenset[str]:
    """Names that methods read which are themselves named; and those that they call in turn."""
    found, waiting = set(names), list(names | {"__call__"})
    while waiting:
        function = _plain(_in_class(cls, waiting.pop()))
        if function is not None and not function.__module__.startswith(OWN):
            new = names_of_code(function.__code__) - found
            found |= new
            waiting += new
    return frozenset(found)


def _in_class(cls: type, name: str) -> Any:
    for base in cls.__mro__:
        if name in vars(base) and base is not object:
            return vars(base)[name]
    return MISSING


def guards_of(
    fn: Any, arguments: Iterable[Any], called: Iterable[Any], lifted: Iterable[tuple[Place, Tensor]] = ()
) -> Guards:
    """What a recording of `fn` with these static arguments depends on; `called` are modules that it called,
    `lifted` numbers that are inputs of it.
    """
    guards = Guards()
    guards.lifted = list(lifted)
    inputs = {place.identity for place, _ in guards.lifted}
    walk = _Walk(guards, lambda place: place.identity in inputs)
    names: frozenset[str] = frozenset({"forward"})
    function = _plain(fn)
    if function is not None:
        names = names_of_code(function.__code__)
    walk.value(fn, names, "the function", 0)
    for value in (*arguments, *called):
        walk.value(value, names, "an argument", 0)
    for place, _ in guards.lifted:
        _forget(guards.modules, place)
    guards.settle()
    return guards


def _forget(modules: dict[Any, Any], place: Place) -> None:
    """A number that is an input may be anything."""
    for module, seen in modules.items():
        if module.__dict__ is place.holder:
            seen[place.key] = _ANY_NUMBER


class _AnyNumber:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Atom) and other.kind in NUMBERS

    def __hash__(self) -> int:
        return 0


_ANY_NUMBER = _AnyNumber()


@contextmanager
def numbers_as_tensors(places: Iterable[Place]) -> Iterator[list[tuple[Place, Tensor]]]:
    """While a function is recorded these numbers are tensors without dimensions, weakly typed as they are."""
    numbers = [(place, place.now()) for place in places]
    tensors = [(place, _tensor(value)) for place, value in numbers]
    try:
        for place, tensor in tensors:
            place.put(tensor)
        yield tensors
    finally:
        for place, value in numbers:
            place.put(value)


def _tensor(value: int | float) -> Tensor:
    made = wrap(np.asarray(value, np.int64 if type(value) is int else np.float64))
    made._note("weak", type(value))
    return made
