"""The register tile of the direct convolution: up to 6 gathered rows times 16 columns of a weight panel.

Enters: a `Text`. Leaves: an internal function per number of rows, `tile<rows>(places, line, panel, taps,
first tap, last tap, first channel, channels, sums, begins)`. `places` holds for each tap the addresses of
the rows, so padding, strides and dilation are addresses like any other; the activations are never copied.
`sums` is where the tile's accumulators stay between blocks of depth. With `streams`, the tile asks meanwhile
for weights that later tiles want: two more parameters say where they begin and how many bytes go with each
channel.
"""

from __future__ import annotations

from trilobite.base.dtypes import DType
from trilobite.compiler.targets.cpu.contraction.convert import widen
from trilobite.compiler.targets.cpu.contraction.tiling import UNROLL, VECTORS, Tiling
from trilobite.compiler.targets.cpu.emit.text import Text, Value
from trilobite.compiler.targets.cpu.emit.types import is_float_type

_PARAMETERS = (
    "ptr noalias", "i64", "ptr noalias", "ptr noalias", "i64", "i64", "i64", "i64", "ptr noalias", "i1",
)  # fmt: skip
_STREAM = ("ptr noalias", "i64")
Stream = tuple[Value, ...]


class Tile:
    """Emits the tile functions of one kernel. `tap_words`: words of a row of the table of taps; the last one
    is the row of the panel at which the tap's weights begin.
    """

    def __init__(
        self, t: Text, tiling: Tiling, tap_words: int, rows: int, vectors: int = VECTORS, *,
        streams: bool = False,
    ) -> None:  # fmt: skip
        self.t, self.tiling, self.tap_words = t, tiling, tap_words
        self.rows, self.vectors, self.streams = rows, vectors, streams

    @property
    def name(self) -> str:
        return f"tile{self.rows}x{self.vectors}"

    def emit(self) -> None:
        with self.t.function(self.name, _PARAMETERS + _STREAM * self.streams) as p:
            self._body(*p)

    def _body(
        self, places: Value, line: Value, panel: Value, taps: Value, first: Value, last: Value,
        channel: Value, channels: Value, sums: Value, begins: Value, *stream: Value,
    ) -> None:  # fmt: skip
        t, width = self.t, self.tiling.columns
        spots = [(i, v) for i in range(self.rows) for v in range(self.vectors)]

        def at(i: int, v: int) -> Value:
            return t.address(sums, (i * width + v * self.tiling.lanes) * self.tiling.size)

        zero = t.constant(self.tiling.vector, 0)
        start = t.either(
            begins,
            lambda: [zero for _ in spots],
            lambda: [t.load_type(self.tiling.vector, at(*s), 32) for s in spots],
        )
        found = self.sums(places, line, panel, taps, first, last, channel, channels, start, stream)
        for value, s in zip(found, spots, strict=True):
            t.store_type(value, at(*s), 32)

    def sums(
        self, places: Value, line: Value, panel: Value, taps: Value, first: Value, last: Value,
        channel: Value, channels: Value, start: list[Value], stream: Stream = (),
    ) -> list[Value]:  # fmt: skip
        """The code of the tile itself, from sums to sums, row by row."""
        t = self.t
        whole = t.and_(channels, -UNROLL)
        lines = [t.address(places, t.mul(line, i)) for i in range(self.rows)]
        with t.loop(first, last, carried=start, name="tap") as tap:
            rows, weights = self._addresses(lines, panel, taps, tap.index, channel)
            done = t.mul(t.sub(tap.index, first), channels)
            with t.loop(0, whole, UNROLL, carried=[weights, *tap.values], name="deep") as deep:
                if stream:
                    t.prefetch(t.address(stream[0], t.mul(t.add(done, deep.index), stream[1])), locality=2)
                deep.next(*self._steps(rows, deep.index, deep.values, UNROLL))
            with t.loop(whole, channels, carried=deep.results, name="rest") as rest:
                rest.next(*self._steps(rows, rest.index, rest.values, 1))
            tap.next(*rest.results[1:])
        return tap.results

    def _addresses(
        self, lines: list[Value], panel: Value, taps: Value, tap: Value, channel: Value
    ) -> tuple[list[Value], Value]:
        t = self.t
        at = t.mul(tap, 8)
        rows = [t.load_type("ptr", t.address(line, at)) for line in lines]
        rows = [t.address(r, channel, self.tiling.operand) for r in rows]
        word = t.load_type(
            "i64", t.address(taps, t.add(t.mul(tap, 8 * self.tap_words), 8 * (self.tap_words - 1)))
        )
        depth = t.add(word, channel)
        return rows, t.address(panel, t.mul(depth, self.tiling.columns), self.tiling.panel)

    def _steps(self, rows: list[Value], at: Value, carried: list[Value], steps: int) -> list[Value]:
        """`steps` channels: each one element of every row times a row of the panel."""
        t, tiling = self.t, self.tiling
        weights, sums = carried[0], list(carried[1:])
        here = [t.address(r, at, tiling.operand) for r in rows]
        for u in range(steps):
            columns = [
                self._wide(
                    t.load(
                        tiling.panel,
                        t.address(weights, u * tiling.columns + v * tiling.lanes, tiling.panel),
                        tiling.lanes,
                    ),
                    tiling.panel,
                )
                for v in range(self.vectors)
            ]
            for i in range(self.rows):
                one = self._wide(
                    t.load(tiling.operand, t.address(here[i], u, tiling.operand)), tiling.operand
                )
                row = t.splat(one, tiling.lanes)
                for v in range(self.vectors):
                    k = i * self.vectors + v
                    sums[k] = multiply_add(t, row, columns[v], sums[k])
        return [t.address(weights, steps * tiling.columns, tiling.panel), *sums]

    def _wide(self, value: Value, stored: DType) -> Value:
        return widen(self.t, value, stored, self.tiling.accumulator)


def multiply_add(t: Text, a: Value, b: Value, c: Value) -> Value:
    return t.fma(a, b, c) if is_float_type(c.type) else t.add(t.mul(a, b), c)
