"""Instructions that compute: integers with constant folding, floats, comparisons, conversions, lanes.

Enters and leaves: `Value`s; lines of LLVM text are appended to the open function. Where two operands stand,
one of them may be a Python number: it becomes a constant of the other's type (i64 if both are numbers).
Trivial integer arithmetic (x+0, x·1, x·0, of two constants) emits nothing, because kernels are compiled
without a middle end that would remove it. It knows neither memory nor control flow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from trilobite.native.host import Host
from trilobite.native.llvm.types import (
    Number,
    Value,
    constant,
    element_of,
    integer_like,
    is_float_type,
    lanes_constant,
    lanes_of,
    mangled,
    parts,
    vector,
    width,
    with_element,
)

Operand = Value | int | float
Fold = Callable[[int, int], int]

_FOLD: dict[str, Fold] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
}
# The right operand with which the result is the left one; the table is asked with sides swapped where legal.
_NEUTRAL = {
    "add": 0, "sub": 0, "mul": 1, "or": 0, "xor": 0, "and": -1, "shl": 0, "lshr": 0, "ashr": 0,
    "sdiv": 1, "udiv": 1,
}  # fmt: skip
_COMMUTES = frozenset({"add", "mul", "or", "xor", "and"})
_ORDER: dict[str, Callable[[int, int], bool]] = {
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


@lru_cache(maxsize=512)
def _intrinsic_name(name: str, result: str, suffix: str | None) -> str:
    return f"@llvm.{name}.{mangled(result) if suffix is None else suffix}".rstrip(".")


class Arithmetic:
    """The part of `Text` that computes."""

    host: Host

    def __init__(self, host: Host) -> None:
        self.host = host
        self.lines: list[str] = []
        self.declared: dict[str, str] = {}
        self._count = 0

    # -- the ground ----------------------------------------------------------------------------------------

    def fresh(self, name: str = "v") -> str:
        """A name that nothing else in the module has."""
        self._count += 1
        return f"{name}.{self._count}"

    def line(self, text: str) -> None:
        self.lines.append(text)

    def define(self, type: str, text: str) -> Value:
        """A new value: the result of the instruction `text`."""
        self._count += 1
        name = f"%v.{self._count}"
        self.lines.append(f"{name} = {text}")
        return Value(name, type)

    def constant(self, type: str, number: Number) -> Value:
        return constant(type, number)

    def _pair(self, a: Operand, b: Operand) -> tuple[Value, Value]:
        if isinstance(a, Value):
            return a, b if isinstance(b, Value) else constant(a.type, b)
        type = b.type if isinstance(b, Value) else "i64"
        return constant(type, a), b if isinstance(b, Value) else constant(type, b)

    def intrinsic(self, name: str, result: str, *args: Value, suffix: str | None = None) -> Value:
        """Call `llvm.<name>`, overloaded on the type of its result unless `suffix` says otherwise."""
        full = _intrinsic_name(name, result, suffix)
        if full not in self.declared:
            self.declared[full] = f"declare {result} {full}({', '.join([a.type for a in args])})"
        call = f"call {result} {full}({', '.join([a.typed for a in args])})"
        if result != "void":
            return self.define(result, call)
        self.line(call)
        return Value("", "void")

    # -- integers ------------------------------------------------------------------------------------------

    def _integer(self, op: str, a: Operand, b: Operand) -> Value:
        x, y = self._pair(a, b)
        if x.number is not None and y.number is not None and op in _FOLD:
            return constant(x.type, _FOLD[op](x.number, y.number))
        if op in _COMMUTES and x.number is not None:
            x, y = y, x
        if y.number is not None:
            if y.number == _NEUTRAL.get(op):
                return x
            if y.number == 0 and op in ("mul", "and"):
                return constant(x.type, 0)
        return self.define(x.type, f"{op} {x.type} {x}, {y}")

    def add(self, a: Operand, b: Operand) -> Value:
        return self._integer("add", a, b)

    def sub(self, a: Operand, b: Operand) -> Value:
        return self._integer("sub", a, b)

    def mul(self, a: Operand, b: Operand) -> Value:
        return self._integer("mul", a, b)

    def sdiv(self, a: Operand, b: Operand) -> Value:
        return self._integer("sdiv", a, b)

    def udiv(self, a: Operand, b: Operand) -> Value:
        return self._integer("udiv", a, b)

    def srem(self, a: Operand, b: Operand) -> Value:
        return self._integer("srem", a, b)

    def urem(self, a: Operand, b: Operand) -> Value:
        return self._integer("urem", a, b)

    def and_(self, a: Operand, b: Operand) -> Value:
        return self._integer("and", a, b)

    def or_(self, a: Operand, b: Operand) -> Value:
        return self._integer("or", a, b)

    def xor(self, a: Operand, b: Operand) -> Value:
        return self._integer("xor", a, b)

    def shl(self, a: Operand, b: Operand) -> Value:
        return self._integer("shl", a, b)

    def lshr(self, a: Operand, b: Operand) -> Value:
        return self._integer("lshr", a, b)

    def ashr(self, a: Operand, b: Operand) -> Value:
        return self._integer("ashr", a, b)

    def not_(self, a: Value) -> Value:
        return self.xor(a, -1 if element_of(a.type) != "i1" else 1)

    def smin(self, a: Operand, b: Operand) -> Value:
        return self._extreme("smin", a, b, min)

    def smax(self, a: Operand, b: Operand) -> Value:
        return self._extreme("smax", a, b, max)

    def umin(self, a: Operand, b: Operand) -> Value:
        x, y = self._pair(a, b)
        return self.intrinsic("umin", x.type, x, y)

    def _extreme(self, name: str, a: Operand, b: Operand, fold: Fold) -> Value:
        x, y = self._pair(a, b)
        if x.number is not None and y.number is not None:
            return constant(x.type, fold(x.number, y.number))
        return self.intrinsic(name, x.type, x, y)

    def ceil_div(self, a: Operand, b: int) -> Value:
        """For what is not negative: how many pieces of `b` cover `a`."""
        return self.udiv(self.add(a, b - 1), b)

    # -- floats --------------------------------------------------------------------------------------------

    def _float(self, op: str, a: Operand, b: Operand) -> Value:
        x, y = self._pair(a, b)
        return self.define(x.type, f"{op} {x.type} {x}, {y}")

    def fadd(self, a: Operand, b: Operand) -> Value:
        return self._float("fadd", a, b)

    def fsub(self, a: Operand, b: Operand) -> Value:
        return self._float("fsub", a, b)

    def fmul(self, a: Operand, b: Operand) -> Value:
        return self._float("fmul", a, b)

    def fdiv(self, a: Operand, b: Operand) -> Value:
        return self._float("fdiv", a, b)

    def fneg(self, a: Value) -> Value:
        return self.define(a.type, f"fneg {a.type} {a}")

    def fma(self, a: Operand, b: Operand, c: Operand) -> Value:
        """a·b + c: rounded once where the machine can, else as two instructions (never a library call)."""
        type = next(v.type for v in (a, b, c) if isinstance(v, Value))
        x = a if isinstance(a, Value) else constant(type, a)
        y = b if isinstance(b, Value) else constant(type, b)
        z = c if isinstance(c, Value) else constant(type, c)
        if self.host.fma:
            return self.intrinsic("fma", x.type, x, y, z)
        return self.fadd(self.fmul(x, y), z)

    def fmin(self, a: Operand, b: Operand) -> Value:
        """The smaller one; b if either is NaN (as one x86 instruction does)."""
        x, y = self._pair(a, b)
        return self.select(self.fcmp("olt", x, y), x, y)

    def fmax(self, a: Operand, b: Operand) -> Value:
        """The larger one; b if either is NaN (as one x86 instruction does)."""
        x, y = self._pair(a, b)
        return self.select(self.fcmp("ogt", x, y), x, y)

    def fabs(self, a: Value) -> Value:
        return self.intrinsic("fabs", a.type, a)

    def sqrt(self, a: Value) -> Value:
        return self.intrinsic("sqrt", a.type, a)

    def copysign(self, size: Value, sign: Value) -> Value:
        return self.intrinsic("copysign", size.type, size, sign)

    # -- comparison and choice -----------------------------------------------------------------------------

    def icmp(self, order: str, a: Operand, b: Operand) -> Value:
        x, y = self._pair(a, b)
        truth = with_element(x.type, "i1")
        if x.number is not None and y.number is not None and order in _ORDER:
            return constant(truth, int(_ORDER[order](x.number, y.number)))
        return self.define(truth, f"icmp {order} {x.type} {x}, {y}")

    def fcmp(self, order: str, a: Operand, b: Operand) -> Value:
        x, y = self._pair(a, b)
        return self.define(with_element(x.type, "i1"), f"fcmp {order} {x.type} {x}, {y}")

    def select(self, p: Value, a: Operand, b: Operand) -> Value:
        x, y = self._pair(a, b)
        if p.number is not None:
            return x if p.number else y
        return self.define(x.type, f"select {p.typed}, {x.typed}, {y.typed}")

    # -- conversion ----------------------------------------------------------------------------------------

    def convert(self, op: str, a: Value, element: str) -> Value:
        """`zext`, `sext`, `trunc`, `sitofp`, `uitofp`, `fptosi`, `fptoui`, `fpext`, `fptrunc`, `bitcast`."""
        type = with_element(a.type, element)
        if type == a.type:
            return a
        if a.number is not None and op == "zext":
            return constant(type, a.number & ((1 << width(a.type)) - 1))
        if a.number is not None and op in ("sext", "trunc"):
            return constant(type, a.number)
        return self.define(type, f"{op} {a.typed} to {type}")

    def bits(self, a: Value) -> Value:
        """A float's bits as an integer of its width."""
        return self.convert("bitcast", a, element_of(integer_like(a.type)))

    def as_float(self, a: Value) -> Value:
        """An integer's bits as a float of its width."""
        return self.convert("bitcast", a, {16: "half", 32: "float", 64: "double"}[width(a.type)])

    # -- lanes ---------------------------------------------------------------------------------------------

    def splat(self, a: Value, lanes: int) -> Value:
        """A scalar in every lane; no lanes leave it alone."""
        if not lanes:
            return a
        type = vector(a.type, lanes)
        if a.number is not None:
            return constant(type, a.number)
        one = self.define(type, f"insertelement {type} poison, {a.typed}, i64 0")
        return self.define(
            type, f"shufflevector {type} {one}, {type} poison, <{lanes} x i32> zeroinitializer"
        )

    def extract(self, a: Value, lane: int) -> Value:
        return self.define(element_of(a.type), f"extractelement {a.typed}, i64 {lane}")

    def insert(self, a: Value, element: Value, lane: int) -> Value:
        return self.define(a.type, f"insertelement {a.typed}, {element.typed}, i64 {lane}")

    def shuffle(self, a: Value, b: Value | None, order: Sequence[int]) -> Value:
        """Lanes of a (and of b, numbered after a's) in this order."""
        second = f"{a.type} poison" if b is None else b.typed
        mask = lanes_constant(f"<{len(order)} x i32>", tuple(order)).typed
        return self.define(
            vector(element_of(a.type), len(order)), f"shufflevector {a.typed}, {second}, {mask}"
        )

    def halves(self, a: Value) -> tuple[Value, Value]:
        half = lanes_of(a.type) // 2
        return self.shuffle(a, None, range(half)), self.shuffle(a, None, range(half, 2 * half))

    def join(self, a: Value, b: Value) -> Value:
        """The lanes of two vectors of one type, one after the other."""
        return self.shuffle(a, b, range(2 * lanes_of(a.type)))

    def fold(self, a: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """All lanes into one scalar, always in the same order: low half with high half until one is left.
        The number of lanes is a power of two.
        """
        while lanes_of(a.type) > 1:
            low, high = self.halves(a)
            a = combine(low, high)
        return self.extract(a, 0) if lanes_of(a.type) else a

    def any_lane(self, mask: Value) -> Value:
        """Whether a bool holds in any lane."""
        if not lanes_of(mask.type):
            return mask
        return self.intrinsic("vector.reduce.or", "i1", mask, suffix=mangled(mask.type))

    def sum_lanes(self, a: Value) -> Value:
        return self.fold(a, self.fadd if is_float_type(a.type) else self.add)

    def lane_numbers(self, type: str, start: Operand = 0) -> Value:
        """start, start+1, ... by lane, as integers of `type`."""
        element, lanes = parts(type)
        first = start if isinstance(start, Value) else constant(element, start)
        if not lanes:
            return first
        return self.add(self.splat(first, lanes), lanes_constant(type, tuple(range(lanes))))
