"""The argument words of a convolution's kernel: one list, read by the lowering and by the emitted code alike.

Only the names decide a kernel's text, so convolutions of all sizes share one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trilobite.compiler.program.kernels import Operand
from trilobite.compiler.targets.cpu.emit.text import Text, Value
from trilobite.ir.types import Dim


@dataclass
class Words:
    """Names and contents, in order."""

    names: list[str] = field(default_factory=list)
    contents: list[Operand | Dim] = field(default_factory=list)

    def add(self, name: str, content: Operand | Dim) -> None:
        """A buffer or a number. The name of a buffer is kept with a star before it."""
        self.names.append(f"*{name}" if isinstance(content, Operand) else name)
        self.contents.append(content)


def read_words(t: Text, names: Sequence[str]) -> dict[str, Value]:
    """All words as values, at the start of `entry`; names that begin with `*` are addresses."""
    return {
        name.lstrip("*"): t.argument(i, "ptr" if name.startswith("*") else "i64")
        for i, name in enumerate(names)
    }
