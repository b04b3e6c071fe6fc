"""Tensor instructions that translated code can do by itself: which they are, and what it must know of them.

Enters: a prepared instruction. Leaves: a `Site`, the words that `tensor_step` reads, or None if the
instruction is the interpreter's: anything but element-by-element work with machine code in `lanes`, and
copies without holes. Where the operands lie is found by asking the row for the regions of marked operands.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from trilobite.native.cache import Kernels, kernels
from trilobite.processor.isa.address import NUMBERS
from trilobite.processor.isa.row import IllegalOperands, Operands, Region, signed
from trilobite.processor.isa.rows.scalar import from_immediate
from trilobite.processor.sim import tensor_step
from trilobite.processor.sim.lanes import base_name, has_lane, lane_function
from trilobite.processor.sim.plans import HOT
from trilobite.processor.sim.prepared import Prepared, sync_queues, tensor_record
from trilobite.processor.sim.record import TensorRecord
from trilobite.processor.sim.tensor_step import MOST_FIELDS, MOST_REGIONS, TensorState
from trilobite.processor.sim.typed_python import module_text

MARK = 32  # operand k is probed with (k + 1) << MARK, so that a region says whose address it has
PROBED = {"n": 48, "m": 16}
COPY = """
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
define void @entry(ptr %d, ptr %a, ptr %b, ptr %c, i64 %n, i64 %m) {
  call void @llvm.memmove.p0.p0.i64(ptr %d, ptr %a, i64 %n, i1 false)
  ret void
}
"""


@lru_cache(maxsize=1)
def step_code() -> tuple[Kernels, int]:
    """The step as machine code, and where it begins."""
    code = kernels([(module_text((tensor_step,), TensorState, ["entry"]), 2)])
    return code, code.addresses[0]


@lru_cache(maxsize=1)
def _copy() -> tuple[Kernels, int]:
    code = kernels([(COPY, 0)])
    return code, code.addresses[0]


class Site:
    """One tensor instruction of a program that runs as machine code once it is hot, or a SYNC."""

    def __init__(self, prepared: Prepared, place: int, regions: Sequence[Region]) -> None:
        self.prepared, self.place = prepared, place
        self.names = [name for name, _, _ in prepared.fields]
        self.is_copy = prepared.row.timing == "dma"
        self.queues = sync_queues(prepared.instruction) if not regions else ()  # that a SYNC waits for
        self.element = regions[-1].fmt.bits // 8 if regions else 0
        self.regions = [self._region(region) for region in regions]
        self.visits = 0
        self._records: dict[tuple[int, ...], TensorRecord] = {}

    def _region(self, region: Region) -> tuple[int, int, int, int]:
        """Which field it lies at, how far behind, in which memories, and whether the cycle counts it."""
        field = ((region.address + (1 << MARK - 1)) >> MARK) - 1
        spaces = sum(1 << NUMBERS[space] for space in region.spaces)
        return field, region.address - (field + 1 << MARK), spaces, int(region.shape[0] == PROBED["m"])

    @property
    def immediate(self) -> int | None:
        """The word of a scalar operand that is an immediate."""
        row, instruction = self.prepared.row, self.prepared.instruction
        is_scalar = base_name(row.mnemonic)[1] in ("scalar", "reversed") and row.immediate is not None
        return from_immediate(instruction.formats[0], instruction.immediate) if is_scalar else None

    def words(self) -> list[int]:
        """What `tensor_step` reads."""
        scalar = len(self.names) if self.immediate is not None else -1
        scalar = self.names.index("s") if "s" in self.names else scalar
        cycle = self.names.index("m") if "m" in self.names else -1
        regions = [word for region in self.regions for word in region]
        regions += [0] * (tensor_step.REGION_WORDS * MOST_REGIONS - len(regions))
        count = self.names.index("n") if self.regions else -1
        return [self.place, count, cycle, scalar, self.element, int(self.is_copy),
                len(self.regions), *regions]  # fmt: skip

    def is_hot(self) -> bool:
        """One visit of the interpreter more; copies need no code of their own, so they are hot at once."""
        self.visits += 1
        return self.visits >= (1 if self.is_copy else HOT)

    def code(self) -> tuple[Any, int]:
        """Its machine code, and where it begins; the code lives as long as the first of the two."""
        if self.is_copy:
            return _copy()
        name, mode = base_name(self.prepared.row.mnemonic)
        module, function = lane_function(name, self.prepared.instruction.formats[0], mode)
        return module, ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]

    def record(self, values: tuple[int, ...]) -> TensorRecord:
        """The record of an execution with these values of its registers."""
        found = self._records.get(values)
        if found is None:
            given = dict(self.prepared.static)
            for (name, _, is_signed), value in zip(self.prepared.fields, values, strict=False):
                given[name] = signed(value) if is_signed else value & (1 << 64) - 1
            found = self._records[values] = tensor_record(self.place, self.prepared, Operands(given))
        return found


def site_of(prepared: Prepared, place: int) -> Site | None:
    """The instruction as a site, if translated code can do it."""
    row = prepared.row
    if row.mnemonic == "SYNC":
        return Site(prepared, place, ())
    names = [name for name, _, _ in prepared.fields]
    if not row.is_tensor or prepared.outputs or "n" not in names or len(names) > MOST_FIELDS:
        return None
    if row.timing != "dma" and not _has_code(prepared):
        return None
    values = dict(prepared.static)
    values |= {name: PROBED.get(name, (number + 1) << MARK) for number, name in enumerate(names)}
    try:
        reads, writes = _regions(prepared, Operands(values))
    except IllegalOperands:
        return None
    everything = (*reads, *writes)
    is_plain = all(
        len(region.shape) == 1 and region.fmt.bits == writes[0].fmt.bits >= 8 for region in everything
    )
    is_found = all(region.address >= 1 << MARK - 1 for region in everything)
    if len(writes) != 1 or not 1 <= len(reads) < MOST_REGIONS or not (is_plain and is_found):
        return None
    return Site(prepared, place, everything)


def _regions(prepared: Prepared, o: Operands) -> tuple[Sequence[Region], Sequence[Region]]:
    assert prepared.row.writes is not None
    return prepared.row.reads(o) if prepared.row.reads else (), prepared.row.writes(o)


def _has_code(prepared: Prepared) -> bool:
    formats = prepared.instruction.formats
    return bool(formats) and has_lane(base_name(prepared.row.mnemonic)[0], formats[0])
