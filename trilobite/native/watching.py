"""Which kernel a program is at, for somebody who asks from another thread while it runs.

Enters: runs of step tables while `watching` is on, with the names of their rows. Leaves: a `Watch`: the
kernel that runs now, and how long each took in all. A table notes the kernels that are done; who asks reads
how many there are. While nobody watches nothing is noted.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from trilobite.native.driver import Table

ROOM = 1 << 14  # kernels of one run that are noted; of a run with more, the first
Names = Callable[[], Sequence[str]]  # of every row of a table; "" if it is no kernel


class Now(NamedTuple):
    """The kernel that runs, and its place among those that the program calls one after another."""

    kernel: str
    number: int
    of: int


class Watch:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: weakref.WeakKeyDictionary[Table, Sequence[str]] = weakref.WeakKeyDictionary()
        self._latest: weakref.ref[Table] | None = None
        self._spent: dict[str, float] = {}

    def begins(self, table: Table, names: Names) -> None:
        """A run begins: what the last one of this table noted is added up, and it notes anew."""
        if table in self._names:
            self._add(table)
        elif table.header[6] == 0:  # else somebody else has it timed
            self._names[table] = names()
            table.time(min(max(2 * len(self._names[table]), 1), ROOM))
        self._latest = weakref.ref(table)

    def now(self) -> Now | None:
        """None between runs, and while somebody else has the program timed."""
        table = self._latest() if self._latest is not None else None
        names = self._names.get(table) if table is not None else None
        if table is None or names is None or table.header[0] == 0:
            return None
        done = min(int(table.header[8]), int(table.header[7]))
        last = int(table.noted[done - 1, 0]) if done else -1
        kernels = [row for row, name in enumerate(names) if name]
        row = next((row for row in kernels if row > last), kernels[0] if kernels else None)
        return None if row is None else Now(names[row], kernels.index(row) + 1, len(kernels))

    def spent(self) -> dict[str, float]:
        """Seconds in each kernel, of runs that others followed."""
        with self._lock:
            return dict(self._spent)

    def stop(self) -> None:
        for table in self._names:
            table.time(0)

    def _add(self, table: Table) -> None:
        events, names = table.events(), self._names[table]
        took = np.zeros(len(names), np.int64)
        np.add.at(took, events[:, 0], events[:, 2] - events[:, 1])
        with self._lock:
            for row in np.flatnonzero(took).tolist():
                name = names[row]
                self._spent[name] = self._spent.get(name, 0.0) + float(took[row]) * 1e-9


current: Watch | None = None  # is told when a run begins


@contextmanager
def watching() -> Iterator[Watch]:
    """Programs that run inside tell the watch. One watch at a time: an inner one takes over until it ends."""
    global current
    watch, before = Watch(), current
    current = watch
    try:
        yield watch
    finally:
        current = before
        watch.stop()
