"""Packing: lines of a matrix side by side, so that the register tile reads memory in the order it needs.

Enters: a `Text`, a `Tiling`, what the matrix is in memory and how many lines make a panel. Leaves: a function

    <name>(source, k_stride, line_stride, k, count, target)

that writes one panel, element (k, line) at k·width + line, from a matrix of any strides (in bytes), converted
to the dtype that the tile multiplies. A line is a row of A or a column of B. Of a panel with fewer lines than
its width the rest is zero where `exact`, else anything: nothing reads it. Quantised matrices have two more
parameters: where scales and zero points begin.
"""

from __future__ import annotations

from collections.abc import Sequence

from trilobite.base.dtypes import DType, int4, uint4
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.convert import widen
from trilobite.compiler.targets.cpu.contraction.gemm.nibbles import load_codes, load_nibbles
from trilobite.compiler.targets.cpu.contraction.gemm.operands import Along
from trilobite.compiler.targets.cpu.contraction.gemm.scales import Scales
from trilobite.compiler.targets.cpu.contraction.gemm.tiling import Plan
from trilobite.compiler.targets.cpu.emit.squares import transpose
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant, vector

_PARAMETERS = ("ptr noalias", "i64", "i64", "i64", "i64", "ptr noalias")
_ROWS_AT_ONCE = 8


@dataclass(frozen=True)
class Stored:
    """What the elements of a matrix are in memory."""

    dtype: DType
    along: Along | None = None  # quantised: what the scales run along
    nibbles: Along | None = None  # two to a byte along lines or k

    @property
    def parameters(self) -> tuple[str, ...]:
        """Of a packing function, beside its others: where scales and zero points begin."""
        return ("ptr noalias", "ptr noalias") if self.along else ()


def emit_pack(t: Text, plan: Plan, name: str, stored: Stored, width: int, *, exact: bool = False) -> None:
    with t.function(name, _PARAMETERS + stored.parameters) as parameters:
        _Pack(t, plan, stored, width, exact, parameters).emit()


def emit_pack_rows(t: Text, plan: Plan, name: str, stored: Stored) -> None:
    """<name>(source, k_stride, words, columns, panel, target): all whole panels of a matrix whose rows run on
    in memory. A few rows at a time, across all panels: then memory is read in long runs, page by page.
    """
    with t.function(name, _PARAMETERS + stored.parameters) as parameters:
        source, k_stride, words, columns, panel = parameters[:5]
        one = _Pack(t, plan, stored, plan.columns, False, parameters)
        with t.loop(0, words, _ROWS_AT_ONCE, name="group") as group:
            rows = t.smin(t.sub(words, group.index), _ROWS_AT_ONCE)
            with t.loop(0, columns, plan.columns, name="panel") as j:
                there = t.mul(t.udiv(j.index, plan.columns), panel)
                with t.loop(group.index, t.add(group.index, rows), name="row") as row:
                    at = t.address(source, t.mul(t.mul(row.index, plan.depth), k_stride))
                    start = t.add(there, t.mul(row.index, plan.columns))
                    for first, lanes in _pieces(plan.columns, plan.lanes):
                        word = one.words_beside(at, lanes, t.add(j.index, first), row.index)
                        one.store(word, t.add(start, first))


