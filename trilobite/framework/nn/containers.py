"""Modules that hold others: in a row, in a list, by name; and lists and dicts of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, overload

from trilobite.base.errors import ArgumentError, IndexingError
from trilobite.base.locations import user_location
from trilobite.framework.change_counter import count_change
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.parameter import Parameter
from trilobite.framework.tensor import Tensor


class _Listed(Module):
    """Entries under the names 0, 1, 2, ..."""

    def _entries(self) -> list[Any]:
        return [self.__dict__[name] for name in self._slots]

    def _replace(self, entries: Iterable[Any]) -> None:
        count_change()
        for name in list(self._slots):
            del self.__dict__[name], self._slots[name]
        for i, entry in enumerate(entries):
            self._put(str(i), entry)

    def _put(self, name: str, entry: Any) -> None:
        if entry is None and name not in self._slots:
            self._register(name, "module", None)  # an empty place
        else:
            setattr(self, name, self._checked(entry))

    def _checked(self, entry: Any) -> Any:
        if entry is not None and not isinstance(entry, Module):
            raise ArgumentError(
                f"{type(entry).__name__} in a {type(self).__name__}",
                where=user_location(),
                expected="an nn.Module",
            )
        return entry

    def _at(self, index: int) -> str:
        n = len(self)
        if not -n <= index < n:
            raise IndexingError(
                f"entry {index} of a {type(self).__name__} of {n}",
                where=user_location(),
                expected=f"{-n} <= index < {n}",
            )
        return str(index % n)

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries())

    def __setitem__(self, index: int, entry: Any) -> None:
        setattr(self, self._at(index), self._checked(entry))

    def __delitem__(self, index: int | slice) -> None:
        self._refuse_recorded("an entry")
        entries = self._entries()
        del entries[index]
        self._replace(entries)

    def append(self, entry: Any) -> Any:
        """Add one at the end."""
        self._put(str(len(self)), entry)
        return self

    def extend(self, entries: Iterable[Any]) -> Any:
        """Add several at the end."""
        for entry in list(entries):
            self.append(entry)
        return self

    def insert(self, index: int, entry: Any) -> None:
        """Add one before the index."""
        self._refuse_recorded("an entry")
        entries = self._entries()
        entries.insert(index, self._checked(entry))
        self._replace(entries)

    def pop(self, index: int = -1) -> Any:
        """Take one out."""
        entry = self.__dict__[self._at(index)]
        del self[index]
        return entry


class Sequential(_Listed):
    """One module after the other; entries are numbered, or named by a dict."""

    @overload
    def __init__(self, *modules: Module) -> None: ...
    @overload
    def __init__(self, modules: Mapping[str, Module], /) -> None: ...
    def __init__(self, *modules: Any) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            self._replace(modules)

    def forward(self, input: Any) -> Any:
        for name in self._slots:
            input = self.__dict__[name](input)
        return input

    def _at(self, index: int) -> str:
        super()._at(index)
        return list(self._slots)[index]

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            names = list(self._slots)[index]
            return type(self)({name: self.__dict__[name] for name in names})
        return self.__dict__[self._at(index)]

    def __delitem__(self, index: int | slice) -> None:
        self._refuse_recorded("an entry")
        names = list(self._slots)
        gone = names[index] if isinstance(index, slice) else [self._at(index)]
        numbered = names == [str(i) for i in range(len(names))]
        left = [(n, self.__dict__[n]) for n in names if n not in gone]
        if numbered:
            self._replace(m for _, m in left)
            return
        for name in gone:
            delattr(self, name)


class ModuleList(_Listed):
    """A list of modules that the module around it knows."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        self._replace(modules or ())

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(self._entries()[index])
        return self.__dict__[self._at(index)]

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return type(self)([*self, *other])

    __iadd__ = _Listed.extend


