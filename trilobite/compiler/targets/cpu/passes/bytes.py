"""Which products and convolutions multiply bytes, and what they read: the same for layout and packing.

Enters: types and attributes. Leaves: decisions. Sums of products of 8-bit integers wrap around in 32 bits,
so results of 32 bits and less are exact; wider ones where no sum can leave 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

from trilobite.base.dtypes import DType, bits, int8, int32, is_integer, uint8
from trilobite.compiler.targets.cpu.contraction.multiply import neighbours_limit
from trilobite.compiler.targets.cpu.contraction.tiling import Tiling, is_filled
from trilobite.compiler.targets.cpu.primitives.conv_integer import ANY_BYTES, IN_16_BITS
from trilobite.compiler.targets.cpu.primitives.conv_integer_tiles import WHOLE, fits
from trilobite.ir.graph import Equation, Var
from trilobite.ir.types import Affine, Dim
from trilobite.native.host import Host

BYTES = (int8, uint8)
_BEFORE, _AFTER = 12e9, 8e9  # elements of tiles transformed a second, before and after the products
_CACHED = 1 << 20  # bytes of a weight that stay close to the core
_LEAST = 16  # channels and filters: those that are transformed at once
Emit = Callable[[str, tuple[Var, ...], Mapping[str, Any]], Var]


def exact(terms: Dim, dtype: DType) -> bool:
    """Are sums of so many products right in this dtype if they are kept in 32 bits?"""
    if not is_integer(dtype) or not isinstance(terms, int):
        return False
    return bits(dtype) <= 32 or terms * 255 * 255 < 1 << 31


def is_integer_convolution(e: Equation) -> bool:
    """A convolution of bytes that has a kernel: no spread input, more than one filter a channel."""
    x, w = (v.type for v in e.inputs)
    if e.primitive.name != "conv" or x.dtype not in BYTES:
        return False
    known = all(isinstance(n, int) and n > 0 for n in (*x.shape[1:], *w.shape))
    a = e.attributes
    channelwise = a["groups"] > 1 and w.shape[0] == a["groups"] and w.shape[1] == 1
    if not known or channelwise or any(d != 1 for d in a["x_dilation"]):
        return False
    return exact(prod(int(n) for n in w.shape[1:]), a["dtype"])


class Padding(NamedTuple):
    """Numbers of one value around a convolution's images."""

    source: Var
    low: tuple[int, ...]
    high: tuple[int, ...]
    value: int

    def attributes(self, zero: int) -> dict[str, Any]:
        """Of a convolution of numbers to which `zero` is added."""
        return {"low": self.low, "high": self.high, "outside": self.value + zero}


def padding(e: Equation, makers: Mapping[Var, Equation]) -> Padding | None:
    """What is written before a convolution of bytes that pads nothing itself, as padding of its own."""
    a, pad = e.attributes, makers.get(e.inputs[0])
    if pad is None or pad.primitive.name != "pad" or any(a["low"]) or any(a["high"]):
        return None
    low, high, between = (tuple(pad.attributes[k]) for k in ("low", "high", "between"))
    if any((*low[:2], *high[:2], *between)) or min((*low, *high)) < 0 or any(d != 1 for d in a["x_dilation"]):
        return None
    return Padding(pad.inputs[0], low[2:], high[2:], int(pad.attributes["value"]))


def zero_of(dtype: DType) -> int:
    """What is added to make unsigned bytes of these."""
    return 128 if dtype == int8 else 0


def moved(emit: Emit, x: Var) -> Var:
    """Unsigned bytes, by adding `zero_of`: in bytes that wrap around, the highest bit the other way round."""
    if x.type.dtype == uint8:
        return x
    cast = emit("cast", (x,), {"dtype": uint8})
    high = emit("full", (), {"shape": x.type.shape, "dtype": uint8, "value": 128})
    return emit("xor", (cast, high), {})


def panel_lanes(host: Host, columns: int) -> int:
    """Columns of a panel: of wider vectors where the machine has such, and columns of a group fill them."""
    plain, wide = (Tiling(int32, int32, int32, lanes) for lanes in (host.lanes(4), host.tile_lanes(4)))
    return (wide if is_filled(wide, plain, columns) else plain).columns


