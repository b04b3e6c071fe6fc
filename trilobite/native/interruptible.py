"""Long native runs that an interrupt ends: on a thread of their own, while the main one waits for signals.

Enters: a run as a function, and a way to have it stopped. Leaves: what the run gave, or the exception that a
signal's handler raised meanwhile, some tenths of a second after the signal. Python sees signals in its main
thread alone, and only while that is not in machine code. A run that does not stop at once is left behind: its
thread holds all memory that it works on until it ends, and nobody uses any of it again. Python functions that
the run calls on its way are called by the main thread, as ever.
"""

from __future__ import annotations

import _thread
import queue
import threading
from collections.abc import Callable
from contextlib import suppress

_GRACE = 0.08  # seconds in which a run that was told to stop comes to the end of what it has in hand
postponed: list[BaseException] = []
"""What interrupted a run too late to stop it: raised when its results are where they belong."""


def is_wanted() -> bool:
    """Is this the thread in which signals are seen?"""
    return threading.get_ident() == threading.main_thread().ident


def raise_postponed() -> None:
    """For whoever has handed over the results of a run."""
    raise postponed.pop()


class Apart:
    """One run on a thread of its own."""

    def __init__(self, run: Callable[[], None], stop: Callable[[], bool]) -> None:
        self._run, self._stop = run, stop
        self._news: queue.SimpleQueue[None] = (
            queue.SimpleQueue()
        )  # wakes the main thread; what is new, it sees
        self._asked: _Asked | None = None
        self._error: BaseException | None = None
        self._is_over = self._is_cancelled = False
        self.is_left_behind = False

    def __call__(self) -> None:
        """Waits for the run. What a signal raises, it raises; if the run could not be stopped any more, that
        waits in `postponed`.
        """
        _thread.start_new_thread(self._body, ())
        try:
            self._serve()
        except BaseException as error:
            self._end(error)
            return
        if self._error is not None:
            raise self._error

    # -- the main thread's side ------------------------------------------------------------------------------

    def _serve(self, timeout: float | None = None) -> None:
        while not self._is_over:
            if self._asked is not None and not self._asked.is_answered and not self._is_cancelled:
                self._asked.answer()
                continue
            try:
                self._news.get(timeout=timeout)
            except queue.Empty:
                return

    def _end(self, error: BaseException) -> None:
        """After a signal: stops the run, or waits until it is through if it must not stop any more."""
        while not self._is_over and not self._is_cancelled:
            with suppress(BaseException):  # one more signal: the first is the one that is told of
                if self._stop():
                    self._is_cancelled = True
                    self._serve(_GRACE)
                else:
                    self._serve()
        if self._is_cancelled:
            self.is_left_behind = not self._is_over
            raise error
        if self._error is not None:
            raise self._error
        postponed.append(error)

    # -- the run's side --------------------------------------------------------------------------------------

    def _body(self) -> None:
        _here.run = self
        try:
            self._run()
        except BaseException as error:
            self._error = error
        finally:
            # The main thread may look who holds an array before this one has gone.
            self._run = _nothing
            self._is_over = True
            self._news.put(None)

    def ask(self, function: Callable[[], object]) -> None:
        """Has the main thread call a function; what that raises, this raises."""
        asked = self._asked = _Asked(function)
        self._news.put(None)
        while not asked.wait(_GRACE):
            if self._is_cancelled:
                raise KeyboardInterrupt
        if asked.error is not None:
            raise asked.error


def _nothing() -> None:
    return


class _Asked:
    """A function for the main thread to call."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function, self._done = function, threading.Event()
        self.error: BaseException | None = None
        self.is_answered = False

    def answer(self) -> None:
        try:
            self._function()
        except BaseException as error:
            self.error = error
        self.is_answered = True
        self._done.set()

    def wait(self, timeout: float) -> bool:
        return self._done.wait(timeout)


class _Here(threading.local):
    run: Apart | None = None


_here = _Here()


def by_the_caller(function: Callable[[], object]) -> Callable[[], None]:
    """The function, called by the main thread if a run that goes apart calls it."""

    def call() -> None:
        run = _here.run
        if run is None:
            function()
        else:
            run.ask(function)

    return call
