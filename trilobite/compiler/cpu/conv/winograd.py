"""The kernels around the products of a tiled 3x3 convolution: transforms of weight, source and result.

Enters: dtypes, the tile, an epilogue. Leaves: texts for every size. The products between them are a
convolution of groups (`direct`): V[point, tile, C] with U[point, panels, C, lanes] to M[point, tile, K]. A
transform of a tile is two rounds of sums, down the columns into scratch and then along the rows, a vector
of channels at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trilobite.base.dtypes import DType
from trilobite.compiler.cpu.conv.finish import Finish
from trilobite.compiler.cpu.conv.gather import Gather
from trilobite.compiler.cpu.conv.tiling import Tiling
from trilobite.compiler.cpu.conv.words import read_words
from trilobite.compiler.cpu.emit.text import Text, Value
from trilobite.compiler.cpu.emit.types import memory_type
from trilobite.compiler.cpu.epilogue import Epilogue
from trilobite.ir.primitives.conv_winograd import TRANSFORMS
from trilobite.native.host import Host

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


class Square:
    """M x M' of a square of vectors, for a matrix M: columns first, through scratch, then rows."""

    def __init__(self, t: Text, tiling: Tiling, matrix: Matrix, scratch: Value) -> None:
        self.t, self.tiling, self.matrix, self.scratch = t, tiling, matrix, scratch
        self.inner = len(matrix[0])

    def emit(self, load: Callable[[int, int], Value], store: Store) -> None:
        t = self.t
        for j in range(self.inner):
            column = [load(i, j) for i in range(self.inner)]
            for i, row in enumerate(self.matrix):
                t.store_type(combined(t, row, column), self._at(i, j), 32)
        for i in range(len(self.matrix)):
            line = [t.load_type(self.tiling.vector, self._at(i, j), 32) for j in range(self.inner)]
            for j, row in enumerate(self.matrix):
                store(i, j, combined(t, row, line))

    def _at(self, i: int, j: int) -> Value:
        return self.t.address(self.scratch, (i * self.inner + j) * self.tiling.lanes * self.tiling.size)


class Vectors:
    """Whole vectors of channels, then one that is cut off."""

    def __init__(self, t: Text, dtype: DType, lanes: int) -> None:
        self.t, self.dtype, self.lanes = t, dtype, lanes

    def each(self, width: Value, body: Callable[[Value, Value | None], None]) -> None:
        t = self.t
        whole = t.and_(width, -self.lanes)
        with t.loop(0, whole, self.lanes, name="channel") as c:
            body(c.index, None)
        with t.when(t.icmp("slt", whole, width)):
            body(whole, t.sub(width, whole))

    def load(self, at: Value, count: Value | None) -> Value:
        if count is None:
            return self.t.load(self.dtype, at, self.lanes)
        return self.t.load_partial(self.dtype, at, count, self.lanes)

    def store(self, value: Value, at: Value, count: Value | None) -> None:
        if count is None:
            self.t.store(self.dtype, value, at)
        else:
            self.t.store_partial(self.dtype, value, at, count)


def source_text(host: Host, tiling: Tiling, tile: int, errors: bool, names: tuple[str, ...]) -> str:
    """V = B' x B, or of errors Z = A y A', for the tiles from word `tile` on; a unit is a tile. Scratch:
    places, then the square.
    """
    t = Text(host)
    w = read_words(t, names)
    matrix: Matrix = tuple(zip(*TRANSFORMS[tile].result, strict=True)) if errors else TRANSFORMS[tile].source
    under, points, dtype = len(matrix[0]), len(matrix), tiling.operand
    gather = Gather(t, w, 2, dtype)
    square = Square(t, tiling, matrix, t.address(t.scratch, SQUARE_AT))
    vectors = Vectors(t, dtype, tiling.lanes)
    with t.loop(t.begin, t.end, name="tile") as unit:
        at = gather.coordinates(t.add(unit.index, w["tile"]), t.constant("i64", 0))
        gather.pixel(at, w["x"], t.scratch)

        def body(channel: Value, count: Value | None, unit: Value = unit.index) -> None:
            def load(i: int, j: int) -> Value:
                place = t.load_type("ptr", t.address(t.scratch, 8 * (i * under + j)))
                return vectors.load(t.address(place, channel, dtype), count)

            def store(i: int, j: int, value: Value) -> None:
                row = t.mul(t.add(unit, t.mul(w["tiles"], i * points + j)), w["width"])
                vectors.store(value, t.address(w["v"], t.add(row, channel), dtype), count)

            square.emit(load, store)

        vectors.each(w["width"], body)
    return t.module()


