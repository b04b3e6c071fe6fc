"""Undefined bytes: how they spread, where they are reported, and what is not an error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilobite.processor.device import Device
from trilobite.processor.isa.assembler import assemble_program
from trilobite.processor.isa.formats import FORMATS, I4, pack
from trilobite.processor.isa.row import DMA, IO, MOVE, Operands
from trilobite.processor.isa.rows.scalar import INTEGER_FORMATS
from trilobite.processor.isa.table import TABLE
from trilobite.processor.sim.prepared import Prepared, prepare
from trilobite.processor.tools.checks import findings_of
from trilobite.processor.tools.register_masks import FULL, result_mask
from trilobite.processor.tools.spreading import spread

TENSOR = [row for row in TABLE if row.is_tensor and row.queue not in (IO, MOVE, DMA)]
INDICES = {"VGATH": 1, "VSCAT": 2, "VUNPOOL": 1}  # arrays whose values must stay lawful


def same(a, b) -> np.ndarray:
    """Element by element, bit for bit."""
    left, right = (np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}") for x in (a, b))
    return left == right


def finite(values) -> np.ndarray:
    return (
        values if values.dtype.kind in "iu" else np.where(np.isfinite(values), values, 5).astype(values.dtype)
    )


@pytest.mark.parametrize("row", TENSOR, ids=lambda row: f"{row.mnemonic}-{row.opcode}")
def test_what_depends_on_undefined_elements_is_undefined(row, rng, operands_for, values_for) -> None:
    """Whatever finite numbers stand in the undefined elements, the results outside the mask do not change:
    products with 0 and sums with INF are how kernels leave padded lanes out.
    """
    for _ in range(6):
        formats = row.formats[int(rng.integers(len(row.formats)))]
        o = operands_for(rng, row, formats)
        reads = list(row.reads(o)) if row.reads else []
        arrays = [values_for(rng, read.fmt, read.shape, edges=False) for read in reads]
        index = INDICES.get(row.mnemonic)
        if index is not None:
            limit = o.m if "m" in o.values else o.kh * o.kw
            arrays[index] = rng.integers(0, limit, reads[index].shape).astype(reads[index].fmt.dtype)
        masks = [rng.random(read.shape) < rng.choice([0.0, 0.1]) for read in reads]
        if index is not None:
            masks[index][...] = False
        results = spread(row, o, masks, lambda number, arrays=arrays: arrays[number])
        with np.errstate(all="ignore"):
            first = row.meaning(o, *arrays)
            for _ in range(3):
                garbage = [finite(values_for(rng, read.fmt, read.shape)) for read in reads]
                other = [np.where(mask, some, values).astype(values.dtype)
                         for mask, some, values in zip(masks, garbage, arrays, strict=True)]  # fmt: skip
                second = row.meaning(o, *other)
                for a, b, mask in zip(first, second, results, strict=True):
                    a, b = np.asarray(a), np.asarray(b)
                    assert np.broadcast_to(mask, a.shape).shape == a.shape
                    assert (same(a, b) | mask).all()


def test_defined_elements_stay_defined(rng, operands_for) -> None:
    """An instruction that reads nothing undefined writes nothing undefined."""
    for row in TENSOR:
        o = operands_for(rng, row, row.formats[0])
        reads = list(row.reads(o)) if row.reads else []
        masks = [np.zeros(read.shape, bool) for read in reads]
        values = [np.zeros(read.shape, read.fmt.dtype) for read in reads]
        assert not any(np.any(mask) for mask in spread(row, o, masks, lambda n, v=values: v[n]))


SCALAR = [row for row in TABLE if row.queue == "scalar" and row.meaning is not None]


@given(st.integers(0, 10_000))
def test_register_masks_are_sound(seed: int) -> None:
    """Whatever the undefined bits are, the bits outside the result's mask stay the same."""
    rng = np.random.default_rng(seed)
    row = SCALAR[int(rng.integers(len(SCALAR)))]
    formats = row.formats[int(rng.integers(len(row.formats)))] if row.formats else ()
    from trilobite.processor.isa.encode import Instruction

    flags = tuple(flag.choices[0] for flag in row.flags)
    registers = tuple(range(len(row.registers)))
    immediate = int(rng.integers(-40, 40)) if row.immediate else 0
    prepared = Prepared(Instruction(row, registers, formats, flags, immediate))
    values = [int(v) for v in rng.integers(0, 1 << 63, 8, np.uint64)]
    chosen = int(rng.integers(1, 5))
    masks = [0] * 8
    masks[chosen] = int(rng.integers(0, 1 << 63, dtype=np.uint64)) & (FULL >> int(rng.integers(0, 60)))
    allowed = FULL & ~result_mask(prepared, masks, values)

    def result(given: list[int]) -> int:
        named = dict(prepared.static)
        named.update({name: given[register] for name, register, _ in prepared.fields})
        with np.errstate(all="ignore"):
            return row.meaning(Operands(named))[0] & allowed

    for _ in range(4):
        other = list(values)
        other[chosen] ^= int(rng.integers(0, 1 << 63, dtype=np.uint64)) & masks[chosen]
        assert result(other) == result(values)


