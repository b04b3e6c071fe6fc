"""The package's own files as one digest: part of the name of whatever its code has made and a disk keeps.

Enters: folders of the package. Leaves: a digest of the names and contents of all files there. Reading them
all takes longer than many a first call, so the digest is itself kept, under the files' sizes and the times of
their last changes. Those are the kernel's own (`st_ctime`): no program can set them back.
"""

from __future__ import annotations

import hashlib
import os
import time
from functools import lru_cache
from pathlib import Path

from trilobite.native.disk import shared

PACKAGE = Path(__file__).resolve().parents[1]
_SETTLED = 2.0  # seconds after a change in which times may not tell it from the next one


@lru_cache(maxsize=8)
def digest(folders: tuple[str, ...], package: Path = PACKAGE) -> str | None:
    """None where the package is not in a directory."""
    try:
        files: list[tuple[str, int, int, int]] = []
        for folder in folders:
            _look_through(str(package / folder), files)
        files.sort()
        newest = max((changed for *_, changed in files), default=0)
        settled = newest / 1e9 + _SETTLED < time.time()
        key = hashlib.sha256(repr((str(package), folders, files)).encode()).hexdigest()
        if settled and (kept := shared("sources").get(key)) is not None:
            return kept.decode()
        made = _read([path for path, *_ in files], package)
    except OSError:
        return None
    if settled:
        shared("sources").put(key, made.encode())
        shared("sources").trim()
    return made


def _read(paths: list[str], package: Path) -> str:
    found = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            content = file.read()
        found.update(f"{os.path.relpath(path, package)} {len(content)}\n".encode() + content)
    return found.hexdigest()


def _look_through(folder: str, found: list[tuple[str, int, int, int]]) -> None:
    """Path, inode, size and time of the last change of every file that decides."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name.endswith((".py", ".ll")):
                facts = entry.stat()
                found.append((entry.path, facts.st_ino, facts.st_size, facts.st_ctime_ns))
            elif name != "__pycache__" and entry.is_dir():
                _look_through(entry.path, found)
