"""Integers of 65 to 128 bits: two words, the low one first, extended by their sign to 128 bits.

Enters: an instruction on such integers, or one of LLVM's functions on them. Leaves: words of kernel IR.
Loads, stores, choices and calls need nothing of this: to them such a number is two scalars.
Division is a loop of shifts and subtractions; conversions from floats cut off, those to floats round once.
"""

from __future__ import annotations

from collections.abc import Callable

from trilobite.processor.isa.formats import F32, F64, I64, U64, Format
from trilobite.processor.lang.bang.llvm.instructions import Instruction
from trilobite.processor.lang.bang.llvm.types import Float, Int, LType
from trilobite.processor.lang.bang.lower.function import FunctionLowering, Lowered
from trilobite.processor.lang.bang.lower.scalars import bits_of, element, is_wide, unsigned, word
from trilobite.processor.lang.ir import Block, Constant, Target, Value
from trilobite.processor.lang.types import is_float

Pair = tuple[Value, Value]  # low word, high word
WORD, BITS = 64, 128
LOW = (1 << 32) - 1
_BIAS, _MANTISSA = 1023, 52  # of float64


class Words:
    """Arithmetic on pairs of words, written at a builder."""

    def __init__(self, f: FunctionLowering, bits: int = BITS) -> None:
        self.f, self.b, self.bits = f, f.builder, bits

    # one word
    def number(self, value: int) -> Value:
        return self.b.integer(value)

    def do(self, opcode: str, x: Value, y: Value) -> Value:
        return self.b.arithmetic(opcode, I64, x, y)

    def without_sign(self, opcode: str, x: Value, y: Value) -> Value:
        plain = [
            Constant(U64, v.integer & ((1 << WORD) - 1)) if isinstance(v, Constant) else v for v in (x, y)
        ]
        made = self.b.arithmetic(opcode, U64, *plain)
        return made if opcode in ("lt", "le", "gt", "ge") else self.b.cast(made, I64)

    def is_zero(self, x: Value) -> Value:
        return self.do("eq", x, self.number(0))

    # pairs
    def constant(self, value: int) -> Pair:
        parts = (value & ((1 << WORD) - 1), (value >> WORD) & ((1 << WORD) - 1))
        low, high = (part - (1 << WORD) if part >> (WORD - 1) else part for part in parts)
        return self.number(low), self.number(high)

    def choose(self, truth: Value, x: Pair, y: Pair) -> Pair:
        return self.b.select(truth, x[0], y[0]), self.b.select(truth, x[1], y[1])

    def extended(self, low: Value, is_signed: bool = True) -> Pair:
        return low, self.do("shr", low, self.number(WORD - 1)) if is_signed else self.number(0)

    def canonical(self, x: Pair) -> Pair:
        """Of an unusual width: the sign above it."""
        room = self.number(BITS - self.bits)
        return x if self.bits == BITS else (x[0], self.do("shr", self.do("shl", x[1], room), room))

    def plain(self, x: Pair) -> Pair:
        """Of an unusual width: zeros above it."""
        return (
            x
            if self.bits == BITS
            else (x[0], self.do("and", x[1], self.number((1 << (self.bits - WORD)) - 1)))
        )

    def each(self, opcode: str, x: Pair, y: Pair) -> Pair:
        return self.do(opcode, x[0], y[0]), self.do(opcode, x[1], y[1])

    def add(self, x: Pair, y: Pair) -> Pair:
        low = self.do("add", x[0], y[0])
        carry = self.without_sign("lt", low, x[0])
        return low, self.do("add", self.do("add", x[1], y[1]), carry)

    def sub(self, x: Pair, y: Pair) -> Pair:
        borrow = self.without_sign("lt", x[0], y[0])
        return self.do("sub", x[0], y[0]), self.do("sub", self.do("sub", x[1], y[1]), borrow)

    def negated(self, x: Pair) -> Pair:
        return self.sub(self.constant(0), x)

    def is_negative(self, x: Pair) -> Value:
        return self.do("lt", x[1], self.number(0))

    def absolute(self, x: Pair) -> Pair:
        return self.choose(self.is_negative(x), self.negated(x), x)

    def product_of_words(self, x: Value, y: Value) -> Pair:
        """64 by 64 bits without sign: four products of halves."""
        half = self.number(32)
        xl, yl = (self.do("and", v, self.number(LOW)) for v in (x, y))
        xh, yh = (self.without_sign("shr", v, half) for v in (x, y))
        low, cross = self.do("mul", xl, yl), self.do("mul", xh, yl)
        middle = self.do("add", cross, self.without_sign("shr", low, half))
        other = self.do("add", self.do("mul", xl, yh), self.do("and", middle, self.number(LOW)))
        high = self.do("add", self.do("mul", xh, yh), self.without_sign("shr", middle, half))
        return self.do("mul", x, y), self.do("add", high, self.without_sign("shr", other, half))

    def mul(self, x: Pair, y: Pair) -> Pair:
        low, high = self.product_of_words(x[0], y[0])
        cross = self.do("add", self.do("mul", x[0], y[1]), self.do("mul", x[1], y[0]))
        return low, self.do("add", high, cross)

    def shl(self, x: Pair, amount: Value) -> Pair:
        inside, far = self._amount(amount)
        back = self.do("sub", self.number(WORD - 1), inside)
        carried = self.without_sign("shr", self.without_sign("shr", x[0], self.number(1)), back)
        near = self.do("shl", x[0], inside), self.do("or", self.do("shl", x[1], inside), carried)
        return self.choose(far, (self.number(0), near[0]), near)

    def shr(self, x: Pair, amount: Value, is_signed: bool) -> Pair:
        inside, far = self._amount(amount)
        back = self.do("sub", self.number(WORD - 1), inside)
        carried = self.do("shl", self.do("shl", x[1], self.number(1)), back)
        high = self.do("shr", x[1], inside) if is_signed else self.without_sign("shr", x[1], inside)
        above = self.do("shr", x[1], self.number(WORD - 1)) if is_signed else self.number(0)
        low = self.do("or", self.without_sign("shr", x[0], inside), carried)
        return self.choose(far, (high, above), (low, high))

    def _amount(self, amount: Value) -> Pair:
        """The part of a shift below a word, and whether it is at least a word."""
        return self.do("and", amount, self.number(WORD - 1)), self.do("ge", amount, self.number(WORD))

    def less(self, x: Pair, y: Pair, is_signed: bool) -> Value:
        above = self.do("lt", x[1], y[1]) if is_signed else self.without_sign("lt", x[1], y[1])
        same = self.do("eq", x[1], y[1])
        return self.b.select(same, self.without_sign("lt", x[0], y[0]), above)

    def equal(self, x: Pair, y: Pair) -> Value:
        return self.do("and", self.do("eq", x[0], y[0]), self.do("eq", x[1], y[1]))

    def leading_zeros(self, x: Pair) -> Value:
        low, high = (self.b.cast(self.b.arithmetic("clz", U64, v), I64) for v in x)
        return self.b.select(self.is_zero(x[1]), self.do("add", low, self.number(WORD)), high)

    def divided(self, x: Pair, y: Pair) -> tuple[Pair, Pair]:
        """Quotient and remainder without sign: bit by bit, from the top."""
        b, f = self.b, self.f
        loop, done = Block("divide"), Block("divided")
        at = f.function.blocks.index(b.block) + 1
        f.function.blocks[at:at] = [loop, done]
        place, low, high, rest_low, rest_high = (loop.add_argument(I64) for _ in range(5))
        b.jump(loop, self.number(BITS), *x, self.number(0), self.number(0))
        b.block = loop
        top = self.without_sign("shr", high, self.number(WORD - 1))
        moved = self.shl((rest_low, rest_high), self.number(1))
        rest = self.do("or", moved[0], top), moved[1]
        lost = self.do("lt", rest_high, self.number(0))  # a bit that the shift lost: larger than any divisor
        fits = self.do("or", lost, self.do("xor", self.less(rest, y, False), self.number(1)))
        rest = self.choose(fits, self.sub(rest, y), rest)
        doubled = self.shl((low, high), self.number(1))
        quotient = self.do("or", doubled[0], fits), doubled[1]
        left = self.do("sub", place, self.number(1))
        results = [done.add_argument(I64) for _ in range(4)]
        b.emit(
            "branch",
            [left],
            targets=[Target(loop, [left, *quotient, *rest]), Target(done, [*quotient, *rest])],
        )
        b.block = done
        return (results[0], results[1]), (results[2], results[3])

    def quotient(self, x: Pair, y: Pair, is_signed: bool) -> Pair:
        if not is_signed:
            return self.divided(self.plain(x), self.plain(y))[0]
        found, _ = self.divided(self.absolute(x), self.absolute(y))
        differ = self.do("lt", self.do("xor", x[1], y[1]), self.number(0))
        return self.choose(differ, self.negated(found), found)

    def remainder(self, x: Pair, y: Pair, is_signed: bool) -> Pair:
        if not is_signed:
            return self.divided(self.plain(x), self.plain(y))[1]
        _, found = self.divided(self.absolute(x), self.absolute(y))
        return self.choose(self.is_negative(x), self.negated(found), found)

    # floats
    def power_of_two(self, exponent: Value) -> Value:
        bits = self.do("shl", self.do("add", exponent, self.number(_BIAS)), self.number(_MANTISSA))
        return self.b.cast(bits, F64)

    def to_float(self, x: Pair, fmt: Format, is_signed: bool) -> Value:
        """The upper 64 significant bits, the last of which says whether there are others; rounded once."""
        size = self.absolute(x) if is_signed else self.plain(x)
        zeros = self.leading_zeros(size)
        moved = self.shl(size, self.do("and", zeros, self.number(BITS - 1)))
        rest = self.do("ne", moved[0], self.number(0))
        head = self.b.cast(self.do("or", moved[1], rest), U64)
        wide = F64 if fmt is F64 else F32
        made = self.b.convert(head, wide)
        factor = self.power_of_two(self.do("sub", self.number(WORD), zeros))
        scaled = self.b.arithmetic("mul", F64, made if wide is F64 else self.b.convert(made, F64), factor)
        plain = scaled if fmt is F64 else self.b.convert(scaled, fmt)
        if not is_signed:
            return plain
        return self.b.select(self.is_negative(x), self.b.arithmetic("neg", fmt, plain), plain)

    def from_float(self, value: Value, is_signed: bool) -> Pair:
        b = self.b
        wide = value if value.type is F64 else b.convert(value, F64)
        size = b.arithmetic("abs", F64, wide) if is_signed else wide
        high = b.convert(b.arithmetic("mul", F64, size, Constant(F64, 2.0**-WORD)), U64, "rz")
        whole = b.arithmetic("mul", F64, b.convert(high, F64), Constant(F64, 2.0**WORD))
        low = b.convert(b.arithmetic("sub", F64, size, whole), U64, "rz")
        made = b.cast(low, I64), b.cast(high, I64)
        if not is_signed:
            return made
        below = b.arithmetic("lt", F64, wide, Constant(F64, 0.0))
        return self.choose(below, self.negated(made), made)


