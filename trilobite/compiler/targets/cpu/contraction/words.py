"""The argument words of a kernel as a typed record: what the lowering fills in, the emitted code reads.

A record is a frozen dataclass over `Words`, generic in what a word is: a buffer or a number where a step is
made, a value where its kernel is written. Fields may be records, tuples of either, or None where a kernel has
no such word. Words stand in the order of the fields; a `Product` takes two, which the kernel multiplies.

    w = MyWords(Operand("in", 0), n)               contents(w): the arguments of a step
    forms(w)                                       the record of their forms: all that decides a kernel's text
    read(t, forms(w)).n                            the value, at the start of `entry`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, Generic, TypeVar

from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Operand
from trilobite.compiler.targets.cpu.contraction.sizes import Product
from trilobite.ir.types import Dim
from trilobite.native.llvm.text import Text, Value

W = TypeVar("W", covariant=True)
Content = Operand | Dim | Product
Form = str  # "ptr", "i64", or "product" of two numbers


@dataclass(frozen=True)
class Words(Generic[W]):
    """The base of records."""


def _leaves(record: Any) -> Iterator[Any]:
    if isinstance(record, Words):
        record = tuple(getattr(record, f.name) for f in fields(record))
    if isinstance(record, tuple):
        for part in record:
            yield from _leaves(part)
    elif record is not None:
        yield record


def _mapped(record: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(record, Words):
        return type(record)(*(_mapped(getattr(record, f.name), change) for f in fields(record)))
    if isinstance(record, tuple):
        return tuple(_mapped(part, change) for part in record)
    return None if record is None else change(record)


def contents(words: Words[Content]) -> tuple[Operand | Dim, ...]:
    """The arguments of a step."""
    return tuple(
        word for leaf in _leaves(words) for word in (leaf.words if isinstance(leaf, Product) else (leaf,))
    )


def forms(words: Words[Content]) -> Any:
    """The same record of forms."""

    def form(leaf: Content) -> Form:
        return "ptr" if isinstance(leaf, Operand) else "product" if isinstance(leaf, Product) else "i64"

    return _mapped(words, form)


def read(t: Text, words: Words[Form]) -> Any:
    """The same record of values, at the start of `entry`."""
    numbers = iter(range(1 << 16))

    def value(form: Form) -> Value:
        if form != "product":
            return t.argument(next(numbers), "ptr" if form == "ptr" else "i64")
        return t.mul(t.argument(next(numbers), "i64"), t.argument(next(numbers), "i64"))

    return _mapped(words, value)


def joined(kind: type[Any], *records: Words[Value]) -> Any:
    """A record of this kind, each of its words taken from the one among these that has it."""
    found = {f.name: getattr(r, f.name) for r in records for f in fields(r)}
    return kind(**{f.name: found[f.name] for f in fields(kind)})


# -- words that many kernels have ----------------------------------------------------------------------------


@dataclass(frozen=True)
class OperandWords(Words[W]):
    """An operand of an epilogue: where it begins, and elements from row to row."""

    at: W
    row: W


@dataclass(frozen=True)
class EpilogueWords(Words[W]):
    results: tuple[W, ...]
    operands: tuple[OperandWords[W], ...]


@dataclass(frozen=True)
class TapWords(Words[W]):
    """What taps outside read, and the two tables of taps: see `tables.tables`."""

    zeros: W
    table: W
    flat: W


@dataclass(frozen=True)
class AxisWords(Words[W]):
    """One spatial axis of rows gathered by taps: see `problem.Axis`."""

    count: W
    first: W
    every: W
    step: W
    extent: W
    stride: W  # elements of the source
    out_rows: W  # rows of the result
    least: W  # offset of a tap
    most: W
