"""Kernels by their text: compiled once per machine, linked once per process.

Enters: LLVM texts with their levels. Leaves: `Kernels`, the addresses of their functions. Object code is
kept on disk under a key of everything it depends on: text, level, machine, LLVM's version and the format of
the entries. Whatever is wrong with the directory costs time, never a result: entries are checked when read
and replaced when damaged, and a directory that cannot be written is done without, with one warning.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
import warnings
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from trilobite.native.host import features
from trilobite.native.objects import Library, load, prepare, symbol
from trilobite.native.parallel import Text, compile_all

LIMIT = 512 << 20  # bytes of entries
_MAGIC = b"trilobite object 2\n"  # of the format of an entry; part of the key too
_DIGEST = hashlib.sha256().digest_size
_HOUR = 3600.0


def directory() -> Path | None:
    """TRILOBITE_CACHE, or `trilobite` in the user's cache directory; None for a user without a home."""
    chosen = os.environ.get("TRILOBITE_CACHE")
    if chosen:
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trilobite"
    except RuntimeError:
        return None


class Cache:
    """Object code on disk, in files of their own: a magic line, a checksum, the code.

    Files appear whole or not at all, because they are renamed into place. So any number of processes may
    read, write and remove them at the same time.
    """

    def __init__(self, place: Path | None, limit: int = LIMIT) -> None:
        self.place = None if place is None else place / "objects"
        self.limit = limit
        self._written: int | None = None  # bytes since the total was last looked at; None: never looked
        self._warned = False
        self.writable = self.place is not None

    def get(self, key: str) -> bytes | None:
        """The code, if it is there and whole. Reading makes an entry young again."""
        if self.place is None:
            return None
        path = self._path(self.place, key)
        try:
            entry = path.read_bytes()
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST
        code = entry[start:]
        if entry[:start] != _MAGIC + hashlib.sha256(code).digest():
            return None  # damaged: whoever compiles it anew replaces it
        self._touch(path)
        return code

    def put(self, key: str, code: bytes) -> None:
        """Keeps the code; where that is impossible, warns once and keeps nothing more."""
        if self.place is None or not self.writable:
            return
        try:
            self._write(self._path(self.place, key), _MAGIC + hashlib.sha256(code).digest() + code)
        except OSError as error:
            self.writable = False
            self._warn(error)
            return
        self._written = None if self._written is None else self._written + len(code)

    def trim(self) -> None:
        """Removes entries that were not used for longest, once their total is above the limit."""
        if self.place is None or (self._written is not None and self._written < self.limit // 64):
            return
        self._written = 0
        entries = sorted(self._entries(self.place))
        excess = sum(size for _, size, _ in entries) - self.limit
        if excess > 0:
            excess += self.limit // 8  # a margin, so that this is rare
        for _, size, path in entries:
            if excess <= 0:
                break
            _remove(path)
            excess -= size

    @staticmethod
    def _path(place: Path, key: str) -> Path:
        return place / key[:2] / key[2:]

    @staticmethod
    def _write(path: Path, entry: bytes) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_name(f".new-{os.urandom(12).hex()}")
        try:
            with open(new, "xb") as file:
                file.write(entry)
            os.replace(new, path)
        except OSError:
            _remove(new)
            raise

    @staticmethod
    def _touch(path: Path) -> None:
        try:
            if time.time() - path.stat().st_mtime > _HOUR:  # seldom: a write for every read would be a waste
                os.utime(path)
        except OSError:  # removed meanwhile, or a directory that is not ours: its age is then wrong, no more
            return

    @staticmethod
    def _entries(place: Path) -> Iterator[tuple[float, int, Path]]:
        """Age, size and path of every entry. What a writer that died left behind is removed on the way."""
        for folder, _, names in os.walk(place):
            for name in names:
                path = Path(folder, name)
                try:
                    facts = path.stat()
                except OSError:  # another process removed it
                    continue
                if name.startswith(".new-") and time.time() - facts.st_mtime > _HOUR:
                    _remove(path)
                yield facts.st_mtime, facts.st_size, path

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"compiled kernels cannot be kept in {self.place}: {error}; each process compiles its own. "
                "Make room there, or set TRILOBITE_CACHE to a directory that can be written",
                RuntimeWarning,
                stacklevel=2,
            )


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:  # gone already, or not ours to remove
        return


@dataclass(frozen=True)
class Kernels:
    """Addresses in the order they were asked for. The code lives as long as this object."""

    addresses: tuple[int, ...]
    libraries: tuple[Library, ...]
    compiled: int  # distinct texts that LLVM had to compile
    cached: int  # that came from disk


_loaded: weakref.WeakValueDictionary[str, Library] = weakref.WeakValueDictionary()
_loading = threading.RLock()
# A child that was forked in the middle would find LLVM's lock taken for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release
    )


def kernels(wanted: Sequence[Text], cache: Cache | None = None) -> Kernels:
    """Every text's function, ready to be called. Equal texts are one function, in this process too."""
    names = [symbol(*one) for one in wanted]
    texts = dict(zip(names, wanted, strict=True))
    stored: dict[str, bytes] = {}
    made: dict[str, bytes] = {}
    held = _held(names)
    if len(held) < len(texts):  # what is loaded already never waits for what another thread compiles
        with _loading:
            held = _held(names)
            missing = {name: one for name, one in texts.items() if name not in held}
            stored, made = _objects(missing, shared() if cache is None else cache)
            library = load({**stored, **made})
            held.update(dict.fromkeys(missing, library))
            _loaded.update(dict.fromkeys(missing, library))
    addresses = tuple(held[name][name] for name in names)
    libraries = tuple(dict.fromkeys(held.values()))
    return Kernels(addresses, libraries, compiled=len(made), cached=len(stored))


def _held(names: Sequence[str]) -> dict[str, Library]:
    return {name: found for name in names if (found := _loaded.get(name)) is not None}


def _objects(missing: dict[str, Text], cache: Cache) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """What the disk has, and what had to be compiled."""
    keys = {name: _key(name) for name in missing}
    stored = {name: code for name, key in keys.items() if (code := cache.get(key)) is not None}
    compiled = compile_all([one for name, one in missing.items() if name not in stored])
    made = {name: prepare(code, name) for name, code in compiled.items()}
    for name, code in made.items():
        cache.put(keys[name], code)
    if made:
        cache.trim()
    return stored, made


def _key(name: str) -> str:
    """`name` stands for text and level already."""
    return hashlib.sha256("\n".join((name, *_circumstances())).encode()).hexdigest()


@lru_cache(maxsize=1)
def _circumstances() -> tuple[str, ...]:
    import llvmlite
    import llvmlite.binding as llvm

    version = ".".join(map(str, llvm.llvm_version_info))
    return features().name, version, str(llvmlite.__version__), _MAGIC.decode()


@lru_cache(maxsize=1)
def shared() -> Cache:
    """The user's own cache."""
    return Cache(directory())
