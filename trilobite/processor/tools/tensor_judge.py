"""A tensor instruction under the checkers at machine speed, in typed Python: is it plainly fine? Note it.

Enters: a `JudgeState`, and an instruction that `tensor_step` has found lawful. Leaves: 1, and the access is
recorded as the checkers record it; or 0, and nothing has happened: the checkers judge it, and say what is
wrong. Fine is what reads written bytes that no unordered access wrote, writes bytes that no unordered access
wrote or read, and stays inside its arrays. Deleting this changes only speed.
"""

from __future__ import annotations

from trilobite.processor.sim.native_state import FIELDS
from trilobite.processor.sim.tensor_step import (
    ALIGN,
    AREA_FIELD,
    AREA_OFFSET,
    AREA_WORDS,
    AREAS,
    ELEMENT,
    FIELD,
    FORM_REGIONS,
    FORM_WORDS,
    FORM_WRITTEN,
    INNER,
    MOST_REGIONS,
    OFFSET,
    PLACE,
    REGION_COUNT,
    REGION_WORDS,
    REGIONS,
    SITE_WORDS,
    SPACE_SHIFT,
    WRITTEN,
)
from trilobite.processor.tools.judge_planes import is_ordered, used, walk
from trilobite.processor.tools.judge_spreading import leave_undefined, spread
from trilobite.processor.tools.judge_state import (
    ACCESS_WORDS,
    ADDRESS,
    ANY_ARRAY,
    APART,
    ARRAY_WORDS,
    ARRAYS,
    AXES,
    CONSTANTS,
    END,
    EXTENTS,
    FACT_WORDS,
    HIGH,
    HIGHEST,
    IO,
    IS_NOTED,
    IS_WAITED_FOR,
    LAST,
    LEAST_WORD,
    LOCAL,
    LOW,
    LOWEST,
    MARK_READ,
    MARK_WRITE,
    MEMORY,
    MEMORY_WORDS,
    MOVE,
    NEVER,
    NO_BOUNDS,
    QUEUE,
    QUEUE_COUNT,
    READING,
    READS,
    ROW,
    SPACES,
    SPAN_ARRAYS,
    SPAN_AXES,
    SPAN_EXTENTS,
    SPAN_LOW,
    SPAN_ROW,
    SPAN_WORDS,
    START,
    USED,
    WAITS,
    WRITES,
    WRITING,
    WRITTEN_BYTES,
    JudgeState,
)
from trilobite.processor.tools.planes import SHIFT


def entry(e: JudgeState, site: int, form: int) -> int:
    first = site * FACT_WORDS
    if e.fact[first + WAITS] != 0:
        wait(e, e.fact[first + WAITS])
        return 1
    if e.log_count >= e.log_room:
        return 0
    regions = e.site[site * SITE_WORDS + REGION_COUNT]
    written = e.site[site * SITE_WORDS + WRITTEN]
    if form >= 0:
        regions = e.form[form * FORM_WORDS + FORM_REGIONS]
        written = e.form[form * FORM_WORDS + FORM_WRITTEN]
    if lie_well(e, site, form, regions) == 0:
        return 0
    if e.fact[first + APART] != 0 and lie_apart(e, regions, written) == 0:
        return 0
    thread = e.first + queue_of(e, e.fact[first + QUEUE], regions)
    e.partial = 0
    if are_fine(e, thread, regions, written) == 0:
        return 0
    if e.partial != 0 and (form >= 0 or spread(e, site, regions, written) == 0):
        return 0
    note(e, site, thread, regions, written)
    if e.partial != 0:
        leave_undefined(e, site, written)
    if e.fact[first + IS_WAITED_FOR] != 0:
        learn(e, thread)
    return 1


def lie_well(e: JudgeState, site: int, form: int, regions: int) -> int:
    for number in range(regions):
        if found(e, site, form, number) == 0 or begins_well(e, site, form, number) == 0:
            return 0
    return 1


