"""LLVM's own functions on integers: extremes, bit counts, funnel shifts, saturation, tests for overflow.

Each is a rule for one scalar, made into one for every lane of a vector by `each`.
"""

from __future__ import annotations

from collections.abc import Callable

from trilobite.processor.isa.formats import I8, I64, Format
from trilobite.processor.lang.bang.llvm.instructions import Instruction
from trilobite.processor.lang.bang.lower.function import FunctionLowering, Lowered
from trilobite.processor.lang.bang.lower.scalars import UNSIGNED, bits_of, canonical, leaves, word
from trilobite.processor.lang.ir import Constant, Value

Rule = Callable[[FunctionLowering, list[Value], int], Value]


def each(rule: Rule) -> Callable[[FunctionLowering, Instruction], Lowered]:
    """A rule for scalars, for every lane."""

    def lowered(f: FunctionLowering, i: Instruction) -> Lowered:
        lanes = leaves(i.args[0].type)
        columns = [f.value(arg) for arg in i.args]
        wide = [column if len(column) == len(lanes) else column * len(lanes) for column in columns]
        return tuple(rule(f, [column[n] for column in wide], bits_of(lane)) for n, lane in enumerate(lanes))

    return lowered


def format_of(value: Value) -> Format:
    assert isinstance(value.type, Format)
    return value.type


def extreme(opcode: str, is_signed: bool) -> Rule:
    def rule(f: FunctionLowering, a: list[Value], bits: int) -> Value:
        fmt = format_of(a[0])
        if is_signed:
            return f.builder.arithmetic(opcode, fmt, a[0], a[1])
        compare = "lt" if opcode == "min" else "gt"
        return f.builder.select(_unsigned(f, compare, a[0], a[1]), a[0], a[1])

    return rule


def _unsigned(f: FunctionLowering, compare: str, *values: Value) -> Value:
    """A comparison of bits that have no sign."""
    fmt = format_of(values[0])
    plain = [
        Constant(UNSIGNED[fmt], v.integer & ((1 << fmt.bits) - 1)) if isinstance(v, Constant) else v
        for v in values
    ]
    return f.builder.arithmetic(compare, UNSIGNED[fmt], *plain)


def count(opcode: str) -> Rule:
    def rule(f: FunctionLowering, a: list[Value], bits: int) -> Value:
        fmt = format_of(a[0])
        made = f.builder.arithmetic(opcode, UNSIGNED[fmt], a[0])
        return f.builder.cast(made, fmt)

    return rule


def absolute(f: FunctionLowering, a: list[Value], bits: int) -> Value:
    return f.builder.arithmetic("abs", format_of(a[0]), a[0])


def funnel(is_left: bool) -> Rule:
    """The upper (or lower) word of two, shifted; a shift by 0 gives the first (or second)."""

    def rule(f: FunctionLowering, a: list[Value], bits: int) -> Value:
        b, fmt = f.builder, format_of(a[0])
        plain = UNSIGNED[fmt]
        amount = b.arithmetic("and", fmt, a[2], Constant(fmt, bits - 1))
        back = b.arithmetic("sub", fmt, Constant(fmt, bits), amount)
        left, right = (amount, back) if is_left else (back, amount)
        high = b.arithmetic("shl", fmt, a[0], left)
        low = b.cast(b.arithmetic("shr", plain, a[1], right), fmt)
        made = b.arithmetic("or", fmt, high, low)
        none = b.arithmetic("eq", fmt, amount, Constant(fmt, 0))
        return b.select(none, a[0] if is_left else a[1], made)

    return rule


