"""Ranks as processes: collectives over MPI.

Before data moves, the members of a group tell each other what they are about to do and at which line; who
hears anything else than its own call raises, and so do all others (`notices.py`). What is sent to whom stands
in `exchanges.py`; machine code walks through it, whether the call is eager or a row of a compiled program, so
that one rank's may meet the other's. Python looks after what takes long: who is missing, and why.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from traceback import format_exception_only
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.errors import ClusterError
from trilobite.base.locations import Location
from trilobite.cluster.exchanges import LOCAL, WORD, Exchange, Wires
from trilobite.cluster.in_process import check_peer, wrong_message
from trilobite.cluster.mpi_reductions import MpiReductions, handle
from trilobite.cluster.notices import CROWDED, REST, Echo, LostRank, Notices, Patience, rest_short, shown
from trilobite.cluster.probes import AnyOf, Probed
from trilobite.ir.ranks import Array, Call
from trilobite.ir.types import TensorType, short_name
from trilobite.native.exchange import (
    DONE,
    STUCK,
    Arrived,
    At,
    Block,
    Check,
    Library,
    Link,
    Look,
    Receive,
    Reduction,
    Send,
    Zero,
)
from trilobite.native.runtime import Words

_CALL, _MAIL = 1, 2
_KEPT = 512  # eager calls whose lists of messages are kept,
_HEAVY = 1 << 20  # unless they need more bytes of memory


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _bytes(x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


_words: dict[Any, bytes] = {}


def _word(call: Call, by_mpi: bool) -> bytes:
    """What a rank says of its call. A training says the same in every step, so it is kept."""
    key = (*call[:2], *call.attributes.items(), call.type, call.where, by_mpi)
    found = _words.get(key)
    if found is None:
        how = ", reduced by MPI" if by_mpi else ""
        text = f"{call}{how}".encode()[: WORD - 16]
        found = _digest(str(call.members)) + _digest(call.signature + how) + text.ljust(WORD - 16)
        _words[key] = found
    return found


def _heard(message: bytes) -> str:
    return message[16:WORD].decode(errors="replace").rstrip()


class Mpi:
    """This process as a rank of MPI's world."""

    native = True

    def __init__(self, mpi: Any, world: Any = None) -> None:
        self.mpi, self.world = mpi, mpi.COMM_WORLD if world is None else world
        self.shrunken = world is not None
        self.words, self.data = self.world.Dup(), self.world.Dup()
        self.notices = Notices(mpi, self.world.Dup())
        self.rank, self.size = self.data.Get_rank(), self.data.Get_size()
        self._groups: dict[tuple[int, ...], Any] = {}
        self._counts: dict[tuple[int, ...], Words] = {}
        self._kept: dict[Any, Posted] = {}
        self._posted: dict[int, Posted] = {}  # by the address of the block
        self.reductions = MpiReductions(self)
        self.link = Link(_library(mpi))
        self._waits = 0
        self._sent: list[tuple[Any, Any]] = []
        self._left: list[Any] = []  # waited for in vain; may still arrive, and needs its memory
        atexit.register(self._end)
        sys.excepthook = self._raised
        rest_short()

    # -- waiting ---------------------------------------------------------------------------------------------

    def _wait(self, requests: dict[int, Any], text: object, where: Location) -> None:
        """Until all requests, by the ranks that they wait for, are done. Rank -1: no rank in particular."""
        left = dict(requests)
        self._waits += 1
        patience = Patience(self.notices, self._waits, text, where)
        while True:
            try:
                left = {r: q for r, q in left.items() if not q.Test()}
                if not left:
                    return
                self.attend()  # others may wait for what is still under way here
                patience.look([r for r in left if r >= 0])
            except (ClusterError, self.mpi.Exception) as error:
                self._left.append(left)
                raise self._told(error, text, where) from None

    def _told(self, error: Exception, text: object, where: Location) -> ClusterError:
        """An error that all others hear of."""
        if isinstance(error, self.mpi.Exception):
            error = self._of_mpi(str(error), text, where)
        assert isinstance(error, ClusterError)
        if not isinstance(error, Echo | LostRank):
            self.notices.say("failed", 0, (), error.what)
        return error

    # -- ranks that die --------------------------------------------------------------------------------------

    def _of_mpi(self, said: str, text: object, where: Location) -> ClusterError:
        """What MPI's error means: with one that goes on without them, that ranks are lost."""
        lost = self._lost()
        if lost is None:
            return ClusterError(f"MPI: {said}\n    {text}", where=where)
        for comm in self._comms():
            comm.Revoke()  # who waits for others than the dead hears of it, too
        who = f"rank {', '.join(map(str, lost))}" if lost else "a rank"
        return LostRank(
            f"{who} has died\n    rank {self.rank}: {text}",
            where=where,
            expected="ranks that live, or a training inside tb.cluster.survive",
        )

    def _lost(self) -> list[int] | None:
        """Ranks that have died, as they were numbered at the start; None where this MPI cannot say so."""
        try:
            failed = self.data.Get_failed()
            found: list[int] = failed.Translate_ranks(None, self.mpi.COMM_WORLD.Get_group())
            return sorted(found) if found or any(c.Is_revoked() for c in self._comms()) else None
        except (NotImplementedError, self.mpi.Exception):
            return None

    def _comms(self) -> list[Any]:
        return [self.words, self.data, self.notices.comm, *self._groups.values(), *self.reductions.comms]

    def shrunk(self) -> Mpi:
        """The transport of those who are left; all of them call it. What was under way is given up."""
        atexit.unregister(self._end)
        world = self.world
        while True:
            world = world.Shrink()
            try:
                found = Mpi(self.mpi, world)
            except self.mpi.Exception:  # one more died meanwhile
                world.Revoke()
                continue
            found._left.append(self)  # messages may still arrive there
            return found

    # -- collectives -----------------------------------------------------------------------------------------

    def collective(self, call: Call, x: Array) -> Array:
        posted = self._taken(call)
        x = np.ascontiguousarray(x)
        out: Array = np.empty(*posted.result)
        posted.held = x, out
        posted.block.start(x.ctypes.data, out.ctypes.data)
        if posted.block.wait() != DONE:
            posted.look()
        posted.held = None
        if posted.exchange.memory > _HEAVY:
            posted.forget()
        return out

    def _taken(self, call: Call) -> Posted:
        """The list of messages of a call like an earlier one, or a new one; those used last are kept."""
        key = (*call[:2], *call.attributes.items(), call.type, call.where, self.reductions.allowed)
        posted = self._kept.pop(key, None)
        if posted is None or posted.block.state != DONE:
            posted = Posted(self, call)
        if posted.exchange.memory <= _HEAVY:
            self._kept[key] = posted
        if len(self._kept) > _KEPT:
            self._kept.pop(next(iter(self._kept))).forget()
        return posted

    def row(self, call: Call, kernels: Reduction) -> Posted:
        """The call as machine code makes it, each time the same."""
        return Posted(self, call, kernels)

    def group(self, members: tuple[int, ...]) -> int:
        """The handle of a group's communicator; 0 before its members have made it."""
        return 0 if members not in self._groups else handle(self.mpi, self._groups[members])

    def join(self, members: tuple[int, ...]) -> int:
        """Makes the communicator of a group: members come here when all of them have agreed on a call."""
        if members not in self._groups:
            group = self.data.Get_group().Incl(list(members))
            tag = int.from_bytes(_digest(str(members))[:2], "big") & 0x7FFF
            self._groups[members] = self.data.Create_group(group, tag)
        self.reductions.join(members)
        return self.group(members)

    def count(self, members: tuple[int, ...]) -> Words:
        """How many exchanges of a group have begun here: the number tells their messages apart."""
        return self._counts.setdefault(members, np.zeros(1, np.int64))

    def traffic(self) -> list[Traffic]:
        """What this rank has exchanged with others, by line."""
        found: dict[tuple[str, str], Traffic] = {}
        for posted in self._posted.values():
            runs, waited = int(posted.block.words[17]), int(posted.block.words[16]) * 1e-9 + posted.slow
            key = posted.call.name, str(posted.call.where)
            old = found.get(key, Traffic(*key, 0, 0, 0.0))
            moved = runs * posted.exchange.bytes
            found[key] = Traffic(*key, old.runs + runs, old.bytes + moved, old.waited + waited)
        return [t for t in found.values() if t.runs]

    def attend(self) -> None:
        """Goes on with all exchanges, and does what needs Python, in the order in which they began."""
        self.link.poll()
        for block in list(self.link.underway()):
            if block.state == STUCK:
                self._posted[block.address].attend()

    def _forget(self) -> None:
        if len(self._sent) > 64:
            self._sent = [p for p in self._sent if not p[0].Test()]

    # -- messages --------------------------------------------------------------------------------------------

    def send(self, x: Array, to: int, tag: int, where: Location) -> None:
        check_peer("send to", to, self.rank, self.size, where)
        text = f"{short_name(x.dtype)}{list(x.shape)}|{where}".encode()[:WORD].ljust(WORD)
        message = np.concatenate([np.frombuffer(text, np.uint8), _bytes(x)])
        try:
            self._sent.append((self.data.Isend([message, self.mpi.BYTE], to, _MAIL + tag), message))
            self._forget()
        except self.mpi.Exception as error:
            raise self._told(error, f"send to rank {to}, tag {tag} at {where}", where) from None

    def receive(self, kind: TensorType, source: int, tag: int, where: Location) -> Array:
        check_peer("receive from", source, self.rank, self.size, where)
        probe = Probed(self, source, _MAIL + tag)
        self._wait({source: probe}, f"receive of {kind} from rank {source}, tag {tag} at {where}", where)
        found, _, sent = probe.data[:WORD].tobytes().decode(errors="replace").rstrip().partition("|")
        if found != f"{short_name(kind.dtype)}{list(kind.shape)}":
            raise self._told(wrong_message(found, source, sent, kind, where), "", where)
        data: Array = probe.data[WORD:].copy()
        return data.view(kind.dtype).reshape(tuple(map(int, kind.shape)))

    def first_of(self, sources: Sequence[int], tag: int, where: Location) -> int:
        found: list[int] = []
        text = f"receive from any of the ranks {list(sources)}, tag {tag} at {where}"
        self._wait({-1: AnyOf(self, sources, _MAIL + tag, found)}, text, where)
        return found[0]

    # -- the end ---------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """This process is a copy of the rank: nothing of it is its to end."""
        atexit.unregister(self._end)

    def _end(self) -> None:
        """What was sent arrives; who still waits for this rank learns that it has ended."""
        if self.mpi.Is_finalized():
            return
        if self._left or any(posted.block.state != DONE for posted in self._posted.values()):
            # MPI ends after Python's memory is gone: what may still arrive needs a place until then.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        limit = time.monotonic() + 30
        with suppress(self.mpi.Exception):  # to those who have died nothing can be said
            self.notices.say("ended", 0, (), "")
            while any(not q.Test() for q, _ in self._sent) and time.monotonic() < limit:
                time.sleep(1e-4)
            if self.shrunken:  # MPI's own end may wait for the dead: all leave at once, without it
                met = self.world.Ibarrier()
                while not met.Test() and time.monotonic() < limit:
                    time.sleep(1e-3)

    def _raised(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """What a rank does that ends by an error: says so, and ends the job."""
        echo = isinstance(error, Echo)
        if not echo:
            with suppress(self.mpi.Exception):
                self.notices.say("failed", 0, (), "".join(format_exception_only(error)).strip())
        sys.stderr.write(f"rank {self.rank} of {self.size}: {shown(error, trace)}\n")
        sys.stderr.flush()
        time.sleep(4.0 if echo else 1.0)  # others hear of it, and say what they were about
        self.mpi.COMM_WORLD.Abort(1)


class Traffic(NamedTuple):
    """Collectives of one line."""

    name: str
    line: str
    runs: int
    bytes: int  # of operands
    waited: float  # seconds in which this rank did nothing else


class Posted:
    """A call as a list of messages that can be walked through again and again."""

    def __init__(self, at: Mpi, call: Call, kernels: Reduction | None = None) -> None:
        self.at, self.call = at, call
        words = handle(at.mpi, at.words)
        reducer = at.reductions.of(call)
        ready = reducer is None or at.reductions.ready(call.members)
        wires = Wires(words, _CALL, at.group(call.members) if ready else 0, self._join, reducer)
        self.exchange = Exchange(call, at.rank, wires, _word(call, reducer is not None), kernels)
        self.result = self.exchange.result
        count = np.zeros(1, np.int64) if call.name in LOCAL else at.count(call.members)
        self.block = Block(at.link, self.exchange.ops, count, self.exchange.alive)
        self.block.rest(REST if CROWDED else 0)  # others need the core
        at._posted[self.block.address] = self
        self.slow = 0.0  # seconds that Python waited
        self.held: Any = None  # arrays that are read and written while it is under way
        self.start, self.wait, self.poll = at.link.start, at.link.wait_at, at.link.poll_at
        self.address, self.link = self.block.address, at.link.address

    def forget(self) -> None:
        if self.block.state == DONE:
            self.block.forget()
            self.at._posted.pop(self.block.address, None)

    def _join(self, block: Block) -> None:
        """The group's own communicator, for this walk and those to come."""
        comm = self.at.join(self.call.members)
        for k, op in enumerate(block.ops):
            if isinstance(op, Send | Receive) and op.comm == 0:
                block.replace(k, op._replace(comm=comm))
        block.replace(block.next, Zero(At(1, 0), 0))
        block.go_on()

    def look(self) -> None:
        """Until it is done; raises when it never can be."""
        at = self.at
        at._waits += 1
        patience = Patience(at.notices, at._waits, self.call, self.call.where, self.block.wait)
        counted = int(self.block.words[16])
        while True:
            try:
                at.attend()
                if self.block.state == DONE:
                    self.slow += time.monotonic() - patience.begun
                    self.slow -= (int(self.block.words[16]) - counted) * 1e-9  # machine code counts its own
                    return
                patience.look(self.missing() if patience.looks > 200 else ())
            except (ClusterError, at.mpi.Exception) as error:
                raise at._told(error, self.call, self.call.where) from None

    def missing(self) -> list[int]:
        """Ranks whose words have not come."""
        first = next((k for k, op in enumerate(self.block.ops) if isinstance(op, Arrived)), -1)
        return self.block.missing() if self.block.next == first else []

    def attend(self) -> None:
        """What machine code leaves to Python: a word that is not the expected one, or work for NumPy."""
        op = self.block.ops[self.block.next]
        if self.block.words[13]:
            text = self.at.mpi.Get_error_string(int(self.block.words[13]))
            raise self.at._of_mpi(text, self.call, self.call.where)
        if isinstance(op, Look):
            op.function(self.block)
        elif isinstance(op, Check):
            raise self._mismatch()

    def _mismatch(self) -> ClusterError:
        told = {self.call.members[k]: _heard(bytes(m)) for k, m in self.exchange.heard.items()}
        told[self.at.rank] = _heard(self.exchange.word)
        lines = [f"rank {r}: {told[r]}" for r in sorted(told)]
        text = "collectives of one group do not match\n    " + "\n    ".join(lines)
        return ClusterError(text, where=self.call.where)


def _library(mpi: Any) -> Library:
    """MPI by address: what mpi4py's own module is linked with."""
    found = ctypes.CDLL(mpi.__file__)
    names = "MPI_Isend", "MPI_Irecv", "MPI_Testall", "MPI_Request_get_status"
    at = [ctypes.cast(getattr(found, name), ctypes.c_void_p).value or 0 for name in names]
    request, status = mpi._sizeof(mpi.Request), mpi._sizeof(mpi.Status)
    return Library(at[0], at[1], at[2], at[3], handle(mpi, mpi.BYTE), request, status)