def panel_attributes(
    host: Host, x: DType, columns: int, groups: int = 1, *, transposed: bool = False
) -> dict[str, Any]:
    """Of `conv_integer_panels`, for activations that were `x` and so many columns a group."""
    return {
        "groups": groups, "lanes": panel_lanes(host, columns), "zero": zero_of(x),
        "limit": neighbours_limit(host), "transposed": transposed,
    }  # fmt: skip


def conv_attributes(panels: Mapping[str, Any], columns: int, kernel: tuple[Any, ...]) -> dict[str, Any]:
    """Of `conv_integer`, for a weight in these panels."""
    same = {k: panels[k] for k in ("groups", "lanes", "zero")}
    return {**same, "columns": columns, "kernel": tuple(int(n) for n in kernel)}


# -- which form --------------------------------------------------------------------------------------------


class Rates(NamedTuple):
    """Operations a second of direct convolutions and of products at the points of tiles, whose weights are
    larger; bytes a second of weights that do not stay close. Measured on one core; their ratios decide.
    """

    direct: float
    products: float
    read: float


_RATES = {
    0: Rates(150e9, 150e9, 28e9),  # Zen 3, two products an instruction
    IN_16_BITS: Rates(185e9, 150e9, 28e9),  # Zen 3
    ANY_BYTES: Rates(950e9, 520e9, 120e9),  # Zen 5, VNNI in 64 bytes
}
"""By `neighbours_limit`."""


class IntegerForm(NamedTuple):
    """How a convolution of bytes runs: the primitives for its weight and for itself."""

    packer: str
    packing: dict[str, Any]
    name: str
    attributes: dict[str, Any]
    tile: int = 0


def integer_form(host: Host, e: Equation, stable: bool, around: Padding | None = None) -> IntegerForm:
    """By tiles where that is quicker for a weight that stays between runs, else direct. `around`: what was
    written before it, in place of its own padding.
    """
    (x, w), a = (v.type for v in e.inputs), dict(e.attributes)
    kept = a["dtype"] if bits(a["dtype"]) <= 32 else int32
    how = panel_attributes(host, x.dtype, int(w.shape[0]) // a["groups"], a["groups"])
    padded = {} if around is None else around.attributes(how["zero"])
    if stable and (tile := _tile(host, e)):
        packing = {"tile": tile, **{k: how[k] for k in ("lanes", "zero")}}
        tiled = {**packing, "columns": int(w.shape[0]), "low": a["low"], "high": a["high"], "dtype": kept}
        return IntegerForm("conv_integer_points", packing, "conv_integer_tiles", tiled | padded, tile)
    a |= padded | {**conv_attributes(how, int(w.shape[0]) // a["groups"], w.shape[2:]), "dtype": kept}
    return IntegerForm("conv_integer_panels", how, "conv_integer", a)


def _tile(host: Host, e: Equation) -> int:
    """Outputs along one side of a tile that make it quickest; 0: direct."""
    (x, w), y, a = (v.type for v in e.inputs), e.outputs[0].type, e.attributes
    plain = w.ndim == 4 and w.shape[2:] == (3, 3) and a["groups"] == 1
    if not plain or any(a[k] != (1, 1) for k in ("stride", "w_dilation")) or isinstance(x.shape[0], Affine):
        return 0
    filters, depth = (int(n) for n in w.shape[:2])
    if min(filters, depth) < _LEAST or not fits(depth, x.dtype, w.dtype):
        return 0
    batch, height, width = int(x.shape[0]), *(int(n) for n in y.shape[2:])
    rates = _RATES[neighbours_limit(host)]
    best, least = 0, 2.0 * batch * height * width * 9 * depth * filters / rates.direct
    for tile, whole in WHOLE.items():
        tiles = batch * -(-height // tile) * -(-width // tile)
        found = _seconds(rates, tiles, whole.points, depth, filters)
        if found < least:
            best, least = tile, found
    return best


def _seconds(rates: Rates, tiles: int, points: int, depth: int, filters: int) -> float:
    weight = points * filters * depth
    found = 2.0 * tiles * weight / rates.products + tiles * points * (depth / _BEFORE + filters / _AFTER)
    return found + 2 * weight / rates.read if 2 * weight > _CACHED else found
