"""Files that save time: what was computed once per machine, kept under keys of all that it depends on.

Enters: keys and bytes. Leaves: the bytes, if they are there, whole, and those of this key: an entry's
checksum covers its key, so that exchanged files are noticed. Whatever is wrong with the directory costs time,
never a result: damaged entries are replaced, and a directory that cannot be written is done without, with one
warning.

Object code is run, so only what this user alone can have written is read: regular files and directories that
belong to the user and that nobody else may write. It knows nothing of what the bytes mean.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

LIMITS = {
    "objects": 512 << 20,
    "programs": 128 << 20,
    "sources": 1 << 20,
    "machines": 1 << 20,
    "mappings": 16 << 20,
    "bang": 256 << 20,
}  # bytes, by kind
FORMAT = b"trilobite object 3\n"  # of an entry's file; part of keys too
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
        self._read_only: list[Mapping[str, bytes]] = []
        self._trusted: bool | None = None  # None: nobody has looked so far

    def add_read_only(self, entries: Mapping[str, bytes]) -> None:
        """Entries that somebody else keeps, for as long as the process lives: these are looked at first."""
        self._read_only.append(entries)

    def get(self, key: str) -> bytes | None:
        """The bytes, if they are there and whole. Reading makes an entry young again."""
        for entries in self._read_only:
            if key in entries:
                return entries[key]
        if self.place is None or not self._is_trusted():
            return None
        path = f"{self.place}/{key[:2]}/{key[2:]}"  # a Path for each of some hundred takes a millisecond
        try:
            entry, changed = _read_own(path)
        except OSError:
            return None
        start = len(FORMAT) + _DIGEST
        found = entry[start:]
        if entry[:start] != FORMAT + _checksum(key, found):
            return None  # damaged, or of another key: whoever makes it anew replaces it
        self._touch(path, changed)
        return found

    def has(self, key: str) -> bool:
        """Is there an entry? It may still turn out to be damaged."""
        if any(key in entries for entries in self._read_only):
            return True
        return self.place is not None and self._path(self.place, key).exists()

    def put(self, key: str, made: bytes) -> None:
        """Keeps the bytes; where that is impossible, warns once and keeps nothing more."""
        if self.place is None or not self.writable or not self._is_trusted():
            return
        try:
            self._write(self._path(self.place, key), FORMAT + _checksum(key, made) + made)
        except OSError as error:
            self.writable = False
            what = f"compiled kernels cannot be kept in {self.root}: {error}"
            self._warn(what)
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
        _make_own(path.parent)
        new = path.with_name(f".new-{os.urandom(12).hex()}")
        try:
            with os.fdopen(
                os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb"
            ) as file:
                file.write(entry)
            os.replace(new, path)
        except OSError:
            _remove(new)
            raise

    @staticmethod
    def _touch(path: str, changed: float) -> None:
        try:
            if time.time() - changed > _HOUR:  # seldom: a write for every read would be a waste
                os.utime(path)
        except OSError:  # removed meanwhile, or a directory that is not ours: its age is then wrong, no more
            return

    @staticmethod
    def _entries(place: Path) -> Iterator[tuple[float, int, str]]:
        """Age, size and path of every entry. What a writer that died left behind is removed on the way."""
        for folder, _, names in os.walk(place):
            for name in names:
                path = os.path.join(folder, name)  # a Path for each of many thousands takes a second
                try:
                    facts = os.stat(path)
                except OSError:  # another process removed it
                    continue
                if name.startswith(".new-") and time.time() - facts.st_mtime > _HOUR:
                    _remove(path)
                yield facts.st_mtime, facts.st_size, path

    def _is_trusted(self) -> bool:
        """Do the directories belong to this user alone? Those that are not there yet will."""
        if self._trusted is None:
            assert self.root is not None and self.place is not None
            why = next((why for level in (self.root, self.place) if (why := _distrust(level))), "")
            self._trusted = not why
            if why:
                self._warn(f"{why}, so nothing is read from it and nothing kept")
        return self._trusted

    def _warn(self, what: str) -> None:
        assert self.root is not None
        if self.root not in _warned:
            _warned.add(self.root)
            warnings.warn(
                f"{what}; each process compiles its own. "
                "Make room there, or set TRILOBITE_CACHE to a directory that you alone can write",
                RuntimeWarning,
                stacklevel=2,
            )


def _checksum(key: str, content: bytes) -> bytes:
    return hashlib.sha256(b"%d %s " % (len(key), key.encode()) + content).digest()


def _distrust(level: Path) -> str:
    """Why a directory is not this user's own; nothing where it is, or is not there yet."""
    try:
        facts = os.stat(level)
    except OSError:
        return ""
    if facts.st_uid != os.geteuid():
        return f"{level} belongs to another user"
    if not stat.S_ISDIR(facts.st_mode):
        return ""  # writing will say it
    return f"others may write {level}" if facts.st_mode & 0o022 else ""


def _make_own(folder: Path) -> None:
    """The directory and those above it that are missing, for this user alone whatever the umask says."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for level in reversed(missing):
        try:
            level.mkdir(mode=0o700)
            level.chmod(0o700)
        except FileExistsError:  # another process was quicker
            continue


def _read_own(path: str) -> tuple[bytes, float]:
    """A regular file of this user's that nobody else may write (a pipe would never answer); and when it was
    last changed.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
            raise PermissionError(f"{path} is not a file of this user's alone")
        return file.read(), facts.st_mtime


def _remove(path: Path | str) -> None:
    try:
        os.unlink(path)
    except OSError:  # gone already, or not ours to remove
        return


def shared(kind: str = "objects") -> Cache:
    """The user's own entries of one kind."""
    return _shared(directory(), kind)


@lru_cache(maxsize=32)
def _shared(place: Path | None, kind: str) -> Cache:
    return Cache(place, kind=kind)
