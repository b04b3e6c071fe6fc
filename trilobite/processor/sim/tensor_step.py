"""One tensor instruction at machine speed, in typed Python: check its operands, do it, note it.

Enters: a `TensorState`, and the values of the instruction's registers in the core's state. Leaves: 1, and the
instruction is done; or 0, and nothing has happened: the interpreter does it, or finds its fault. Vectors are
of any length; instructions with more sizes run where these sizes are known as a form of their site.
"""

from __future__ import annotations

from trilobite.processor.sim.native_state import ALIGNED, DRAM, FIELDS, READ_LOW, SCALAR_PLACE, SCRATCH
from trilobite.processor.sim.typed_python import Ints, invoke

# Words of a site: what the interpreter knows about an instruction before it runs.
PLACE, COUNT_FIELD, CYCLE_FIELD, SCALAR_FIELD, OVERLAP, IS_COPY, SCRATCH_EACH, IS_FORMED = range(8)
REGION_COUNT, WRITTEN, KEY_COUNT, LOGGED_COUNT, REGIONS = range(8, 13)
FIELD, OFFSET, SPACES, COUNTED, ELEMENT = range(5)  # words of a region; those that are written come last
REGION_WORDS, MOST_REGIONS, MOST_FIELDS, MOST_KEYS = 5, 7, 8, 16
LOGGED = REGIONS + REGION_WORDS * MOST_REGIONS
KEYS = LOGGED + MOST_FIELDS
SITE_WORDS = KEYS + MOST_KEYS
BY_COUNT, BY_CYCLE, SINGLE = range(3)  # what says how many elements a region has
# Words of a form: what is known about an instruction with given sizes.
NEXT, KERNEL, FACTS, FORM_SCRATCH, FORM_OVERLAP, FORM_REGIONS, FORM_WRITTEN, FORM_KEYS = range(8)
AREAS = FORM_KEYS + MOST_KEYS
AREA_FIELD, AREA_OFFSET, LOW, HIGH, AREA_SPACES, ALIGN = range(6)  # words of a region with known sizes
AREA_WORDS = 6
FORM_WORDS = AREAS + AREA_WORDS * MOST_REGIONS
# Words of a row of the log.
SITE, SCALARS, SCALAR_AT, COUNTS, SPANS, VALUES = 0, 1, 2, 3, 13, 17
ROW_WORDS = VALUES + MOST_FIELDS
CLASSES = SPANS - COUNTS
SCRATCH_CLASS, DRAM_CLASS = 7, 8  # of SCALAR_CLASSES
LARGEST = 1 << 40
LONGEST_CYCLE = 1 << 24
SPACE_SHIFT, OWNER_SHIFT = 56, 40
OWNER, INNER = 0xFFFF, (1 << 40) - 1
FURTHEST = (1 << 63) - 1
LEAST_SCRATCH = 64
MARK_SHIFT = 2  # bytes that one mark stands for, as a power of 2


class TensorState:
    """What the steps of one core know: code, sites, memories, and the log they write."""

    kernel: Ints  # by site: where its code is, 0 while it is not hot
    site: Ints
    first_form: Ints  # by site, -1 for none
    form: Ints
    state: Ints  # of the translated code
    pads: Ints  # by memory space: host address, bytes
    blocks: Ints  # of DRAM: start, end
    counts: Ints  # scalar instructions since the last record, by class
    host: Ints  # of each region: where it begins, then its lowest byte
    size: Ints  # of each region: bytes, then the field that says where it is
    log: Ints
    state_address: int
    host_address: int
    scratch: int
    scratch_room: int
    scratch_wanted: int
    dram: int
    block_count: int
    traced: int
    log_count: int
    log_room: int
    code: Ints  # what follows is `scalar_step`'s: instructions, and the registers of tensor operands
    fields: Ints
    special: Ints  # special registers of the task
    code_count: int
    access: int  # code that loads or stores a word of the host
    dry: int  # 1: tensor instructions are noted and not done. What follows is only read then.
    taint: Ints  # by register: whether its value came out of a tensor
    is_value: Ints  # by field of `fields`: whether time does not depend on it
    marks: Ints  # by memory space: where its marks are
    undo: Ints  # what scalar stores have overwritten in DRAM: address of the host, bytes, old word
    undo_count: int
    undo_room: int
    fill: int  # code that fills bytes of the host
    judge: int  # code that is asked before an instruction is done, with `judged`; 0: nobody is
    judged: int


def tensor(e: TensorState, site: int) -> bool:
    first = site * SITE_WORDS
    if e.traced != 0 and e.log_count >= e.log_room:
        return False
    if e.site[first + IS_FORMED] != 0:
        return formed(e, site, first)
    if e.site[first + REGION_COUNT] == 0:  # a SYNC only leaves its record
        if e.judge != 0:
            invoke(e.judge, e.judged, site, -1)
        noted(e, site, first, -1)
        return True
    return counted(e, site, first)


