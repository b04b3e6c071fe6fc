"""Taking turns: compiled functions that write the same state run one after the other, whoever calls them.

Enters: the cells that a recording writes. Leaves: a lock to hold from reading the state until it is written.
Cells that were first written together share one lock; who writes cells of several locks takes them in the
order of their making, so that nobody waits in a circle. Functions that only read take none: they see the
state before a run or after it, because arrays that they hold are not overwritten.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from trilobite.ir.transforms.cells import Cell

Turn = AbstractContextManager[Any]
ALWAYS: Turn = nullcontext()
_numbers = count()
_known: WeakKeyDictionary[Cell, tuple[int, Any]] = WeakKeyDictionary()
_guard = threading.Lock()


class _Several:
    """Several locks as one, again and again."""

    def __init__(self, locks: Iterable[Any]) -> None:
        self.locks = tuple(locks)

    def __enter__(self) -> None:
        with ExitStack() as taken:
            for lock in self.locks:
                taken.enter_context(lock)
            taken.pop_all()  # all are there: they are kept

    def __exit__(self, *error: object) -> None:
        for lock in reversed(self.locks):
            lock.release()


def turn_of(cells: Iterable[Cell]) -> Turn:
    """The lock of whoever writes these cells."""
    found: dict[int, Any] = {}
    with _guard:
        fresh = next(_numbers), threading.RLock()
        for cell in cells:
            number, lock = _known.setdefault(cell, fresh)
            found[number] = lock
    if not found:
        return ALWAYS
    locks = [found[number] for number in sorted(found)]
    return locks[0] if len(locks) == 1 else _Several(locks)
