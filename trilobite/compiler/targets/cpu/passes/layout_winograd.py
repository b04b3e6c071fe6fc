"""An estimate of which convolutions are faster by Winograd's tiles than directly.

Enters: a `conv`, or of a 3x3 kernel one of its gradients. Leaves: the tile, 0 for none; for larger kernels
also the source and the weight in the form that `conv_winograd` takes. The figures are those of one core with
AVX2 and FMA; their ratios, which decide, change little from machine to machine. It knows nothing of accuracy:
who wants no algorithm but the plain one does not ask.
"""

from __future__ import annotations

from math import prod
from typing import Any

from trilobite.base.dtypes import float32
from trilobite.compiler.targets.cpu.passes.bytes import Emit
from trilobite.compiler.targets.cpu.primitives.conv_winograd import TRANSFORMS, whole_extent
from trilobite.ir.graph import Equation, Var
from trilobite.ir.types import Affine, Shape

_FLOPS = 88e9  # of products, a second
_POINTS = 6e9  # elements transformed a second, before and after the products
_WEIGHT = 10e9  # elements of a transformed weight made a second, for every block of tiles anew
_SUMS = 75e9  # flops of sums over pixels or tiles, a second
_WRITTEN = 10e9  # bytes of sums at all points written and read again a second
_CACHED = 1 << 20  # bytes of a weight that stay close to the core
_READ = 28e9  # bytes of a larger weight read a second
_BLOCK, _SHALLOW = 60, 64  # tiles of a block; channels up to which all blocks share a transformed weight
_WORTH = 0.85  # of the direct time, at most: less is not worth the error
_LARGE_WORTH = 0.65  # of larger kernels: their channels are gathered from several lines
_PANEL = 32  # filters for which they are computed, whatever there are
_LEAST = 16  # channels and filters


def tile_of(e: Equation) -> int:
    """Outputs along one side of a tile that make it quickest; 0: direct."""
    if not _fits(e):
        return 0
    gradient = e.primitive.name == "conv_weight_grad"
    x, y = e.inputs[0].type, (e.inputs[1] if gradient else e.outputs[0]).type
    channels, filters = (int(t.shape[1]) for t in (x, y))
    batch, (height, width) = int(x.shape[0]), (int(n) for n in y.shape[2:])
    taps = prod(map(int, kernel_of(e)))
    direct = 2.0 * batch * height * width * taps * channels * filters / (_SUMS if gradient else _FLOPS)
    down, across = factor_of(e)
    best, least = 0, _WORTH * direct
    if down * across > 1:
        channels, filters = channels * down * across, -(-filters // _PANEL) * _PANEL
        least = _LARGE_WORTH * direct
    for tile, transform in TRANSFORMS.items():
        tiles = batch * down * across * -(-height // (down * tile)) * -(-width // (across * tile))
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


def kernel_of(e: Equation) -> Shape:
    w = (e.outputs[0] if e.primitive.name == "conv_weight_grad" else e.inputs[1]).type
    return w.shape[2:]


def factor_of(e: Equation) -> tuple[int, int]:
    """The sides of the squares of taps of which a kernel has 3x3."""
    down, across = (-(-int(n) // 3) for n in kernel_of(e))
    return down, across


def _fits(e: Equation) -> bool:
    a, kernel = e.attributes, kernel_of(e)
    if any(isinstance(n, Affine) for v in (*e.inputs, *e.outputs) for n in v.type.shape):
        return False
    if len(kernel) != 2 or a["groups"] != 1 or not e.outputs[0].type.size:
        return False
    if any(a[k] != (1, 1) for k in ("stride", "x_dilation", "w_dilation")):
        return False
    if any(v.type.dtype != float32 for v in (*e.inputs, *e.outputs)):
        return False
    w = (e.outputs[0] if e.primitive.name == "conv_weight_grad" else e.inputs[1]).type
    factor, around = factor_of(e), (*a["low"], *a["high"])
    if min(int(w.shape[0]), int(w.shape[1]) * prod(factor)) < _LEAST:
        return False
    if factor == (1, 1):
        return kernel == (3, 3) and all(0 <= n <= 2 for n in around)
    return e.primitive.name == "conv" and min(map(int, kernel)) > 3 and min(around) >= 0


def tiled_attributes(e: Equation, tile: int) -> dict[str, Any]:
    """The attributes of `conv_winograd` for it; of an input gradient as a convolution of the errors."""
    a, y = e.attributes, e.outputs[0].type
    low, high, back = a["low"], a["high"], e.primitive.name == "conv_input_grad"
    if back:
        low = tuple(2 - n for n in low)
        pairs = zip(y.shape[2:], e.inputs[0].type.shape[2:], low, strict=True)
        high = tuple(out - n + 2 - lo for out, n, lo in pairs)
    found = {"tile": tile, "factor": (1, 1), "low": low, "high": high, "columns": y.shape[1]}
    return {**found, "transposed": back, "dtype": a["dtype"]}


def whole_source(emit: Emit, e: Equation, x: Var, tile: int) -> tuple[Var, dict[str, Any]]:
    """Of a kernel of squares of taps: the source, channels last, with what whole tiles read around it; and
    the attributes of `conv_winograd`.
    """
    a, y, factor = e.attributes, e.outputs[0].type, factor_of(e)
    out = tuple(int(n) for n in y.shape[2:])
    whole = [whole_extent(n, tile, f) for n, f in zip(out, factor, strict=True)]
    low = (0, *a["low"], 0)
    behind = (n - int(m) - lo for n, m, lo in zip(whole, x.type.shape[1:3], a["low"], strict=True))
    padded = emit("pad", (x,), {"low": low, "high": (0, *behind, 0), "between": (0,) * 4, "value": 0.0})
    high = tuple(n + 3 * f - 1 - m for n, f, m in zip(out, factor, whole, strict=True))
    return padded, {**tiled_attributes(e, tile), "factor": factor, "low": (0, 0), "high": high}


def squares_of_taps(emit: Emit, w: Var, factor: tuple[int, int]) -> Var:
    """A weight [K, C, *kernel] as [K, f·f·C, 3, 3]."""
    (filters, channels, *kernel), (down, across) = w.type.shape, factor
    behind = tuple(3 * f - int(n) for n, f in zip(kernel, factor, strict=True))
    if any(behind):
        none = (0,) * 4
        w = emit("pad", (w,), {"low": none, "high": (0, 0, *behind), "between": none, "value": 0.0})
    split = emit("reshape", (w,), {"shape": (filters, channels, 3, down, 3, across)})
    moved = emit("transpose", (split,), {"axes": (0, 3, 5, 1, 2, 4)})
    return emit("reshape", (moved,), {"shape": (filters, channels * down * across, 3, 3)})
