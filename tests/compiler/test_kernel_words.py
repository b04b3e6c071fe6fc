"""The words of a kernel: what the lowering fills in is what the emitted code reads, in one order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.compiler.emit.native import load_entry
from trilobite.base.dtypes import int64
from trilobite.compiler.program.kernels import Operand
from trilobite.compiler.targets.cpu.contraction.sizes import Product, product
from trilobite.compiler.targets.cpu.contraction.words import Content, W, Words, contents, forms, joined, read
from trilobite.ir.types import dim
from trilobite.native.host import features
from trilobite.native.llvm.text import Text, Value


@dataclass(frozen=True)
class Pair(Words[W]):
    first: W
    second: W


@dataclass(frozen=True)
class Record(Words[W]):
    out: W
    absent: W | None
    pairs: tuple[Pair[W], ...]
    size: W


def record(*numbers: Content) -> Record[Content]:
    a, b, c, d, size = numbers
    return Record(Operand("out", 0), None, (Pair(a, b), Pair(c, d)), size)


def test_words_stand_in_the_order_of_the_fields() -> None:
    n, m = dim("n"), dim("m")
    words = record(3, 1, n, 7, product([n, m, 5]))
    first, *rest, left, right = contents(words)
    assert first == Operand("out", 0) and rest == [3, 1, n, 7]
    assert {left, right} == {5 * n, m} or {left, right} == {n, 5 * m}  # a product of two sizes is two words


def test_forms_say_what_decides_a_text_and_nothing_else() -> None:
    one, other = forms(record(3, 1, 4, 1, Product(5))), forms(record(9, 2, 6, 5, Product(8)))
    assert one == other and hash(one) == hash(other)
    assert one.out == "ptr" and one.pairs[1].second == "i64" and one.size == "product" and one.absent is None
    assert forms(record(3, 1, 4, 1, 5)) != one


def test_code_reads_what_was_filled_in() -> None:
    words = record(11, -3, 500, 8, Product(1 << 40))
    t = Text(features())
    w: Record[Value] = read(t, forms(words))
    seen = [x for pair in w.pairs for x in (pair.first, pair.second)] + [w.size]
    for i, value in enumerate(seen):
        t.store(int64, value, t.address(w.out, i, int64))
    found = np.zeros(5, np.int64)
    numbers = [found.ctypes.data if isinstance(x, Operand) else int(x) for x in contents(words)]  # type: ignore[call-overload]
    load_entry(t.module(), features())(numbers, 0, 1)
    assert found.tolist() == [11, -3, 500, 8, 1 << 40]


@dataclass(frozen=True)
class Both(Words[W]):
    second: W
    out: W


def test_records_are_joined_by_the_names_of_their_words() -> None:
    a, b, c, d = (Value(f"%{name}", "i64") for name in "abcd")
    assert joined(Both, Record(a, None, (), b), Pair(c, d)) == Both(d, a)
