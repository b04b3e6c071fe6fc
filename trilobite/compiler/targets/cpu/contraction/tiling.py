"""What a register tile is: dtypes, lanes, how it multiplies. All of it is fixed in a kernel's text.

Enters: a host and dtypes. Leaves: a `Tiling`. How many pixels, rows and taps a unit takes is decided for each
problem by its algorithm.
"""

from __future__ import annotations

from dataclasses import replace

from trilobite.base.dtypes import DType, int32, is_float
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.convert import NARROW, accumulator_of
from trilobite.compiler.targets.cpu.contraction.multiply import Multiply
from trilobite.native.host import Host
from trilobite.native.llvm.types import register_type

ROWS = 6
"""Rows of a register tile: 6 rows of 2 vectors, 2 vectors of columns and a broadcast fill 16 registers."""
VECTORS = 2
_SHORTEST = 16  # bytes of a vector
_UNFILLED = 8  # a panel may have one column of these more than narrower ones, for what its width saves
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
    def narrow(self) -> bool:
        """Are operands integers of at most 16 signed bits, added in 32?"""
        return self.operand in NARROW and self.accumulator == int32

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


def tiling_of(host: Host, operand: DType, result: DType, columns: int) -> Tiling:
    """For products with so many columns: of wider vectors where the machine has such, and columns fill them.
    A sum is the same chain of multiply-adds in a lane of any vector, so its bits are the same.
    """
    plain, *wide = tilings(host, operand, result)
    return next((tile for tile in wide if is_filled(tile, plain, columns)), plain)


def tiling_for(host: Host, operand: DType, result: DType, panel: int) -> Tiling:
    """For a weight whose panels were cut to so many columns, which is one of the `tilings`."""
    return next(tile for tile in tilings(host, operand, result) if tile.columns == panel)


def tilings(host: Host, operand: DType, result: DType) -> tuple[Tiling, ...]:
    """All that this machine has, the one with the shortest vectors first."""
    plain = tiling(host, operand, result)
    lanes = host.tile_lanes(plain.size)
    return (plain,) if lanes == plain.lanes else (plain, replace(plain, lanes=lanes))


def is_filled(wide: Tiling, plain: Tiling, columns: int) -> bool:
    """Do panels of wide vectors have hardly more columns that do not exist?"""
    covered = [-(-columns // tile.columns) * tile.columns for tile in (wide, plain)]
    return covered[0] * _UNFILLED <= covered[1] * (_UNFILLED + 1)
