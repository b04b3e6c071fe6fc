"""Scalar code without a translation of its own: decoded instructions, executed one by one at machine speed.

Enters: a `TensorState` with a program's instructions as rows of words. Leaves: the core's state behind the
last instruction it could execute: one that is left to the interpreter, a tensor instruction that `tensor`
refused, or the limit. In typed Python, compiled once for all programs, so that a program of any length runs
from its first instruction on.
"""

from __future__ import annotations

from trilobite.processor.sim.native_state import DRAM, EXECUTED, FIELDS, LIMIT, PC, READ_LOW, SCRATCH
from trilobite.processor.sim.tensor_step import INNER, MARK_SHIFT, SPACE_SHIFT, TensorState, locate, tensor
from trilobite.processor.sim.typed_python import invoke

# Words of an instruction. Registers that it does not have are -1; a second source that is an immediate too.
OP, TARGET, FIRST, SECOND, THIRD, IMMEDIATE, CLASS, WRAP = range(8)
WORDS = 8
# Operations on integers, in the width and sign that WRAP gives (0: all 64 bits; above: unsigned).
ADD, SUB, MUL, AND, OR, XOR, SHL, SHR, GT, GE, EQ, NE, LT, LE, MAX, MIN, DIV, REM = range(18)
NOT, NEG, ABS, CONSTANT, HIGH, SELECT, SPECIAL = range(18, 25)
LAST_PLAIN = SPECIAL
# Where FIRST is the site of a tensor instruction, SECOND and THIRD begin and number of its fields, WRAP
# whether IMMEDIATE is one more.
LOAD, STORE, SITE, LEAVE, NOTHING = range(25, 30)
IF_ABOVE, IF_EQUAL, IF_OTHER, IF_LESS, IF_NOT_LESS, IF_BELOW, IF_NOT_BELOW = range(30, 37)
GO, GO_TO_REGISTER = range(37, 39)
LOADABLE, STORABLE = 0x7F, 0x3F  # spaces by a bit each
FAR_SPACES = 0x43  # GDRAM, LDRAM, CODE
LOW_WORD = 0xFFFFFFFF


def entry(e: TensorState, site: int) -> int:
    """One tensor instruction; or for -1, instructions until something is left to others."""
    if site >= 0:
        return tensor(e, site)
    return run(e)


def run(e: TensorState) -> int:
    pc = e.state[PC]
    executed = 0
    limit = e.state[LIMIT]
    while executed < limit and pc >= 0 and pc < e.code_count:
        at = pc * WORDS
        op = e.code[at]
        following = pc + 1
        if op <= LEAVE:
            if done(e, at, op) == 0:
                break
        else:
            following = target(e, at, op, pc)
            if following < 0:
                break
            e.counts[e.code[at + CLASS]] += 1
        executed += 1
        pc = following
    e.state[PC] = pc
    e.state[EXECUTED] = executed
    return executed


def done(e: TensorState, at: int, op: int) -> int:
    """An instruction that the next one follows; 0 if it is left to others."""
    if op <= LAST_PLAIN:
        if compute(e, at, op) == 0:
            return 0
        if e.dry != 0:
            e.taint[e.code[at + TARGET]] = tainted(e, at)
        e.counts[e.code[at + CLASS]] += 1
        return 1
    if op <= STORE:
        return accessed(e, at, op)
    if op == SITE:
        return tensor_at(e, at)
    return 0


def tainted(e: TensorState, at: int) -> int:
    """Whether a source of the instruction came out of a tensor."""
    found = 0
    if e.code[at + FIRST] >= 0:
        found = found | e.taint[e.code[at + FIRST]]
    if e.code[at + SECOND] >= 0:
        found = found | e.taint[e.code[at + SECOND]]
    if e.code[at + THIRD] >= 0:
        found = found | e.taint[e.code[at + THIRD]]
    return found


def wrapped(value: int, wrap: int) -> int:
    """The low bits of a word, extended again."""
    if wrap == 0:
        return value
    if wrap > 0:
        return value & ((1 << wrap) - 1)
    shift = 64 + wrap
    return (value << shift) >> shift


