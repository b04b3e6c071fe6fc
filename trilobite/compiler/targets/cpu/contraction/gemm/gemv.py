"""A row times a matrix, without packing: every element of the matrix is read once, in the order of memory.

Enters: a `Problem` with one row whose matrix runs on in memory along columns or along k. Leaves: `entry` of a
kernel. Units are columns. Sums stand in scratch until all of k is done, then pass the epilogue.

Along columns: a few rows of the matrix at a time are swept, each column's sum is one chain in the order of k.
Along k: a few columns at a time, each with one vector of partial sums, whatever its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

from trilobite.base.dtypes import DType, int4, uint4
from trilobite.compiler.targets.cpu.contraction.convert import widen
from trilobite.compiler.targets.cpu.contraction.gemm.finish import Finish
from trilobite.compiler.targets.cpu.contraction.gemm.nibbles import load_codes, load_nibbles
from trilobite.compiler.targets.cpu.contraction.gemm.operands import Along
from trilobite.compiler.targets.cpu.contraction.gemm.problem import Problem
from trilobite.compiler.targets.cpu.contraction.gemm.scales import scales_of
from trilobite.compiler.targets.cpu.contraction.gemm.units import operands, panels_of_units
from trilobite.compiler.targets.cpu.contraction.gemm.words import ProductWords
from trilobite.compiler.targets.cpu.contraction.multiply import multiply_add
from trilobite.compiler.targets.cpu.contraction.runs import each_vector
from trilobite.compiler.targets.cpu.contraction.sizes import ONE
from trilobite.compiler.targets.cpu.contraction.words import Form, read
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant, register_type, vector

PANEL = 16
"""Columns that a range of units is rounded to."""
_CHUNK = 4096  # columns whose sums wait in scratch, in the first cache
_ROWS = 4  # rows of the matrix swept at once, each a stream of memory; twice as many of small numbers
_COLUMNS = 8  # columns that share what is loaded of the row


def fits(p: Problem) -> bool:
    """Whether this is such a product."""
    return p.m == ONE and not p.packed and (p.b.line == ONE or (p.b.k == ONE and p.a.k == ONE))


class Gemv:
    """Emits one kernel."""

    def __init__(self, host: Host, p: Problem, words: ProductWords[Form]) -> None:
        self.t = t = Text(host)
        self.p = p
        self.accumulator = p.accumulator
        self.lanes = host.lanes(self.accumulator.itemsize)
        self.type = vector(register_type(self.accumulator), self.lanes)
        self.w: ProductWords[Value] = read(t, words)
        self.sums = t.scratch
        self.scratch = (_CHUNK + self.lanes) * self.accumulator.itemsize
        self.whole = scales_of(t, p.b, self.w)
        self.finish = Finish(t, self.accumulator, self.lanes, p, self.w)

    def text(self) -> str:
        t, w = self.t, self.w
        panels = t.ceil_div(w.n, PANEL)
        with panels_of_units(t, w, panels) as (batch, low, high):
            self.columns(batch, t.mul(low, PANEL), t.smin(t.mul(high, PANEL), w.n))
        return t.module()

    def columns(self, batch: Value, n0: Value, n1: Value) -> None:
        t = self.t
        self.a, self.b = operands(t, self.w, batch)
        self.finish.enter(batch)
        with t.loop(n0, n1, _CHUNK, name="chunk") as chunk:
            count = t.smin(t.sub(n1, chunk.index), _CHUNK)
            here = t.address(self.b, t.mul(chunk.index, self.w.b_side.line))
            if self.p.b.nibbles and self.p.b.line == ONE:
                here = t.address(here, t.lshr(chunk.index, 1))
            self.scales = self.whole.moved(chunk.index, constant("i64", 0)) if self.whole else None
            if self.p.b.line == ONE:
                self.sweep(here, count)
            else:
                self.dots(here, count)
            self.store(chunk.index, count)

    def store(self, n: Value, count: Value) -> None:
        def some(column: Value, left: Value | None) -> None:
            total = self.scaled(column, left)
            self.finish.vector(total, constant("i64", 0), self.t.add(n, column), left)

        each_vector(self.t, self.lanes, count, some, name="store")

    def scaled(self, column: Value, count: Value | None) -> Value:
        """A vector of sums, times their scales unless those have been factors all along."""
        total = self.sum_at(column, self.lanes)
        if self.scales is None or self.scales.along == "k":
            return total
        return self.t.fmul(total, self.scales.several(column, self.lanes, count))

    def place(self, column: Value) -> Value:
        return self.t.address(self.sums, column, self.accumulator)

    def sum_at(self, column: Value, lanes: int) -> Value:
        return self.t.load(self.accumulator, self.place(column), lanes)

    # -- along columns -------------------------------------------------------------------------------------

    def sweep(self, here: Value, count: Value) -> None:
        """Groups of rows; the first one begins the sums."""
        t, w = self.t, self.w
        rows = _ROWS if self.p.b.dtype.itemsize >= 4 else 2 * _ROWS
        whole = t.and_(w.k, -rows)
        with t.loop(0, count, self.lanes, name="clear") as i:
            t.store_type(constant(self.type, 0), self.place(i.index), self.accumulator.itemsize)
        with t.loop(0, whole, rows, name="k") as k:
            self.sweep_rows(here, count, k.index, rows)
        with t.loop(whole, w.k, name="k") as k:
            self.sweep_rows(here, count, k.index, 1)

    def sweep_rows(self, here: Value, count: Value, k: Value, rows: int) -> None:
        t, w, lanes = self.t, self.w, self.lanes
        numbers = [t.add(k, r) for r in range(rows)]
        factors = [self.factor(i) for i in numbers]
        starts = [t.address(here, t.mul(i, w.b_side.k)) for i in numbers]
        whole = t.and_(count, -lanes)

        zeros = [self.fixed_zero(i, "k") for i in numbers]
        in_lanes = [t.splat(x, lanes) for x in factors]

        def step(column: Value, lanes: int) -> None:
            total = self.sum_at(column, lanes)
            zero = self.running_zero(column, lanes, "line", None)
            for x, row, fixed in zip(in_lanes if lanes else factors, starts, zeros, strict=True):
                y = self.without(self.element(row, column, lanes, None), zero, fixed)
                total = multiply_add(self.t, x, y, total)
            t.store_type(total, self.place(column), self.accumulator.itemsize)

        both = t.and_(count, -2 * lanes)
        with t.loop(0, both, 2 * lanes, name="sweep") as i:
            step(i.index, lanes)
            step(t.add(i.index, lanes), lanes)
        with t.loop(both, whole, lanes, name="sweep") as i:
            step(i.index, lanes)
        with t.loop(whole, count, name="sweep") as i:
            step(i.index, 0)

    def factor(self, k: Value) -> Value:
        t, dtype = self.t, self.p.a.dtype
        at = t.address(self.a, t.mul(k, self.w.a_side.k))
        return self.times_scale(widen(t, t.load(dtype, at), dtype, self.accumulator), k, None)

    def times_scale(self, x: Value, k: Value, count: Value | None) -> Value:
        """Scales along k are factors of the row."""
        if self.scales is None or self.scales.along != "k":
            return x
        lanes = self.lanes if x.type == self.type else 0
        return self.t.fmul(x, self.scales.several(k, lanes, count))

    # Zero points either run along with the vector that is read, or are one number for all of it.

    def running_zero(self, first: Value, lanes: int, running: Along, count: Value | None) -> Value | None:
        if self.scales is None or self.scales.along != running:
            return None
        return self.scales.zero(first, first, lanes, running, count)

    def fixed_zero(self, number: Value, along: Along) -> Value | None:
        if self.scales is None or self.scales.along not in (along, "all"):
            return None
        return self.scales.zero(number, number, 0, "all")

    def without(self, y: Value, running: Value | None, fixed: Value | None) -> Value:
        t, zero = self.t, running
        if zero is None:
            zero = None if fixed is None else t.splat(fixed, self.lanes if y.type == self.type else 0)
        return y if zero is None else t.fsub(y, zero)

    def element(self, start: Value, index: Value, lanes: int, count: Value | None) -> Value:
        """Consecutive elements of the matrix; rows of nibbles are filled up, so they need no mask."""
        t, dtype = self.t, self.p.b.dtype
        if self.p.b.nibbles:
            return widen(t, load_nibbles(t, dtype, start, index, lanes), dtype, self.accumulator)
        if self.p.b.grid and dtype in (int4, uint4) and count is None:
            codes = load_codes(t, dtype, t.address(start, index, dtype), lanes)
            return widen(t, codes, dtype, self.accumulator)
        return self.consecutive(dtype, start, index, lanes, count)

    def consecutive(self, dtype: DType, start: Value, index: Value, lanes: int, count: Value | None) -> Value:
        t = self.t
        at = t.address(start, index, dtype)
        return widen(t, t.load_partial(dtype, at, count, lanes), dtype, self.accumulator)

    # -- along k -------------------------------------------------------------------------------------------

    def dots(self, here: Value, count: Value) -> None:
        t = self.t
        whole = t.and_(count, -_COLUMNS)
        with t.loop(0, whole, _COLUMNS, name="columns") as n:
            self.dots_of(here, n.index, _COLUMNS)
        with t.loop(whole, count, name="column") as n:
            self.dots_of(here, n.index, 1)

    def dots_of(self, here: Value, n: Value, columns: int) -> None:
        t, w = self.t, self.w
        numbers = [t.add(n, c) for c in range(columns)]
        lines = [t.address(here, t.mul(i, w.b_side.line)) for i in numbers]
        zeros = [self.fixed_zero(i, "line") for i in numbers]
        sums = [constant(self.type, 0)] * columns
        whole = t.and_(w.k, -self.lanes)
        with t.loop(0, whole, self.lanes, sums, name="k") as k:
            k.next(*self.products(k.index, lines, zeros, k.values, None))
        with t.loop(whole, w.k, self.lanes, k.results, name="tail") as tail:
            left = t.sub(w.k, tail.index)
            tail.next(*self.products(tail.index, lines, zeros, tail.values, left))
        for i, total in zip(numbers, tail.results, strict=True):
            t.store_type(t.sum_lanes(total), self.place(i), self.accumulator.itemsize)

    def products(
        self, k: Value, lines: Sequence[Value], zeros: Sequence[Value | None], sums: Sequence[Value],
        count: Value | None,
    ) -> list[Value]:  # fmt: skip
        """A vector of k of every column, added to its sums; of the last one only `count` lanes exist."""
        row = self.consecutive(self.p.a.dtype, self.a, k, self.lanes, count)
        x = self.times_scale(row, k, count)
        zero = self.running_zero(k, self.lanes, "k", count)
        out = []
        for line, fixed, total in zip(lines, zeros, sums, strict=True):
            y = self.without(self.element(line, k, self.lanes, count), zero, fixed)
            out.append(multiply_add(self.t, x, y, total))
        return out
