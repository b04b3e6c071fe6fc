"""The last store: a register tile, added to what waits for it, through the epilogue into the results.

Enters: a tile in scratch, and where in the result it belongs. Leaves: the code that stores it. The epilogue's
scalar graph is emitted twice: once for whole rows of the tile and once, masked, for columns that are cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from trilobite.base.dtypes import DType
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.finish import Store, all_or_some
from trilobite.compiler.targets.cpu.contraction.gemm.problem import Problem
from trilobite.compiler.targets.cpu.contraction.gemm.words import ProductWords
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import is_float_type

_TOGETHER = 4  # vectors of a tile that go through the epilogue at once: more would not fit in registers


def is_plain(p: Problem, accumulator: DType) -> bool:
    """The accumulator is the result."""
    return not p.epilogue.body.equations and p.epilogue.results == (accumulator,) and p.dtype == accumulator


@dataclass
class Spot:
    """Which rows and columns of the result a tile covers."""

    row: Value
    column: Value
    height: Value
    width: Value


class Finish(Store):
    """Emits stores for one kernel."""

    def __init__(
        self, t: Text, accumulator: DType, lanes: int, p: Problem, words: ProductWords[Value]
    ) -> None:
        super().__init__(t, p.epilogue, accumulator, p.dtype, lanes)
        self.w, self.size = words, accumulator.itemsize

    def enter(self, batch: Value) -> None:
        """A batch entry begins: every buffer's part of it."""
        t, w, epilogue = self.t, self.w, self.epilogue
        area = t.mul(t.mul(w.m, w.n), batch)
        self.results = [t.address(at, area, d) for at, d in zip(w.results, epilogue.results, strict=True)]
        self.operands = [
            t.address(at, t.mul(batch, own.batch), o.dtype)
            for at, own, o in zip(w.operands, w.strides, epilogue.operands, strict=True)
        ]

    def place(self, result: int, row: Value, column: Value) -> Value:
        index = self.t.add(self.t.mul(row, self.w.n), column)
        return self.t.address(self.results[result], index, self.epilogue.results[result])

    def tile(
        self, tile: Value, columns: int, spot: Spot, waiting: Value, waiting_row: Value, first: Value,
        last: Value, waits: bool,
    ) -> None:  # fmt: skip
        """`waiting` is where sums of earlier blocks of k are, if this is not the first."""
        t = self.t

        def rows(some: Value | None) -> None:
            with t.loop(0, spot.height, name="row") as r:
                line = t.address(tile, t.mul(r.index, columns * self.size))
                before = t.address(waiting, t.mul(r.index, waiting_row))
                row = t.add(spot.row, r.index)
                if some is None:
                    places = [t.constant("i64", start) for start in range(0, columns, self.lanes)]
                    self.vectors(line, before, row, spot, places, None, first, last, waits)
                    return
                with t.loop(0, some, self.lanes, name="vector") as piece:
                    count = t.sub(some, piece.index)
                    self.vectors(line, before, row, spot, [piece.index], count, first, last, waits)

        all_or_some(t, spot.width, columns, rows)

    def vectors(
        self, line: Value, before: Value, row: Value, spot: Spot, places: Sequence[Value],
        count: Value | None, first: Value, last: Value, waits: bool,
    ) -> None:  # fmt: skip
        """Some vectors of a row of the tile, each of `count` lanes (None: all)."""
        t = self.t
        offsets = [t.mul(at, self.size) for at in places]
        own = [t.load(self.accumulator, t.address(line, offset), self.lanes) for offset in offsets]
        where = [t.address(before, offset) for offset in offsets]
        # What waits in scratch is there in full width; what waits in the result is not.
        few = None if waits else count

        def added() -> list[Value]:
            old = [t.load_partial(self.accumulator, at, few, self.lanes) for at in where]
            add = t.fadd if is_float_type(own[0].type) else t.add
            return [add(a, b) for a, b in zip(old, own, strict=True)]

        def through() -> None:
            stores = [
                partial(self.vector, total, row, t.add(spot.column, at), count)
                for total, at in zip(totals, places, strict=True)
            ]
            t.side_by_side(stores)

        def kept() -> None:
            for total, at in zip(totals, where, strict=True):
                t.store_partial(self.accumulator, total, at, few)

        totals = t.either(first, lambda: own, added)
        if waits:
            through()
        else:
            t.either(last, through, kept)

    def registers(
        self, sums: Sequence[Value], row: Value, column: Value, waiting: Value, waiting_row: Value,
        first: Value,
    ) -> None:  # fmt: skip
        """The sums of a whole tile that are still in registers, row by row, in their last block of k."""
        t, vectors = self.t, len(sums) // ROWS
        spots = [divmod(i, vectors) for i in range(len(sums))]

        def added() -> list[Value]:
            old = [
                t.load(
                    self.accumulator,
                    t.address(t.address(waiting, t.mul(waiting_row, r)), v * self.lanes * self.size),
                    self.lanes,
                )
                for r, v in spots
            ]
            return [t.fadd(a, b) for a, b in zip(old, sums, strict=True)]

        totals = t.either(first, lambda: sums, added)
        stores = [
            partial(self.vector, total, t.add(row, r), t.add(column, v * self.lanes), None)
            for total, (r, v) in zip(totals, spots, strict=True)
        ]
        for i in range(0, len(stores), _TOGETHER):
            t.side_by_side(stores[i : i + _TOGETHER])

    def vector(self, total: Value, row: Value, column: Value, count: Value | None) -> None:
        """A vector of sums of this row."""
        t, w, epilogue = self.t, self.w, self.epilogue
        start = t.mul(row, w.n)
        results = [t.address(p, start, d) for p, d in zip(self.results, epilogue.results, strict=True)]
        operands = [
            t.address(p, t.mul(row, own.row), o.dtype)
            for p, own, o in zip(self.operands, w.strides, epilogue.operands, strict=True)
        ]
        self.store(total, (operands, results), column, count)
