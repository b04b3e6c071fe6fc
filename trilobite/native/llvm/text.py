"""`Text`: the builder of LLVM text that every CPU kernel is written with.

Enters: a `Host`, and calls in the order of execution. Leaves: `module()`, the text of one LLVM module that
defines `entry(ptr args, i64 begin, i64 end, ptr scratch)` (see targets/cpu/kernel.py) and declares
nothing but intrinsics. Text is put together from strings, which is quick; it is not checked here but by LLVM.

    t = Text(features())
    x, out, n = t.argument(0, "ptr"), t.argument(1, "ptr"), t.argument(2, "i64")
    with t.loop(t.begin, t.end) as i:
        t.store(float32, t.fmul(t.load(float32, t.address(x, i.index, float32)), 2.0), ...)

Computing stands in `arithmetic`, loads and stores in `memory`, loops and branches in `flow`, functions in
`functions`, types and constants in `types`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Literal

from trilobite.native.host import Host
from trilobite.native.llvm.functions import ATTRIBUTES, Functions
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

_KEPT: dict[Hashable, tuple[list[list[str]], dict[str, str]]] = {}  # lines of functions, what they declare
_MOST_KEPT = 512


class Text(Functions):
    """One module in the making. The entry function is open from the start."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
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

    def first(self, name: str) -> bool:
        """True the first time a name is asked for: who shares an internal function defines it then."""
        if name in self._known:
            return False
        self._known.add(name)
        return True

    def table(self, element: str, numbers: Sequence[Number]) -> Value:
        """The address of an array of constants, 64-byte aligned; equal ones stand once in the module."""
        body = ", ".join(f"{element} {constant(element, n)}" for n in numbers)
        line = f"internal unnamed_addr constant [{len(numbers)} x {element}] [{body}], align 64"
        if line not in self._tables:
            self._tables[line] = Value(f"@table.{len(self._tables)}", "ptr")
        return self._tables[line]

    def kept(self, key: Hashable, emit: Callable[[], None]) -> None:
        """Functions that nothing decides but the key and the host: emitted once, then the same lines again in
        every text. Those that use tables, or functions that texts share, are emitted each time.
        """
        found = _KEPT.get((self.host, key))
        if found is None:
            outer = self._functions, self.declared, self._known, self._tables
            self._functions, self.declared, self._known, self._tables = [], {}, set(), {}
            emit()
            found, shares = (self._functions, self.declared), bool(self._known or self._tables)
            self._functions, self.declared, self._known, self._tables = outer
            if shares:
                return emit()
            if len(_KEPT) >= _MOST_KEPT:
                _KEPT.clear()
            _KEPT[self.host, key] = found
        self._functions += found[0]
        self.declared |= {name: line for name, line in found[1].items() if name not in self.declared}
        return None

    def module(self) -> str:
        """The whole text. The entry function ends here."""
        tables = [f"{name} = {line}" for line, name in self._tables.items()]
        return "\n".join((
            f'target triple = "{self.host.triple}"',
            *tables, *self.lines, "ret void", "}", *self.function_lines, *self.declared.values(),
            *ATTRIBUTES,
            "!0 = !{}",
            "",
        ))  # fmt: skip
