"""One line of a benchmark table: the same work, written once for each system.

A row module is named `rows_*.py`. Its docstring becomes the heading and the text of a section, its tuple
`ROWS` the table. It is imported in every worker and in the parent, so it imports a system only inside the
function that builds that system's work.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

US = "trilobite"
REFERENCE = "torch"
"""Whose results ours are compared with."""

CLOCK = "TRILOBITE_BENCH_CLOCK"
"""The environment variable that makes workers count the time of their own CPU (`cpu`) instead of the wall's:
on a machine that others use too, that is what one thread can be measured by.
"""

Work = Callable[[], object]
"""What is timed. Called with nothing; returns nothing of interest, or the measured number if the row measures
itself (seconds, or bytes).
"""


@dataclass(frozen=True)
class Job:
    """Work whose results can be compared: `outputs` gives arrays, in the same order for every system.

    It is asked before all other work, for a training step's results are those of its first calls.
    """

    work: Work
    outputs: Callable[[], Sequence[Any]]
    program: Callable[[], str] | None = None  # ours: the plan of the compiled function as text


@dataclass(frozen=True)
class Row:
    """`systems` maps a system's name to the function that builds its work; building is not timed."""

    name: str
    systems: Mapping[str, Callable[[], Work | Job]]
    unit: str = "µs"
    threads: int = 1
    floor: tuple[str, ...] = ()  # systems that are shown but are no peers: they do only a part of the work
    aim: float | None = None  # seconds (or bytes) that we promise to stay below
    aim_ratio: float | None = None  # our time over the best peer's that we promise to stay below
    flops: float | None = None  # operations of one call, where speed is better read as GFLOP/s
    truth: Callable[[], Sequence[Any]] | None = None  # what is right, where a peer may be wrong
    times_itself: bool = False
    most_rounds: int | None = None  # where a sample is a whole process, few must do
    quick: bool = False

    @property
    def peers(self) -> tuple[str, ...]:
        """The systems that we are compared with."""
        return tuple(name for name in self.systems if name != US and name not in self.floor)

    @property
    def key(self) -> str:
        """What no other row has."""
        return f"{self.name} / {self.threads}"

    def only(self, systems: Sequence[str]) -> Row:
        """The row with some of its systems."""
        return replace(self, systems={name: make for name, make in self.systems.items() if name in systems})


@dataclass(frozen=True)
class Section:
    """A row module as the page shows it."""

    title: str
    text: str
    rows: tuple[Row, ...]


def both_thread_counts(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Each row with 1 thread and with 2, one under the other."""
    return tuple(
        replace(row, threads=threads, quick=row.quick and threads == 2) for row in rows for threads in (1, 2)
    )


def row_modules() -> list[str]:
    """The names of all row modules of this folder, sorted."""
    found = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(f"benchmarks.{module.name}" for module in found if module.name.startswith("rows_"))


def section(module_name: str) -> Section:
    """A row module's docstring and rows."""
    module = importlib.import_module(module_name)
    title, _, text = (module.__doc__ or module_name).strip().partition("\n")
    return Section(title.rstrip("."), text.strip(), tuple(module.ROWS))
