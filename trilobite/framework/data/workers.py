"""Workers as the loader sees them: here, in a thread, or in another process.

In: tasks. Out: batches in the order of the tasks given to one worker. A worker that fails says so when its
batch is due; one that was killed or does not answer in time is an error, never a silence.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from trilobite.base.errors import DataError
from trilobite.framework.data import transport
from trilobite.framework.data.fetch import Recipe, Task

KINDS = ("process", "thread")
_GRACE = 1.0  # seconds a worker gets to end by itself before it is ended


class Worker(Protocol):
    def send(self, task: Task) -> None: ...

    def receive(self, timeout: float | None) -> Any: ...

    def stop(self) -> None: ...

    def join(self) -> None: ...


class Inline:
    """Works when asked for the result."""

    def __init__(self, recipe: Recipe) -> None:
        self._fetch = recipe.fetcher()
        self._tasks: deque[Task] = deque()

    def send(self, task: Task) -> None:
        self._tasks.append(task)

    def receive(self, timeout: float | None) -> Any:
        return self._fetch(self._tasks.popleft())

    def stop(self) -> None:
        self._tasks.clear()

    def join(self) -> None: ...


class ThreadWorker:
    """Works in a thread: no copies, and no gain where Python code holds the interpreter lock."""

    def __init__(self, number: int, recipe: Recipe) -> None:
        self._number = number
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()
        self._over = threading.Event()
        args = (recipe, self._tasks, self._results, self._over)
        self._thread = threading.Thread(target=_work, args=args, name=f"trilobite-data-{number}", daemon=True)
        self._thread.start()

    def send(self, task: Task) -> None:
        self._tasks.put(task)

    def receive(self, timeout: float | None) -> Any:
        try:
            batch, error = self._results.get(timeout=timeout)
        except queue.Empty:
            raise _late(f"worker thread {self._number}", timeout) from None
        if error is not None:
            raise error
        return batch

    def stop(self) -> None:
        self._over.set()
        self._tasks.put(None)

    def join(self) -> None:
        self._thread.join(_GRACE)


def _work(recipe: Recipe, tasks: Any, results: Any, over: threading.Event) -> None:
    fetch = recipe.fetcher()
    while (task := tasks.get()) is not None and not over.is_set():
        try:
            results.put((fetch(task), None))
        except Exception as error:  # it is raised again where the batch is due
            results.put((None, error))


class Shipment:
    """A recipe ready to be sent to several processes: large arrays lie in memory that all of them map."""

    def __init__(self, recipe: Recipe) -> None:
        try:
            self._head, self._buffers = transport.dump(recipe)
        except Exception as error:
            raise DataError(
                f"the dataset, transform or collate cannot be sent to worker processes: {error}",
                expected="objects that pickle: functions and classes defined at the top of a module",
                remedy="replace lambdas and local functions, or use worker_kind='thread'",
            ) from error
        large = sum(b.nbytes for b in self._buffers) >= transport.INLINE
        self._memory = transport.MemoryFile(self._buffers) if large else None

    def send(self, pipe: Any) -> None:
        transport.send_dumped(pipe, "recipe", self._head, self._buffers, self._memory)

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()


class ProcessWorker:
    """Works in another process, not forked from this one: it shares none of its threads and locks."""

    def __init__(self, number: int) -> None:
        from trilobite.framework.data.process import main

        context = _context()
        self._number = number
        self._pipe, far = context.Pipe()
        self._process = context.Process(
            target=main, args=(far,), name=f"trilobite-data-{number}", daemon=True
        )
        try:
            self._process.start()
        finally:
            far.close()
        self._pid, self._tasks = self._process.pid, deque[Task]()
        self._end = weakref.finalize(self, _end, self._pipe, self._process, os.getpid())

    def ship(self, shipment: Shipment) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionError):  # its death is told by `receive`
            shipment.send(self._pipe)

    def send(self, task: Task) -> None:
        self._tasks.append(task)
        with contextlib.suppress(BrokenPipeError, ConnectionError):
            self._pipe.send(task)

    def receive(self, timeout: float | None) -> Any:
        from multiprocessing.connection import wait

        task = self._tasks.popleft()
        if not wait([self._pipe, self._process.sentinel], timeout):
            raise _late(f"worker {self._number} (process {self._pid})", timeout)
        try:
            if not self._pipe.poll():
                raise EOFError
            kind, value = transport.receive(self._pipe)
        except (EOFError, OSError) as error:
            raise self._death(task) from error
        if kind == "error":
            raise self._failure(*value)
        return value

    def _failure(self, what: str, where: str | None, trace: str) -> DataError:
        place = f"worker {self._number} (process {self._pid})"
        return DataError(
            f"{what}\n    " + trace.replace("\n", "\n    "),
            where=f"{where}, {place}" if where else place,
            remedy="workers=0 raises the same error in this process, where a debugger sees it",
        )

    def _death(self, task: Task) -> DataError:
        self._process.join(_GRACE)
        code = self._process.exitcode
        how = (
            f"ended with exit code {code}" if code is None or code >= 0 else f"was killed by {_signal(-code)}"
        )
        remedy = "start workers from a file, under `if __name__ == '__main__':`; or worker_kind='thread'"
        if code is not None and code < 0:
            remedy = "often the memory has run out: fewer workers, smaller batches or prefetch=1"
        return DataError(
            f"worker {self._number} (process {self._pid}) {how}",
            where=f"while batch {task.number} of epoch {task.epoch} was due",
            expected="a batch",
            remedy=remedy,
        )

    def stop(self) -> None:
        self._pipe.close()  # the process ends when it sees this

    def join(self) -> None:
        self._end()


def _end(pipe: Any, process: Any, owner: int) -> None:
    """Close a worker process for good; also when it is collected and when the interpreter exits."""
    if os.getpid() != owner:
        return  # a fork of the owner must not end the owner's workers
    pipe.close()
    for insist in (lambda: None, process.terminate, process.kill):
        insist()
        process.join(_GRACE)
        if process.exitcode is not None:
            break
    process.close()


def _context() -> Any:
    import multiprocessing

    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    # Workers are then forked from a server that has NumPy and this package loaded: 20 ms instead of 300.
    context.set_forkserver_preload(["__main__", "trilobite.framework.data.process"])
    return context


def _signal(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _late(who: str, timeout: float | None) -> DataError:
    return DataError(
        f"{who} has not answered within {timeout} s",
        expected="a batch",
        remedy="a larger timeout=, or look where it waits",
    )


class Crew:
    """Workers that share the batches of an epoch: number i is the work of worker i modulo their count."""

    def __init__(self, recipe: Recipe, workers: int, kind: str, timeout: float | None) -> None:
        self._timeout = timeout
        self._workers = _start(recipe, workers, kind)
        self._owed: deque[Worker] = deque()

    @property
    def busy(self) -> bool:
        return bool(self._owed)

    def send(self, task: Task) -> None:
        worker = self._workers[task.number % len(self._workers)]
        worker.send(task)
        self._owed.append(worker)

    def receive(self) -> Any:
        """The batch of the oldest task."""
        return self._owed.popleft().receive(self._timeout)

    def drain(self) -> None:
        """Drop what an abandoned epoch still owes; its errors no longer matter, a dead worker does."""
        while self._owed:
            with contextlib.suppress(DataError):
                self.receive()

    def close(self) -> None:
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            worker.join()


def _start(recipe: Recipe, workers: int, kind: str) -> Sequence[Worker]:
    if workers == 0:
        return [Inline(recipe)]
    if kind == "thread":
        return [ThreadWorker(i, recipe) for i in range(workers)]
    shipment = Shipment(recipe)
    try:
        crew = [ProcessWorker(i) for i in range(workers)]
        for worker in crew:
            worker.ship(shipment)
    finally:
        shipment.close()
    return crew
