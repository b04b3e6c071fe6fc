"""The kernel of `lu`: a matrix in panels of columns, the rest of it taken along by blocks of rows.

A unit is a matrix. Within a panel the largest element of each column by absolute value becomes the pivot (the
first of equals, NaN before all), rows are exchanged as a whole, and columns eliminated one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from trilobite.base.dtypes import DType, int64
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.words import W, Words
from trilobite.compiler.targets.cpu.linalg.rows import (
    DEPTH,
    Matrix,
    Rows,
    copy,
    define,
    solve,
    stretches,
    update,
)
from trilobite.native.llvm.text import Text, Value


@dataclass(frozen=True)
class FactorWords(Words[W]):
    x: W
    packed: W
    pivots: W
    order: W
    m: W
    n: W
    k: W


def emit(t: Text, dtype: DType, words: FactorWords[Value]) -> None:
    """All units of a call."""
    define(t, dtype)
    with t.loop(t.begin, t.end, name="unit") as unit:
        _Factoring(t, dtype, words, unit.index).emit()


@dataclass(frozen=True)
class _Factoring:
    """One matrix."""

    t: Text
    dtype: DType
    words: FactorWords[Value]
    unit: Value

    def emit(self) -> None:
        t, w = self.t, self.words
        elements = t.mul(w.m, w.n)
        source, packed = (t.address(x, t.mul(self.unit, elements), self.dtype) for x in (w.x, w.packed))
        copy(t, self.dtype, source, packed, elements)
        order = t.address(w.order, t.mul(self.unit, w.m), int64)
        with t.loop(0, w.m, name="place") as i:
            t.store(int64, i.index, t.address(order, i.index, int64))
        size = self.dtype.itemsize
        matrix = Matrix(packed, t.mul(w.n, size), size)
        pivots = t.address(w.pivots, t.mul(self.unit, w.k), int64)
        with t.loop(0, w.k, DEPTH, name="panel") as start:
            self._panel(matrix, start.index, order, pivots)

    def _panel(self, a: Matrix, start: Value, order: Value, pivots: Value) -> None:
        t, w = self.t, self.words
        depth = t.smin(t.sub(w.k, start), DEPTH)
        stop = t.add(start, depth)
        with t.loop(start, stop, name="column") as c:
            chosen = self._pivot(a, c.index)
            t.store(int64, chosen, t.address(pivots, c.index, int64))
            with t.when(t.icmp("ne", chosen, c.index)):
                self._exchange(a, order, c.index, chosen)
            self._eliminate(a, c.index, stop)
        rest = t.sub(w.n, stop)
        above = Rows(a.at(t, start, stop), a.row_step)
        solve(t, above, a.below(t, start, start), depth, rest, unit=True)
        below = Rows(a.at(t, stop, stop), a.row_step)
        update(t, below, t.sub(w.m, stop), a.below(t, stop, start), above, depth, rest)

    def _pivot(self, a: Matrix, c: Value) -> Value:
        """The row, from c on, of the largest element of column c."""
        t = self.t
        first = t.fabs(t.load(self.dtype, a.at(t, c, c)))
        with t.loop(t.add(c, 1), self.words.m, 1, [first, c], "row") as i:
            most, place = i.values
            size = t.fabs(t.load(self.dtype, a.at(t, i.index, c)))
            no_number = t.and_(t.fcmp("uno", size, size), t.fcmp("ord", most, most))
            better = t.or_(t.fcmp("ogt", size, most), no_number)
            i.next(t.select(better, size, most), t.select(better, i.index, place))
        return i.results[1]

    def _exchange(self, a: Matrix, order: Value, c: Value, chosen: Value) -> None:
        t = self.t
        rows = a.at(t, c, 0), a.at(t, chosen, 0)
        for j, lanes in stretches(t, self.dtype, self.words.n):
            self._swap(self.dtype, [t.address(row, j, self.dtype) for row in rows], lanes)
        self._swap(int64, [t.address(order, i, int64) for i in (c, chosen)])

    def _swap(self, dtype: DType, places: Sequence[Value], lanes: int = 0) -> None:
        values = [self.t.load(dtype, at, lanes) for at in places]
        for at, value in zip(places, reversed(values), strict=True):
            self.t.store(dtype, value, at)

    def _eliminate(self, a: Matrix, c: Value, stop: Value) -> None:
        """Multipliers below the pivot, and what they take from the panel's later columns. Zeros have none."""
        t, dtype = self.t, self.dtype
        pivot = t.load(dtype, a.at(t, c, c))
        some = t.fcmp("une", pivot, 0.0)
        with t.loop(t.add(c, 1), self.words.m, name="row") as i:
            at = a.at(t, i.index, c)
            value = t.load(dtype, at)
            factor = t.select(some, t.fdiv(value, pivot), value)
            t.store(dtype, factor, at)
            less = t.fneg(factor)
            with t.loop(t.add(c, 1), stop, name="later") as j:
                target = a.at(t, i.index, j.index)
                taken = t.fma(less, t.load(dtype, a.at(t, c, j.index)), t.load(dtype, target))
                t.store(dtype, taken, target)
