"""The state of `tensor_judge`: what it must know of a program's tensor instructions, and of one core.

Enters: a translation with sites, the program's notes, the checkers. Leaves: the judge's code, which the steps
of translated code ask; after a run, the accesses that it noted.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np

from trilobite.native.cache import Kernels, kernels
from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.program import Program
from trilobite.processor.isa.row import DMA, QUEUES, VALUE_FIELDS, Operands, Region, signed
from trilobite.processor.lang.bounds import CallNote
from trilobite.processor.sim.access import fill_text
from trilobite.processor.sim.site_table import MOST_FORMS, SiteTable
from trilobite.processor.sim.sites import Site, marked_field
from trilobite.processor.sim.steps import Steps
from trilobite.processor.sim.tensor_step import MOST_REGIONS
from trilobite.processor.sim.typed_python import module_text, structure_of
from trilobite.processor.tools import judge_planes, judge_spreading, tensor_judge
from trilobite.processor.tools.array_checker import declared_arrays
from trilobite.processor.tools.judge_state import (
    ACCESS_WORDS,
    ANY_ARRAY,
    BOUNDED,
    COPIED,
    FACT_WORDS,
    LANES,
    LANES_OF_FINITE,
    MOST_AXES,
    MOST_RUNS,
    NEVER,
    NO_BOUNDS,
    PAIRS,
    SPAN_WORDS,
    SPREADS,
    JudgeState,
)
from trilobite.processor.tools.races import Clock
from trilobite.processor.tools.spans import rows_of

# scalar times or plus vector: the result depends on the vector for every scalar that is finite and not 0
FINITE = frozenset(("VAS", "VSS", "VMS"))
FINITE_PAIRS = frozenset(("VAV", "VSV", "VMV", "VCAV", "VCSV", "VCMV"))  # the same of two vectors
ROOM = 1 << 12  # accesses that are noted in one run


@lru_cache(maxsize=1)
def judge_code() -> tuple[Kernels, int, int]:
    """The judge as machine code, where it begins, and where the code that fills bytes does."""
    code = kernels(
        [
            (module_text((tensor_judge, judge_planes, judge_spreading), JudgeState, ["entry"]), 2),
            (fill_text(), 2),
        ]
    )
    return code, code.addresses[0], code.addresses[1]


class SiteFacts:
    """What the checkers know of a program's tensor instructions, for all its cores."""

    def __init__(self, translation: SiteTable, program: Program) -> None:
        self._translation = translation
        self._notes: dict[int, CallNote] = dict(getattr(program, "notes", {}))
        self._declared = [(array.low, array.high) for array in declared_arrays(program)]
        self._kept: list[Array] = []
        self.facts = np.zeros((len(translation.sites) + 1, FACT_WORDS), np.int64)
        self.spans = np.zeros((MOST_FORMS, MOST_REGIONS, SPAN_WORDS), np.int64)
        self._forms = 0  # whose spans are there
        for number, site in enumerate(translation.sites):
            self.facts[number] = self._fact(site)

    def _fact(self, site: Site) -> list[int]:
        row, note = site.prepared.row, self._notes.get(site.place)
        queue = -1 if row.queue == DMA else QUEUES.index(row.queue) if row.queue in QUEUES else 0
        waits = sum(1 << QUEUES.index(queue) for queue in site.queues)
        words = [queue, waits, int(site.is_waited_for), int(note is not None and note.apart),
                 int(note is not None), _spreads(site), -1, 0]  # fmt: skip
        for number, (field, offset, *_) in enumerate(site.regions):
            words += self._bounds(site, note, (field, offset), number >= site.reads)
        return [*words, *[0] * (FACT_WORDS - len(words))]

    def lanes(self, place: int, o: Operands) -> None:
        """Lanes that are undefined in all operands of an instruction were found undefined in its result."""
        number = self._translation.numbers.get(place)
        if number is None or self._translation.sites[number].is_formed:
            return
        site = self._translation.sites[number]
        scalars = [field for field, name in enumerate(site.names) if name in VALUE_FIELDS]
        if len(scalars) > 1 or self.facts[number, SPREADS] == PAIRS:
            return
        row, formats = site.prepared.row, site.prepared.instruction.formats
        is_any = row.mnemonic in FINITE and all(fmt.name == "f32" for fmt in formats)
        words = [LANES_OF_FINITE if is_any else LANES, -1, 0]
        if scalars:
            words[1:] = scalars[0], signed(o.values[site.names[scalars[0]]])
        self.facts[number, SPREADS : SPREADS + 3] = words

    def follow_forms(self) -> None:
        """Takes up the forms that sites got since."""
        made = self._translation.made_forms
        for number in range(self._forms, len(made)):
            site, form = made[number]
            for at, region in enumerate(form.regions):
                words = _span(region)
                words += self._bounds(
                    site, self._notes.get(site.place), marked_field(region), at >= len(form.reads)
                )
                self.spans[number, at] = words
        self._forms = len(made)

    def _bounds(
        self, site: Site, note: CallNote | None, where: tuple[int, int], is_written: bool
    ) -> list[int]:
        """Where the arrays of an operand stand, how many there are, and how they are meant."""
        if note is None:
            return [0, 0, NO_BOUNDS]
        field, offset = where
        name = site.names[field] if offset == 0 and field < len(site.names) else ""
        allowed = note.written if is_written else note.read
        if name and allowed and name not in allowed:
            return [0, 0, NEVER]
        arrays = [(array.low, array.high) for array in dict(note.arrays).get(name, ())]
        listed = np.array(arrays or self._declared or [(0, 0)], np.int64)
        self._kept.append(listed)
        return [listed.ctypes.data, len(listed), BOUNDED if arrays else ANY_ARRAY]


