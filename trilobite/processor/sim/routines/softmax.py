"""The weights of a softmax as a routine.

Enters: a VSOFT. Leaves: the text of its routine, which reads both sizes as facts.
"""

from __future__ import annotations

from trilobite.processor.isa import functions
from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import F32
from trilobite.processor.sim.routines.elements import finish, put, read, wide
from trilobite.processor.sim.routines.text import Code
from trilobite.processor.sim.routines.traced import traced

ROWS, COLUMNS = range(2)  # facts


def weights_text(instruction: Instruction) -> str:
    """Row by row, the columns side by side."""
    code, fmt = Code(), instruction.formats[0]
    scores, top, before, target, total = (code.operand(place) for place in range(5))
    rows, columns = code.fact(ROWS), code.fact(COLUMNS)
    with code.loop(columns, is_parallel=True) as j:
        code.store(total, j, read(code, F32, before, j))
    with code.loop(rows) as i, code.loop(columns, is_parallel=True) as j:
        difference = read(code, F32, scores, i * columns + j) - read(code, F32, top, j)
        bits = finish(fmt, traced(functions.exp, difference.cast("fpext", "double")))
        code.store(target, i * columns + j, bits)
        code.store(total, j, code.load("float", total, j) + wide(code, fmt, bits))
    with code.loop(columns, is_parallel=True) as j:
        put(code, F32, total, j, code.load("float", total, j))
    return code.text()
