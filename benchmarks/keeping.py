"""Keeps results of peers, so that work on our side needs not wait for them again (`--reuse-peers`).

They hold for this start of the machine, these versions, these rows and this clock: a change of any begins
anew. Of two measurements of a peer the quicker is kept, for the other says more about the machine's load.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.row import CLOCK

HERE = Path(__file__).parent
BOOT = Path("/proc/sys/kernel/random/boot_id")
ROWS = ("rows_*.py", "peers/*.py", "worker.py")


@dataclass(frozen=True)
class Kept:
    """Samples in seconds, and the file with the results if the row compares them."""

    samples: list[float]
    outputs: Path | None = None


class Keeper:
    """A folder with one file a row and system."""

    def __init__(self, folder: Path, facts: Mapping[str, str]) -> None:
        boot = BOOT.read_text() if BOOT.is_file() else ""
        texts = [path.read_text(encoding="utf-8") for pattern in ROWS for path in sorted(HERE.glob(pattern))]
        identity = json.dumps([boot, facts["versions"], texts, os.environ.get(CLOCK, "")])
        self.folder = folder / hashlib.sha256(identity.encode()).hexdigest()[:16]

    def _path(self, row: str, system: str) -> Path:
        return self.folder / hashlib.sha256(f"{row} / {system}".encode()).hexdigest()[:16]

    def find(self, row: str, system: str) -> Kept | None:
        path = self._path(row, system).with_suffix(".json")
        if not path.is_file():
            return None
        outputs = path.with_suffix(".npz")
        return Kept(json.loads(path.read_text()), outputs if outputs.is_file() else None)

    def keep(self, row: str, system: str, kept: Kept) -> None:
        path = self._path(row, system).with_suffix(".json")
        before = self.find(row, system)
        if before is not None and median(before.samples) <= median(kept.samples):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if kept.outputs is not None:
            shutil.copyfile(kept.outputs, path.with_suffix(".npz"))
        path.write_text(json.dumps(kept.samples))
