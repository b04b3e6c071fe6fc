"""One timeline of all ranks: what each computed, sent and waited for in one call of a compiled function.

Enters: a compiled or sharded function and its arguments, on all ranks. Leaves: a file for ui.perfetto.dev, a
process per rank, kernels in one line and collectives in another, and seconds of both per rank. Ranks of one
machine share a clock; those of others are set by what their clocks show behind a barrier.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.cluster import collectives as c
from trilobite.cluster.groups import rank, size
from trilobite.cluster.talk import told
from trilobite.framework.jit import Jitted

LINES = {0: "kernels", 1: "collectives", 2: "waiting"}
GAP = 20.0  # microseconds beside a collective from which on nothing else explains them


class Spent(NamedTuple):
    """Of one rank in one call, in seconds: computing, handling messages, and waiting for those of others."""

    rank: int
    kernels: float
    collectives: float
    waiting: float


def timeline(function: Any, *args: Any, path: str | Path) -> list[Spent]:
    """Profile one call of `function(*args)` on all ranks, and write one timeline of all. All ranks call it,
    and get what each rank spent where.
    """
    if not isinstance(function, Jitted):
        raise ArgumentError(
            f"a timeline of {type(function).__name__}",
            where=user_location(),
            expected="a function of tb.jit or tb.cluster.sharded",
        )
    function(*args)  # what is compiled is compiled by now
    clocks = _clocks()
    profile = function.profile(*args)
    found = json.loads(profile.timeline().content)
    found["began"] = found.get("clock_ns", clocks[rank()]) - clocks[rank()]
    everyone = told(found)
    events = [e for k, one in enumerate(everyone) for e in _of_rank(one, k, everyone[0]["began"])]
    if rank() == 0:
        content = json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
        Path(path).write_text(content)
    return [_spent(events, k) for k in range(size())]


def _clocks() -> list[int]:
    """What the clock of each rank shows at about one moment."""
    c.barrier()
    here = np.array([time.monotonic_ns()], np.int64)
    shown = c.all_gather(here).tolist()
    # On one machine they are one clock: differences are how late each left the barrier.
    near = max(shown) - min(shown) < 5_000_000
    return [min(shown)] * len(shown) if near else [int(s) for s in shown]


def _of_rank(found: dict[str, Any], k: int, first: int) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = [
        {"ph": "M", "pid": k, "name": "process_name", "args": {"name": f"rank {k}"}},
        *(
            {"ph": "M", "pid": k, "tid": t, "name": "thread_name", "args": {"name": n}}
            for t, n in LINES.items()
        ),
    ]
    shift = (found["began"] - first) / 1e3
    shown = sorted((e for e in found["traceEvents"] if e["ph"] == "X"), key=lambda e: float(e["ts"]))
    before: dict[str, Any] | None = None
    for e in shown:
        line = int(e["name"].startswith("cluster_"))
        new = {**e, "pid": k, "tid": line, "ts": e["ts"] + shift}
        if before is not None:
            out += _waiting(before, new, k)
        out.append(new)
        before = new
    return out


def _waiting(a: dict[str, Any], b: dict[str, Any], k: int) -> list[dict[str, Any]]:
    """The time between two events, if one of them is a collective: it waits outside of machine code."""
    end = a["ts"] + a["dur"]
    if 1 not in (a["tid"], b["tid"]) or b["ts"] - end < GAP:
        return []
    for_whom = (a if a["tid"] == 1 else b)["args"]
    return [
        {"ph": "X", "pid": k, "tid": 2, "name": "waiting", "ts": end, "dur": b["ts"] - end, "args": for_whom}
    ]


def _spent(events: Sequence[dict[str, Any]], k: int) -> Spent:
    lines = [
        sum(e["dur"] for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == (k, t)) for t in LINES
    ]
    return Spent(k, *(s * 1e-6 for s in lines))
