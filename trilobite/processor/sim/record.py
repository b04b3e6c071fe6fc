"""What execution leaves for timing, energy and the checkers: one record per event of a core, in program
order.

Records hold shapes and ranges, never data, so timing can be replayed under other parameters without
computing again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trilobite.processor.isa.formats import Format
from trilobite.processor.isa.row import Region

# Scalar work between two other events is kept as counts of these classes.
SCALAR_CLASSES = (
    "issue", "add", "multiply", "divide16", "divide", "transcendental", "branch", "scratchpad", "dram",
    "atomic",
)  # fmt: skip


@dataclass(slots=True)
class ScalarRecord:
    """`counts` of SCALAR_CLASSES, and the scratchpad bytes (low, high) that scalar accesses touched."""

    place: int
    counts: list[int]
    reads: tuple[int, int] | None = None
    writes: tuple[int, int] | None = None


@dataclass(slots=True)
class TensorRecord:
    """One instruction of a queue. `work` is what its timing class asks for; formats in the row's order."""

    place: int
    queue: str
    timing: str
    work: dict[str, int]
    formats: tuple[Format, ...]
    reads: tuple[Region, ...]
    writes: tuple[Region, ...]


@dataclass(slots=True)
class SyncRecord:
    """The core waits for these queues."""

    place: int
    queues: tuple[str, ...]


@dataclass(slots=True)
class BarrierRecord:
    """The core waits for every member of a meeting; `meeting` numbers it within the launch."""

    place: int
    scope: str
    meeting: int


@dataclass(slots=True)
class TaskRecord:
    """A task begins on this core, together with the other cores of its group (`group` numbers it)."""

    place: int
    number: int
    round: int
    group: int


Record = ScalarRecord | TensorRecord | SyncRecord | BarrierRecord | TaskRecord


@dataclass
class CoreTrace:
    """Everything one core did in a launch."""

    cluster: int
    core: int
    records: list[Record] = field(default_factory=list)
    instructions: int = 0


@dataclass
class Trace:
    """A launch: one trace per core that took part, and whether its course depended on time."""

    cores: list[CoreTrace]
    rounds: int
    timing_dependent: bool = False
