"""What machine code knows of the memories that one core can name: planes, shadows, uses.

Enters: the checkers' planes and shadows, which grow and are split finer. Leaves: rows of words that
`checked_access` and `tensor_judge` read: one for each memory space, then one for each block of DRAM. Pages
whose planes have not moved keep their words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from trilobite.processor.isa.address import NUMBERS, SPACES
from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.row import ACC, CODE, GDRAM, NRAM, SRAM, WRAM
from trilobite.processor.sim.memory import Place
from trilobite.processor.tools.judge_state import ENTRY_WORDS, MEMORY_WORDS, READS, SHADOW, WRITES
from trilobite.processor.tools.planes import PAGE, Page, Surface, Uses
from trilobite.processor.tools.spans import Key

if TYPE_CHECKING:
    from trilobite.processor.tools.checks import Checks


class MemoryTable:
    def __init__(self, place: Place, checks: Checks, thread: int) -> None:
        self._checks, self._thread = checks, thread
        blocks = checks.memory.blocks
        self.keys: list[Key | None] = [_own_key(SPACES[number], place) for number in range(len(SPACES))]
        self.keys += [(GDRAM, start, 0) for start, _ in blocks]
        self.rows = np.zeros((len(self.keys), MEMORY_WORDS), np.int64)
        if blocks:
            self.rows[len(NUMBERS) :, :2] = blocks
        self._used: list[tuple[int, Key, Surface]] = []
        self._surfaces = 0  # that there were when `_used` was looked for
        self._layouts = -1
        self._tables: dict[Key, Array] = {}
        self._pages: dict[tuple[Key, int], tuple[int, Array]] = {}  # version, readers of a page
        self._kept: list[Array] = []

    def refresh(self) -> bool:
        """Brings the rows up to date; true if anything has changed."""
        surfaces = self._checks.races.surfaces
        if self._surfaces != len(surfaces):
            self._surfaces, self._layouts = len(surfaces), -1
            named = ((number, key) for number, key in enumerate(self.keys) if key is not None)
            self._used = [(number, key, surfaces[key]) for number, key in named if key in surfaces]
        layouts = 0
        for _, _, surface in self._used:
            layouts += surface.layouts
        if layouts == self._layouts:
            return False
        self._kept = []
        for number, key, surface in self._used:
            self._fill(number, key, surface)
        self._layouts = sum(surface.layouts for _, _, surface in self._used)
        return True

    def used(self) -> list[tuple[int, Key, Surface]]:
        """Row, key and planes of the memories that were touched so far."""
        return self._used

    def _fill(self, number: int, key: Key, surface: Surface) -> None:
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = np.zeros((-(-surface.size // PAGE), ENTRY_WORDS), np.int64)
        shadow = self._shadow(key)
        below = shadow.ctypes.data if shadow is not None else 0
        for at, page in surface.pages.items():
            own = surface.reader(page, self._thread)
            if self._pages.get((key, at), (-1,))[0] != page.version:
                self._pages[key, at] = page.version, self._entry(table[at], page, own)
                table[at, 3] = below + at * PAGE if below else 0
        row = self.rows[number]
        row[SHADOW : SHADOW + 3] = below, table.ctypes.data, len(table)
        row[READS : READS + 2] = self._list(surface.reads)
        row[WRITES : WRITES + 2] = self._list(surface.writes)

    def _entry(self, row: Array, page: Page, own: Array) -> Array:
        """Writes the words of a page; gives its readers, which they point to."""
        readers = np.array([(t, plane.ctypes.data) for t, plane in page.readers.items()], np.int64)
        row[:3] = page.granule.bit_length() - 1, page.writer.ctypes.data, own.ctypes.data
        row[4:] = page.size, readers.ctypes.data, len(readers)
        return readers

    def _list(self, by_thread: Mapping[int, Uses]) -> tuple[int, int]:
        listed = np.array([uses.address for uses in by_thread.values()] or [0], np.int64)
        self._kept.append(listed)
        return listed.ctypes.data, len(by_thread)

    def _shadow(self, key: Key) -> Array | None:
        shadow = self._checks.bytes.shadow
        return shadow.unwritten.get(key[1]) if key[0] == GDRAM else shadow.pad(*key)


def _own_key(space: str, place: Place) -> Key | None:
    if space in (GDRAM, CODE):
        return None
    if space == SRAM:
        return (SRAM, place.cluster, 0)
    if place.is_memory_core and space in (NRAM, WRAM, ACC):
        return None
    return (space, place.cluster, place.core)
