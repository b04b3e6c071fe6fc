"""The race checker against brute force: every pair of accesses, every byte, every path of the graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilobite.processor.device import Device
from trilobite.processor.isa.address import address
from trilobite.processor.isa.assembler import assemble_program
from trilobite.processor.isa.formats import F32, U8
from trilobite.processor.isa.row import GDRAM, NRAM, QUEUES, SRAM, Region, region
from trilobite.processor.machine import load_machine
from trilobite.processor.sim.memory import Memory, Place
from trilobite.processor.sim.timing.ranges import overlap
from trilobite.processor.tools.checks import findings_of
from trilobite.processor.tools.planes import Surface, runs
from trilobite.processor.tools.races import RaceChecker
from trilobite.processor.tools.spans import cut, span_of

MACHINE = load_machine("dlp-m")
PROGRAM = assemble_program("\n".join(["NOP"] * 400))
PLACES = [Place(0, 0), Place(0, 1), Place(0, 0x80)]
BLOCK = 1 << 20


def strided(start: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Region:
    return Region(start, U8, shape, (*strides, 1), GDRAM + NRAM + SRAM)


def touched(key: object, access: Region) -> set[tuple[object, int]]:
    """Every byte of a region, one by one."""
    offsets = np.zeros(1, np.int64)
    for extent, stride in zip(access.shape, access.strides, strict=True):
        offsets = (offsets[:, None] + np.arange(extent) * stride).reshape(-1)
    return {(key, int(access.address + offset)) for offset in offsets}


@dataclass
class Oracle:
    """A graph of everything that happened; `before[i]` is the set of nodes that lead to node i."""

    before: list[set[int]] = field(default_factory=list)
    control: dict[Place, int] = field(default_factory=dict)
    last: dict[tuple[Place, str], int] = field(default_factory=dict)
    queued: dict[tuple[Place, str], list[int]] = field(default_factory=dict)
    words: dict[object, int] = field(default_factory=dict)
    accesses: list[tuple[int, int, str, set, set]] = field(default_factory=list)
    races: set[tuple[int, int]] = field(default_factory=set)

    def node(self, *parents: int | None) -> int:
        made: set[int] = set()
        for parent in parents:
            if parent is not None:
                made |= self.before[parent] | {parent}
        self.before.append(made)
        return len(self.before) - 1

    def access(self, pc: int, node: int, kind: str, reads: set, writes: set) -> None:
        for other_pc, other, other_kind, other_reads, other_writes in self.accesses:
            conflict = (
                (writes & other_writes) or (reads & other_writes) or (writes & other_reads)
            ) and other not in self.before[node]
            kinds = {kind, other_kind}
            polling = kinds == {"atomic"} or (kinds == {"atomic", "load"})
            if conflict and not polling:
                self.races.add((other_pc, pc))
        self.accesses.append((pc, node, kind, reads, writes))


REGIONS = st.one_of(
    st.tuples(st.integers(0, 40), st.integers(1, 24)).map(lambda t: (t[0], (t[1],), ())),
    st.tuples(st.integers(0, 20), st.integers(2, 4), st.integers(1, 4), st.integers(4, 9)).map(
        lambda t: (t[0], (t[1], t[2]), (t[3],))
    ),
)
SPACES = st.sampled_from([GDRAM, SRAM, NRAM])
EVENT = st.one_of(
    st.tuples(st.just("tensor"), st.integers(0, 2), st.sampled_from(QUEUES[1:]), REGIONS, REGIONS, SPACES),
    st.tuples(st.just("scalar"), st.integers(0, 2), st.booleans(), st.integers(0, 12), SPACES),
    st.tuples(st.just("sync"), st.integers(0, 2), st.sampled_from(QUEUES[1:])),
    st.tuples(st.just("syncall"), st.integers(0, 2)),
    st.tuples(st.just("barrier"), st.sampled_from([(0, 1), (0, 1, 2), (1, 2)])),
    st.tuples(st.just("atomic"), st.integers(0, 2), st.integers(0, 3)),
)


class Run:
    """Feeds the same events to the checker and to the oracle."""

    def __init__(self) -> None:
        memory = Memory(MACHINE)
        memory.allow(BLOCK, 4096)
        self.found: list = []
        self.checker = RaceChecker(MACHINE, memory, PROGRAM, self.found.append)
        self.oracle = Oracle()
        self.cores = [SimpleNamespace(place=place, pc=0) for place in PLACES]

    def at(self, number: int, space: str, offset: int) -> tuple[int, object]:
        if space == GDRAM:
            return BLOCK + offset, GDRAM
        return address(space, offset), (space, PLACES[number] if space == NRAM else 0)

    def step(self, pc: int, event: tuple) -> None:
        for core in self.cores:
            core.pc = pc
        getattr(self, event[0])(pc, *event[1:])

    def tensor(self, pc: int, number: int, queue: str, read: tuple, write: tuple, space: str) -> None:
        place, oracle = PLACES[number], self.oracle
        node = oracle.node(oracle.control.get(place), oracle.last.get((place, queue)))
        oracle.last[place, queue] = node
        oracle.queued.setdefault((place, queue), []).append(node)
        sides = []
        for offset, shape, strides in (read, write):
            start, key = self.at(number, space, offset)
            sides.append((strided(start, shape, strides), key))
        oracle.access(pc, node, "tensor", *(touched(key, side) for side, key in sides))
        spans = [[span_of(self.checker.memory, place, side)] for side, _ in sides]
        self.checker.tensor(self.cores[number], queue, *spans)

    def scalar(self, pc: int, number: int, is_store: bool, word: int, space: str) -> None:
        place, oracle = PLACES[number], self.oracle
        start, key = self.at(number, space, 4 * word)
        access = region(start, F32, (1,), space)
        bytes_ = touched(key, strided(start, (4,), ()))
        released = None if is_store else oracle.words.get((key, start // 8))
        node = oracle.control[place] = oracle.node(oracle.control.get(place), released)
        if is_store:
            oracle.access(pc, node, "store", set(), bytes_)
            self.checker.store(self.cores[number], access)
        else:
            oracle.access(pc, node, "load", bytes_, set())
            self.checker.load(self.cores[number], access)

    def sync(self, pc: int, number: int, queue: str) -> None:
        place, oracle = PLACES[number], self.oracle
        done = oracle.queued.get((place, queue), [])
        oracle.control[place] = oracle.node(oracle.control.get(place), *done)
        self.checker.sync(self.cores[number], (queue,))

    def syncall(self, pc: int, number: int) -> None:
        for queue in QUEUES[1:]:
            self.sync(pc, number, queue)

    def barrier(self, pc: int, members: tuple[int, ...]) -> None:
        node = self.oracle.node(*(self.oracle.control.get(PLACES[number]) for number in members))
        for number in members:
            self.oracle.control[PLACES[number]] = node
        self.checker.met([self.cores[number] for number in members])

    def atomic(self, pc: int, number: int, word: int) -> None:
        place, oracle = PLACES[number], self.oracle
        start = BLOCK + 8 * word
        node = oracle.node(oracle.control.get(place), oracle.words.get((GDRAM, start // 8)))
        oracle.control[place] = oracle.words[GDRAM, start // 8] = node
        oracle.access(pc, node, "atomic", set(), touched(GDRAM, strided(start, (4,), ())))
        self.checker.atomic(self.cores[number], region(start, F32, (1,), GDRAM))


@given(st.lists(EVENT, min_size=5, max_size=60))
def test_every_accusation_is_true_and_the_first_race_is_seen(events) -> None:
    run = Run()
    for pc, event in enumerate(events):
        run.step(pc, event)
    accused = {tuple(site.instruction for site in finding.sites) for finding in run.found}
    assert accused <= run.oracle.races
    first = min((second for _, second in run.oracle.races), default=None)
    assert first == min((second for _, second in accused), default=None)


@given(st.lists(st.tuples(REGIONS, REGIONS), min_size=1, max_size=8))
def test_strided_ranges_meet_exactly_where_their_bytes_do(pairs) -> None:
    memory = Memory(MACHINE)
    memory.allow(BLOCK, 4096)
    for first, second in pairs:
        a, b = (strided(BLOCK + offset, shape, strides) for offset, shape, strides in (first, second))
        surface = Surface(4096)
        surface.write(span_of(memory, PLACES[0], a), 1, 1)
        hits = surface.unordered_writes(span_of(memory, PLACES[0], b), [0, 0], frozenset())
        common = touched(0, a) & touched(0, b)
        assert bool(hits) == bool(common) == overlap(a, b)
        seen = {(0, BLOCK + byte) for _, _, low, high in hits for byte in range(low, high)}
        assert seen <= common


AXES = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 90)), max_size=2).map(tuple)


@given(st.integers(0, 200), st.integers(1, 150), AXES)
def test_cutting_into_pages_keeps_every_byte(low, row, axes) -> None:
    def every(base: int, row: int, axes) -> list[int]:
        starts = [base]
        for extent, stride in axes:
            starts = [start + index * stride for start in starts for index in range(extent)]
        return [byte for start in starts for byte in range(start, start + row)]

    got: list[int] = []
    for page, offset, size, inner in cut(low, row, axes, 64):
        part = every(page * 64 + offset, size, inner)
        assert page * 64 <= min(part) <= max(part) < (page + 1) * 64
        got += part
    assert sorted(got) == sorted(every(low, row, axes))


def test_runs_of_equal_values() -> None:
    assert list(runs(np.array([5, 5, 0, 7, 7, 7]))) == [(0, 2, 5), (2, 3, 0), (3, 6, 7)]
    assert list(runs(np.array([4]))) == [(0, 1, 4)]


def test_a_page_becomes_finer_without_forgetting() -> None:
    memory = Memory(MACHINE)
    memory.allow(BLOCK, 4096)

    def span(offset: int, size: int):
        return span_of(memory, PLACES[0], region(BLOCK + offset, U8, (size,), GDRAM))

    surface = Surface(4096)
    surface.write(span(0, 1024), 1, 1)
    assert surface.page(0).granule == 256
    surface.write(span(768, 3), 2, 1)
    assert surface.page(0).granule == 1
    assert surface.unordered_writes(span(760, 20), [0, 0, 0], frozenset()) == [
        (1, 1, 760, 768), (2, 1, 768, 771), (1, 1, 771, 780)]  # fmt: skip
    surface.read(span(4000, 96), 3, 1)  # the end of the memory needs no boundary of its own
    assert surface.unordered_reads(span(4090, 6), [0, 0, 0, 0], frozenset()) == [(3, 1, 4090, 4096)]


RANGES = """
    .entry main
    main:
        LI $10, #nram(0)
        SMOVE $1, #64
        VLOAD $10, $1, $0, #0
        VAV $10, $1, $10, $10
        VSTORE $10, $1, $0, #0
