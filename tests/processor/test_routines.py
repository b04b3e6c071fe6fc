"""Every instruction that has a routine, in every lawful format: bytes, records and cycles of the meaning.

A program executes it several times with operands that move, once by the meanings alone and once as machine
code inside translated blocks. Values are random with edge values among them; some operands lie on each other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.processor.timing_model import replay_by_model
from trilobite.processor.device import Device
from trilobite.processor.isa.address import split
from trilobite.processor.isa.assembler import assemble_program
from trilobite.processor.isa.disassembler import instruction_text
from trilobite.processor.isa.encode import Instruction, unlawful
from trilobite.processor.isa.formats import F16, F32, pack
from trilobite.processor.isa.row import NRAM, WRAM, IllegalOperands, Operands, Row
from trilobite.processor.isa.table import TABLE
from trilobite.processor.sim import chip as chip_module
from trilobite.processor.sim import sites
from trilobite.processor.sim.chip import Chip
from trilobite.processor.sim.kernels import KERNELS
from trilobite.processor.sim.log import Log
from trilobite.processor.sim.memory import Place
from trilobite.processor.sim.prepared import Prepared
from trilobite.processor.sim.timing.native import replay

FIRST = 10  # register of the first operand
MOVES = 3  # places that operands are moved to
WITHOUT = {"VSORT", "COPYX"}  # have no routine
SPOTS = frozenset("dst a b g table index mask bias_at scale_at top_at total_at base".split())
ROWS = [row for row in TABLE if row.is_tensor and row.mnemonic not in WITHOUT]


@pytest.fixture(autouse=True)
def from_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is translated and hot at once, and nobody watches."""
    monkeypatch.setattr(chip_module, "TRANSLATE_AFTER", 0)
    monkeypatch.setattr(sites, "HOT", 1)
    monkeypatch.setattr("trilobite.processor.device.Device.checks", False)


def instruction_of(row: Row, formats: tuple[Any, ...], flags: tuple[str, ...], immediate: int) -> Instruction:
    registers, at = [], FIRST
    for operand in row.registers:
        registers.append(at)
        at += max(1, len(operand.fields))
    return Instruction(row, tuple(registers), formats, flags, immediate)


def moved(row: Row, o: Operands, step: int) -> Operands:
    """The same operands elsewhere."""
    spots = SPOTS | {"c"} if row.mnemonic == "VFMA" else SPOTS
    return Operands(
        {k: v + step if k in spots and row.mnemonic != "COPYX" else v for k, v in o.values.items()}
    )


def operands_of(
    rng: np.random.Generator, row: Row, formats: tuple[Any, ...], dram: int, make: Any
) -> Operands:
    o: Operands = make(rng, row, formats)
    if row.mnemonic == "VFMA":
        o.values["c"] = o.values["b"] + 8192
    if row.timing == "dma":
        o.values |= {"base": dram + 64 * int(rng.integers(0, 32)), "n": int(rng.integers(1, 70))}
        for name in ("dst_stride", "a_stride", "dst_stride0", "a_stride0"):
            o.values[name] = (72 + int(rng.integers(0, 40))) * int(rng.choice([1, -1])) % (1 << 64)
        o.values |= {"dst_stride1": 1000, "a_stride1": int(rng.integers(0, 1000))}
        for name in ("a", "dst"):
            o.values[name] = o.values.get(name, 0) + 4096
    elif rng.random() < 0.3:  # some sources on the target, and some of them exactly
        name = str(rng.choice([name for name in ("a", "b", "mask") if name in o.values] or ["dst"]))
        target = "table" if "table" in o.values else "dst"
        if split(o.values[name])[0] == split(o.values[target])[0]:
            o.values[name] = o.values[target] + 8 * int(rng.integers(0, 2))
    return o


def filled(
    device: Device, row: Row, instruction: Instruction, runs: list[Operands], rng: Any, make: Any
) -> None:
    """Random values of the formats wherever the instruction reads."""
    here = Place(0, 0)
    for pad in (device.memory.pad(space, 0, 0) for space in (NRAM, WRAM)):
        pad[: 1 << 17] = rng.integers(0, 256, 1 << 17, dtype=np.uint8)
    for o in runs:
        for region in row.reads(o) if row.reads else ():
            values = make(rng, region.fmt, region.shape, bool(rng.random() < 0.7))
            if region.address == o.values.get("index"):
                limit = o.m if "m" in o.values else o.kh * o.kw
                values = rng.integers(0, limit, region.shape).astype(region.fmt.dtype)
            view = device.memory.view(here, region)
            view[...] = pack(region.fmt, values).reshape(view.shape)


