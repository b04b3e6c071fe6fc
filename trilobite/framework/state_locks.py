"""Taking turns: compiled functions that share state which one of them writes run one after the other, whoever
calls them.

Enters: what a recording reads and writes: cells, and leaves whose gradients it changes. Leaves: a
`StateLock`, to be held from reading the state until it is written. What is first written together is a
group with one lock, and who reads or writes of one group alone takes that; who needs several groups, or
runs Python code on its way, which may call any other compiled function, waits for all groups. So whoever
waits while it holds a lock waits for functions that wait for nothing, never in a circle. It knows only what
compiled functions write: eager code that another thread runs meanwhile may see a half-written tensor.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import sleep
from typing import Any
from weakref import WeakKeyDictionary

from trilobite.base.forks import is_held_here, renewed_in_child

_MOMENT = 50e-6  # seconds in which a thread that waits takes its turn


class Lock:
    """One thread at a time, and another one next if it waits: who calls in a loop would always be first."""

    __slots__ = ("__weakref__", "_lock", "_waiting")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: list[None] = []  # one for each thread: lists change as a whole, numbers do not
        renewed_in_child(self)

    def after_fork(self) -> None:
        """Nobody else holds it or waits in a child."""
        self._waiting.clear()
        if not is_held_here(self._lock):
            self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._waiting.append(None)
            try:
                self._lock.acquire()
            finally:
                self._waiting.pop()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
        if self._waiting:
            sleep(_MOMENT)


class Locks:
    """Several as one."""

    def __init__(self, locks: Sequence[Lock]) -> None:
        self.locks = locks

    def __enter__(self) -> None:
        with ExitStack() as taken:
            for lock in self.locks:
                taken.enter_context(lock)
            taken.pop_all()  # all are there: they are kept

    def __exit__(self, *error: object) -> None:
        for lock in reversed(self.locks):
            lock.__exit__()


_guard = renewed_in_child(threading.Lock())
_groups: WeakKeyDictionary[Any, Lock] = WeakKeyDictionary()  # the lock of everything that somebody writes
_alone = Lock()  # of those who wait for all groups


class _Changes:
    count = 0  # how often something was found to be written
    suspended = 0  # runs whose threads pass a baton: they take turns already


class _Nothing(Lock):
    """No lock at all."""

    def __enter__(self) -> None:
        return

    def __exit__(self, *error: object) -> None:
        return


_nothing = _Nothing()


@contextmanager
def suspended() -> Iterator[None]:
    """Ranks in lock-step run one at a time, and one that waits inside a compiled function holds up nobody.
    They share no state.
    """
    _Changes.suspended += 1
    try:
        yield
    finally:
        _Changes.suspended -= 1


class StateLock:
    """The turn of one recording. `comes_back`: does it run Python code?"""

    def __init__(self, reads: Iterable[Any], writes: Iterable[Any], comes_back: bool = False) -> None:
        written = tuple(writes)
        self._seen, self.comes_back = (*reads, *written), comes_back
        self._own, self._at = Lock(), -1
        with _guard:
            fresh = Lock()
            if fresh in [_groups.setdefault(x, fresh) for x in written]:
                _Changes.count += 1

    def now(self) -> Lock | Locks:
        """What to hold."""
        if _Changes.suspended:
            return _nothing
        if self._at != _Changes.count:
            with _guard:
                self._at, self._lock = _Changes.count, self._found()
        return self._lock

    def _found(self) -> Lock | Locks:
        groups = {_groups[x] for x in self._seen if x in _groups}
        if self.comes_back or len(groups) > 1:
            return Locks((_alone, *dict.fromkeys(_groups.values())))
        return groups.pop() if groups else self._own
