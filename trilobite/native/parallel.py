"""Many kernels compiled at once: by this process, and by others where that pays.

Enters: texts with their levels. Leaves: their objects by symbol. It knows no cache. Who compiles what does
not change a byte of the result. A worker that dies costs time only: this process does what it left.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from trilobite.native.host import features
from trilobite.native.objects import compile_object, symbol
from trilobite.native.progress import Progress
from trilobite.native.worker import ANSWER, COMPILED, REQUEST

if TYPE_CHECKING:
    import subprocess

Text = tuple[str, int]  # LLVM text and its level

_WORTH = 0.5  # seconds of work; a worker needs about 0.2 s before it compiles anything
_PER_KERNEL = 0.004  # seconds, and per character at each level: measured on GEMM and convolution texts
_PER_CHARACTER = (4e-7, 5e-7, 9e-7, 1.5e-6)
_LARGEST = 1 << 28  # bytes of an object; a worker that says more is out of its mind


def compile_all(wanted: Sequence[Text], cores: int | None = None) -> dict[str, bytes]:
    """Objects of distinct texts, by symbol. A text that LLVM refuses raises its error here."""
    batch = _Batch(wanted)
    helpers = _helpers(wanted, features().cores if cores is None else cores)
    threads = [threading.Thread(target=batch.feed, daemon=True) for _ in range(helpers)]
    for thread in threads:
        thread.start()
    try:
        with Progress("compiling kernels", len(wanted)) as progress:
            batch.work(progress)
            for thread in threads:
                batch.wait(thread, progress)
            batch.work(progress)  # what a worker that died has put back
    finally:
        batch.waiting.clear()  # so that after an error the workers end too
    return batch.objects


def seconds_of_work(wanted: Sequence[Text]) -> float:
    """An estimate of what one core needs."""
    return sum(_PER_KERNEL + len(text) * _PER_CHARACTER[level] for text, level in wanted)


def _helpers(wanted: Sequence[Text], cores: int) -> int:
    """How many workers to start beside this process."""
    if not sys.executable or seconds_of_work(wanted) < _WORTH:
        return 0
    return max(0, min(cores, len(wanted)) - 1)


class _Batch:
    """Texts that wait, the most work first, and the objects that are there."""

    def __init__(self, wanted: Sequence[Text]) -> None:
        self.waiting = deque(sorted(wanted, key=lambda one: -seconds_of_work([one])))
        self.objects: dict[str, bytes] = {}

    def next(self) -> Text | None:
        try:
            return self.waiting.popleft()  # one step in CPython: two threads never get the same
        except IndexError:
            return None

    def work(self, progress: Progress) -> None:
        """Compiles here until nothing waits."""
        while (one := self.next()) is not None:
            self.objects[symbol(*one)] = compile_object(*one, features())
            progress.show(len(self.objects))

    def wait(self, thread: threading.Thread, progress: Progress) -> None:
        while thread.is_alive():
            thread.join(0.1)
            progress.show(len(self.objects))

    def feed(self) -> None:
        """Has a worker compile until nothing waits, or until it fails; then this process does it."""
        try:
            with _start() as worker:
                self._feed(worker)
        except OSError:  # no process to be had, or its pipe broke: this process goes on alone
            return

    def _feed(self, worker: subprocess.Popen[bytes]) -> None:
        assert worker.stdin is not None and worker.stdout is not None
        while (one := self.next()) is not None:
            code = _ask(worker.stdin, worker.stdout, one)
            if code is None:
                self.waiting.append(one)
                return
            self.objects[symbol(*one)] = code


def _ask(requests: IO[bytes], answers: IO[bytes], one: Text) -> bytes | None:
    """The object, or None if the worker refused the text or is gone."""
    text = one[0].encode()
    try:
        requests.write(REQUEST.pack(one[1], len(text)) + text)
        requests.flush()
        head = answers.read(ANSWER.size)
        if len(head) < ANSWER.size:
            return None
        status, length = ANSWER.unpack(head)
        if status != COMPILED or length > _LARGEST:
            return None
        answer = answers.read(length)
    except OSError:
        return None
    return answer if len(answer) == length else None


def _start() -> subprocess.Popen[bytes]:
    import subprocess

    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "trilobite.native.worker"],  # -P: the user's directory is no library
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    )
