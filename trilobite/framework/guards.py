"""Guards: what a recording saw of Python, and whether it is still so.

Enters: names, attributes and entries that a recorded function's code reads, found by `guard_walk`. Leaves: an
answer, in every call, whether they hold what they held. A global, a closure's variable, an attribute of a
plain object or a class, a container and a NumPy array are looked at in every call; attributes of modules when
the counter of changes says that one of them changed. Names that code builds at run time (`getattr(x,
name)`) and state of C extensions are not seen.

It neither records nor runs anything.
"""

from __future__ import annotations

import copy
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from types import CellType
from typing import Any, NamedTuple

import numpy as np

from trilobite.framework.class_guards import ClassGuard
from trilobite.framework.code_names import REFLECTING, names_of_class
from trilobite.framework.snapshots import MISSING, Atom, Object, frozen, same, shown, told
from trilobite.framework.tensor import Tensor, wrap

NUMBERS = (int, float)
_FILLED: dict[type, Callable[[Any, Any], None]] = {
    list: list.extend, deque: deque.extend, dict: dict.update, defaultdict: dict.update, set: set.update,
}  # fmt: skip
"""How containers are filled with what another of their kind holds."""


class Attributes:
    """Attributes of an object without a dict, or of a class, as if they were entries."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def get(self, key: str, default: Any) -> Any:
        return getattr(self.of, key, default)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self.of, key, value)


class Current:
    """What a context variable holds here."""

    __slots__ = ("of",)

    def __init__(self, of: ContextVar[Any]) -> None:
        self.of = of

    def get(self, key: Any, default: Any) -> Any:
        return self.of.get(default)


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
        return id(getattr(self.holder, "of", self.holder)), self.key

    @property
    def is_writable(self) -> bool:
        return isinstance(self.holder, CellType | MutableMapping | Attributes)


class Guards:
    """All that one recording depends on outside of tensors."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.seen: list[Any] = []
        self.modules: dict[Any, Any] = {}  # module -> what it looked like
        self.classes: dict[type, ClassGuard] = {}
        self.lifted: list[tuple[Place, Tensor]] = []  # numbers that are inputs of the recording
        self.escaped: list[str] = []  # what holds a tensor that the recording made
        self.entries: list[tuple[Any, Any, Any]] = []
        self.variables: list[tuple[Any, Any]] = []

    def settle(self) -> None:
        """All places are known: they are laid out for `hold`, which every call passes."""
        rows = list(zip(self.places, self.seen, strict=True))
        self.entries = [(_getter(p.holder), p.key, s) for p, s in rows if type(p.holder) is not CellType]
        self.variables = [(p.holder, s) for p, s in rows if type(p.holder) is CellType]
        inputs = {place.identity for place, _ in self.lifted}
        for cls, guard in self.classes.items():
            owners = ((base, name) for base in cls.__mro__ for name in vars(base) if name in guard.found)
            guard.skipped = frozenset(name for base, name in owners if (id(base), name) in inputs)

    @contextmanager
    def as_they_are(self) -> Iterator[None]:
        """What happens inside leaves the places, and what is in their containers, as it found them."""
        before = [(p, p.now()) for p in self.places if p.is_writable]
        inside = [(v, copy.copy(v)) for _, v in before if type(v) in _FILLED]
        try:
            yield
        finally:
            for place, value in before:
                if value is not MISSING and place.now() is not value:
                    place.put(value)
            for container, held in inside:
                container.clear()
                _FILLED[type(container)](container, held)

    def hold(self) -> bool:
        """Is everything but modules as it was? What is the same object is not looked into unless it is a
        container.
        """
        for get, key, seen in self.entries:
            now = get(key, MISSING)
            if now is not seen and not same(now, seen):
                return False
        try:
            for cell, seen in self.variables:
                now = cell.cell_contents
                if now is not seen and not same(now, seen):
                    return False
        except ValueError:  # a variable that was deleted
            return False
        return not self.classes or all(guard.holds() for guard in self.classes.values())

    def differs(self) -> tuple[str, Place | None]:
        """What is not as it was, for a reader, and where; an empty text if nothing is."""
        for place, seen in zip(self.places, self.seen, strict=True):
            now = place.now()
            if now is not seen and not same(now, seen):
                return f"{place.name} is {shown(now)} instead of {shown(seen)}", place
        for guard in self.classes.values():
            name = None if guard.holds() else guard.differs()
            if name is not None:
                return self._class_differs(guard, name)
        for place, _ in self.lifted:
            if type(place.now()) not in NUMBERS:
                return f"{place.name} is {shown(place.now())} instead of a number", place
        return "", None

    def _class_differs(self, guard: ClassGuard, name: str) -> tuple[str, Place | None]:
        owner, now = guard.place(name)
        place = Place(Attributes(owner), name, f"{owner.__name__}.{name}")
        text = f"{place.name} is {shown(now)} instead of {shown(guard.found[name])}"
        return text, place if type(now) in NUMBERS and type(guard.found[name]) in NUMBERS else None

    def module_differs(self) -> tuple[str, Place | None]:
        """The same of modules."""
        for module, seen in self.modules.items():
            now = look_at(module)
            if now == seen:
                continue
            for name, value in {**seen, **now}.items():
                if now.get(name, MISSING) != seen.get(name, MISSING):
                    place = Place(module.__dict__, name, f"{type(module).__name__}.{name}")
                    is_number = isinstance(value, Atom) and value.kind in NUMBERS
                    text = f"{place.name} is {told(now, name)} instead of {told(seen, name)}"
                    return text, place if is_number and name in module.__dict__ else None
        return "", None

    def refresh(self) -> None:
        """Numbers that are inputs get the values that Python has now."""
        for place, tensor in self.lifted:
            value = place.now()
            held = tensor._cell.value
            if held[()] != value or held.dtype.kind != ("i" if type(value) is int else "f"):
                tensor._cell.value = np.asarray(value, held.dtype)


def _getter(holder: Any) -> Callable[[Any, Any], Any]:
    """`holder.get`, without a step through Python where that can be had."""
    return partial(getattr, holder.of) if type(holder) is Attributes else holder.get


def look_at(module: Any) -> dict[str, Any]:
    """A module as its code may see it: attributes that its class names, all entries, hooks."""
    kind: Any = type(module)
    named = names_of_class(kind)
    own, slots = module.__dict__, module._slots
    everything = any(name in named for name in REFLECTING)  # names may be built when the code runs
    found = {
        name: frozen(value)
        for name, value in own.items()
        if name in slots or ((everything or name in named) and name not in module.HIDDEN)
    }
    found["its class"] = Object(kind)
    found["the order of its entries"] = tuple(slots)
    hooks = own.get("_hooks")
    if hooks is not None:
        found["its hooks"] = tuple(Object(row) for name in hooks.__slots__ for row in getattr(hooks, name))
    return found


def forget(modules: dict[Any, Any], place: Place) -> None:
    """A number that is an input may be anything."""
    for module, seen in modules.items():
        if module.__dict__ is place.holder:
            seen[place.key] = _ANY_NUMBER


class _AnyNumber:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and other.kind in NUMBERS

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
