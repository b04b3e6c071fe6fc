"""The quick form of scalar instructions gives the bits of the meaning: every row in every lawful format."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.row import Operands, Row
from trilobite.processor.isa.table import TABLE
from trilobite.processor.sim.prepared import Prepared

SCALAR = [row for row in TABLE if row.meaning is not None and not row.is_tensor]
EDGES = (0, 1, 2, 63, 64, 65, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1)


def name(row: Row) -> str:
    return f"{row.mnemonic}-{row.opcode:x}"


@pytest.mark.parametrize("row", SCALAR, ids=name)
def test_scalar_rows(row: Row) -> None:
    word = st.one_of(st.sampled_from(EDGES), st.integers(0, 2**64 - 1))

    @settings(max_examples=8, deadline=None, derandomize=True, database=None)
    @given(st.lists(word, min_size=8, max_size=8), st.integers(-(2**31), 2**31 - 1))
    def check(registers: list[int], immediate: int) -> None:
        for formats in row.formats or ((),):
            _quick_is_meaning(row, formats, registers, immediate)

    with np.errstate(all="ignore"):
        check()


def _quick_is_meaning(row: Row, formats: tuple[Any, ...], registers: list[int], immediate: int) -> None:
    flags = tuple(flag.choices[0] for flag in row.flags)
    numbers = tuple(range(len(row.registers)))
    prepared = Prepared(Instruction(row, numbers, formats, flags, immediate if row.immediate else 0))
    if prepared.quick is None:
        return
    values = dict(prepared.static)
    values |= {field: registers[register] for field, register, _ in prepared.fields}
    (want,) = row.meaning(Operands(values))
    assert prepared.quick(registers) == want & (2**64 - 1)