SQUARE_AT = 512  # bytes of scratch before the square: 36 places, rounded up
RESULT_AT = 2048  # and before the results of a tile: the largest half-done square is 36 vectors of 32 bytes


class Results:
    """The results of a tile: sums of a square of vectors into scratch, from there through the epilogue."""

    def __init__(self, t: Text, w: dict[str, Value], tiling: Tiling, tile: int, epilogue: Epilogue) -> None:
        self.t, self.w, self.tiling, self.tile = t, w, tiling, tile
        self.kept = t.address(t.scratch, RESULT_AT)
        self.step = tiling.lanes * tiling.size
        self.vectors, self.finish = (
            Vectors(t, tiling.accumulator, tiling.lanes),
            Finish(t, tiling, epilogue, w),
        )

    def each(self, unit: Value, sums: Callable[[Value, Value | None, Store], None]) -> None:
        """All columns of a tile. `sums(column, how many exist, store)` makes those of a vector of columns."""
        t, w, tile = self.t, self.w, self.tile
        number = t.add(unit, w["tile"])
        across, rest = t.urem(number, w["count1"]), t.udiv(number, w["count1"])
        down, image = t.urem(rest, w["count0"]), t.udiv(rest, w["count0"])
        top, left = t.mul(down, tile), t.mul(across, tile)
        corner = t.add(t.mul(t.add(t.mul(image, w["height"]), top), w["across"]), left)
        high, wide = t.smin(t.sub(w["height"], top), tile), t.smin(t.sub(w["across"], left), tile)

        def body(column: Value, count: Value | None) -> None:
            sums(column, count, self._store)
            with t.loop(0, high, name="down") as i, t.loop(0, wide, name="across") as j:
                at = t.mul(t.add(t.mul(i.index, tile), j.index), self.step)
                total = t.load_type(self.tiling.vector, t.address(self.kept, at), 32)
                row = t.add(t.add(corner, t.mul(i.index, w["across"])), j.index)
                self.finish.store(total, self.finish.row(row), column, count)

        self.vectors.each(w["width"], body)

    def _store(self, i: int, j: int, value: Value) -> None:
        self.t.store_type(value, self.t.address(self.kept, (i * self.tile + j) * self.step), 32)


def result_text(host: Host, tiling: Tiling, tile: int, epilogue: Epilogue, names: tuple[str, ...]) -> str:
    """y = A' M A through the epilogue; a unit is a tile."""
    t = Text(host)
    w = read_words(t, names)
    matrix = TRANSFORMS[tile].result
    points, dtype = len(matrix[0]), tiling.accumulator
    square = Square(t, tiling, matrix, t.address(t.scratch, SQUARE_AT))
    results = Results(t, w, tiling, tile, epilogue)
    with t.loop(t.begin, t.end, name="tile") as unit:

        def sums(channel: Value, count: Value | None, store: Store, unit: Value = unit.index) -> None:
            def load(i: int, j: int) -> Value:
                row = t.mul(t.add(unit, t.mul(w["tiles"], i * points + j)), w["width"])
                return results.vectors.load(t.address(w["m"], t.add(row, channel), dtype), count)

            square.emit(load, store)

        results.each(unit.index, sums)
    return t.module()


