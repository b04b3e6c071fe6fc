"""The kernel of `triangular_solve`: forward substitution by blocks of rows; every other case is that one with
other strides. Upper triangles are read from the end, transposed ones with rows and columns exchanged, and
what is solved from the right is turned into memory of its own first. A unit is a matrix.
"""

from __future__ import annotations

from trilobite.base.dtypes import DType
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.words import W, Words
from trilobite.compiler.targets.cpu.linalg.rows import DEPTH, Matrix, Rows, copy, define, solve, update
from trilobite.native.llvm.text import Text, Value


@dataclass(frozen=True)
class Form:
    """The primitive's attributes."""

    left: bool
    lower: bool
    transpose: bool
    unit: bool


@dataclass(frozen=True)
class SolveWords(Words[W]):
    a: W
    b: W
    x: W
    turned: W | None  # memory for what is solved from the right
    n: W
    columns: W


def emit(t: Text, dtype: DType, words: SolveWords[Value], form: Form) -> None:
    """All units of a call."""
    define(t, dtype)
    with t.loop(t.begin, t.end, name="unit") as unit:
        _Solving(t, dtype, words, form, unit.index).emit()


@dataclass(frozen=True)
class _Solving:
    """One system: n unknowns, for as many right sides as there are columns."""

    t: Text
    dtype: DType
    words: SolveWords[Value]
    form: Form
    unit: Value

    def emit(self) -> None:
        t, n, columns, size = self.t, self.words.n, self.words.columns, self.dtype.itemsize
        b, x = self._of_unit(self.words.b), self._of_unit(self.words.x)
        if self.words.turned is None:
            copy(t, self.dtype, b, x, t.mul(n, columns))
            self._solve(x)
        else:
            turned = self._of_unit(self.words.turned)
            by_rows, by_columns = Matrix(turned, t.mul(columns, size), size), t.mul(n, size)
            self._move(Matrix(b, size, by_columns), by_rows)
            self._solve(turned)
            self._move(by_rows, Matrix(x, size, by_columns))

    def _of_unit(self, base: Value) -> Value:
        t, w = self.t, self.words
        return t.address(base, t.mul(self.unit, t.mul(w.n, w.columns)), self.dtype)

    def _move(self, source: Matrix, target: Matrix) -> None:
        t = self.t
        with (
            t.loop(0, self.words.columns, name="column") as j,
            t.loop(0, self.words.n, name="row") as i,
        ):
            value = t.load(self.dtype, source.at(t, i.index, j.index))
            t.store(self.dtype, value, target.at(t, i.index, j.index))

    def _solve(self, x: Value) -> None:
        t, n, columns = self.t, self.words.n, self.words.columns
        low, rows = self._low(), Rows(x, t.mul(columns, self.dtype.itemsize))
        if not self._forward:
            rows = Rows(rows.row(t, t.sub(n, 1)), t.sub(0, rows.step))
        with t.loop(0, n, DEPTH, name="block") as start:
            depth = t.smin(t.sub(n, start.index), DEPTH)
            stop = t.add(start.index, depth)
            block = Rows(rows.row(t, start.index), rows.step)
            solve(t, block, low.below(t, start.index, start.index), depth, columns, self.form.unit)
            rest = Rows(rows.row(t, stop), rows.step)
            update(t, rest, t.sub(n, stop), low.below(t, stop, start.index), block, depth, columns)

    @property
    def _turned(self) -> bool:
        """x op(a) = b means op(a)' x' = b'."""
        return self.form.transpose == self.form.left

    @property
    def _forward(self) -> bool:
        return self.form.lower != self._turned

    def _low(self) -> Matrix:
        """The matrix as a lower triangle."""
        t, n, size = self.t, self.words.n, self.dtype.itemsize
        first = t.address(self.words.a, t.mul(self.unit, t.mul(n, n)), self.dtype)
        long, short = t.mul(n, size), t.constant("i64", size)
        a = Matrix(first, short, long) if self._turned else Matrix(first, long, short)
        if self._forward:
            return a
        last = t.sub(n, 1)
        return Matrix(a.at(t, last, last), t.sub(0, a.row_step), t.sub(0, a.column_step))
