"""What follows the sums of a tile, as far as its cost is concerned: plain data for the cost model."""

from __future__ import annotations

from dataclasses import dataclass

from trilobite.compiler.targets.dlp.contraction.nest import Filter, View


@dataclass(frozen=True)
class Extra:
    """An operand or a result of the epilogue: where it lies; whether vector instructions read it
    behind whole sums, and behind those that came in parts."""

    view: View | Filter
    is_result: bool
    is_vector: bool
    is_read: tuple[bool, bool] = (True, True)
    is_scalar: bool = False


@dataclass(frozen=True)
class Behind:
    """Vector instructions behind the sums: bytes of an element that pass the lanes, how many instructions,
    bytes of an element of scratch memory, and of operands that are repeated for every place."""

    lanes: int = 0
    instructions: int = 0
    scratch: float = 0
    spread: int = 0


@dataclass(frozen=True)
class Beside:
    """What neighbours leave to a group, and want of it: cycles in which DRAM, and the bus of a cluster,
    prefetch its right operand before it begins; cycles of DRAM for what the next group needs."""

    dram: int = 0
    bus: int = 0
    later: int = 0
    price: int = 0  # eighths of a cycle that one of DRAM costs the groups around this one


@dataclass(frozen=True)
class Shape:
    """What the cost depends on beside the nest: bytes of an element of the sums and of the results, whether
    nothing follows the sums, the vector instructions that follow whole sums and those that follow sums which
    came in parts, and extra tensors. `parts_wide`: sums in parts leave the unit in the accumulator's format
    whatever the drain does to whole ones. `narrowed`: whether whole sums, and those in parts, are written
    again in the problem's own format before the rest."""

    sums: int
    results: tuple[int, ...]
    is_direct: bool
    behind: Behind = Behind()
    behind_parts: Behind = Behind()
    extras: tuple[Extra, ...] = ()
    parts_wide: bool = True
    narrowed: tuple[bool, bool] = (False, False)
    beside: Beside = Beside()
