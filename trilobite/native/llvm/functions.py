"""Functions: texts that define more than one, or one with a signature of its own.

Enters: names, parameters, Python code that emits the bodies. Leaves: `functions_text()`, the definitions with
what they declare; `Text` puts them behind its entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from trilobite.native.host import Host
from trilobite.native.llvm.flow import Flow
from trilobite.native.llvm.types import Value

ATTRIBUTES = (
    "attributes #0 = { nounwind }",
    "attributes #1 = { nounwind noinline }",
    "attributes #2 = { nounwind alwaysinline }",
)


class Functions(Flow):
    """The part of `Text` that defines functions and calls them."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._functions: list[list[str]] = []

    @contextmanager
    def function(
        self,
        name: str,
        parameters: Sequence[str],
        result: str = "void",
        inline: bool = False,
        linkage: str = "internal ",
    ) -> Iterator[list[Value]]:
        """Emit a function, which no other module sees unless the linkage is empty. Parameters are type words
        with attributes, `"ptr noalias"`; yields their values. A function with a result ends with
        `give_back`. Names inside are counted from one, so that equal functions of two kernels are equal
        texts, which are compiled once (`native.parts`).
        """
        values = [Value(f"%p.{i}", _type_word(p)) for i, p in enumerate(parameters)]
        outer = self.lines, self._block_name, self._count
        self.lines, self._count = [], 0
        words = ", ".join(f"{p} {v}" for p, v in zip(parameters, values, strict=True))
        self.line(f"define {linkage}{result} @{name}({words}) #{1 if not inline else 2} {{")
        self._label("start")
        yield values
        if result == "void":
            self.line("ret void")
        self.line("}")
        self._functions.append(self.lines)
        self.lines, self._block_name, self._count = outer

    def give_back(self, value: Value) -> None:
        """Return from a function that has a result; the last thing it does."""
        self.line(f"ret {value.typed}")

    def return_if(self, condition: Value, number: int) -> None:
        """Return a number from a function of whole numbers where the condition holds; else on."""
        out, on = self.fresh("out"), self.fresh("on")
        self.line(f"br i1 {condition}, label %{out}, label %{on}")
        self._label(out)
        self.line(f"ret i64 {number}")
        self._label(on)

    def call(self, name: str, *args: Value, result: str = "void") -> Value:
        words = f"call {result} @{name}({', '.join(a.typed for a in args)})"
        if result != "void":
            return self.define(result, words)
        self.line(words)
        return Value("", "void")

    @property
    def function_lines(self) -> list[str]:
        return [line for body in self._functions for line in body]

    def functions_text(self) -> str:
        """The functions alone, for a module without an entry of its own."""
        return "\n".join((*self.declared.values(), *self.function_lines, *ATTRIBUTES, ""))


def _type_word(parameter: str) -> str:
    """The type of `"<8 x float> noundef"` or of `"ptr noalias"`."""
    return parameter[: parameter.index(">") + 1] if parameter.startswith("<") else parameter.split()[0]
