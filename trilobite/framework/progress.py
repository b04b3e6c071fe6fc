"""A progress bar for a training run: steps of the running epoch, and the last numbers.

Enters: counts and numbers. Leaves: a bar on a terminal, nothing anywhere else. It decides nothing and
measures nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from trilobite.ir.ranks import is_first

Listener = Callable[[str, Mapping[str, float]], None]
listeners: list[Listener] = []  # are told the name and numbers of every step, whether or not a bar is shown


class Progress:
    """A context manager. Without a terminal, when it is not wanted, or on another rank than the first, its
    methods show nothing.
    """

    def __init__(self, wanted: bool = True) -> None:
        self._wanted = wanted and sys.stdout.isatty() and is_first()
        self._bar: Any = None
        self._task: Any = None
        self._name = ""

    def __enter__(self) -> Progress:
        if self._wanted:
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            text = TextColumn("{task.description}")
            numbers = TextColumn("{task.fields[numbers]}")
            self._bar = Bar(text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), numbers)
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def start(self, name: str, total: int | None, done: int = 0) -> None:
        """A new line, for example an epoch; `total` is None where nobody knows it."""
        self._name = name
        if self._bar is not None:
            self._task = self._bar.add_task(name, total=total, completed=done, numbers="")

    def advance(self, numbers: Mapping[str, float]) -> None:
        """One step more, with the numbers to show beside it."""
        for tell in listeners:
            tell(self._name, numbers)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, advance=1, numbers=shown(numbers))

    def finish(self, numbers: Mapping[str, float]) -> None:
        """The line's last numbers."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, numbers=shown(numbers))


def shown(numbers: Mapping[str, float]) -> str:
    """`loss 0.123  accuracy 0.97`"""
    return "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())
