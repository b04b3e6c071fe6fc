"""A row times a matrix, without packing: every element of the matrix is read once, in the order of memory.

Enters: a `Problem` with one row whose matrix runs on in memory along columns or along k. Leaves: `entry` of a
kernel. Units are columns. Sums stand in scratch until all of k is done, then pass the epilogue.

Along columns: a few rows of the matrix at a time are swept, each column's sum is one chain in the order of k.
Along k: a few columns at a time, each with the same fixed number of partial sums, whatever its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

from trilobite.compiler.cpu.emit.text import Text, Value
from trilobite.compiler.cpu.emit.types import constant, is_float_type, register_type, vector
from trilobite.compiler.cpu.gemm.convert import accumulator_of, widen
from trilobite.compiler.cpu.gemm.finish import Finish
from trilobite.compiler.cpu.gemm.problem import Problem
from trilobite.compiler.cpu.gemm.sizes import ONE
from trilobite.compiler.cpu.gemm.units import operand, panels_of_units
from trilobite.compiler.cpu.gemm.words import Words
from trilobite.native.host import Host

PANEL = 16
"""Columns that a range of units is rounded to."""
_CHUNK = 4096  # columns whose sums wait in scratch, in the first cache
_ROWS = 4  # rows of the matrix swept at once, each a stream of memory
_COLUMNS = 8  # columns that share what is loaded of the row
_PARTIAL = 1  # vectors of partial sums of one column


def fits(p: Problem) -> bool:
    """Whether this is such a product."""
    return p.m == ONE and not p.packed and (p.b.line == ONE or (p.b.k == ONE and p.a.k == ONE))


class Gemv:
    """Emits one kernel."""

    def __init__(self, host: Host, p: Problem, words: Words) -> None:
        self.t = t = Text(host)
        self.p = p
        self.accumulator, _ = accumulator_of(p.multiplied, p.dtype)
        self.lanes = host.lanes(self.accumulator.itemsize)
        self.type = vector(register_type(self.accumulator), self.lanes)
        self.w = words.read(t)
        self.sums = t.scratch
        self.scratch = (_CHUNK + self.lanes) * self.accumulator.itemsize
        self.finish = Finish(t, self.accumulator, self.lanes, p, self.w)

    def text(self) -> str:
        t, w = self.t, self.w
        panels = t.ceil_div(w["n"], PANEL)
        with panels_of_units(t, self.p, w, panels) as (batch, low, high):
            self.columns(batch, t.mul(low, PANEL), t.smin(t.mul(high, PANEL), w["n"]))
        return t.module()

    def columns(self, batch: Value, n0: Value, n1: Value) -> None:
        t = self.t
        self.a, self.b = (operand(t, self.p, self.w, side, batch) for side in ("a", "b"))
        self.finish.enter(batch)
        with t.loop(n0, n1, _CHUNK, name="chunk") as chunk:
            count = t.smin(t.sub(n1, chunk.index), _CHUNK)
            here = t.address(self.b, t.mul(chunk.index, self.w["b_line"]))
            if self.p.b.line == ONE:
                self.sweep(here, count)
            else:
                self.dots(here, count)
            self.store(chunk.index, count)

    def store(self, n: Value, count: Value) -> None:
        t, lanes = self.t, self.lanes
        whole = t.and_(count, -lanes)
        row = constant("i64", 0)
        with t.loop(0, whole, lanes, name="store") as i:
            self.finish.store(self.sum_at(i.index, lanes), row, t.add(n, i.index), None)
        with t.when(t.icmp("slt", whole, count)):
            self.finish.store(self.sum_at(whole, lanes), row, t.add(n, whole), t.sub(count, whole))

    def place(self, column: Value) -> Value:
        return self.t.address(self.sums, column, self.accumulator)

    def sum_at(self, column: Value, lanes: int) -> Value:
        return self.t.load(self.accumulator, self.place(column), lanes)

    # -- along columns -------------------------------------------------------------------------------------

    def sweep(self, here: Value, count: Value) -> None:
        """Groups of rows; the first one begins the sums."""
        t, w = self.t, self.w
        whole = t.and_(w["k"], -_ROWS)
        with t.loop(0, count, self.lanes, name="clear") as i:
            t.store_type(constant(self.type, 0), self.place(i.index), self.accumulator.itemsize)
        with t.loop(0, whole, _ROWS, name="k") as k:
            self.sweep_rows(here, count, k.index, _ROWS)
        with t.loop(whole, w["k"], name="k") as k:
            self.sweep_rows(here, count, k.index, 1)

    def sweep_rows(self, here: Value, count: Value, k: Value, rows: int) -> None:
        t, w, lanes = self.t, self.w, self.lanes
        numbers = [t.add(k, r) for r in range(rows)]
        factors = [self.factor(t.address(self.a, t.mul(i, w["a_k"]))) for i in numbers]
        starts = [t.address(here, t.mul(i, w["b_k"])) for i in numbers]
        whole = t.and_(count, -lanes)

        def step(column: Value, lanes: int) -> None:
            total = self.sum_at(column, lanes)
            for x, row in zip(factors, starts, strict=True):
                y = self.element(t.address(row, column, self.p.b.dtype), lanes)
                total = self.multiply_add(t.splat(x, lanes), y, total)
            t.store_type(total, self.place(column), self.accumulator.itemsize)

        both = t.and_(count, -2 * lanes)
        with t.loop(0, both, 2 * lanes, name="sweep") as i:
            step(i.index, lanes)
            step(t.add(i.index, lanes), lanes)
        with t.loop(both, whole, lanes, name="sweep") as i:
            step(i.index, lanes)
        with t.loop(whole, count, name="sweep") as i:
            step(i.index, 0)

    def factor(self, at: Value) -> Value:
        return widen(self.t, self.t.load(self.p.a.dtype, at), self.p.a.dtype, self.accumulator)

    def element(self, at: Value, lanes: int) -> Value:
        return widen(self.t, self.t.load(self.p.b.dtype, at, lanes), self.p.b.dtype, self.accumulator)

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
        lines = [t.address(here, t.mul(t.add(n, c), w["b_line"])) for c in range(columns)]
        zero = constant(self.type, 0)
        span = self.lanes * _PARTIAL
        whole = t.and_(w["k"], -span)
        with t.loop(0, whole, span, [zero] * (columns * _PARTIAL), name="k") as k:
            loop = k
            sums: list[Value] = []
            xs = [self.row(t.add(k.index, self.lanes * i), None) for i in range(_PARTIAL)]
            for c, line in enumerate(lines):
                for i, x in enumerate(xs):
                    at = t.address(line, t.add(k.index, self.lanes * i), self.p.b.dtype)
                    total = k.values[c * _PARTIAL + i]
                    sums.append(self.multiply_add(x, self.element(at, self.lanes), total))
            k.next(*sums)
        partial = self.tail(lines, whole, loop.results)
        for c in range(columns):
            total = partial[c * _PARTIAL]
            for other in partial[c * _PARTIAL + 1 : (c + 1) * _PARTIAL]:
                total = self.plus(total, other)
            t.store_type(t.sum_lanes(total), self.place(t.add(n, c)), self.accumulator.itemsize)

    def row(self, k: Value, count: Value | None) -> Value:
        t, dtype = self.t, self.p.a.dtype
        at = t.address(self.a, k, dtype)
        raw = t.load(dtype, at, self.lanes) if count is None else t.load_partial(dtype, at, count, self.lanes)
        return widen(t, raw, dtype, self.accumulator)

    def tail(self, lines: Sequence[Value], start: Value, sums: Sequence[Value]) -> list[Value]:
        """What is left of k, masked; it goes to the first partial sum of each column."""
        t, dtype = self.t, self.p.b.dtype
        with t.loop(start, self.w["k"], self.lanes, list(sums), name="tail") as k:
            count = t.sub(self.w["k"], k.index)
            x = self.row(k.index, count)
            out = list(k.values)
            for c, line in enumerate(lines):
                raw = t.load_partial(dtype, t.address(line, k.index, dtype), count, self.lanes)
                y = widen(t, raw, dtype, self.accumulator)
                out[c * _PARTIAL] = self.multiply_add(x, y, out[c * _PARTIAL])
            k.next(*out)
        return k.results

    def multiply_add(self, x: Value, y: Value, total: Value) -> Value:
        if is_float_type(total.type):
            return self.t.fma(x, y, total)
        return self.t.add(total, self.t.mul(x, y))

    def plus(self, a: Value, b: Value) -> Value:
        return self.t.fadd(a, b) if is_float_type(a.type) else self.t.add(a, b)
