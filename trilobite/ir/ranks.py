"""Ranks: the processes that run one program together, as primitives see them.

A `Transport` carries what a rank hands to a collective and gives back its part. Which one that is, each
thread knows: a rank of a lock-step run, the process's place among many, or, where nobody has said anything,
the only rank there is. What a collective *means* stands with its primitive, as a function from the arrays of
all members to those that they get; a transport may take any way that gives the same bits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import Location, user_location
from trilobite.ir.types import TensorType, type_of

if TYPE_CHECKING:
    from trilobite.native.exchange import Reduction

Array = np.ndarray[Any, Any]
Groups = tuple[tuple[int, ...], ...]
Meaning = Callable[..., list[Array]]


class Call(NamedTuple):
    """A collective as one rank makes it. Members agree on `signature`; if not, they are told `where`."""

    name: str
    members: tuple[int, ...]
    attributes: dict[str, Any]
    type: TensorType
    where: Location
    meaning: Meaning

    @property
    def signature(self) -> str:
        """What all members say alike. Parts of uneven sizes differ along the axis that they share."""
        kept = {k: v for k, v in self.attributes.items() if k not in ("groups", "part") and v != ""}
        shape: tuple[Any, ...] = self.type.shape
        if self.name == "cluster_all_gather" and kept.get("sizes") is not None:
            shape = tuple("part" if i == kept["axis"] else d for i, d in enumerate(shape))
        shown = ", ".join(f"{k} = {v}" for k, v in sorted(kept.items()))
        return f"{self.name} of {self.type.dtype}{list(shape)} over ranks {list(self.members)}, {shown}"

    def __str__(self) -> str:
        return f"{self.signature} at {self.where}"


class Row(Protocol):
    """A collective as machine code makes it: addresses of functions whose arguments are words. `start` takes
    `address` and those of operand and result, `wait` takes `address`, `poll` takes `link`. The first byte at
    `address` is 0 when it is done; what `wait` has left undone, `look` does, in Python.
    """

    start: int
    wait: int
    poll: int
    address: int
    link: int

    def look(self) -> None:
        """Until it is done; raises when it never can be."""

    def forget(self) -> None:
        """No run begins it again."""


class Transport(Protocol):
    """How this rank reaches the others."""

    rank: int
    size: int
    native: bool  # does it give rows for compiled programs, or do collectives come back to Python?

    def collective(self, call: Call, x: Array) -> Array:
        """This rank's part of `call.meaning` over the arrays of all members, in their order."""

    def send(self, x: Array, to: int, tag: int, where: Location) -> None: ...

    def receive(self, kind: TensorType, source: int, tag: int, where: Location) -> Array: ...

    def first_of(self, sources: Sequence[int], tag: int, where: Location) -> int:
        """A rank among these from whom a message has come: the next receive from it does not wait."""

    def row(self, call: Call, kernels: Reduction) -> Row:
        """The call as a row of a compiled program, which sums by the target's kernels."""

    def traffic(self) -> Sequence[Any]:
        """What machine code has exchanged, line by line."""


class Alone:
    """The only rank."""

    rank, size, native = 0, 1, False

    def collective(self, call: Call, x: Array) -> Array:
        return call.meaning([x], call.attributes)[0]

    def send(self, x: Array, to: int, tag: int, where: Location) -> None:
        raise self._nobody("send to", to, where)

    def receive(self, kind: TensorType, source: int, tag: int, where: Location) -> Array:
        raise self._nobody("receive from", source, where)

    def first_of(self, sources: Sequence[int], tag: int, where: Location) -> int:
        raise self._nobody("receive from any of", max(sources, default=0), where)

    def row(self, call: Call, kernels: Reduction) -> Row:
        raise NotImplementedError(call.name)

    def traffic(self) -> Sequence[Any]:
        return ()

    @staticmethod
    def _nobody(what: str, other: int, where: Location) -> ArgumentError:
        return ArgumentError(
            f"{what} rank {other} in a run of one process",
            where=where,
            expected="at least two ranks",
            remedy="trilobite launch -n 2 script.py, or tb.cluster.lockstep(function, 2)",
        )


class _Here(threading.local):
    transport: Transport | None = None


_here = _Here()
_process: list[Transport] = [Alone()]


def transport() -> Transport:
    """The transport of this thread's rank."""
    return _here.transport or _process[0]


def process_transport() -> Transport:
    """That of the process, whatever rank this thread plays."""
    return _process[0]


def is_first() -> bool:
    """Is this the process that speaks for all: writes logs, shows progress? The only one is."""
    return transport().rank == 0


def install(found: Transport) -> None:
    """From now on this process is a rank of many."""
    _process[0] = found


@contextmanager
def acting_as(found: Transport) -> Iterator[None]:
    """This thread is the rank of that transport meanwhile."""
    before, _here.transport = _here.transport, found
    try:
        yield
    finally:
        _here.transport = before


def members_of(name: str, groups: Groups, rank: int) -> tuple[int, ...]:
    """The group that a rank belongs to."""
    for members in groups:
        if rank in members:
            return members
    raise ArgumentError(
        f"{name}: rank {rank} is in none of the groups {list(map(list, groups))}",
        where=user_location(),
        expected="to be called by members alone",
        remedy="groups of a mesh hold every rank: tb.cluster.mesh(shape, names)[name]",
    )


def position(groups: Groups) -> int:
    """Which member of its group this rank is."""
    here = transport().rank
    return members_of("a group", groups, here).index(here)


def collective(name: str, x: Array, attributes: dict[str, Any], meaning: Meaning) -> Array:
    """Hand an array to the collective and take this rank's part."""
    return transport().collective(called(name, type_of(x), attributes, user_location(), meaning), x)


def called(
    name: str, kind: TensorType, attributes: dict[str, Any], where: Location, meaning: Meaning
) -> Call:
    """The call of this rank, if it can take part."""
    at = transport()
    members = members_of(name, attributes["groups"], at.rank)
    if max(members) >= at.size or at.size == 1 < len(members):
        raise ArgumentError(
            f"{name} over the ranks {list(members)} in a run of {at.size}",
            where=where,
            expected=f"ranks below {at.size}",
            remedy="start more: trilobite launch -n N script.py",
        )
    sizes: Sequence[int] | None = attributes.get("sizes")
    if name == "cluster_all_gather" and sizes is not None:
        own, found = sizes[members.index(at.rank)], kind.shape[attributes["axis"]]
        if own != found:
            raise ArgumentError(
                f"{name}: this part has {found} of axis {attributes['axis']}",
                where=where,
                expected=f"{own}: the parts are {list(sizes)}",
            )
    return Call(name, members, attributes, kind, where, meaning)
