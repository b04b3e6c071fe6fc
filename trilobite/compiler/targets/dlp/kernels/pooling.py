"""Windows over planes with channels last: x[n, h, w, c] to out[n, p, q, c], by the unit's pooling row.

Enters: sizes, window, what is reduced. Leaves: a function of two pointers. A tile is some rows of windows and
some channels of one image; borders are filled in NRAM with what changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from trilobite.compiler.targets.dlp.interfaces import LoweredGroup
from trilobite.compiler.targets.dlp.kernels.reduce import neutral
from trilobite.compiler.targets.dlp.kernels.strided import Axis, strided_copy
from trilobite.compiler.targets.dlp.writer import GDRAM, Int, Writer, nram_room
from trilobite.processor.isa.formats import Format
from trilobite.processor.lang.ir import Constant, KernelModule
from trilobite.processor.machine import Machine


class Pooling(NamedTuple):
    images: int
    space: tuple[int, int]
    out: tuple[int, int]
    channels: int
    size: tuple[int, int]
    stride: tuple[int, int]
    low: tuple[int, int]
    high: tuple[int, int]
    fmt: Format
    kind: str  # max, min, sum

    @property
    def width(self) -> int:
        """Columns with their border."""
        return self.space[1] + self.low[1] + self.high[1]

    def rows(self, windows: int) -> int:
        """Rows that so many rows of windows see."""
        return (windows - 1) * self.stride[0] + self.size[0]

    def bytes(self, windows: int, channels: int) -> int:
        item = self.fmt.bits // 8
        seen = self.rows(windows) * (self.space[1] + self.width)
        return (seen + windows * self.out[1]) * channels * item


def tile_of(p: Pooling, machine: Machine, cores: int) -> tuple[int, int] | None:
    """Rows of windows and channels of a tile; None if not even one of each fits."""
    room = nram_room(machine) - 2048
    channels = min(p.channels, 512)
    while channels > 1 and p.bytes(1, channels) > room:
        channels = -(-channels // 2)
    if p.bytes(1, channels) > room:
        return None
    fitting = [w for w in range(1, p.out[0] + 1) if p.bytes(w, channels) <= room]
    return min(fitting, key=lambda w: (_turns(p, w, channels, cores) * p.bytes(w, channels), w)), channels


def _turns(p: Pooling, windows: int, channels: int, cores: int) -> int:
    """Tiles of the core that has most."""
    return -(-p.images * -(-p.channels // channels) * -(-p.out[0] // windows) // cores)


def write_pooling(module: KernelModule, name: str, p: Pooling, machine: Machine, cores: int) -> LoweredGroup:
    tile = tile_of(p, machine, cores)
    assert tile is not None
    windows, lanes = tile
    w = Writer(module, name, [GDRAM, GDRAM], machine, cores)
    down, across = -(-p.out[0] // windows), -(-p.channels // lanes)
    with w.shared_loop(p.images * down * across) as number:
        image, rest = w.div(number, down * across), w.rem(number, down * across)
        row, first = w.mul(w.div(rest, across), windows), w.mul(w.rem(rest, across), lanes)
        _tile(w, p, (image, row, first), tile)
    w.finish()
    return LoweredGroup(name, "vector", mapping=f"{windows} rows of windows, {lanes} channels at a time")


def _tile(w: Writer, p: Pooling, at: tuple[Int, Int, Int], tile: tuple[int, int]) -> None:
    image, row, first = at
    item, (h, width) = p.fmt.bits // 8, p.space
    windows, lanes = tile
    count = windows if p.out[0] % windows == 0 else w.least(windows, w.sub(p.out[0], row))
    c = lanes if p.channels % lanes == 0 else w.least(lanes, w.sub(p.channels, first))
    begin = w.sub(w.mul(row, p.stride[0]), p.low[0])
    end = w.add(begin, w.add(w.mul(w.sub(count, 1), p.stride[0]), p.size[0]))
    top, bottom = w.most(0, w.sub(0, begin)), w.most(0, w.sub(end, h))
    start = w.most(0, begin)
    seen = w.most(0, w.sub(w.least(end, h), start))
    x = w.buffer("x", p.rows(windows) * width * lanes * item)
    framed = w.buffer("framed", p.rows(windows) * p.width * lanes * item)
    out = w.buffer("out", windows * p.out[1] * lanes * item)
    source = w.at(w.params[0], _place(w, p, w.add(w.mul(image, h), start), width, first))
    strided_copy(w, x, source, [Axis(w.mul(seen, width), c, p.channels), Axis(c, 1, 1)], item)
    value = Constant(p.fmt, neutral(p.fmt, p.kind))
    border = (top, bottom, p.low[1], p.high[1])
    w.vector("VPAD", p.fmt, framed, x, seen, width, c, *border, value)
    rows = w.add(seen, w.add(top, bottom))
    window = (*p.size, *p.stride)
    w.vector("VPOOL", p.fmt, out, framed, rows, p.width, c, *window, flags=(p.kind,))
    goal = w.at(w.params[1], _place(w, p, w.add(w.mul(image, p.out[0]), row), p.out[1], first))
    strided_copy(w, goal, out, [Axis(w.mul(count, p.out[1]), p.channels, c), Axis(c, 1, 1)], item)


def _place(w: Writer, p: Pooling, row: Int, width: int, channel: Int) -> Int:
    """Bytes to a row of all images' rows, and a channel."""
    return w.mul(w.add(w.mul(row, width * p.channels), channel), p.fmt.bits // 8)