"""


@pytest.mark.parametrize(("machine", "count"), [("dlp-s", 0), ("dlp-m", 3)])
def test_an_interlock_orders_one_core(machine: str, count: int) -> None:
    """Without it the vector unit reads and writes what is being loaded, and the store reads its result."""
    device = Device(machine)
    data = device.array(np.ones(64, np.float32))
    found = findings_of(device, device.load(RANGES)["main"], [data])
    assert len(found) == count and all(finding.kind == "race" for finding in found)


def test_the_text_of_a_race() -> None:
    device = Device("dlp-m")
    data = device.array(np.ones(64, np.float32))
    found = findings_of(device, device.load(RANGES)["main"], [data])
    assert str(found[0]) == (
        "read after write without order: nram+0x0 to +0x100\n"
        "  first: cluster 0 core 0, io queue, instruction 3: VLOAD.f32 $10, $1, $0, #0 (<text>:6)\n"
        "  second: cluster 0 core 0, vector queue, instruction 4: VAV.f32 $10, $1, $10, $10 (<text>:7)\n"
        "  expected: queue order, SYNC or BARRIER from the first to the second\n"
        "  remedy: put SYNC.io between them"
    )


def test_rounds_of_tasks_follow_each_other_on_a_core() -> None:
    """The second round of a core may use its scratchpads anew; tasks of different cores are never ordered."""
    device = Device("dlp-m")
    source = """
        .entry main
        main: SREAD $1, #taskId
            LI $10, #nram(0)
            SMOVE $2, #16
            VSET.i32 $10, $2, $1
            SYNC.vector
            SREM $3, $1, #16
            SSHL $3, $3, #6
            SADD $3, $3, $0
            VSTORE.i32 $10, $2, $3, #0
    """
    out = device.array(np.zeros((16, 16), np.int32))
    assert findings_of(device, device.load(source)["main"], [out], dim=(32, 1, 1)) == []
    shifted = source.replace("SREM $3, $1, #16", "SREM $3, $1, #15")
    found = findings_of(device, device.load(shifted)["main"], [out], dim=(32, 1, 1))
    assert [finding.kind for finding in found] == ["race"]


def test_a_union_task_begins_when_all_its_cores_are_free() -> None:
    """The second round's memory core refills SRAM that the first round's cores read: that is over by then."""
    source = """
        .entry main
        main: SREAD $1, #isMpu
            LI $10, #sram(0)
            LI $11, #nram(0)
            SMOVE $2, #64
            CBZ #meet, $1
            COPY $10, $0, $2
            SYNC
        meet: BARRIER.cluster
            CBNZ #end, $1
            COPY $11, $10, $2
        end: HALT
    """
    device = Device("dlp-m")
    data = device.array(np.zeros(64, np.uint8))
    kernel = device.load(source)["main"]
    assert findings_of(device, kernel, [data], (32, 1, 1), "union4") == []
    assert findings_of(device, kernel, [data], (32, 1, 1), "union1") == []
