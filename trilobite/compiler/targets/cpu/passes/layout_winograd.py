"""Which 3x3 convolutions are quicker by tiles, estimated.

Enters: a `conv` or one of its gradients. Leaves: the tile, 0 for none. The figures are those of one core with
AVX2 and FMA; their ratios, which decide, change little from machine to machine. It knows nothing of accuracy:
who wants no algorithm but the plain one does not ask.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from trilobite.base.dtypes import float32
from trilobite.compiler.targets.cpu.primitives.conv_winograd import TRANSFORMS
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import Affine

_FLOPS = 88e9  # of products, a second
_POINTS = 6e9  # elements transformed a second, before and after the products
_WEIGHT = 10e9  # elements of a transformed weight made a second, for every block of tiles anew
_SUMS = 75e9  # flops of sums over pixels or tiles, a second
_WRITTEN = 10e9  # bytes of sums at all points written and read again a second
_CACHED = 1 << 20  # bytes of a weight that stay close to the core
_READ = 28e9  # bytes of a larger weight read a second
_BLOCK, _SHALLOW = 60, 64  # tiles of a block; channels up to which all blocks share a transformed weight
_WORTH = 0.85  # of the direct time, at most: less is not worth the error
_LEAST = 16  # channels and filters


def tile_of(e: Equation) -> int:
    """Outputs along one side of a tile that make it quickest; 0: direct."""
    if not _fits(e):
        return 0
    gradient = e.primitive.name == "conv_weight_grad"
    x, y = e.inputs[0].type, (e.inputs[1] if gradient else e.outputs[0]).type
    channels, filters = (int(t.shape[1]) for t in (x, y))
    batch, (height, width) = int(x.shape[0]), (int(n) for n in y.shape[2:])
    direct = 2.0 * batch * height * width * 9 * channels * filters / (_SUMS if gradient else _FLOPS)
    best, least = 0, _WORTH * direct
    for tile, transform in TRANSFORMS.items():
        tiles = batch * -(-height // tile) * -(-width // tile)
        points = len(transform.source) ** 2
        if gradient:
            found = _gradient_seconds(tiles, points, channels, filters)
        else:
            found = _seconds(tiles, points, channels, filters)
        if found < least:
            best, least = tile, found
    return best


def _gradient_seconds(tiles: int, points: int, channels: int, filters: int) -> float:
    sums = points * channels * filters
    moved = 8 * sums / _WRITTEN if 4 * sums > _CACHED else 0.0
    return 2.0 * tiles * sums / _SUMS + tiles * points * (channels + filters) / _POINTS + moved


def _seconds(tiles: int, points: int, channels: int, filters: int) -> float:
    weight = points * channels * filters
    blocks = 1 if channels <= _SHALLOW else -(-tiles // _BLOCK)
    found = 2.0 * tiles * weight / _FLOPS + tiles * points * (channels + filters) / _POINTS
    found += blocks * weight / _WEIGHT
    plain = 4 * 9 * channels * filters
    return found + plain / _READ if plain > _CACHED else found


def _fits(e: Equation) -> bool:
    a = e.attributes
    w = (e.outputs[0] if e.primitive.name == "conv_weight_grad" else e.inputs[1]).type
    ones = (1, 1)
    plain = w.ndim == 4 and w.shape[2:] == (3, 3) and a["groups"] == 1
    if not plain or any(a[k] != ones for k in ("stride", "x_dilation", "w_dilation")):
        return False
    if any(v.type.dtype != float32 for v in (*e.inputs, *e.outputs)) or min(w.shape[:2]) < _LEAST:
        return False
    known = not any(isinstance(n, Affine) for v in (*e.inputs, *e.outputs) for n in v.type.shape)
    return known and all(0 <= n <= 2 for n in (*a["low"], *a["high"]))


def tiled_attributes(e: Equation, tile: int) -> dict[str, Any]:
    """The attributes of `conv_winograd` for it; of an input gradient as a convolution of the errors."""
    a, y = e.attributes, e.outputs[0].type
    low, high, back = a["low"], a["high"], e.primitive.name == "conv_input_grad"
    if back:
        low = tuple(2 - n for n in low)
        pairs = zip(y.shape[2:], e.inputs[0].type.shape[2:], low, strict=True)
        high = tuple(out - n + 2 - lo for out, n, lo in pairs)
    found = {"tile": tile, "low": low, "high": high, "columns": y.shape[1]}
    return {**found, "transposed": back, "dtype": a["dtype"]}


def stable_values(graph: Graph, stable: Collection[int]) -> set[Var]:
    """Values that depend on stable inputs and constants alone."""
    found = {graph.inputs[i] for i in stable}
    for e in graph.equations:
        if not e.primitive.effect and all(v in found for v in e.inputs):
            found.update(e.outputs)
    return found
