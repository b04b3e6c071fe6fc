"""Every instruction in every lawful format: what the simulator really runs gives the bits of the meaning.

Tensor rows go through plans, twice, so that the machine code of hot instructions is met; scalar rows through
their quick form. Operands are random with edge values; sizes include 0 and 1.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilobite.processor.isa.address import address
from trilobite.processor.isa.encode import Instruction, unlawful
from trilobite.processor.isa.formats import pack
from trilobite.processor.isa.row import NRAM, SRAM, WRAM, IllegalOperands, Operands, Row
from trilobite.processor.isa.table import TABLE
from trilobite.processor.machine import load_machine
from trilobite.processor.sim.core import Core
from trilobite.processor.sim.kernels import KERNELS
from trilobite.processor.sim.memory import Memory, Place
from trilobite.processor.sim.plans import HOT, Plan
from trilobite.processor.sim.prepared import Prepared
from trilobite.processor.sim.routines.choice import has_forms, vector_routine

TENSOR = [row for row in TABLE if row.is_tensor and row.timing not in ("dma", "multicast")]
COPIES = [row for row in TABLE if row.timing in ("dma", "multicast")]
SCALAR = [row for row in TABLE if row.meaning is not None and not row.is_tensor]
EDGES = (0, 1, 2, 63, 64, 65, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1)


def name(row: Row) -> str:
    return f"{row.mnemonic}-{row.opcode:x}"


@pytest.fixture(scope="module")
def core() -> Core:
    return Core(Place(0, 0), Memory(load_machine("dlp-m")), KERNELS, traced=False)


@pytest.mark.parametrize("row", TENSOR, ids=name)
def test_tensor_rows(row: Row, core: Core, operands_for, values_for) -> None:
    compared: set[tuple[Any, ...]] = set()

    @settings(max_examples=10 if len(row.flags) > 2 else 3, deadline=None, derandomize=True, database=None)
    @given(st.integers(0, 2**32), st.booleans())
    def check(seed: int, edges: bool) -> None:
        rng = np.random.default_rng(seed)
        for formats in row.formats or ((),):
            o = operands_for(rng, row, formats)
            if row.mnemonic == "VFMA":
                o.values["c"] = o.values["b"] + 8192
            flags = tuple(o.values[flag.name] for flag in row.flags)
            instruction = Instruction(row, (0,) * len(row.registers), formats, flags)
            if unlawful(instruction):
                continue
            with contextlib.suppress(IllegalOperands):
                _compare(core, instruction, o, rng, edges, values_for)
                compared.add(formats)

    with np.errstate(all="ignore"):
        check()
    assert len(compared) >= 0.8 * len(row.formats)


@pytest.mark.parametrize("row", COPIES, ids=name)
def test_copies(row: Row, core: Core, values_for) -> None:
    """Loads, stores, moves and strided copies, dense and with holes, from and to overlapping bytes."""
    compared = 0

    @settings(max_examples=12, deadline=None, derandomize=True, database=None)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        nonlocal compared
        rng = np.random.default_rng(seed)
        for formats in row.formats or ((),):
            o = _copy_operands(rng, row, formats)
            instruction = Instruction(row, (0,) * len(row.registers), formats, (), o.values.get("offset", 0))
            _compare(core, instruction, o, rng, True, values_for)
            compared += 1

    core.memory.blocks[:] = [(64, 1 << 20)]
    check()
    assert compared >= 12


def _copy_operands(rng: np.random.Generator, row: Row, formats: tuple[Any, ...]) -> Operands:
    size = formats[0].align if formats else 1
    matrix, is_far = row.mnemonic.startswith("M"), "offset" in [operand.name for operand in row.operands]
    near = SRAM if row.mnemonic == "COPYX" else WRAM if matrix else NRAM
    values: dict[str, Any] = {f"f{i}": fmt for i, fmt in enumerate(formats)}
    values |= {name: address(near, size * int(rng.integers(0, 96))) for name in ("dst", "a")}
    if row.mnemonic == "COPYX":
        values["dst"] = address(NRAM, int(rng.integers(0, 96)))
    if is_far:
        values |= {"base": 4096 + size * int(rng.integers(0, 96)), "offset": size * int(rng.integers(16, 96))}
        if not any(operand.name == "base" for operand in row.operands):
            del values["base"]
            values["offset"] += 4096
    values |= {"n": int(rng.integers(0, 70)), "mask": int(rng.integers(1, 16))}
    pieces = {"count": 4, "count0": 3, "count1": 3}
    values |= {field: int(rng.integers(1, most)) for field, most in pieces.items()}
    for field in ("dst_stride", "dst_stride0", "dst_stride1"):  # written pieces do not meet
        wide = 3 * 300 if field.endswith("1") else 80
        values[field] = wide + int(rng.integers(0, 20))
    for field in ("a_stride", "a_stride0", "a_stride1"):
        values[field] = int(rng.integers(0, 90)) % (1 << 64)
    return Operands(values)


def _compare(
    core: Core, instruction: Instruction, o: Operands, rng: Any, edges: bool, values_for: Any
) -> None:
    row, memory, here = instruction.row, core.memory, core.place
    reads, writes = list(row.reads(o)) if row.reads else [], list(row.writes(o))
    given_arrays = [values_for(rng, region.fmt, region.shape, edges) for region in reads]
    for place, region in enumerate(reads):
        if region.address == o.values.get("index"):  # indices of places that are there
            given_arrays[place] = rng.integers(0, 2, region.shape).astype(region.fmt.dtype)
    for region, values in zip(reads, given_arrays, strict=True):
        memory.write(here, region, values)
    results = row.meaning(o, *[memory.read(here, region).copy() for region in reads])
    prepared = Prepared(instruction)
    for heat in (0, HOT):
        for region, values in zip(reads, given_arrays, strict=True):
            memory.write(here, region, values)
        prepared.heat = heat
        outputs = Plan(core, prepared, o).run(core)
        for region, values in zip(writes, results, strict=False):
            got = np.ascontiguousarray(memory.view(here, region)).tobytes()
            assert got == pack(region.fmt, values).tobytes(), (instruction, o.values, heat)
        assert outputs == [int(value) for value in results[len(writes) :]]


def instruction_of(row: Row, formats: tuple[Any, ...]) -> Instruction:
    flags = tuple(flag.choices[0] for flag in row.flags)
    return Instruction(row, (0,) * len(row.registers), formats, flags)


def test_the_hot_form_is_machine_code_where_it_says_so(core: Core, operands_for) -> None:
    """The comparison above would be hollow if no row had machine code."""
    pairs = [
        (row, formats)
        for row in TENSOR
        for formats in row.formats
        if not has_forms(instruction_of(row, formats)) and vector_routine(instruction_of(row, formats))
    ]
    assert len(pairs) > 800
    for row, formats in pairs[::50]:
        o = operands_for(np.random.default_rng(1), row, formats)
        if row.mnemonic == "VFMA":
            o.values["c"] = o.values["b"] + 8192
        prepared = Prepared(instruction_of(row, formats))
        prepared.heat = HOT
        assert o.n == 0 or Plan(core, prepared, o).whole is not None, (row.mnemonic, formats)


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
