"""What T1 knows about a trace before time begins, because only the order of execution decides it.

Enters: a machine and a trace. Leaves, for each record: cycles of waiting for its instructions, the record
whose end it must await because the FIFO of weight tiles is full, and the bytes that miss the last-level
cache. The order is the canonical interleaving: cores by number, each from one meeting to the next. Machines
without these parts pay nothing.

- Instruction fetch: a cache of whole lines, least recently used leaves. Control passes the lines from one
  record to the next if as many instructions were executed as lie between them, else (a jump) only the line
  it comes to. A miss costs DRAM's latency and the line at DRAM's rate; it does not contend with data.
- FIFO of tiles: a load of weights begins when the product that used the tile `fifo_tiles` loads before it is
  done. A tile that nobody used leaves by itself.
- Last-level cache: whole lines, least recently used leaves, written lines go back to DRAM when they leave;
  a line that is written whole is not read first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from trilobite.processor.isa.address import split
from trilobite.processor.isa.row import WRAM, Region
from trilobite.processor.machine import Machine
from trilobite.processor.sim.record import (
    BarrierRecord,
    CoreTrace,
    Record,
    ScalarRecord,
    TaskRecord,
    TensorRecord,
    Trace,
)
from trilobite.processor.sim.timing.cost import DRAM_SPACES
from trilobite.processor.sim.timing.ranges import overlap, pieces

INSTRUCTION_BYTES = 8


@dataclass
class Caches:
    """Per core and record; a list is empty where the machine has no such part."""

    fetch: list[list[int]]
    after: list[list[int]]
    missing: list[list[int | None]]


def caches_of(machine: Machine, trace: Trace) -> Caches:
    cores = trace.cores
    return Caches(
        [_fetches(machine, core) if machine.core.fetch.kib else [] for core in cores],
        [
            _fifo(core.records, machine.core.wram.fifo_tiles) if machine.core.wram.fifo_tiles else []
            for core in cores
        ],
        _misses(machine, cores) if machine.llc.kib else [[] for _ in cores],
    )


def cache_misses(machine: Machine, trace: Trace) -> list[list[int | None]]:
    """Per core and record the bytes that pass DRAM; None where there is no cache to miss, or no transfer."""
    if machine.llc.kib:
        return _misses(machine, trace.cores)
    return [[None] * len(core.records) for core in trace.cores]


def has_parts(machine: Machine) -> bool:
    """Whether a machine has such parts."""
    return bool(machine.core.fetch.kib or machine.core.wram.fifo_tiles or machine.llc.kib)


def _fetches(machine: Machine, core: CoreTrace) -> list[int]:
    cache, records = machine.core.fetch, core.records
    a_miss = machine.cycles(machine.dram.latency_ns) + ceil(cache.line_bytes / machine.dram_bytes_per_cycle)
    per_line, room = cache.line_bytes // INSTRUCTION_BYTES, cache.kib * 1024 // cache.line_bytes
    lines: OrderedDict[int, None] = OrderedDict()
    found = []
    for record, following in zip(records, [*records[1:], None], strict=True):
        first = last = record.place
        if isinstance(record, ScalarRecord):
            executed = sum(record.counts)
            to = following.place if following is not None else first + executed
            last = to - 1 if 0 < to - first <= executed else first
        passed = range(first // per_line, last // per_line + 1)
        misses = 0 if isinstance(record, TaskRecord) else sum(_use(lines, line, room) for line in passed)
        found.append(misses * a_miss)
    return found


def _use(lines: OrderedDict[int, None], line: int, room: int) -> bool:
    """Whether a line had to be fetched; it is the most recent now."""
    is_missing = line not in lines
    lines[line] = None
    lines.move_to_end(line)
    if len(lines) > room:
        lines.popitem(last=False)
    return is_missing


def _fifo(records: Sequence[Record], tiles: int) -> list[int]:
    """For each load of weights, the record of the last product that used the tile it takes the place of."""
    loads: list[tuple[Region, list[int]]] = []
    found = []
    for number, record in enumerate(records):
        after = -1
        if isinstance(record, TensorRecord):
            written = [region for region in record.writes if split(region.address)[0] == WRAM]
            if record.timing in ("dma", "multicast") and written:
                if len(loads) >= tiles and loads[-tiles][1]:
                    after = loads[-tiles][1][-1]
                loads.append((written[0], []))
            elif record.timing == "matrix":
                _mark_used(loads[-tiles:], record, number)
        found.append(after)
    return found


def _mark_used(loads: Sequence[tuple[Region, list[int]]], record: TensorRecord, number: int) -> None:
    weights = [region for region in record.reads if split(region.address)[0] == WRAM]
    for tile, users in loads:
        if any(overlap(tile, region) for region in weights):
            users.append(number)


def _misses(machine: Machine, cores: Sequence[CoreTrace]) -> list[list[int | None]]:
    """Bytes between the cache and DRAM for each transfer of DRAM; None for other records."""
    line = machine.llc.line_bytes
    cache: OrderedDict[int, bool] = OrderedDict()  # line to whether it was written
    room = machine.llc.kib * 1024 // line
    found: list[list[int | None]] = [[None] * len(core.records) for core in cores]
    for core, number, record in _interleaved(cores):
        if not isinstance(record, TensorRecord) or record.timing not in ("dma", "multicast"):
            continue
        ends = [
            *((region, False) for region in record.reads[:1]),
            *((region, True) for region in record.writes[:1]),
        ]
        far = [end for end in ends if split(end[0].address)[0] in DRAM_SPACES and end[0].count]
        if far:
            found[core][number] = line * sum(_pass(cache, room, line, *end) for end in far)
    return found


def _pass(cache: OrderedDict[int, bool], room: int, line: int, region: Region, is_write: bool) -> int:
    """Lines that go between the cache and DRAM when a region is read or written."""
    moved = 0
    starts, size = pieces(region)
    for start in starts.tolist():
        for number in range(start // line, (start + size - 1) // line + 1):
            whole = is_write and start <= number * line and (number + 1) * line <= start + size
            moved += number not in cache and not whole
            cache[number] = cache.get(number, False) or is_write
            cache.move_to_end(number)
            if len(cache) > room:
                moved += cache.popitem(last=False)[1]
    return moved


def _interleaved(cores: Sequence[CoreTrace]) -> Iterator[tuple[int, int, Record]]:
    """Every record, in the canonical order: core by core, each up to its next meeting."""
    places = [0] * len(cores)
    records = [core.records for core in cores]
    while any(place < len(own) for place, own in zip(places, records, strict=True)):
        for core, own in enumerate(records):
            while places[core] < len(own):
                number = places[core]
                places[core] += 1
                yield core, number, own[number]
                if isinstance(own[number], BarrierRecord | TaskRecord):
                    break
