"""The weight gradient of one filter per channel: per tap and channel, products of x and y summed over pixels.

Enters: dtypes, rank and an epilogue. Leaves: the text of one kernel for every size. A unit is a run of
channels with all taps and all pixels; it goes through the pixels block by block, and over a block passes
tiles of up to 6 taps and two vectors of channels, whose sums stay in scratch between blocks.
"""

from __future__ import annotations

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.convert import widen
from trilobite.compiler.targets.cpu.contraction.finish import all_or_some
from trilobite.compiler.targets.cpu.contraction.gathering import Gathering
from trilobite.compiler.targets.cpu.contraction.multiply import multiply_add
from trilobite.compiler.targets.cpu.contraction.tile import RegisterTile
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS, VECTORS
from trilobite.compiler.targets.cpu.contraction.words import AxisWords, EpilogueWords, TapWords, W, Words
from trilobite.native.llvm.text import Value

# places, bytes from pixel to pixel, y, elements of a row of y, pixels, channel, how many exist, sums
_PARAMETERS = ("ptr noalias", "i64", "ptr noalias", "i64", "i64", "i64", "i64", "ptr noalias")


@dataclass(frozen=True)
class FilterGradWords(Words[W]):
    x: W
    y: W
    tables: TapWords[W]
    epilogue: EpilogueWords[W]
    places_at: W  # in scratch
    run: W
    chunks: W
    pixels: W
    block: W
    taps: W
    width: W
    image: W
    image_rows: W
    axes: tuple[AxisWords[W], ...]


@dataclass
class _Run:
    """Channels of a unit, and the chunk at hand: two vectors of them, of which `width` lanes exist."""

    first: Value
    channel: Value
    width: Value


class FilterGrad(Gathering):
    """Emits one kernel."""

    w: FilterGradWords[Value]

    def emit(self) -> None:
        t, w = self.t, self.w
        with t.loop(t.begin, t.end, name="unit") as unit:
            self._unit(t.mul(unit.index, w.run))
        for taps in range(1, ROWS + 1):
            for partial in (False, True):
                with t.function(f"taps{taps}{'some' if partial else ''}", _PARAMETERS) as p:
                    self._tile(taps, partial, p)

    def _unit(self, first: Value) -> None:
        t, w, tiling = self.t, self.w, self.tiling
        last = t.smin(t.add(first, w.run), w.width)
        zero = t.constant(tiling.vector, 0)
        with t.loop(0, t.mul(t.mul(w.taps, w.chunks), VECTORS), name="clear") as i:
            t.store_type(zero, t.address(t.scratch, t.mul(i.index, tiling.lanes * tiling.size)), 32)
        start = self.gather.coordinates(t.constant("i64", 0), t.constant("i64", 0))
        with t.loop(0, w.pixels, w.block, carried=start, name="block") as block:
            count = t.smin(t.sub(w.pixels, block.index), w.block)
            with t.loop(0, count, carried=block.values, name="pixel") as pixel:
                at = t.address(self.places, t.mul(t.mul(pixel.index, w.taps), 8))
                self.gather.pixel(pixel.values, w.x, at)
                pixel.next(*self.gather.after(pixel.values))
            block.next(*pixel.results)
            with t.loop(first, last, tiling.columns, name="chunk") as chunk:
                self._block(self._run(first, chunk.index, last), block.index, count)
        with t.loop(first, last, tiling.columns, name="chunk") as chunk:
            self._store(self._run(first, chunk.index, last))

    def _run(self, first: Value, channel: Value, last: Value) -> _Run:
        t = self.t
        return _Run(first, channel, t.smin(t.sub(last, channel), self.tiling.columns))

    def _sums(self, run: _Run, tap: Value) -> Value:
        """Chunk after chunk, in a chunk tap after tap."""
        t, tiling = self.t, self.tiling
        chunk = t.udiv(t.sub(run.channel, run.first), tiling.columns)
        line = t.add(t.mul(chunk, self.w.taps), tap)
        return t.address(t.scratch, t.mul(line, tiling.columns * tiling.size))

    def _block(self, run: _Run, first: Value, pixels: Value) -> None:
        t, w, tiling = self.t, self.w, self.tiling
        errors = t.address(w.y, t.add(t.mul(first, w.width), run.channel), tiling.operand)
        apart = t.mul(w.taps, 8)
        whole = t.icmp("eq", run.width, tiling.columns)
        with t.loop(0, w.taps, ROWS, name="tap") as tap:
            left = t.sub(w.taps, tap.index)
            places = t.address(self.places, t.mul(tap.index, 8))
            sums = self._sums(run, tap.index)
            args = (places, apart, errors, w.width, pixels, run.channel, run.width, sums)
            for n in range(ROWS, 0, -1):
                here = t.icmp("sge", left, ROWS) if n == ROWS else t.icmp("eq", left, n)
                for name, condition in ((f"taps{n}", whole), (f"taps{n}some", t.not_(whole))):
                    with t.when(t.and_(here, condition)):
                        t.call(name, *args)

    def _tile(self, taps: int, partial: bool, p: list[Value]) -> None:
        t, tiling = self.t, self.tiling
        places, apart, errors, line, pixels, channel, width, sums = p
        kept, count = RegisterTile(t, tiling, taps), width if partial else None
        at = list(kept.places(sums))
        with t.loop(0, pixels, carried=[places, errors, *kept.load(at)], name="pixel") as loop:
            place, error, *found = loop.values
            ys = [self._load(error, v, count) for v in range(VECTORS)]
            for i in range(taps):
                row = t.address(t.load_type("ptr", t.address(place, 8 * i)), channel, tiling.operand)
                for v in range(VECTORS):
                    k = i * VECTORS + v
                    found[k] = multiply_add(t, self._load(row, v, count), ys[v], found[k])
            loop.next(t.address(place, apart), t.address(error, line, tiling.operand), *found)
        kept.store(loop.results[2:], at)

    def _load(self, row: Value, v: int, count: Value | None) -> Value:
        t, tiling = self.t, self.tiling
        at = t.address(row, v * tiling.lanes, tiling.operand)
        left = None if count is None else t.smax(t.sub(count, v * tiling.lanes), 0)
        value = t.load_partial(tiling.operand, at, left, tiling.lanes)
        return widen(t, value, tiling.operand, tiling.accumulator)

    def _store(self, run: _Run) -> None:
        """A row of the result is a tap."""
        t, w, tiling = self.t, self.w, self.tiling

        def each(some: Value | None) -> None:
            with t.loop(0, w.taps, name="tap") as tap:
                places = self.finish.row(tap.index)
                self.finish.line(self._sums(run, tap.index), places, run.channel, some)

        all_or_some(t, run.width, tiling.columns, each)