def counted(e: TensorState, site: int, first: int) -> bool:
    """An instruction on vectors: how long they are stands in a register."""
    count = e.state[FIELDS + e.site[first + COUNT_FIELD]]
    if e.kernel[site] == 0 or count < 1 or count > LARGEST:
        return False
    cycle = 0
    if e.site[first + CYCLE_FIELD] >= 0:
        cycle = e.state[FIELDS + e.site[first + CYCLE_FIELD]]
        if cycle < 1 or cycle > LONGEST_CYCLE:
            return False
    if not locate_all(e, first, count, cycle):
        return False
    if e.dry != 0:
        spoil_all(e, first, count, cycle)
        noted(e, site, first, -1)
        return True
    if not has_scratch(e, (count + cycle) * e.site[first + SCRATCH_EACH] + LEAST_SCRATCH):
        return False
    if e.judge != 0 and invoke(e.judge, e.judged, site, -1) == 0:
        return False
    amount = e.size[0] if e.site[first + IS_COPY] != 0 else count
    scalars = e.state_address + 8 * (FIELDS + e.site[first + SCALAR_FIELD])
    if invoke(e.kernel[site], e.host_address, scalars, amount, cycle, 0, e.scratch) == 0:
        return False
    noted(e, site, first, -1)
    return True


def formed(e: TensorState, site: int, first: int) -> bool:
    """An instruction with several sizes, which must be those of a form."""
    form = e.first_form[site]
    while form >= 0:
        at = form * FORM_WORDS
        if fits(e, first, at):
            if not locate_areas(e, at) or not has_scratch(e, e.form[at + FORM_SCRATCH]):
                return False
            if e.dry != 0:
                spoil_areas(e, at)
                noted(e, site, first, form)
                return True
            if e.judge != 0 and invoke(e.judge, e.judged, site, form) == 0:
                return False
            scalars = e.state_address + 8 * (FIELDS + e.site[first + SCALAR_FIELD])
            facts = e.form[at + FACTS]
            if invoke(e.form[at + KERNEL], e.host_address, scalars, 0, 0, facts, e.scratch) == 0:
                return False
            noted(e, site, first, form)
            return True
        form = e.form[at + NEXT]
    return False


def spoil_all(e: TensorState, first: int, count: int, cycle: int) -> None:
    """What a vector instruction would write is not known any more."""
    for number in range(e.site[first + WRITTEN], e.site[first + REGION_COUNT]):
        at = first + REGIONS + REGION_WORDS * number
        address = e.state[FIELDS + e.site[at + FIELD]] + e.site[at + OFFSET]
        spoil(e, address, e.size[number])


def spoil_areas(e: TensorState, at: int) -> None:
    """The same for regions of known sizes, holes included."""
    for number in range(e.form[at + FORM_WRITTEN], e.form[at + FORM_REGIONS]):
        area = at + AREAS + AREA_WORDS * number
        address = e.state[FIELDS + e.form[area + AREA_FIELD]] + e.form[area + AREA_OFFSET]
        spoil(e, address + e.form[area + LOW], e.form[area + HIGH] - e.form[area + LOW])


def spoil(e: TensorState, address: int, size: int) -> None:
    """Marks bytes as unknown. A mark stands for four bytes: 1 for unknown in DRAM, for known on the chip."""
    space = address >> SPACE_SHIFT
    offset = address & INNER
    low = offset >> MARK_SHIFT
    high = (offset + size - 1) >> MARK_SHIFT
    invoke(e.fill, e.marks[space] + low, space == 0, high - low + 1)


def fits(e: TensorState, first: int, at: int) -> bool:
    """Whether the registers hold the sizes of a form."""
    for number in range(e.site[first + KEY_COUNT]):
        if e.state[FIELDS + e.site[first + KEYS + number]] != e.form[at + FORM_KEYS + number]:
            return False
    return True


def has_scratch(e: TensorState, wanted: int) -> bool:
    """Whether there is so much scratch memory; if not, there will be at the next run."""
    if wanted > e.scratch_room:
        e.scratch_wanted = max(e.scratch_wanted, wanted)
    return wanted <= e.scratch_room


def locate_all(e: TensorState, first: int, count: int, cycle: int) -> bool:
    """Finds every operand; False if one is not plainly there, or lies on a target in a way that matters."""
    regions = e.site[first + REGION_COUNT]
    for number in range(regions):
        at = first + REGIONS + REGION_WORDS * number
        counted_by = e.site[at + COUNTED]
        elements = count if counted_by == BY_COUNT else cycle if counted_by == BY_CYCLE else 1
        size = elements * e.site[at + ELEMENT]
        address = e.state[FIELDS + e.site[at + FIELD]] + e.site[at + OFFSET]
        host = locate(e, address, 0, size, e.site[at + SPACES], e.site[at + ELEMENT])
        if host == 0:
            return False
        found(e, number, host, 0, size, e.site[at + FIELD])
    return are_apart(e, regions, e.site[first + WRITTEN], e.site[first + OVERLAP])


