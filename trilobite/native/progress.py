"""A bar for compilations that take long. Enters: counts. Leaves: a bar on a terminal's standard error."""

from __future__ import annotations

import sys
import time
from typing import Any

PATIENCE = 1.0  # seconds that pass without a bar


class Progress:
    """A context manager. Nothing is shown before `PATIENCE` is over, nor where nobody looks."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        self._begin = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: int) -> None:
        """So many are done now."""
        if self._bar is None and self._due():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._what, total=self._total)
            self._bar.start()
        if self._bar is not None:
            self._bar.update(self._task, completed=done)

    def _due(self) -> bool:
        return time.perf_counter() - self._begin > PATIENCE and sys.stderr.isatty()
