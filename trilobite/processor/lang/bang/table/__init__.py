"""The one table of intrinsics: every form with its declaration, contract and meaning.

`FORMS` is the table by name; the header (`headers.py`), the lowering (`lower/tensor.py`), the manual page
(`manual.py`) and the tests read it. What is not in it does not exist: clang refuses the name with its line.

Enters: a name. Leaves: a row. May import nothing outside of the table. Read `row.py` first.
"""

from __future__ import annotations

from trilobite.processor.lang.bang.table import (
    arrange,
    control,
    convert,
    copies,
    elementwise,
    matrix,
    registers,
)
from trilobite.processor.lang.bang.table.row import C_NAMES, Intrinsic, Parameter

TABLE: tuple[Intrinsic, ...] = (
    *elementwise.INTRINSICS,
    *copies.INTRINSICS,
    *control.INTRINSICS,
    *convert.INTRINSICS,
    *arrange.INTRINSICS,
    *matrix.INTRINSICS,
    *registers.INTRINSICS,
)
FORMS: dict[str, list[Intrinsic]] = {}
for _row in TABLE:
    FORMS.setdefault(_row.name, []).append(_row)

__all__ = ["C_NAMES", "FORMS", "TABLE", "Intrinsic", "Parameter"]
