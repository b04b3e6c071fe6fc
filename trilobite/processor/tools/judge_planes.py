"""Accesses of tensor instructions, byte by byte, in typed Python: what `tensor_judge` asks of the planes.

Enters: an access, as rows in a memory. Leaves: whether its bytes are written, and whether what others did
with them is known; or the planes with the access in them. An answer of 0 leaves it to the checkers.
"""

from __future__ import annotations

from trilobite.processor.sim.typed_python import invoke
from trilobite.processor.tools.judge_state import (
    AFTER_READS,
    AFTER_WRITES,
    AXES,
    ENTRY_WORDS,
    EXTENTS,
    GRANULE,
    HIGHEST,
    LAST,
    LOW,
    LOWEST,
    MARK_READ,
    MARK_WRITE,
    MEMORY,
    MEMORY_WORDS,
    PAGE_COUNT,
    PAGE_SHIFT,
    PAGE_SIZE,
    PAGES,
    READER_COUNT,
    READERS,
    READING,
    ROW,
    SHADOW,
    THREAD,
    WRITERS,
    WRITING,
    WRITTEN_BYTES,
    JudgeState,
)
from trilobite.processor.tools.planes import COUNT, PAGE, SHIFT


def used(e: JudgeState, list_at: int, thread: int) -> int:
    """Where it stands how a thread used a memory, or 0."""
    place = e.memory[list_at] >> 3
    last = place + e.memory[list_at + 1]
    while place < last:
        if e.words[(e.words[place] >> 3) + THREAD] == thread:
            return e.words[place]
        place += 1
    return 0


def is_ordered(e: JudgeState, list_at: int, at: int, low: int, high: int, thread: int, writes: int) -> int:
    """Whether what others did with these bytes, writes or reads, is known to have happened before."""
    place = e.memory[list_at] >> 3
    last = place + e.memory[list_at + 1]
    while place < last:
        uses = e.words[place] >> 3
        other = e.words[uses + THREAD]
        if (
            other != thread
            and e.words[uses + LAST] > e.clock[other]
            and e.words[uses + LOWEST] < high
            and low < e.words[uses + HIGHEST]
        ):
            if writes != 0:
                return walk(e, at, thread, AFTER_WRITES, 0)  # the planes of writes hold all threads
            if walk(e, at, thread, AFTER_READS, other) == 0:
                return 0
        place += 1
    return 1


def walk(e: JudgeState, at: int, thread: int, what: int, value: int) -> int:
    """Does something with every row of an access."""
    axes = e.access[at + AXES]
    if axes == 0:
        return row_of(e, at, thread, what, value, e.access[at + LOW])
    rows = 1
    axis = 0
    while axis < axes:
        rows = rows * e.access[at + EXTENTS + 2 * axis]
        axis += 1
    for row in range(rows):
        low = e.access[at + LOW]
        rest = row
        axis = axes - 1
        while axis >= 0:
            extent = e.access[at + EXTENTS + 2 * axis]
            low += rest % extent * e.access[at + EXTENTS + 2 * axis + 1]
            rest = rest // extent
            axis -= 1
        if row_of(e, at, thread, what, value, low) == 0:
            return 0
    return 1


def row_of(e: JudgeState, at: int, thread: int, what: int, value: int, low: int) -> int:
    """The same with one row, page by page."""
    memory = e.access[at + MEMORY] * MEMORY_WORDS
    shadow = e.memory[memory + SHADOW]
    left = e.access[at + ROW]
    if what == WRITTEN_BYTES:
        if shadow != 0 and invoke(e.search, shadow + low, 0, left) != 0:
            return 0
        return 1
    if shadow != 0 and what == MARK_WRITE:
        invoke(e.fill, shadow + low, 1, left)
    while left > 0:
        page = low >> PAGE_SHIFT
        if page >= e.memory[memory + PAGE_COUNT]:
            return 0
        place = (e.memory[memory + PAGES] >> 3) + page * ENTRY_WORDS
        inner = low & (PAGE - 1)
        size = PAGE - inner
        if size > left:
            size = left
        if piece(e, place, inner, size, e.access[at + AXES], thread, what, value) == 0:
            return 0
        low += size
        left -= size
    return 1


def piece(
    e: JudgeState, page: int, inner: int, size: int, axes: int, thread: int, what: int, value: int
) -> int:
    """The same with bytes of one page."""
    writers = e.words[page + WRITERS] >> 3
    shift = e.words[page + GRANULE]
    finest = (1 << shift) - 1
    if writers == 0 or inner & finest != 0:
        return 0
    if size & finest != 0 and (axes != 0 or inner + size != e.words[page + PAGE_SIZE]):
        return 0  # the page is to be split finer
    first = inner >> shift
    last = (inner + size + finest) >> shift
    if what == WRITING:
        return 1
    if what == READING:
        return plane_of(e, page, thread)
    if what == AFTER_WRITES:
        return writes_known(e, writers + first, writers + last, thread)
    if what == AFTER_READS:
        plane = plane_of(e, page, value) >> 3
        if plane == 0:
            return 1
        return reads_known(e, plane + first, plane + last, e.clock[value])
    plane = writers
    if what == MARK_READ:
        plane = plane_of(e, page, thread) >> 3
    first += plane
    last += plane
    while first < last:
        e.words[first] = value
        first += 1
    return 1


def plane_of(e: JudgeState, page: int, thread: int) -> int:
    """Where the reads of a thread stand, or 0."""
    place = e.words[page + READERS] >> 3
    last = place + 2 * e.words[page + READER_COUNT]
    while place < last:
        if e.words[place] == thread:
            return e.words[place + 1]
        place += 2
    return 0


def writes_known(e: JudgeState, first: int, last: int, thread: int) -> int:
    while first < last:
        code = e.words[first]
        other = code >> SHIFT
        if code & COUNT > e.clock[other] and other != thread:
            return 0
        first += 1
    return 1


def reads_known(e: JudgeState, first: int, last: int, known: int) -> int:
    while first < last:
        if e.words[first] > known:
            return 0
        first += 1
    return 1
