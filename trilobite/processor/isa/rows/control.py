"""Control rows: branches, calls, synchronisation, special registers, printing.

Their meaning is a change of the core's state (program counter, waiting), so it is written in `sim/core.py`,
one function per mnemonic; everything else about them stands here.
"""

from __future__ import annotations

from trilobite.processor.isa.row import CONTROL, Flag, Row, operands

# What SREAD can name: the built-in variables of a task, then the core's own counters.
SPECIAL_REGISTERS = (
    "taskDim", "taskDimX", "taskDimY", "taskDimZ", "taskId", "taskIdX", "taskIdY", "taskIdZ",
    "clusterDim", "clusterId", "coreDim", "coreId", "isMpu", "stack", "arguments", "clock", "randomSeed",
)  # fmt: skip


def _row(mnemonic: str, text: str, line: str, timing: str = "branch", flags: tuple[Flag, ...] = ()) -> Row:
    return Row(mnemonic, operands(text), (), CONTROL, timing, line, flags=flags)


ROWS = (
    _row("NOP", "", "does nothing for one cycle", "issue"),
    _row("HALT", "", "ends the task on this core, after everything it started", "issue"),
    _row("TRAP", "#code", "stops the program with a fault that shows the code", "issue"),
    _row("JUMP", "@to", "goes to the label"),
    _row("JUMP", "a", "goes to the instruction whose number the register holds"),
    _row("CB", "@to a", "goes to the label if the register is above zero, read as a signed number"),
    _row("CBZ", "@to a", "goes to the label if the register is zero"),
    _row("CBNZ", "@to a", "goes to the label if the register is not zero"),
    _row("BEQ", "@to a b", "goes to the label if a = b"),
    _row("BNE", "@to a b", "goes to the label if a != b"),
    _row("BLT", "@to a b", "goes to the label if a < b, signed"),
    _row("BGE", "@to a b", "goes to the label if a >= b, signed"),
    _row("BLTU", "@to a b", "goes to the label if a < b, unsigned"),
    _row("BGEU", "@to a b", "goes to the label if a >= b, unsigned"),
    _row("CALL", "rd! @to", "rd = number of the next instruction; goes to the label"),
    _row("CALL", "rd! a", "rd = number of the next instruction; goes where the register a says"),
    _row("RET", "a", "goes back to the instruction whose number the register holds"),
    _row(
        "SYNC",
        "",
        "waits until the named queues of this core are empty; without a name, all of them",
        "sync",
        (
            Flag("io", ("", "io")),
            Flag("move", ("", "move")),
            Flag("matrix", ("", "matrix")),
            Flag("vector", ("", "vector")),
        ),
    ),
    _row(
        "BARRIER",
        "",
        "waits until every member of the cluster, or of the task, has come to a barrier; others pass",
        "barrier",
        (Flag("scope", ("cluster", "chip")), Flag("members", ("", "ipu", "mpu"))),
    ),
    _row("SREAD", "rd! #which", "rd = a special register of the task or the core, by its number", "add"),
    _row(
        "PRINT",
        "format values",
        "prints the text at `format`; its %d %u %x %f %s take GPRs from `values` on",
        "add",
    ),
)
