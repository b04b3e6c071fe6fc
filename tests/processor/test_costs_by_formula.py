"""Parts of a cost beside their formulas: banks that units share, weights of resources, words of programs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError
from trilobite.processor.isa import functions as real
from trilobite.processor.isa.address import address
from trilobite.processor.isa.assembler import assemble_program
from trilobite.processor.isa.formats import F32
from trilobite.processor.isa.row import GDRAM, NRAM, WRAM, Region
from trilobite.processor.machine import load_machine
from trilobite.processor.sim.record import TensorRecord
from trilobite.processor.sim.timing.cost import Cost, contended
from trilobite.processor.sim.timing.tables import weighted
from trilobite.processor.tools.stops import address_of


def region(space: str, count: int) -> Region:
    return Region(address(space, 0), F32, (count,), (4,), "ngw")


def record(reads: list[Region], writes: list[Region]) -> TensorRecord:
    return TensorRecord(0, "vector", "vector", {}, (F32,), tuple(reads), tuple(writes))


def shared(nram: bool, wram: bool) -> Any:
    machine = load_machine("dlp-s")
    core = machine.core
    pads = {"nram": replace(core.nram, contended=nram), "wram": replace(core.wram, contended=wram)}
    return replace(machine, core=replace(core, **pads))


def test_bytes_in_banks_that_units_share() -> None:
    """Sources and the first result; a vector instruction has no other amount than these."""
    given = record([region(NRAM, 10), region(NRAM, 6), region(WRAM, 8)], [region(NRAM, 4), region(NRAM, 100)])
    plain = Cost(7, 3)
    assert contended(shared(False, False), given, plain, (0, 1)) is plain
    found = contended(shared(True, False), given, plain, (0, 1))
    assert found.amount == 4 * (10 + 6 + 4) and found.alone == 1 and found.interval == 7
    assert found.resources == (("share", ("pad", NRAM, 0, 1), 80, 80),)
    both = contended(shared(True, True), given, plain, (2, 3))
    assert both.amount == 112
    assert both.resources == (
        ("share", ("pad", NRAM, 2, 3), 80, 112), ("share", ("pad", WRAM, 2, 3), 32, 112),
    )  # fmt: skip


def test_a_transfer_keeps_its_amount_and_its_time_alone() -> None:
    given = record([region(GDRAM, 10)], [region(NRAM, 10)])
    moved = Cost(5, 3, 40, ("dram",), 9)
    found = contended(shared(True, False), given, moved, (0, 0))
    assert found.amount == 40 and found.alone == 9
    assert found.resources == ("dram", ("share", ("pad", NRAM, 0, 0), 40, 40))


def test_weights_of_resources() -> None:
    assert weighted("dram") == ("dram", 1.0)
    assert weighted(("channel", 3, 4)) == (("channel", 3), 0.25)
    assert weighted(("share", "dram", 3, 12)) == ("dram", 0.25)
    assert weighted(("share", ("channel", 1, 2), 3, 4)) == (("channel", 1), 0.375)
    assert weighted(("share", ("share", "dram", 1, 2), 1, 4)) == ("dram", 0.125)


@pytest.mark.parametrize(
    ("text", "value"),
    [("2147483647", 2**31 - 1), ("2147483648", -(2**31)), ("4294967295", -1), ("-2147483648", -(2**31)),
     ("0x80000000", -(2**31)), ("0", 0), ("-1", -1)],
)  # fmt: skip
def test_immediates_have_one_reading(text: str, value: int) -> None:
    found = assemble_program(f"SADD $1, $0, #{text}\nSSUB $2, $1, #0\nLI $3, #4294967296")
    assert found.instructions[0].immediate == value
    same = assemble_program(f"SADD $1, $0, #{value}")
    assert same.instructions[0] == found.instructions[0]


def test_addresses_as_expressions() -> None:
    program = assemble_program("begin: SMOVE $1, #1\n")
    registers = [0] * 64
    registers[10] = 40
    registers[3] = (1 << 64) - 8
    base = address(NRAM, 64)
    assert address_of(program, "nram(64)", registers) == base
    assert address_of(program, "nram(64) + $10", registers) == base + 40
    assert address_of(program, "0 - 8", registers) == (1 << 64) - 8
    assert address_of(program, "$3 + 16", registers) == 8  # words have 64 bits
    for wrong in ("begin", "1.5", "nowhere", "1 +"):
        with pytest.raises(ArgumentError):
            address_of(program, wrong, registers)


@pytest.mark.parametrize(
    ("ours", "theirs"), [(real.log, np.log), (real.log2, np.log2), (real.exp, np.exp), (real.tanh, np.tanh)]
)
def test_functions_are_right_to_the_last_places_of_doubles(ours: Any, theirs: Any) -> None:
    """On both sides of where series take over from each other, and at powers of two."""
    near = np.concatenate(
        [np.linspace(c - 0.2, c + 0.2, 997) for c in (0.17, 1.0, 1.4142135623730951, 2.0, 8.0)]
    )
    x = np.concatenate([near, 2.0 ** np.arange(-40, 40), np.geomspace(1e-300, 300, 999)])
    x = x[x > 0]
    if ours is real.exp:
        x = np.concatenate([x[x < 700], -x[x < 700]])
    want = theirs(x.astype(np.longdouble))
    with np.errstate(all="ignore"):
        found = ours(x)
    error = np.abs(found - want) / np.spacing(np.abs(want.astype(np.float64)))
    assert float(error.max()) < 6, x[int(error.argmax())]
