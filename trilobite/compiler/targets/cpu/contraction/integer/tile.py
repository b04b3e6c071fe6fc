"""The register tile of integer convolutions: up to 6 gathered rows of words times 16 columns of a panel.

Enters: a `Text` and the form of the words (1: four bytes, 2: two 16-bit numbers). Leaves: an internal
function per number of rows, `words<form>_<rows>(places, line, panel, taps, first tap, last tap, first word,
words, ones, sums, begins)`, as the float tile has it. Sums begin with the row before the panel's first.
"""

from __future__ import annotations

from trilobite.base.dtypes import int32
from trilobite.compiler.targets.cpu.contraction.pairs import pair_products, quad_products
from trilobite.compiler.targets.cpu.contraction.tiling import VECTORS, Tiling
from trilobite.compiler.targets.cpu.emit.text import Text, Value
from trilobite.compiler.targets.cpu.emit.types import vector

_PARAMETERS = (
    "ptr noalias", "i64", "ptr noalias", "ptr noalias", "i64", "i64", "i64", "i64", "ptr noalias",
    "ptr noalias", "i1",
)  # fmt: skip


class IntegerTile:
    """Emits the tile functions of one kernel. `tap_words`: words of a row of the table of taps; the last one
    is the row of the panel at which the tap's weights begin.
    """

    def __init__(self, t: Text, tiling: Tiling, tap_words: int, form: int, rows: int) -> None:
        self.t, self.tiling, self.tap_words, self.form, self.rows = t, tiling, tap_words, form, rows

    @property
    def name(self) -> str:
        return f"words{self.form}_{self.rows}"

    def emit(self) -> None:
        with self.t.function(self.name, _PARAMETERS) as p:
            self._body(*p)

    def _body(
        self, places: Value, line: Value, panel: Value, taps: Value, first: Value, last: Value,
        word: Value, words: Value, ones: Value, sums: Value, begins: Value,
    ) -> None:  # fmt: skip
        t, tiling = self.t, self.tiling
        spots = [
            t.address(sums, (i * tiling.columns + v * tiling.lanes) * tiling.size)
            for i in range(self.rows)
            for v in range(VECTORS)
        ]
        start = t.either(
            begins,
            lambda: self.start(panel),
            lambda: [t.load_type(tiling.vector, at, 32) for at in spots],
        )
        found = self.sums(start, places, line, panel, taps, first, last, word, words, ones)
        for value, at in zip(found, spots, strict=True):
            t.store_type(value, at, 32)

    def start(self, panel: Value) -> list[Value]:
        """What the sums of every row begin with."""
        t, tiling = self.t, self.tiling
        row = [
            t.load_type(tiling.vector, t.address(panel, (v * tiling.lanes - tiling.columns) * tiling.size), 4)
            for v in range(VECTORS)
        ]
        return row * self.rows

    def sums(
        self, start: list[Value], places: Value, line: Value, panel: Value, taps: Value, first: Value,
        last: Value, word: Value, words: Value, ones: Value,
    ) -> list[Value]:  # fmt: skip
        """The code of the tile itself, from sums to sums, row by row."""
        t = self.t
        lines = [t.address(places, t.mul(line, i)) for i in range(self.rows)]
        with t.loop(first, last, carried=start, name="tap") as tap:
            rows, weights = self._addresses(lines, panel, taps, tap.index, word)
            # Unrolled, a tap of few words would be mostly its beginning and end.
            with t.loop(0, words, carried=[weights, *tap.values], name="deep") as deep:
                deep.next(*self._step(rows, ones, deep.index, deep.values))
            tap.next(*deep.results[1:])
        return tap.results

    def _addresses(
        self, lines: list[Value], panel: Value, taps: Value, tap: Value, word: Value
    ) -> tuple[list[Value], Value]:
        t = self.t
        at = t.mul(tap, 8)
        rows = [t.address(t.load_type("ptr", t.address(line, at)), word, int32) for line in lines]
        last = t.add(t.mul(tap, 8 * self.tap_words), 8 * (self.tap_words - 1))
        depth = t.add(t.load_type("i64", t.address(taps, last)), word)
        return rows, t.address(panel, t.mul(depth, self.tiling.columns), int32)

    def _step(self, rows: list[Value], ones: Value, at: Value, carried: list[Value]) -> list[Value]:
        """One word of every row, in all lanes, times a row of the panel."""
        t, tiling = self.t, self.tiling
        weights, sums = carried[0], list(carried[1:])
        places = [t.address(weights, v * tiling.lanes, int32) for v in range(VECTORS)]
        columns = [t.load_type(tiling.vector, place, 4) for place in places]
        for i, begin in enumerate(rows):
            # Rows may be the caller's bytes, which begin anywhere.
            row = t.splat(t.load_type("i32", t.address(begin, at, int32), 1), tiling.lanes)
            for v in range(VECTORS):
                k = i * VECTORS + v
                sums[k] = t.add(sums[k], self._products(row, columns[v], ones, k))
        return [t.address(weights, tiling.columns, int32), *sums]

    def _products(self, row: Value, column: Value, ones: Value, k: int) -> Value:
        t, lanes = self.t, self.tiling.lanes
        if self.form == 2:
            return pair_products(t, row, column, lanes)
        # Ones in a register would drive a sum out of its own. Read from as many places as there are sums,
        # they are operands in memory, within one line of the cache.
        place = t.address(ones, 2 * k if lanes <= 8 else 0)
        return quad_products(t, row, column, t.load_type(vector("i16", 2 * lanes), place), lanes)