def test_masks_are_followed_bit_by_bit() -> None:
    (mask,) = prepare(assemble_program("SAND.i64 $2, $1, #255"))
    assert result_mask(mask, [0, 0xFF00] + [0] * 62, [0] * 64) == 0
    assert result_mask(mask, [0, 0xFF10] + [0] * 62, [0] * 64) == 0x10
    (left,) = prepare(assemble_program("SSHL.u32 $2, $1, #4"))
    assert result_mask(left, [0, 0xF000_000F] + [0] * 62, [0] * 64) == 0xF0
    (wide,) = prepare(assemble_program("SADD.u8 $2, $1, $1"))
    assert result_mask(wide, [0, 0xFF00] + [0] * 62, [0] * 64) == 0
    assert result_mask(wide, [0, 1] + [0] * 62, [0] * 64) == 0xFF
    (move,) = prepare(assemble_program("SMOVE $2, $1"))
    assert result_mask(move, [0, 5] + [0] * 62, [0] * 64) == 5
    assert INTEGER_FORMATS[0].bits == 64


def check(source: str, args=(), machine: str = "dlp-s", **options) -> list[str]:
    device = Device(machine)
    given = [device.array(a) if isinstance(a, np.ndarray) else device.empty(*a) for a in args]
    return [finding.what for finding in findings_of(device, device.load(source), given, **options)]


COPY_OUT = """
    LI $10, #nram(0)
    SMOVE $1, #{n}
    {fill}
    SMOVE $1, #64
    COPY $0, $10, $1
"""


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS if fmt.bits != 4 and fmt.name != "tf32"])
def test_bytes_are_counted_in_every_format(fmt) -> None:
    """48 bytes of a format are written, 64 stored."""
    n = 48 * 8 // fmt.bits
    loaded = COPY_OUT.format(n=n, fill=f"VLOAD.{fmt.name} $10, $1, $0, #0\nSYNC")
    out = np.arange(64, dtype=np.uint8)
    assert check(loaded, [out]) == [
        "uninitialised bytes reach DRAM: 16 of 64 bytes, nram+0x30 was never written"
    ]


def test_halves_of_bytes() -> None:
    source = """
        LI $10, #nram(0)
        LI $11, #nram(4096)
        SMOVE $1, #7
        VLOAD.i4 $10, $1, $0, #0
        SMOVE $1, #10
        VCVT.i8.i4 $11, $1, $10
        VSTORE.i8 $11, $1, $0, #0
    """
    packed = pack(I4, np.arange(7) - 3)
    assert len(packed) == 4
    assert check(source, [np.zeros(16, np.uint8)]) == [
        "uninitialised bytes reach DRAM: 2 of 10 bytes, nram+0x4 was never written"
    ]


def test_what_was_reported_is_not_reported_again() -> None:
    source = COPY_OUT.format(n=1, fill="") + "SYNC\nVLOAD.u8 $10, $1, $0, #0\nSYNC\nCOPY $0, $10, $1"
    assert len(check(source, [np.zeros(64, np.uint8)])) == 1


def test_the_origin_is_told_through_computation() -> None:
    source = """
        LI $10, #nram(0)
        LI $11, #nram(0x1000)
        LI $12, #nram(0x2000)
        SMOVE $1, #16
        SMOVE $2, #12
        VLOAD $10, $2, $0, #0
        VEXP $11, $1, $10
        VMOVE $12, $1, $11
        VSUM $12, $1, $12
        SLOAD.f32 $3, $12, #0
        SSTORE.f32 $3, $0, #0
    """
    assert check(source, [np.zeros(16, np.float32)]) == [
        "uninitialised bytes reach DRAM: $3, nram+0x30 was never written"
    ]
    stored = source.replace("SLOAD.f32 $3, $12, #0", "VSTORE $11, $1, $0, #0").replace(
        "SSTORE.f32", "SMOVE $4, $3 //"
    )
    assert check(stored, [np.zeros(16, np.float32)]) == [
        "uninitialised bytes reach DRAM: 16 of 64 bytes, nram+0x30 was never written"
    ]


