"""Networks of every kind on machines of every kind: integers bit for bit, floats within their bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.chip_networks import MACHINES, ROWS, Row, compare

QUICK = {("lenet", "tpu-v1"), ("char_lstm", "odd")}
PAIRS = [
    pytest.param(row, machine, marks=() if (row.name, machine) in QUICK else pytest.mark.long)
    for row in ROWS
    for machine in MACHINES
]


@pytest.mark.parametrize(("row", "machine"), PAIRS, ids=lambda v: v.name if isinstance(v, Row) else v)
def test_a_network_on_a_machine(row: Row, machine: str, odd_machine: Path) -> None:
    found = compare(row, machine, str(odd_machine))
    assert found.agrees, str(found)
    assert found.cycles > 0 and found.joules > 0
