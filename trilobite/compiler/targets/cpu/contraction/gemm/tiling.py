"""How a matrix product is cut: the register tile, and blocks that fit the caches.

Enters: a `Host` and the dtype that products are added in. Leaves: a `Tiling`. It emits no code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trilobite.base.dtypes import DType, int16, int32, is_integer
from trilobite.compiler.targets.cpu.emit.types import register_type, vector
from trilobite.native.host import Host

ROWS = 6
"""Rows of the register tile: 6 rows of 2 vectors leave 4 of 16 registers for operands."""
_DIRECT = 128


@dataclass(frozen=True)
class Tiling:
    """Sizes in elements of the accumulator's dtype, which is also the dtype of packed operands.

    With `pairs`, a packed element is a 32-bit word of two 16-bit integers that stand one below the other
    in k, so that one instruction multiplies both and adds: `k` then counts pairs.
    """

    accumulator: DType
    pairs: bool
    lanes: int
    vectors: int  # that make up a row of the register tile
    k_block: int  # a panel of B of this height fills three quarters of the first cache
    m_block: int  # a block of A of this height fills half of the second cache
    n_block: int
    direct: int  # up to so many columns, A is read where it is: packing would cost more than it saves

    @property
    def columns(self) -> int:
        return self.lanes * self.vectors

    @property
    def element(self) -> str:
        return register_type(self.accumulator)

    @property
    def vector(self) -> str:
        return vector(self.element, self.lanes)

    @property
    def size(self) -> int:
        return self.accumulator.itemsize

    @property
    def stored(self) -> DType:
        """The dtype of the numbers in packed operands."""
        return int16 if self.pairs else self.accumulator

    @property
    def depth(self) -> Literal[1, 2]:
        """How many k one packed element covers."""
        return 2 if self.pairs else 1


def tiling(host: Host, accumulator: DType, pairs: bool = False) -> Tiling:
    size = accumulator.itemsize
    lanes = host.lanes(size)
    # Twice the registers, if they are short, make twice the width: loads of A are shared by more columns.
    vectors = 4 if host.registers > 16 and host.vector_bytes <= 16 else 2
    columns = lanes * vectors
    k_block = _multiple(host.l1 * 3 // 4 // (columns * size), 64, 64)
    m_block = _multiple(host.l2 // 2 // (k_block * size), ROWS * 4, ROWS * 4)
    n_block = _multiple(min(host.l3 // 8, 2 << 20) // (k_block * size), columns, columns * 4)
    if pairs and not (is_integer(accumulator) and accumulator == int32):
        raise ValueError(f"pairs are added in int32, not {accumulator}")
    return Tiling(accumulator, pairs, lanes, vectors, k_block, m_block, n_block, _DIRECT)


def _multiple(number: int, of: int, least: int) -> int:
    return max(number // of * of, least)
