"""The words that `tensor_judge`, `judge_planes` and what fills their tables share."""

from __future__ import annotations

from trilobite.processor.isa.address import NUMBERS
from trilobite.processor.isa.row import CODE as CODE_SPACE
from trilobite.processor.isa.row import IO as IO_QUEUE
from trilobite.processor.isa.row import LDRAM, QUEUES
from trilobite.processor.isa.row import MOVE as MOVE_QUEUE
from trilobite.processor.sim.tensor_step import MOST_REGIONS
from trilobite.processor.sim.typed_python import Ints
from trilobite.processor.tools.planes import PAGE

PAGE_SHIFT = PAGE.bit_length() - 1
LOCAL, CONSTANTS = NUMBERS[LDRAM], NUMBERS[CODE_SPACE]
SPACES, QUEUE_COUNT = len(NUMBERS), len(QUEUES)
IO, MOVE = QUEUES.index(IO_QUEUE), QUEUES.index(MOVE_QUEUE)
LEAST_WORD = 4  # bytes: vectors of larger elements may begin at multiples of these
# Words of what is known of a site: its queue (-1: a copy's), the queues that a SYNC waits for, whether
# control waits for it, whether its results must lie apart from its sources, whether it has arrays at all.
# Then for each region where the bounds of its arrays are, how many, and how they are meant.
QUEUE, WAITS, IS_WAITED_FOR, APART, IS_NOTED, SPREADS, SPREAD_FIELD, SPREAD_VALUE, ARRAYS = range(9)
# How undefined elements spread: a copy takes them along; lanes that are undefined in all operands are so in
# the result, for this value of the scalar operand (field -1: there is none), or for any finite one but 0.
# Of pairs, a lane that is undefined in one operand is so where the other's element is finite and not 0.
COPIED, LANES, LANES_OF_FINITE, PAIRS = range(1, 5)
MOST_RUNS = 16
ARRAY_WORDS = 3
FACT_WORDS = ARRAYS + ARRAY_WORDS * MOST_REGIONS
NO_BOUNDS, BOUNDED, ANY_ARRAY, NEVER = range(4)  # how the arrays of a region are meant
# Words of a memory: DRAM blocks come behind the spaces.
START, END, SHADOW, PAGES, PAGE_COUNT, READS, READ_COUNT, WRITES, WRITE_COUNT = range(9)
MEMORY_WORDS = 9
# Words of a page, and of how a thread used a memory.
GRANULE, WRITERS, OWN_READS, BELOW, PAGE_SIZE, READERS, READER_COUNT = range(7)
ENTRY_WORDS = 7
THREAD, LAST, LOWEST, HIGHEST = range(4)
# Words of an access: the first byte, its memory (-1: constants), rows in it, how the own thread used it.
ADDRESS, MEMORY, LOW, HIGH, ROW, AXES, USED, EXTENTS = range(8)
MOST_AXES = 4
ACCESS_WORDS = EXTENTS + 2 * MOST_AXES
SPAN_LOW, SPAN_ROW, SPAN_AXES, SPAN_EXTENTS = range(4)  # words of a form's region
SPAN_ARRAYS = SPAN_EXTENTS + 2 * MOST_AXES
SPAN_WORDS = SPAN_ARRAYS + ARRAY_WORDS
# What is done with the pieces of an access.
READING, WRITTEN_BYTES, WRITING, AFTER_WRITES, AFTER_READS, MARK_READ, MARK_WRITE = range(7)


class JudgeState:
    """What is known of one core and of all accesses so far."""

    state: Ints  # of the translated code
    site: Ints
    form: Ints
    size: Ints  # of each region: bytes
    host: Ints  # of each region: where it begins
    fact: Ints  # by site
    span: Ints  # by form and region
    memory: Ints
    access: Ints
    clock: Ints  # what the core's control knows, with all that is always before it
    known: Ints  # what others learn from it
    counts: Ints  # accesses so far, by thread
    log: Ints  # thread, count and instruction of accesses
    words: Ints  # of the host's whole memory
    first: int  # thread of the core's control
    is_interlocked: int
    block_count: int
    runs: Ints  # of undefined elements of a result: first, and the one behind the last
    trail: (
        Ints  # address of a result, of the operand that its undefined elements are of, of the first of them
    )
    run_count: int
    first_missing: int
    trail_count: int
    partial: int  # the first operand of this instruction that has undefined elements, counted from 1
    log_count: int
    log_room: int
    search: int  # code that finds a byte of the host: C's memchr
    fill: int
