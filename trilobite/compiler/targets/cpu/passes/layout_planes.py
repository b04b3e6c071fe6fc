"""An estimate of which convolutions are as fast with channels first, as written, as with channels last.

Enters: a `conv`. Leaves: whether the kernel that reads and writes planes (`conv_planes`) takes no longer than
moving the channels to the end, the direct kernel, and moving the result's channels back. Figures are cycles
of one core, fitted to the times of some forty shapes with vectors of 32 and of 64 bytes; their ratios, which
decide, change little from machine to machine. It knows nothing of tiles: who has them asks about these first.
"""

from __future__ import annotations

from math import prod

from trilobite.base.dtypes import float32, float64
from trilobite.compiler.targets.cpu.contraction.planes.tile import FILTERS, STRAIGHT, VECTORS, are_filled
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS
from trilobite.compiler.targets.cpu.contraction.tiling import VECTORS as COLUMNS
from trilobite.compiler.targets.cpu.passes.layout_axes import mixes_channels
from trilobite.ir.graph import Equation
from trilobite.ir.types import Affine
from trilobite.native.host import Host

_TILE = 6  # of a step of depth of a full register tile, in either kernel
_LAST = (0, 3, 4.5)  # of a tile of so many vectors of pixels
_ONE_VECTOR = 0.65  # of a full tile: what one of as many pixels costs whose filters fill one vector
_PACKED = 1 / 6  # of a pixel of a row of a panel, where it is packed
_COPIED = 0.7  # of an element copied between zeros
_MOVED = 0.5  # of an element that changes its place
_STARTED = 9000  # of the kernels more that copy and move
_GAIN = 0.75  # of the direct kernel's cycles: less is not worth what moving costs other kernels


def stays(e: Equation, host: Host) -> bool:
    """Does it run as quickly between values as they are written? Of what the kernel of planes cannot run,
    products with channels do.
    """
    return on_planes(e, host) if fits(e, host) else mixes_channels(e)


def on_planes(e: Equation, host: Host) -> bool:
    """Of a convolution that fits, between values as they are written: is it as quick there?"""
    planes, direct, moved = cycles(e, host)
    return planes <= direct + moved


def is_worth_moving(e: Equation, host: Host) -> bool:
    """Of a convolution that fits, between values with their channels last: is it quicker there by more than
    moving its channels to the front and back? Few filters leave most lanes of the direct kernel empty.
    """
    planes, direct, moved = cycles(e, host)
    return planes + moved <= _GAIN * direct


def cycles(e: Equation, host: Host) -> tuple[float, float, float]:
    """Of the kernel of planes, of the direct one, and of moving channels of source and result."""
    (x, w), (y,) = (v.type.shape for v in e.inputs), (e.outputs[0].type.shape,)
    channels, filters, pixels = int(x[1]), int(w[0]), prod(map(int, y[2:]))
    size, depth = e.inputs[0].type.dtype.itemsize, channels * prod(map(int, w[2:]))
    source = channels * prod(map(int, x[2:]))
    moved = _MOVED * (source + filters * pixels) + _STARTED
    direct = _TILE * -(-pixels // ROWS) * _panels(filters, host.tile_lanes(size)) * depth
    wide = are_filled(host.tile_lanes(size), [int(n) for n in y[2:]])
    lanes = host.tile_lanes(size) if wide else host.lanes(size)
    panel = VECTORS * lanes
    panels, rest = divmod(-(-pixels // lanes), VECTORS)
    packed = 1.0  # of all panels: those of few filters only where they go on in another line
    if filters <= STRAIGHT * FILTERS:
        packed = 0.0 if mixes_channels(e) else min(1.0, panel / int(y[-1]))
    steps = -(-filters // FILTERS) * (_TILE * panels + _LAST[rest])
    steps += _PACKED * packed * panel * -(-pixels // panel)
    return steps * depth + (0 if mixes_channels(e) else _COPIED * source), direct, moved


def _panels(filters: int, lanes: int) -> float:
    """Panels of two vectors of filters; where the last has one vector, twice as many pixels make a tile."""
    full, rest = divmod(filters, COLUMNS * lanes)
    return full + (1 if rest > lanes else _ONE_VECTOR if rest else 0)


def fits(e: Equation, host: Host) -> bool:
    """Can the kernel run it?"""
    if e.primitive.name != "conv":
        return False
    a, (x, w), (y,) = e.attributes, e.inputs, e.outputs
    if a["groups"] != 1 or any(d != 1 for d in a["x_dilation"]):
        return False
    if x.type.dtype not in (float32, float64) or any(v.type.dtype != x.type.dtype for v in (w, y)):
        return False
    if any(isinstance(n, Affine) for n in (*x.type.shape[1:], *w.type.shape, *y.type.shape[1:])):
        return False
    return mixes_channels(e) or int(y.type.shape[-1]) >= host.lanes(x.type.dtype.itemsize)
