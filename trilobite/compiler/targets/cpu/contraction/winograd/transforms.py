"""The transforms of a tiled 3x3 convolution, and the kernels that do nothing else.

Enters: dtypes, the tile, an epilogue. Leaves: texts for every size. What multiplies the points stands in
`winograd_product`. A transform of a tile is two rounds of sums, down the columns and then along the rows, a
vector of channels at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.finish import Finish
from trilobite.compiler.targets.cpu.contraction.gather import Gather
from trilobite.compiler.targets.cpu.contraction.runs import Vectors
from trilobite.compiler.targets.cpu.contraction.tiling import Tiling
from trilobite.compiler.targets.cpu.contraction.words import (
    AxisWords,
    EpilogueWords,
    Form,
    TapWords,
    W,
    Words,
    read,
)
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.compiler.targets.cpu.primitives.conv_winograd import TRANSFORMS
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value

Matrix = Sequence[Sequence[float]]
Store = Callable[[int, int, Value], None]


def combined(t: Text, row: Sequence[float], values: Sequence[Value]) -> Value:
    """The sum of values times the numbers of a row; some number is not zero."""
    total: Value | None = None
    for number, value in sorted(zip(row, values, strict=True), key=lambda p: abs(p[0]) != 1):
        if number == 0:
            continue
        if total is None:
            total = value if number == 1 else t.fneg(value) if number == -1 else t.fmul(value, number)
        elif abs(number) == 1:
            total = t.fadd(total, value) if number == 1 else t.fsub(total, value)
        else:
            total = t.fma(value, t.constant(value.type, number), total)
    assert total is not None
    return total


def groups(matrix: Matrix) -> list[tuple[int, ...]]:
    """The rows of a matrix, two that differ in some signs alone together."""
    found: list[tuple[int, ...]] = []
    for i, row in enumerate(matrix):
        if not any(i in g for g in found):
            others = [k for k in range(i + 1, len(matrix)) if _mirrored(row, matrix[k])]
            found.append((i, *others[:1]))
    return found


def product(t: Text, rows: Matrix, values: Sequence[Value]) -> list[Value]:
    """One row of numbers times values, or two of a group: what they have in common is computed once."""
    if len(rows) == 1:
        return [combined(t, rows[0], values)]
    return list(_pair(t, rows[0], rows[1], values))


def _mirrored(a: Sequence[float], b: Sequence[float]) -> bool:
    """Are some numbers the same, the others of opposite sign?"""
    kinds = {x == y for x, y in zip(a, b, strict=True) if x or y}
    return len(kinds) == 2 and all(abs(x) == abs(y) for x, y in zip(a, b, strict=True))


def _pair(t: Text, a: Sequence[float], b: Sequence[float], values: Sequence[Value]) -> tuple[Value, Value]:
    even = combined(t, [x if x == y else 0 for x, y in zip(a, b, strict=True)], values)
    odd = [(x, v) for x, y, v in zip(a, b, values, strict=True) if x != y]
    if len(odd) == 1 and abs(odd[0][0]) != 1:
        ((number, value),) = odd
        plus, minus = (t.fma(value, t.constant(value.type, n), even) for n in (number, -number))
        return plus, minus
    rest = combined(t, [x for x, _ in odd], [v for _, v in odd])
    return t.fadd(even, rest), t.fsub(even, rest)


class Square:
    """M x M' of a square of vectors, for a matrix M: columns first, then rows. What lies between stays in
    scratch; or in registers, if a few rows of it at a time are made from vectors that are loaded again.
    """

    def __init__(self, t: Text, tiling: Tiling, matrix: Matrix, scratch: Value | None = None) -> None:
        self.t, self.tiling, self.matrix, self.scratch = t, tiling, matrix, scratch
        self.inner, self.groups = len(matrix[0]), groups(matrix)

    def emit(self, load: Callable[[int, int], Value], store: Store) -> None:
        if self.scratch is None:
            for group in self.groups:
                columns = [
                    self._part(group, [load(i, j) for i in range(self.inner)]) for j in range(self.inner)
                ]
                for n, i in enumerate(group):
                    self._row(i, [c[n] for c in columns], store)
            return
        for j in range(self.inner):
            column = [load(i, j) for i in range(self.inner)]
            for group in self.groups:
                for i, value in zip(group, self._part(group, column), strict=True):
                    self.t.store_type(value, self._at(i, j), 32)
        for i in range(len(self.matrix)):
            line = [self.t.load_type(self.tiling.vector, self._at(i, j), 32) for j in range(self.inner)]
            self._row(i, line, store)

    def _part(self, group: tuple[int, ...], values: Sequence[Value]) -> list[Value]:
        return product(self.t, [self.matrix[i] for i in group], values)

    def _row(self, i: int, line: Sequence[Value], store: Store) -> None:
        for group in self.groups:
            for j, value in zip(group, self._part(group, line), strict=True):
                store(i, j, value)

    def _at(self, i: int, j: int) -> Value:
        assert self.scratch is not None
        return self.t.address(self.scratch, (i * self.inner + j) * self.tiling.lanes * self.tiling.size)


@dataclass(frozen=True)
class LineWords(Words[W]):
    """Channels in several lines of the source: those of a line, how many lines, elements apart."""

    width: W
    count: W
    apart: W


@dataclass(frozen=True)
class SourceWords(Words[W]):
    """Points of tiles: their source, where they go, from which tile on and how many rows they are apart."""

    x: W
    v: W | None  # in scratch
    tables: TapWords[W]
    tile: W
    tiles: W
    width: W
    channels: W | None  # where they are fewer than a row is wide
    taps: W
    image: W
    image_rows: W
    axes: tuple[AxisWords[W], ...]
    lines: LineWords[W] | None = None


class Source:
    """Emits the points of a tile: V = B' x B, or of errors Z = A y A'. Scratch: places, then the square."""

    def __init__(
        self, t: Text, tiling: Tiling, tile: int, w: SourceWords[Value], errors: bool = False
    ) -> None:
        kept = TRANSFORMS[tile]
        matrix: Matrix = tuple(zip(*kept.result, strict=True)) if errors else kept.source
        self.t, self.w, self.dtype = t, w, tiling.operand
        self.under, self.points = len(matrix[0]), len(matrix)
        self.gather = Gather(t, w, self.dtype)
        self.square = Square(t, tiling, matrix, t.address(t.scratch, SQUARE_AT))
        self.vectors = Vectors(t, self.dtype, tiling.lanes)

    def emit(self, tile: Value, v: Value, row: Value) -> None:
        """Into this row of every point."""
        t, lines = self.t, self.w.lines
        at = self.gather.coordinates(tile, t.constant("i64", 0))
        self.gather.pixel(at, self.w.x, t.scratch)
        if lines is None:
            self._line(v, row, self.w.width, None, None)
            return
        with t.loop(0, lines.count, name="line") as line:
            first, behind = t.mul(line.index, lines.width), t.mul(line.index, lines.apart)
            self._line(v, row, lines.width, first, behind)

    def _line(self, v: Value, row: Value, width: Value, first: Value | None, behind: Value | None) -> None:
        """Channels that lie side by side: the first of them, and how far behind the tap's place they are."""
        t, w = self.t, self.w

        def body(channel: Value, count: Value | None) -> None:
            near = channel if behind is None else t.add(channel, behind)
            column = channel if first is None else t.add(channel, first)

            def load(i: int, j: int) -> Value:
                place = t.load_type("ptr", t.address(t.scratch, 8 * (i * self.under + j)))
                return self.vectors.load(t.address(place, near, self.dtype), count)

            def store(i: int, j: int, value: Value) -> None:
                at = t.mul(t.add(row, t.mul(w.tiles, i * self.points + j)), w.width)
                self.vectors.store(value, t.address(v, t.add(at, column), self.dtype), count)

            self.square.emit(load, store)

        self.vectors.each(width, body)


