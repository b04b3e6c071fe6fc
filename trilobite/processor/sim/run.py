"""The result of a launch: output, cycles, stalls, energy, and the timeline behind them.

Enters: a machine, a program and its execution. Leaves: figures, computed when first asked for. `replay`
times the same trace on a machine with other timing parameters, without computing data again.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from trilobite.base.collection import uncollected
from trilobite.base.errors import ArgumentError
from trilobite.processor.isa.address import NAMES, split
from trilobite.processor.isa.program import Program
from trilobite.processor.machine import Machine, load_machine
from trilobite.processor.sim.actions import tensor_actions
from trilobite.processor.sim.chip import Execution
from trilobite.processor.sim.energy import Energy, energy_of
from trilobite.processor.sim.record import Trace
from trilobite.processor.sim.timing.native import replay
from trilobite.processor.sim.timing.roofline import Roofline, roofline
from trilobite.processor.sim.timing.stalls import (
    CAUSES,
    StallRow,
    critical_path,
    line_table,
    stall_table,
    stall_text,
)
from trilobite.processor.sim.timing.timeline import Operation, Timeline

# A trace holds shapes and placements; these parts of a machine decide them, so changing one needs a new run.
STRUCTURAL = ("clusters", "cores_per_cluster", "memory_core")


class Run:
    """One launch. Function is done; time is found out on demand."""

    def __init__(self, machine: Machine, program: Program, execution: Execution, traced: bool = True) -> None:
        self.machine, self.program = machine, program
        self.printed = execution.printed
        self.instructions = execution.instructions
        self._execution, self._traced = execution, traced

    @property
    def trace(self) -> Trace:
        if not self._traced:
            raise ArgumentError(
                "the launch was not traced",
                expected="launch(..., traced=True)",
                remedy="launch it again, traced",
            )
        return self._execution.trace

    @cached_property
    def timeline(self) -> Timeline:
        with uncollected():
            return replay(self.machine, self.trace)

    @property
    def cycles(self) -> int:
        return self.timeline.cycles

    @property
    def seconds(self) -> float:
        return self.cycles / (self.machine.clock_ghz * 1e9)

    @cached_property
    def energy(self) -> Energy:
        return energy_of(self.machine, self.trace, self.seconds)

    @cached_property
    def stalls(self) -> list[StallRow]:
        """Per core and queue, every cycle by its cause; each row sums to `cycles`."""
        return stall_table(self.timeline)

    def stalls_by_cause(self) -> dict[str, int]:
        """The stall table summed over cores and queues."""
        return {cause: sum(row.cycles[cause] for row in self.stalls) for cause in CAUSES}

    def stall_text(self) -> str:
        return stall_text(self.stalls)

    @cached_property
    def roofline(self) -> Roofline:
        return roofline(self.machine, self.trace)

    @property
    def critical_path(self) -> list[Operation]:
        return critical_path(self.timeline)

    def lines(self) -> list[tuple[str, int, int, int]]:
        """Per source line: executions, busy cycles, waiting cycles; the busiest first."""
        return line_table(self.timeline, self.program.where)

    def origins(self) -> list[tuple[Any, int, int, int]]:
        """As `lines`, grouped by what a compiler said that the instructions came from."""
        return line_table(self.timeline, self.program.origin)

    @cached_property
    def bytes(self) -> dict[str, int]:
        """Bytes that tensor and data instructions moved, by memory and direction."""
        moved: dict[str, int] = {}
        for record, count in tensor_actions(self.trace.cores, self.machine.dram.granule_bytes):
            for way, regions in (("read", record.reads), ("write", record.writes)):
                for region in regions:
                    space = split(region.address)[0]
                    name = f"{NAMES[space] if space else '?'} {way}"
                    moved[name] = moved.get(name, 0) + region.bytes * count
        return moved

    def replay(self, machine: str | Machine) -> Run:
        """The same trace in the time of another machine that differs only in timing parameters."""
        other = load_machine(machine)
        for name in STRUCTURAL:
            if getattr(other, name) != getattr(self.machine, name):
                raise ArgumentError(
                    f"{name} is structural: {getattr(self.machine, name)} here, {getattr(other, name)} there",
                    expected="a machine that differs only in timing parameters",
                    remedy="launch the program on that machine",
                )
        if self.trace.timing_dependent:
            raise ArgumentError(
                "the launch reads clocks or atomics, so its course may depend on time",
                expected="a launch without them",
                remedy="launch it again on the other machine",
            )
        return Run(other, self.program, self._execution)

    def report(self, path: str | Path) -> None:
        """Writes the launch as one self-contained HTML page."""
        from trilobite.processor.tools.page import writer

        writer()(self, path)

    def explain(self) -> str:
        """What ran where, and what it was bound by."""
        operations = [op for core in self.timeline.cores for op in core.operations]
        elsewhere = {op.record.place for op in operations if op.cost.on_vector_unit}
        microseconds, microjoules = self.seconds * 1e6, self.energy.total * 1e6
        lines = [f"{self.machine.name}: {self.cycles} cycles, {microseconds:.3f} us, {microjoules:.3f} uJ"]
        for place in sorted(elsewhere):
            name = self.program.instructions[place].mnemonic
            where = self.program.where(place)
            lines.append(f"{where}: {name} runs on the vector unit: the matrix unit has no rate for it")
        return "\n".join(lines) + "\n" + self.stall_text()
