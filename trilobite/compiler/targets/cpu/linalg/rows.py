"""The two functions on which the kernels of linear algebra stand, for rows of one dtype.

`update` takes products from a block: target[i, :] -= sum over p of factor[i, p] * source[p, :], in tiles of
four rows whose sums stay in registers. `solve` and `solve_unit` make a few rows x with low x = b of b: low is
the lower triangle of a small matrix, of whose diagonal the latter assumes ones. Strides are in bytes and may
be negative; rows are contiguous.
"""

from __future__ import annotations

from collections.abc import Iterator

from trilobite.base.dtypes import DType
from trilobite.base.records import dataclass
from trilobite.native.llvm.text import Index, Text, Value

DEPTH = 8  # rows of a block: enough that a tile's loads cost less than its products
_TALL = 4  # rows of a tile


@dataclass(frozen=True)
class Rows:
    """Contiguous rows in memory, from the address of the first on."""

    first: Value
    step: Value | int  # bytes from one to the next

    def row(self, t: Text, i: Index) -> Value:
        return t.address(self.first, t.mul(i, self.step))


@dataclass(frozen=True)
class Matrix:
    """Elements anywhere in memory."""

    first: Value
    row_step: Value | int
    column_step: Value | int

    def at(self, t: Text, i: Index, j: Index) -> Value:
        return t.address(self.first, t.add(t.mul(i, self.row_step), t.mul(j, self.column_step)))

    def below(self, t: Text, i: Index, j: Index) -> Matrix:
        """The same without i rows and j columns."""
        return Matrix(self.at(t, i, j), self.row_step, self.column_step)


def define(t: Text, dtype: DType) -> None:
    """Write the functions into the module, once."""
    if t.first("update"):
        with t.function(
            "update", ["ptr", "i64", "i64", "ptr", "i64", "i64", "ptr", "i64", "i64", "i64"]
        ) as p:
            _Update(
                t, dtype, Rows(p[0], p[1]), p[2], Matrix(p[3], p[4], p[5]), Rows(p[6], p[7]), p[8], p[9]
            ).emit()
        for unit in (False, True):
            with t.function(_solver(unit), ["ptr", "i64", "ptr", "i64", "i64", "i64", "i64"]) as p:
                _emit_solve(t, dtype, Rows(p[0], p[1]), Matrix(p[2], p[3], p[4]), p[5], p[6], unit)


def update(
    t: Text, target: Rows, rows: Index, factor: Matrix, source: Rows, depth: Index, columns: Index
) -> None:
    """target[i, :] -= factor[i, :depth] @ source, for all its rows."""
    strides = target.step, factor.row_step, factor.column_step, source.step
    to, by_row, by_column, of = (_word(t, s) for s in strides)
    counts = [_word(t, n) for n in (rows, depth, columns)]
    t.call(
        "update", target.first, to, counts[0], factor.first, by_row, by_column, source.first, of, *counts[1:]
    )


def solve(t: Text, x: Rows, low: Matrix, depth: Index, columns: Index, unit: bool) -> None:
    """x becomes what low x = x asks for."""
    numbers = [_word(t, n) for n in (x.step, low.row_step, low.column_step, depth, columns)]
    t.call(_solver(unit), x.first, numbers[0], low.first, *numbers[1:])


def _solver(unit: bool) -> str:
    return "solve_unit" if unit else "solve"


def _word(t: Text, n: Index) -> Value:
    return t.constant("i64", n) if isinstance(n, int) else n


@dataclass(frozen=True)
class _Update:
    t: Text
    dtype: DType
    target: Rows
    rows: Value
    factor: Matrix
    source: Rows
    depth: Value
    columns: Value

    def emit(self) -> None:
        t = self.t
        tall = t.sub(self.rows, t.urem(self.rows, _TALL))
        with t.loop(0, tall, _TALL, name="rows") as i:
            self._row_tiles(i.index, _TALL)
        with t.loop(tall, self.rows, name="row") as i:
            self._row_tiles(i.index, 1)

    def _row_tiles(self, i: Value, tall: int) -> None:
        t = self.t
        lanes = t.host.vector_bytes // self.dtype.itemsize
        start: Index = 0
        for vectors, width in ((2, lanes), (1, lanes), (1, 0)):
            block = vectors * max(width, 1)
            stop = (
                self.columns if width == 0 else t.sub(self.columns, t.urem(t.sub(self.columns, start), block))
            )
            with t.loop(start, stop, block, name="columns") as j:
                self._tile(i, j.index, tall, vectors, width)
            start = stop

    def _tile(self, i: Value, j: Value, tall: int, vectors: int, lanes: int) -> None:
        t, dtype = self.t, self.dtype

        def parts(row: Value) -> list[Value]:
            at = t.address(row, j, dtype)
            return [t.address(at, k * max(lanes, 1), dtype) for k in range(vectors)]

        targets = [p for q in range(tall) for p in parts(self.target.row(t, t.add(i, q)))]
        sums = [t.load(dtype, p, lanes) for p in targets]
        factors = self.factor.below(t, i, 0)
        with t.loop(0, self.depth, 1, sums, "depth") as p:
            sources = [t.load(dtype, s, lanes) for s in parts(self.source.row(t, p.index))]
            new = []
            for q in range(tall):
                factor = t.fneg(t.load(dtype, factors.at(t, q, p.index)))
                spread = t.splat(factor, lanes) if lanes else factor
                new += [t.fma(spread, s, p.values[q * vectors + k]) for k, s in enumerate(sources)]
            p.next(*new)
        for at, value in zip(targets, p.results, strict=True):
            t.store(dtype, value, at)


def _emit_solve(
    t: Text, dtype: DType, x: Rows, low: Matrix, depth: Value, columns: Value, unit: bool
) -> None:
    with t.loop(0, depth, name="row") as p:
        row = x.row(t, p.index)
        update(t, Rows(row, 0), 1, low.below(t, p.index, 0), x, p.index, columns)
        if not unit:
            _divide(t, dtype, row, columns, t.load(dtype, low.at(t, p.index, p.index)))


def _divide(t: Text, dtype: DType, row: Value, columns: Value, by: Value) -> None:
    for j, lanes in stretches(t, dtype, columns):
        at = t.address(row, j, dtype)
        t.store(dtype, t.fdiv(t.load(dtype, at, lanes), t.splat(by, lanes) if lanes else by), at)


def copy(t: Text, dtype: DType, source: Value, target: Value, count: Value) -> None:
    """Elements to another place, unless they are there."""
    with t.when(t.icmp("ne", source, target)):
        for j, lanes in stretches(t, dtype, count):
            t.store(dtype, t.load(dtype, t.address(source, j, dtype), lanes), t.address(target, j, dtype))


def stretches(t: Text, dtype: DType, count: Value) -> Iterator[tuple[Value, int]]:
    """Elements of a row: vectors, then one by one. Yields within each loop: where, how many lanes."""
    lanes = t.host.vector_bytes // dtype.itemsize
    whole = t.sub(count, t.urem(count, lanes))
    with t.loop(0, whole, lanes, name="vector") as j:
        yield j.index, lanes
    with t.loop(whole, count, name="element") as j:
        yield j.index, 0
