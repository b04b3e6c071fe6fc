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
            if not done(e, at, op):
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


def done(e: TensorState, at: int, op: int) -> bool:
    """An instruction that the next one follows; False if it is left to others."""
    if op <= LAST_PLAIN:
        if not compute(e, at, op):
            return False
        if e.dry != 0:
            e.taint[e.code[at + TARGET]] = tainted(e, at)
        e.counts[e.code[at + CLASS]] += 1
        return True
    if op <= STORE:
        return accessed(e, at, op)
    if op == SITE:
        return tensor_at(e, at)
    return False


def tainted(e: TensorState, at: int) -> int:
    """Whether a source of the instruction came out of a tensor."""
    found = 0
    for word in range(FIRST, THIRD + 1):
        if e.code[at + word] >= 0:
            found = found | e.taint[e.code[at + word]]
    return found


def wrapped(value: int, wrap: int) -> int:
    """The low bits of a word, extended again."""
    if wrap == 0:
        return value
    if wrap > 0:
        return value & ((1 << wrap) - 1)
    shift = 64 + wrap
    return (value << shift) >> shift


def compute(e: TensorState, at: int, op: int) -> bool:
    """Writes the target register; False for a division that the interpreter must do."""
    wrap = e.code[at + WRAP]
    a = wrapped(e.state[e.code[at + FIRST]], wrap) if e.code[at + FIRST] >= 0 else 0
    second = e.code[at + SECOND]
    b = wrapped(e.state[second] if second >= 0 else e.code[at + IMMEDIATE], wrap)
    if op >= NOT:
        e.state[e.code[at + TARGET]] = wrapped(moved(e, at, op, a, b), wrap)
        return True
    if op >= DIV and (a < 0 or b <= 0):
        return False
    e.state[e.code[at + TARGET]] = wrapped(binary(op, a, b, wrap), wrap)
    return True


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
        return a ^ b
    if op >= DIV:
        return a // b if op == DIV else a % b
    if op >= GT:
        return compared(op, a, b)
    return a << amount(b, wrap) if op == SHL else a >> amount(b, wrap)


def amount(b: int, wrap: int) -> int:
    """By how much to shift: modulo the width."""
    if wrap == 0:
        return b & 63
    return b & (max(wrap, -wrap) - 1)


def compared(op: int, a: int, b: int) -> int:
    if op == MAX:
        return max(a, b)
    if op == MIN:
        return min(a, b)
    if a < b:
        return op in (NE, LT, LE)
    if a > b:
        return op in (NE, GT, GE)
    return op in (EQ, LE, GE)


def moved(e: TensorState, at: int, op: int, a: int, b: int) -> int:
    if op == CONSTANT:
        return b
    if op == HIGH:
        return b | (a & LOW_WORD)
    if op == SELECT:
        return a if e.state[e.code[at + THIRD]] != 0 else b
    if op == SPECIAL:
        return e.special[b]
    if op == NOT:
        return -a - 1
    return -a if op == NEG or a < 0 else a


def target(e: TensorState, at: int, op: int, pc: int) -> int:
    """The instruction that follows a branch, or -1 if it goes nowhere."""
    if op == NOTHING:
        return pc + 1
    if e.dry != 0 and tainted(e, at) != 0:
        return -1
    if op >= GO:
        to = e.state[e.code[at + FIRST]] if op == GO_TO_REGISTER else pc + e.code[at + IMMEDIATE]
        if to < 0 or to > e.code_count:
            return -1
        if e.code[at + TARGET] >= 0:
            e.state[e.code[at + TARGET]] = pc + 1
            e.taint[e.code[at + TARGET]] = 0
        return to
    b = e.state[e.code[at + SECOND]] if e.code[at + SECOND] >= 0 else 0
    is_far = is_taken(op, e.state[e.code[at + FIRST]], b)
    return pc + e.code[at + IMMEDIATE] if is_far else pc + 1


def is_taken(op: int, a: int, b: int) -> bool:
    if op == IF_BELOW:
        return is_below(a, b)
    if op == IF_NOT_BELOW:
        return not is_below(a, b)
    if a < b:
        return op in (IF_OTHER, IF_LESS)
    if a > b:
        return op in (IF_OTHER, IF_ABOVE, IF_NOT_LESS)
    return op in (IF_EQUAL, IF_NOT_LESS)


def is_below(a: int, b: int) -> bool:
    """a < b as unsigned numbers: one with the top bit is above all without."""
    return b < 0 if (a < 0) != (b < 0) else a < b


def accessed(e: TensorState, at: int, op: int) -> bool:
    """A scalar load or store; False for what the interpreter must judge. WRAP is the format's."""
    address = e.state[e.code[at + FIRST]] + e.code[at + IMMEDIATE]
    wrap = e.code[at + WRAP]
    size = 8 if wrap == 0 else max(wrap, -wrap) >> 3
    is_store = op == STORE
    host = locate(e, address, 0, size, STORABLE if is_store else LOADABLE, size)
    if host == 0 or (e.dry != 0 and not can_follow(e, at, address, op)):
        return False
    if (FAR_SPACES >> (address >> SPACE_SHIFT)) & 1 != 0:
        e.state[DRAM] += 1
    else:
        touched(e, address, size, is_store)
    if e.dry != 0:
        followed(e, at, address, host, size, is_store)
    if is_store:
        invoke(e.access, host, size, e.state[e.code[at + TARGET]], 1)
        return True
    e.state[e.code[at + TARGET]] = wrapped(invoke(e.access, host, size, 0, 0), wrap)
    return True


def can_follow(e: TensorState, at: int, address: int, op: int) -> bool:
    """Whether the address is known, and there is room to note what a store overwrites."""
    is_noted = op == STORE and address >> SPACE_SHIFT == 0
    return e.taint[e.code[at + FIRST]] == 0 and not (is_noted and e.undo_count >= e.undo_room)


def followed(e: TensorState, at: int, address: int, host: int, size: int, is_store: bool) -> None:
    """A load takes the mark of its bytes; a store leaves one, and what it overwrites in DRAM is noted."""
    space = address >> SPACE_SHIFT
    mark = e.marks[space] + ((address & INNER) >> MARK_SHIFT)
    count = 2 if size == 8 else 1
    ones = 0x101 if size == 8 else 1  # a 1 in each mark
    known = 0 if space == 0 else ones
    register = e.code[at + TARGET]
    if not is_store:
        e.taint[register] = invoke(e.access, mark, count, 0, 0) != known
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


def touched(e: TensorState, address: int, size: int, is_store: bool) -> None:
    """An access to a scratchpad: counted, and its bytes join those touched since the last record."""
    e.state[SCRATCH] += 1
    span = READ_LOW + 2 * is_store
    e.state[span] = min(e.state[span], address)
    e.state[span + 1] = max(e.state[span + 1], address + size)


def tensor_at(e: TensorState, at: int) -> bool:
    """Its operands to where the step looks for them; a register that it writes, from where it left it."""
    first = e.code[at + SECOND]
    count = e.code[at + THIRD]
    for number in range(count):
        register = e.fields[first + number]
        if e.dry != 0 and e.taint[register] != 0 and e.is_value[first + number] == 0:
            return False
        e.state[FIELDS + number] = e.state[register]
    if e.code[at + WRAP] != 0:
        e.state[FIELDS + count] = e.code[at + IMMEDIATE]
    if not tensor(e, e.code[at + FIRST]):
        return False
    if e.code[at + TARGET] >= 0:
        e.state[e.code[at + TARGET]] = e.state[FIELDS + count]
        e.taint[e.code[at + TARGET]] = e.dry
    return True
