"""The manual: docs/isa.md, generated from the instruction table.

Enters: the table. Leaves: Markdown. A test keeps the page equal to what this module writes.
"""

from __future__ import annotations

from collections.abc import Sequence

from trilobite.processor.isa.formats import FORMATS, Format
from trilobite.processor.isa.row import Operand, Row
from trilobite.processor.isa.rows.control import SPECIAL_REGISTERS
from trilobite.processor.isa.table import BY_OPCODE, FAMILIES

HEAD = """# The instruction set

Generated from the instruction table by `trilobite.processor.isa.manual`; do not edit by hand.

An instruction is one 64-bit word. There are 64 general-purpose registers of 64 bits, `$0` to `$63`. A
tensor instruction takes addresses and sizes from registers and works on scratchpads; there are no vector
registers.

| layout | fields, from the top bit down |
|---|---|
| without immediate | opcode 9, flags 10, formats 3 x 5, registers 5 x 6 |
| with immediate | opcode 9, format 5, registers 3 x 6, immediate 32 |

Operands: `$a` is a register that is read, `$a!` one that is written, `$a..` the first of several
consecutive registers whose fields are listed, `#a` an immediate (for float formats written as a float,
held as the bits of an fp32), `#to` a label (held as the distance in instructions). Suffixes name formats
first, then flags; a format that is left out is the unit's default (`.format`) where that is lawful. A
flag that is left out takes the first choice.

Addresses are 64 bits: memory space, cluster, core (8 bits each) and 40 bits of offset. Spaces: gdram 0,
ldram 1, nram 2, wram 3, sram 4, acc 5, code 6 (constants). Cluster and core 0 mean the own one, n + 1
names number n.

## Number rules

- Floats of 16 bits are computed in fp32 and rounded to nearest even (a fused multiply-add is rounded
  once); denormals are kept; a NaN result is the canonical quiet NaN. A move, selection, merge, sign or bit
  instruction copies bits as they are.
- Matrix products of floats are one chain of fp32 fused multiply-adds per output, k ascending
  (convolution: r, s, c), starting from the destination when accumulating and from +0 otherwise. Products
  of integers are exact modulo 2^32 (2^64 into i64 and floats). tf32 operands are rounded to ten bits of
  fraction, ties to even, where they are read.
- The drain adds the bias (fp32, or i32 to integer products), multiplies the scale (fp32; integer
  products in fp64), applies the activation and rounds to nearest even; integers saturate.
- A reduction pads with the neutral element to a power of two and combines the upper half into the lower
  half until one value is left. Scans and scatter-adds go from the first element to the last.
- Conversions: `rn` to nearest even, `rz` to zero, `rd` down, `ru` up, `ra` to nearest with ties away.
  Float to integer saturates and gives 0 for NaN; integers saturate; floats beyond an fp8 format become
  its largest value, infinity becomes NaN in e4m3. fp64 to bf16 and fp8 goes through fp32.
- Functions (exp, log, sin, tanh, erf and so on) are computed by the algorithms of `isa/functions.py` in
  fp64 from additions, multiplications and divisions, then rounded to fp32 and to the format.
- Integer division cuts towards zero; by zero it gives all ones, the remainder gives the dividend. Shift
  amounts are taken modulo the width.
"""


def manual() -> str:
    """The whole page."""
    parts = [HEAD, _formats_table(), _special_registers()]
    for title, base, rows in FAMILIES:
        parts.append(_family(title, [BY_OPCODE[base + place] for place in range(len(rows))]))
    return "\n".join(parts)


def _formats_table() -> str:
    lines = [
        "## Formats",
        "",
        "| name | code | bits | kind | rate on the matrix unit |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {f.name} | {f.code} | {f.bits} | {f.kind} | {f.rate or '-'} |" for f in FORMATS]
    return "\n".join(lines) + "\n"


def _special_registers() -> str:
    names = ", ".join(f"{number} `{name}`" for number, name in enumerate(SPECIAL_REGISTERS))
    return f"## Special registers\n\n`SREAD $rd, #name` reads them: {names}.\n"


def _family(title: str, rows: Sequence[Row]) -> str:
    lines = [
        f"## {title}",
        "",
        "| opcode | instruction | meaning | formats | queue | timing |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        text = f"`{row.mnemonic}{_flags(row)} {', '.join(map(_operand, row.operands))}`".replace(" `", "`")
        queue = "io or move" if row.queue == "dma" else row.queue
        cells = [f"{row.opcode:#05x}", text, row.line, _formats(row), queue, row.timing]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _operand(operand: Operand) -> str:
    if operand.kind in ("imm", "target"):
        return f"#{operand.name}"
    if operand.kind == "run":
        return f"${operand.name}..({' '.join(operand.fields)})"
    return f"${operand.name}!" if operand.kind == "out" else f"${operand.name}"


def _flags(row: Row) -> str:
    words = []
    for flag in row.flags:
        shown = [choice for choice in flag.choices if choice]
        words.append(f"[.{'/'.join(shown)}]")
    return "".join(words)


def _formats(row: Row) -> str:
    if not row.formats:
        return "-"
    if row.format_fields == 1:
        return " ".join(combination[0].name for combination in row.formats)
    columns = [dict.fromkeys(combination[i] for combination in row.formats) for i in range(row.format_fields)]
    shown = " x ".join("{" + " ".join(fmt.name for fmt in column) + "}" for column in columns)
    return f"{len(row.formats)} of {shown}{_matrix_note(row, list(columns[0]))}"


def _matrix_note(row: Row, results: Sequence[Format]) -> str:
    return " (result, a, b)" if row.timing == "matrix" and results else ""
