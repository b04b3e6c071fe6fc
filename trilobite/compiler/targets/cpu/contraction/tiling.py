"""What a register tile is: dtypes, lanes, how it multiplies. All of it is fixed in a kernel's text.

Enters: a host and dtypes. Leaves: a `Tiling`. How many pixels, rows and taps a unit takes is decided for each
problem by its algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from trilobite.base.dtypes import DType, is_float
from trilobite.compiler.targets.cpu.contraction.convert import accumulator_of
from trilobite.compiler.targets.cpu.contraction.multiply import Multiply
from trilobite.native.host import Host
from trilobite.native.llvm.types import register_type

ROWS = 6
"""Rows of a register tile: 6 rows of 2 vectors, 2 vectors of columns and a broadcast fill 16 registers."""
VECTORS = 2
_SHORTEST = 16  # bytes of a vector
DEPTH = 256  # depth of a block: 16 columns of it are 16 KiB, half of a first-level cache


@dataclass(frozen=True)
class Tiling:
    """One register tile: up to ROWS rows by `columns` columns, `vectors` vectors of `lanes`."""

    operand: DType  # of the elements of rows
    result: DType  # of the sums, before the epilogue
    accumulator: DType
    lanes: int
    stored: DType | None = None  # of the second operand, where it is not as the first
    stride: int = 0  # columns of a panel where vectors are shorter than those it was cut for
    multiply: Multiply = "single"
    vectors: int = VECTORS

    @property
    def panel(self) -> DType:
        """What weights, or errors, are stored as."""
        return self.stored or self.operand

    @property
    def columns(self) -> int:
        return self.stride or self.lanes * self.vectors

    @property
    def size(self) -> int:
        """Bytes of an accumulator."""
        return self.accumulator.itemsize

    @property
    def element(self) -> str:
        return register_type(self.accumulator)

    @property
    def vector(self) -> str:
        return register_type(self.accumulator, self.lanes)


def widened(tile: Tiling) -> Tiling:
    """With rows that were widened beforehand, once and not for every panel; only floats gain by it."""
    if tile.operand == tile.accumulator or not is_float(tile.operand):
        return tile
    return replace(tile, operand=tile.accumulator, stored=tile.operand)


def shortened(tile: Tiling, columns: int) -> Tiling:
    """With vectors of no more lanes than these few columns fill; panels stay as they are."""
    lanes = tile.lanes
    while lanes * tile.size > _SHORTEST and lanes // 2 >= columns:
        lanes //= 2
    return tile if lanes == tile.lanes else replace(tile, lanes=lanes, stride=tile.columns)


def tiling(host: Host, operand: DType, result: DType) -> Tiling:
    kept = accumulator_of(operand, result)
    return Tiling(operand, result, kept, host.lanes(kept.itemsize))
