"""The instruction table: every row of every family with its opcode.

An opcode is the family's base plus the row's place in it, so a new row at a family's end moves no other.
"""

from __future__ import annotations

from dataclasses import replace

from trilobite.processor.isa.row import Row
from trilobite.processor.isa.rows import arrange, control, data, matrix, scalar, softmax, vector, window

OPCODE_BITS = 9
FAMILIES: tuple[tuple[str, int, tuple[Row, ...]], ...] = (
    ("Control", 0x001, control.ROWS),
    ("Scalar", 0x020, scalar.ROWS),
    ("Data", 0x070, data.ROWS),
    ("Vector, element by element", 0x0A0, vector.ROWS),
    ("Vector, arrangement and reduction", 0x160, arrange.ROWS),
    ("Vector, windows", 0x190, window.ROWS),
    ("Matrix", 0x1B0, (*matrix.ROWS, *softmax.ROWS)),
)


def _numbered() -> tuple[Row, ...]:
    rows = [
        replace(row, opcode=base + place) for _, base, family in FAMILIES for place, row in enumerate(family)
    ]
    opcodes = [row.opcode for row in rows]
    assert len(set(opcodes)) == len(opcodes), "two families overlap"
    assert max(opcodes) < 1 << OPCODE_BITS, "the last family overflows"
    return tuple(rows)


TABLE = _numbered()
BY_OPCODE = {row.opcode: row for row in TABLE}
MNEMONICS: dict[str, tuple[Row, ...]] = {}
for _row in TABLE:
    MNEMONICS[_row.mnemonic] = (*MNEMONICS.get(_row.mnemonic, ()), _row)
