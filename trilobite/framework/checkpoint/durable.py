"""Files that survive: written beside their place, flushed to the disk, then put in place in one step.

Enters: bytes to keep. Leaves: a file or directory that is either the old one or the new one, whole, at every
moment, also after a kill or a power failure. Every operating-system error becomes a `StorageError`. POSIX
only. Does not know what the bytes mean.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from trilobite.base.errors import StateError, TrilobiteError

LOCK_SECONDS = 600.0
_POLL_SECONDS = 0.01
_FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)  # on macOS fsync alone stops at the drive's cache


class StorageError(TrilobiteError, OSError):
    """The operating system refused: no space, no permission, no such place."""

    def __init__(self, what: str, *, number: int | None = None, **parts: object) -> None:
        super().__init__(what, **parts)
        self.errno = number


class NotFoundError(StorageError, FileNotFoundError):
    """There is nothing at that path."""


class Written(NamedTuple):
    """What a finished file consists of."""

    size: int
    sha256: str


_SPACE = "make room on that disk and save again"
_RIGHTS = "give this user write access to the directory, or save elsewhere"
_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _SPACE),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _RIGHTS),
    **dict.fromkeys((errno.EXDEV, errno.EBUSY), "save to a directory below the mount point, not to itself"),
    **dict.fromkeys((errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP), "save on a file system that supports flock"),
}


@contextmanager
def storage_errors(what: str, where: str, kept: str = "what was there before is unchanged") -> Iterator[None]:
    """Turn an `OSError` into a `StorageError` that names the place, what still stands and the remedy."""
    try:
        yield
    except TrilobiteError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        kind = NotFoundError if isinstance(error, FileNotFoundError) else StorageError
        remedy = _REMEDIES.get(error.errno or 0, "check the path and the disk, then try again")
        raise kind(
            f"{what}: {reason}", number=error.errno, where=where, expected=kept, remedy=remedy
        ) from error


def locate(path: Any) -> tuple[str, str]:
    """The directory and the name that a path means; a link is written through, not replaced."""
    full = os.path.realpath(os.fspath(path))
    return os.path.split(os.fsdecode(full))


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _sync(fd)
    finally:
        os.close(fd)


def _sync(fd: int) -> None:
    if _FULL_SYNC is None:
        os.fsync(fd)
    else:
        fcntl.fcntl(fd, _FULL_SYNC)


class Sink:
    """Writes to a descriptor all that it is given, counting and hashing."""

    def __init__(self, fd: int) -> None:
        self._fd, self._hash, self._size = fd, hashlib.sha256(), 0

    def write(self, data: bytes | memoryview) -> int:
        view = memoryview(data).cast("B")
        self._hash.update(view)
        self._size += len(view)
        rest = view
        while rest:
            rest = rest[os.write(self._fd, rest) :]
        return len(view)

    def flush(self) -> None:
        """Nothing is held back; writers such as zipfile ask."""

    def written(self) -> Written:
        return Written(self._size, self._hash.hexdigest())


def write_file(path: str, produce: Callable[[Sink], None]) -> Written:
    """Write a new file and flush it to the disk. Its name is durable once its directory is synced."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        sink = Sink(fd)
        produce(sink)
        _sync(fd)
        return sink.written()
    finally:
        os.close(fd)


def make_directories(path: str) -> None:
    """Create a directory and its parents, each durable in the one above."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    make_directories(parent)
    with suppress(FileExistsError):
        os.mkdir(path)
    sync_directory(parent)


def remove_tree(path: str) -> None:
    """Remove a file or directory; links are removed, never followed. What has gone already is no error."""
    with suppress(FileNotFoundError):
        if os.path.isdir(path) and not os.path.islink(path):
            for name in os.listdir(path):
                remove_tree(os.path.join(path, name))
            os.rmdir(path)
        else:
            os.unlink(path)


@contextmanager
def lock(directory: str, name: str, wait: float = LOCK_SECONDS) -> Iterator[None]:
    """Be the only writer of `directory/name`. The kernel releases the lock of a process that dies."""
    path = _lock_path(directory, name)
    fd = _acquire(path, wait)
    try:
        yield
    finally:
        _release(path, fd)


@contextmanager
def try_lock(directory: str, name: str) -> Iterator[bool]:
    """As `lock`, but says False at once if there is another writer."""
    path = _lock_path(directory, name)
    fd = _try_acquire(path)
    try:
        yield fd is not None
    finally:
        if fd is not None:
            _release(path, fd)


def _lock_path(directory: str, name: str) -> str:
    return os.path.join(directory, f".{name}.lock")


def _release(path: str, fd: int) -> None:
    # Removed first: a child forked meanwhile keeps the descriptor open, but then locks a file that is gone.
    try:
        with suppress(FileNotFoundError):
            os.unlink(path)
    finally:
        os.close(fd)


def _acquire(path: str, wait: float) -> int:
    deadline = time.monotonic() + wait
    while True:
        fd = _try_acquire(path)
        if fd is not None:
            return fd
        if time.monotonic() >= deadline:
            raise StateError(
                f"another process has been saving here for {wait:g} seconds",
                where=path,
                expected="one writer at a time",
                remedy="wait for it to end, or save to another path",
            )
        time.sleep(_POLL_SECONDS)


def _try_acquire(path: str) -> int | None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The owner removes its lock file before letting go, so a lock on a removed file is worth nothing.
        if os.path.samestat(os.fstat(fd), os.stat(path)):
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def beside(directory: str, name: str, purpose: str) -> str:
    """A fresh path next to `directory/name` that `sweep` knows; `purpose` is saving or deleting."""
    return os.path.join(directory, f".{name}.{purpose}-{os.urandom(8).hex()}")


_LEFTOVER = re.compile(r"\.(.+)\.(lock|saving-[0-9a-f]{16}|deleting-[0-9a-f]{16})", re.DOTALL)


def leftovers(directory: str) -> dict[str, list[str]]:
    """What writers, perhaps dead ones, have in a directory, by the name they write; locks not listed."""
    found: dict[str, list[str]] = {}
    for entry in sorted(os.listdir(directory)):
        match = _LEFTOVER.fullmatch(entry)
        if match:
            paths = found.setdefault(match.group(1), [])
            paths += [os.path.join(directory, entry)] if match.group(2) != "lock" else []
    return found


def sweep(directory: str, name: str) -> None:
    """Remove what dead writers of `directory/name` left. The caller holds its lock, so none is alive."""
    for path in leftovers(directory).get(name, []):
        remove_tree(path)


def remove_whole(directory: str, name: str) -> None:
    """Remove a directory so that it is never seen half removed."""
    doomed = beside(directory, name, "deleting")
    os.rename(os.path.join(directory, name), doomed)
    sync_directory(directory)
    remove_tree(doomed)


def replace_file(path: Any, produce: Callable[[Sink], None]) -> None:
    """Write a single file so that its path always holds the old or the new content, whole."""
    directory, name = locate(path)
    target = os.path.join(directory, name)
    with storage_errors("the file could not be saved", target), lock(directory, name):
        sweep(directory, name)
        work = beside(directory, name, "saving")
        try:
            write_file(work, produce)
            os.replace(work, target)
            sync_directory(directory)
        finally:
            remove_tree(work)
