"""Tensor instructions that translated code can do by itself: which they are, and what it must know of them.

Enters: a prepared instruction. Leaves: a `Site`, the words that `tensor_step` reads, or None if the
instruction is the interpreter's. Where the operands lie is found by asking the row for the regions of marked
operands. Instructions with several sizes get a `Form` for each set of sizes that they are met with.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from trilobite.native.cache import Kernels, kernels
from trilobite.processor.isa.address import NUMBERS
from trilobite.processor.isa.formats import I4, Array
from trilobite.processor.isa.row import VALUE_FIELDS, IllegalOperands, Operands, Region, signed
from trilobite.processor.isa.rows.scalar import from_immediate
from trilobite.processor.sim import scalar_step, tensor_step
from trilobite.processor.sim.access import access_text, fill_text
from trilobite.processor.sim.native_state import FIELDS, SEED, STATE_WORDS
from trilobite.processor.sim.prepared import Prepared, sync_queues, tensor_record
from trilobite.processor.sim.record import TensorRecord
from trilobite.processor.sim.routines.choice import Routine, form_routine, has_forms, vector_routine
from trilobite.processor.sim.tensor_step import (
    BY_COUNT,
    BY_CYCLE,
    MOST_FIELDS,
    MOST_KEYS,
    MOST_REGIONS,
    SINGLE,
    TensorState,
)
from trilobite.processor.sim.timing.ranges import bounds
from trilobite.processor.sim.typed_python import module_text

MARK = 32  # operand k is probed with (k + 1) << MARK, so that a region says whose address it has
PROBED = {"n": 48, "m": 16}
ADDRESSES = frozenset("dst a b g table index mask bias_at scale_at top_at total_at base".split())
HOT = 64  # executions of one instruction before machine code of its own is worth its price
FAMILIAR = 4  # visits with the same sizes that make a form worth its price
MOST_FORMS = 32  # of one site; of an eager one, EAGER_FORMS
EAGER_FORMS = 256
NOTHING = Routine("", 0)  # of instructions that are only noted
WORD = (1 << 64) - 1
ZERO = STATE_WORDS - FIELDS - 1  # a field that no instruction has


@lru_cache(maxsize=1)
def step_code() -> tuple[Kernels, int]:
    """The steps as machine code, and where they begin; behind them, the access to a word of the host,
    and what fills bytes of it."""
    code = kernels(
        [
            (module_text((tensor_step, scalar_step), TensorState, ["entry"]), 2),
            (access_text(), 2),
            (fill_text(), 2),
        ]
    )
    return code, code.addresses[0]


@lru_cache(maxsize=2048)
def routine_code(text: str) -> tuple[Kernels, int]:
    """A routine as machine code, and where it begins; the code lives as long as the first of the two."""
    code = kernels([(text, 3)])
    return code, code.addresses[0]


@dataclass(frozen=True, eq=False)
class Form:
    """An instruction with given sizes: its routine, and its regions as marked operands lie."""

    key: tuple[int, ...]
    routine: Routine
    reads: tuple[Region, ...]
    writes: tuple[Region, ...]
    facts: Array  # what the routine reads; the arrays that it points to live in `routine`

    @property
    def regions(self) -> tuple[Region, ...]:
        return (*self.reads, *self.writes)


class Site:
    """One tensor instruction of a program that runs as machine code once it is hot, or a SYNC."""

    def __init__(self, prepared: Prepared, place: int) -> None:
        self.prepared, self.place = prepared, place
        self.names = [name for name, _, _ in prepared.fields]
        self.is_copy = prepared.row.timing == "dma"
        is_sync = prepared.row.mnemonic == "SYNC"
        self.queues = sync_queues(prepared.instruction) if is_sync else ()  # that a SYNC waits for
        self.visits = 0
        self.regions: list[tuple[int, int, int, int, int]] = []
        self.reads = 0
        self.routine: Routine | None = None
        self.keys: list[int] = []  # fields that are sizes, if the site has forms
        self.addresses: list[int] = []
        self.forms: dict[int, Form] = {}  # of all sites of the program, by their number
        self.form_count = 0  # of this one
        self.is_eager = False  # whether it is hot when first met
        self.is_dry = False  # whether it is only noted, so that it needs no routine
        self._priced: tuple[object, dict[Hashable, Any]] = (None, {})  # of the machine that was timed last
        self._met: dict[tuple[int, ...], int] = {}
        self._records: dict[tuple[int, ...], TensorRecord] = {}

    @property
    def is_formed(self) -> bool:
        return self.routine is None and not self.queues

    @property
    def noted(self) -> int:
        """Values that a row of the log has: the registers, or the form and the addresses."""
        return 1 + len(self.addresses) if self.is_formed else len(self.names)

    @property
    def immediate(self) -> int | None:
        """The word of a scalar operand that is an immediate."""
        row, instruction = self.prepared.row, self.prepared.instruction
        if row.immediate is None or row.immediate.name != "imm":
            return None
        return from_immediate(instruction.formats[0], instruction.immediate)

    def words(self) -> list[int]:
        """What `tensor_step` reads."""
        names = self.names
        scalar = next((at for at, name in enumerate(names) if name in VALUE_FIELDS), len(names))
        if self.prepared.row.mnemonic == "RV":
            scalar = SEED - FIELDS
        cycle = names.index("m") if "m" in names and not self.is_formed else -1
        count = names.index("n") if "n" in names else 0
        overlap, scratch = (self.routine.overlap, self.routine.scratch) if self.routine else (0, 0)
        regions = [word for region in self.regions for word in region]
        logged = self.addresses if self.is_formed else list(range(len(names))) if self.regions else []
        return [self.place, count, cycle, scalar, overlap, int(self.is_copy), scratch, int(self.is_formed),
                len(self.regions), self.reads, len(self.keys), len(logged),
                *_filled(regions, tensor_step.REGION_WORDS * MOST_REGIONS), *_filled(logged, MOST_FIELDS),
                *_filled(self.keys, MOST_KEYS)]  # fmt: skip

    @property
    def kind(self) -> Hashable:
        """What the cost of an execution depends on, besides the operands: not registers, nor a scalar."""
        row, instruction = self.prepared.row, self.prepared.instruction
        is_scalar = row.immediate is None or row.immediate.name == "imm"
        fixed = 0 if is_scalar else instruction.immediate
        return row.opcode, instruction.formats, instruction.flags, fixed

    @property
    def is_waited_for(self) -> bool:
        """Whether control waits for it: it writes a register."""
        return bool(self.prepared.outputs)

    def is_hot(self) -> bool:
        """One visit of the interpreter more; copies need no code of their own, so they are hot at once."""
        self.visits += 1
        return self.visits >= (1 if self.is_copy or self.is_eager else HOT)

    def code(self) -> tuple[Kernels, int]:
        """The machine code of a vector instruction."""
        assert self.routine is not None
        return routine_code(self.routine.text)

    def new_form(self, o: Operands) -> Form | None:
        """The form of an execution, if it was met often enough and there is none yet."""
        key = tuple(o.values[self.names[field]] for field in self.keys)
        most = EAGER_FORMS if self.is_eager else MOST_FORMS
        met = self._met[key] = self._met.get(key, 0) + 1
        if met != (1 if self.is_eager else min(FAMILIAR, HOT)) or self.form_count >= most:
            return None
        marked = {self.names[field]: (field + 1) << MARK for field in self.addresses}
        given = Operands({**o.values, **marked})
        reads, writes = _regions(self.prepared, given)
        if not all(region.count for region in (*reads, *writes)) or len(reads) + len(writes) > MOST_REGIONS:
            return None
        routine = NOTHING if self.is_dry else form_routine(self.prepared.instruction, given)
        if routine is None:
            return None
        facts = [fact if isinstance(fact, int) else fact.ctypes.data for fact in routine.facts]
        return Form(key, routine, tuple(reads), tuple(writes), np.array(facts, np.int64))

    def form_words(self, form: Form, following: int) -> list[int]:
        """What `tensor_step` reads of a form."""
        areas = [word for region in form.regions for word in _area(region)]
        keys = [signed(value) for value in form.key]
        code = 0 if form.routine is NOTHING else routine_code(form.routine.text)[1]
        return [following, code, form.facts.ctypes.data, form.routine.scratch,
                form.routine.overlap, len(form.regions), len(form.reads), *_filled(keys, MOST_KEYS),
                *_filled(areas, tensor_step.AREA_WORDS * MOST_REGIONS)]  # fmt: skip

    def prices(self, machine: object) -> dict[Hashable, Any]:
        """What executions of this kind have cost on a machine, kept from one timing to the next."""
        if self._priced[0] is not machine:
            self._priced = (machine, {})
        return self._priced[1]

    def record(self, values: tuple[int, ...]) -> TensorRecord:
        """The record of an execution whose row of the log ends in these values."""
        found = self._records.get(values)
        if found is None:
            found = self._records[values] = tensor_record(self.place, self.prepared, self._operands(values))
        return found

    def _operands(self, values: tuple[int, ...]) -> Operands:
        words = dict.fromkeys(range(len(self.names)), 0)
        if self.is_formed:
            words |= dict(zip(self.keys, self.forms[values[0]].key, strict=True))
            words |= dict(zip(self.addresses, values[1:], strict=False))
        else:
            words |= dict(enumerate(values[: len(self.names)]))
        given = dict(self.prepared.static)
        for field, (name, _, is_signed) in enumerate(self.prepared.fields):
            given[name] = signed(words[field]) if is_signed else words[field] & WORD
        return Operands(given)


def _filled(words: Sequence[int], length: int) -> list[int]:
    return [*words, *[0] * (length - len(words))]


def marked_field(region: Region) -> tuple[int, int]:
    """Which field a region lies at, and how far behind; what lies at a constant, behind a word that is 0."""
    if region.address < 1 << MARK - 1:
        return ZERO, region.address
    field = ((region.address + (1 << MARK - 1)) >> MARK) - 1
    return field, region.address - (field + 1 << MARK)


def _spaces(region: Region) -> int:
    return sum(1 << NUMBERS[space] for space in region.spaces)


def _area(region: Region) -> tuple[int, ...]:
    low, high = bounds(region)
    if region.fmt is I4:  # packed without gaps
        low, high = region.address, region.address + region.bytes
    return (*marked_field(region), low - region.address, high - region.address, _spaces(region),
            region.fmt.align)  # fmt: skip


def site_of(prepared: Prepared, place: int) -> Site | None:
    """The instruction as a site, if translated code can do it."""
    row = prepared.row
    if row.mnemonic == "SYNC":
        return Site(prepared, place)
    if not row.is_tensor or len(prepared.outputs) > 1:
        return None
    return _formed_site(prepared, place) if has_forms(prepared.instruction) else _vector_site(prepared, place)


def dry_site_of(prepared: Prepared, place: int) -> Site | None:
    """The instruction as a site that is only noted: nearly all can be."""
    row = prepared.row
    if row.mnemonic == "SYNC":
        return Site(prepared, place)
    if not row.is_tensor or len(prepared.outputs) > 1 or row.timing == "multicast":
        return None
    has_sizes = has_forms(prepared.instruction)
    site = None if has_sizes else _vector_site(prepared, place, NOTHING)
    site = site or _formed_site(prepared, place)
    if site is not None:
        site.is_dry = site.is_eager = True
    return site


_OPERANDS: dict[Hashable, tuple[list[tuple[int, int, int, int, int]], int] | None] = {}  # by kind


def _formed_site(prepared: Prepared, place: int) -> Site | None:
    site = Site(prepared, place)
    site.addresses = [field for field, name in enumerate(site.names) if name in ADDRESSES]
    sizes = enumerate(site.names)
    site.keys = [field for field, name in sizes if name not in ADDRESSES and name not in VALUE_FIELDS]
    return site if len(site.keys) <= MOST_KEYS and len(site.addresses) < MOST_FIELDS else None


def _vector_site(prepared: Prepared, place: int, routine: Routine | None = None) -> Site | None:
    site = Site(prepared, place)
    if "n" not in site.names or len(site.names) > MOST_FIELDS:
        return None
    kind = site.kind
    if kind not in _OPERANDS:
        _OPERANDS[kind] = _vector_regions(prepared)
    found = _OPERANDS[kind]
    if found is None:
        return None
    site.routine = routine or vector_routine(prepared.instruction)
    site.regions, site.reads = found
    return site if site.routine is not None else None


def _vector_regions(prepared: Prepared) -> tuple[list[tuple[int, int, int, int, int]], int] | None:
    """Where the operands of a vector instruction lie, and how many are read; None if they are not plain."""
    values = dict(prepared.static)
    named = enumerate(name for name, _, _ in prepared.fields)
    values |= {name: PROBED.get(name, (number + 1) << MARK) for number, name in named}
    try:
        reads, writes = _regions(prepared, Operands(values))
    except IllegalOperands:
        return None
    everything = (*reads, *writes)
    is_plain = all(len(region.shape) == 1 and region.fmt.bits >= 8 for region in everything)
    if len(everything) > MOST_REGIONS or not is_plain:
        return None
    return [_counted(region) for region in everything], len(reads)


def _counted(region: Region) -> tuple[int, int, int, int, int]:
    """Field, offset, memories, what counts its elements, and their bytes."""
    extent = region.shape[0]
    counted = BY_COUNT if extent == PROBED["n"] else BY_CYCLE if extent == PROBED["m"] else SINGLE
    return (*marked_field(region), _spaces(region), counted, region.fmt.bits // 8)


def _regions(prepared: Prepared, o: Operands) -> tuple[Sequence[Region], Sequence[Region]]:
    assert prepared.row.writes is not None
    return prepared.row.reads(o) if prepared.row.reads else (), prepared.row.writes(o)
