"""Translated code at work: the state of one core around it.

Enters: the code of a program, a core. Leaves: the core behind the last instruction that the code could do,
with the records that the interpreter would have left.
"""

from __future__ import annotations

import numpy as np

from trilobite.processor.isa.address import NUMBERS
from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.row import ACC, CODE, GDRAM, LDRAM, NRAM, WRAM, IllegalOperands, Operands, signed
from trilobite.processor.sim import native_state
from trilobite.processor.sim.core import Core
from trilobite.processor.sim.memory import Memory, Place
from trilobite.processor.sim.native_state import (
    DRAM,
    EXECUTED,
    FAR,
    LIMIT,
    PC,
    RANDOM_BLOCK,
    READ_HIGH,
    READ_LOW,
    SCALAR_PLACE,
    SCRATCH,
    SEED,
    WRITE_HIGH,
    WRITE_LOW,
)
from trilobite.processor.sim.prepared import CLASS_NUMBER
from trilobite.processor.sim.record import SCALAR_CLASSES, ScalarRecord
from trilobite.processor.sim.site_table import SiteTable
from trilobite.processor.sim.steps import Shadow, Steps

SHORT, PATIENCE = 8, 16  # instructions, and calls that end so soon, before an entry point is given up
AMPLE = 4096  # a limit that no block reaches at once


class CoreCode:
    """Translated code with the state of one core: its registers, and where its memories are."""

    def __init__(self, translation: SiteTable, memory: Memory, place: Place) -> None:
        self.translation, self.entry_points = translation, set(translation.entry_points)
        self._short: dict[int, int] = {}
        self.counts = np.zeros(len(SCALAR_CLASSES), np.int64)
        self.state = self._made_state()
        self._victim = 0
        for space, number in NUMBERS.items():
            if (
                space == GDRAM
                or (place.is_memory_core and space in (NRAM, WRAM, ACC))
                or not memory.size(space)
            ):
                continue
            backing = memory.code if space == CODE else memory.pad(space, place.cluster, place.core)
            row = (backing.ctypes.data, len(backing), space not in (CODE, LDRAM), space != CODE)
            self.state[native_state.SPACES + 4 * number :][:4] = row
        self.state[native_state.SPACES] = memory.gdram.ctypes.data
        self.state[native_state.ALIGNED] = -1 if memory.aligned else 0
        is_stepped = bool(translation.sites) or translation.needs_steps
        self._steps = Steps(translation, memory, self.state, self.counts) if is_stepped else None

    def _made_state(self) -> Array:
        return np.zeros(native_state.STATE_WORDS, np.int64)

    def follow(self, shadow: Shadow) -> None:
        """Tensor instructions are only noted from now on."""
        assert self._steps is not None
        self._steps.follow(shadow)

    def remember_block(self, memory: Memory, offset: int) -> None:
        """Puts the DRAM block of an address among the four that translated code knows."""
        for start, end in memory.blocks:
            if start <= offset < end:
                self.state[native_state.BLOCKS + 2 * self._victim :][:2] = (start, end)
                self._victim = (self._victim + 1) % 4
                return

    def visited(self, place: int, operands: Operands) -> None:
        """The interpreter did a tensor instruction."""
        self.translation.visited(place, operands)

    def run(self, core: Core, limit: int) -> int:
        """Runs until something is left to the interpreter; gives the instructions executed."""
        if not self.translation.is_ready(core.pc):
            return 0
        state, started = self.state, core.pc
        state[:64] = np.array(core.registers, np.uint64).view(np.int64)
        state[PC] = core.pc
        state[SEED] = signed(core.special.get("randomSeed", 0))
        state[RANDOM_BLOCK] = core.random_block
        if core.traced:
            self._continue(core.take_scalar(), started)
        executed = self._through(core, limit)
        while executed < limit and self.translation.is_eager and self._goes_on(core):
            executed += self._through(core, limit - executed)
        core.random_block = int(state[RANDOM_BLOCK])
        if core.traced:
            self._account(core)
        if executed < SHORT and limit > AMPLE and not self.translation.is_cold(core.pc):
            self._count_short(started)  # it was neither the limit nor code to come that ended it
        return executed

    def _through(self, core: Core, limit: int) -> int:
        """One call of the code; gives the instructions executed."""
        state = self.state
        state[EXECUTED], state[LIMIT] = 0, limit
        if self._steps is not None:
            self._steps.begin(core)
        self.translation.run(state, self.counts)
        core.registers = state[:64].view(np.uint64).tolist()
        core.pc = int(state[PC])
        if core.traced and self._steps is not None:
            self._steps.end(core)
        return int(state[EXECUTED])

    def _goes_on(self, core: Core) -> bool:
        """Whether what stopped the code was only that it had no room, or no code for a tensor instruction
        with these sizes yet, and now it has."""
        if self._steps is not None and self._steps.is_out_of_room(core):
            return True
        number = self.translation.numbers.get(core.pc)
        if number is None:
            return False
        try:
            return self.translation.warm(number, core.operands(self.translation.sites[number].prepared))
        except IllegalOperands:  # the interpreter says what is wrong
            return False

    def _count_short(self, place: int) -> None:
        """Entering for only a few instructions is dearer than interpreting them: it is given up."""
        self._short[place] = self._short.get(place, 0) + 1
        if self._short[place] >= PATIENCE:
            self.entry_points.discard(place)

    def _continue(self, record: ScalarRecord | None, started: int) -> None:
        """Goes on with the core's running scalar record."""
        state = self.state
        state[SCRATCH], state[DRAM] = 0, 0
        self.counts[:] = record.counts if record else 0
        state[SCALAR_PLACE] = record.place if record else started
        state[READ_LOW : READ_HIGH + 1] = record.reads if record and record.reads else (FAR, 0)
        state[WRITE_LOW : WRITE_HIGH + 1] = record.writes if record and record.writes else (FAR, 0)

    def _account(self, core: Core) -> None:
        """What is left of scalar work is the core's running record."""
        state, counts = self.state, self.counts
        counts[CLASS_NUMBER["scratchpad"]] += state[SCRATCH]
        counts[CLASS_NUMBER["dram"]] += state[DRAM]
        counts[CLASS_NUMBER["issue"]] += state[SCRATCH]  # an interlock looks at every scratchpad access
        if counts.any():
            record = core.scalar_record(int(state[SCALAR_PLACE]))
            record.counts = counts.tolist()
            reads, writes = state[READ_LOW : READ_HIGH + 1], state[WRITE_LOW : WRITE_HIGH + 1]
            record.reads = (int(reads[0]), int(reads[1])) if reads[1] else None
            record.writes = (int(writes[0]), int(writes[1])) if writes[1] else None
