"""Ranks as processes: collectives over MPI.

Before data moves, the members of a group tell each other what they are about to do and at which line; who
hears anything else than its own call raises, and so do all others (`notices.py`). Small arrays travel with
that word, and every member computes the collective's meaning by itself. Large ones go by MPI's own exchanges:
a sum is cut into one part for each member, who adds up what all send it, in rank order, and gives it to all.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from traceback import format_exception, format_exception_only
from types import TracebackType
from typing import Any

import numpy as np

from trilobite.base.errors import ClusterError
from trilobite.base.locations import Location
from trilobite.cluster.groups import parts
from trilobite.cluster.in_process import check_peer, wrong_message
from trilobite.cluster.notices import Echo, Notices, Patience
from trilobite.ir.primitives.cluster import cuts, reduce_in_order
from trilobite.ir.ranks import Array, Call
from trilobite.ir.types import TensorType, short_name

SMALL = 8192  # bytes that travel with the word
_WORD = 512  # bytes of a word: two digests, then text
_CALL, _MAIL = 1, 2


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _bytes(x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


_words: dict[Any, bytes] = {}


def _word(call: Call) -> bytes:
    """What a rank says of its call. A training says the same in every step, so it is kept."""
    key = (*call[:2], *call.attributes.items(), call.type, call.where)
    found = _words.get(key)
    if found is None:
        text = str(call).encode()[: _WORD - 16]
        found = _digest(str(call.members)) + _digest(call.signature) + text.ljust(_WORD - 16)
        _words[key] = found
    return found


def _largest(call: Call, x: Array) -> int:
    """Bytes of the largest part that a member has: the same number on all of them."""
    sizes = call.attributes.get("sizes")
    if call.name != "cluster_all_gather" or sizes is None:
        return x.nbytes
    axis = call.attributes["axis"]
    others = [d for i, d in enumerate(x.shape) if i != axis]
    return int(np.prod(others, dtype=np.int64) * max(sizes) * x.itemsize)


def _heard(message: bytes) -> str:
    return message[16:_WORD].decode(errors="replace").rstrip()


class Mpi:
    """This process as a rank of MPI's world."""

    def __init__(self, mpi: Any) -> None:
        self.mpi = mpi
        self.words, self.data = mpi.COMM_WORLD.Dup(), mpi.COMM_WORLD.Dup()
        self.notices = Notices(mpi, mpi.COMM_WORLD.Dup())
        self.rank, self.size = self.data.Get_rank(), self.data.Get_size()
        self._groups: dict[tuple[int, ...], Any] = {}
        self._waits = 0
        self._sent: list[tuple[Any, Any]] = []
        self._left: list[Any] = []  # waited for in vain; may still arrive, and needs its memory
        atexit.register(self._end)
        sys.excepthook = self._raised

    # -- waiting ---------------------------------------------------------------------------------------------

    def _wait(self, requests: dict[int, Any], text: object, where: Location) -> None:
        """Until all requests, by the ranks that they wait for, are done. Rank -1: no rank in particular."""
        left = dict(requests)
        self._waits += 1
        patience = Patience(self.notices, self._waits, text, where)
        while True:
            left = {r: q for r, q in left.items() if not q.Test()}
            if not left:
                return
            try:
                patience.look([r for r in left if r >= 0])
            except ClusterError as error:
                self._left.append(left)
                raise self._told(error) from None

    def _told(self, error: ClusterError) -> ClusterError:
        """An error that all others hear of."""
        if not isinstance(error, Echo):
            self.notices.say("failed", 0, (), error.what)
        return error

    # -- collectives -----------------------------------------------------------------------------------------

    def collective(self, call: Call, x: Array) -> Array:
        if len(call.members) == 1:
            return call.meaning([x], call.attributes)[0]
        small = _largest(call, x) <= SMALL and call.name != "cluster_barrier"
        came = self._agree(call, _bytes(x).tobytes() if small else b"")
        if call.name == "cluster_barrier":
            return x.copy()
        if small:
            arrays = [self._array(data, call, k, x) for k, data in enumerate(came)]
            return call.meaning(arrays, call.attributes)[call.members.index(self.rank)]
        return _LARGE[call.name](self, call, x)

    def _array(self, data: bytes, call: Call, k: int, x: Array) -> Array:
        shape = list(x.shape)
        if call.name == "cluster_all_gather" and call.attributes["sizes"] is not None:
            shape[call.attributes["axis"]] = call.attributes["sizes"][k]
        return np.frombuffer(bytearray(data), np.uint8).view(x.dtype).reshape(shape)

    def _agree(self, call: Call, data: bytes) -> list[bytes]:
        """The data that each member sent along, in their order, if all say the same of the call."""
        own = _word(call) + data
        others = [r for r in call.members if r != self.rank]
        room = {r: bytearray(_WORD + SMALL) for r in others}
        byte = self.mpi.BYTE
        coming = {r: self.words.Irecv([room[r], byte], r, _CALL) for r in others}
        self._sent += [(self.words.Isend([own, byte], r, _CALL), own) for r in others]
        self._forget()
        sizes: dict[int, int] = {}
        self._wait({r: _Sized(self.mpi, q, sizes, r) for r, q in coming.items()}, call, call.where)
        told = {r: bytes(memoryview(room[r])[: sizes[r]]) for r in others}
        told[self.rank] = own
        if any(t[:16] != own[:16] for t in told.values()):
            heard = {r: _heard(t) for r, t in told.items()}
            lines = [f"rank {r}: {heard[r]}" for r in sorted(heard)]
            text = "collectives of one group do not match\n    " + "\n    ".join(lines)
            raise self._told(ClusterError(text, where=call.where))
        return [told[r][_WORD:] for r in call.members]

    def _forget(self) -> None:
        if len(self._sent) > 64:
            self._sent = [p for p in self._sent if not p[0].Test()]

    def group(self, members: tuple[int, ...]) -> Any:
        """The communicator of a group, made when it is first needed, by its members alone."""
        if members not in self._groups:
            group = self.data.Get_group().Incl(list(members))
            tag = int.from_bytes(_digest(str(members))[:2], "big") & 0x7FFF
            self._groups[members] = self.data.Create_group(group, tag)
        return self._groups[members]

    def done(self, request: Any, call: Call) -> None:
        self._wait({-1: request}, call, call.where)

    def swap(self, call: Call, sent: dict[int, Array], room: dict[int, Array]) -> None:
        """Bytes to members, by their places in the group, and from them, straight into their room."""
        comm, byte = self.group(call.members), self.mpi.BYTE
        requests = [comm.Irecv([r, byte], k) for k, r in room.items() if r.size]
        requests += [comm.Isend([x, byte], k) for k, x in sent.items() if x.size]
        self.done(_All(self.mpi, requests), call)

    def exchange(self, call: Call, pieces: Sequence[Array]) -> list[Array]:
        """The k-th piece to the k-th member; what each of them sends here: pieces like this one's own."""
        own = call.members.index(self.rank)
        out = [_bytes(p) for p in pieces]
        came = [out[k] if k == own else np.empty_like(out[own]) for k in range(len(pieces))]
        others = [k for k in range(len(pieces)) if k != own]
        self.swap(call, {k: out[k] for k in others}, {k: came[k] for k in others})
        return [x.view(pieces[own].dtype).reshape(pieces[own].shape) for x in came]

    def gather(self, call: Call, piece: Array, sizes: Sequence[int]) -> list[Array]:
        """What all members have, as bytes, parts of one piece of memory."""
        own, room = call.members.index(self.rank), np.empty(sum(sizes), np.uint8)
        parts = np.split(room, np.cumsum(sizes)[:-1])
        parts[own][...] = _bytes(piece)
        others = [k for k in range(len(sizes)) if k != own]
        self.swap(call, dict.fromkeys(others, parts[own]), {k: parts[k] for k in others})
        return parts

    # -- messages --------------------------------------------------------------------------------------------

    def send(self, x: Array, to: int, tag: int, where: Location) -> None:
        check_peer("send to", to, self.rank, self.size, where)
        text = f"{short_name(x.dtype)}{list(x.shape)}|{where}".encode()[:_WORD].ljust(_WORD)
        message = np.concatenate([np.frombuffer(text, np.uint8), _bytes(x)])
        self._sent.append((self.data.Isend([message, self.mpi.BYTE], to, _MAIL + tag), message))
        self._forget()

    def receive(self, kind: TensorType, source: int, tag: int, where: Location) -> Array:
        check_peer("receive from", source, self.rank, self.size, where)
        probe = _Probed(self, source, _MAIL + tag)
        self._wait({source: probe}, f"receive of {kind} from rank {source}, tag {tag} at {where}", where)
        found, _, sent = probe.data[:_WORD].tobytes().decode(errors="replace").rstrip().partition("|")
        if found != f"{short_name(kind.dtype)}{list(kind.shape)}":
            raise self._told(wrong_message(found, source, sent, kind, where))
        data: Array = probe.data[_WORD:].copy()
        return data.view(kind.dtype).reshape(tuple(map(int, kind.shape)))

    def first_of(self, sources: Sequence[int], tag: int, where: Location) -> int:
        found: list[int] = []
        text = f"receive from any of the ranks {list(sources)}, tag {tag} at {where}"
        self._wait({-1: _Any(self, sources, _MAIL + tag, found)}, text, where)
        return found[0]

    # -- the end ---------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """What was sent arrives; who still waits for this rank learns that it has ended."""
        if self.mpi.Is_finalized():
            return
        self.notices.say("ended", 0, (), "")
        limit = time.monotonic() + 30
        while any(not q.Test() for q, _ in self._sent) and time.monotonic() < limit:
            time.sleep(1e-4)

    def _raised(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """What a rank does that ends by an error: says so, and ends the job."""
        echo = isinstance(error, Echo)
        if not echo:
            self.notices.say("failed", 0, (), "".join(format_exception_only(error)).strip())
        sys.stderr.write(f"rank {self.rank} of {self.size}: {_shown(error, trace)}\n")
        sys.stderr.flush()
        time.sleep(4.0 if echo else 1.0)  # others hear of it, and say what they were about
        self.mpi.COMM_WORLD.Abort(1)


def _shown(error: BaseException, trace: TracebackType | None) -> str:
    """An error as a rank shows it: one that ranks raise together names its lines itself."""
    if isinstance(error, Echo):
        return f"ended, since {error.what}"
    if isinstance(error, ClusterError):
        return str(error)
    while trace is not None and trace.tb_frame.f_code.co_filename in _STARTERS:
        trace = trace.tb_next
    return "".join(format_exception(type(error), error, trace)).rstrip()


_STARTERS = ("<frozen runpy>", os.path.join(os.path.dirname(__file__), "process.py"))


class _Sized:
    """A receive that notes how long what came is."""

    def __init__(self, mpi: Any, request: Any, sizes: dict[int, int], rank: int) -> None:
        self.mpi, self.request, self.sizes, self.rank = mpi, request, sizes, rank

    def Test(self) -> bool:
        status = self.mpi.Status()
        if not self.request.Test(status):
            return False
        self.sizes[self.rank] = status.Get_count(self.mpi.BYTE)
        return True


class _All:
    """Several requests as one."""

    def __init__(self, mpi: Any, requests: list[Any]) -> None:
        self.mpi, self.requests = mpi, requests

    def Test(self) -> bool:
        return bool(self.mpi.Request.Testall(self.requests))


class _Probed:
    """A receive of a message whose length only its sender knows."""

    def __init__(self, at: Mpi, source: int, tag: int) -> None:
        self.at, self.source, self.tag = at, source, tag
        self.request: Any = None
        self.data: Any = None

    def Test(self) -> bool:
        mpi = self.at.mpi
        if self.request is None:
            status = mpi.Status()
            message = self.at.data.Improbe(self.source, self.tag, status)
            if message is None:
                return False
            self.data = np.empty(status.Get_count(mpi.BYTE), np.uint8)
            self.request = message.Irecv([self.data, mpi.BYTE])
        return bool(self.request.Test())


class _Any:
    """The first rank among several from whom something has come."""

    def __init__(self, at: Mpi, sources: Sequence[int], tag: int, found: list[int]) -> None:
        self.at, self.sources, self.tag, self.found = at, sources, tag, found

    def Test(self) -> bool:
        self.found[:] = [r for r in self.sources if self.at.data.Iprobe(r, self.tag)]
        return bool(self.found)


# -- large arrays, each as its meaning says ------------------------------------------------------------------


def _all_reduce(at: Mpi, call: Call, x: Array) -> Array:
    """Each member adds up one part of all arrays, in rank order, and gives it to all."""
    n, own = len(call.members), call.members.index(at.rank)
    ends = np.cumsum([0, *parts(x.size, n)]).tolist()
    cut = [slice(a * x.itemsize, b * x.itemsize) for a, b in pairwise(ends)]
    lines, out = _bytes(x), np.empty(x.nbytes, np.uint8)
    others = [k for k in range(n) if k != own]
    came = {k: np.empty(cut[own].stop - cut[own].start, np.uint8) for k in others}
    at.swap(call, {k: lines[cut[k]] for k in others}, came)
    came[own] = lines[cut[own]]
    _reduce_into(
        out[cut[own]].view(x.dtype), [came[k].view(x.dtype) for k in range(n)], call.attributes["op"]
    )
    at.swap(call, dict.fromkeys(others, out[cut[own]]), {k: out[cut[k]] for k in others})
    return out.view(x.dtype).reshape(x.shape)


def _reduce_into(total: Array, arrays: Sequence[Array], op: str) -> None:
    """As `reduce_in_order`; sums of dtypes that NumPy adds in themselves need no memory besides."""
    if op != "sum" or total.dtype.char not in "fdFDlqiLQI":
        total[...] = reduce_in_order(arrays, op)
        return
    with np.errstate(all="ignore"):
        np.add(arrays[0], arrays[1], out=total)
        for x in arrays[2:]:
            np.add(total, x, out=total)


def _pieces(x: Array, axis: int, n: int, sizes: Sequence[int] | None) -> list[Array]:
    return [
        np.ascontiguousarray(x[(slice(None),) * axis + (slice(*cut),)])
        for cut in cuts(x.shape[axis], n, sizes)
    ]


def _reduce_scatter(at: Mpi, call: Call, x: Array) -> Array:
    a = call.attributes
    pieces = _pieces(x, a["axis"], len(call.members), a["sizes"])
    return reduce_in_order(at.exchange(call, pieces), "sum")


def _all_gather(at: Mpi, call: Call, x: Array) -> Array:
    n, axis = len(call.members), call.attributes["axis"]
    sizes = call.attributes["sizes"] or [x.shape[axis]] * n
    shapes = [(*x.shape[:axis], s, *x.shape[axis + 1 :]) for s in sizes]
    counts = [int(np.prod(s)) * x.itemsize for s in shapes]
    room = at.gather(call, x, counts)
    if axis == 0:
        line = room[0].base
        assert line is not None  # they are parts of one piece of memory
        return line.view(x.dtype).reshape((sum(sizes), *x.shape[1:]))
    return np.concatenate([r.view(x.dtype).reshape(s) for r, s in zip(room, shapes, strict=True)], axis=axis)


def _all_to_all(at: Mpi, call: Call, x: Array) -> Array:
    a = call.attributes
    pieces = _pieces(x, a["split"], len(call.members), None)
    return np.concatenate(at.exchange(call, pieces), axis=a["join"])


def _broadcast(at: Mpi, call: Call, x: Array) -> Array:
    room = _bytes(x).copy()
    at.done(at.group(call.members).Ibcast([room, at.mpi.BYTE], call.attributes["root"]), call)
    return room.view(x.dtype).reshape(x.shape)


def _permute(at: Mpi, call: Call, x: Array) -> Array:
    own, pairs = call.members.index(at.rank), call.attributes["pairs"]
    room, out = np.zeros(x.nbytes, np.uint8), _bytes(x)
    comm, byte = at.group(call.members), at.mpi.BYTE
    requests = [comm.Irecv([room, byte], a) for a, b in pairs if b == own]
    requests += [comm.Isend([out, byte], b) for a, b in pairs if a == own]
    for q in requests:
        at.done(q, call)
    return room.view(x.dtype).reshape(x.shape)


_LARGE: dict[str, Callable[[Mpi, Call, Array], Array]] = {
    "cluster_all_reduce": _all_reduce, "cluster_reduce_scatter": _reduce_scatter,
    "cluster_all_gather": _all_gather, "cluster_all_to_all": _all_to_all, "cluster_broadcast": _broadcast,
    "cluster_permute": _permute,
}  # fmt: skip