def _pairs(values: Lowered) -> list[Pair]:
    return [(values[n], values[n + 1]) for n in range(0, len(values), 2)]


def _flat(pairs: list[Pair]) -> Lowered:
    return tuple(value for pair in pairs for value in pair)


def _shifted(w: Words, opcode: str, x: Pair, y: Pair) -> Pair:
    if opcode == "shl":
        return w.canonical(w.shl(x, y[0]))
    return w.shr(x, y[0], True) if opcode == "ashr" else w.canonical(w.shr(w.plain(x), y[0], False))


def _operated(w: Words, opcode: str, x: Pair, y: Pair) -> Pair:
    if opcode in ("and", "or", "xor"):
        return w.each(opcode, x, y)
    if opcode in ("shl", "lshr", "ashr"):
        return _shifted(w, opcode, x, y)
    if opcode in ("sdiv", "udiv"):
        return w.canonical(w.quotient(x, y, opcode == "sdiv"))
    if opcode in ("srem", "urem"):
        return w.canonical(w.remainder(x, y, opcode == "srem"))
    return w.canonical({"add": w.add, "sub": w.sub, "mul": w.mul}[opcode](x, y))


def binary(f: FunctionLowering, i: Instruction) -> Lowered:
    w = Words(f, bits_of(element(i.type)))
    pairs = zip(_pairs(f.value(i.args[0])), _pairs(f.value(i.args[1])), strict=True)
    return _flat([_operated(w, i.opcode, x, y) for x, y in pairs])