def source_text(host: Host, tiling: Tiling, tile: int, errors: bool, words: SourceWords[Form]) -> str:
    """The points of the tiles from word `tile` on; a unit is a tile."""
    t = Text(host)
    w: SourceWords[Value] = read(t, words)
    assert w.v is not None
    source = Source(t, tiling, tile, w, errors)
    with t.loop(t.begin, t.end, name="tile") as unit:
        source.emit(t.add(unit.index, w.tile), w.v, unit.index)
    return t.module()


SQUARE_AT = 512  # bytes of scratch before the square: 36 places, rounded up
RESULT_AT = 4096  # and before the results of a tile: the largest half-done square is 36 vectors of 64 bytes


@dataclass(frozen=True)
class ResultWords(Words[W]):
    """Results of tiles: from which tile on, the columns of a row, lines and pixels of a line of an image, and
    how many tiles those are; how far the outputs of a tile are apart. Of tiles that are beside each other,
    those of all lattices come before those below.
    """

    tile: W
    tiles: W  # rows that points are apart
    width: W
    height: W
    across: W
    count0: W
    count1: W
    every: tuple[W, W] | None = None  # None: side by side


class Results:
    """The results of a tile: sums of a square of vectors into scratch, from there through the epilogue."""

    def __init__(
        self, t: Text, w: ResultWords[Value], tiling: Tiling, tile: int, epilogue: Epilogue,
        after: EpilogueWords[Value],
    ) -> None:  # fmt: skip
        self.t, self.w, self.tiling, self.tile = t, w, tiling, tile
        self.kept = t.address(t.scratch, RESULT_AT)
        self.step = tiling.lanes * tiling.size
        self.vectors = Vectors(t, tiling.accumulator, tiling.lanes)
        self.finish = Finish(t, tiling, epilogue, after, w.width)

    def each(self, unit: Value, sums: Callable[[Value, Value | None, Store], None]) -> None:
        """All columns of a tile. `sums(column, how many exist, store)` makes those of a vector of columns."""
        place = self.place(self.t.add(unit, self.w.tile))

        def body(column: Value, count: Value | None) -> None:
            sums(column, count, self._store)
            self._put(place, column, count)

        self.vectors.each(self.w.width, body)

    def vector(self, place: tuple[Value, Value, Value], column: Value, sums: Callable[[Store], None]) -> None:
        """One vector of columns of a tile, as many as exist of it."""
        t, lanes = self.t, self.tiling.lanes
        left = t.sub(self.w.width, column)
        with t.when(t.icmp("sgt", left, 0)):
            sums(self._store)
            full = t.icmp("sge", left, lanes)
            t.either(full, lambda: self._put(place, column, None), lambda: self._put(place, column, left))

    def place(self, number: Value) -> tuple[Value, Value, Value]:
        """The first row of the result that a tile writes; its outputs that exist, down and across."""
        t, w, tile = self.t, self.w, self.tile
        across, rest = t.urem(number, w.count1), t.udiv(number, w.count1)
        right, below = t.constant("i64", 0), t.constant("i64", 0)
        if w.every is not None:
            right, rest = t.urem(rest, w.every[1]), t.udiv(rest, w.every[1])
            below, rest = t.urem(rest, w.every[0]), t.udiv(rest, w.every[0])
        down, image = t.urem(rest, w.count0), t.udiv(rest, w.count0)
        top, left = t.mul(down, tile), t.mul(across, tile)
        high, wide, first, beside = w.height, w.across, top, left
        if w.every is not None:
            high, wide = (
                t.udiv(t.add(t.sub(n, at), t.sub(every, 1)), every)
                for n, at, every in zip((high, wide), (below, right), w.every, strict=True)
            )
            first, beside = (
                t.add(at, t.mul(n, every))
                for n, at, every in zip((top, left), (below, right), w.every, strict=True)
            )
        corner = t.add(t.mul(t.add(t.mul(image, w.height), first), w.across), beside)
        return corner, t.smin(t.sub(high, top), tile), t.smin(t.sub(wide, left), tile)

    def ask(self, number: Value, column: Value) -> None:
        """For the lines that a tile will be written to: short runs, which no processor foresees."""
        t, (corner, high, wide) = self.t, self.place(number)
        with t.loop(0, high, name="ask") as i, t.loop(0, wide, name="line") as j:
            _, results = self.finish.row(self._row(corner, i.index, j.index))
            for at, dtype in zip(results, self.finish.epilogue.results, strict=True):
                first = t.address(at, column, dtype)
                for line in range(0, self.tiling.columns * dtype.itemsize, 64):
                    t.prefetch(t.address(first, line), write=True)

    def _row(self, corner: Value, i: Value, j: Value) -> Value:
        t, w = self.t, self.w
        below, right = t.mul(i, w.across), j
        if w.every is not None:
            below, right = t.mul(below, w.every[0]), t.mul(right, w.every[1])
        return t.add(t.add(corner, below), right)

    def _put(self, place: tuple[Value, Value, Value], column: Value, count: Value | None) -> None:
        t, (corner, high, wide) = self.t, place
        with t.loop(0, high, name="down") as i, t.loop(0, wide, name="across") as j:
            at = t.mul(t.add(t.mul(i.index, self.tile), j.index), self.step)
            total = t.load_type(self.tiling.vector, t.address(self.kept, at), 32)
            row = self._row(corner, i.index, j.index)
            self.finish.store(total, self.finish.row(row), column, count)

    def _store(self, i: int, j: int, value: Value) -> None:
        self.t.store_type(value, self.t.address(self.kept, (i * self.tile + j) * self.step), 32)


