"""How a matrix product is cut: the register tile, and blocks that fit the caches.

Enters: a `Host` and the dtype that products are added in. Leaves: a `Plan`. It emits no code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from trilobite.base.dtypes import DType, int16, int32, is_float
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS, Tiling, is_filled
from trilobite.native.host import Host

_DIRECT = 128


@dataclass(frozen=True)
class Plan(Tiling):
    """Sizes in elements of the accumulator's dtype, which is also the dtype of packed operands.

    With pairs, a packed element is a 32-bit word of two 16-bit integers that stand one below the other
    in k, so that one instruction multiplies both and adds: `k` then counts pairs.
    """

    k_block: int = 0  # a panel of B of this height fills three quarters of the first cache
    m_block: int = 0  # a block of A of this height fills half of the second cache
    n_block: int = 0
    direct: int = _DIRECT  # up to so many columns, A is read where it is: packing would cost more

    @property
    def pairs(self) -> bool:
        return self.multiply == "pairs"

    @property
    def depth(self) -> Literal[1, 2]:
        """How many k one packed element covers."""
        return 2 if self.pairs else 1


def plan_of(host: Host, accumulator: DType, pairs: bool = False) -> Plan:
    """The plan of every product that no wider panels suit."""
    if pairs and accumulator != int32:
        raise ValueError(f"pairs are added in int32, not {accumulator}")
    size = accumulator.itemsize
    lanes = host.lanes(size)
    # Twice the registers, if they are short, make twice the width: loads of A are shared by more columns.
    vectors = 4 if host.registers > 16 and host.vector_bytes <= 16 else 2
    columns = lanes * vectors
    k_block = _multiple(host.l1 * 3 // 4 // (columns * size), 64, 64)
    m_block = _multiple(host.l2 // 2 // (k_block * size), ROWS * 4, ROWS * 4)
    n_block = _multiple(min(host.l3 // 8, 2 << 20) // (k_block * size), columns, columns * 4)
    return Plan(
        int16 if pairs else accumulator, accumulator, accumulator, lanes, vectors=vectors,
        multiply="pairs" if pairs else "single", k_block=k_block, m_block=m_block, n_block=n_block,
    )  # fmt: skip


def plans(host: Host, accumulator: DType, pairs: bool = False) -> tuple[Plan, ...]:
    """All plans that this machine has, the one with the narrowest panels first. Depth is cut alike in all of
    them, so sums have the same bits; a wide panel of such depth is read from the second cache.
    """
    plain = plan_of(host, accumulator, pairs)
    lanes = host.tile_lanes(plain.size) if is_float(accumulator) else plain.lanes
    if lanes == plain.lanes:
        return (plain,)
    columns = lanes * plain.vectors
    return plain, replace(plain, lanes=lanes, n_block=_multiple(plain.n_block, columns, columns * 4))


def plan_for(host: Host, accumulator: DType, columns: int | None, pairs: bool = False) -> Plan:
    """The plan of a product with so many columns; with a symbolic number of them, the plain one."""
    plain, *wide = plans(host, accumulator, pairs)
    return next((p for p in wide if columns is not None and is_filled(p, plain, columns)), plain)


def _multiple(number: int, of: int, least: int) -> int:
    return max(number // of * of, least)
