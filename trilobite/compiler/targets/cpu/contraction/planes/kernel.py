"""The convolution of images whose channels are planes: a product of the weight with pixels as they lie.

Enters: dtypes and an epilogue. Leaves: the text of one kernel for convolutions of every size and rank. The
left operand is the weight in panels of filters, the right one has a column for every pixel and a row for
every channel and tap; it is never there as a whole. A unit is a panel of pixels and a run of filters: the
rows of its pixels are copied side by side, a block of depth at a time, and multiplied by every panel of
filters. Where a row begins stands in tables: `offsets` for each channel and tap, and for each panel of pixels
the runs of memory that it consists of. The sums of a tile are added in one order, whatever the units.
"""

from __future__ import annotations

from collections.abc import Callable

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.planes.tile import (
    FILTERS,
    STRAIGHT,
    VECTORS,
    PlaneTile,
    StraightTile,
)
from trilobite.compiler.targets.cpu.contraction.tiling import Tiling
from trilobite.compiler.targets.cpu.contraction.words import EpilogueWords, Form, W, Words, read
from trilobite.compiler.targets.cpu.epilogue import Epilogue, emit_epilogue
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value

PLACES = 1 + 3 * VECTORS
"""Words of a panel of pixels: is it one run of memory; of each vector where it begins, where the next run
would begin if it had as many elements before, and how many elements are of the first.
"""


@dataclass(frozen=True)
class PlaneWords(Words[W]):
    x: W
    w: W
    offsets: W
    places: W
    epilogue: EpilogueWords[W]
    batches: tuple[W, ...]  # of each operand of the epilogue, elements from image to image
    sums_at: W  # in scratch
    kept: W  # bytes of a tile's sums that wait for the next block of depth
    runs: W
    run: W
    filter_panels: W
    filters: W
    panels: W
    block: W
    pixels: W
    depth: W
    depth_block: W
    image: W


def pixels_of(tiling: Tiling) -> int:
    """Pixels of a panel."""
    return VECTORS * tiling.lanes


def tile_bytes(tiling: Tiling) -> int:
    return FILTERS * pixels_of(tiling) * tiling.size