def compare(f: FunctionLowering, i: Instruction) -> Lowered:
    w = Words(f, bits_of(element(i.args[0].type)))
    pairs = zip(_pairs(f.value(i.args[0])), _pairs(f.value(i.args[1])), strict=True)
    return tuple(_compared(w, i.extra["predicate"], x, y) for x, y in pairs)


def _compared(w: Words, predicate: str, x: Pair, y: Pair) -> Value:
    if predicate in ("eq", "ne"):
        same = w.equal(x, y)
        return same if predicate == "eq" else w.do("xor", same, w.number(1))
    is_signed = predicate[0] == "s"
    if not is_signed:
        x, y = w.plain(x), w.plain(y)
    if predicate[1:] in ("gt", "le"):
        x, y = y, x
    less = w.less(x, y, is_signed)
    return less if predicate[1:] in ("lt", "gt") else w.do("xor", less, w.number(1))


def convert(f: FunctionLowering, i: Instruction) -> Lowered:
    """trunc, zext, sext and conversions between numbers, where one side is wide."""
    source, target = element(i.args[0].type), element(i.type)
    values = f.value(i.args[0])
    if is_wide(source):
        made = [_from_wide(f, i.opcode, pair, source, target) for pair in _pairs(values)]
        return tuple(value for part in made for value in part)
    return _flat([_to_wide(f, i.opcode, value, source, bits_of(target)) for value in values])