def locate_areas(e: TensorState, at: int) -> bool:
    """The same for regions of known sizes."""
    regions = e.form[at + FORM_REGIONS]
    for number in range(regions):
        area = at + AREAS + AREA_WORDS * number
        address = e.state[FIELDS + e.form[area + AREA_FIELD]] + e.form[area + AREA_OFFSET]
        low = e.form[area + LOW]
        high = e.form[area + HIGH]
        host = locate(e, address, low, high, e.form[area + AREA_SPACES], e.form[area + ALIGN])
        if host == 0:
            return False
        found(e, number, host, low, high, e.form[area + AREA_FIELD])
    return are_apart(e, regions, e.form[at + FORM_WRITTEN], e.form[at + FORM_OVERLAP])


def found(e: TensorState, number: int, host: int, low: int, high: int, field: int) -> None:
    """Where a region is, which reaches from low to high around an address of the host."""
    e.host[number] = host
    e.host[MOST_REGIONS + number] = host + low
    e.size[number] = high - low
    e.size[MOST_REGIONS + number] = field


def are_apart(e: TensorState, regions: int, written: int, overlap: int) -> bool:
    """Sources and targets lie as the routine wants: in any way (0), exactly on each other (1), or apart (2).

    An operand that is both read and written is no hindrance: routines read what they add to.
    """
    if overlap == 0:
        return True
    for target in range(written, regions):
        for source in range(target):
            shared = sharing(e, source, target)
            other = e.size[MOST_REGIONS + source] - e.size[MOST_REGIONS + target]
            if shared == 1 or (shared == 2 and overlap == 2 and other != 0):
                return False
    return True


def sharing(e: TensorState, source: int, target: int) -> int:
    """0 if two regions have no byte in common, 2 if they have all, 1 if some."""
    source_low = e.host[MOST_REGIONS + source]
    target_low = e.host[MOST_REGIONS + target]
    if source_low == target_low and e.size[source] == e.size[target]:
        return 2
    meets = source_low < target_low + e.size[target] and target_low < source_low + e.size[source]
    return 1 if meets else 0


def locate(e: TensorState, address: int, low: int, high: int, spaces: int, align: int) -> int:
    """The host address of bytes that reach from low to high around it, or 0."""
    if address < 0 or (address >> OWNER_SHIFT) & OWNER != 0:
        return 0
    if address & (align - 1) & e.state[ALIGNED] != 0:
        return 0
    space = address >> SPACE_SHIFT
    if (spaces >> space) & 1 == 0:
        return 0
    offset = address & INNER
    if offset + low < 0:
        return 0
    if space > 0:
        if offset + high > e.pads[2 * space + 1]:
            return 0
        return e.pads[2 * space] + offset
    for block in range(e.block_count):
        if e.blocks[2 * block] <= offset + low and offset + high <= e.blocks[2 * block + 1]:
            return e.dram + offset
    return 0


def noted(e: TensorState, site: int, first: int, form: int) -> None:
    """A row of the log: the scalar work since the last record, and the operands."""
    if e.traced == 0:
        return
    row = e.log_count * ROW_WORDS
    e.log_count += 1
    e.log[row + SITE] = site
    e.counts[SCRATCH_CLASS] += e.state[SCRATCH]
    e.counts[0] += e.state[SCRATCH]  # an interlock looks at every scratchpad access
    e.counts[DRAM_CLASS] += e.state[DRAM]
    e.state[SCRATCH] = 0
    e.state[DRAM] = 0
    total = 0
    for number in range(CLASSES):
        total += e.counts[number]
        e.log[row + COUNTS + number] = e.counts[number]
        e.counts[number] = 0
    e.log[row + SCALARS] = total
    e.log[row + SCALAR_AT] = e.state[SCALAR_PLACE]
    e.state[SCALAR_PLACE] = e.site[first + PLACE] + 1
    for number in range(4):
        e.log[row + SPANS + number] = e.state[READ_LOW + number]
    e.state[READ_LOW] = FURTHEST
    e.state[READ_LOW + 1] = 0
    e.state[READ_LOW + 2] = FURTHEST
    e.state[READ_LOW + 3] = 0
    row += VALUES
    if form >= 0:  # its sizes are those of the form
        e.log[row] = form
        row += 1
    for number in range(e.site[first + LOGGED_COUNT]):
        e.log[row + number] = e.state[FIELDS + e.site[first + LOGGED + number]]
