"""The register tile of the convolution of planes: panels of filters times a packed panel of pixels.

Enters: a `Text`. Leaves: an internal function `planes<filters>x<vectors>(weights, apart, pixels, count, sums,
begins)` for `count` rows of depth; panels of weights are `apart` bytes apart. `sums` is where the tile's
accumulators stay between blocks of depth, a line of pixels for each filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from trilobite.compiler.targets.cpu.contraction.tile import RegisterTile, through_depth
from trilobite.compiler.targets.cpu.contraction.tiling import Tiling
from trilobite.native.llvm.text import Text, Value

FILTERS = 4  # of a panel: 4 x 3 accumulators, 3 vectors of pixels and a broadcast fill 16 registers
VECTORS = 3
STRAIGHT = 2  # panels of filters: of so few, a panel of pixels in one run of memory is read where it lies
_WIDE = 24  # vectors of pixels that an image has at least where wider ones are worth it

_UNROLL = 4
_PARAMETERS = ("ptr noalias", "i64", "ptr noalias", "i64", "ptr noalias", "i1")


def are_filled(lanes: int, shape: Sequence[int]) -> bool:
    """Do so many pixels fill vectors of these lanes, wider than others?"""
    return shape[-1] >= lanes and prod(shape) >= _WIDE * lanes


class PlaneTile(RegisterTile):
    """Emits the function of a tile of some vectors of pixels by some panels of filters."""

    def __init__(self, t: Text, tiling: Tiling, vectors: int, panels: int = 1) -> None:
        super().__init__(t, tiling, panels * FILTERS, vectors, VECTORS * tiling.lanes)
        self.panels = panels

    @property
    def name(self) -> str:
        return f"planes{self.rows}x{self.vectors}"

    def emit(self) -> None:
        with self.t.function(self.name, _PARAMETERS) as p:
            self.store(self.found(*p), self.places(p[4]))

    def found(
        self, weights: Value, apart: Value, pixels: Value, count: Value, sums: Value, begins: Value
    ) -> list[Value]:
        """The code of the tile itself: its sums after this block of depth, filter by filter."""
        t = self.t
        start = t.either(begins, self.zeros, lambda: self.load(self.places(sums)))
        panels = [t.address(weights, t.mul(apart, i)) for i in range(self.panels)]
        carried = [pixels, *panels, *start]
        found = through_depth(t, t.and_(count, -_UNROLL), count, _UNROLL, carried, self._steps)
        return found[1 + self.panels :]

    def _steps(self, carried: list[Value], k: Value, steps: int) -> list[Value]:
        """Some rows of the panel of pixels, each times one element of every filter."""
        t, tiling = self.t, self.tiling
        pixels, panels, sums = carried[0], carried[1 : 1 + self.panels], carried[1 + self.panels :]
        for u in range(steps):
            first = self.row(pixels, u)
            places = [t.address(first, v * tiling.lanes, tiling.operand) for v in range(self.vectors)]

            def element(i: int, u: int = u) -> Value:
                at = t.address(panels[i // FILTERS], u * FILTERS + i % FILTERS, tiling.operand)
                return t.load_splat(tiling.operand, at, tiling.lanes)

            row = [t.load(tiling.operand, at, tiling.lanes) for at in places]
            sums = self.multiplied(row, element, sums)
        after = [t.address(p, steps * FILTERS, tiling.operand) for p in panels]
        return [self.advanced(pixels, steps), *after, *sums]

    def row(self, pixels: Value, number: int) -> Value:
        """Where a row of the panel of pixels begins."""
        return self.t.address(pixels, number * self.pitch, self.tiling.operand)

    def advanced(self, pixels: Value, rows: int) -> Value:
        return self.row(pixels, rows)


class StraightTile(PlaneTile):
    """The same of pixels that were not packed: `pixels` is a table of how far rows are from `source`, which
    is one more parameter. Where few filters share them, reading them once more is cheaper than a copy.
    """

    source: Value

    @property
    def name(self) -> str:
        return f"straight{self.rows}x{self.vectors}"

    def emit(self) -> None:
        with self.t.function(self.name, (*_PARAMETERS, "ptr noalias")) as (*p, self.source):
            self.store(self.found(*p), self.places(p[4]))

    def row(self, pixels: Value, number: int) -> Value:
        return self.t.address(self.source, self.t.load_type("i64", self.t.address(pixels, 8 * number)))

    def advanced(self, pixels: Value, rows: int) -> Value:
        return self.t.address(pixels, 8 * rows)
