"""TensorBoard: event files, written by hand.

In: numbers, strings, `Histogram` and `Image` by name and step. Out: one event file per logger in a directory,
which TensorBoard reads while it grows. It reads nothing back; a resumed run writes a new file that voids the
end of the old ones.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trilobite.base.errors import ArgumentError, StateError
from trilobite.framework.logs import events
from trilobite.framework.logs.logger import Logger, check_name, check_step
from trilobite.framework.logs.records import record


class TensorBoardLogger(Logger):
    """Writes an event file. `resume=s`: what earlier runs logged in the directory after step s is void."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        resume: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.directory, self._clock = Path(directory), clock
        earlier = sorted(self.directory.glob("*tfevents*"))
        if earlier and resume is None:
            raise StateError(
                "the directory has event files of an earlier run",
                where=self.directory,
                expected="a directory per run",
                remedy="resume=<step> goes on with it; otherwise name another directory",
            )
        start = None if resume is None else check_step(resume) + 1
        self.directory.mkdir(parents=True, exist_ok=True)
        self.path = self.directory / self._name(earlier)
        self._file = self.path.open("xb", buffering=0)
        self._write(0, events.file_version())
        if start is not None:
            self._write(start, events.session_start())

    def _name(self, earlier: list[Path]) -> str:
        """Files are read in the order of their names: seconds first, and later than any that is there."""
        stamps = [int(m[1]) for p in earlier if (m := re.search(r"tfevents\.(\d+)", p.name))]
        stamp = max([int(self._clock()), *(s + 1 for s in stamps)])
        return f"events.out.tfevents.{stamp:010d}.{os.getpid()}.trilobite"

    def _write(self, step: int, part: bytes) -> None:
        view = memoryview(record(events.event(self._clock(), step, part)))
        while view:
            view = view[self._file.write(view) :]

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        if self._file.closed:
            raise ArgumentError("the log is closed", where=self.path, expected="a logger that is still open")
        encoded = [events.value(check_name(name), value) for name, value in values.items()]
        self._write(check_step(step), events.summary(*encoded))

    def close(self) -> None:
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()
