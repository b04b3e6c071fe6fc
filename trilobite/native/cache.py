"""Kernels by their text: compiled once per machine, linked once per process.

Enters: LLVM texts with their levels. Leaves: `Kernels`, the addresses of their functions. Object code is
kept on disk (`disk`) under a key of everything it depends on: text, level, machine, LLVM's version and the
format of the entries.
"""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from trilobite.native import parallel
from trilobite.native.disk import FORMAT, Cache, directory, shared
from trilobite.native.host import features, llvm_version
from trilobite.native.objects import Library, load, symbol
from trilobite.native.parallel import Text, compile_all

__all__ = ["Cache", "Kernels", "ahead", "directory", "kernels", "named", "shared"]


class Kernels(NamedTuple):
    """Addresses in the order they were asked for. The code lives as long as this object."""

    addresses: tuple[int, ...]
    libraries: tuple[Library, ...]
    compiled: int  # distinct texts that LLVM had to compile
    cached: int  # that came from disk


_loaded: weakref.WeakValueDictionary[str, Library] = weakref.WeakValueDictionary()
_loading = threading.RLock()


# A child that was forked in the middle would find LLVM's lock taken for ever.
def _before_fork() -> None:
    _loading.acquire()  # those who wait for objects get them first
    parallel.before_fork()


def _after_fork_in_parent() -> None:
    parallel.after_fork_in_parent()
    _loading.release()


def _after_fork_in_child() -> None:
    parallel.after_fork_in_child()
    _loading.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )


def kernels(wanted: Sequence[Text], cache: Cache | None = None) -> Kernels:
    """Every text's function, ready to be called. Equal texts are one function, in this process too."""
    return named([symbol(*one) for one in wanted], lambda i: wanted[i], cache)


def named(names: Sequence[str], text: Callable[[int], Text], cache: Cache | None = None) -> Kernels:
    """The same for texts whose names are known: only those are asked for that have to be compiled."""
    places = {name: i for i, name in enumerate(names)}
    stored: dict[str, bytes] = {}
    made: dict[str, bytes] = {}
    held = _held(names)
    if len(held) < len(places):  # what is loaded already never waits for what another thread compiles
        with _loading:
            held = _held(names)
            missing = {name: i for name, i in places.items() if name not in held}
            stored, made = _objects(missing, text, shared("objects") if cache is None else cache)
            library = load({**stored, **made})
            held.update(dict.fromkeys(missing, library))
            _loaded.update(dict.fromkeys(missing, library))
    addresses = tuple(held[name][name] for name in names)
    libraries = tuple(dict.fromkeys(held.values()))
    return Kernels(addresses, libraries, compiled=len(made), cached=len(stored))


def ahead(wanted: Iterable[tuple[str, Text]], cache: Cache | None = None) -> None:
    """Begins to compile kernels that `named` will be asked for, given with their names, while whoever asks
    for them still works at others. Those that are loaded or on disk are left.
    """
    place = shared("objects") if cache is None else cache
    parallel.begin(text for name, text in wanted if name not in _loaded and not place.has(_key(name)))


def _held(names: Sequence[str]) -> dict[str, Library]:
    return {name: found for name in names if (found := _loaded.get(name)) is not None}


def _objects(
    missing: dict[str, int], text: Callable[[int], Text], cache: Cache
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """What the disk has, and what had to be compiled."""
    keys = {name: _key(name) for name in missing}
    stored = {name: code for name, key in keys.items() if (code := cache.get(key)) is not None}
    wanted = [text(i) for name, i in missing.items() if name not in stored]
    made = compile_all(wanted) if wanted else {}
    for name, code in made.items():
        cache.put(keys[name], code)
    if made:
        cache.trim()
    return stored, made


def _key(name: str) -> str:
    """`name` stands for text and level already."""
    return hashlib.sha256("\n".join((name, *_circumstances())).encode()).hexdigest()


def _circumstances() -> tuple[str, ...]:
    """What object code depends on besides its text: machine, LLVM's version, the format of the entries."""
    return features().name, llvm_version(), FORMAT.decode()
