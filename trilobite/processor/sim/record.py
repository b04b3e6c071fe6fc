"""What execution leaves for timing, energy and the checkers: one record per event of a core, in program
order.

Records hold shapes and ranges, never data, so timing can be replayed under other parameters without
computing again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

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


class Noted(Protocol):
    """Records that are kept in another form until somebody asks for them."""

    def records(self) -> list[Record]: ...

    def __len__(self) -> int: ...


@dataclass(eq=False)
class CoreTrace:
    """Everything one core did in a launch: parts in order, of which `tail` is the last and grows."""

    cluster: int
    core: int
    instructions: int = 0
    tail: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts: list[list[Record] | Noted] = [self.tail]
        self._joined: tuple[tuple[int, int], list[Record]] = ((0, 0), [])
        self._closed = 0  # records of the parts before `tail`

    def note(self, part: Noted) -> None:
        """Adds a part in another form."""
        self._closed += len(self.tail) + len(part)
        if not self.tail:
            self.parts.pop()
        self.tail = []
        self.parts += [part, self.tail]

    @property
    def size(self) -> int:
        """How many records there are, about: rows of a log stand for one or two."""
        return self._closed + len(self.tail)

    @property
    def records(self) -> list[Record]:
        """All of them; as long as none is added, the same objects every time."""
        if len(self.parts) == 1:
            return self.tail
        size = (len(self.parts), len(self.tail))
        if self._joined[0] != size:
            lists = (part if isinstance(part, list) else part.records() for part in self.parts)
            self._joined = (size, list(chain.from_iterable(lists)))
        return self._joined[1]

    def __getstate__(self) -> dict[str, object]:
        """For other processes, as plain records."""
        plain = self.records
        return {"cluster": self.cluster, "core": self.core, "instructions": self.instructions, "tail": plain,
                "parts": [plain], "_joined": ((0, 0), []), "_closed": 0}  # fmt: skip


@dataclass
class Trace:
    """A launch: one trace per core that took part, and whether its course depended on time."""

    cores: list[CoreTrace]
    rounds: int
    timing_dependent: bool = False