def execute(source: str, seed: int, fill: Any, translate: bool) -> tuple[list[bytes], Any, Device]:
    device = Device("dlp-s")
    data = device.array(np.random.default_rng(seed).integers(0, 256, 1 << 14, dtype=np.uint8))
    fill(device, np.random.default_rng(seed + 1))
    chip = Chip(device.machine, device.memory, KERNELS if translate else {}, translate)
    ready = replace(assemble_program(source), ahead=seed % 2 == 0)
    done = chip.execute(ready, 0, [data.address])
    pads = [device.memory.pad(space, 0, 0).tobytes() for space in (NRAM, WRAM)]
    return [data.numpy().tobytes(), *pads], done, device


def program(instruction: Instruction, runs: list[Operands]) -> str:
    """Some rounds over the places; the instruction stands there once, so that it has one site."""
    names = [(name, register) for name, register, _ in Prepared(instruction).fields]
    lines = ["SMOVE $5, #5", "again:", "SMOVE $6, #0", "next:"]
    for number, o in enumerate(runs):
        lines += [f"SE $7, $6, #{number}", f"CBZ #skip{number}, $7"]
        lines += [f"LI ${register}, #{o.values[name]}" for name, register in names]
        lines.append(f"skip{number}:")
    lines += [instruction_text(instruction), "SADD $6, $6, #1", f"SLT $7, $6, #{len(runs)}",
              "CBNZ #next, $7", "SADD $5, $5, #-1", "CB #again, $5"]  # fmt: skip
    return "\n".join(lines)


def compared(row: Row, formats: tuple[Any, ...], seed: int, operands_for: Any, values_for: Any) -> int | None:
    rng = np.random.default_rng(seed)
    dram = Device("dlp-s").array(np.zeros(1, np.uint8)).address
    o = operands_of(rng, row, formats, dram, operands_for)
    flags = tuple(o.values[flag.name] for flag in row.flags)
    immediate = int(rng.integers(-(1 << 20), 1 << 20)) if row.immediate else 0
    if row.timing == "dma" and row.immediate:
        immediate = 64 * int(rng.integers(0, 32)) + (0 if "base" in operand_names(row) else dram)
        o.values["offset"] = immediate
        if "base" not in operand_names(row):
            del o.values["base"]
    instruction = instruction_of(row, formats, flags, immediate)
    runs = [moved(row, o, 16 * step) for step in range(MOVES)]
    try:
        assert row.writes is not None
        sizes = [
            region.count
            for each in runs
            for region in (*(row.reads(each) if row.reads else ()), *row.writes(each))
        ]
    except IllegalOperands:
        return None
    if unlawful(instruction) or not all(sizes):
        return None

    def fill(device: Device, rng: np.random.Generator) -> None:
        filled(device, row, instruction, runs, rng, values_for)

    source = program(instruction, runs)
    try:
        slow_bytes, slow, _ = execute(source, seed, fill, False)
    except Exception as error:
        assert "index" in str(error), error  # an overlap changed an index
        return None
    fast_bytes, fast, device = execute(source, seed, fill, True)
    assert fast_bytes == slow_bytes, (instruction, o.values)
    assert fast.trace.cores[0].records == slow.trace.cores[0].records
    assert replay(device.machine, fast.trace).cycles == replay_by_model(device.machine, slow.trace).cycles
    return sum(len(part.rows) for part in fast.trace.cores[0].parts if isinstance(part, Log))


def operand_names(row: Row) -> list[str]:
    return [operand.name for operand in row.operands]


def has_routine(row: Row, formats: tuple[Any, ...]) -> bool:
    flags = tuple(flag.choices[0] for flag in row.flags)
    return sites.site_of(Prepared(instruction_of(row, formats, flags, 0)), 0) is not None


