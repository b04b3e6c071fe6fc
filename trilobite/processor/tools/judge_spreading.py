"""Undefined elements of tensor instructions in typed Python: which elements of a result they make undefined.

Enters: an instruction on vectors with undefined elements in an operand. Leaves: the runs of such elements of
its result, where that is plain: copies, lanes that all operands lack, lanes that one of a pair lacks beside a
usual number. Whatever else is left to the checkers, which try what the result depends on.
"""

from __future__ import annotations

from trilobite.processor.sim.native_state import FIELDS
from trilobite.processor.sim.tensor_step import (
    ELEMENT,
    REGION_WORDS,
    REGIONS,
    SITE_WORDS,
)
from trilobite.processor.sim.typed_python import invoke
from trilobite.processor.tools.judge_state import (
    ACCESS_WORDS,
    ADDRESS,
    COPIED,
    FACT_WORDS,
    IS_WAITED_FOR,
    LANES,
    LOW,
    MEMORY,
    MEMORY_WORDS,
    MOST_RUNS,
    PAIRS,
    ROW,
    SHADOW,
    SPACES,
    SPREAD_FIELD,
    SPREAD_VALUE,
    SPREADS,
    JudgeState,
)

FLOAT_BITS, INFINITE = 0x7FFFFFFF, 0x7F800000  # of a float32: all but its sign, the least not finite


def spread(e: JudgeState, site: int, regions: int, written: int) -> int:
    """Finds the undefined elements of a result of vectors; 0 if that is not plain."""
    first = site * FACT_WORDS
    kind = e.fact[first + SPREADS]
    target = e.access[written * ACCESS_WORDS + MEMORY]
    if kind == 0 or regions - written != 1 or target >= SPACES or e.trail_count >= e.log_room:
        return 0
    if e.fact[first + IS_WAITED_FOR] != 0 or e.memory[target * MEMORY_WORDS + SHADOW] == 0:
        return 0
    if kind != COPIED and scalar_fits(e, first, kind) == 0:
        return 0
    e.first_missing = first_missing(e, site, e.partial - 1)
    e.run_count = 0
    lanes = lanes_of(e, site, written)
    for lane in range(lanes):
        missing = missing_of(e, site, lane, written, kind)
        if missing < 0 or (missing > 0 and add_to_runs(e, lane) == 0):
            return 0
    return 1


def lanes_of(e: JudgeState, site: int, number: int) -> int:
    """Elements of an operand."""
    size = e.site[site * SITE_WORDS + REGIONS + REGION_WORDS * number + ELEMENT]
    return e.access[number * ACCESS_WORDS + ROW] // size


def first_missing(e: JudgeState, site: int, number: int) -> int:
    """How far behind its address the first undefined element of an operand lies."""
    at = number * ACCESS_WORDS
    size = e.site[site * SITE_WORDS + REGIONS + REGION_WORDS * number + ELEMENT]
    low = e.memory[e.access[at + MEMORY] * MEMORY_WORDS + SHADOW] + e.access[at + LOW]
    return (invoke(e.search, low, 0, e.access[at + ROW]) - low) // size * size


def scalar_fits(e: JudgeState, first: int, kind: int) -> int:
    """Whether what is known of undefined lanes holds for the scalar operand."""
    field = e.fact[first + SPREAD_FIELD]
    if field < 0:
        return 1
    value = e.state[FIELDS + field]
    if kind == LANES:
        if value == e.fact[first + SPREAD_VALUE]:
            return 1
        return 0
    bits = value & FLOAT_BITS
    if bits == 0 or bits >= INFINITE:
        return 0
    return 1


def missing_of(e: JudgeState, site: int, lane: int, written: int, kind: int) -> int:
    """1 if an element of the result is undefined, 0 if it is not, -1 if that is not plain."""
    missing = 0
    for number in range(written):
        element = lane % lanes_of(e, site, number)
        if is_missing(e, site, element, number) != 0:
            missing += 1
    if missing == 0:
        return 0
    if missing == written:
        return 1
    if kind != PAIRS:
        return -1
    for number in range(written):
        element = lane % lanes_of(e, site, number)
        if is_missing(e, site, element, number) == 0 and is_usual(e, e.host[number] + 4 * element) == 0:
            return -1
    return 1


def is_missing(e: JudgeState, site: int, element: int, number: int) -> int:
    """Whether a byte of an operand's element was never written."""
    at = number * ACCESS_WORDS
    size = e.site[site * SITE_WORDS + REGIONS + REGION_WORDS * number + ELEMENT]
    shadow = e.memory[e.access[at + MEMORY] * MEMORY_WORDS + SHADOW]
    if shadow == 0:
        return 0
    byte = shadow + e.access[at + LOW] + element * size
    last = byte + size
    while byte < last:
        if (e.words[byte >> 3] >> ((byte & 7) << 3)) & 1 == 0:
            return 1
        byte += 1
    return 0


def is_usual(e: JudgeState, place: int) -> int:
    """Whether a float32 of the host is finite and not 0."""
    bits = (e.words[place >> 3] >> ((place & 7) << 3)) & FLOAT_BITS
    if bits == 0 or bits >= INFINITE or place & 3 != 0:
        return 0
    return 1


def add_to_runs(e: JudgeState, lane: int) -> int:
    """One more undefined element; 0 if they lie in too many places."""
    if e.run_count > 0 and e.runs[2 * e.run_count - 1] == lane:
        e.runs[2 * e.run_count - 1] = lane + 1
        return 1
    if e.run_count >= MOST_RUNS:
        return 0
    e.runs[2 * e.run_count] = lane
    e.runs[2 * e.run_count + 1] = lane + 1
    e.run_count += 1
    return 1


def leave_undefined(e: JudgeState, site: int, written: int) -> None:
    """Takes the undefined elements out of what was written, and notes where they came from."""
    at = written * ACCESS_WORDS
    size = e.site[site * SITE_WORDS + REGIONS + REGION_WORDS * written + ELEMENT]
    low = e.memory[e.access[at + MEMORY] * MEMORY_WORDS + SHADOW] + e.access[at + LOW]
    for number in range(e.run_count):
        begin = e.runs[2 * number]
        invoke(e.fill, low + begin * size, 0, (e.runs[2 * number + 1] - begin) * size)
    row = 3 * e.trail_count
    e.trail[row] = e.access[at + ADDRESS]
    e.trail[row + 1] = e.access[(e.partial - 1) * ACCESS_WORDS + ADDRESS]
    e.trail[row + 2] = e.trail[row + 1] + e.first_missing
    e.trail_count += 1
