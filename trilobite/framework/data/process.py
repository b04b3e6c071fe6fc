"""The far side of a worker process: what runs in it.

In: a pipe. First a recipe comes through it, then tasks. Out: a message per task, "batch" or "error", in their
order. The process ends when its pipe does, so a parent that is gone, for whatever reason, leaves no worker
behind.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import traceback
from typing import TYPE_CHECKING, Any

from trilobite.framework.data import transport
from trilobite.framework.data.fetch import Recipe, Task

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

GRACE = 5.0  # seconds an orphan may take to finish the item it is at


def main(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then closes the pipe
    try:
        _serve(pipe)
    except (EOFError, ConnectionError):
        return  # the parent has closed the pipe; there is nobody left to tell


def _serve(pipe: Connection) -> None:
    try:
        recipe: Recipe = transport.receive(pipe, share=True)[1]
    except (EOFError, ConnectionError):
        raise
    except Exception as error:
        transport.send(
            pipe, "error", (f"a worker could not unpack the dataset: {error!r}", None, _text(error))
        )
        return
    tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
    over = threading.Event()
    threading.Thread(target=_listen, args=(pipe, tasks, over), daemon=True).start()
    fetch = recipe.fetcher()
    while True:
        task = tasks.get()
        if over.is_set():
            return
        _answer(pipe, fetch, task)


def _listen(pipe: Connection, tasks: queue.SimpleQueue[Any], over: threading.Event) -> None:
    """Take tasks from the pipe at once: a parent that sends never waits for a worker that computes."""
    try:
        while True:
            tasks.put(pipe.recv())
    except (EOFError, OSError):
        over.set()
        tasks.put(None)
    threading.Event().wait(GRACE)
    os._exit(1)


def _answer(pipe: Connection, fetch: Any, task: Task) -> None:
    try:
        kind, value = "batch", fetch(task)
        head, buffers = transport.dump(value)
    except Exception as error:
        where = getattr(error, "where", None)
        what = str(getattr(error, "what", None) or f"a batch could not be sent: {error!r}")
        kind = "error"
        head, buffers = transport.dump((what, where, _text(error.__cause__ or error)))
    transport.send_dumped(pipe, kind, head, buffers, None)


def _text(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()