@dataclass(frozen=True)
class GradientWords(Words[W]):
    u: W
    epilogue: EpilogueWords[W]
    width: W
    depth: W


def gradient_text(
    host: Host, tiling: Tiling, tile: int, epilogue: Epilogue, words: GradientWords[Form]
) -> str:
    """dw = G' U G through the epilogue, for U[point, C, K]; a unit is a channel."""
    t = Text(host)
    w: GradientWords[Value] = read(t, words)
    matrix: Matrix = tuple(zip(*TRANSFORMS[tile].weight, strict=True))
    points, dtype = len(matrix[0]), tiling.accumulator
    square = Square(t, tiling, matrix, t.address(t.scratch, SQUARE_AT))
    results = t.address(t.scratch, RESULT_AT)
    vectors, finish = Vectors(t, dtype, tiling.lanes), Finish(t, tiling, epilogue, w.epilogue, w.width)
    step = tiling.lanes * tiling.size
    with t.loop(t.begin, t.end, name="channel") as unit:

        def body(column: Value, count: Value | None, unit: Value = unit.index) -> None:
            def load(i: int, j: int) -> Value:
                row = t.mul(t.add(unit, t.mul(w.depth, i * points + j)), w.width)
                return vectors.load(t.address(w.u, t.add(row, column), dtype), count)

            def store(i: int, j: int, value: Value) -> None:
                t.store_type(value, t.address(results, (i * 3 + j) * step), 32)

            square.emit(load, store)
            with t.loop(0, 9, name="tap") as tap:
                total = t.load_type(tiling.vector, t.address(results, t.mul(tap.index, step)), 32)
                row = t.add(t.mul(tap.index, w.depth), unit)
                finish.store(total, finish.row(row), column, count)

        vectors.each(w.width, body)
    return t.module()
