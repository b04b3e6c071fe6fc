"""Windows over planes with channels last: x[n, h, w, c] to out[n, p, q, c], by the unit's pooling row.

Enters: sizes, window, what is reduced, and where on chip x and out are at home, if they are. Leaves: a
function of two pointers. A tile is some rows of windows and some channels of one image; it is loaded into a
frame whose border is filled with what changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from trilobite.compiler.targets.dlp.interfaces import Home, LoweredGroup
from trilobite.compiler.targets.dlp.kernels.reduce import neutral
from trilobite.compiler.targets.dlp.kernels.strided import Axis, strided_copy
from trilobite.compiler.targets.dlp.writer import GDRAM, Int, Writer, nram_room
from trilobite.processor.isa.address import CLUSTER_SHIFT
from trilobite.processor.isa.formats import Format
from trilobite.processor.lang.ir import Constant, KernelModule, Value
from trilobite.processor.lang.types import Pointer
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
        seen = self.rows(windows) * self.width + max(self.low[1], self.high[1])
        return (seen + windows * self.out[1]) * channels * item

    @property
    def row(self) -> int:
        """Bytes of a row of x."""
        return self.space[1] * self.channels * (self.fmt.bits // 8)

    @property
    def row_out(self) -> int:
        return self.out[1] * self.channels * (self.fmt.bits // 8)


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


def can_stay(p: Pooling, machine: Machine, cores: int) -> bool:
    """Can x and out lie on chip, cut along their rows? Tiles are whole rows then."""
    tile = tile_of(p, machine, cores)
    return p.images == 1 and tile is not None and tile[1] == p.channels


def write_pooling(
    module: KernelModule, name: str, p: Pooling, machine: Machine, cores: int,
    homes: tuple[Home | None, Home | None] = (None, None),
) -> LoweredGroup:  # fmt: skip
    """`homes`: of x and of out."""
    tile = tile_of(p, machine, cores)
    assert tile is not None
    windows, lanes = tile
    kinds = [GDRAM if home is None else Pointer(home.space) for home in homes]
    w = Writer(module, name, kinds, machine, cores)
    down, across = -(-p.out[0] // windows), -(-p.channels // lanes)
    with w.shared_loop(p.images * down * across) as number:
        image, rest = w.div(number, down * across), w.rem(number, down * across)
        row, first = w.mul(w.div(rest, across), windows), w.mul(w.rem(rest, across), lanes)
        _Tile(w, p, (image, row, first), tile, homes).write()
    w.finish()
    return LoweredGroup(name, "vector", mapping=f"{windows} rows of windows, {lanes} channels at a time")


class _Tile:
    """Windows from a row on, channels from one on, of an image."""

    def __init__(
        self, w: Writer, p: Pooling, at: tuple[Int, Int, Int], tile: tuple[int, int],
        homes: tuple[Home | None, Home | None],
    ) -> None:  # fmt: skip
        self.w, self.p, self.homes = w, p, homes
        self.image, self.row, self.first = at
        self.item, h = p.fmt.bits // 8, p.space[0]
        windows, lanes = tile
        self.count = windows if p.out[0] % windows == 0 else w.least(windows, w.sub(p.out[0], self.row))
        self.c = lanes if p.channels % lanes == 0 else w.least(lanes, w.sub(p.channels, self.first))
        begin = w.sub(w.mul(self.row, p.stride[0]), p.low[0])
        end = w.add(begin, w.add(w.mul(w.sub(self.count, 1), p.stride[0]), p.size[0]))
        self.top, self.bottom = w.most(0, w.sub(0, begin)), w.most(0, w.sub(end, h))
        self.start = w.most(0, begin)
        self.seen = w.most(0, w.sub(w.least(end, h), self.start))
        self.framed = w.buffer("framed", p.rows(windows) * p.width * lanes * self.item)
        self.out = w.buffer("out", windows * p.out[1] * lanes * self.item)
        self.edge = w.buffer("edge", max(p.low[1], p.high[1]) * lanes * self.item)

    def write(self) -> None:
        w, p = self.w, self.p
        rows = w.add(self.seen, w.add(self.top, self.bottom))
        self._border(rows)
        self._load()
        window = (*p.size, *p.stride)
        w.vector("VPOOL", p.fmt, self.out, self.framed, rows, p.width, self.c, *window, flags=(p.kind,))
        self._store()

    def _bytes(self, places: Int) -> Int:
        """Of places with this tile's channels."""
        return self.w.mul(self.w.mul(places, self.c), self.item)

    def _border(self, rows: Int) -> None:
        w, p, value = self.w, self.p, Constant(self.p.fmt, neutral(self.p.fmt, self.p.kind))
        for count, first in ((self.top, 0), (self.bottom, w.add(self.top, self.seen))):
            with w.when(w.compare("gt", count, 0)):
                there = w.at(self.framed, self._bytes(w.mul(first, p.width)))
                w.vector("VSET", p.fmt, there, w.mul(w.mul(count, p.width), self.c), value)
        widest = max(p.low[1], p.high[1])
        if widest:
            w.vector("VSET", p.fmt, self.edge, w.mul(widest, self.c), value)
        for count, first in ((p.low[1], 0), (p.high[1], p.width - p.high[1])):
            if count:
                there = w.at(self.framed, self._bytes(first))
                w.copy2(there, self.edge, self._bytes(count), self._bytes(p.width), 0, rows)

    def _load(self) -> None:
        w, p = self.w, self.p
        inside = w.at(self.framed, self._bytes(w.add(w.mul(self.top, p.width), p.low[1])))
        if self.homes[0] is not None:
            self._copy_rows(
                self.homes[0], inside, self._bytes(p.width), p.row, (self.start, self.seen), False
            )
            return
        source = w.at(w.params[0], self._place(w.add(w.mul(self.image, p.space[0]), self.start), p.space[1]))
        axes = [Axis(self.seen, w.mul(p.width, self.c), p.space[1] * p.channels),
                Axis(p.space[1], self.c, p.channels), Axis(self.c, 1, 1)]  # fmt: skip
        if p.width == p.space[1]:
            axes = [Axis(w.mul(self.seen, p.width), self.c, p.channels), axes[-1]]
        elif self.c == p.channels:
            axes = [axes[0], Axis(p.space[1] * p.channels, 1, 1)]
        strided_copy(w, inside, source, axes, self.item)

    def _store(self) -> None:
        w, p = self.w, self.p
        if self.homes[1] is not None:
            self._copy_rows(self.homes[1], self.out, p.row_out, p.row_out, (self.row, self.count), True)
            return
        goal = w.at(w.params[1], self._place(w.add(w.mul(self.image, p.out[0]), self.row), p.out[1]))
        axes = [Axis(w.mul(self.count, p.out[1]), p.channels, self.c), Axis(self.c, 1, 1)]
        strided_copy(w, goal, self.out, axes, self.item)

    def _copy_rows(
        self, home: Home, near: Value, pitch: Int, row: int, rows: tuple[Int, Int], is_store: bool
    ) -> None:
        """Rows of `row` bytes, the first of them and how many, from or to each cluster that has some; on this
        side they are `pitch` bytes apart."""
        w, (first, count) = self.w, rows
        pointer = w.params[1 if is_store else 0]
        each = home.part // row if home.clusters > 1 else 0
        for h in range(home.clusters):
            low = w.most(first, h * each) if h else first
            end = w.add(first, count)
            some = w.sub(w.least(end, (h + 1) * each) if h + 1 < home.clusters else end, low)
            shift = ((h + 1) << CLUSTER_SHIFT) - h * home.part if home.clusters > 1 else 0
            far = w.at(pointer, w.add(w.mul(low, row), shift))
            here = w.at(near, w.mul(w.sub(low, first), pitch))
            with w.when(w.compare("gt", some, 0)):
                if is_store:
                    w.copy2(far, here, row, row, pitch, some)
                else:
                    w.copy2(here, far, row, pitch, row, some)

    def _place(self, row: Int, width: int) -> Int:
        """Bytes to a row of all images' rows, and this tile's first channel."""
        w, p = self.w, self.p
        return w.mul(w.add(w.mul(row, width * p.channels), self.first), self.item)
