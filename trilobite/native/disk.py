"""Files that save time: what was computed once per machine, kept under keys of all that it depends on.

Enters: keys and bytes. Leaves: the bytes, if they are there and whole. Whatever is wrong with the directory
costs time, never a result: entries are checked when read and replaced when damaged, and a directory that
cannot be written is done without, with one warning. It knows nothing of what the bytes mean.
"""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

LIMITS = {"objects": 512 << 20, "programs": 128 << 20, "machines": 1 << 20}  # bytes of entries, by kind
FORMAT = b"trilobite object 2\n"  # of an entry's file; part of keys too
_DIGEST = hashlib.sha256().digest_size
_HOUR = 3600.0
_warned: set[Path] = set()  # directories that cannot be written, and about which that was said


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
    """Entries of one kind on disk, in files of their own: a magic line, a checksum, the bytes.

    Files appear whole or not at all, because they are renamed into place. So any number of processes may
    read, write and remove them at the same time.
    """

    def __init__(self, place: Path | None, limit: int | None = None, kind: str = "objects") -> None:
        self.root = place
        self.place = None if place is None else place / kind
        self.limit = LIMITS[kind] if limit is None else limit
        self._written: int | None = None  # bytes since the total was last looked at; None: never looked
        self.writable = self.place is not None
        self._lent: list[Mapping[str, bytes]] = []

    def lend(self, entries: Mapping[str, bytes]) -> None:
        """Entries that somebody else keeps, for as long as the process lives: these are looked at first."""
        self._lent.append(entries)

    def get(self, key: str) -> bytes | None:
        """The bytes, if they are there and whole. Reading makes an entry young again."""
        for entries in self._lent:
            if key in entries:
                return entries[key]
        if self.place is None:
            return None
        path = self._path(self.place, key)
        try:
            entry = path.read_bytes()
        except OSError:
            return None
        start = len(FORMAT) + _DIGEST
        found = entry[start:]
        if entry[:start] != FORMAT + hashlib.sha256(found).digest():
            return None  # damaged: whoever makes it anew replaces it
        self._touch(path)
        return found

    def put(self, key: str, made: bytes) -> None:
        """Keeps the bytes; where that is impossible, warns once and keeps nothing more."""
        if self.place is None or not self.writable:
            return
        try:
            self._write(self._path(self.place, key), FORMAT + hashlib.sha256(made).digest() + made)
        except OSError as error:
            self.writable = False
            self._warn(error)
            return
        self._written = None if self._written is None else self._written + len(made)

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
        assert self.root is not None
        if self.root not in _warned:
            _warned.add(self.root)
            warnings.warn(
                f"compiled kernels cannot be kept in {self.root}: {error}; each process compiles its own. "
                "Make room there, or set TRILOBITE_CACHE to a directory that can be written",
                RuntimeWarning,
                stacklevel=2,
            )


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:  # gone already, or not ours to remove
        return


@lru_cache(maxsize=4)
def shared(kind: str = "objects") -> Cache:
    """The user's own entries of one kind."""
    return Cache(directory(), kind=kind)
