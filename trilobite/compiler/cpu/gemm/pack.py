"""Packing: lines of a matrix side by side, so that the register tile reads memory in the order it needs.

Enters: a `Text`, a `Tiling`, the dtype of the matrix and how many lines make a panel. Leaves: a function

    <name>(source, k_stride, line_stride, k, count, target)

that writes one panel, element (k, line) at k·width + line, from a matrix of any strides (in bytes), converted
to the dtype that the tile multiplies. A line is a row of A or a column of B. Of a panel with fewer lines than
its width the rest is zero where `exact`, else anything: nothing reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

from trilobite.base.dtypes import DType
from trilobite.compiler.cpu.emit.text import Text, Value
from trilobite.compiler.cpu.emit.types import constant, lanes_of, vector
from trilobite.compiler.cpu.gemm.convert import widen
from trilobite.compiler.cpu.gemm.operands import Along
from trilobite.compiler.cpu.gemm.scales import Scales
from trilobite.compiler.cpu.gemm.tiling import Tiling

_PARAMETERS = ("ptr noalias", "i64", "i64", "i64", "i64", "ptr noalias")


def emit_pack(
    t: Text,
    plan: Tiling,
    name: str,
    dtype: DType,
    width: int,
    exact: bool = False,
    along: Along | None = None,
) -> None:
    """With `along`, the matrix is quantised: two more parameters say where scales and zero points begin."""
    with t.function(name, _PARAMETERS + _grid(along)) as parameters:
        scales = Scales(t, along, dtype, *parameters[6:]) if along else None
        _Pack(t, plan, dtype, width, exact, parameters[:6], scales).emit()


def _grid(along: Along | None) -> tuple[str, ...]:
    return ("ptr noalias", "ptr noalias") if along else ()


def emit_pack_rows(t: Text, plan: Tiling, name: str, dtype: DType, along: Along | None = None) -> None:
    """<name>(source, k_stride, words, columns, target, panel): all whole panels of a matrix whose rows run on
    in memory. A few rows at a time, across all panels: then memory is read in long runs, page by page.
    """
    kinds = ("ptr noalias", "i64", "i64", "i64", "ptr noalias", "i64") + _grid(along)
    with t.function(name, kinds) as parameters:
        source, k_stride, words, columns, target, panel = parameters[:6]
        none = constant("i64", 0)
        scales = Scales(t, along, dtype, *parameters[6:]) if along else None
        one = _Pack(t, plan, dtype, plan.columns, False, (source, k_stride, none, none, none, target), scales)
        with t.loop(0, words, _ROWS_AT_ONCE, name="group") as group:
            rows = t.smin(t.sub(words, group.index), _ROWS_AT_ONCE)
            with t.loop(0, columns, plan.columns, name="panel") as j:
                here = t.address(source, t.mul(j.index, dtype.itemsize))
                there = t.mul(t.udiv(j.index, plan.columns), panel)
                with t.loop(group.index, t.add(group.index, rows), name="row") as row:
                    at = t.address(here, t.mul(t.mul(row.index, plan.depth), k_stride))
                    start = t.add(there, t.mul(row.index, plan.columns))
                    for first, lanes in _pieces(plan.columns, plan.lanes):
                        piece = t.address(at, first * dtype.itemsize)
                        word = one.words_beside(piece, lanes, t.add(j.index, first), row.index)
                        one.store(word, t.add(start, first))


_ROWS_AT_ONCE = 8


class _Pack:
    def __init__(
        self, t: Text, plan: Tiling, dtype: DType, width: int, exact: bool, parameters: Sequence[Value],
        scales: Scales | None,
    ) -> None:  # fmt: skip
        self.t, self.plan, self.dtype, self.width, self.exact = t, plan, dtype, width, exact
        self.scales = scales
        self.source, self.k_stride, self.line_stride, self.k, self.count, self.target = parameters

    def emit(self) -> None:
        t, one = self.t, self.dtype.itemsize
        whole = t.icmp("eq", self.count, self.width)
        beside = t.icmp("eq", self.line_stride, one)
        below = t.icmp("eq", self.k_stride, one)
        if self.exact:
            below = t.and_(below, whole)
        # Elements that no vector covers, from k = `done` on, are left to the loop over single ones.
        (done,) = t.either(
            beside,
            lambda: t.either(whole, lambda: [self.lines_beside()], lambda: [self.some_lines_beside()]),
            lambda: t.either(below, lambda: [self.lines_below()], lambda: [constant("i64", 0)]),
        )
        self.singles(done)

    # -- the three ways ------------------------------------------------------------------------------------

    def lines_beside(self) -> Value:
        """Lines stand side by side in memory: rows are copied."""
        t, depth = self.t, self.plan.depth
        pieces = _pieces(self.width, self.plan.lanes)
        words = t.udiv(self.k, depth)
        with t.loop(0, words, name="row") as row:
            at = t.address(self.source, t.mul(t.mul(row.index, depth), self.k_stride))
            start = t.mul(row.index, self.width)
            for first, lanes in pieces:
                piece = t.address(at, first * self.dtype.itemsize)
                word = self.words_beside(piece, lanes, constant("i64", first), row.index)
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
                value = widen(t, value, self.dtype, self.plan.stored)
                self.store(value, t.add(t.mul(row.index, self.width), first))
        return self.k

    def words_beside(self, at: Value, lanes: int, line: Value, k: Value) -> Value:
        if self.plan.depth == 1:
            return self.load(at, lanes, line, k, "line")
        t = self.t
        rows = [self.load(p, lanes, line, k, "line") for p in (at, t.address(at, self.k_stride))]
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
            # A square may be wider than the panel: what it writes too much, the next row overwrites.
            for i in range(lanes):
                row = t.add(t.mul(t.udiv(k.index, depth), self.width), i * self.width)
                for g, square in enumerate(squares):
                    self.store(square[i], t.add(row, g * lanes))
        return stop

    def square(self, lines: Sequence[Value], k: Value) -> list[Value]:
        rows = [self.words_below(line, k) for line in lines]
        return transpose(self.t, [*rows, *[rows[0]] * (self.plan.lanes - len(rows))])

    def words_below(self, line: Value, k: Value) -> Value:
        plan, t = self.plan, self.t
        at = t.address(t.address(self.source, t.mul(line, self.line_stride)), k, self.dtype)
        row = self.load(at, plan.lanes * plan.depth, line, k, "k")
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

    def load(self, at: Value, lanes: int, line: Value, k: Value, running: Along) -> Value:
        """Elements that run along lines or k from this one on, as the tile multiplies them."""
        t = self.t
        value = widen(t, t.load(self.dtype, at, lanes), self.dtype, self.plan.stored)
        if self.scales is None:
            return value
        steps = t.fsub(value, self.scales.zero(line, k, lanes, running))
        return t.fmul(steps, self.scales.scale(line, k, lanes, running))

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


# -- squares in registers ----------------------------------------------------------------------------------


def transpose(t: Text, rows: Sequence[Value]) -> list[Value]:
    """The columns of a square of vectors. Within 16-byte parts by interleaving, then whole parts change
    places: that is what vector units have single instructions for.
    """
    lanes = lanes_of(rows[0].type)
    bits = 64 if "double" in rows[0].type or "i64" in rows[0].type else 32
    part = min(128 // bits, lanes)
    groups = [_within_parts(t, rows[g : g + part], part) for g in range(0, lanes, part)]
    return [
        _gather_part(t, [group[j] for group in groups], q, part)
        for q in range(lanes // part)
        for j in range(part)
    ]


def _within_parts(t: Text, rows: Sequence[Value], part: int) -> list[Value]:
    """2 or 4 rows: per part, the columns of the little square that they make there."""
    if part == 2:
        return _zipped(t, rows[0], rows[1], part, 1)
    pairs = [_zipped(t, rows[i], rows[i + 1], part, 1) for i in (0, 2)]
    return [v for a, b in zip(*pairs, strict=True) for v in _zipped(t, a, b, part, 2)]


def _zipped(t: Text, a: Value, b: Value, part: int, run: int) -> list[Value]:
    return [t.shuffle(a, b, _zip_order(a, part, run, side)) for side in (0, 1)]


def _zip_order(a: Value, part: int, run: int, side: int) -> list[int]:
    """Within each part, the low (or high) half of both vectors, alternating in runs of `run` lanes."""
    lanes = lanes_of(a.type)
    order = []
    for start in range(side * part // 2, lanes, part):
        for at in range(start, start + part // 2, run):
            order += [*range(at, at + run), *range(at + lanes, at + lanes + run)]
    return order


def _gather_part(t: Text, vectors: Sequence[Value], q: int, part: int) -> Value:
    """Part q of each vector, one after the other."""
    lanes = lanes_of(vectors[0].type)
    mine = range(q * part, (q + 1) * part)
    if len(vectors) == 1:
        return vectors[0]
    pairs = [
        t.shuffle(a, b, [*mine, *(i + lanes for i in mine)])
        for a, b in zip(vectors[::2], vectors[1::2], strict=True)
    ]
    while len(pairs) > 1:
        pairs = [t.join(a, b) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
    return pairs[0]
