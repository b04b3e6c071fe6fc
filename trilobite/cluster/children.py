"""Processes that a rank starts: workers of a loader, for example. They know the rank that they belong to, and
are none themselves: MPI would end the job if they tried.

Enters: what a rank leaves in the environment when it joins, which its children inherit. Leaves: a transport
whose collectives say so.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NoReturn

from trilobite.base.errors import ClusterError
from trilobite.base.locations import Location
from trilobite.ir.ranks import Array, Call, Row
from trilobite.ir.types import TensorType

NOTE = "TRILOBITE_RANK"


def note(rank: int, size: int) -> None:
    """This process is a rank: those that it starts will know."""
    os.environ[NOTE] = f"{os.getpid()} {rank} {size}"


def parent() -> tuple[int, int] | None:
    """Rank and size of the rank that started this process; None if it is one itself, or stands alone."""
    words = os.environ.get(NOTE, "").split()
    if len(words) != 3 or words[0] == str(os.getpid()):
        return None
    return int(words[1]), int(words[2])


class Child:
    """A process that belongs to a rank."""

    native = False

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def _refuse(self, what: str, where: Location) -> NoReturn:
        raise ClusterError(
            f"{what} in a process that rank {self.rank} has started",
            where=where,
            expected="collectives and messages in the ranks themselves",
            remedy=f"exchange in the rank what its workers give it; for a job of its own: trilobite launch, "
            f"or mpirun without {NOTE} in the environment",
        )

    def collective(self, call: Call, x: Array) -> Array:
        self._refuse(call.name, call.where)

    def send(self, x: Array, to: int, tag: int, where: Location) -> None:
        self._refuse("send", where)

    def receive(self, kind: TensorType, source: int, tag: int, where: Location) -> Array:
        self._refuse("receive", where)

    def first_of(self, sources: Sequence[int], tag: int, where: Location) -> int:
        self._refuse("receive", where)

    def row(self, call: Call, kernels: Any) -> Row:
        raise NotImplementedError(call.name)

    def traffic(self) -> Sequence[Any]:
        return ()