def compute(e: TensorState, at: int, op: int) -> int:
    """Writes the target register; 0 for a division that the interpreter must do."""
    wrap = e.code[at + WRAP]
    a = 0
    if e.code[at + FIRST] >= 0:
        a = wrapped(e.state[e.code[at + FIRST]], wrap)
    b = e.code[at + IMMEDIATE]
    if e.code[at + SECOND] >= 0:
        b = e.state[e.code[at + SECOND]]
    b = wrapped(b, wrap)
    if op >= NOT:
        e.state[e.code[at + TARGET]] = wrapped(moved(e, at, op, a, b), wrap)
        return 1
    if op >= DIV and (a < 0 or b <= 0):
        return 0
    e.state[e.code[at + TARGET]] = wrapped(binary(op, a, b, wrap), wrap)
    return 1


def binary(op: int, a: int, b: int, wrap: int) -> int:
    if op == ADD:
        return a + b
    if op == SUB:
        return a - b
    if op == MUL:
        return a * b
    if op == AND:
        return a & b
    if op == OR:
        return a | b
    if op == XOR:
        return (a | b) - (a & b)
    if op >= DIV:
        return divided(op, a, b)
    if op >= GT:
        return compared(op, a, b)
    if op == SHL:
        return a << amount(b, wrap)
    return a >> amount(b, wrap)


def divided(op: int, a: int, b: int) -> int:
    if op == DIV:
        return a // b
    return a % b


def amount(b: int, wrap: int) -> int:
    """By how much to shift: modulo the width."""
    if wrap == 0:
        return b & 63
    if wrap > 0:
        return b & (wrap - 1)
    return b & (0 - wrap - 1)


def compared(op: int, a: int, b: int) -> int:
    if op == MAX:
        if a > b:
            return a
        return b
    if op == MIN:
        if a < b:
            return a
        return b
    if a < b:
        return is_in(op, NE, LT, LE)
    if a > b:
        return is_in(op, NE, GT, GE)
    return is_in(op, EQ, LE, GE)


def is_in(op: int, first: int, second: int, third: int) -> int:
    if op == first or op == second or op == third:  # noqa: SIM109 - typed Python has no sets
        return 1
    return 0


def moved(e: TensorState, at: int, op: int, a: int, b: int) -> int:
    if op == CONSTANT:
        return b
    if op == HIGH:
        return b | (a & LOW_WORD)
    if op == SELECT:
        if e.state[e.code[at + THIRD]] != 0:
            return a
        return b
    if op == SPECIAL:
        return e.special[b]
    if op == NOT:
        return 0 - a - 1
    if op == NEG or a < 0:
        return 0 - a
    return a


def target(e: TensorState, at: int, op: int, pc: int) -> int:
    """The instruction that follows a branch, or -1 if it goes nowhere."""
    if op == NOTHING:
        return pc + 1
    if e.dry != 0 and tainted(e, at) != 0:
        return 0 - 1
    if op >= GO:
        to = pc + e.code[at + IMMEDIATE]
        if op == GO_TO_REGISTER:
            to = e.state[e.code[at + FIRST]]
        if to < 0 or to > e.code_count:
            return 0 - 1
        if e.code[at + TARGET] >= 0:
            e.state[e.code[at + TARGET]] = pc + 1
            e.taint[e.code[at + TARGET]] = 0
        return to
    a = e.state[e.code[at + FIRST]]
    b = 0
    if e.code[at + SECOND] >= 0:
        b = e.state[e.code[at + SECOND]]
    if is_taken(op, a, b) != 0:
        return pc + e.code[at + IMMEDIATE]
    return pc + 1


def is_taken(op: int, a: int, b: int) -> int:
    if op == IF_BELOW:
        return is_below(a, b)
    if op == IF_NOT_BELOW:
        return 1 - is_below(a, b)
    if a < b:
        return is_in(op, IF_OTHER, IF_LESS, IF_LESS)
    if a > b:
        return is_in(op, IF_OTHER, IF_ABOVE, IF_NOT_LESS)
    return is_in(op, IF_EQUAL, IF_NOT_LESS, IF_EQUAL)


