"""What is happening in this process, as numbers that a page can ask for: steps, launches, the current line.

Enters: what `framework.progress` and `processor.device` tell while something runs. Leaves: snapshots as plain
data. Curves keep every step up to a limit, then every second, every fourth, and so on.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from trilobite.base.locations import is_inside
from trilobite.framework import progress
from trilobite.native.watching import Watch, watching
from trilobite.processor import device
from trilobite.processor.sim.run import Run
from trilobite.report.places import short_path

MOST = 2000  # points of a curve
LAUNCHES = 200  # that are listed
KERNELS = 12  # of the CPU that are listed


class Curve:
    """Points of one number: as many as a page can draw, over the whole run."""

    def __init__(self) -> None:
        self.count, self.every = 0, 1
        self.points: list[tuple[int, float]] = []
        self.last = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.last = value
        if self.count % self.every == 0:
            self.points.append((self.count, value))
        if len(self.points) > MOST:
            self.points, self.every = self.points[1::2], self.every * 2


class Feed:
    """Everything that was told since it began. Safe to ask from other threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._thread = threading.get_ident()
        self._curves: dict[str, Curve] = {}
        self._launches: list[dict[str, Any]] = []
        self._cycles = self._count = 0
        self._doing = self._ended = ""
        self._run: Run | None = None
        self._watch: Watch | None = None

    @contextmanager
    def listening(self) -> Iterator[Feed]:
        """Hears what runs in here."""
        progress.listeners.append(self._step)
        device.listeners.append(self._launch)
        try:
            with watching() as self._watch:
                yield self
        finally:
            progress.listeners.remove(self._step)
            device.listeners.remove(self._launch)

    def ended(self, how: str) -> None:
        with self._lock:
            self._ended = how

    def _step(self, name: str, numbers: Mapping[str, float]) -> None:
        with self._lock:
            self._doing = name
            for key, value in numbers.items():
                self._curves.setdefault(key, Curve()).add(float(value))

    def _launch(self, run: Run) -> None:
        row = {"machine": run.machine.name, "cycles": run.cycles, "ms": run.seconds * 1e3,
               "mJ": run.energy.total * 1e3, "kernel": entry_of(run)}  # fmt: skip
        with self._lock:
            self._run, self._count, self._cycles = run, self._count + 1, self._cycles + run.cycles
            self._launches = [*self._launches[-LAUNCHES + 1 :], {"number": self._count, **row}]

    @property
    def last_run(self) -> Run | None:
        with self._lock:
            return self._run

    def snapshot(self) -> dict[str, Any]:
        """All of it now."""
        line, kernel, spent = self._line(), self._kernel(), self._spent()
        with self._lock:
            return {
                "seconds": time.monotonic() - self._began,
                "doing": self._doing,
                "ended": self._ended,
                "line": "" if self._ended else line,
                "curves": {
                    n: {"steps": c.count, "last": c.last, "points": c.points} for n, c in self._curves.items()
                },
                "launches": list(self._launches),
                "kernel": kernel,
                "kernels": spent,
                "launched": self._count,
                "cycles": self._cycles,
            }

    def _kernel(self) -> str:
        """The kernel that the CPU is at, of a compiled program."""
        now = self._watch.now() if self._watch is not None and not self._ended else None
        return f"{now.kernel}, {now.number} of {now.of}" if now is not None else ""

    def _spent(self) -> list[dict[str, Any]]:
        """The kernels of the CPU that took longest, with their share of all."""
        spent = self._watch.spent() if self._watch is not None else {}
        whole = sum(spent.values()) or 1.0
        longest = sorted(spent.items(), key=lambda pair: -pair[1])[:KERNELS]
        return [{"kernel": name, "ms": took * 1e3, "share": took / whole} for name, took in longest]

    def _line(self) -> str:
        """Where the thread that made this is: the user's line."""
        frame: FrameType | None = sys._current_frames().get(self._thread)
        while frame is not None:
            code = frame.f_code
            if not is_inside(code) and not code.co_filename.startswith("<"):
                return f"{short_path(code.co_filename)}:{frame.f_lineno} in {code.co_name}"
            frame = frame.f_back
        return ""


def entry_of(run: Run) -> str:
    """The name of the program's function that ran, as far as symbols tell."""
    names = [name for name, s in run.program.symbols.items() if s.section == "text"]
    return names[0] if names else ""
