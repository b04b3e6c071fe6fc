"""A program that runs as machine code from its first instruction, without being translated.

Enters: prepared instructions. Leaves: the words that `scalar_step` executes, and tensor instructions that get
their code once they are hot; if `is_eager`, when they are first met: for programs that a compiler wrote,
which are long, straight, and passed through once a launch. If `is_dry`, they are only noted. A program that
stays long is translated; words then lead from where a turn ended to where translated code goes on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from trilobite.processor.isa.formats import Array
from trilobite.processor.sim.native_state import EXECUTED, LIMIT, PC, TENSORS
from trilobite.processor.sim.prepared import Prepared
from trilobite.processor.sim.scalar_step import LEAVE, OP
from trilobite.processor.sim.scalar_words import instruction_words
from trilobite.processor.sim.site_table import SiteTable
from trilobite.processor.sim.sites import step_code
from trilobite.processor.sim.translate import Translation

ENTRY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
ALL = -1  # instead of the site of one tensor instruction


class SteppedCode(SiteTable):
    """The words of one program, for any number of cores, and its translation if it has one."""

    needs_steps = True

    def __init__(self, code: Sequence[Prepared], is_eager: bool = True, is_dry: bool = False) -> None:
        super().__init__(code, is_eager, is_dry)
        sites = {site.place: (number, site) for number, site in enumerate(self.sites)}
        self.code_words, self.field_registers, self.field_is_value = instruction_words(code, sites)
        self.entry_points: set[int] = set(np.flatnonzero(self.code_words[:, OP] != LEAVE).tolist())
        self._kept, address = step_code()
        self._entry = ENTRY(address)
        self._code_of_program = code
        self.translation: Translation | None = None
        self.interpreted = 0  # instructions that were left to the interpreter

    def translate(self) -> None:
        """Cores enter it anew afterwards: there are more entry_points."""
        self.translation = Translation(self._code_of_program, self)
        self.entry_points = self.entry_points | set(self.translation.entry_points)

    def run(self, state: Array, counts: Array) -> None:
        if self.translation is None:
            self._entry(int(state[TENSORS]), ALL)
            return
        limit, done, executed = int(state[LIMIT]), 0, 1
        while done < limit and executed:
            state[EXECUTED] = 0
            if self.translation.enters(int(state[PC])):
                state[LIMIT] = limit - done
                self.translation.run(state, counts)
            if not state[EXECUTED]:
                state[LIMIT] = 1
                self._entry(int(state[TENSORS]), ALL)
            executed = int(state[EXECUTED])
            done += executed
        state[EXECUTED] = done

    def is_cold(self, place: int) -> bool:
        return super().is_cold(place) or (self.translation is not None and self.translation.is_cold(place))
