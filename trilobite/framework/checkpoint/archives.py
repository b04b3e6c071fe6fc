"""Zip archives from outside: opened so that damage of any kind is one kind of error.

Enters: a path. Leaves: an open `zipfile.ZipFile`. What may be inside is for `npz` and `pth` to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from trilobite.base.errors import TrilobiteError
from trilobite.framework.checkpoint.refusal import corrupt

if TYPE_CHECKING:
    import zipfile


@contextmanager
def zip_archive(stream: IO[bytes], where: str) -> Iterator[zipfile.ZipFile]:
    import struct
    import zipfile
    import zlib

    damage = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, OverflowError)
    unknown = (NotImplementedError, RuntimeError)  # a compression zipfile lacks, or a password
    try:
        with zipfile.ZipFile(stream) as archive:
            yield archive
    except TrilobiteError:
        raise
    except (*damage, *unknown) as error:
        reason = str(error) or type(error).__name__
        raise corrupt(f"the archive is damaged: {reason}", where, "an intact zip archive") from error
