"""The blocked product: loops over cache blocks around the register tile, and the store of what it leaves.

Enters: a `Problem` and a `Tiling`. Leaves: `entry` of a kernel. Units are panels of columns, or rows where
they are as many; the kernel maps any range of units to a range of those and blocks that as it is, so
threads share nothing and no element's bits depend on the cut. K is never divided among units.

Per batch and per block of columns, k runs in blocks (panels of B in the first cache, a block of A in the
second); sums wait between blocks of k in the result itself, or in scratch where the result has another dtype.
"""

from __future__ import annotations

from dataclasses import replace

from trilobite.base.dtypes import DType
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.gemm.finish import Finish, Spot, is_plain
from trilobite.compiler.targets.cpu.contraction.gemm.micro import Strides, call_micro, emit_micro, whole_tile
from trilobite.compiler.targets.cpu.contraction.gemm.operands import Along
from trilobite.compiler.targets.cpu.contraction.gemm.pack import Stored, emit_pack, emit_pack_rows
from trilobite.compiler.targets.cpu.contraction.gemm.problem import Problem, Side
from trilobite.compiler.targets.cpu.contraction.gemm.scales import scales_of
from trilobite.compiler.targets.cpu.contraction.gemm.tiling import Plan
from trilobite.compiler.targets.cpu.contraction.gemm.units import operands, panels_of_units
from trilobite.compiler.targets.cpu.contraction.gemm.words import ProductWords
from trilobite.compiler.targets.cpu.contraction.sizes import ONE
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS
from trilobite.compiler.targets.cpu.contraction.words import Form, read
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant, is_float_type

COLUMN_PANELS = 16
"""From so many panels of packed columns on, units are columns however many rows there are."""
ROW_GROUP = 384
"""Rows whose sums fit in scratch at once, where they cannot wait in the result."""


@dataclass(frozen=True)
class Layout:
    """Where things stand in a thread's scratch, in bytes."""

    tile: int
    a: int
    b: int
    sums: int
    end: int


def layout(plan: Plan, waits: bool) -> Layout:
    word = plan.size
    tile = ROWS * plan.columns * word
    # A row of A's panel may be written a vector wide: room for what the last one writes too much.
    a = _round(tile) + _round((plan.m_block * plan.k_block + 2 * plan.lanes) * word)
    b = a + _round(plan.n_block * plan.k_block * word)
    return Layout(0, _round(tile), a, b, b + (ROW_GROUP * plan.n_block * word if waits else 0))


