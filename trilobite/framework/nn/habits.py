"""What code written for PyTorch asks of a module beyond its interface: its tables of entries, hooks around
the loading of state, construction on a device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from functools import wraps
from typing import TYPE_CHECKING, Any

from trilobite.base.wrong_use import RAW, raise_explained
from trilobite.framework.devices import check_device
from trilobite.framework.nn.hooks import Handle, Row

_TABLES = {"_parameters": ("parameter",), "_buffers": ("buffer", "temporary"), "_modules": ("module",)}


class Entries(MutableMapping[str, Any]):
    """The entries of one kind of a module, by name; what is written here is written to the module."""

    def __init__(self, module: Any, kinds: tuple[str, ...]) -> None:
        self.module, self.kinds = module, kinds

    def _names(self) -> list[str]:
        return [n for n, kind in self.module._slots.items() if kind in self.kinds]

    def __getitem__(self, name: str) -> Any:
        if self.module._slots.get(name) not in self.kinds:
            raise KeyError(name)
        return self.module.__dict__[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name in self.module._slots:
            setattr(self.module, name, value)
        else:
            self.module._register(name, self.kinds[0], value)

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self.module, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return repr(dict(self))


def _entries(table: str) -> property:
    return property(lambda self: Entries(self, _TABLES[table]), doc=f"The module's own {table[1:]}, by name.")


class Habits:
    """Attributes and methods of PyTorch's modules."""

    _version = 1
    _parameters = _entries("_parameters")
    _buffers = _entries("_buffers")
    _modules = _entries("_modules")
    call_super_init = False
    dump_patches = False

    if not TYPE_CHECKING:  # it would allow every name

        def __getattr__(self, name: str) -> Any:
            """Packages call it themselves, as PyTorch's modules have it; else there is no such attribute."""
            return object.__getattribute__(self, name)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        made = cls.__dict__.get("__init__")
        if made is not None and cls.__module__.startswith("trilobite.framework.nn."):
            setattr(cls, "__init__", _on_device(made))  # noqa: B010  mypy would have it never change

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: Any,
        unexpected_keys: Any,
        error_msgs: Any,
    ) -> None:
        """For classes that rename or convert saved entries: change state_dict, then call this. The loading
        itself checks and copies everything at once, later.
        """

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Callable[[], None]:
        """`hook(module, state, prefix, metadata, strict, missing, unexpected, errors)` before loading."""
        return self._note_load_hook(hook, True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> Callable[[], None]:
        return self._note_load_hook(hook, with_module)

    def _note_load_hook(self, hook: Callable[..., Any], with_module: bool) -> Callable[[], None]:
        rows = self.__dict__.setdefault("_load_hooks", [])
        rows.append((hook, with_module))
        return lambda: rows.remove((hook, with_module))

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """`hook(module, prefix, keep_vars)` before state_dict() looks."""
        return self._note_state_hook("_save_pre_hooks", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """`hook(module, state, prefix, metadata)` after state_dict(); it may change the state."""
        return self._note_state_hook("_save_hooks", hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """`hook(module, result)` after loading; it may change the lists of missing and unexpected names."""
        return self._note_state_hook("_loaded_hooks", hook)

    def _note_state_hook(self, kind: str, hook: Callable[..., Any]) -> Handle:
        rows: list[Row] = self.__dict__.setdefault(kind, [])
        rows.append(Row(hook))
        return Handle(rows, rows[-1])

    def get_extra_state(self) -> Any:
        """Nothing beyond parameters and buffers."""
        return None

    def set_submodule(self, target: str, module: Any) -> None:
        """Put a module in the place of the one under a dotted name."""
        path, _, name = target.rpartition(".")
        setattr(self.get_submodule(path), name, module)  # type: ignore[attr-defined]

    def _get_name(self) -> str:
        return type(self).__name__


def _on_device(made: Callable[..., None]) -> Callable[..., None]:
    """A constructor of ours that also takes `device=`: the one there is."""
    code = made.__code__
    takes_device = "device" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    @wraps(made)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if "device" in kwargs and not takes_device:
            check_device(kwargs.pop("device"))
        try:
            made(self, *args, **kwargs)
        except RAW as error:
            raise_explained(error, made, (self, *args), kwargs, type(self).__name__)

    return init
