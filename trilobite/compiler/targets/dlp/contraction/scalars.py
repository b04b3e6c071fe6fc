"""Whole numbers while a kernel is written: Python integers where they are known, IR values where not.

Enters: a builder and numbers of either kind. Leaves: the same; what is known is computed at once, so that a
tile that has no edge costs no instruction. Divisions are of numbers that are not negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeGuard

from trilobite.processor.isa.formats import I64, Format
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import Value, Variable

Int = int | Value


class Scalars:
    """Arithmetic of `Int`s at the place where the builder stands."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.is_ahead = False

    # instructions
    def tensor(
        self,
        mnemonic: str,
        operands: Sequence[Value],
        formats: Sequence[Format] = (),
        flags: Sequence[str] = (),
        is_async: bool = False,
    ) -> None:
        if not self.is_ahead:
            self.builder.tensor(mnemonic, operands, formats, flags, is_async)

    def sync(self, *queues: str) -> None:
        if not self.is_ahead:
            self.builder.sync(*queues)

    def ahead(self, body: Callable[[], None]) -> None:
        """Only the scalar work of a body, here and whether or not its conditions hold. Where the body stands
        later, the same values are found again."""
        self.is_ahead = True
        body()
        self.is_ahead = False

    def value(self, a: Int) -> Value:
        return self.builder.integer(a) if isinstance(a, int) else a

    def _op(self, opcode: str, a: Int, b: Int) -> Value:
        return self.builder.arithmetic(opcode, I64, self.value(a), self.value(b))

    def add(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self._op("add", b, a) if isinstance(a, int) else self._op("add", a, b)

    def total(self, terms: Iterable[Int]) -> Int:
        found: Int = 0
        for term in terms:
            found = self.add(found, term)
        return found

    def sub(self, a: Int, b: Int) -> Int:
        if isinstance(b, int):
            return self.add(a, -b)
        return self._op("sub", a, b)

    def mul(self, a: Int, b: Int) -> Int:
        if isinstance(a, int):
            a, b = b, a
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if isinstance(b, int) and b in (0, 1):
            return a if b else 0
        return self._op("shl", a, _log2(b)) if _is_power(b) else self._op("mul", a, b)

    def product(self, factors: Iterable[Int]) -> Int:
        found: Int = 1
        for factor in factors:
            found = self.mul(found, factor)
        return found

    def div(self, a: Int, b: int) -> Int:
        """Of a that is not negative."""
        if isinstance(a, int):
            return a // b
        if b == 1:
            return a
        return self._op("shr", a, _log2(b)) if _is_power(b) else self._op("div", a, b)

    def ceil_div(self, a: Int, b: int) -> Int:
        return self.div(self.add(a, b - 1), b)

    def rem(self, a: Int, b: int) -> Int:
        if isinstance(a, int):
            return a % b
        if b == 1:
            return 0
        return self._op("and", a, b - 1) if _is_power(b) else self._op("rem", a, b)

    def min(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self._op("min", b, a) if isinstance(a, int) else self._op("min", a, b)

    def max(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self._op("max", b, a) if isinstance(a, int) else self._op("max", a, b)

    def compare(self, opcode: str, a: Int, b: Int) -> Int:
        """eq, ne, lt, le, gt or ge, as 0 and 1."""
        if isinstance(a, int) and isinstance(b, int):
            return int(_COMPARISONS[opcode](a, b))
        return self._op(opcode, a, b)

    def select(self, truth: Int, a: Int, b: Int) -> Int:
        if isinstance(truth, int):
            return a if truth else b
        return self.builder.select(truth, self.value(a), self.value(b))

    def offset(self, pointer: Value, distance: Int) -> Value:
        return pointer if distance == 0 else self.builder.offset(pointer, self.value(distance))

    # control
    def when(self, truth: Int, body: Callable[[], None], name: str = "when") -> None:
        """The body if the number is not 0."""
        if isinstance(truth, int) or self.is_ahead:
            if truth:
                body()
            return
        function = self.builder.function
        inside, behind = function.add_block(name), function.add_block("behind")
        self.builder.branch(truth, inside, behind)
        self.builder.block = inside
        body()
        self.builder.jump(behind)
        self.builder.block = behind

    def either(self, truth: Int, yes: Callable[[], None], no: Callable[[], None]) -> None:
        if isinstance(truth, int) or self.is_ahead:
            (yes if truth else no)()
            return
        function = self.builder.function
        first, second, behind = (function.add_block(n) for n in ("yes", "no", "behind"))
        self.builder.branch(truth, first, second)
        for block, body in ((first, yes), (second, no)):
            self.builder.block = block
            body()
            self.builder.jump(behind)
        self.builder.block = behind

    def loop(self, count: Int, body: Callable[[Int], None], name: str = "loop") -> None:
        """The body for 0 to count - 1."""
        if (isinstance(count, int) and count <= 1) or self.is_ahead:
            if count == 1:
                body(0)
            return
        builder = self.builder
        counter = self.variable(f"({name})", 0)
        head, inside, out = (builder.function.add_block(n) for n in (name, "body", "behind"))
        builder.jump(head)
        builder.block = head
        builder.branch(self._op("lt", builder.get(counter), count), inside, out)
        builder.block = inside
        body(builder.get(counter))
        builder.set(counter, self._op("add", builder.get(counter), 1))
        builder.jump(head)
        builder.block = out

    def flip(self, a: Int, b: Int) -> Int:
        """Of bits: whether one of them is set."""
        if isinstance(a, int) and isinstance(b, int):
            return a ^ b
        return self._op("xor", b, a) if isinstance(a, int) else self._op("xor", a, b)

    def variable(self, name: str, start: Int) -> Variable:
        made = self.builder.function.add_variable(name, I64)
        self.builder.set(made, self.value(start))
        return made

    def assign(self, variable: Variable, value: Int) -> None:
        self.builder.set(variable, self.value(value))


def _is_power(n: Int) -> TypeGuard[int]:
    """Of two, and known: then shifts and masks do, which take a few cycles where a division takes many."""
    return isinstance(n, int) and n > 1 and n & (n - 1) == 0


def _log2(n: int) -> int:
    return n.bit_length() - 1


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": int.__eq__,
    "ne": int.__ne__,
    "lt": int.__lt__,
    "le": int.__le__,
    "gt": int.__gt__,
    "ge": int.__ge__,
}
