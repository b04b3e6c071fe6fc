"""The manual's list of intrinsics, written out of the table.

`python -m trilobite.processor.lang.bang.manual` prints it; docs/bang.md ends with it, a test compares them.
"""

from __future__ import annotations

from trilobite.processor.lang.bang.table import (
    FORMS,
    Intrinsic,
    arrange,
    control,
    copies,
    elementwise,
    matrix,
    registers,
)
from trilobite.processor.lang.bang.table.extents import extent
from trilobite.processor.lang.bang.table.row import VECTOR_2XX

MARK = "<!-- below: written by trilobite.processor.lang.bang.manual -->\n"
FAMILIES = (
    ("Element by element", elementwise.INTRINSICS),
    ("Copies and fills", copies.INTRINSICS),
    ("Arrangement, selection, reduction, windows", arrange.INTRINSICS),
    ("Products", matrix.INTRINSICS),
    ("Vector registers", registers.INTRINSICS),
    ("Order, atomics, the core", control.INTRINSICS),
)
HEAD = (
    "| intrinsic | operands | reads | writes | types | memory | in place | 2xx | meaning |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)
_SIGNS = {
    ">": "out",
    "<": "in",
    "&": "in and out",
    "=": "scalar",
    "#": "elements",
    "%": "bytes",
    ":": "int",
    "?": "enum",
    "@": "register",
}


def intrinsics_text() -> str:
    """A table a family; conversions are described by their pattern in the page itself."""
    parts = [MARK]
    for title, rows in FAMILIES:
        parts.append(f"\n### {title}\n\n{HEAD}")
        parts += [_line(row) for row in rows if not row.name.startswith("__dlp_")]
    return "".join(parts)


def _line(row: Intrinsic) -> str:
    operands = ", ".join(f"{p.name} ({_SIGNS[p.sign]})" for p in row.parameters) or "none"
    types = " ".join(t for t in row.types if t) or "-"
    gives = f"; gives {row.returns}" if row.returns != "void" else ""
    line = row.line.replace("|", "\\|")
    place = "yes" if row.in_place else "from its end or beginning" if row.ahead else "no"
    lines = "lines" if row.alignment == VECTOR_2XX else "-"
    memory = row.space or "-"
    operands += f" | {_touched(row, '<&')} | {_touched(row, '>&')}"
    return f"| `{row.name}` | {operands} | {types} | {memory} | {place} | {lines} | {line}{gives} |\n"


def _touched(row: Intrinsic, signs: str) -> str:
    """How far arrays are read or written; what lies outside stays as it is."""
    found = [f"{p.name}: {extent(row, p)}" for p in row.parameters if p.is_array and p.sign in signs]
    return ", ".join(found) or "-"


def names() -> list[str]:
    return sorted(FORMS)


if __name__ == "__main__":
    print(intrinsics_text(), end="")
