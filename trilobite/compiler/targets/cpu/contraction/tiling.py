"""Register tiles and cache blocks of the direct convolution: what is fixed in a kernel's text.

Enters: a host and dtypes. Leaves: a `Tiling`. How many pixels and taps a unit takes is decided per
convolution in `lower`, because those are words of a step and not part of a text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from trilobite.base.dtypes import DType, is_float
from trilobite.compiler.targets.cpu.contraction.convert import accumulator_of
from trilobite.compiler.targets.cpu.emit.types import register_type
from trilobite.native.host import Host

ROWS = 6  # pixels of a register tile: 6 x 2 accumulators, 2 weights and a broadcast fill 16 registers
VECTORS = 2
UNROLL = 4  # depth steps of one round of the inner loop
_SHORTEST = 16  # bytes of a vector
DEPTH = 256  # depth of a block: 16 columns of it are 16 KiB, half of a first-level cache


@dataclass(frozen=True)
class Tiling:
    """One register tile: ROWS pixels by `columns` output channels."""

    operand: DType
    result: DType  # of the convolution, before the epilogue
    accumulator: DType
    lanes: int
    stored: DType | None = None  # of the second operand, where it is not as the first
    stride: int = 0  # columns of a panel where vectors are shorter than those it was cut for

    @property
    def panel(self) -> DType:
        """What weights, or errors, are stored as."""
        return self.stored or self.operand

    @property
    def columns(self) -> int:
        return self.stride or self.lanes * VECTORS

    @property
    def size(self) -> int:
        """Bytes of an accumulator."""
        return self.accumulator.itemsize

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
