"""LLVM text of one routine, written as Python expressions.

Enters: calls in the order of execution. Leaves: the text of `entry(operands, scalars, n, m, facts, scratch)`,
which gives 1 when it is done and 0 when it refuses, before it changed anything. Loops whose iterations do
not touch each other's elements are marked as such, so that LLVM makes vectors of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from trilobite.native.host import features
from trilobite.native.llvm import types
from trilobite.native.llvm.functions import Functions

SIGNATURE = "ptr %operands, ptr %scalars, i64 %n, i64 %m, ptr %facts, ptr %scratch"


@dataclass(frozen=True, eq=False)
class Value:
    """A number that the routine has at hand, as Python computes with it."""

    code: Code
    of: types.Value

    @property
    def kind(self) -> str:
        return self.of.type

    @property
    def name(self) -> str:
        return str(self.of)

    @property
    def is_real(self) -> bool:
        return types.is_float_type(self.kind)

    def _with(self, word: str, other: Value | float, is_swapped: bool = False) -> Value:
        """`add` of floats is `fadd`."""
        right = self.code.like(self, other)
        first, second = (right, self) if is_swapped else (self, right)
        method = getattr(self.code.t, f"f{word}" if self.is_real else word)
        return Value(self.code, method(first.of, second.of))

    def __add__(self, other: Value | float) -> Value:
        return self._with("add", other)

    def __radd__(self, other: float) -> Value:
        return self._with("add", other, True)

    def __sub__(self, other: Value | float) -> Value:
        return self._with("sub", other)

    def __rsub__(self, other: float) -> Value:
        return self._with("sub", other, True)

    def __mul__(self, other: Value | float) -> Value:
        return self._with("mul", other)

    def __rmul__(self, other: float) -> Value:
        return self._with("mul", other, True)

    def __truediv__(self, other: Value | float) -> Value:
        return self._with("div", other)

    def __rtruediv__(self, other: float) -> Value:
        return self._with("div", other, True)

    def __and__(self, other: Value | int) -> Value:
        return self._with("and_", other)

    def __or__(self, other: Value | int) -> Value:
        return self._with("or_", other)

    def __xor__(self, other: Value | int) -> Value:
        return self._with("xor", other)

    def __lshift__(self, other: Value | int) -> Value:
        return self._with("shl", other)

    def __rshift__(self, other: Value | int) -> Value:
        return self._with("ashr", other)

    def test(self, condition: str, other: Value | float) -> Value:
        """As LLVM names conditions: "olt" of floats, "slt" or "ult" of whole numbers."""
        t = self.code.t
        compare = t.fcmp if self.is_real else t.icmp
        return Value(self.code, compare(condition, self.of, self.code.like(self, other).of))

    def cast(self, word: str, kind: str) -> Value:
        """trunc, sext, zext, bitcast, fpext, fptrunc, sitofp, ..."""
        return Value(self.code, self.code.t.convert(word, self.of, kind))

    def choose(self, yes: Value, no: Value | float) -> Value:
        """Of a condition."""
        return Value(self.code, self.code.t.select(self.of, yes.of, self.code.like(yes, no).of))

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
        self.code.do(f"store {given.of.typed}, ptr {self.name}")


class Code:
    """Collects the lines of a routine; `t` writes them."""

    def __init__(self, t: Functions | None = None) -> None:
        self.t = Functions(features()) if t is None else t
        self.slots: list[str] = []
        self.globals: dict[str, str] = {}
        self._group = ""  # of accesses that no other iteration touches

    def new(self, kind: str, text: str) -> Value:
        return Value(self, self.t.define(kind, text))

    def do(self, text: str) -> None:
        self.t.line(text)

    def constant(self, kind: str, number: float) -> Value:
        return Value(self, types.Value("null", "ptr") if kind == "ptr" else types.constant(kind, number))

    def like(self, sample: Value, other: Value | float) -> Value:
        return other if isinstance(other, Value) else self.constant(sample.kind, other)

    def argument(self, name: str) -> Value:
        """operands, scalars, facts and scratch are pointers, n and m whole numbers."""
        return Value(self, types.Value(f"%{name}", "i64" if name in ("n", "m") else "ptr"))

    def slot(self, kind: str, start: Value | float) -> Slot:
        name = f"%{self.t.fresh('s')}"
        self.slots.append(f"{name} = alloca {kind}")
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

    def call(self, name: str, kind: str, arguments: Sequence[Value], flag: bool = False) -> Value:
        """One of LLVM's functions; some have a flag behind, which is false here."""
        flags = [types.constant("i1", 0)] * flag
        given = [*(value.of for value in arguments), *flags]
        return Value(self, self.t.intrinsic(name.removeprefix("llvm."), kind, *given, suffix=""))

    def real(self, name: str, *arguments: Value) -> Value:
        """fma, sqrt, rint, floor, ... of the arguments' own type."""
        return Value(self, self.t.intrinsic(name, arguments[0].kind, *(value.of for value in arguments)))

    def copy(self, target: Value, source: Value, size: Value) -> None:
        """Bytes that may overlap."""
        self.call("llvm.memmove.p0.p0.i64", "void", (target, source, size), True)

    def table(self, kind: str, name: str, numbers: Sequence[float]) -> Value:
        """A constant array."""
        values = ", ".join(types.constant(kind, number).typed for number in numbers)
        self.globals[name] = f"@{name} = private constant [{len(numbers)} x {kind}] [{values}]"
        return Value(self, types.Value(f"@{name}", "ptr"))

    @contextmanager
    def loop(self, count: Value, is_parallel: bool = False) -> Iterator[Value]:
        """Runs its body for 0 .. count - 1."""
        before, mark = self._group, ""
        if is_parallel:
            group, loop = f"!{2 * len(self.globals)}", f"!{2 * len(self.globals) + 1}"
            self.globals[group] = f"{group} = distinct !{{}}"
            said = f'!{{!"llvm.loop.parallel_accesses", {group}}}'
            self.globals[loop] = f"{loop} = distinct !{{{loop}, {said}}}"
            self._group, mark = f", !llvm.access.group {group}", f", !llvm.loop {loop}"
        with self.t.loop(0, count.of, mark=mark) as counted:
            yield Value(self, counted.index)
        self._group = before

    def when(self, condition: Value) -> AbstractContextManager[None]:
        """Runs its body if the condition holds."""
        return self.t.when(condition.of)

    def refuse(self, condition: Value) -> None:
        """Gives up; only before anything was written."""
        self.t.return_if(condition.of, 0)

    def text(self) -> str:
        """The whole module."""
        head = [
            *sorted(self.t.declared.values()),
            *self.globals.values(),
            f"define i64 @entry({SIGNATURE}) {{",
            "start:",
        ]
        return "\n".join([*head, *self.slots, *self.t.lines, "ret i64 1", "}", ""])
