"""The kernels around the products of a tiled 3x3 convolution of bytes: transforms of weight, source, result.

Enters: an epilogue, dtypes. Leaves: texts for every size. The products between them are those of `integer`
with a group for every point: V[point, tile, C] of 16-bit numbers to M[point, tile, K] of int32. A transform
is made of additions alone and stays in registers, a vector of channels at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trilobite.base.dtypes import DType, int16, int32, uint8
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.direct.panels import WeightWords
from trilobite.compiler.targets.cpu.contraction.gather import Gather
from trilobite.compiler.targets.cpu.contraction.integer.panels import Columns, header
from trilobite.compiler.targets.cpu.contraction.tiling import Tiling
from trilobite.compiler.targets.cpu.contraction.winograd.transforms import (
    SQUARE_AT,
    Results,
    ResultWords,
    SourceWords,
    Store,
)
from trilobite.compiler.targets.cpu.contraction.words import EpilogueWords, Form, W, Words, read
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.compiler.targets.cpu.primitives.conv_integer import HEADER
from trilobite.compiler.targets.cpu.primitives.conv_integer_tiles import WHOLE, Matrix
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value


def _total(t: Text, row: Sequence[int], values: Sequence[Value]) -> Value:
    """The sum of values times the numbers of a row, of which one is positive."""
    total: Value | None = None
    for number, value in sorted(zip(row, values, strict=True), key=lambda p: -p[0]):
        if number == 0:
            continue
        term = value if abs(number) == 1 else t.mul(value, abs(number))
        if total is None:
            total = term
        else:
            total = t.sub(total, term) if number < 0 else t.add(total, term)
    assert total is not None
    return total


def _applied(t: Text, factors: Sequence[Matrix], values: Sequence[Value]) -> list[Value]:
    found = list(values)
    for matrix in factors:
        found = [_total(t, row, found) for row in matrix]
    return found


class _Square:
    """M x M' of a square of vectors, for a matrix M in factors: columns first, through scratch, then rows."""

    def __init__(self, t: Text, factors: Sequence[Matrix], scratch: Value) -> None:
        self.t, self.factors, self.scratch = t, factors, scratch
        self.inner = len(factors[0][0])

    def emit(self, load: Callable[[int, int], Value], store: Store) -> None:
        t, inner = self.t, range(self.inner)
        for j in inner:
            for i, value in enumerate(_applied(t, self.factors, [load(i, j) for i in inner])):
                t.store_type(value, self._at(i, j), 32)
        vector = value.type
        for i in range(len(self.factors[-1])):
            line = [t.load_type(vector, self._at(i, j), 32) for j in inner]
            for j, value in enumerate(_applied(t, self.factors, line)):
                store(i, j, value)

    def _at(self, i: int, j: int) -> Value:
        return self.t.address(self.scratch, (i * self.inner + j) * self.t.host.vector_bytes)


def source_text(host: Host, tile: int, words: SourceWords[Form]) -> str:
    """V = B' x B for the tiles from word `tile` on; a unit is a tile. Scratch: places, then the square. There
    are channels enough for a vector; the last vector begins earlier, so that it is full.
    """
    t = Text(host)
    w: SourceWords[Value] = read(t, words)
    assert w.channels is not None
    channels, whole, lanes = w.channels, WHOLE[tile], source_lanes(host)
    gather, square = Gather(t, w, uint8), _Square(t, whole.source, t.address(t.scratch, SQUARE_AT))
    assert w.v is not None
    with t.loop(t.begin, t.end, name="tile") as unit:
        at = gather.coordinates(t.add(unit.index, w.tile), t.constant("i64", 0))
        gather.pixel(at, w.x, t.scratch)
        places = [t.load_type("ptr", t.address(t.scratch, 8 * i)) for i in range(whole.points)]
        apart = t.mul(t.mul(w.tiles, w.width), 2)
        row = t.address(w.v, t.mul(unit.index, w.width), int16)
        with t.loop(0, channels, lanes, name="channel") as c:
            channel = t.smin(c.index, t.sub(channels, lanes))
            target = t.address(row, channel, int16)

            def load(i: int, j: int, channel: Value = channel, places: list[Value] = places) -> Value:
                found = t.load(uint8, t.address(places[i * whole.side + j], channel), lanes)
                return t.convert("zext", found, "i16")

            def store(i: int, j: int, value: Value, target: Value = target, apart: Value = apart) -> None:
                t.store_type(value, t.address(target, t.mul(apart, i * whole.side + j)))

            square.emit(load, store)
    return t.module()


