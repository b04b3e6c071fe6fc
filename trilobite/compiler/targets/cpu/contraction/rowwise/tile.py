"""The tile of everything that keeps channels apart: pooling, its transpose, and one filter per channel.

Enters: a `Text` and how a gathered row is combined with what was found before. Leaves: internal functions
`rows<n>` for n pixels and two vectors of channels, and one, `some`, for a single pixel and the last
channels that do not fill vectors.
"""

from __future__ import annotations

from typing import Literal

from trilobite.base.dtypes import is_unsigned
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.convert import widen
from trilobite.compiler.targets.cpu.contraction.multiply import filtered
from trilobite.compiler.targets.cpu.contraction.tile import RegisterTile
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS, VECTORS, Tiling
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import is_float_type

Combine = Literal["max", "min", "sum", "filter"]


@dataclass
class Source:
    """What the calls of a unit share: the page outside, and for filters the weight and the table of taps."""

    outside: Value
    weights: Value
    table: Value
    tap_words: int
    line: Value  # elements of a row of the weight
    taps: Value

    @property
    def values(self) -> tuple[Value, ...]:
        return self.outside, self.weights, self.table, self.line, self.taps


_SHARED = ("ptr noalias", "ptr noalias", "ptr noalias", "i64", "i64")
_PARAMETERS = (*_SHARED, "ptr noalias", "i64", "ptr noalias", "i64")


@dataclass
class _Frame:
    """The parameters of a tile function, and how many pixels it has."""

    source: Source
    lines: list[Value]  # where each pixel's places begin
    channel: Value
    sums: Value
    count: Value | None  # channels that exist; None: all
    rows: int


class RowTile:
    """Emits and calls the tiles of one kernel."""

    def __init__(self, t: Text, tiling: Tiling, combine: Combine, source: Source) -> None:
        self.t, self.tiling, self.combine, self.source = t, tiling, combine, source

    def emit(self) -> None:
        for rows in range(1, ROWS + 1):
            with self.t.function(f"rows{rows}", _PARAMETERS) as p:
                self._body(_Frame(self._source(p), self._lines(p, rows), p[6], p[7], None, rows))
        with self.t.function("some", _PARAMETERS) as p:
            self._body(_Frame(self._source(p), [p[5]], p[6], p[7], p[8], 1))

    def _lines(self, p: list[Value], rows: int) -> list[Value]:
        line = self.t.mul(p[4], 8)
        return [self.t.address(p[5], self.t.mul(line, i)) for i in range(rows)]

    def _source(self, p: list[Value]) -> Source:
        return Source(p[0], p[1], p[2], self.source.tap_words, p[3], p[4])

    def call(self, rows: Value, places: Value, channel: Value, sums: Value, width: Value) -> None:
        """The function for so many pixels; pixel by pixel where channels do not fill the vectors."""
        t, tiling, shared = self.t, self.tiling, self.source.values

        def whole() -> None:
            for n in range(ROWS, 0, -1):
                with t.when(t.icmp("eq", rows, n)):
                    t.call(f"rows{n}", *shared, places, channel, sums, width)

        def some() -> None:
            with t.loop(0, rows, name="pixel") as i:
                out = t.address(sums, t.mul(i.index, tiling.columns * tiling.size))
                place = t.address(places, t.mul(t.mul(i.index, self.source.taps), 8))
                t.call("some", *shared, place, channel, out, width)

        t.either(t.icmp("eq", width, tiling.columns), whole, some)

    def _body(self, f: _Frame) -> None:
        kept = RegisterTile(self.t, self.tiling, f.rows)
        kept.store(self._sums(f), kept.places(f.sums))

    def whole(self, places: Value, channel: Value) -> list[Value]:
        """The code of a full tile itself: its sums, pixel by pixel."""
        line = self.t.mul(self.source.taps, 8)
        lines = [self.t.address(places, self.t.mul(line, i)) for i in range(ROWS)]
        return self._sums(_Frame(self.source, lines, channel, places, None, ROWS))

    def _sums(self, f: _Frame) -> list[Value]:
        t, tiling = self.t, self.tiling
        first = t.constant(tiling.vector, 0)
        if self.combine != "filter":
            first = t.splat(self._wide(t.load(tiling.operand, f.source.outside)), tiling.lanes)
        with t.loop(0, f.source.taps, carried=[first] * (f.rows * VECTORS), name="tap") as tap:
            tap.next(*self._tap(f, tap.index, tap.values))
        return tap.results

    def _tap(self, f: _Frame, tap: Value, sums: list[Value]) -> list[Value]:
        t, tiling = self.t, self.tiling
        here = t.mul(tap, 8)
        weights: list[Value | None] = [None] * VECTORS
        if self.combine == "filter":
            words = f.source.tap_words
            number = t.load_type(
                "i64", t.address(f.source.table, t.add(t.mul(tap, 8 * words), 8 * words - 8))
            )
            at = t.add(t.mul(number, f.source.line), f.channel)
            row = t.address(f.source.weights, at, tiling.operand)
            weights = [self._load(row, v, f.count) for v in range(VECTORS)]
        out = []
        for i in range(f.rows):
            row = t.address(t.load_type("ptr", t.address(f.lines[i], here)), f.channel, tiling.operand)
            for v in range(VECTORS):
                value = self._load(row, v, f.count)
                out.append(self._combined(sums[i * VECTORS + v], value, weights[v]))
        return out

    def _load(self, row: Value, v: int, count: Value | None) -> Value:
        t, tiling = self.t, self.tiling
        at = t.address(row, v * tiling.lanes, tiling.operand)
        left = None if count is None else t.smax(t.sub(count, v * tiling.lanes), 0)
        return self._wide(t.load_partial(tiling.operand, at, left, tiling.lanes))

    def _combined(self, before: Value, value: Value, weight: Value | None) -> Value:
        t = self.t
        if weight is not None:
            return filtered(t, value, weight, before, self.tiling.narrow)
        if self.combine == "sum":
            return t.fadd(before, value) if is_float_type(value.type) else t.add(before, value)
        return t.select(beats(t, value, before, self.combine, self.tiling), value, before)

    def _wide(self, value: Value) -> Value:
        return widen(self.t, value, self.tiling.operand, self.tiling.accumulator)


def beats(t: Text, value: Value, best: Value, combine: str, tiling: Tiling) -> Value:
    """Does a later element replace the best so far? Not if they are equal; NaN beats all but NaN."""
    if not is_float_type(value.type):
        order = "gt" if combine == "max" else "lt"
        return t.icmp(("u" if is_unsigned(tiling.operand) else "s") + order, value, best)
    better = t.fcmp("ogt" if combine == "max" else "olt", value, best)
    return t.or_(better, t.fcmp("uno", value, value))