def are_fine(e: JudgeState, thread: int, regions: int, written: int) -> int:
    for number in range(regions):
        if is_fine(e, number, thread, number >= written) == 0:
            return 0
    return 1


def wait(e: JudgeState, queues: int) -> None:
    for queue in range(1, QUEUE_COUNT):
        if (queues >> queue) & 1 != 0:
            learn(e, e.first + queue)


def learn(e: JudgeState, thread: int) -> None:
    """The core has waited for all that a queue of it did."""
    e.known[thread] = e.counts[thread]
    if e.is_interlocked == 0:
        e.clock[thread] = e.counts[thread]


def queue_of(e: JudgeState, queue: int, regions: int) -> int:
    """A copy with an end in DRAM is the io queue's, others the move queue's."""
    if queue >= 0:
        return queue
    for number in range(regions):
        space = e.access[number * ACCESS_WORDS + ADDRESS] >> SPACE_SHIFT
        if space == 0 or (1 << space) & (1 << LOCAL | 1 << CONSTANTS) != 0:
            return IO
    return MOVE


def found(e: JudgeState, site: int, form: int, number: int) -> int:
    """Where an operand lies: its memory, and its rows in it."""
    at = number * ACCESS_WORDS
    region = site * SITE_WORDS + REGIONS + REGION_WORDS * number
    span = (form * MOST_REGIONS + number) * SPAN_WORDS
    if form >= 0:
        area = form * FORM_WORDS + AREAS + AREA_WORDS * number
        address = e.state[FIELDS + e.form[area + AREA_FIELD]] + e.form[area + AREA_OFFSET]
        if e.span[span + SPAN_AXES] < 0:  # too many axes
            return 0
        low = e.span[span + SPAN_LOW]
        e.access[at + ROW] = e.span[span + SPAN_ROW]
        e.access[at + AXES] = e.span[span + SPAN_AXES]
    else:
        address = e.state[FIELDS + e.site[region + FIELD]] + e.site[region + OFFSET]
        low = 0
        e.access[at + ROW] = e.size[number]
        e.access[at + AXES] = 0
    e.access[at + ADDRESS] = address
    space = address >> SPACE_SHIFT
    memory = space
    low += address & INNER
    if space == 0:
        block = SPACES
        memory = 0
        while block < SPACES + e.block_count:
            row = block * MEMORY_WORDS
            if e.memory[row + START] <= low and low < e.memory[row + END]:
                memory = block
                break
            block += 1
        if memory == 0:
            return 0
    low -= e.memory[memory * MEMORY_WORDS + START]
    high = low + e.access[at + ROW]
    for axis in range(e.access[at + AXES]):
        extent = e.span[span + SPAN_EXTENTS + 2 * axis]
        stride = e.span[span + SPAN_EXTENTS + 2 * axis + 1]
        e.access[at + EXTENTS + 2 * axis] = extent
        e.access[at + EXTENTS + 2 * axis + 1] = stride
        high += (extent - 1) * stride
    e.access[at + MEMORY] = memory
    e.access[at + LOW] = low
    e.access[at + HIGH] = high
    return 1


def begins_well(e: JudgeState, site: int, form: int, number: int) -> int:
    """Whether an operand begins where its elements may, and stays in an array that it may lie in."""
    first = site * FACT_WORDS
    if e.fact[first + IS_NOTED] == 0:
        return 1
    align = e.site[site * SITE_WORDS + REGIONS + REGION_WORDS * number + ELEMENT]
    arrays = first + ARRAYS + ARRAY_WORDS * number
    place = e.fact[arrays] >> 3
    count = e.fact[arrays + 1]
    kind = e.fact[arrays + 2]
    if form >= 0:
        align = e.form[form * FORM_WORDS + AREAS + AREA_WORDS * number + ALIGN]
        arrays = (form * MOST_REGIONS + number) * SPAN_WORDS + SPAN_ARRAYS
        place = e.span[arrays] >> 3
        count = e.span[arrays + 1]
        kind = e.span[arrays + 2]
    if e.access[number * ACCESS_WORDS + ADDRESS] & (min(align, LEAST_WORD) - 1) != 0 or kind == NEVER:
        return 0
    if kind == NO_BOUNDS:
        return 1
    return is_inside(e, number * ACCESS_WORDS, place, count, kind)


