"""Sums by MPI itself, where the user allows it: `tb.cluster.any_order()`, or `trilobite launch --any-order`.

Enters: a large `all_reduce`, of which all members have said the same. Leaves: MPI's names for it. Its order
of adding is then MPI's, which may use what a network does best; bits may differ from rank order's and from
run to run of another MPI, within the rounding of n - 1 additions. MPI wants the reductions of a communicator
in one order on all members, and exchanges that are under way together may reach this point in another: so
each takes one of a few communicators, by its number, which all members count alike.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from trilobite.cluster.exchanges import LARGEST, OUT, SMALL, Exchange, X
from trilobite.ir.ranks import Call, transport
from trilobite.ir.types import size_of
from trilobite.native.exchange import SLOTS, Arrived, Free, Reduce
from trilobite.native.memory import zeros
from trilobite.native.runtime import Words

if TYPE_CHECKING:
    from trilobite.cluster.mpi import Mpi

ALLOWED = "TRILOBITE_ANY_ORDER"
_TYPES = {f"{kind}{bits}": f"{kind.upper()}{bits}_T" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
_TYPES |= {"float32": "FLOAT", "float64": "DOUBLE"}
_TYPES |= {"complex64": "C_FLOAT_COMPLEX", "complex128": "C_DOUBLE_COMPLEX"}
_OPS = {"sum": "SUM", "prod": "PROD"}  # of max and min MPI does not say what NaN does


def any_order(allowed: bool = True) -> None:
    """From now on MPI may (or may not) add up large `all_reduce` sums in an order of its own. All ranks say
    so at the same place of the program; functions that are compiled already stay as they are.
    """
    reductions = getattr(transport(), "reductions", None)
    if reductions is not None:
        reductions.allowed = allowed


class MpiReductions:
    """What a process knows of them."""

    def __init__(self, at: Mpi) -> None:
        self.at, self.allowed = at, os.environ.get(ALLOWED, "") not in ("", "0")
        self.comms: list[Any] = []
        self._slots: dict[tuple[int, ...], Words] = {}
        self._made: set[tuple[int, ...]] = set()

    def of(self, call: Call) -> Callable[[Exchange], None] | None:
        """What writes a call that MPI may make."""
        if not self.allowed or call.name != "cluster_all_reduce" or len(call.members) < 2:
            return None
        kind, op = _TYPES.get(call.type.dtype.name), _OPS.get(call.attributes["op"])
        small = size_of(call.type.shape) * call.type.dtype.itemsize <= SMALL
        if kind is None or op is None or small:
            return None
        mpi = self.at.mpi
        function = ctypes.cast(ctypes.CDLL(mpi.__file__).MPI_Iallreduce, ctypes.c_void_p).value or 0
        slots = self._slots.setdefault(call.members, zeros(2 * SLOTS, np.int64))
        names = handle(mpi, getattr(mpi, kind)), handle(mpi, getattr(mpi, op))

        def write(e: Exchange) -> None:
            """In whatever order MPI takes: pieces of what it counts in 32 bits, one after another."""
            size, count = e.dtype.itemsize, prod(e.shape)
            for at in range(0, count, LARGEST // size):
                length = min(LARGEST // size, count - at)
                begin = at * size
                e.ops.append(Reduce(X + begin, OUT + begin, length, *names, int(slots.ctypes.data), function))
                e.ops.append(Arrived())
            e.ops.append(Free(int(slots.ctypes.data)))

        return write

    def ready(self, members: tuple[int, ...]) -> bool:
        """Are the communicators there?"""
        return members in self._made

    def join(self, members: tuple[int, ...]) -> None:
        """Makes them, where somebody has asked for slots: all members do, at a call that they agree on."""
        if members not in self._slots or members in self._made:
            return
        slots, own = self._slots[members], self.at._groups[members]
        for k in range(SLOTS):
            self.comms.append(own.Dup())
            slots[2 * k] = handle(self.at.mpi, self.comms[-1])
        self._made.add(members)


def handle(mpi: Any, thing: Any) -> int:
    """MPI's own name of an object, a number or an address, as a signed word."""
    found = int(mpi._handleof(thing))
    return found - (1 << 64) if found >> 63 else found
