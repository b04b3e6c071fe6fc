"""What T1 finds out: when every instruction of a queue was dispatched, started and done, and what each core's
control did meanwhile.

The lists of a core are made when they are first asked for: whoever wants only the cycles does not pay for
them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.row import QUEUES
from trilobite.processor.machine import Machine
from trilobite.processor.sim.record import CoreTrace, ScalarRecord, TensorRecord
from trilobite.processor.sim.timing.cost import IN_FLIGHT, Cost
from trilobite.processor.sim.timing.state import DID

Segment = tuple[int, int, str]  # from, to, what control did (a cause of the stall table)
SEGMENT_CAUSES = DID
Columns = tuple[
    Array, Array
]  # of segments (from, to, what), of operations (queue, dispatch, start, free, interval)


@dataclass(eq=False, slots=True)
class Operation:
    """One instruction of a queue on its way through time."""

    record: TensorRecord
    cost: Cost
    core: CoreTimes
    dispatch: int
    behind: Operation | None  # the one before it in the same queue
    start: int = -1
    free: int = -1  # when the unit can begin the next one
    finish: int = -1
    cause: Operation | None = None  # what it waited for after its dispatch
    core_wait: Operation | None = None  # what control had last waited for before it

    @property
    def bound(self) -> str:
        """What made it start no earlier, or run no faster."""
        if self.free - self.start > self.cost.interval:
            is_alone = self.free - self.start <= self.cost.alone
            return "in flight" if is_alone and self.cost.alone_part == IN_FLIGHT else "bandwidth"
        if self.cause is None:
            return "dispatch"
        return "unit busy" if self.cause is self.behind else "operand"


class CoreTimes:
    """One core in time. `places` holds the instruction behind each segment of its control."""

    def __init__(
        self,
        trace: CoreTrace,
        number: int,
        fill: Callable[[CoreTimes], None] | None = None,
        columns: Callable[[int], Columns] | None = None,
    ) -> None:
        self.trace, self.number, self._fill, self._columns = trace, number, fill, columns
        self._segments: list[Segment] = []
        self._places: list[int] = []
        self.scalar_records: dict[int, ScalarRecord] = {}  # behind segments of scalar work, by their place
        self._operations: list[Operation] = []

    def _filled(self) -> None:
        if self._fill is not None:
            fill, self._fill = self._fill, None
            fill(self)

    @property
    def segments(self) -> list[Segment]:
        self._filled()
        return self._segments

    @property
    def places(self) -> list[int]:
        self._filled()
        return self._places

    @property
    def segment_columns(self) -> Array:
        """From, to and cause (its number in SEGMENT_CAUSES) of every segment, without making the list."""
        if self._columns is not None:
            return self._columns(self.number)[0]
        rows = [(start, end, SEGMENT_CAUSES.index(what)) for start, end, what in self.segments]
        return np.array(rows, np.int64).reshape(-1, 3).T

    @property
    def operation_columns(self) -> Array:
        """Queue (its number), dispatch, start, free and interval of every operation, in the same way."""
        if self._columns is not None:
            return self._columns(self.number)[1]
        rows = [
            (QUEUES.index(op.record.queue), op.dispatch, op.start, op.free, op.cost.interval)
            for op in self.operations
        ]
        return np.array(rows, np.int64).reshape(-1, 5).T

    @property
    def end(self) -> int:
        """When control was done."""
        return self.segments[-1][1] if self.segments else 0

    @property
    def operations(self) -> list[Operation]:
        self._filled()
        return self._operations


@dataclass
class Timeline:
    """Everything T1 found out; cycles is when the last result was there."""

    machine: Machine
    cores: list[CoreTimes]
    cycles: int
