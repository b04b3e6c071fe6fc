"""Tensor instructions inside translated code: the state of their steps for one core, and the log they leave.

Enters: a translation's sites and a core's memories. Leaves: before a run of translated code, a state that
`tensor_step` can work on; after it, the rows that were noted, as a part of the core's trace.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Protocol

import numpy as np

from trilobite.processor.isa.address import NUMBERS
from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.row import signed
from trilobite.processor.isa.rows.control import SPECIAL_REGISTERS
from trilobite.processor.sim import native_state
from trilobite.processor.sim.log import Log
from trilobite.processor.sim.memory import Memory
from trilobite.processor.sim.sites import Site, step_code
from trilobite.processor.sim.tensor_step import MOST_REGIONS, ROW_WORDS, TensorState
from trilobite.processor.sim.typed_python import structure_of

if TYPE_CHECKING:
    from trilobite.processor.sim.core import Core

ROOM = 1 << 14  # rows of one stretch of the log
SCRATCH = 1 << 16  # bytes that routines find at first


class Shadow(Protocol):
    """What is known of a core's registers and memories while tensor instructions are not done."""

    taint: Array
    marks: Array
    undo: Array

    def keep(self, count: int) -> None:
        """The first words of `undo` are to be taken back one day."""


class Sites(Protocol):
    """What is asked of a translation."""

    sites: list[Site]
    kinds: Array
    is_waited_for: Array
    form_kinds: list[int]
    words: Array
    kernels: Array
    first_form: Array
    forms: Array
    code_words: Array
    field_registers: Array
    field_is_value: Array


class Steps:
    """The state of the steps of one core."""

    def __init__(self, translation: Sites, memory: Memory, state: Array, counts: Array) -> None:
        self._table = translation
        self._memory = memory
        self._state = state
        pads = np.zeros((len(NUMBERS), 2), np.int64)
        pads[:] = state[native_state.SPACES :][: 4 * len(NUMBERS)].reshape(-1, 4)[:, :2]
        found = np.array([0, *np.array(memory.blocks).reshape(-1)], np.int64)[1:]
        self._kept = {"kernel": translation.kernels, "site": translation.words, "state": state, "pads": pads,
                      "first_form": translation.first_form, "form": translation.forms, "blocks": found,
                      "counts": counts, "code": translation.code_words,
                      "fields": translation.field_registers, "is_value": translation.field_is_value,
                      "taint": np.zeros(64, np.int64),
                      "special": np.zeros(len(SPECIAL_REGISTERS), np.int64),
                      "host": np.zeros(2 * MOST_REGIONS, np.int64),
                      "size": np.zeros(2 * MOST_REGIONS, np.int64)}  # fmt: skip
        self._tensors = structure_of(TensorState)()
        for name, array in self._kept.items():
            setattr(self._tensors, name, array.ctypes.data)
        self._tensors.state_address = state.ctypes.data
        self._tensors.host_address = self._kept["host"].ctypes.data
        self._tensors.scratch_wanted = SCRATCH
        self._tensors.dram = memory.gdram.ctypes.data
        self._tensors.block_count = len(memory.blocks)
        self._tensors.code_count = len(translation.code_words)
        code, first = step_code()
        self._tensors.access, self._tensors.fill = code.addresses[1:]
        self._task: dict[str, int] = {}
        self._shadow: Shadow | None = None
        state[native_state.STEP] = first
        state[native_state.TENSORS] = ctypes.addressof(self._tensors)
        self._log = np.zeros((0, ROW_WORDS), np.int64)
        self._scratch = np.zeros(0, np.uint8)
        self._taken = 0

    def follow(self, shadow: Shadow) -> None:
        """From now on tensor instructions are noted and not done, and what they would write is unknown."""
        self._shadow = shadow
        for name, array in (("taint", shadow.taint), ("marks", shadow.marks), ("undo", shadow.undo)):
            self._kept[name] = array
            setattr(self._tensors, name, array.ctypes.data)
        self._tensors.dry, self._tensors.undo_room = 1, len(shadow.undo) // 3

    def ask(self, judge: int, judged: int) -> None:
        """From now on this code is asked before a tensor instruction is done."""
        self._tensors.judge, self._tensors.judged = judge, judged

    @property
    def sizes(self) -> Array:
        """Bytes of each region of the instruction that is looked at."""
        return self._kept["size"]

    @property
    def hosts(self) -> Array:
        """Where each of these regions begins in the host's memory."""
        return self._kept["host"]

    def begin(self, core: Core) -> None:
        """Before a run of translated code."""
        tensors = self._tensors
        tensors.traced = int(core.traced)
        tensors.undo_count = 0
        if core.special is not self._task:
            self._task = core.special
            values = [signed(core.special.get(name, 0)) for name in SPECIAL_REGISTERS]
            self._kept["special"][:] = values
        if tensors.scratch_wanted > tensors.scratch_room:
            self._scratch = np.empty(tensors.scratch_wanted, np.uint8)
            tensors.scratch, tensors.scratch_room = self._scratch.ctypes.data, len(self._scratch)
        if core.traced and tensors.log_count >= len(self._log):
            self._log = np.empty((ROOM, ROW_WORDS), np.int64)
            tensors.log, tensors.log_room = self._log.ctypes.data, ROOM
            tensors.log_count = self._taken = 0

    def is_out_of_room(self, core: Core) -> bool:
        """Whether the next `begin` makes room for what stopped the code."""
        tensors = self._tensors
        if tensors.dry and tensors.undo_count >= tensors.undo_room:
            return True
        is_full = core.traced and tensors.log_count >= len(self._log)
        return bool(is_full or tensors.scratch_wanted > tensors.scratch_room)

    def end(self, core: Core) -> None:
        """After it: what was noted goes to the trace."""
        if self._tensors.undo_count and self._shadow is not None:
            self._shadow.keep(int(self._tensors.undo_count))
        count = int(self._tensors.log_count)
        if count > self._taken:
            core.trace.note(Log(self._table, self._log[self._taken : count]))
            self._taken = count
