"""Files from outside, opened with suspicion: regular files only, links inside a checkpoint never followed.

Enters: a path, or a name within an open directory. Leaves: a descriptor with its size, and a `Source` that
fills buffers or says that the file ends early. Does not know any format.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from trilobite.framework.checkpoint.durable import storage_errors
from trilobite.framework.checkpoint.refusal import corrupt

_STEP = 1 << 20  # small enough that what is read is still in the cache when it is hashed
# A pipe in the place of a file must not hang the reader.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class Opened(NamedTuple):
    """An open regular file, and how to name it in messages."""

    fd: int
    size: int
    where: str


class Source:
    """Reads a descriptor front to back; `saw` is shown every byte that is read."""

    def __init__(self, file: Opened, saw: Callable[[memoryview], None] | None = None) -> None:
        self._file, self._saw = file, saw

    def fill(self, view: memoryview) -> None:
        """Fill the view whole, or raise."""
        rest = view
        while rest:
            with storage_errors("the file could not be read", self._file.where, "a readable file"):
                count = os.readv(self._file.fd, [rest[:_STEP]])
            if count == 0:
                raise corrupt(
                    "the file ends early",
                    self._file.where,
                    f"{len(rest)} more bytes",
                    "it was cut off; fetch or save it again",
                )
            if self._saw is not None:
                self._saw(rest[:count])
            rest = rest[count:]


@contextmanager
def opened(path: Any) -> Iterator[Opened]:
    """A file that the user names; here links are the user's own and are followed."""
    where = os.fsdecode(os.fspath(path))
    with storage_errors("the file could not be opened", where, "a readable file"):
        fd = _descriptor(where, _FLAGS, None, where)
    try:
        yield _regular(fd, where)
    finally:
        os.close(fd)


def open_inside(directory: int, name: str, where: str) -> Opened:
    """A file directly within an open directory. The caller closes it. Raises FileNotFoundError if it is not
    there."""
    try:
        fd = _descriptor(name, _FLAGS | os.O_NOFOLLOW, directory, where)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EMLINK):
            raise
        raise corrupt(
            "this is a symbolic link",
            where,
            "a file within the checkpoint itself",
            "the checkpoint was tampered with or copied badly; copy the files, not links",
        ) from None
    try:
        return _regular(fd, where)
    except BaseException:
        os.close(fd)
        raise


def _descriptor(name: str, flags: int, directory: int | None, where: str) -> int:
    try:
        return os.open(name, flags, dir_fd=directory)
    except ValueError:  # a zero byte, or half of a letter
        raise corrupt("no file can have this name", repr(where), "a name of letters", "check it") from None


def _regular(fd: int, where: str) -> Opened:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise corrupt("this is not a regular file", where, "a file", "check the path")
    return Opened(fd, status.st_size, where)