def _from_wide(f: FunctionLowering, opcode: str, x: Pair, source: LType, target: LType) -> Lowered:
    from trilobite.processor.lang.bang.lower.arithmetic import convert as narrow

    w = Words(f, bits_of(source))
    if isinstance(target, Float):
        kind = f.scalar(target)
        assert isinstance(kind, Format)
        return (w.to_float(x, kind, opcode == "sitofp"),)
    if is_wide(target):
        return w.plain(x) if opcode == "zext" else Words(f, bits_of(target)).canonical(x)
    return (x[0] if bits_of(target) == WORD else narrow(f, "trunc", x[0], Int(WORD), target),)


def _to_wide(f: FunctionLowering, opcode: str, value: Value, source: LType, bits: int) -> Pair:
    w = Words(f, bits)
    if is_float(value.type):
        return w.canonical(w.from_float(value, opcode == "fptosi"))
    is_signed = opcode == "sext"
    if bits_of(source) == 1:
        return w.extended(f.builder.arithmetic("neg", I64, value) if is_signed else value)
    low = word(f.builder, value if is_signed else unsigned(f.builder, value, bits_of(source)), is_signed)
    return w.extended(low, is_signed)


# LLVM's own functions
Rule = Callable[[Words, list[Pair]], Pair]


def _extreme(is_least: bool, is_signed: bool) -> Rule:
    def rule(w: Words, a: list[Pair]) -> Pair:
        x, y = (w.plain(a[0]), w.plain(a[1])) if not is_signed else (a[0], a[1])
        return w.choose(w.less(x, y, is_signed), *((a[0], a[1]) if is_least else (a[1], a[0])))

    return rule


def _leading(w: Words, a: list[Pair]) -> Pair:
    zeros = w.leading_zeros(w.plain(a[0]))
    return w.do("sub", zeros, w.number(BITS - w.bits)), w.number(0)


def _trailing(w: Words, a: list[Pair]) -> Pair:
    low, high = (w.b.cast(w.b.arithmetic("ctz", U64, v), I64) for v in a[0])
    found = w.b.select(w.is_zero(a[0][0]), w.do("add", high, w.number(WORD)), low)
    return w.b.arithmetic("min", I64, found, w.number(w.bits)), w.number(0)


def _population(w: Words, a: list[Pair]) -> Pair:
    low, high = (w.b.cast(w.b.arithmetic("popc", U64, v), I64) for v in w.plain(a[0]))
    return w.do("add", low, high), w.number(0)


def _funnel(is_left: bool) -> Rule:
    def rule(w: Words, a: list[Pair]) -> Pair:
        amount = w.do("and", a[2][0], w.number(BITS - 1))
        back = w.do("sub", w.number(BITS - 1), amount)
        if is_left:
            return w.each("or", w.shl(a[0], amount), w.shr(w.shr(a[1], w.number(1), False), back, False))
        return w.each("or", w.shl(w.shl(a[0], w.number(1)), back), w.shr(a[1], amount, False))

    return rule


_RULES: dict[str, Rule] = {
    "smin": _extreme(True, True), "smax": _extreme(False, True), "umin": _extreme(True, False),
    "umax": _extreme(False, False), "abs": lambda w, a: w.canonical(w.absolute(a[0])), "ctlz": _leading,
    "cttz": _trailing, "ctpop": _population,
}  # fmt: skip
_WHOLE: dict[str, Rule] = {"fshl": _funnel(True), "fshr": _funnel(False)}  # of 128 bits


def call(f: FunctionLowering, i: Instruction, name: str) -> Lowered | None:
    """One of LLVM's functions on wide integers; None if it is not known."""
    family = name.split(".")[1]
    bits = bits_of(element(i.args[0].type))
    if ".with.overflow" in name:
        return _overflow(f, i, family)
    rule = _RULES.get(family) or (_WHOLE.get(family) if bits == BITS else None)
    if rule is None:
        return None
    given = [_pairs(f.value(arg)) for arg in i.args if is_wide(element(arg.type))]
    return _flat([rule(Words(f, bits), list(lane)) for lane in zip(*given, strict=True)])


def _overflow(f: FunctionLowering, i: Instruction, family: str) -> Lowered | None:
    """Sums and differences of 128 bits, and whether they did not fit."""
    w = Words(f)
    x, y = (_pairs(f.value(arg))[0] for arg in i.args[:2])
    if family[1:] not in ("add", "sub") or bits_of(i.args[0].type) != BITS:
        return None
    made = w.add(x, y) if family[1:] == "add" else w.sub(x, y)
    if family[0] == "u":
        return (*made, w.less(made, x, False) if family[1:] == "add" else w.less(x, y, False))
    other = made if family[1:] == "add" else x  # of what the second operand's sign must differ
    changed = w.do("and", w.do("xor", x[1], made[1]), w.do("xor", y[1], other[1]))
    return (*made, w.do("lt", changed, w.number(0)))