class _Pack:
    def __init__(
        self, t: Text, plan: Plan, stored: Stored, width: int, exact: bool, parameters: Sequence[Value]
    ) -> None:
        self.t, self.plan, self.dtype, self.width, self.exact = t, plan, stored.dtype, width, exact
        self.source, self.k_stride, self.line_stride, self.k, self.count, self.target = parameters[:6]
        self.nibbles = stored.nibbles
        self.scales = Scales(t, stored.along, stored.dtype, *parameters[6:]) if stored.along else None

    def emit(self) -> None:
        whole = self.t.icmp("eq", self.count, self.width)
        below = self.runs_on("k")
        if self.exact:
            below = self.t.and_(below, whole)
        # Elements that no vector covers, from k = `done` on, are left to the loop over single ones.
        (done,) = self.t.either(
            self.runs_on("line"),
            lambda: self.t.either(whole, lambda: [self.lines_beside()], lambda: [self.some_lines_beside()]),
            lambda: self.t.either(below, lambda: [self.lines_below()], lambda: [constant("i64", 0)]),
        )
        self.singles(done)

    def runs_on(self, axis: Along) -> Value:
        """Whether elements lie side by side along lines, or along k."""
        if self.nibbles:
            return constant("i1", int(axis == self.nibbles))
        stride = self.line_stride if axis == "line" else self.k_stride
        return self.t.icmp("eq", stride, self.dtype.itemsize)

    # -- the three ways ------------------------------------------------------------------------------------

    def lines_beside(self) -> Value:
        """Lines stand side by side in memory: rows are copied."""
        t, depth = self.t, self.plan.depth
        words = t.udiv(self.k, depth)
        with t.loop(0, words, name="row") as row:
            at = t.address(self.source, t.mul(t.mul(row.index, depth), self.k_stride))
            start = t.mul(row.index, self.width)
            for first, lanes in _pieces(self.width, self.plan.lanes):
                word = self.words_beside(at, lanes, constant("i64", first), row.index)
                self.store(word, t.add(start, first))
        return t.mul(words, depth)

    def some_lines_beside(self) -> Value:
        """The same for a panel that is cut off, where one instruction loads a part of a vector."""
        t, size = self.t, self.dtype.itemsize
        if self.plan.depth > 1 or self.scales or size < 4:
            return constant("i64", 0)
        with t.loop(0, self.k, name="row") as row:
            at = t.address(self.source, t.mul(row.index, self.k_stride))
            for first, lanes in _pieces(self.width, self.plan.lanes):
                left = t.smax(t.sub(self.count, first), 0)
                value = t.load_partial(self.dtype, t.address(at, first * size), left, lanes)
                value = widen(t, value, self.dtype, self.plan.operand)
                self.store(value, t.add(t.mul(row.index, self.width), first))
        return self.k

    def words_beside(self, row: Value, lanes: int, line: Value, k: Value) -> Value:
        """Words of consecutive lines; `row` is where the row k of line 0 begins."""
        if self.plan.depth == 1:
            return self.load(row, lanes, line, k, "line")
        t = self.t
        rows = [self.load(p, lanes, line, k, "line") for p in (row, t.address(row, self.k_stride))]
        pairs = t.shuffle(rows[0], rows[1], [i // 2 + lanes * (i % 2) for i in range(2 * lanes)])
        return t.define(vector("i32", lanes), f"bitcast {pairs.typed} to {vector('i32', lanes)}")

    def lines_below(self) -> Value:
        """Each line runs on in memory: squares are transposed in registers."""
        t, plan = self.t, self.plan
        lanes, depth = plan.lanes, plan.depth
        span = lanes * depth
        stop = t.and_(self.k, -span)
        numbers = [self.near(i) for i in range(self.width)]
        with t.loop(0, stop, span, name="square") as k:
            squares = [
                self.square(numbers[first : first + lanes], k.index) for first in range(0, self.width, lanes)
            ]
            for i in range(lanes):
                row = t.add(t.mul(t.udiv(k.index, depth), self.width), i * self.width)
                for g, square in enumerate(squares):
                    self.store(self.of_panel(square[i], g * lanes), t.add(row, g * lanes))
        return stop

    def of_panel(self, row: Value, first: int) -> Value:
        """A square may be wider than the panel: what it writes too much, the next row overwrites. Behind an
        exact panel stands another one, which somebody else may have written before.
        """
        left = self.width - first
        return self.t.shuffle(row, None, range(left)) if self.exact and left < self.plan.lanes else row

    def square(self, lines: Sequence[Value], k: Value) -> list[Value]:
        rows = [self.words_below(line, k) for line in lines]
        return transpose(self.t, [*rows, *[rows[0]] * (self.plan.lanes - len(rows))])

    def words_below(self, line: Value, k: Value) -> Value:
        plan, t = self.plan, self.t
        start = t.address(self.source, t.mul(line, self.line_stride))
        row = self.load(start, plan.lanes * plan.depth, line, k, "k")
        if plan.depth == 1:
            return row
        return t.define(plan.vector, f"bitcast {row.typed} to {plan.vector}")

    def singles(self, done: Value) -> None:
        t, plan = self.t, self.plan
        with t.loop(done, self.k, plan.depth, name="k") as k:
            at = t.address(self.source, t.mul(k.index, self.k_stride))
            row = t.mul(t.udiv(k.index, plan.depth), self.width)
            more = t.icmp("slt", t.add(k.index, 1), self.k)
            with t.loop(0, self.count, name="line") as line:
                place = t.address(at, t.mul(line.index, self.line_stride))
                self.store(self.word(place, more, line.index, k.index), t.add(row, line.index))
            if self.exact:
                with t.loop(self.count, self.width, name="line") as line:
                    self.store(constant(plan.element, 0), t.add(row, line.index))

    def word(self, at: Value, more: Value, line: Value, k: Value) -> Value:
        t = self.t
        first = self.load(at, 0, line, k, "all")
        if self.plan.depth == 1:
            return first
        (second,) = t.either(
            more,
            lambda: [self.load(t.address(at, self.k_stride), 0, line, k, "all")],
            lambda: [constant("i16", 0)],
        )
        low, high = t.convert("zext", first, "i32"), t.convert("zext", second, "i32")
        return t.or_(low, t.shl(high, 16))

    # -- elements ------------------------------------------------------------------------------------------

    def near(self, line: int) -> Value:
        """A line; beyond the last one, the last again, so that nothing outside is read."""
        t = self.t
        return t.smin(constant("i64", line), t.sub(self.count, 1)) if line else constant("i64", 0)

    def load(self, start: Value, lanes: int, line: Value, k: Value, running: Along) -> Value:
        """Elements as the tile multiplies them. Of those that run along lines or k, `start` is where the
        first of the whole row stands; a single one stands at `start` itself.
        """
        t = self.t
        value = widen(t, self.raw(start, lanes, line, k, running), self.dtype, self.plan.operand)
        if self.scales is None:
            return value
        steps = t.fsub(value, self.scales.zero(line, k, lanes, running))
        return t.fmul(steps, self.scales.scale(line, k, lanes, running))

    def raw(self, start: Value, lanes: int, line: Value, k: Value, running: Along) -> Value:
        t = self.t
        if self.nibbles:
            return load_nibbles(t, self.dtype, start, line if self.nibbles == "line" else k, lanes)
        at = start if running == "all" else t.address(start, line if running == "line" else k, self.dtype)
        if self.scales and self.dtype in (int4, uint4):
            return load_codes(t, self.dtype, at, lanes)
        return t.load(self.dtype, at, lanes)

    def store(self, value: Value, place: Value) -> None:
        size = self.plan.size
        self.t.store_type(value, self.t.address(self.target, self.t.mul(place, size)), size)


def _pieces(width: int, lanes: int) -> list[tuple[int, int]]:
    """(first, lanes) of vectors of power-of-two lengths that cover `width`."""
    out, at = [], 0
    while at < width:
        while lanes > width - at:
            lanes //= 2
        out.append((at, lanes))
        at += lanes
    return out
