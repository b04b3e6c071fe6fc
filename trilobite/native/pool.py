"""The thread pool: Python threads that live in machine code, without the interpreter's lock.

Enters: jobs, published by the driver in the control block (`pool.ll`). Leaves: nothing; the jobs write
memory. A job is cut into one part per thread and these into pieces, which a thread that has none of its own
left takes from others; bits do not depend on the cut. Threads look for work for some tens of microseconds
and then sleep; they never spin when there are more of them than cores, and otherwise keep off their caller's
core. They are started with the first program that wants them, again after a fork, and leave before the
interpreter does. Who finds the pool taken by another program runs alone, on a control block of its own.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
import weakref
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.forks import renewed_in_child
from trilobite.native.host import usable_cores
from trilobite.native.memory import LINE, empty
from trilobite.native.runtime import MOST_THREADS, Runtime, Words, control_block, runtime

SPIN = 100_000  # nanoseconds of looking for work before sleeping: about twice what waking a thread takes
_JOB, _BUSY, _THREADS, _SPIN, _SLEEP, _WAKE, _LINES, _LINE, _SCRATCH = 0, 32, 48, 49, 50, 51, 64, 16, 4
_AWAITED, _PLACE, _AVOIDED, _CORES, _ID = 35, 60, 61, 72, 5
_MOST_CORES = 256
_LEAVE = 65535
_PATIENCE = 1.0  # seconds to wait for a program that runs, before doing without its end

_Word = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Pool:
    """One per process (`pool()`)."""

    def __init__(self, threads: int) -> None:
        self.control = control_block(MOST_THREADS)
        self._wanted = threads
        self._scratch_bytes = 0
        self._scratch: list[Any] = []
        self._replaced: list[Any] = []
        self._workers: list[threading.Thread] = []
        self._lock = threading.RLock()
        self._closed = False
        self._own = threading.local()
        self._rest = _Rest()
        self.reserve(LINE)
        # Never freed: whoever is still in machine code when the interpreter ends must find it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    @cached_property
    def _code(self) -> Runtime:
        return runtime()

    @cached_property
    def _functions(self) -> dict[str, Callable[..., int]]:
        pointer, integer = ctypes.c_void_p, ctypes.c_int64
        kinds = {
            "worker": ctypes.CFUNCTYPE(None, pointer, integer, integer),
            "publish": ctypes.CFUNCTYPE(integer, pointer, integer, integer),
            "seize": ctypes.CFUNCTYPE(integer, pointer),
            "release": ctypes.CFUNCTYPE(None, pointer),
        }
        return {name: kind(self._code[name]) for name, kind in kinds.items()}

    @property
    def threads(self) -> int:
        return self._wanted

    def resize(self, threads: int) -> None:
        """Other programs run alone while the threads change."""
        with self._lock:
            self._stop()
            self._wanted = threads

    def start(self) -> None:
        """Makes the pool what it should be; does nothing if it is."""
        with self._lock:
            if self.control[_THREADS] != 0:
                return
            wanted = 1 if self._closed else self._wanted
            self._rest.install(self.control, self._code)
            self.control[_SPIN] = SPIN if wanted <= usable_cores() else 0
            self._grow(wanted)
            self._choose_places(wanted)
            self._workers = self._started(wanted)
            self.control[_THREADS] = 1 + len(self._workers)

    def _started(self, wanted: int) -> list[threading.Thread]:
        worker, seen, workers = self._functions["worker"], int(self.control[_JOB]), []
        for t in range(1, wanted):
            thread = threading.Thread(
                target=worker,
                args=(self.control.ctypes.data, t, seen),
                name=f"trilobite-{t}",
                daemon=True,
            )
            try:
                thread.start()
            except RuntimeError:  # the system gives no more threads: these have to do
                break
            workers.append(thread)
            self.control[_LINES + _LINE * t + _ID] = thread.native_id or 0
        return workers

    def _choose_places(self, wanted: int) -> None:
        """Threads keep off the caller's core, if there are cores for all."""
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        knows = "place" in self._code.addresses and cores and cores[-1] < _MOST_CORES
        apart = knows and 1 < wanted <= min(len(cores), usable_cores())
        self.control[[_PLACE, _AVOIDED]] = self._code["place" if apart else "place_anywhere"], 0
        bits = sum(1 << core for core in cores) if apart else 0
        for i in range(_MOST_CORES // 64):
            self.control[_CORES + i] = np.uint64(bits >> 64 * i & (1 << 64) - 1).astype(np.int64)

    def reserve(self, scratch: int) -> None:
        """Every thread gets at least so many bytes of scratch memory.

        Programs that run meanwhile keep what they have: what is replaced is not freed. Sizes double, so all
        that was replaced is not more than what there is.
        """
        with self._lock:
            if scratch > self._scratch_bytes:
                self._replaced += self._scratch
                self._scratch_bytes, self._scratch = max(LINE, 1 << (scratch - 1).bit_length()), []
                self._grow(1 + len(self._workers))

    def _grow(self, threads: int) -> None:
        while len(self._scratch) < threads:
            self._scratch.append(empty(self._scratch_bytes, "uint8"))
        for t, memory in enumerate(self._scratch):
            self.control[_LINES + _LINE * t + _SCRATCH] = memory.ctypes.data

    def alone(self) -> Words:
        """A free control block of the calling thread's own: one thread, and as much scratch memory."""
        blocks: list[_Alone] = self._own.__dict__.setdefault("blocks", [])
        free = [block for block in blocks if block.control[_BUSY] == 0]
        for block in free:
            if block.scratch.nbytes >= self._scratch_bytes:
                return block.control
        # A second one is in use when a program calls Python, and that another program.
        made = _Alone(self._scratch_bytes)
        self._own.blocks = [block for block in blocks if block not in free] + [made]
        return made.control

    def seize(self, word: int) -> bool:
        """Takes the word at an address from 0 to 1, if it is 0."""
        return bool(self._functions["seize"](word))

    def _seize(self) -> bool:
        """Keeps programs from using the block; gives up when one runs for longer than `_PATIENCE`."""
        end = time.monotonic() + _PATIENCE
        while not self.seize(self.control.ctypes.data + 8 * _BUSY):
            if time.monotonic() > end:
                return False
            time.sleep(50e-6)
        return True

    def _release(self, taken: bool) -> None:
        if taken:
            self._functions["release"](self.control.ctypes.data + 8 * _BUSY)

    def _stop(self) -> None:
        if self.control[_THREADS] == 0:
            return
        taken = self._seize()
        end = time.monotonic() + _PATIENCE
        # A worker that stays would share part and scratch memory with its successor. On a busy machine it may
        # take long to hear of it; only while a program runs on the block does nobody wait for ever.
        while any(t.is_alive() for t in self._workers) and (taken or time.monotonic() < end):
            self._functions["publish"](self.control.ctypes.data, _LEAVE, 1 + len(self._workers))
            for thread in self._workers:
                thread.join(_PATIENCE)
        self._workers = []
        self.control[_THREADS] = 0
        self._release(taken)

    def close(self) -> None:
        """At the interpreter's end: from now on programs run alone."""
        with self._lock:
            self._closed = True
            self._stop()

    def before_fork(self) -> None:
        """No program is in the middle when the process is copied, unless it takes very long."""
        self._lock.acquire()
        self._held = "seize" in self.__dict__.get("_functions", {}) and self._seize()

    def after_fork_in_parent(self) -> None:
        self._release(self._held)
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """The workers were not copied; the next program starts new ones."""
        self._lock = threading.RLock()
        self._workers, self._own = [], threading.local()
        self.control[[_BUSY, _AWAITED, _THREADS]] = 0
        lines = self.control[_LINES:].reshape(-1, _LINE)
        lines[:, :_SCRATCH] = 0
        self._rest = _Rest()
        for table in _tables:
            table.header[[0, 12]] = 0  # it neither runs nor is to stop


class _Alone:
    """A control block without workers."""

    def __init__(self, scratch: int) -> None:
        self.scratch = empty(scratch, "uint8")
        self.control = control_block(1)
        self.control[_THREADS], self.control[_LINES + _SCRATCH] = 1, self.scratch.ctypes.data


class _Rest:
    """How threads sleep: in the system where there is a futex, else on Python's own events."""

    def __init__(self) -> None:
        self._events: dict[int, threading.Event] = {}
        self._lock = threading.Lock()
        self._callbacks = _Word(self._sleep), _Word(self._wake)

    def install(self, control: Words, code: Runtime) -> None:
        if "sleep" in code.addresses:
            control[_SLEEP], control[_WAKE] = code["sleep"], code["wake"]
        else:
            control[[_SLEEP, _WAKE]] = [ctypes.cast(c, ctypes.c_void_p).value or 0 for c in self._callbacks]

    def _event(self, word: int) -> threading.Event:
        with self._lock:
            return self._events.setdefault(word, threading.Event())

    def _sleep(self, word: int) -> None:
        event = self._event(word)
        event.wait()
        event.clear()

    def _wake(self, word: int) -> None:
        self._event(word).set()


_tables: weakref.WeakSet[Any] = weakref.WeakSet()


def remember(table: Any) -> None:
    """A table of the driver; after a fork, none of them is running in the child."""
    _tables.add(table)


_creating = renewed_in_child(threading.Lock())
_pool: Pool | None = None


def pool() -> Pool:
    """This process's pool."""
    global _pool
    if _pool is not None:
        return _pool
    with _creating:
        if _pool is None:
            _pool = _created()
        return _pool


def _created() -> Pool:
    made = Pool(_chosen())
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=made.before_fork,
            after_in_parent=made.after_fork_in_parent,
            after_in_child=made.after_fork_in_child,
        )
    atexit.register(made.close)
    return made


def _chosen() -> int:
    text = os.environ.get("TRILOBITE_THREADS", "")
    if not text:
        return min(usable_cores(), MOST_THREADS)
    if not text.isdigit():
        raise ArgumentError(
            f"TRILOBITE_THREADS is {text!r}",
            where="the environment",
            expected=f"a number from 1 to {MOST_THREADS}",
            remedy="unset it to use every core",
        )
    return _checked(int(text))


def _checked(threads: int) -> int:
    if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
        raise ArgumentError(
            f"{threads!r} threads make no sense",
            where="the number of threads",
            expected=f"an integer from 1 to {MOST_THREADS}",
        )
    return threads


def threads() -> int:
    """How many threads a program runs on, the caller's among them."""
    return pool().threads


def set_threads(count: int) -> None:
    """From the next run on. Results do not change with it."""
    pool().resize(_checked(count))
