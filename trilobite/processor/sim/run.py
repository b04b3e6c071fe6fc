"""The result of a launch: what was printed and executed.

Enters: a machine, a program and its execution. Leaves: figures, computed when first asked for.
"""

from __future__ import annotations

from trilobite.processor.isa.program import Program
from trilobite.processor.machine import Machine
from trilobite.processor.sim.chip import Execution
from trilobite.processor.sim.record import Trace


class Run:
    def __init__(self, machine: Machine, program: Program, execution: Execution) -> None:
        self.machine, self.program = machine, program
        self.printed = execution.printed
        self.instructions = execution.instructions
        self.trace: Trace = execution.trace
