"""The register tile of the weight gradient: up to 6 channels times 16 filters, summed over pixels.

Enters: a `Text`. Leaves: an internal function per number of channels, `weights<rows>(places, apart, errors,
pixels, channel, sums)`: adds to `sums` the products of channels `channel`, `channel`+1, ... of the rows at
`places` (`apart` bytes from pixel to pixel) with the packed rows of `errors`.
"""

from __future__ import annotations

from trilobite.compiler.targets.cpu.contraction.tile import RegisterTile, through_depth
from trilobite.compiler.targets.cpu.contraction.tiling import Tiling
from trilobite.native.llvm.text import Text, Value

_PARAMETERS = ("ptr noalias", "i64", "ptr noalias", "i64", "i64", "ptr noalias")
_UNROLL = 2  # pixels of one round


class WeightTile(RegisterTile):
    def __init__(self, t: Text, tiling: Tiling, rows: int, gathered: bool) -> None:
        """`gathered`: `places` holds addresses; else it is the first row, and the others follow it."""
        super().__init__(t, tiling, rows)
        self.gathered = gathered

    @property
    def name(self) -> str:
        return f"weights{self.rows}"

    def emit(self) -> None:
        t = self.t
        with t.function(self.name, _PARAMETERS) as (places, apart, errors, pixels, channel, sums):
            kept = list(self.places(sums))
            carried = [places, errors, *self.load(kept)]

            def step(carried: list[Value], k: Value, count: int) -> list[Value]:
                return self._pixels(carried, apart, channel, count)

            whole = t.and_(pixels, -_UNROLL)
            found = through_depth(t, whole, pixels, _UNROLL, carried, step, ("pixel", "rest"))
            self.store(found[2:], kept)

    def _pixels(self, carried: list[Value], apart: Value, channel: Value, count: int) -> list[Value]:
        t, tiling = self.t, self.tiling
        place, errors, *sums = carried
        for _ in range(count):
            row = t.load_type("ptr", place) if self.gathered else place
            row = t.address(row, channel, tiling.operand)

            def element(i: int, row: Value = row) -> Value:
                one = t.load(tiling.operand, t.address(row, i, tiling.operand))
                return t.splat(self.wide(one, tiling.operand), tiling.lanes)

            at = [v * tiling.lanes * tiling.size for v in range(self.vectors)]
            columns = [t.load_type(tiling.vector, t.address(errors, a), 32) for a in at]
            sums = self.multiplied(columns, element, sums)
            place = t.address(place, apart)
            errors = t.address(errors, tiling.columns * tiling.size)
        return [place, errors, *sums]
