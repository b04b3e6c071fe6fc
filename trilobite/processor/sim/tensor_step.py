"""One tensor instruction at machine speed, in typed Python: check its operands, note it, do it.

Enters: a `TensorState`, and the values of the instruction's registers in the core's state. Leaves: 1, and the
instruction is done; or 0, and nothing has happened: the interpreter does it, or finds its fault. Only
vectors without holes are done here, in memories of the core itself and in DRAM.
"""

from __future__ import annotations

from trilobite.processor.sim.native_state import DRAM, FIELDS, READ_LOW, SCALAR_PLACE, SCRATCH
from trilobite.processor.sim.typed_python import Ints, invoke

# Words of a site: what the interpreter knows about an instruction before it runs.
PLACE, COUNT_FIELD, CYCLE_FIELD, SCALAR_FIELD, ELEMENT, IS_COPY, REGION_COUNT, REGIONS = range(8)
FIELD, OFFSET, SPACES, IS_CYCLE = range(4)  # words of a region; the last region is the one that is written
REGION_WORDS, MOST_REGIONS = 4, 4
SITE_WORDS = REGIONS + REGION_WORDS * MOST_REGIONS
# Words of a row of the log.
SITE, SCALARS, SCALAR_AT, COUNTS, SPANS, VALUES = 0, 1, 2, 3, 13, 17
MOST_FIELDS = 7
ROW_WORDS = VALUES + MOST_FIELDS
CLASSES = SPANS - COUNTS
SCRATCH_CLASS, DRAM_CLASS = 7, 8  # of SCALAR_CLASSES
LARGEST = 1 << 40
LONGEST_CYCLE = 4096
SPACE_SHIFT, OWNER_SHIFT = 56, 40
OWNER, INNER = 0xFFFF, (1 << 40) - 1
FURTHEST = (1 << 63) - 1


class TensorState:
    """What the steps of one core know: code, sites, memories, and the log they write."""

    kernel: Ints  # by site: where its code is, 0 while it is not hot
    site: Ints
    state: Ints  # of the translated code
    pads: Ints  # by memory space: host address, bytes
    blocks: Ints  # of DRAM: start, end
    counts: Ints  # scalar instructions since the last record, by class
    host: Ints
    size: Ints
    log: Ints
    state_address: int
    dram: int
    block_count: int
    traced: int
    log_count: int
    log_room: int


def entry(e: TensorState, site: int) -> int:
    first = site * SITE_WORDS
    if e.site[first + REGION_COUNT] == 0:  # a SYNC only leaves its record
        return noted(e, site, first)
    count = e.state[FIELDS + e.site[first + COUNT_FIELD]]
    if e.kernel[site] == 0 or count < 1 or count > LARGEST:
        return 0
    cycle = 0
    if e.site[first + CYCLE_FIELD] >= 0:
        cycle = e.state[FIELDS + e.site[first + CYCLE_FIELD]]
        if cycle < 1 or cycle > LONGEST_CYCLE:
            return 0
        if count % cycle != 0:
            return 0
    if locate_all(e, first, count, cycle) == 0:
        return 0
    if noted(e, site, first) == 0:
        return 0
    last = e.site[first + REGION_COUNT] - 1
    amount = count
    if e.site[first + IS_COPY] != 0:
        amount = e.size[last]
    second = e.host[1]
    if e.site[first + SCALAR_FIELD] >= 0:
        second = e.state_address + 8 * (FIELDS + e.site[first + SCALAR_FIELD])
    invoke(e.kernel[site], e.host[last], e.host[0], second, e.host[2], amount, cycle)
    return 1


def locate_all(e: TensorState, first: int, count: int, cycle: int) -> int:
    """Finds every operand; 0 if one is not plainly there, or lies partly on the target."""
    regions = e.site[first + REGION_COUNT]
    number = 0
    while number < regions:
        at = first + REGIONS + REGION_WORDS * number
        elements = count
        if e.site[at + IS_CYCLE] != 0:
            elements = cycle
        size = elements * e.site[first + ELEMENT]
        address = e.state[FIELDS + e.site[at + FIELD]] + e.site[at + OFFSET]
        host = locate(e, address, size, e.site[at + SPACES], e.site[first + ELEMENT])
        if host == 0:
            return 0
        e.host[number] = host
        e.size[number] = size
        number += 1
    if e.site[first + IS_COPY] != 0:
        return 1
    last = regions - 1
    number = 0
    while number < last:
        if overlaps(e, number, last) != 0:
            return 0
        number += 1
    return 1


def overlaps(e: TensorState, source: int, target: int) -> int:
    """Whether a source lies on the target, but not just there."""
    if e.host[source] == e.host[target] and e.size[source] == e.size[target]:
        return 0
    if e.host[source] < e.host[target] + e.size[target] and e.host[target] < e.host[source] + e.size[source]:
        return 1
    return 0


def locate(e: TensorState, address: int, size: int, spaces: int, align: int) -> int:
    """The host address of bytes, or 0."""
    if address < 0 or address & (align - 1) != 0 or (address >> OWNER_SHIFT) & OWNER != 0:
        return 0
    space = address >> SPACE_SHIFT
    if (spaces >> space) & 1 == 0:
        return 0
    offset = address & INNER
    if space > 0:
        if offset + size > e.pads[2 * space + 1]:
            return 0
        return e.pads[2 * space] + offset
    block = 0
    while block < e.block_count:
        if e.blocks[2 * block] <= offset and offset + size <= e.blocks[2 * block + 1]:
            return e.dram + offset
        block += 1
    return 0


def noted(e: TensorState, site: int, first: int) -> int:
    """A row of the log: the scalar work since the last record, and the operands. 0 if the log is full."""
    if e.traced == 0:
        return 1
    if e.log_count >= e.log_room:
        return 0
    row = e.log_count * ROW_WORDS
    e.log_count += 1
    e.log[row + SITE] = site
    e.counts[SCRATCH_CLASS] += e.state[SCRATCH]
    e.counts[0] += e.state[SCRATCH]  # an interlock looks at every scratchpad access
    e.counts[DRAM_CLASS] += e.state[DRAM]
    e.state[SCRATCH] = 0
    e.state[DRAM] = 0
    total = 0
    number = 0
    while number < CLASSES:
        total += e.counts[number]
        e.log[row + COUNTS + number] = e.counts[number]
        e.counts[number] = 0
        number += 1
    e.log[row + SCALARS] = total
    e.log[row + SCALAR_AT] = e.state[SCALAR_PLACE]
    e.state[SCALAR_PLACE] = e.site[first + PLACE] + 1
    number = 0
    while number < 4:
        e.log[row + SPANS + number] = e.state[READ_LOW + number]
        number += 1
    e.state[READ_LOW] = FURTHEST
    e.state[READ_LOW + 1] = 0
    e.state[READ_LOW + 2] = FURTHEST
    e.state[READ_LOW + 3] = 0
    number = 0
    while number < MOST_FIELDS:
        e.log[row + VALUES + number] = e.state[FIELDS + number]
        number += 1
    return 1