def is_below(a: int, b: int) -> int:
    """a < b as unsigned numbers: one with the top bit is above all without."""
    if a < 0 and b >= 0:
        return 0
    if (a >= 0 and b < 0) or a < b:
        return 1
    return 0


def accessed(e: TensorState, at: int, op: int) -> int:
    """A scalar load or store; 0 for what the interpreter must judge. WRAP is the format's."""
    address = e.state[e.code[at + FIRST]] + e.code[at + IMMEDIATE]
    wrap = e.code[at + WRAP]
    size = 8
    if wrap > 0:
        size = wrap >> 3
    if wrap < 0:
        size = (0 - wrap) >> 3
    spaces = LOADABLE
    is_store = 0
    if op == STORE:
        spaces = STORABLE
        is_store = 1
    host = locate(e, address, 0, size, spaces, size)
    if host == 0 or (e.dry != 0 and can_follow(e, at, address, op) == 0):
        return 0
    if (FAR_SPACES >> (address >> SPACE_SHIFT)) & 1 != 0:
        e.state[DRAM] += 1
    else:
        touched(e, address, size, is_store)
    if e.dry != 0:
        followed(e, at, address, host, size, is_store)
    if is_store != 0:
        invoke(e.access, host, size, e.state[e.code[at + TARGET]], 1)
        return 1
    e.state[e.code[at + TARGET]] = wrapped(invoke(e.access, host, size, 0, 0), wrap)
    return 1


def can_follow(e: TensorState, at: int, address: int, op: int) -> int:
    """Whether the address is known, and there is room to note what a store overwrites."""
    if e.taint[e.code[at + FIRST]] != 0:
        return 0
    if op == STORE and address >> SPACE_SHIFT == 0 and e.undo_count >= e.undo_room:
        return 0
    return 1


def followed(e: TensorState, at: int, address: int, host: int, size: int, is_store: int) -> None:
    """A load takes the mark of its bytes; a store leaves one, and what it overwrites in DRAM is noted."""
    space = address >> SPACE_SHIFT
    mark = e.marks[space] + ((address & INNER) >> MARK_SHIFT)
    count = 1
    ones = 1  # a 1 in each mark
    if size == 8:
        count = 2
        ones = 0x101
    known = ones
    if space == 0:
        known = 0
    register = e.code[at + TARGET]
    if is_store == 0:
        e.taint[register] = 1
        if invoke(e.access, mark, count, 0, 0) == known:
            e.taint[register] = 0
        return
    if space == 0:
        e.undo[3 * e.undo_count] = host
        e.undo[3 * e.undo_count + 1] = size
        e.undo[3 * e.undo_count + 2] = invoke(e.access, host, size, 0, 0)
        e.undo_count += 1
    if e.taint[register] != 0:
        invoke(e.access, mark, count, ones - known, 1)
    elif size >= 4:  # less of it leaves the rest as unknown as it was
        invoke(e.access, mark, count, known, 1)


def touched(e: TensorState, address: int, size: int, is_store: int) -> None:
    """An access to a scratchpad: counted, and its bytes join those touched since the last record."""
    e.state[SCRATCH] += 1
    span = READ_LOW + 2 * is_store
    if address < e.state[span]:
        e.state[span] = address
    if address + size > e.state[span + 1]:
        e.state[span + 1] = address + size


def tensor_at(e: TensorState, at: int) -> int:
    """Its operands to where the step looks for them; a register that it writes, from where it left it."""
    first = e.code[at + SECOND]
    count = e.code[at + THIRD]
    number = 0
    while number < count:
        register = e.fields[first + number]
        if e.dry != 0 and e.taint[register] != 0 and e.is_value[first + number] == 0:
            return 0
        e.state[FIELDS + number] = e.state[register]
        number += 1
    if e.code[at + WRAP] != 0:
        e.state[FIELDS + count] = e.code[at + IMMEDIATE]
    if tensor(e, e.code[at + FIRST]) == 0:
        return 0
    if e.code[at + TARGET] >= 0:
        e.state[e.code[at + TARGET]] = e.state[FIELDS + count]
        e.taint[e.code[at + TARGET]] = e.dry
    return 1