def test_host_arrays_know_what_was_written() -> None:
    source = "LI $10, #nram(0)\nSMOVE $2, #8\nVLOAD $10, $2, $0, #0\nVSTORE $10, $2, $1, #0"
    device = Device("dlp-s")
    kernel = device.load(source)
    empty, out = device.empty(8), device.empty(8)
    assert len(findings_of(device, kernel, [empty, out])) == 1
    empty.write(np.ones(8))
    assert findings_of(device, kernel, [empty, out]) == []
    assert findings_of(device, kernel, [out, empty]) == []  # the last launch wrote it
    fresh = device.empty(8)
    device.launch(kernel, [empty, fresh], checks=False)
    assert findings_of(device, kernel, [fresh, out]) == []  # nobody watched, so nobody is accused
    partly = device.empty(16)
    assert findings_of(device, kernel, [empty, partly]) == []
    longer = device.load(source.replace("#8", "#16"))
    big = device.array(np.zeros(16))
    assert [finding.what for finding in findings_of(device, longer, [partly, big])] == [
        f"uninitialised bytes reach DRAM: 32 of 64 bytes, gdram+{partly.address + 32:#x} was never written"
    ]


def test_scratchpads_start_unwritten_in_every_launch() -> None:
    device = Device("dlp-s")
    out = device.array(np.zeros(4, np.float32))
    fill = device.load("LI $10, #nram(0)\nSMOVE $2, #4\nVSET $10, $2, #1")
    store = device.load("LI $10, #nram(0)\nSMOVE $2, #4\nVSTORE $10, $2, $0, #0")
    assert findings_of(device, fill) == []
    assert len(findings_of(device, store, [out])) == 1


def test_spills_and_selection_are_normal() -> None:
    """An undefined register may be spilled, moved and selected away; only its use counts."""
    source = """
        LI $10, #nram(0)
        SLOAD.i64 $2, $10, #0       // undefined
        SADD $62, $62, #-16
        SSTORE.i64 $2, $62, #8      // spilled
        SLOAD.i64 $3, $62, #8
        SMOVE $4, #0
        SMOVE $5, #7
        SSEL $6, $4, $3, $5         // not chosen
        SSTORE.i64 $6, $0, #0
        SAND $7, $3, #0
        SSTORE.i64 $7, $0, #8
        SADD $62, $62, #16
    """
    assert check(source, [np.zeros(2, np.int64)]) == []
    assert check(source.replace("SAND $7, $3, #0", "SAND $7, $3, #4"), [np.zeros(2, np.int64)]) == [
        "uninitialised bytes reach DRAM: $7, loaded from nram+0x0 (<text>:3)"
    ]


def test_atomics_on_unwritten_memory() -> None:
    source = "SMOVE $1, #1\nATOMIC.i64.add $2, $0, $1\nATOMIC.i64.add $2, $0, $1"
    assert check(source, [(1, "int64")]) == [
        "uninitialised bytes reach an atomic: gdram+0x100000 was never written"
    ]
    assert check(source, [np.zeros(1, np.int64)]) == []


def test_a_count_of_undefined_elements_is_undefined() -> None:
    source = """
        LI $10, #nram(0)
        LI $11, #nram(4096)
        SMOVE $1, #8
        VSET $10, $1, #1
        VFILT $10, $1, $10, $11, $5
        CB #end, $5
        end: HALT
    """
    assert check(source) == ["uninitialised bytes reach a branch: $5, nram+0x1000 was never written"]


def test_the_stack_of_the_memory_core_lies_in_sram() -> None:
    source = """
        SREAD $1, #isMpu
        CBZ #end, $1
        LI $2, #{size}
        SSUB $62, $62, $2
        SSTORE.i64 $1, $62, #0
        end: HALT
    """
    options = {"machine": "dlp-m", "dim": (4, 1, 1), "task": "union1"}
    assert check(source.format(size=128 * 1024), **options) == []
    assert check(source.format(size=128 * 1024 + 8), **options) == [
        "stack overflow: sram+0x1dfff8 is outside the room of the stack"
    ]


def test_a_register_that_was_never_a_stack_is_free() -> None:
    assert check("LI $62, #nram(64)\nSADD $62, $62, #-64\nSMOVE $1, #3\nSSTORE.i32 $1, $62, #0") == []
