"""The register tile of the weight gradient: up to 6 channels times 16 filters, summed over pixels.

Enters: a `Text`. Leaves: an internal function per number of channels, `weights<rows>(places, apart, errors,
pixels, channel, sums)`: adds to `sums` the products of channels `channel`, `channel`+1, ... of the rows at
`places` (`apart` bytes from pixel to pixel) with the packed rows of `errors`.
"""

from __future__ import annotations

from trilobite.compiler.targets.cpu.contraction.convert import widen
from trilobite.compiler.targets.cpu.contraction.tile import multiply_add
from trilobite.compiler.targets.cpu.contraction.tiling import VECTORS, Tiling
from trilobite.compiler.targets.cpu.emit.text import Text, Value

_PARAMETERS = ("ptr noalias", "i64", "ptr noalias", "i64", "i64", "ptr noalias")
_UNROLL = 2  # pixels of one round


class WeightTile:
    def __init__(self, t: Text, tiling: Tiling, rows: int, gathered: bool) -> None:
        """`gathered`: `places` holds addresses; else it is the first row, and the others follow it."""
        self.t, self.tiling, self.rows, self.gathered = t, tiling, rows, gathered

    @property
    def name(self) -> str:
        return f"weights{self.rows}"

    def emit(self) -> None:
        with self.t.function(self.name, _PARAMETERS) as p:
            self._body(*p)

    def _body(
        self, places: Value, apart: Value, errors: Value, pixels: Value, channel: Value, sums: Value
    ) -> None:
        t, tiling = self.t, self.tiling
        at = [t.address(sums, i * tiling.lanes * tiling.size) for i in range(self.rows * VECTORS)]
        start = [t.load_type(tiling.vector, a, 32) for a in at]
        whole = t.and_(pixels, -_UNROLL)
        with t.loop(0, whole, _UNROLL, carried=[places, errors, *start], name="pixel") as loop:
            loop.next(*self._pixels(loop.values, apart, channel, _UNROLL))
        with t.loop(whole, pixels, carried=loop.results, name="rest") as rest:
            rest.next(*self._pixels(rest.values, apart, channel, 1))
        for a, value in zip(at, rest.results[2:], strict=True):
            t.store_type(value, a, 32)

    def _pixels(self, carried: list[Value], apart: Value, channel: Value, count: int) -> list[Value]:
        t, tiling = self.t, self.tiling
        place, errors, *sums = carried
        for _ in range(count):
            row = t.load_type("ptr", place) if self.gathered else place
            row = t.address(row, channel, tiling.operand)
            columns = [
                t.load_type(tiling.vector, t.address(errors, v * tiling.lanes * tiling.size), 32)
                for v in range(VECTORS)
            ]
            for i in range(self.rows):
                one = t.load(tiling.operand, t.address(row, i, tiling.operand))
                wide = t.splat(widen(t, one, tiling.operand, tiling.accumulator), tiling.lanes)
                for v in range(VECTORS):
                    k = i * VECTORS + v
                    sums[k] = multiply_add(t, wide, columns[v], sums[k])
            place = t.address(place, apart)
            errors = t.address(errors, tiling.columns * tiling.size)
        return [place, errors, *sums]
