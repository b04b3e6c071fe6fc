"""Planned memory.

Bytes that the plan of a compiled function needs between its inputs and its outputs, beside the lower bound:
the largest sum of all that is alive at one time. Weights, packed ones too, are not in it.
"""

from __future__ import annotations

import re
from functools import partial

from benchmarks.row import Job, Row, Work, section
from benchmarks.rows_memory import NETWORKS, THREADS

FOUND = r"arena (\d+) bytes \(lower bound (\d+), "


def planned(module: str, name: str, which: int) -> Work:
    """The last program is the one of every run; what depends on weights alone comes before it."""
    rows = {row.key: row for row in section(f"benchmarks.{module}").rows}
    job = rows[f"{name} / {THREADS}"].systems["trilobite"]()
    assert isinstance(job, Job) and job.program is not None
    found = re.findall(FOUND, job.program())[-1]
    return lambda: float(found[which])


ROWS = tuple(
    Row(
        f"plan: {name}",
        {
            "trilobite": partial(planned, module, name, 0),
            "lower bound": partial(planned, module, name, 1),
        },
        unit="MB",
        threads=THREADS,
        aim_ratio=1.1,
        times_itself=True,
        most_rounds=1,
    )
    for name, (module, *_) in NETWORKS.items()
)
