"""`Text`: the builder of LLVM text that every CPU kernel is written with.

Enters: a `Host`, and calls in the order of execution. Leaves: `module()`, the text of one LLVM module that
defines `entry(ptr args, i64 begin, i64 end, ptr scratch)` (see targets/cpu/kernel.py) and declares
nothing but intrinsics. Text is put together from strings, which is quick; it is not checked here but by LLVM.

    t = Text(features())
    x, out, n = t.argument(0, "ptr"), t.argument(1, "ptr"), t.argument(2, "i64")
    with t.loop(t.begin, t.end) as i:
        t.store(float32, t.fmul(t.load(float32, t.address(x, i.index, float32)), 2.0), ...)

Computing stands in `arithmetic`, loads and stores in `memory`, loops and branches in `flow`, types and
constants in `types`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from trilobite.native.host import Host
from trilobite.native.llvm.flow import Flow
from trilobite.native.llvm.types import (
    Index,
    Number,
    Value,
    constant,
    element_of,
    lanes_constant,
    memory_type,
    register_type,
    vector,
)

__all__ = [
    "Index", "Text", "Value", "constant", "element_of", "lanes_constant", "memory_type", "register_type",
    "vector",
]  # fmt: skip

_ENTRY = "define void @entry(ptr nocapture readonly %args, i64 %begin, i64 %end, ptr %scratch) #0 {"


class Text(Flow):
    """One module in the making. The entry function is open from the start."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._functions: list[list[str]] = []
        self._known: set[str] = set()
        self._tables: dict[str, Value] = {}
        self.begin, self.end = Value("%begin", "i64"), Value("%end", "i64")
        self.scratch = Value("%scratch", "ptr")
        self.line(_ENTRY)
        self._label("start")

    def argument(self, number: int, kind: Literal["ptr", "i64"]) -> Value:
        """Word `number` of the step's arguments. Ask at the start of `entry`, outside loops."""
        at = self.address(Value("%args", "ptr"), 8 * number)
        # The words do not change while a kernel runs, whatever it stores.
        return self.define(kind, f"load {kind}, ptr {at}, align 8, !invariant.load !0")

    @contextmanager
    def function(
        self, name: str, parameters: Sequence[str], result: str = "void", inline: bool = False
    ) -> Iterator[list[Value]]:
        """Emit an internal function. Parameters are type words with attributes, `"ptr noalias"`; yields
        their values. A function with a result ends with `give_back`. Names inside are counted from one, so
        that equal functions of two kernels are equal texts, which are compiled once (`native.parts`).
        """
        values = [Value(f"%p.{i}", _type_word(p)) for i, p in enumerate(parameters)]
        outer = self.lines, self._block_name, self._count
        self.lines, self._count = [], 0
        words = ", ".join(f"{p} {v}" for p, v in zip(parameters, values, strict=True))
        self.line(f"define internal {result} @{name}({words}) #{1 if not inline else 2} {{")
        self._label("start")
        yield values
        if result == "void":
            self.line("ret void")
        self.line("}")
        self._functions.append(self.lines)
        self.lines, self._block_name, self._count = outer

    def first(self, name: str) -> bool:
        """True the first time a name is asked for: who shares an internal function defines it then."""
        if name in self._known:
            return False
        self._known.add(name)
        return True

    def give_back(self, value: Value) -> None:
        """Return from a function that has a result; the last thing it does."""
        self.line(f"ret {value.typed}")

    def call(self, name: str, *args: Value, result: str = "void") -> Value:
        words = f"call {result} @{name}({', '.join(a.typed for a in args)})"
        if result != "void":
            return self.define(result, words)
        self.line(words)
        return Value("", "void")

    def table(self, element: str, numbers: Sequence[Number]) -> Value:
        """The address of an array of constants, 64-byte aligned; equal ones stand once in the module."""
        body = ", ".join(f"{element} {constant(element, n)}" for n in numbers)
        line = f"internal unnamed_addr constant [{len(numbers)} x {element}] [{body}], align 64"
        if line not in self._tables:
            self._tables[line] = Value(f"@table.{len(self._tables)}", "ptr")
        return self._tables[line]

    def module(self) -> str:
        """The whole text. The entry function ends here."""
        tables = [f"{name} = {line}" for line, name in self._tables.items()]
        functions = [line for body in self._functions for line in body]
        return "\n".join((
            f'target triple = "{self.host.triple}"',
            *tables, *self.lines, "ret void", "}", *functions, *self.declared.values(),
            "attributes #0 = { nounwind }",
            "attributes #1 = { nounwind noinline }",
            "attributes #2 = { nounwind alwaysinline }",
            "!0 = !{}",
            "",
        ))  # fmt: skip


def _type_word(parameter: str) -> str:
    """The type of `"<8 x float> noundef"` or of `"ptr noalias"`."""
    return parameter[: parameter.index(">") + 1] if parameter.startswith("<") else parameter.split()[0]
