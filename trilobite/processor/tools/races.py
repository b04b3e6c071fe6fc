"""The race checker: conflicting accesses that nothing orders.

Enters: what each core does, in the order of execution: accesses of its queues and of its control, SYNCs,
barriers, atomics. Leaves: one `Finding` per pair of instructions that touch a common byte, one of them
writing, without a path of queue order, SYNC, BARRIER or atomics from the first to the second.

Every (core, queue) counts its accesses. What a core's control knows of all these counts is its vector clock:
SYNC takes up a queue of its own, a barrier joins the clocks of its members, an atomic those of whoever used
the same word before. An instruction of a queue knows what control knew when it was dispatched, and all
that stands before it in its queue. With `interlock: ranges` the hardware orders one core's instructions, so
only pairs of different cores are judged.

A scalar load that only polls a word which atomics write is no race, and takes up their clock; one whose value
is data wants a barrier before it. Scalar stores of one value by several cores, as where all of them clear a
flag, leave the same bytes in any order: no race.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.program import Program
from trilobite.processor.isa.row import GDRAM, QUEUES, Region
from trilobite.processor.machine import Machine
from trilobite.processor.sim.core import Core
from trilobite.processor.sim.memory import Memory, Place
from trilobite.processor.tools.findings import Finding, Site, site
from trilobite.processor.tools.planes import COUNT, Hit, Surface
from trilobite.processor.tools.polling import Polling
from trilobite.processor.tools.spans import Key, Span, spans_of
from trilobite.processor.tools.wording import Wording

ATOMIC = len(QUEUES)  # atomics count for themselves: they never race with each other
THREADS = len(QUEUES) + 1
WORD = 8
Clock: TypeAlias = "array[int]"  # of 64-bit words, which machine code shares


class Log:
    """Which instruction each access of a thread was; a stretch of translated code takes a range of counts."""

    def __init__(self) -> None:
        self._firsts, self._instructions = array("q"), array("i")

    def add(self, count: int, instruction: int) -> None:
        self._firsts.append(count)
        self._instructions.append(instruction)

    def add_all(self, counts: Array, instructions: Array) -> None:
        self._firsts.frombytes(counts.astype(np.int64).tobytes())
        self._instructions.frombytes(instructions.astype(np.int32).tobytes())

    def add_stretch(self, first: int) -> None:
        """Instruction number i takes the count first + i."""
        self.add(first, -1)

    def instruction(self, count: int) -> int:
        at = bisect_right(self._firsts, count) - 1
        return self._instructions[at] if self._instructions[at] >= 0 else count - self._firsts[at]


Held = Callable[[], bool]  # whether the memory holds what is to be written already


def _never() -> bool:
    return False


class RaceChecker:
    """The clocks of all cores, and who touched which byte last."""

    def __init__(
        self, machine: Machine, memory: Memory, program: Program, report: Callable[[Finding], None]
    ) -> None:
        self.machine, self.memory, self.program, self.report = machine, memory, program, report
        self._per_cluster = machine.cores_per_cluster + 1
        cores = machine.clusters * self._per_cluster
        self.counts: Clock = array("q", bytes(8 * cores * THREADS))
        self._log = [Log() for _ in self.counts]
        self._known = [self.counts[:] for _ in range(cores)]
        self._own = [self._ordered_with(thread) for thread in range(len(self.counts))]
        self._clocks: dict[int, Array] = {}  # by core, what `clock_of` its control gives
        self._queue_at = {queue: at for at, queue in enumerate(QUEUES)}
        self.surfaces: dict[Key, Surface] = {}
        self._released: dict[
            tuple[Key, int], tuple[int, Sequence[int]]
        ] = {}  # who released it last, with its clock
        self._said = Wording(program)
        self._is_polling = Polling(program)
        self._seen: set[tuple[str, str]] = set()

    def _ordered_with(self, thread: int) -> frozenset[int]:
        """The threads whose earlier accesses are always before those of this one."""
        first = thread - thread % THREADS
        if self.machine.interlock == "ranges":
            return frozenset(range(first, first + THREADS))
        return frozenset((first, first + ATOMIC, thread))

    def _number(self, place: Place) -> int:
        core = self.machine.cores_per_cluster if place.is_memory_core else place.core
        return place.cluster * self._per_cluster + core

    def _place(self, number: int) -> Place:
        cluster, core = divmod(number, self._per_cluster)
        return Place(cluster, 0x80 if core == self.machine.cores_per_cluster else core)

    # What orders.

    def began(self, cores: Sequence[Core]) -> None:
        """A task begins when everything that its cores did before is done."""
        for core in cores:
            self.sync(core, QUEUES)
        self.met(cores)

    def sync(self, core: Core, queues: Sequence[str]) -> None:
        number = self._number(core.place)
        known, clock = self._known[number], self._clocks.get(number)
        own = self._own[number * THREADS]
        for queue in queues:
            thread = number * THREADS + self._queue_at[queue]
            known[thread] = self.counts[thread]
            if clock is not None and thread not in own:
                clock[thread] = self.counts[thread]

    def met(self, cores: Sequence[Core]) -> None:
        numbers = [self._number(core.place) for core in cores]
        clocks = [self._with_control(number) for number in numbers]
        joined = array("q", map(max, *clocks)) if len(clocks) > 1 else clocks[0]
        for number in numbers:
            self._known[number] = joined[:]
            self._clocks.pop(number, None)

    def _with_control(self, number: int) -> Clock:
        """What others learn from a core: what it knows, and all that its control did itself."""
        known = self._known[number]
        for own in (number * THREADS, number * THREADS + ATOMIC):
            known[own] = self.counts[own]
        return known

    def _acquire(self, number: int, word: tuple[Key, int]) -> None:
        by, given = self._released.get(word, (number, ()))
        if by != number:  # what it released itself it knows
            self._known[number] = array("q", map(max, self._known[number], given))
            self._clocks.pop(number, None)

    # What translated code asks for and reports.

    def control_thread(self, place: Place) -> int:
        return self._number(place) * THREADS

    def clock_of(self, place: Place) -> Array:
        """What a core's control knows, with everything that is always before it; SYNCs go on writing it."""
        number = self._number(place)
        clock = self._clocks.get(number)
        if clock is None:
            clock = self._clocks[number] = np.array(self._known[number], np.int64)
            clock[list(self._own[number * THREADS])] = COUNT
        return clock

    def known_of(self, place: Place) -> Clock:
        return self._known[self._number(place)]

    def noted(self, rows: Array) -> None:
        """Machine code noted accesses: thread, count and instruction of each."""
        for thread in np.unique(rows[:, 0]).tolist():
            mine = rows[rows[:, 0] == thread]
            self._log[thread].add_all(mine[:, 1], mine[:, 2])

    def stretch(self, thread: int, first: int, length: int) -> None:
        """Translated code ran; the access of instruction number i had the count first + i."""
        self._log[thread].add_stretch(first)
        self.counts[thread] = first + length

    # What must be ordered.

    def tensor(
        self, core: Core, queue: str, reads: Sequence[Span], writes: Sequence[Span], is_there: Held = _never
    ) -> None:
        number = self._number(core.place)
        self._access(core, number * THREADS + self._queue_at[queue], reads, writes, is_there)

    def load(self, core: Core, region: Region) -> None:
        number = self._number(core.place)
        spans = spans_of(self.memory, core.place, [region])
        for span in spans if self._released and self._is_polling(core.pc) else ():
            self._acquire(number, (span.key, span.low // WORD))
        self._access(core, number * THREADS, spans, [])

    def store(self, core: Core, region: Region, is_there: bool = False) -> None:
        """`is_there`: the memory holds the value already."""
        spans = spans_of(self.memory, core.place, [region])
        self._access(core, self._number(core.place) * THREADS, [], spans, lambda: is_there)

    def atomic(self, core: Core, region: Region) -> None:
        number, (span,) = self._number(core.place), spans_of(self.memory, core.place, [region])
        word = (span.key, span.low // WORD)
        self._acquire(number, word)
        self._access(core, number * THREADS + ATOMIC, [], [span])
        self._released[word] = number, self._with_control(number)[:]

    def _access(
        self, core: Core, thread: int, reads: Sequence[Span], writes: Sequence[Span], is_there: Held = _never
    ) -> None:
        count = self.counts[thread] + 1
        self.counts[thread] = count
        self._log[thread].add(count, core.pc)
        for span in reads:
            self._judge_read(core, thread, span)
        for span in writes:
            self._judge_write(core, thread, span, is_there)
        for span in reads:
            self._surface(span.key).read(span, thread, count)
        for span in writes:
            self._surface(span.key).write(span, thread, count)

    def _surface(self, key: Key) -> Surface:
        found = self.surfaces.get(key)
        if found is None:
            found = self.surfaces[key] = Surface(self._size(key))
        return found

    def _size(self, key: Key) -> int:
        if key[0] != GDRAM:
            return self.memory.size(key[0])
        return next(end - start for start, end in self.memory.blocks if start == key[1])

    def _judge_read(self, core: Core, thread: int, span: Span) -> None:
        known = self._known[thread // THREADS]
        for hit in self._surface(span.key).unordered_writes(span, known, self._own[thread]):
            may_poll = thread % THREADS == 0 and hit[0] % THREADS == ATOMIC
            if not (may_poll and self._is_polling(core.pc)):
                self._accuse("read after write", core, thread, span, hit)

    def _judge_write(self, core: Core, thread: int, span: Span, is_there: Held) -> None:
        known, surface = self._known[thread // THREADS], self._surface(span.key)
        is_atomic = thread % THREADS == ATOMIC
        for hit in surface.unordered_writes(span, known, self._own[thread]):
            is_alike = hit[0] % THREADS == thread % THREADS and hit[0] != thread
            if not ((is_alike and is_there()) or (is_atomic and hit[0] % THREADS == ATOMIC)):
                self._accuse("write after write", core, thread, span, hit)
        for hit in surface.unordered_reads(span, known, self._own[thread]):
            may_poll = is_atomic and hit[0] % THREADS == 0
            if not (may_poll and self._is_polling(self._log[hit[0]].instruction(hit[1]))):
                self._accuse("write after read", core, thread, span, hit)

    def _accuse(self, kind: str, core: Core, thread: int, span: Span, hit: Hit) -> None:
        other, count, low, high = hit
        earlier = self._log[other].instruction(count)
        said = self._said
        pair = (said.line(earlier), said.line(core.pc) + ("" if said.is_bang else kind))
        if pair in self._seen:
            return
        self._seen.add(pair)
        first = site(self.program, self._place(other // THREADS), _queue(other), earlier)
        second = site(self.program, core.place, _queue(thread), core.pc)
        where = said.bytes(span.key, low, high, core.place)
        self.report(
            Finding("race", f"{kind} without order: {where}", (first, second), said.order,
                    self._remedy(first, second, other, count))
        )  # fmt: skip

    def _remedy(self, first: Site, second: Site, thread: int, count: int) -> str:
        if first.core == second.core:
            return f"put {self._said.sync(_started(first, second))} between them"
        scope = "cluster" if first.core.cluster == second.core.cluster else "chip"
        barrier = self._said.barrier(scope)
        meeting = f"let both cores come to {barrier} between them, or give each its own bytes"
        if first.queue != "control" and self._known[thread // THREADS][thread] < count:
            return f"put {self._said.sync(first.queue)} behind the first, then {meeting}"
        return meeting


def _started(first: Site, second: Site) -> str:
    """The queue to wait for: the first's; what control did is done when the other is started."""
    return first.queue if first.queue != "control" else second.queue


def _queue(thread: int) -> str:
    kind = thread % THREADS
    return "control" if kind == ATOMIC else QUEUES[kind]
