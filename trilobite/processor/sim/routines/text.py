"""LLVM text of one routine, written as Python expressions.

Enters: calls in the order of execution. Leaves: the text of `entry(operands, scalars, n, m, facts, scratch)`,
which gives 1 when it is done and 0 when it refuses, before it changed anything. Loops whose iterations do
not touch each other's elements are marked as such, so that LLVM makes vectors of them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

SIGNATURE = "ptr %operands, ptr %scalars, i64 %n, i64 %m, ptr %facts, ptr %scratch"
REALS = ("float", "double")
WORDS = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor", "<<": "shl", ">>": "ashr"}
REAL_WORDS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}


@dataclass(frozen=True, eq=False)
class Value:
    """A number that the routine has at hand: its LLVM type and its name."""

    code: Code
    kind: str
    name: str

    def _with(self, sign: str, other: Value | float, is_swapped: bool = False) -> Value:
        right = self.code.like(self, other)
        first, second = (right, self) if is_swapped else (self, right)
        word = REAL_WORDS[sign] if self.kind in REALS else WORDS[sign]
        return self.code.new(self.kind, f"{word} {self.kind} {first.name}, {second.name}")

    def __add__(self, other: Value | float) -> Value:
        return self._with("+", other)

    def __radd__(self, other: float) -> Value:
        return self._with("+", other, True)

    def __sub__(self, other: Value | float) -> Value:
        return self._with("-", other)

    def __rsub__(self, other: float) -> Value:
        return self._with("-", other, True)

    def __mul__(self, other: Value | float) -> Value:
        return self._with("*", other)

    def __rmul__(self, other: float) -> Value:
        return self._with("*", other, True)

    def __truediv__(self, other: Value | float) -> Value:
        return self._with("/", other)

    def __rtruediv__(self, other: float) -> Value:
        return self._with("/", other, True)

    def __and__(self, other: Value | int) -> Value:
        return self._with("&", other)

    def __or__(self, other: Value | int) -> Value:
        return self._with("|", other)

    def __xor__(self, other: Value | int) -> Value:
        return self._with("^", other)

    def __lshift__(self, other: Value | int) -> Value:
        return self._with("<<", other)

    def __rshift__(self, other: Value | int) -> Value:
        return self._with(">>", other)

    def test(self, condition: str, other: Value | float) -> Value:
        """As LLVM names conditions: "olt" of floats, "slt" or "ult" of whole numbers."""
        word = "fcmp" if self.kind in REALS else "icmp"
        right = self.code.like(self, other)
        return self.code.new("i1", f"{word} {condition} {self.kind} {self.name}, {right.name}")

    def cast(self, word: str, kind: str) -> Value:
        """trunc, sext, zext, bitcast, fpext, fptrunc, sitofp, ..."""
        if word == "bitcast" and kind == self.kind:
            return self
        return self.code.new(kind, f"{word} {self.kind} {self.name} to {kind}")

    def choose(self, yes: Value, no: Value | float) -> Value:
        """Of a condition."""
        other = self.code.like(yes, no)
        return self.code.new(
            yes.kind, f"select i1 {self.name}, {yes.kind} {yes.name}, {yes.kind} {other.name}"
        )

    @property
    def is_nan(self) -> Value:
        return self.test("uno", self)


@dataclass(frozen=True, eq=False)
class Slot:
    """A variable: what loops change."""

    code: Code
    kind: str
    name: str

    def get(self) -> Value:
        return self.code.new(self.kind, f"load {self.kind}, ptr {self.name}")

    def set(self, value: Value | float) -> None:
        given = value if isinstance(value, Value) else self.code.constant(self.kind, value)
        self.code.do(f"store {self.kind} {given.name}, ptr {self.name}")


def literal(kind: str, number: float) -> str:
    """A number as LLVM writes it."""
    if kind == "ptr":
        return "null"
    if kind not in REALS:
        return str(int(number))
    exact = struct.unpack("<f", struct.pack("<f", number))[0] if kind == "float" else number
    return f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"


class Code:
    """Collects the lines of a routine."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.declared: set[str] = set()
        self.globals: dict[str, str] = {}
        self._count = 0
        self._group = ""  # of accesses that no other iteration touches

    def new(self, kind: str, text: str) -> Value:
        self._count += 1
        self.lines.append(f"  %v{self._count} = {text}")
        return Value(self, kind, f"%v{self._count}")

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def constant(self, kind: str, number: float) -> Value:
        return Value(self, kind, literal(kind, number))

    def like(self, sample: Value, other: Value | float) -> Value:
        return other if isinstance(other, Value) else self.constant(sample.kind, other)

    def argument(self, name: str) -> Value:
        """operands, scalars, facts and scratch are pointers, n and m whole numbers."""
        return Value(self, "i64" if name in ("n", "m") else "ptr", f"%{name}")

    def slot(self, kind: str, start: Value | float) -> Slot:
        self._count += 1
        name = f"%s{self._count}"
        self.slots.append(f"  {name} = alloca {kind}")
        made = Slot(self, kind, name)
        made.set(start)
        return made

    def at(self, kind: str, base: Value, index: Value | int) -> Value:
        """The place of an element."""
        place = index.name if isinstance(index, Value) else str(index)
        return self.new("ptr", f"getelementptr {kind}, ptr {base.name}, i64 {place}")

    def load(self, kind: str, base: Value, index: Value | int = 0) -> Value:
        place = self.at(kind, base, index)
        return self.new(kind, f"load {kind}, ptr {place.name}, align 1{self._group}")

    def store(self, base: Value, index: Value | int, value: Value) -> None:
        place = self.at(value.kind, base, index)
        self.do(f"store {value.kind} {value.name}, ptr {place.name}, align 1{self._group}")

    def fact(self, place: int) -> Value:
        """A number that was known when the routine's site was made."""
        return self.load("i64", self.argument("facts"), place)

    def fact_pointer(self, place: int) -> Value:
        return self.load("ptr", self.argument("facts"), place)

    def operand(self, place: int) -> Value:
        """Where the operand's bytes are: those that are read first, then those that are written."""
        return self.load("ptr", self.argument("operands"), place)

    def call(self, name: str, kind: str, arguments: Sequence[Value], extra: str = "") -> Value:
        """One of LLVM's functions."""
        types = ", ".join([*(value.kind for value in arguments), *([extra.split()[0]] if extra else [])])
        given = [*(f"{value.kind} {value.name}" for value in arguments), *([extra] if extra else [])]
        self.declared.add(f"declare {kind} @{name}({types})")
        if kind == "void":
            self.do(f"call void @{name}({', '.join(given)})")
            return self.constant("i64", 0)
        return self.new(kind, f"call {kind} @{name}({', '.join(given)})")

    def real(self, name: str, *arguments: Value) -> Value:
        """fma, sqrt, rint, floor, ... of the arguments' own type."""
        kind = arguments[0].kind
        return self.call(f"llvm.{name}.{'f32' if kind == 'float' else 'f64'}", kind, arguments)

    def copy(self, target: Value, source: Value, size: Value) -> None:
        """Bytes that may overlap."""
        self.call("llvm.memmove.p0.p0.i64", "void", (target, source, size), "i1 false")

    def table(self, kind: str, name: str, words: Sequence[str]) -> Value:
        """A constant array."""
        values = ", ".join(f"{kind} {word}" for word in words)
        self.globals[name] = f"@{name} = private constant [{len(words)} x {kind}] [{values}]"
        return Value(self, "ptr", f"@{name}")

    @contextmanager
    def loop(self, count: Value, is_parallel: bool = False) -> Iterator[Value]:
        """Runs its body for 0 .. count - 1."""
        self._count += 1
        number, before = self._count, self._group
        place = self.slot("i64", 0)
        self.do(f"br label %head{number}")
        self.lines.append(f"head{number}:")
        index = place.get()
        more = index.test("slt", count)
        self.do(f"br i1 {more.name}, label %body{number}, label %done{number}")
        self.lines.append(f"body{number}:")
        if is_parallel:
            self._group = f", !llvm.access.group !{2 * number}"
        yield index
        place.set(index + 1)
        self._group = before
        mark = f", !llvm.loop !{2 * number + 1}" if is_parallel else ""
        self.do(f"br label %head{number}{mark}")
        self.lines.append(f"done{number}:")
        if is_parallel:
            said = f'!{{!"llvm.loop.parallel_accesses", !{2 * number}}}'
            self.globals[f"!{2 * number}"] = f"!{2 * number} = distinct !{{}}"
            self.globals[f"!{2 * number + 1}"] = (
                f"!{2 * number + 1} = distinct !{{!{2 * number + 1}, {said}}}"
            )

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Runs its body if the condition holds."""
        self._count += 1
        number = self._count
        self.do(f"br i1 {condition.name}, label %then{number}, label %after{number}")
        self.lines.append(f"then{number}:")
        yield
        self.do(f"br label %after{number}")
        self.lines.append(f"after{number}:")

    def refuse(self, condition: Value) -> None:
        """Gives up; only before anything was written."""
        self._count += 1
        number = self._count
        self.do(f"br i1 {condition.name}, label %no{number}, label %yes{number}")
        self.lines += [f"no{number}:", "  ret i64 0", f"yes{number}:"]

    def text(self) -> str:
        """The whole module."""
        head = [
            *sorted(self.declared),
            *self.globals.values(),
            f"define i64 @entry({SIGNATURE}) {{",
            "begin:",
        ]
        return "\n".join([*head, *self.slots, *self.lines, "  ret i64 1", "}", ""])
