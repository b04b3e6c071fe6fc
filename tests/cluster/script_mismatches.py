"""Forty ways in which ranks differ, one after another; every rank says when it noticed all of them.

After each one the ranks start anew with communicators of their own: what the last case left is not theirs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import permutations
from typing import Any

from mpi4py import MPI

import trilobite as tb
from trilobite import cluster as c
from trilobite.base.errors import ClusterError
from trilobite.cluster.mpi import Mpi
from trilobite.ir import ranks

large = tb.ones((300, 300))

CALLS: dict[str, Callable[[], Any]] = {
    "sum": lambda: c.all_reduce(large),
    "small": lambda: c.all_reduce(tb.ones(3)),
    "dtype": lambda: c.all_reduce(tb.ones((300, 300), dtype=tb.float64)),
    "max": lambda: c.all_reduce(large, "max"),
    "gather": lambda: c.all_gather(large, 1),
    "pairs": lambda: c.all_reduce(large, group=c.Group(((0, 1), (2, 3)))),
    "receive": lambda: c.receive((3,), tb.float32, (c.rank() + 1) % 4),
    "by MPI": lambda: (c.any_order(), c.all_reduce(large), c.any_order(False))[1],
}  # fmt: skip
QUICK = sys.argv[1:] == ["quick"]
LATE = 60.0 if QUICK else 5.0  # seconds; the quick cases run beside other tests, which may take the cores
CASES = (
    [("sum", "dtype"), ("sum", "receive"), ("pairs", "gather"), ("by MPI", "max")]
    if QUICK
    else [*list(permutations(list(CALLS)[:7], 2))[:40], ("sum", "by MPI"), ("by MPI", "gather")]
)


def anew() -> None:
    MPI.COMM_WORLD.Barrier()
    ranks.install(Mpi(MPI))
    MPI.COMM_WORLD.Barrier()


def line(name: str) -> str:
    return f"{CALLS[name].__code__.co_filename}:{CALLS[name].__code__.co_firstlineno} "


c.barrier()
assert QUICK or len(CASES) == 42
for first, second in CASES:
    anew()
    begun = time.monotonic()
    try:
        CALLS[second if c.rank() == 2 else first]()
        c.barrier()
    except ClusterError as error:
        text = str(error)
    else:
        sys.exit(f"{first} against {second} was not noticed by rank {c.rank()}")
    assert time.monotonic() - begun < LATE, f"{first} against {second}: late"
    assert line(first) in text and line(second) in text, f"{first} against {second}: {text}"
print("noticed", flush=True)
anew()
if c.rank() == 1:
    time.sleep(4.0 if QUICK else 30.0)
c.all_reduce(large)
print("patient", flush=True)
