"""The register tile of the convolution of planes: panels of filters times a packed panel of pixels.

Enters: a `Text`. Leaves: an internal function `planes<filters>x<vectors>(weights, apart, pixels, count, sums,
begins)` for `count` rows of depth; panels of weights are `apart` bytes apart. `sums` is where the tile's
accumulators stay between blocks of depth, a line of pixels for each filter.
"""

from __future__ import annotations

from trilobite.compiler.targets.cpu.contraction.tiling import Tiling
from trilobite.compiler.targets.cpu.emit.text import Text, Value

FILTERS = 4  # of a panel: 4 x 3 accumulators, 3 vectors of pixels and a broadcast fill 16 registers
VECTORS = 3
_UNROLL = 4
_PARAMETERS = ("ptr noalias", "i64", "ptr noalias", "i64", "ptr noalias", "i1")


class PlaneTile:
    """Emits the function of a tile of some vectors of pixels by some panels of filters."""

    def __init__(self, t: Text, tiling: Tiling, vectors: int, panels: int = 1) -> None:
        self.t, self.tiling, self.vectors, self.panels = t, tiling, vectors, panels
        self.filters, self.pixels = panels * FILTERS, VECTORS * tiling.lanes
        self.spots = [(i, v) for i in range(self.filters) for v in range(vectors)]

    @property
    def name(self) -> str:
        return f"planes{self.filters}x{self.vectors}"

    def emit(self) -> None:
        with self.t.function(self.name, _PARAMETERS) as p:
            for value, spot in zip(self.found(*p), self.spots, strict=True):
                self.t.store_type(value, self.at(p[4], *spot), 32)

    def at(self, sums: Value, i: int, v: int) -> Value:
        return self.t.address(sums, (i * self.pixels + v * self.tiling.lanes) * self.tiling.size)

    def found(
        self, weights: Value, apart: Value, pixels: Value, count: Value, sums: Value, begins: Value
    ) -> list[Value]:
        """The code of the tile itself: its sums after this block of depth, filter by filter."""
        t, vector = self.t, self.tiling.vector
        start = t.either(
            begins,
            lambda: [t.constant(vector, 0) for _ in self.spots],
            lambda: [t.load_type(vector, self.at(sums, *s), 32) for s in self.spots],
        )
        panels = [t.address(weights, t.mul(apart, i)) for i in range(self.panels)]
        whole, carried = t.and_(count, -_UNROLL), [pixels, *panels, *start]
        for first, last, steps in ((t.constant("i64", 0), whole, _UNROLL), (whole, count, 1)):
            with t.loop(first, last, steps, carried=carried, name="k") as k:
                k.next(*self._steps(k.values, steps))
            carried = k.results
        return carried[1 + self.panels :]

    def _steps(self, carried: list[Value], steps: int) -> list[Value]:
        """Some rows of the panel of pixels, each times one element of every filter."""
        t, tiling = self.t, self.tiling
        pixels, panels, sums = carried[0], carried[1 : 1 + self.panels], carried[1 + self.panels :]
        for u in range(steps):
            first = t.address(pixels, u * self.pixels, tiling.operand)
            places = [t.address(first, v * tiling.lanes, tiling.operand) for v in range(self.vectors)]
            row = [t.load(tiling.operand, at, tiling.lanes) for at in places]
            for i in range(self.filters):
                at = t.address(panels[i // FILTERS], u * FILTERS + i % FILTERS, tiling.operand)
                one = t.load_splat(tiling.operand, at, tiling.lanes)
                for v in range(self.vectors):
                    k = i * self.vectors + v
                    sums[k] = t.fma(one, row[v], sums[k])
        after = [t.address(p, steps * FILTERS, tiling.operand) for p in panels]
        return [t.address(pixels, steps * self.pixels, tiling.operand), *after, *sums]
