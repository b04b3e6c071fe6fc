"""A program that runs as machine code from its first instruction, without being translated.

Enters: prepared instructions. Leaves: the words that `scalar_step` executes, and tensor instructions that are
hot when they are met; or, if `is_dry`, are only noted. For programs that a compiler wrote: long, straight,
and passed through once a launch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from trilobite.processor.isa.formats import Array
from trilobite.processor.sim.native_state import TENSORS
from trilobite.processor.sim.prepared import Prepared
from trilobite.processor.sim.scalar_step import LEAVE, OP
from trilobite.processor.sim.scalar_words import instruction_words
from trilobite.processor.sim.site_table import SiteTable
from trilobite.processor.sim.sites import step_code

ENTRY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
ALL = -1  # instead of the site of one tensor instruction


class SteppedCode(SiteTable):
    """The words of one program, for any number of cores."""

    needs_steps = True

    def __init__(self, code: Sequence[Prepared], is_dry: bool = False) -> None:
        super().__init__(code, is_eager=True, is_dry=is_dry)
        sites = {site.place: (number, site) for number, site in enumerate(self.sites)}
        self.code_words, self.field_registers, self.field_is_value = instruction_words(code, sites)
        self.doors = np.flatnonzero(self.code_words[:, OP] != LEAVE).tolist()
        self._kept, address = step_code()
        self._entry = ENTRY(address)

    def run(self, state: Array, counts: Array) -> None:
        self._entry(int(state[TENSORS]), ALL)
