"""What tuning found, kept: parameters by kernel and problem, one file per CPU in the cache directory.

Enters: entries. Leaves: the same, read once per process and replayed by whoever lowers kernels. The file is
JSON with a version; one that is damaged, of another version or of another CPU counts as empty, and an entry
that makes no sense is left out. Files appear whole, because they are renamed into place; who writes last
among several processes keeps what the others wrote before it looked.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from trilobite.base.errors import DataError
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.tuning.spaces import SPACES
from trilobite.native.cache import directory
from trilobite.native.host import features

VERSION = 1  # of the file, and of what the parameters mean


@dataclass(frozen=True)
class Entry:
    """The best that was found, beside the default, both in seconds and measured side by side."""

    parameters: dict[str, int]
    seconds: float
    default_seconds: float
    trials: int
    date: str


class Database:
    """Entries of one CPU by key: kind and problem."""

    def __init__(self, cpu: str, entries: dict[str, Entry] | None = None) -> None:
        self.cpu, self.entries = cpu, dict(entries or {})

    def parameters(self, key: str) -> dict[str, int] | None:
        found = self.entries.get(key)
        return None if found is None else found.parameters

    def __bool__(self) -> bool:
        return bool(self.entries)


def path_of(cpu: str) -> Path | None:
    place = directory()
    return None if place is None else place / "tuning" / f"{cpu}.json"


@lru_cache(maxsize=1)
def current() -> Database:
    """This machine's, as it was when first asked for or last written here."""
    return read(features().name)


def read(cpu: str) -> Database:
    path = path_of(cpu)
    if path is None:
        return Database(cpu)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["version"] != VERSION or found["cpu"] != cpu:
            return Database(cpu)
        rows = found["entries"].items()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not there, or damaged: as if empty
        return Database(cpu)
    entries = {key: _entry(key, row) for key, row in rows}
    return Database(cpu, {key: e for key, e in entries.items() if e is not None})


def _entry(key: str, row: Any) -> Entry | None:
    """None for what is no entry, or has parameters outside the space of its kind."""
    try:
        entry = Entry(
            {str(k): int(v) for k, v in row["parameters"].items()}, float(row["seconds"]),
            float(row["default_seconds"]), int(row["trials"]), str(row["date"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    space = SPACES.get(key.partition(" ")[0])
    return entry if space is not None and space.contains(entry.parameters) else None


def keep(entries: dict[str, Entry]) -> Path:
    """Add entries to this machine's database, in place of older ones of the same keys."""
    cpu = features().name
    path = path_of(cpu)
    merged = Database(cpu, {**read(cpu).entries, **entries})
    if path is None:
        raise DataError("tuning has nowhere to keep its results", remedy="set TRILOBITE_CACHE to a directory")
    rows = {key: asdict(entry) for key, entry in sorted(merged.entries.items())}
    text = json.dumps({"version": VERSION, "cpu": cpu, "entries": rows}, indent=1)
    new = path.with_name(f".new-{os.urandom(12).hex()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.write_text(text, encoding="utf-8")
        os.replace(new, path)
    except OSError as error:
        if path.parent.is_dir():
            new.unlink(missing_ok=True)
        raise DataError(
            f"what tuning found cannot be kept: {error}",
            where=path,
            expected="a directory that can be written",
            remedy="make room there, or set TRILOBITE_CACHE to another directory",
        ) from error
    current.cache_clear()
    return path