def swap(f: FunctionLowering, a: list[Value], bits: int) -> Value:
    """Bytes in the other order."""
    b, fmt = f.builder, format_of(a[0])
    made: Value = Constant(fmt, 0)
    for place in range(bits // 8):
        shifted = b.arithmetic("shr", UNSIGNED[fmt], a[0], Constant(UNSIGNED[fmt], 8 * place))
        byte = b.arithmetic("and", fmt, b.cast(shifted, fmt), Constant(fmt, 255))
        moved = b.arithmetic("shl", fmt, byte, Constant(fmt, bits - 8 - 8 * place))
        made = b.arithmetic("or", fmt, made, moved)
    return made


def reverse(f: FunctionLowering, a: list[Value], bits: int) -> Value:
    """Bits in the other order: bytes, then the halves, quarters and eighths of each."""
    b, fmt = f.builder, format_of(a[0])
    made = swap(f, a, bits)
    for step, pattern in ((4, 0x0F), (2, 0x33), (1, 0x55)):
        low = Constant(fmt, int.from_bytes(bytes([pattern]) * (fmt.bits // 8), "little", signed=True))
        plain = b.cast(b.arithmetic("shr", UNSIGNED[fmt], made, Constant(UNSIGNED[fmt], step)), fmt)
        right = b.arithmetic("and", fmt, plain, low)
        left = b.arithmetic("shl", fmt, b.arithmetic("and", fmt, made, low), Constant(fmt, step))
        made = b.arithmetic("or", fmt, left, right)
    return made


def three_way(is_signed: bool) -> Rule:
    def rule(f: FunctionLowering, a: list[Value], bits: int) -> Value:
        b = f.builder
        fmt = format_of(a[0]) if is_signed else UNSIGNED[format_of(a[0])]
        above, below = b.arithmetic("gt", fmt, a[0], a[1]), b.arithmetic("lt", fmt, a[0], a[1])
        return b.cast(b.arithmetic("sub", I64, above, below), I8)

    return rule


def overflow(f: FunctionLowering, i: Instruction, name: str) -> Lowered:
    """Sum, difference or product, and whether it did not fit."""
    b = f.builder
    left, right = f.one(i.args[0]), f.one(i.args[1])
    operation, is_signed = name.split(".")[1][1:4], name.split(".")[1][0] == "s"
    bits = bits_of(i.args[0].type)
    if bits > 32:
        return _overflow_wide(f, operation, is_signed, left, right)
    wide = b.arithmetic(operation, I64, word(b, left, is_signed), word(b, right, is_signed))
    made = canonical(b, b.cast(wide, format_of(left)), bits)
    return (made, b.arithmetic("ne", I64, word(b, made, is_signed), wide))


def _overflow_wide(f: FunctionLowering, operation: str, is_signed: bool, x: Value, y: Value) -> Lowered:
    """64 bits: there is no wider word to compute in, so signs (or an order) tell."""
    b = f.builder
    made = b.arithmetic(operation, I64, x, y)
    if operation == "mul":
        return (made, _product_overflows(f, is_signed, x, y, made))
    if not is_signed:
        return (made, _unsigned(f, "lt", made, x) if operation == "add" else _unsigned(f, "lt", x, y))
    other = made if operation == "add" else x  # of what the second operand's sign must differ
    changed = b.arithmetic("and", I64, b.arithmetic("xor", I64, x, made), b.arithmetic("xor", I64, y, other))
    return (made, b.arithmetic("lt", I64, changed, b.integer(0)))


def _product_overflows(f: FunctionLowering, is_signed: bool, x: Value, y: Value, made: Value) -> Value:
    """A product that fits gives its factor back when it is divided."""
    b = f.builder
    fmt = I64 if is_signed else UNSIGNED[I64]
    factor = b.select(b.arithmetic("eq", I64, x, b.integer(0)), b.integer(1), x)
    whole = made if is_signed else b.cast(made, fmt)
    back = b.cast(b.arithmetic("div", fmt, whole, factor if is_signed else b.cast(factor, fmt)), I64)
    differs = b.arithmetic("ne", I64, back, y)
    if is_signed:  # the least number divided by -1 is itself
        least = b.arithmetic("eq", I64, y, b.integer(-(1 << 63)))
        minus = b.arithmetic("eq", I64, x, b.integer(-1))
        differs = b.arithmetic("or", I64, differs, b.arithmetic("and", I64, least, minus))
    return b.arithmetic("and", I64, differs, b.arithmetic("ne", I64, x, b.integer(0)))


def saturated(f: FunctionLowering, i: Instruction, opcode: str, is_signed: bool) -> Lowered:
    """Of one name LLVM has two functions: the one that saturates, and the one that tests."""
    name = str(i.extra["callee"].value.name)
    if ".sat." not in name:
        return overflow(f, i, name)
    if bits_of(leaves(i.type)[0]) == 64:
        return each(_saturate_wide(opcode, is_signed))(f, i)
    return each(_saturate(opcode, is_signed))(f, i)


def _saturate(opcode: str, is_signed: bool) -> Rule:
    def rule(f: FunctionLowering, a: list[Value], bits: int) -> Value:
        b, fmt = f.builder, format_of(a[0])
        wide = b.arithmetic(opcode, I64, word(b, a[0], is_signed), word(b, a[1], is_signed))
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
        held = b.arithmetic("min", I64, b.arithmetic("max", I64, wide, b.integer(low)), b.integer(high))
        return b.cast(held, fmt) if fmt is not I64 else held

    return rule


def _saturate_wide(opcode: str, is_signed: bool) -> Rule:
    def rule(f: FunctionLowering, a: list[Value], bits: int) -> Value:
        b = f.builder
        made, over = _overflow_wide(f, opcode, is_signed, a[0], a[1])
        if not is_signed:
            return b.select(over, b.integer(-1 if opcode == "add" else 0), made)
        below = b.arithmetic("lt", I64, a[0], b.integer(0))
        edge = b.select(below, b.integer(-(1 << 63)), b.integer((1 << 63) - 1))
        return b.select(over, edge, made)

    return rule
