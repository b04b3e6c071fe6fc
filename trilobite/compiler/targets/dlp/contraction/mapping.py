"""A mapping: how a nest is cut into tiles, walked, kept on chip and divided among cores.

Enters: choices. Leaves: what follows from them: tiles along each dim, which operands are loaded when, how
many tiles of each lie on chip, and how many bytes that takes. A mapping is plain data, and `str` shows all
of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from trilobite.compiler.targets.dlp.contraction.nest import DIMS, Nest

ALIGN = 64
ONES = (1, 1, 1, 1, 1, 1)


@dataclass(frozen=True)
class Mapping:
    """`tiles` and parts stand in the order of DIMS. `order` names the loops over tiles, outermost first.

    An operand that is kept at level L stays while the loops from L inwards run: every tile of it that they
    visit has a place of its own on chip. Loads run `lead` steps ahead of the unit (0: single buffers). Of an
    operand that is shared, within clusters or across them, each core loads its part into SRAM, a step
    earlier; `left`, `right` or `left+right`.
    """

    tiles: tuple[int, ...]
    order: tuple[str, ...] = DIMS
    keep_left: int = len(DIMS)
    keep_right: int = len(DIMS)
    lead: int = 1
    clusters: tuple[int, ...] = ONES
    cores: tuple[int, ...] = ONES
    shared: str = ""  # operands that the cores of a cluster load once for all that need them alike
    across: str = ""  # operands that clusters load once for all that need them alike

    def tile(self, dim: str) -> int:
        return self.tiles[DIMS.index(dim)]

    def parts(self, dim: str) -> int:
        at = DIMS.index(dim)
        return self.clusters[at] * self.cores[at]

    def __str__(self) -> str:
        tiles = " ".join(f"{d}{t}" for d, t in zip(DIMS, self.tiles, strict=True))
        split = "".join(f" {d}/{self.parts(d)}" for d in DIMS if self.parts(d) > 1) or " none"
        split += f"; {self.shared} through SRAM" if self.shared else ""
        split += f"; {self.across} across clusters" if self.across else ""
        buffers = ("single", "double", "triple")[self.lead]
        return (
            f"tiles {tiles}; order {''.join(self.order)}; left kept at {self.keep_left}, right at "
            f"{self.keep_right}; {buffers} buffers; split{split}"
        )


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def aligned(count: int) -> int:
    return ceil_div(count, ALIGN) * ALIGN


def trips(nest: Nest, mapping: Mapping) -> dict[str, int]:
    """Tiles along each dim that one core visits at most."""
    return {d: ceil_div(ceil_div(nest.extents[d], mapping.tile(d)), mapping.parts(d)) for d in DIMS}


def fewest(nest: Nest, mapping: Mapping) -> dict[str, int]:
    """Tiles along each dim that a core with work visits at least: the last part may be shorter."""
    found = {}
    for dim, most in trips(nest, mapping).items():
        tiles = ceil_div(nest.extents[dim], mapping.tile(dim))
        found[dim] = tiles % most or most
    return found


def level_of(order: tuple[str, ...], own: tuple[str, ...], count: dict[str, int], wanted: int) -> int:
    """The outermost level that needs no more room than the wanted one: loops in between that the operand does
    not have, or that run once, cost nothing."""
    level = min(wanted, len(order))
    while level and (order[level - 1] not in own or count[order[level - 1]] == 1):
        level -= 1
    return level


@dataclass(frozen=True)
class Residence:
    """Where the tiles of an operand lie: `inside` are its dims within its level, each tile with a place of
    its own; `phases` copies of that take turns. It is loaded when all `zero` dims are at their first tile."""

    own: tuple[str, ...]
    level: int
    inside: tuple[str, ...]
    zero: tuple[str, ...]
    places: int
    phases: int

    @property
    def slots(self) -> int:
        return self.places * self.phases


def residence(
    own: tuple[str, ...],
    order: tuple[str, ...],
    count: dict[str, int],
    least: dict[str, int],
    wanted: int,
    depth: int,
) -> Residence:
    """`depth` tiles must be there at a time, the one in use and those that are on their way, also on the core
    that has the fewest."""
    level = level_of(order, own, count, wanted)
    inner = order[level:]
    inside = tuple(d for d in inner if d in own and count[d] > 1)
    zero = tuple(d for d in inner if d not in own and count[d] > 1)
    places = prod(count[d] for d in inside)
    sure = prod(least[d] for d in inside)
    return Residence(own, level, inside, zero, places, 1 if level == 0 else ceil_div(depth, sure))


def result_level(nest: Nest, mapping: Mapping, count: dict[str, int]) -> int:
    """The outermost loop that adds to sums: those inside it stay on chip until it ends."""
    found = [i for i, d in enumerate(mapping.order) if d in nest.reduced and count[d] > 1]
    level = min(found, default=len(DIMS))
    while level and count[mapping.order[level - 1]] == 1:
        level -= 1
    return level


def input_places(nest: Nest, tile_p: int, tile_q: int) -> tuple[int, int]:
    """Rows and columns of the image that a tile of p x q needs at most."""
    w = nest.window
    if nest.kind == "product":
        return tile_p, tile_q
    found = []
    for axis, tile in enumerate((tile_p, tile_q)):
        if nest.kind == "input_grad":
            most = (tile + w.reach(axis) - 2) // w.stride[axis] + 2
            found.append(min(w.out[axis], most))
        else:
            found.append(min(w.extent(axis), (tile - 1) * w.stride[axis] + w.reach(axis)))
    return found[0], found[1]


def tile_elements(nest: Nest, mapping: Mapping) -> dict[str, int]:
    """Elements of the largest tile of each operand."""
    g, _, p, q, n, k = (min(t, nest.extents[d]) for d, t in zip(DIMS, mapping.tiles, strict=True))
    rows, columns = input_places(nest, p, q)
    taps = nest.window.taps
    if nest.kind == "weight_grad":
        return {"left": p * q * g * n, "right": rows * columns * g * k, "out": g * n * taps * k}
    return {"left": rows * columns * g * k, "right": g * n * taps * k, "out": p * q * g * n}