class ParameterList(_Listed):
    """A list of parameters that the module around it knows; tensors and arrays become parameters."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        self._replace(values or ())

    def _checked(self, entry: Any) -> Any:
        return entry if isinstance(entry, (Parameter, Module)) else Parameter(entry)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> ParameterList: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(self._entries()[index])
        return self.__dict__[self._at(index)]

    __iadd__ = _Listed.extend

    def extra_repr(self) -> str:
        return "\n".join(f"({n}): {_shown(self.__dict__[n])}" for n in self._slots)


class _Named(Module):
    """Entries under names of the user's."""

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._slots))

    def __contains__(self, key: object) -> bool:
        return key in self._slots

    def __getitem__(self, key: str) -> Any:
        if key not in self._slots:
            raise _missing(self, key)
        return self.__dict__[key]

    def __setitem__(self, key: str, entry: Any) -> None:
        entry = self._checked(entry)
        if key in self._slots:
            setattr(self, key, entry)
        else:
            self._enter(key, entry)

    def __delitem__(self, key: str) -> None:
        if key not in self._slots:
            raise _missing(self, key)
        delattr(self, key)

    def _checked(self, entry: Any) -> Any:
        raise NotImplementedError

    def _enter(self, key: str, entry: Any) -> None:
        raise NotImplementedError

    def keys(self) -> Iterable[str]:
        return list(self._slots)

    def values(self) -> Iterable[Any]:
        return [self.__dict__[n] for n in self._slots]

    def items(self) -> Iterable[tuple[str, Any]]:
        return [(n, self.__dict__[n]) for n in self._slots]

    def pop(self, key: str) -> Any:
        """Take one out."""
        entry = self[key]
        del self[key]
        return entry

    def get(self, key: str, default: Any = None) -> Any:
        """The entry of this name, or the default."""
        return self.__dict__.get(key, default) if key in self._slots else default

    def clear(self) -> None:
        for key in list(self._slots):
            del self[key]

    def update(self, entries: Any) -> None:
        """Enter several, from a mapping or pairs."""
        for key, entry in entries.items() if hasattr(entries, "items") else entries:
            self[key] = entry


def _missing(module: Module, key: object) -> IndexingError:
    return _MissingKey(
        f"a {type(module).__name__} has no entry {key!r}",
        where=user_location(),
        expected=f"one of {', '.join(module._slots) or 'none'}",
    )


class _MissingKey(IndexingError, KeyError):
    """A name that a dict of modules or parameters does not have."""

    __str__ = Exception.__str__


class ModuleDict(_Named):
    """A dict of modules that the module around it knows."""

    def __init__(self, modules: Any = None) -> None:
        self.update(modules or {})

    def _checked(self, entry: Any) -> Any:
        if not isinstance(entry, Module):
            raise ArgumentError(
                f"{type(entry).__name__} in a ModuleDict", where=user_location(), expected="an nn.Module"
            )
        return entry

    def _enter(self, key: str, entry: Any) -> None:
        self.add_module(key, entry)


class ParameterDict(_Named):
    """A dict of parameters that the module around it knows; tensors and arrays become parameters."""

    def __init__(self, parameters: Any = None) -> None:
        self.update(parameters or {})

    def _checked(self, entry: Any) -> Any:
        return entry if entry is None or isinstance(entry, Parameter) else Parameter(entry)

    def _enter(self, key: str, entry: Any) -> None:
        self.register_parameter(key, entry)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The entry of this name; entered first if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def popitem(self) -> tuple[str, Any]:
        """Take out the one that was entered last."""
        key = next(reversed(self._slots), None)
        if key is None:
            raise _missing(self, "(the last)")
        return key, self.pop(key)

    def copy(self) -> ParameterDict:
        """Another dict with the same parameters."""
        return ParameterDict(dict(self.items()))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Another dict with these names and one value for all."""
        return ParameterDict(dict.fromkeys(keys, default))

    def __or__(self, other: Any) -> ParameterDict:
        joined = self.copy()
        joined.update(other)
        return joined

    def __ior__(self, other: Any) -> ParameterDict:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return "\n".join(f"({n}): {_shown(v)}" for n, v in self.items())


def _shown(value: Any) -> str:
    if not isinstance(value, Tensor):
        return str(value)
    return f"{type(value).__name__} of {value.dtype} {tuple(value.shape)}"