def is_inside(e: JudgeState, at: int, place: int, count: int, kind: int) -> int:
    """Whether an access lies in one of some arrays, or begins in none where it need not."""
    base = e.access[at + ADDRESS] >> SPACE_SHIFT << SPACE_SHIFT
    low = base + e.memory[e.access[at + MEMORY] * MEMORY_WORDS + START] + e.access[at + LOW]
    high = low + e.access[at + HIGH] - e.access[at + LOW]
    begins = 0
    last = place + 2 * count
    while place < last:
        if e.words[place] <= low and low < e.words[place + 1]:
            if high <= e.words[place + 1]:
                return 1
            begins = 1
        place += 2
    if kind == ANY_ARRAY and begins == 0:
        return 1
    return 0


def lie_apart(e: JudgeState, regions: int, written: int) -> int:
    """Whether no result lies partly on a source."""
    for target in range(written, regions):
        for source in range(written):
            a = source * ACCESS_WORDS
            b = target * ACCESS_WORDS
            if (
                e.access[a + MEMORY] == e.access[b + MEMORY]
                and e.access[a + LOW] < e.access[b + HIGH]
                and e.access[b + LOW] < e.access[a + HIGH]
                and not is_same(e, a, b)
            ):
                return 0
    return 1


def is_same(e: JudgeState, a: int, b: int) -> bool:
    """Whether two accesses are the same row."""
    same = e.access[a + LOW] == e.access[b + LOW] and e.access[a + ROW] == e.access[b + ROW]
    return same and e.access[a + AXES] + e.access[b + AXES] == 0


def is_fine(e: JudgeState, number: int, thread: int, writes: int) -> int:
    at = number * ACCESS_WORDS
    memory = e.access[at + MEMORY] * MEMORY_WORDS
    if e.access[at + MEMORY] == CONSTANTS:
        return 1
    low = e.access[at + LOW]
    high = e.access[at + HIGH]
    if writes == 0:
        e.access[at + USED] = used(e, memory + READS, thread)
        if e.access[at + USED] == 0 or walk(e, at, thread, READING, 0) == 0:
            return 0
        if e.partial == 0 and walk(e, at, thread, WRITTEN_BYTES, 0) == 0:
            e.partial = number + 1
        return is_ordered(e, memory + WRITES, at, low, high, thread, 1)
    e.access[at + USED] = used(e, memory + WRITES, thread)
    if e.access[at + USED] == 0 or walk(e, at, thread, WRITING, 0) == 0:
        return 0
    if is_ordered(e, memory + WRITES, at, low, high, thread, 1) == 0:
        return 0
    return is_ordered(e, memory + READS, at, low, high, thread, 0)


def note(e: JudgeState, site: int, thread: int, regions: int, written: int) -> None:
    """The access has happened."""
    count = e.counts[thread] + 1
    e.counts[thread] = count
    e.log[3 * e.log_count] = thread
    e.log[3 * e.log_count + 1] = count
    e.log[3 * e.log_count + 2] = e.site[site * SITE_WORDS + PLACE]
    e.log_count += 1
    for number in range(regions):
        at = number * ACCESS_WORDS
        if e.access[at + MEMORY] != CONSTANTS:
            if number < written:
                walk(e, at, thread, MARK_READ, count)
            else:
                walk(e, at, thread, MARK_WRITE, thread << SHIFT | count)
            uses = e.access[at + USED] >> 3
            e.words[uses + LAST] = count
            e.words[uses + LOWEST] = min(e.words[uses + LOWEST], e.access[at + LOW])
            e.words[uses + HIGHEST] = max(e.words[uses + HIGHEST], e.access[at + HIGH])