def _spreads(site: Site) -> int:
    """What is known from the beginning of how undefined elements spread."""
    if site.is_copy:
        return COPIED
    formats = site.prepared.instruction.formats
    is_pair = site.prepared.row.mnemonic in FINITE_PAIRS and all(fmt.name == "f32" for fmt in formats)
    return PAIRS if is_pair else 0


def _span(region: Region) -> list[int]:
    low, row, axes = rows_of(region)
    if len(axes) > MOST_AXES:
        return [0, 0, -1, *[0] * (2 * MOST_AXES)]
    extents = [word for axis in axes for word in axis]
    return [low, row, len(axes), *extents, *[0] * (2 * MOST_AXES - len(extents))]


class TensorJudge:
    """The judge with the state of one core."""

    def __init__(
        self, facts: SiteFacts, state: Array, steps: Steps, memories: Array, block_count: int, thread: int,
        is_interlocked: bool,
    ) -> None:  # fmt: skip
        self._facts = facts
        translation = facts._translation
        self._log, self._trail = np.zeros((ROOM, 3), np.int64), np.zeros((ROOM, 3), np.int64)
        self._kept: dict[str, Array] = {
            "state": state, "site": translation.words, "form": translation.forms,
            "size": steps.sizes, "host": steps.hosts,
            "fact": facts.facts, "span": facts.spans, "memory": memories,
            "access": np.zeros(MOST_REGIONS * ACCESS_WORDS, np.int64), "log": self._log,
            "trail": self._trail, "runs": np.zeros(2 * MOST_RUNS, np.int64),
        }  # fmt: skip
        self._state = structure_of(JudgeState)()
        for name, array in self._kept.items():
            setattr(self._state, name, array.ctypes.data)
        self._state.first, self._state.is_interlocked = thread, int(is_interlocked)
        self._state.block_count, self._state.log_room = block_count, ROOM
        _, self.code, self._state.fill = judge_code()
        self._state.search = ctypes.cast(ctypes.CDLL(None).memchr, ctypes.c_void_p).value
        self.address = ctypes.addressof(self._state)

    def begin(self, clock: Array, known: Clock, counts: Clock) -> None:
        self._facts.follow_forms()
        self._state.clock = clock.ctypes.data
        self._state.known, self._state.counts = known.buffer_info()[0], counts.buffer_info()[0]
        self._state.log_count = self._state.trail_count = 0

    def undefined(self) -> list[tuple[int, int, int]]:
        """Addresses of results with undefined elements, of the operands with these, and of the first."""
        rows = self._trail[: int(self._state.trail_count)].tolist()
        return [(result, operand, first) for result, operand, first in rows]

    def noted(self) -> Array:
        """Thread, count and instruction of the accesses since it began."""
        return self._log[: int(self._state.log_count)]
