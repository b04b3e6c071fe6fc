"""Ranks in lock-step inside one process: `lockstep(function, n)` runs the function as `n` ranks would.

Each rank is a thread, and one runs at a time: a rank runs until it waits for others, then the next one that
can goes on. So a run has one order, whatever the machine does. What would hang is known at once: when no rank
can go on, all who wait raise, and the error says what each of them waits for. Every rank has the global
random generator for itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from trilobite.base.errors import ArgumentError, ClusterError
from trilobite.base.locations import Location, user_location
from trilobite.framework import state_locks
from trilobite.framework.change_counter import count_change
from trilobite.framework.random import keys
from trilobite.ir import ranks
from trilobite.ir.ranks import Array, Call, Row
from trilobite.ir.types import TensorType, type_of


class Waiting(NamedTuple):
    """What a rank has handed in and waits for."""

    text: str
    call: Call | None
    x: Any
    sources: frozenset[tuple[int, int]] = frozenset()  # (rank, tag) that it receives from


class Lockstep:
    """A run of `n` ranks."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.batons = [threading.Semaphore(0) for _ in range(n)]
        self.waiting: dict[int, Waiting] = {}
        self.outcomes: dict[int, Any] = {}  # what a rank that waited gets, or an error
        self.ended: dict[int, str] = {}
        self.mail: dict[tuple[int, int, int], list[tuple[Array, Location]]] = {}
        self.random = [keys.state.value.copy() for _ in range(n)]
        self.results: list[Any] = [None] * n
        self.errors: list[BaseException | None] = [None] * n
        self.done = threading.Event()
        self.last = 0  # whose message was found by one who waited for several

    def run(self, function: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
        before = keys.state.value
        threads = [
            threading.Thread(target=self._rank, args=(k, function, args), daemon=True) for k in range(self.n)
        ]
        with state_locks.suspended():
            for t in threads:
                t.start()
            self._start(0)
            self.done.wait()
            for t in threads:
                t.join()
        keys.state.value = before
        own = [e for e in self.errors if e is not None and not isinstance(e, ClusterError)]
        for error in own or [e for e in self.errors if e is not None]:
            raise error
        return self.results

    def _rank(self, k: int, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.batons[k].acquire()
        try:
            with ranks.acting_as(Rank(self, k)):
                self.results[k] = function(*args)
            self.ended[k] = "has ended"
        except BaseException as error:  # told to the caller of `run`, who raises it
            self.errors[k] = error
            said = error.what if isinstance(error, ClusterError) else str(error).partition("\n")[0]
            self.ended[k] = f"has failed: {type(error).__name__}: {said}"
        self._next(k)

    # -- taking turns ----------------------------------------------------------------------------------------

    def _start(self, k: int) -> None:
        keys.state.value = self.random[k]
        count_change()  # a compiled function that ranks share looks which of them calls it
        self.batons[k].release()

    def _next(self, k: int) -> None:
        """Rank k has ended or waits: the next that can goes on."""
        self.random[k] = keys.state.value
        able = [r for r in range(self.n) if r not in self.ended and r not in self.waiting]
        if not able and len(self.ended) < self.n:
            self._stuck()
            able = [r for r in range(self.n) if r not in self.ended]
        if not able:
            self.done.set()
            return
        self._start(min(able, key=lambda r: (r - k - 1) % self.n))

    def _stuck(self) -> None:
        """Nobody can go on: whoever waits is told so."""
        lines = [f"rank {r}: {w.text}" for r, w in sorted(self.waiting.items())]
        lines += [f"rank {r}: {what}" for r, what in sorted(self.ended.items())]
        text = "the ranks wait for each other, and none can go on\n    " + "\n    ".join(lines)
        for r, w in self.waiting.items():
            where = w.call.where if w.call is not None else None
            self.outcomes[r] = ClusterError(
                text, where=where, expected="collectives in the same order on all members of a group"
            )
        self.waiting.clear()

    def wait(self, k: int, what: Waiting) -> Any:
        self.waiting[k] = what
        self._next(k)
        self.batons[k].acquire()
        out = self.outcomes.pop(k)
        if isinstance(out, BaseException):
            raise out
        return out

    # -- what ranks do ---------------------------------------------------------------------------------------

    def collective(self, k: int, call: Call, x: Array) -> Array:
        own = Waiting(str(call), call, x)
        # Who waits for others than this rank may come here when they are done.
        waits = {r: w.call for r, w in self.waiting.items() if r in call.members and w.call is not None}
        there = {r: c for r, c in waits.items() if k in c.members}
        if any(c.signature != call.signature for c in there.values()):
            raise self._refuse(k, own, there)
        if len(there) < len(call.members) - 1:
            return self.wait(k, own)  # type: ignore[no-any-return]
        arrays = [x if r == k else self.waiting[r].x for r in call.members]
        outs = dict(zip(call.members, call.meaning(arrays, call.attributes), strict=True))
        for r in there:
            del self.waiting[r]
            self.outcomes[r] = outs[r]
        return outs[k]

    def _refuse(self, k: int, own: Waiting, there: dict[int, Call]) -> ClusterError:
        """All who wait for these members are told what each of them says."""
        text = mismatch({k: own.call, **there})  # type: ignore[dict-item]
        for r in list(self.waiting):
            found = self.waiting.pop(r)
            self.outcomes[r] = ClusterError(text, where=found.call.where if found.call else None)
        return ClusterError(text, where=own.call.where if own.call else None)

    def send(self, k: int, x: Array, to: int, tag: int, where: Location) -> None:
        check_peer("send to", to, k, self.n, where)
        self.mail.setdefault((k, to, tag), []).append((x.copy(), where))
        found = self.waiting.get(to)
        if found is not None and (k, tag) in found.sources:
            del self.waiting[to]
            self.outcomes[to] = None

    def receive(self, k: int, kind: TensorType, source: int, tag: int, where: Location) -> Array:
        check_peer("receive from", source, k, self.n, where)
        box = self.mail.setdefault((source, k, tag), [])
        if not box:
            text = f"receive of {kind} from rank {source}, tag {tag} at {where}"
            self.wait(k, Waiting(text, None, None, frozenset({(source, tag)})))
        x, sent = box.pop(0)
        if type_of(x) != kind:
            raise wrong_message(type_of(x), source, str(sent), kind, where)
        return x

    def first_of(self, k: int, sources: Sequence[int], tag: int, where: Location) -> int:
        """The next after the one that was found last, so that none is kept waiting for ever."""
        while True:
            have = [r for r in sources if self.mail.get((r, k, tag))]
            if have:
                self.last = min(have, key=lambda r: (r - self.last - 1) % self.n)
                return self.last
            text = f"receive from any of the ranks {list(sources)}, tag {tag} at {where}"
            self.wait(k, Waiting(text, None, None, frozenset((r, tag) for r in sources)))


class Rank:
    """One rank of a lock-step run, as primitives see it."""

    native = False

    def __init__(self, run: Lockstep, rank: int) -> None:
        self.run, self.rank, self.size = run, rank, run.n

    def collective(self, call: Call, x: Array) -> Array:
        return self.run.collective(self.rank, call, x)

    def send(self, x: Array, to: int, tag: int, where: Location) -> None:
        self.run.send(self.rank, x, to, tag, where)

    def receive(self, kind: TensorType, source: int, tag: int, where: Location) -> Array:
        return self.run.receive(self.rank, kind, source, tag, where)

    def first_of(self, sources: Sequence[int], tag: int, where: Location) -> int:
        return self.run.first_of(self.rank, sources, tag, where)

    def row(self, call: Call, kernels: Any) -> Row:
        raise NotImplementedError(call.name)

    def traffic(self) -> Sequence[Any]:
        return ()


def mismatch(calls: dict[int, Call]) -> str:
    """What members of one group say that do not say the same."""
    lines = [f"rank {r}: {calls[r]}" for r in sorted(calls)]
    return "collectives of one group do not match\n    " + "\n    ".join(lines)


def check_peer(what: str, other: int, rank: int, size: int, where: Location) -> None:
    if not 0 <= other < size or other == rank:
        raise ArgumentError(
            f"rank {rank}: {what} rank {other}", where=where, expected=f"another rank, 0 to {size - 1}"
        )


def wrong_message(found: Any, source: int, sent: str, kind: TensorType, where: Location) -> ClusterError:
    return ClusterError(
        f"a message of {found} from rank {source}, sent at {sent}", where=where, expected=f"{kind}"
    )


def lockstep(function: Callable[..., Any], n: int, *args: Any) -> list[Any]:
    """What `function(*args)` returns on each of `n` ranks that run in lock-step inside this process."""
    if n < 1:
        raise ArgumentError(f"a run of {n} ranks", where=user_location(), expected="at least 1")
    return Lockstep(n).run(function, args)