def _round(number: int) -> int:
    return -(-number // 64) * 64


@dataclass
class Rectangle:
    """The part of one batch entry's result that a range of units covers."""

    batch: Value
    m0: Value
    m1: Value
    n0: Value
    n1: Value


@dataclass
class Block:
    """One block of k, one of columns."""

    n0: Value
    columns: Value
    k0: Value
    depth: Value  # k of this block
    words: Value  # the same, in packed elements
    first: Value
    last: Value


def stored_as(side: Side) -> Stored:
    contiguous: Along = "line" if side.line == ONE else "k"
    return Stored(side.dtype, side.along if side.grid else None, contiguous if side.nibbles else None)


class Blocked:
    """Emits one kernel."""

    def __init__(self, host: Host, plan: Plan, p: Problem, words: ProductWords[Form]) -> None:
        self.t = t = Text(host)
        self.plan, self.p = plan, p
        self.waits = p.epilogue.results[0] != plan.accumulator  # sums cannot wait in the result
        self.plain = is_plain(p, plan.accumulator)
        # What follows the last sum begins in registers, where it is short enough to stand in the code often.
        floats = is_float_type(plan.element)
        self.short = floats and not self.waits and p.epilogue.light
        row = plan.columns * plan.size
        self.strides = {"packed": Strides(plan.size, ROWS * plan.size, row)}
        if self._same(p.a.dtype):
            self.strides["direct"] = Strides(None, plan.size, row)
        self.layout = layout(plan, self.waits)
        self.w: ProductWords[Value] = read(t, words)
        self.tile = t.scratch
        self.packed_a, self.packed_b, self.sums = (
            t.address(t.scratch, at) for at in (self.layout.a, self.layout.b, self.layout.sums)
        )
        self.finish = Finish(t, plan.accumulator, plan.lanes, p, self.w)

    def text(self) -> str:
        t, plan, p = self.t, self.plan, self.p
        emit_micro(t, plan, self.strides, streams=True)
        # Squares that are transposed while packing stay small: long vectors make long code of them.
        short = replace(plan, lanes=min(plan.lanes, t.host.lanes(plan.size)))
        emit_pack(t, short, "pack_a", Stored(p.a.dtype), ROWS)
        if not p.packed:
            stored = stored_as(p.b)
            emit_pack(t, short, "pack_b", stored, plan.columns)
            emit_pack_rows(t, plan, "pack_rows", stored)
        self.entry()
        return t.module()

    # -- units to rectangles -------------------------------------------------------------------------------

    def entry(self) -> None:
        t, w, plan = self.t, self.w, self.plan
        m, n = w.m, w.n
        across = t.ceil_div(n, plan.columns)
        # Every thread packs all of what is not divided: of B that takes less, and packed B takes nothing but
        # is read from memory by all.
        by_columns = t.icmp("sgt", n, m)
        if self.p.packed:
            by_columns = t.or_(t.icmp("sge", across, COLUMN_PANELS), t.icmp("sge", n, m))
        # Rows are divided one by one: tiles of 5 are as quick, and two threads get as many.
        with panels_of_units(t, w, t.select(by_columns, across, m)) as (batch, low, high):
            zero = constant("i64", 0)
            rectangle = Rectangle(
                batch,
                t.select(by_columns, zero, low),
                t.select(by_columns, m, high),
                t.select(by_columns, t.mul(low, plan.columns), zero),
                t.select(by_columns, t.smin(t.mul(high, plan.columns), n), n),
            )
            self.rectangle(rectangle)

    # -- blocks --------------------------------------------------------------------------------------------

    def rectangle(self, r: Rectangle) -> None:
        t = self.t
        self.a, self.b = operands(t, self.w, r.batch)
        self.finish.enter(r.batch)
        if not self.waits:
            self.columns(r, r.m0, r.m1)
            return
        with t.loop(r.m0, r.m1, ROW_GROUP, name="group") as group:
            self.columns(r, group.index, t.smin(t.add(group.index, ROW_GROUP), r.m1))

    def columns(self, r: Rectangle, m0: Value, m1: Value) -> None:
        t, plan = self.t, self.plan
        k, deepest = self.w.k, plan.k_block * plan.depth
        blocks = t.smax(t.ceil_div(k, deepest), 1)
        # Blocks of equal depth, in whole steps of the unrolled loop.
        step = 8 * plan.depth
        depth = t.mul(t.ceil_div(t.udiv(t.sub(t.add(k, blocks), 1), blocks), step), step)
        with t.loop(r.n0, r.n1, plan.n_block, name="columns") as columns:
            count = t.smin(t.sub(r.n1, columns.index), plan.n_block)
            with t.loop(0, blocks, name="depth") as at:
                k0 = t.mul(at.index, depth)
                mine = t.smax(t.smin(depth, t.sub(k, k0)), 0)
                first = t.icmp("eq", at.index, 0)
                last = t.icmp("eq", at.index, t.sub(blocks, 1))
                words = t.ceil_div(mine, plan.depth) if plan.depth > 1 else mine
                self.block(Block(columns.index, count, k0, mine, words, first, last), m0, m1)

    def block(self, block: Block, m0: Value, m1: Value) -> None:
        t, plan = self.t, self.plan
        if not self.p.packed:
            self.pack_b(block)
        # Blocks of equal height, in whole tiles.
        height = t.sub(m1, m0)
        blocks = t.smax(t.ceil_div(height, plan.m_block), 1)
        most = t.mul(t.ceil_div(t.udiv(t.sub(t.add(height, blocks), 1), blocks), ROWS), ROWS)
        with t.loop(m0, m1, t.smax(most, ROWS), name="rows") as rows:
            count = t.smin(t.sub(m1, rows.index), most)
            panels = t.ceil_div(count, ROWS)
            base = t.udiv(count, panels)
            extra = t.sub(count, t.mul(base, panels))
            self.prepare_a(block, rows.index, panels, base, extra)
            panel = t.loop(0, block.columns, plan.columns, name="panel")
            with panel as j, t.loop(0, panels, name="tile") as i:
                start, height = self.span(i.index, base, extra)
                row = t.add(rows.index, start)
                self.one_tile(block, j.index, i.index, panels, row, height, t.sub(row, m0))

    def span(self, panel: Value, base: Value, extra: Value) -> tuple[Value, Value]:
        """First row and height of a panel: of equal heights, but that the first `extra` have one more."""
        t = self.t
        more = t.convert("zext", t.icmp("slt", panel, extra), "i64")
        return t.add(t.mul(panel, base), t.smin(panel, extra)), t.add(base, more)

    # -- operands ------------------------------------------------------------------------------------------

    def _same(self, dtype: DType) -> bool:
        return not self.plan.pairs and dtype == self.plan.accumulator

    def pack_b(self, block: Block) -> None:
        t, plan, w, size = self.t, self.plan, self.w, self.plan.size
        whole = t.mul(t.udiv(block.columns, plan.columns), plan.columns)
        rows_run_on = t.icmp("eq", w.b_side.line, self.p.b.dtype.itemsize)
        if self.p.b.nibbles:
            rows_run_on = constant("i1", int(self.p.b.line == ONE))
        if plan.depth > 1:  # a last half word is left to the general way
            rows_run_on = t.and_(rows_run_on, t.icmp("eq", t.urem(block.depth, plan.depth), 0))
        by_rows = t.select(rows_run_on, whole, constant("i64", 0))
        panel = t.mul(block.words, plan.columns)
        with t.when(t.icmp("sgt", by_rows, 0)):
            start = constant("i64", 0)
            t.call(
                "pack_rows", self.b_at(block, start), w.b_side.k, block.words, by_rows, panel, self.packed_b,
                *self.scales(block, start),
            )  # fmt: skip
        with t.loop(by_rows, block.columns, plan.columns, name="pack") as j:
            t.call(
                "pack_b",
                self.b_at(block, j.index), w.b_side.k, w.b_side.line, block.depth,
                t.smin(t.sub(block.columns, j.index), plan.columns),
                t.address(self.packed_b, t.mul(t.mul(j.index, block.words), size)),
                *self.scales(block, j.index),
            )  # fmt: skip

    def b_at(self, block: Block, j: Value) -> Value:
        """Where column j of a block begins; blocks begin at whole bytes."""
        t, w, n = self.t, self.w, self.t.add(block.n0, j)
        at = t.address(t.address(self.b, t.mul(block.k0, w.b_side.k)), t.mul(n, w.b_side.line))
        if not self.p.b.nibbles:
            return at
        return t.address(at, t.lshr(n if self.p.b.line == ONE else block.k0, 1))

    def scales(self, block: Block, j: Value) -> list[Value]:
        """Where the scales and zero points of a block begin, from column j on, if B has any."""
        whole = scales_of(self.t, self.p.b, self.w)
        if whole is None:
            return []
        here = whole.moved(self.t.add(block.n0, j), block.k0)
        return [here.scales, here.zeros]

    def panel_of_b(self, block: Block, j: Value) -> Value:
        """Where the panel begins that starts at column j of the block."""
        t, plan, w, size = self.t, self.plan, self.w, self.plan.size
        if self.p.packed:
            panel = t.udiv(t.add(block.n0, j), plan.columns)
            at = t.add(t.mul(panel, t.mul(w.k, plan.columns)), t.mul(block.k0, plan.columns))
            return t.address(self.b, t.mul(at, size))
        return t.address(self.packed_b, t.mul(t.mul(j, block.words), size))

    def prepare_a(self, block: Block, m: Value, panels: Value, base: Value, extra: Value) -> None:
        t, w, plan, size = self.t, self.w, self.plan, self.plan.size
        here = t.address(t.address(self.a, t.mul(block.k0, w.a_side.k)), t.mul(m, w.a_side.line))
        self.a_here, self.a_first = here, m
        self.a_direct = constant("i1", 0)
        self.forms = {"packed": constant("i1", 1)}
        if self._same(self.p.a.dtype):
            few = t.icmp("sle", block.columns, plan.direct)
            self.a_direct = t.and_(t.icmp("eq", w.a_side.k, size), few)
            self.forms = {"packed": t.not_(self.a_direct), "direct": self.a_direct}
        with t.loop(0, t.select(self.a_direct, constant("i64", 0), panels), name="pack") as i:
            start, height = self.span(i.index, base, extra)
            t.call(
                "pack_a",
                t.address(here, t.mul(start, w.a_side.line)), w.a_side.k, w.a_side.line, block.depth, height,
                t.address(self.packed_a, t.mul(t.mul(i.index, block.words), ROWS * size)),
            )  # fmt: skip

    def panel_of_a(self, block: Block, i: Value, row: Value) -> tuple[Value, Value, Value]:
        """Address, distance of rows and step of k of one panel of A."""
        t, w, size = self.t, self.w, self.plan.size
        packed = t.address(self.packed_a, t.mul(t.mul(i, block.words), ROWS * size))
        near, step = constant("i64", size), constant("i64", ROWS * size)
        if not self._same(self.p.a.dtype):
            return packed, near, step
        where = t.address(self.a_here, t.mul(t.sub(row, self.a_first), w.a_side.line))
        return (
            t.select(self.a_direct, where, packed),
            t.select(self.a_direct, w.a_side.line, near),
            t.select(self.a_direct, w.a_side.k, step),
        )

    # -- one register tile ---------------------------------------------------------------------------------

    def share_of_next(self, block: Block, b: Value, i: Value, panels: Value) -> tuple[Value, Value]:
        """What tile i asks for of the panel of B behind this one, and how much of it with every k: memory is
        then read while there is enough to do, not all of it by the panel's first tile.
        """
        t, plan = self.t, self.plan
        row = plan.columns * plan.size
        behind = t.address(b, t.mul(self.w.k if self.p.packed else block.words, row))
        step = t.udiv(t.sub(t.add(panels, row), 1), panels)
        return t.address(behind, t.mul(t.mul(i, step), block.words)), step

    def one_tile(
        self, block: Block, j: Value, i: Value, panels: Value, row: Value, height: Value, line: Value
    ) -> None:
        t, plan, size = self.t, self.plan, self.plan.size
        a, a_row, a_step = self.panel_of_a(block, i, row)
        b = self.panel_of_b(block, j)
        width = t.smin(t.sub(block.columns, j), plan.columns)
        column = t.add(block.n0, j)
        spot = Spot(row, column, height, width)
        if self.waits:
            waiting = t.address(self.sums, t.mul(t.add(t.mul(line, plan.n_block), j), size))
            waiting_row = constant("i64", plan.n_block * size)
            direct = t.not_(block.last)
        else:
            waiting = self.finish.place(0, row, column)
            waiting_row = t.mul(self.w.n, size)
            direct = t.icmp("eq", width, plan.columns)
            if not self.plain:
                direct = t.and_(direct, t.not_(block.last))
        add = t.convert("zext", t.and_(direct, t.not_(block.first)), "i64")
        operands = (block.words, a, a_row, a_step, b, constant("i64", plan.columns * size))
        stream = self.share_of_next(block, b, i, panels)

        def in_memory() -> None:
            place = t.select(direct, waiting, self.tile)
            place_row = t.select(direct, waiting_row, constant("i64", plan.columns * size))
            call_micro(t, height, *operands, place, place_row, add, *stream, tall=self.forms)
            with t.when(t.not_(direct)):
                self.finish.tile(
                    self.tile, plan.columns, spot, waiting, waiting_row, block.first, block.last, self.waits
                )

        def in_registers(form: str) -> None:
            sums = whole_tile(t, plan, self.strides[form], *operands, waiting, waiting_row, add, *stream)
            self.finish.registers(sums, row, column, waiting, waiting_row, block.first)

        def whole() -> None:
            for form, condition in self.forms.items():
                with t.when(condition):
                    in_registers(form)

        if not self.short:
            in_memory()
            return
        full = t.and_(t.icmp("eq", height, ROWS), t.icmp("eq", width, plan.columns))
        t.either(t.and_(full, block.last), whole, in_memory)