def check(row: Row, most: int, rounds: int, operands_for: Any, values_for: Any) -> None:
    chosen = [formats for formats in row.formats or ((),) if has_routine(row, formats)]
    rng = np.random.default_rng(row.opcode)
    picked = [chosen[place] for place in rng.permutation(len(chosen))[:most]]
    noted = 0
    with np.errstate(all="ignore"):
        for number, formats in enumerate(picked):
            for seed in range(rounds):
                start = 1000 * row.opcode + 10 * number + seed
                noted += compared(row, formats, start, operands_for, values_for) or 0
    assert noted >= len(picked)  # the comparison would be hollow if nothing ran as machine code


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.mnemonic}-{row.opcode:x}")
def test_routines_are_the_meanings(row: Row, operands_for: Any, values_for: Any) -> None:
    is_rich = len(row.flags) > 2  # most combinations of its flags are unlawful in some format
    check(row, 8 if is_rich else 2, 3 if is_rich else 2, operands_for, values_for)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.mnemonic}-{row.opcode:x}")
def test_routines_are_the_meanings_in_every_format(row: Row, operands_for: Any, values_for: Any) -> None:
    check(row, 1000, 3 if len(row.flags) > 1 else 2, operands_for, values_for)


def test_kinds_that_kernels_execute_often_have_routines() -> None:
    for row in ROWS:
        floats = [formats for formats in row.formats if formats and all(fmt in (F32, F16) for fmt in formats)]
        for formats in floats:
            assert has_routine(row, formats), (row.mnemonic, formats)


@pytest.mark.parametrize("name", ["MM", "CONV"])
def test_filters_that_are_dealt_to_lanes(name: str, operands_for: Any, values_for: Any) -> None:
    """Only from two rounds of lanes on does their order matter."""

    def dealt(rng: np.random.Generator, row: Row, formats: tuple[Any, ...]) -> Operands:
        o: Operands = operands_for(rng, row, formats)
        rounds, few = 64 * int(rng.integers(2, 4)), int(rng.integers(1, 6))
        sizes = {"n": rounds, "m": few, "k": few, "tb": "tb"}
        if name == "CONV":
            sizes = {"co": rounds, "ci": few, "groups": 1, "kh": 1, "kw": 2, "h": 3, "w": 4}
        o.values |= {**sizes, "lanes": "lanes"}
        return o

    for row in ROWS:
        if row.mnemonic == name:
            check(row, 6, 3, dealt, values_for)


@pytest.mark.parametrize("name", ["VPOOLX", "VPOOL", "VREDUCE", "VARGMAX", "VARGMIN", "VUNPOOL"])
def test_places_and_values_where_many_are_equal(name: str, operands_for: Any) -> None:
    """The first of equal ones is the one, the first NaN before all; windows of any size and step."""

    def drawn(rng: np.random.Generator, row: Row, formats: tuple[Any, ...]) -> Operands:
        o: Operands = operands_for(rng, row, formats)
        if "kh" in o.values:
            kh, kw = int(rng.integers(1, 5)), int(rng.integers(1, 5))
            o.values |= {"kh": kh, "kw": kw, "h": kh + int(rng.integers(0, 6)),
                         "w": kw + int(rng.integers(0, 6)), "sh": int(rng.integers(1, 4)),
                         "sw": int(rng.integers(1, 4)), "c": int(rng.integers(1, 20))}  # fmt: skip
            if name == "VPOOLX" and rng.random() < 0.4:  # both results on each other
                o.values["index"] = o.values["dst"] + 4 * int(rng.integers(0, 4))
        elif "length" in o.values:
            o.values |= {"outer": int(rng.integers(1, 5)), "length": int(rng.integers(1, 34)),
                         "inner": int(rng.integers(1, 9))}  # fmt: skip
        else:
            o.values["n"] = int(rng.integers(1, 130))
        return o

    def equal(rng: np.random.Generator, fmt: Any, shape: tuple[int, ...], wild: bool) -> Any:
        values = rng.integers(-2 if fmt.kind != "uint" else 0, 3, shape).astype(fmt.dtype)
        if fmt.kind == "float" and wild:
            values = np.where(rng.random(shape) < 0.1, np.asarray(np.nan, values.dtype), values)
            values = np.where(rng.random(shape) < 0.2, np.asarray(-0.0, values.dtype), values)
        return values

    for row in ROWS:
        if row.mnemonic == name:
            check(row, 3, 3, drawn, equal)