def gradient_text(host: Host, tiling: Tiling, tile: int, epilogue: Epilogue, names: tuple[str, ...]) -> str:
    """dw = G' U G through the epilogue, for U[point, C, K]; a unit is a channel."""
    t = Text(host)
    w = read_words(t, names)
    matrix: Matrix = tuple(zip(*TRANSFORMS[tile].weight, strict=True))
    points, dtype = len(matrix[0]), tiling.accumulator
    square = Square(t, tiling, matrix, t.address(t.scratch, SQUARE_AT))
    results = t.address(t.scratch, RESULT_AT)
    vectors, finish = Vectors(t, dtype, tiling.lanes), Finish(t, tiling, epilogue, w)
    step = tiling.lanes * tiling.size
    with t.loop(t.begin, t.end, name="channel") as unit:

        def body(column: Value, count: Value | None, unit: Value = unit.index) -> None:
            def load(i: int, j: int) -> Value:
                row = t.mul(t.add(unit, t.mul(w["depth"], i * points + j)), w["width"])
                return vectors.load(t.address(w["u"], t.add(row, column), dtype), count)

            def store(i: int, j: int, value: Value) -> None:
                t.store_type(value, t.address(results, (i * 3 + j) * step), 32)

            square.emit(load, store)
            with t.loop(0, 9, name="tap") as tap:
                total = t.load_type(tiling.vector, t.address(results, t.mul(tap.index, step)), 32)
                row = t.add(t.mul(tap.index, w["depth"]), unit)
                finish.store(total, finish.row(row), column, count)

        vectors.each(w["width"], body)
    return t.module()


def weight_text(host: Host, tiling: Tiling, tile: int, turned: bool, names: tuple[str, ...]) -> str:
    """U = G w G' in panels; a unit is a panel and a run of depth. `turned`: taps back to front."""
    t = Text(host)
    w = read_words(t, names)
    matrix, dtype = TRANSFORMS[tile].weight, tiling.operand
    square = Square(t, tiling, matrix, t.scratch)
    lanes, points = tiling.lanes, len(matrix)
    with t.loop(t.begin, t.end, name="unit") as unit:
        panel, run = t.udiv(unit.index, w["runs"]), t.urem(unit.index, w["runs"])
        first = t.mul(run, w["run"])
        last = t.smin(t.add(first, w["run"]), w["depth"])
        for v in range(2):
            start = t.add(t.mul(panel, 2 * lanes), v * lanes)
            end = t.sub(w["columns"], 1)
            real = t.mask(t.smax(t.sub(w["columns"], start), 0), lanes, 8 * dtype.itemsize)
            columns = [t.smin(t.add(start, i), end) for i in range(lanes)]
            begins = [t.address(w["w"], t.mul(c, w["column_stride"]), dtype) for c in columns]
            with t.loop(first, last, name="depth") as d:
                at = t.mul(d.index, w["depth_stride"])
                taps = _gathered(t, tiling, [t.address(begin, at, dtype) for begin in begins], real)
                if turned:
                    taps = taps[::-1]
                row = t.mul(t.add(t.mul(panel, w["depth"]), d.index), 2 * lanes)

                def store(i: int, j: int, value: Value, row: Value = row, v: int = v) -> None:
                    here = t.add(t.mul(w["point_size"], i * points + j), t.add(row, v * lanes))
                    t.store(dtype, value, t.address(w["out"], here, dtype))

                square.emit(lambda i, j, taps=taps: taps[3 * i + j], store)  # type: ignore[misc]
    return t.module()


def _gathered(t: Text, tiling: Tiling, rows: Sequence[Value], real: Value) -> list[Value]:
    """For each of 9 taps one element of each row, which holds them side by side; zero for rows that are not
    real. As many taps as there are rows are exchanged within registers.
    """
    dtype, lanes = tiling.operand, len(rows)
    out: list[Value] = []
    for first in range(0, 9 - 9 % lanes, lanes):
        out += transposed(t, [t.load(dtype, t.address(r, first, dtype), lanes) for r in rows])
    for tap in range(9 - 9 % lanes, 9):
        line = Value("poison", memory_type(dtype, lanes))
        for i, r in enumerate(rows):
            line = t.insert(line, t.load_type(memory_type(dtype), t.address(r, tap, dtype)), i)
        out.append(line)
    return [t.select(real, v, t.constant(v.type, 0)) for v in out]


def transposed(t: Text, rows: Sequence[Value]) -> list[Value]:
    """A square of lanes turned: in each round, halves, quarters, ... of neighbours change places."""
    found, size = list(rows), len(rows)
    step = size // 2
    while step:
        low = [i if not i & step else size + i - step for i in range(size)]
        high = [i + step if not i & step else size + i for i in range(size)]
        for i in range(size):
            if not i & step:
                a, b = found[i], found[i + step]
                found[i], found[i + step] = t.shuffle(a, b, low), t.shuffle(a, b, high)
        step //= 2
    return found
