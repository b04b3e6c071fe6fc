"""What ranks tell each other while they wait: who waits for whom, who has failed, who has ended.

A rank that waits long says so to all, twice a second, and names those whom it waits for. From what the others
say it sees whether it waits for somebody who can never come: one who has ended, or who in a ring of ranks
waits for it. Then it raises; a rank that says nothing computes, and may take as long as it likes.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable, Collection
from traceback import format_exception
from types import TracebackType
from typing import Any, NamedTuple

from trilobite.base.errors import ClusterError
from trilobite.base.locations import Location

PATIENCE = 1.0  # seconds of waiting before a rank says so
BEAT = 0.4  # seconds between two words
SURE = 3  # words that say the same before they are believed


def crowded() -> bool:
    """Are there more ranks on this machine than cores, as far as launchers say? Then who waits keeps others
    from what it waits for.
    """
    names = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")
    said = next((os.environ[name] for name in names if os.environ.get(name, "").isdecimal()), "0")
    return int(said) > (os.cpu_count() or 1)


CROWDED = crowded()
REST = 20  # microseconds that a rank sleeps between two looks where others need its core

# To yield is not enough: launchers begin a session for each rank, and Linux shares a core among sessions (as
# its autogroups), so that who yields only yields to itself and keeps the core for some milliseconds. Sleeps
# below ten microseconds can be over before the core is given away.


def rest_short() -> None:
    """Sleeps of a thread that shares its core last as long as they say; Linux adds 50 microseconds else."""
    if CROWDED and sys.platform == "linux":
        ctypes.CDLL(None).prctl(29, ctypes.c_ulong(1000), 0, 0, 0)  # PR_SET_TIMERSLACK


def _sleep() -> None:
    time.sleep(REST * 1e-6)


def longest() -> float:
    """Seconds after which a wait ends the job, whatever the others do."""
    return float(os.environ.get("TRILOBITE_PATIENCE", "inf"))


class Word(NamedTuple):
    """The newest word of a rank."""

    kind: str  # waiting, failed or ended
    number: int  # of what it waits for: the same while it waits for the same
    missing: tuple[int, ...]
    text: str
    times: int  # how often it has said so
    heard: float


class Notices:
    """The words of all ranks, sent and heard over a communicator of their own."""

    def __init__(self, mpi: Any, comm: Any) -> None:
        self.mpi, self.comm = mpi, comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.words: dict[int, Word] = {}
        self._pending: list[tuple[Any, bytes]] = []

    def say(self, kind: str, number: int, missing: Collection[int], text: str) -> None:
        data = json.dumps([kind, number, sorted(missing), text]).encode()
        self._pending = [p for p in self._pending if not p[0].Test()]
        for other in range(self.size):
            if other != self.rank:
                self._pending.append((self.comm.Isend([data, self.mpi.BYTE], other, 0), data))

    def listen(self) -> None:
        status = self.mpi.Status()
        while self.comm.Iprobe(self.mpi.ANY_SOURCE, 0, status):
            data = bytearray(status.Get_count(self.mpi.BYTE))
            source = status.Get_source()
            self.comm.Recv([data, self.mpi.BYTE], source, 0)
            kind, number, missing, text = json.loads(bytes(data))
            self._note(source, kind, number, tuple(missing), text, time.monotonic())

    def _note(
        self, source: int, kind: str, number: int, missing: tuple[int, ...], text: str, now: float
    ) -> None:
        """Words that had piled up while this rank did not listen are old, and count as one."""
        old, times = self.words.get(source), 1
        if old is not None and old[:3] == (kind, number, missing):
            times = old.times + (now - old.heard > BEAT / 2)
        self.words[source] = Word(kind, number, missing, text, times, now)

    def failed(self) -> str | None:
        """What a rank that has failed said about it."""
        for r, w in sorted(self.words.items()):
            if w.kind == "failed":
                return f"rank {r} has failed: {w.text}"
        return None

    def hopeless(self, missing: Collection[int]) -> list[int] | None:
        """Ranks that show that those who are missing never come: a ring that leads back here, or one who has
        ended. None while there is hope.
        """
        now = time.monotonic()
        way: list[tuple[int, list[int]]] = [(r, [r]) for r in missing]
        seen: set[int] = set()
        while way:
            r, path = way.pop()
            w = self.words.get(r)
            if w is not None and w.kind == "ended" and now - w.heard > BEAT:
                return path
            sure = w is not None and w.kind == "waiting" and w.times >= SURE and now - w.heard < 3 * BEAT
            if w is None or not sure:
                continue
            for other in w.missing:
                if other == self.rank or other in path:
                    return path
                if other not in seen:
                    seen.add(other)
                    way.append((other, [*path, other]))
        return None


class Patience:
    """One wait of a rank: how long it lasts, and what to do about it. `rest` is how it gives way to others
    where ranks share cores.
    """

    def __init__(
        self, notices: Notices, number: int, text: object, where: Location,
        rest: Callable[[], object] = _sleep,
    ) -> None:  # fmt: skip
        self.notices, self.number, self.text, self.where = notices, number, text, where
        self.rest = rest
        self.begun = self.said = time.monotonic()
        self.looks = 0

    def look(self, missing: Collection[int]) -> None:
        """Called again and again while waiting: gives way to others, and raises when there is no hope."""
        self.looks += 1
        if CROWDED:
            self.rest()
        elif self.looks < 200:
            return
        # Data moves while MPI is asked; for ranks that have not come yet nothing can be done but to wait.
        elif self.looks < 2000 or not missing:
            os.sched_yield()
        else:
            time.sleep(50e-6)
        if self.looks % (16 if CROWDED else 256):  # a look takes longer where others get the core meanwhile
            return
        now = time.monotonic()
        if now - self.begun > 0.02:
            self._hear(missing, now)

    def _hear(self, missing: Collection[int], now: float) -> None:
        self.notices.listen()
        failure = self.notices.failed()
        if failure is not None:
            raise Echo(f"{failure}\n    rank {self.notices.rank}: {self.text}", where=self.where)
        if now - self.begun > longest():
            raise self._given_up(missing)
        if now - self.begun < PATIENCE or now - self.said < BEAT or not missing:
            return
        self.said = now
        self.notices.say("waiting", self.number, missing, str(self.text))
        path = self.notices.hopeless(missing)
        if path is not None:
            raise self._stuck(path)

    def _given_up(self, missing: Collection[int]) -> ClusterError:
        who = f"rank {', '.join(map(str, sorted(missing)))}" if missing else "the data"
        return ClusterError(
            f"{who} did not come within {longest():g} s\n    rank {self.notices.rank}: {self.text}",
            where=self.where,
            expected="a rank that goes on",
            remedy="if it only computes that long: trilobite launch --patience SECONDS",
        )

    def _stuck(self, path: list[int]) -> ClusterError:
        lines = [f"rank {self.notices.rank}: {self.text}"]
        for r in path:
            w = self.notices.words[r]
            lines.append(f"rank {r}: {'has ended' if w.kind == 'ended' else w.text}")
        return ClusterError(
            "the ranks wait for each other, and none can go on\n    " + "\n    ".join(lines),
            where=self.where,
            expected="collectives in the same order on all members of a group",
        )


class Echo(ClusterError):
    """Another rank has failed; its own error says why."""


class LostRank(ClusterError):
    """Ranks have died, and the MPI of this run lets the others go on (`survival.py`)."""


def shown(error: BaseException, trace: TracebackType | None) -> str:
    """An error as a rank shows it: one that ranks raise together names its lines itself."""
    if isinstance(error, Echo):
        return f"ended, since {error.what}"
    if isinstance(error, ClusterError):
        return str(error)
    while trace is not None and trace.tb_frame.f_code.co_filename in _STARTERS:
        trace = trace.tb_next
    return "".join(format_exception(type(error), error, trace)).rstrip()


_STARTERS = ("<frozen runpy>", os.path.join(os.path.dirname(__file__), "process.py"))
