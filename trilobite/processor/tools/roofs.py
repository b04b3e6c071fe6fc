"""Roofline points: how much of its two roofs a launch and each of its source lines reaches.

Enters: a run. Leaves: points (operations, bytes, seconds) with the roof above them. The launch as a whole is
measured against DRAM and the part's peak; a line of the matrix or vector unit against its core's peak and
the scratchpads that feed it. A multiply-accumulate is two operations, a vector element one.
"""

from __future__ import annotations

from dataclasses import dataclass

from trilobite.processor.isa.address import split
from trilobite.processor.isa.row import ACC, MATRIX, NRAM, VECTOR, WRAM, Region
from trilobite.processor.machine import Machine
from trilobite.processor.machine.drawing import table
from trilobite.processor.sim.record import TensorRecord
from trilobite.processor.sim.run import Run
from trilobite.processor.sim.timing.cost import useful_macs
from trilobite.processor.sim.timing.roofline import at_peak, vector_elements
from trilobite.processor.sim.timing.timeline import Operation


@dataclass(frozen=True)
class RooflinePoint:
    """`peak` in operations per second, `bandwidth` in bytes per second of the memory named."""

    name: str
    memory: str
    operations: int
    bytes: int
    seconds: float
    peak: float
    bandwidth: float

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.operations / self.bytes if self.bytes else float("inf")

    @property
    def reached(self) -> float:
        """Operations per second."""
        return self.operations / self.seconds if self.seconds else 0.0

    @property
    def roof(self) -> float:
        """The most that this intensity allows."""
        return min(self.peak, self.intensity * self.bandwidth)

    @property
    def share(self) -> float:
        """Reached, of the roof."""
        return self.reached / self.roof if self.roof else 0.0


def roofline_points(run: Run) -> list[RooflinePoint]:
    """The launch first, then its lines in the order of time spent."""
    lines: dict[tuple[str, str], list[Operation]] = {}
    for core in run.timeline.cores:
        for op in core.operations:
            if op.record.queue in (MATRIX, VECTOR):
                lines.setdefault((run.program.where(op.record.place), op.record.queue), []).append(op)
    points = [_line(run.machine, name, operations) for (name, _), operations in lines.items()]
    return [_launch(run), *sorted(points, key=lambda point: (-point.seconds, point.name))]


def _launch(run: Run) -> RooflinePoint:
    machine, roof = run.machine, run.roofline
    bandwidth = machine.dram_bytes_per_cycle * machine.clock_ghz * 1e9
    seconds_at_peak = roof.compute_cycles / (machine.clock_ghz * 1e9)
    peak = roof.operations / seconds_at_peak if seconds_at_peak else 0.0
    return RooflinePoint("launch", "dram", roof.operations, roof.dram_bytes, run.seconds, peak, bandwidth)


def _line(machine: Machine, name: str, operations: list[Operation]) -> RooflinePoint:
    """Seconds are those in which a unit of some core worked on the line."""
    clock = machine.clock_ghz * 1e9
    cycles = sum(op.free - op.start for op in operations)
    count = sum(_operations(op.record) for op in operations)
    least = sum(at_peak(machine, op.record)[1] for op in operations)
    moved: dict[str, int] = {}
    for op in operations:
        for region in (*op.record.reads, *op.record.writes):
            space = _space(region)
            moved[space] = moved.get(space, 0) + region.bytes
    memory, rate = _narrowest(machine, moved)
    peak = count / least * clock if least else 0.0
    return RooflinePoint(name, memory, count, moved.get(memory, 0), cycles / clock, peak, rate * clock)


def _space(region: Region) -> str:
    return {NRAM: "nram", WRAM: "wram", ACC: "acc"}.get(split(region.address)[0] or "", "other")


def _narrowest(machine: Machine, moved: dict[str, int]) -> tuple[str, int]:
    """The scratchpad that needs the most time for its bytes, and its bytes per cycle."""
    core = machine.core
    rates = {
        "nram": core.nram.bytes_per_cycle,
        "wram": core.wram.bytes_per_cycle,
        "acc": core.acc.bytes_per_cycle,
    }
    times = {name: moved[name] / rate for name, rate in rates.items() if rate and name in moved}
    memory = max(times, key=lambda name: times[name], default="nram")
    return memory, rates[memory]


def _operations(record: TensorRecord) -> int:
    return 2 * useful_macs(record) if record.timing == "matrix" else vector_elements(record)


def roofline_text(run: Run, limit: int = 30) -> str:
    """The points as a table."""
    rows = [["point", "memory", "Gop", "ops/byte", "Gop/s", "roof Gop/s", "reached"]]
    rows += [
        [point.name, point.memory, f"{point.operations / 1e9:.4g}", f"{point.intensity:.4g}",
         f"{point.reached / 1e9:.4g}", f"{point.roof / 1e9:.4g}", f"{point.share:.1%}"]
        for point in roofline_points(run)[: limit + 1]
    ]  # fmt: skip
    return table(rows)
