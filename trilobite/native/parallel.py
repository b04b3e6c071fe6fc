"""Many kernels compiled at once, by threads of this process, and ahead of those who will ask for them.

Enters: texts with their levels. Leaves: their code by symbol, linked. It knows no cache. Who compiles what,
and when, does not change a byte of the result. Functions that several kernels have are compiled once
(`parts`).
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trilobite.native.host import Host, features
from trilobite.native.objects import compile_object, prepare, symbol
from trilobite.native.progress import Progress

Text = tuple[str, int]  # LLVM text and its level

_WORTH = 0.02  # seconds of work for which another thread is started
_PER_KERNEL = 0.004  # seconds, and per character at each level: measured on GEMM and convolution texts
_PER_CHARACTER = (4e-7, 5e-7, 9e-7, 1.5e-6)
_KEPT = 256  # objects of functions that further kernels may have
_AHEAD = 8192  # kernels that nobody has asked for yet


def compile_all(wanted: Sequence[Text], cores: int | None = None) -> dict[str, bytes]:
    """Code of distinct texts, by symbol. A text that LLVM refuses raises its error here."""
    with Progress("compiling kernels", len(wanted)) as progress:
        return _makers.collect(wanted, cores, progress)


def begin(wanted: Iterable[Text], cores: int | None = None) -> None:
    """Begins with texts that `compile_all` will be asked for, and returns at once."""
    if (features().cores if cores is None else cores) > 1:
        _makers.add(wanted, cores)


def seconds_of_work(wanted: Iterable[Text]) -> float:
    """An estimate of what one core needs."""
    return sum(_PER_KERNEL + len(text) * _PER_CHARACTER[level] for text, level in wanted)


class _Work(NamedTuple):
    """One object to make: the less the number, the sooner."""

    urgency: float
    name: str
    text: str
    level: int
    called: tuple[str, ...]


class Makers:
    """What waits to be compiled, what is being compiled, and what is there."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[_Work] = []
        self._known: set[str] = set()  # waiting, being made or there
        self._parts: dict[str, tuple[str, ...]] = {}  # of kernels: the functions that they call
        self._objects: dict[str, bytes] = {}
        self._errors: dict[str, Exception] = {}
        self._threads = self._busy = 0
        self._paused = False

    # -- asking ----------------------------------------------------------------------------------------------

    def add(self, wanted: Iterable[Text], cores: int | None = None) -> list[str]:
        """Puts kernels and their parts where threads take them from; the kernels' names."""
        names = []
        with self._changed:
            for one in wanted:
                names.append(name := symbol(*one))
                if name not in self._known or not self._whole(name):
                    self._add(name, *one)
            self._start((features().cores if cores is None else cores) - 1)
        return names

    def _whole(self, name: str) -> bool:
        return all(part in self._known for part in self._parts.get(name, ()))

    def _add(self, name: str, text: str, level: int) -> None:
        from trilobite.native.parts import split  # not wanted where all code comes from disk

        rest, functions = split(text, level) if _is_linked_here(features()) else (text, {})
        self._parts[name] = tuple(functions)
        works = [(name, rest, tuple(functions)), *((n, t, ()) for n, t in functions.items())]
        for own, module, called in works:
            if own not in self._known:
                self._known.add(own)
                urgency = -seconds_of_work([(module, level)])
                heapq.heappush(self._waiting, _Work(urgency, own, module, level, called))

    def collect(self, wanted: Sequence[Text], cores: int | None, progress: Progress) -> dict[str, bytes]:
        """Compiles with the others until all of these are there."""
        names = self.add(wanted, cores)
        needed = {n for name in names for n in (name, *self._parts[name])}
        while True:
            while self.step():
                progress.show(sum(n in self._objects for n in names))
            with self._changed:
                if self._are_there(needed):
                    made = self._taken(names, needed)
                    break
                self._changed.wait(0.1)  # then what was interrupted elsewhere may wait again
            progress.show(sum(n in self._objects for n in names))
        return {name: prepare(code, name, called) for name, (code, called) in made.items()}

    def _are_there(self, needed: Iterable[str]) -> bool:
        return all(n in self._objects or n in self._errors for n in needed)

    def _taken(self, names: Sequence[str], needed: Iterable[str]) -> dict[str, tuple[bytes, list[bytes]]]:
        error = next((self._errors.pop(n) for n in needed if n in self._errors), None)
        if error is not None:
            self._forget()
            raise error
        made = {n: (self._objects[n], [self._objects[p] for p in self._parts[n]]) for n in names}
        self._let_go(names)
        return made

    def _let_go(self, names: Iterable[str]) -> None:
        """Kernels that were collected are kept by others. Of functions the latest stay, and of kernels that
        were made ahead for programs which will ask for them.
        """
        for name in names:
            self._parts.pop(name, None)
            self._objects.pop(name, None)
            self._known.discard(name)
        ahead = [name for name in self._objects if name in self._parts]
        functions = [name for name in self._objects if name not in self._parts]
        for name in (*ahead[: max(0, len(ahead) - _AHEAD)], *functions[: max(0, len(functions) - _KEPT)]):
            del self._objects[name]
            self._parts.pop(name, None)
            self._known.discard(name)

    def _forget(self) -> None:
        """Nothing waits any more, so that after an error no thread goes on."""
        for work in self._waiting:
            self._known.discard(work.name)
        self._waiting.clear()

    # -- making ----------------------------------------------------------------------------------------------

    def _start(self, most: int) -> None:
        """Threads beside those that ask, where there is enough for them to do."""
        worth = -sum(work.urgency for work in self._waiting) > _WORTH
        count = min(most, len(self._waiting)) - self._threads if worth else 0
        for _ in range(max(0, count)):
            self._threads += 1
            threading.Thread(target=self._serve, name="trilobite compiles").start()

    def _serve(self) -> None:
        """A thread's work: until nothing waits, or the program ends."""
        main = threading.main_thread()
        while main.is_alive() and self.step():
            pass
        with self._changed:
            self._threads -= 1

    def step(self) -> bool:
        """Makes one object, if one waits."""
        with self._changed:
            if self._paused or not self._waiting:
                return False
            work = heapq.heappop(self._waiting)
            self._busy += 1
        code, error = None, None
        try:
            code = compile_object(work.text, work.level, features(), work.name, work.called)
        except Exception as raised:  # whoever asked for it gets it
            error = raised
        finally:
            self._done(work, code, error)
        return True

    def _done(self, work: _Work, code: bytes | None, error: Exception | None) -> None:
        """Notes what became of it; one that was interrupted waits again, for whoever asks next."""
        with self._changed:
            self._busy -= 1
            if code is not None:
                self._objects[work.name] = code
            elif error is not None:
                self._errors[work.name] = error
                self._known.discard(work.name)
            else:
                heapq.heappush(self._waiting, work)
            self._changed.notify_all()

    # -- processes that fork ---------------------------------------------------------------------------------

    def pause(self) -> None:
        """Until `go_on` nobody is inside of LLVM: a child would find its locks taken for ever."""
        with self._changed:
            self._paused = True
            while self._busy:
                self._changed.wait()

    def go_on(self) -> None:
        with self._changed:
            self._paused = False
            self._start(features().cores - 1 if self._waiting else 0)


_makers = Makers()


def before_fork() -> None:
    _makers.pause()


def after_fork_in_parent() -> None:
    _makers.go_on()


def after_fork_in_child() -> None:
    """The child has none of the threads: what was asked for ahead it compiles when it needs it."""
    global _makers
    _makers = Makers()


def _is_linked_here(host: Host) -> bool:
    """Are objects of this machine of the kind that `images` links?"""
    return host.triple.startswith("x86_64") and not any(
        n in host.triple for n in ("windows", "apple", "darwin")
    )