def packed_bytes(tiling: Tiling, depth: int) -> int:
    return -(-depth * pixels_of(tiling) * tiling.size // 64) * 64


@dataclass
class _Piece:
    """A panel of pixels of an image, and a block of depth."""

    image: Value
    pixel: Value
    width: Value  # pixels that exist
    first: Value  # row of depth
    count: Value
    begins: Value
    ends: Value
    straight: Value  # are the pixels read where they lie,
    source: Value  # from here on?


class Planes:
    """Emits one kernel."""

    def __init__(self, host: Host, tiling: Tiling, epilogue: Epilogue, words: PlaneWords[Form]) -> None:
        self.t, self.tiling, self.epilogue = Text(host), tiling, epilogue
        self.w: PlaneWords[Value] = read(self.t, words)
        self.pixels, self.packed = pixels_of(tiling), self.t.scratch
        self.sums = self.t.address(self.t.scratch, self.w.sums_at)
        self.tiles = [PlaneTile(self.t, tiling, v) for v in range(1, VECTORS + 1)]
        self.straight = StraightTile(self.t, tiling, VECTORS)
        self.pair = PlaneTile(self.t, tiling, 1, panels=2)  # one vector alone would wait for its own sums

    def text(self) -> str:
        t, w = self.t, self.w
        first, last = t.udiv(t.begin, w.panels), t.udiv(t.sub(t.add(t.end, w.panels), 1), w.panels)
        with t.loop(first, last, name="segment") as segment:
            origin = t.mul(segment.index, w.panels)
            low, high = t.smax(t.sub(t.begin, origin), 0), t.smin(t.sub(t.end, origin), w.panels)
            image, run = t.udiv(segment.index, w.runs), t.urem(segment.index, w.runs)
            with t.loop(low, high, w.block, name="block") as block:
                self._block(image, run, block.index, t.smin(t.add(block.index, w.block), high))
        for tile in (*self.tiles, self.straight, self.pair):
            tile.emit()
        return t.module()

    def _block(self, image: Value, run: Value, low: Value, high: Value) -> None:
        """Some panels of pixels by a run of filters, through blocks of depth."""
        t, w = self.t, self.w
        source = t.address(w.x, t.mul(image, w.image), self.tiling.operand)
        first = t.mul(run, w.run)
        last = t.smin(t.add(first, w.run), w.filter_panels)
        with t.loop(0, t.smax(w.depth, 1), w.depth_block, name="depth") as k:
            count = t.smin(t.sub(w.depth, k.index), w.depth_block)
            begins = t.icmp("eq", k.index, 0)
            ends = t.icmp("sge", t.add(k.index, w.depth_block), w.depth)
            with t.loop(low, high, name="panel") as panel:
                pixel = t.mul(panel.index, self.pixels)
                width = t.smin(t.sub(w.pixels, pixel), self.pixels)
                numbers = self._places(panel.index)
                begin = t.address(source, numbers[1])
                few = t.icmp("sle", w.filter_panels, STRAIGHT)
                full = t.and_(t.icmp("eq", width, self.pixels), t.icmp("ne", numbers[0], 0))
                straight = t.and_(few, full)
                with t.when(t.not_(straight)):
                    self._pack(source, numbers, width, k.index, count)
                line = t.mul(t.sub(panel.index, low), w.run)
                piece = _Piece(image, pixel, width, k.index, count, begins, ends, straight, begin)
                narrow = t.icmp("sle", width, self.tiling.lanes)
                pairs = t.add(first, t.select(narrow, t.and_(t.sub(last, first), -2), 0))
                for start, stop, step in ((first, pairs, 2), (pairs, last, 1)):
                    with t.loop(start, stop, step, name="filters") as f:
                        at = t.mul(t.add(line, t.sub(f.index, first)), w.kept)
                        self._product(piece, f.index, t.address(self.sums, at), step)

    # -- pixels ----------------------------------------------------------------------------------------------

    def _places(self, panel: Value) -> list[Value]:
        """The words of a panel of pixels."""
        t = self.t
        entry = t.address(self.w.places, t.mul(panel, 8 * PLACES))
        return [t.load_type("i64", t.address(entry, 8 * i)) for i in range(PLACES)]

    def _pack(self, source: Value, numbers: list[Value], width: Value, first: Value, count: Value) -> None:
        """The rows of a panel's pixels side by side. Mostly they are one run of memory; of a last panel that
        is not full, nothing beyond is read. Else each vector is the end of one run and the beginning of the
        next.
        """
        t, lanes, size = self.t, self.tiling.lanes, self.tiling.size
        whole, full = t.icmp("ne", numbers[0], 0), t.icmp("eq", width, self.pixels)
        begins, nexts = ([t.address(source, n) for n in numbers[i::3]] for i in (1, 2))

        def one_run(v: int, offset: Value) -> Value:
            return t.load(
                self.tiling.operand, t.address(t.address(begins[0], offset), v * lanes * size), lanes
            )

        def cut_off(v: int, offset: Value) -> Value:
            at = t.address(t.address(begins[0], offset), v * lanes * size)
            left = t.smax(t.sub(width, v * lanes), 0)
            return t.load_partial(self.tiling.operand, at, left, lanes)

        def two_runs() -> None:
            masks = [t.mask(n, lanes, 8 * size) for n in numbers[3::3]]

            def joined(v: int, offset: Value) -> Value:
                a, b = (t.load(self.tiling.operand, t.address(p[v], offset), lanes) for p in (begins, nexts))
                return t.select(masks[v], a, b)

            self._rows(first, count, joined)

        def one() -> None:
            t.either(
                full,
                lambda: self._rows(first, count, one_run),
                lambda: self._rows(first, count, cut_off),
            )

        t.either(whole, one, two_runs)

    def _rows(self, first: Value, count: Value, load: Callable[[int, Value], Value]) -> None:
        """Write `count` rows from row `first` of depth on; `load(vector, offset of the row)` reads one."""
        t, lanes = self.t, self.tiling.lanes
        with t.loop(0, count, name="row") as k:
            offset = t.load_type("i64", t.address(self.w.offsets, t.mul(t.add(first, k.index), 8)))
            target = t.address(self.packed, t.mul(k.index, self.pixels * self.tiling.size))
            for v in range(VECTORS):
                to = t.address(target, v * lanes, self.tiling.operand)
                t.store(self.tiling.operand, load(v, offset), to)

    # -- products --------------------------------------------------------------------------------------------

    def _product(self, piece: _Piece, panel: Value, sums: Value, panels: int) -> None:
        """One or two panels of filters by one block of depth; what is done goes through the epilogue, of a
        full tile from registers.
        """
        t, w, epilogue = self.t, self.w, self.epilogue
        apart = t.mul(w.depth, FILTERS * self.tiling.size)
        weights = t.address(
            t.address(w.w, t.mul(panel, apart)), t.mul(piece.first, FILTERS), self.tiling.operand
        )
        operands = (weights, apart, self.packed, piece.count, sums, piece.begins)
        number = t.mul(panel, FILTERS)

        def in_memory() -> None:
            vectors = t.ceil_div(piece.width, self.tiling.lanes)
            for tile in reversed(self.tiles):
                with t.when(t.icmp("eq", vectors, tile.vectors)):
                    t.call(tile.name, *operands)
            with t.when(piece.ends):
                self._finish(piece, number, sums, FILTERS)

        def straight() -> None:
            rows = t.address(w.offsets, t.mul(piece.first, 8))
            t.call(self.straight.name, weights, apart, rows, *operands[3:], piece.source)
            with t.when(piece.ends):
                self._finish(piece, number, sums, FILTERS)

        def at_once() -> None:
            found = self.tiles[-1].found(*operands)
            for i in range(FILTERS):
                self._store(piece, t.add(number, i), found[i * VECTORS : (i + 1) * VECTORS], None)

        if panels == 2:
            t.call(self.pair.name, *operands)
            with t.when(piece.ends):
                self._finish(piece, number, sums, 2 * FILTERS)
            return

        def packed() -> None:
            if not epilogue.short:
                in_memory()
                return
            whole = t.and_(t.icmp("eq", piece.width, self.pixels), piece.ends)
            whole = t.and_(whole, t.icmp("sle", t.add(number, FILTERS), w.filters))
            t.either(whole, at_once, in_memory)

        t.either(piece.straight, straight, packed)

    # -- results ---------------------------------------------------------------------------------------------

    def _finish(self, piece: _Piece, number: Value, sums: Value, most: int) -> None:
        """The filters of a tile that exist, from memory."""
        t, vector = self.t, self.tiling.vector
        count = t.smin(t.sub(self.w.filters, number), most)
        with t.loop(0, count, name="filter") as f:
            line = t.address(sums, t.mul(f.index, self.pixels * self.tiling.size))
            places = [t.address(line, v * self.tiling.lanes * self.tiling.size) for v in range(VECTORS)]
            found = [t.load_type(vector, at, 32) for at in places]
            self._store(piece, t.add(number, f.index), found, piece.width)

    def _store(self, piece: _Piece, number: Value, sums: list[Value], width: Value | None) -> None:
        """The pixels of one filter through the epilogue; of them `width` exist (None: all)."""
        t, w, epilogue, lanes = self.t, self.w, self.epilogue, self.tiling.lanes
        operands = []
        for own, batch, o in zip(w.epilogue.operands, w.batches, epilogue.operands, strict=True):
            at = t.add(t.mul(piece.image, batch), t.mul(number, own.row))
            operands.append(t.address(own.at, at, o.dtype))
        row = t.mul(t.add(t.mul(piece.image, w.filters), number), w.pixels)
        ends = zip(w.epilogue.results, epilogue.results, strict=True)
        results = [t.address(at, row, d) for at, d in ends]
        for v, total in enumerate(sums):
            column = t.add(piece.pixel, v * lanes)
            if width is None:
                emit_epilogue(t, epilogue, total, operands, results, column, lanes)
                continue
            left = t.sub(width, v * lanes)
            with t.when(t.icmp("sgt", left, 0)):
                emit_epilogue(t, epilogue, total, operands, results, column, lanes, left)