def source_lanes(host: Host) -> int:
    """Channels that are transformed at once, and the least there may be."""
    return host.vector_bytes // 2


@dataclass(frozen=True)
class ResultsWords(Words[W]):
    m: W
    epilogue: EpilogueWords[W]
    tiles: ResultWords[W]


def result_text(host: Host, tiling: Tiling, tile: int, epilogue: Epilogue, words: ResultsWords[Form]) -> str:
    """y = A' M A, less its factor, through the epilogue; a unit is a tile."""
    t = Text(host)
    w: ResultsWords[Value] = read(t, words)
    whole, results = WHOLE[tile], Results(t, w.tiles, tiling, tile, epilogue, w.epilogue)
    square = _Square(t, whole.result, t.address(t.scratch, SQUARE_AT))
    with t.loop(t.begin, t.end, name="tile") as unit:
        apart = t.mul(t.mul(w.tiles.tiles, w.tiles.width), tiling.size)
        row = t.address(w.m, t.mul(unit.index, w.tiles.width), int32)

        def sums(
            column: Value, count: Value | None, store: Store, row: Value = row, apart: Value = apart
        ) -> None:
            source = t.address(row, column, int32)

            def load(i: int, j: int) -> Value:
                return results.vectors.load(t.address(source, t.mul(apart, i * whole.side + j)), count)

            def smaller(i: int, j: int, value: Value) -> None:
                even = t.mul(value, whole.inverse) if whole.odd > 1 else value
                store(i, j, t.ashr(even, 2))

            square.emit(load, smaller)

        results.each(unit.index, sums)
    return t.module()


@dataclass(frozen=True)
class PointsWords(Words[W]):
    weight: WeightWords[W]
    zero: W
    size: W  # of a panel, in words


def points_text(host: Host, dtype: DType, tile: int, lanes: int, words: PointsWords[Form]) -> str:
    """U = G w G' in words; a unit is a panel."""
    t = Text(host)
    w: PointsWords[Value] = read(t, words)
    with t.when(t.icmp("eq", t.begin, 0)):
        header(t, w.weight.out, t.constant("i32", 2))
    first = t.address(w.weight.out, HEADER, int32)
    whole = WHOLE[tile]
    square, (middle, times) = _Square(t, (whole.weight,), t.scratch), whole.middle
    with (
        t.loop(t.begin, t.smin(t.end, w.weight.panels), name="panel") as panel,
        t.loop(0, lanes, name="lane") as lane,
    ):
        columns = Columns(t, w.weight, dtype, panel.index, lane.index, lanes)
        target = t.address(t.address(first, t.mul(panel.index, w.size), int32), lane.index, int32)
        apart = t.mul(w.weight.panels, w.size)

        def at(point: int, row: Value | int, target: Value = target, apart: Value = apart) -> Value:
            here = t.add(t.mul(apart, point), t.mul(row, lanes) if isinstance(row, Value) else row * lanes)
            return t.address(target, here, int32)

        with t.loop(0, w.weight.depth, 4, carried=[t.constant("<4 x i32>", 0)], name="channel") as channel:
            taps = [_four(t, columns.four(t.constant("i64", i), channel.index)) for i in range(9)]
            points: list[Value] = []
            square.emit(lambda i, j: taps[3 * i + j], lambda i, j, value: points.append(value))
            row = t.add(t.lshr(channel.index, 1), 1)
            for i, value in enumerate(points):
                both = t.define("<2 x i32>", f"bitcast {t.convert('trunc', value, 'i16').typed} to <2 x i32>")
                t.store_type(t.extract(both, 0), at(i, row))
                t.store_type(t.extract(both, 1), at(i, t.add(row, 1)))
            channel.next(t.add(channel.values[0], points[middle]))
        zero = t.mul(t.convert("trunc", w.zero, "i32"), -times)
        moved = t.mul(t.sum_lanes(channel.results[0]), zero)
        for i in range(whole.points):
            t.store_type(moved if i == middle else t.constant("i32", 0), at(i, 0))
    return t.module()


def _four(t: Text, values: list[Value]) -> Value:
    found = Value("poison", "<4 x i32>")
    for i, value in enumerate(values):
        found = t.insert(found, value, i)
    return found
