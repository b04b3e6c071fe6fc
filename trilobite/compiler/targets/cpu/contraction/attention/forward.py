"""The forward kernel: blocks of queries against blocks of keys, with the softmax kept up on the way.

A unit is one head and as many queries as a panel of products has columns, one query per lane. So scores,
weights and sums of one key are vectors over queries, and no reduction crosses lanes. Scores of a block of
keys live in scratch memory; nothing as large as queries × keys is ever written.

Words: q, k, v, out, below (log of the sum of exponentials; only where it is kept), mask, `Problem.words`.
"""

from __future__ import annotations

from collections.abc import Sequence

from trilobite.base.dtypes import DType, bool_, uint8
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.attention.problem import Problem
from trilobite.compiler.targets.cpu.contraction.gemm.micro import call_micro, emit_micro
from trilobite.compiler.targets.cpu.contraction.gemm.pack import Stored, emit_pack
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS
from trilobite.compiler.targets.cpu.emit.exponential import exp
from trilobite.compiler.targets.cpu.emit.logarithm import log
from trilobite.compiler.targets.cpu.emit.squares import transpose
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant

KEYS = 96  # of a block: their scores stay in the first cache
INFINITY = float("inf")


class Block:
    """One block of queries of one head, in the text of a kernel: what forward and backward share."""

    def __init__(self, t: Text, p: Problem) -> None:
        self.t, self.p, self.plan = t, p, p.plan
        self.size, self.lanes, self.columns = p.plan.size, p.plan.lanes, p.plan.columns
        self.dtype = p.plan.accumulator
        self.row = self.columns * self.size  # bytes of one key's scores
        self.vectors = range(p.plan.vectors)

    def number(self, value: float) -> Value:
        return constant(self.plan.vector, value)

    def vector_at(self, base: Value, row: Value, v: int) -> Value:
        """The address of vector v of a row of a panel."""
        return self.t.address(base, self.t.add(self.t.mul(row, self.row), v * self.lanes * self.size))

    def load(self, base: Value, row: Value) -> list[Value]:
        align = self.lanes * self.size
        return [self.t.load_type(self.plan.vector, self.vector_at(base, row, v), align) for v in self.vectors]

    def store(self, values: Sequence[Value], base: Value, row: Value) -> None:
        for v, value in enumerate(values):
            self.t.store_type(value, self.vector_at(base, row, v), self.lanes * self.size)

    def tiles(self, rows: Value, call: object) -> None:
        """Runs `call(first row, number of rows)` for register tiles of up to six rows."""
        t = self.t
        with t.loop(0, rows, ROWS, name="tile") as i:
            call(i.index, t.smin(t.sub(rows, i.index), ROWS))  # type: ignore[operator]

    def times_columns(self, matrix: Value, width: int, panel: Value, rows: Value, out: Value) -> None:
        """out[row] = Σ_f matrix[row, f]·panel[f]: rows of a matrix with the queries' (or slopes') panel."""
        t = self.t
        span = constant("i64", width * self.size)

        def tile(first: Value, count: Value) -> None:
            call_micro(
                t, count, constant("i64", width), t.address(matrix, t.mul(first, span)), span,
                constant("i64", self.size), panel, constant("i64", self.row),
                t.address(out, t.mul(first, self.row)), constant("i64", self.row), constant("i64", 0),
            )  # fmt: skip

        self.tiles(rows, tile)

    def add_weighted(self, matrix: Value, width: int, weights: Value, keys: Value, out: Value) -> None:
        """out[f] += Σ_key matrix[key, f]·weights[key]: a panel over features."""
        t = self.t

        def tile(first: Value, count: Value) -> None:
            call_micro(
                t, count, keys, t.address(matrix, t.mul(first, self.size)), constant("i64", self.size),
                constant("i64", width * self.size), weights, constant("i64", self.row),
                t.address(out, t.mul(first, self.row)), constant("i64", self.row), constant("i64", 1),
            )  # fmt: skip

        self.tiles(constant("i64", width), tile)

    def masked(
        self, score: list[Value], key: Value, first_query: Value, bias: list[Value] | None
    ) -> list[Value]:
        """Scores of one key: scaled, and -inf where queries may not attend to it."""
        t, p = self.t, self.p
        out = [t.fmul(s, self.number(p.scale)) for s in score]
        if p.causal:
            for v in self.vectors:
                wide = f"<{self.lanes} x i64>"
                queries = t.lane_numbers(wide, t.add(first_query, v * self.lanes))
                seen = t.icmp("sge", queries, t.splat(key, self.lanes))
                out[v] = t.select(seen, out[v], self.number(-INFINITY))
        if bias is None or p.mask is None:
            return out
        if p.mask.dtype == bool_:
            return [t.select(b, s, self.number(-INFINITY)) for s, b in zip(out, bias, strict=True)]
        return [t.fadd(s, b) for s, b in zip(out, bias, strict=True)]

    def of_key(self, mask: Value | None, key: Value) -> list[Value] | None:
        """What a mask with one row for all queries says of a key."""
        t, p = self.t, self.p
        if mask is None or p.mask is None:
            return None
        if p.mask.dtype == bool_:
            return [t.splat(t.load(bool_, t.address(mask, key)), self.lanes)] * p.plan.vectors
        return [t.load_splat(self.dtype, t.address(mask, key, self.dtype), self.lanes)] * p.plan.vectors

    def mask_of(self, mask: Value | None, head: Value, sizes: Sequence[Value]) -> Value | None:
        """Where the part of the mask that belongs to a head begins; `sizes` as in `Problem.words`."""
        t, spread = self.t, self.p.spread
        if mask is None or self.p.mask is None or spread.period == 1:
            return mask
        queries, keys, repeats, period = sizes
        part = t.srem(t.sdiv(head, repeats), period)
        rows = t.mul(part, queries) if spread.by_query else part
        return t.address(mask, t.mul(rows, keys), self.p.mask.dtype)

    def last_key(self, first_query: Value, keys: Value) -> Value:
        """Behind the last key that any query of the block may attend to."""
        if not self.p.causal:
            return keys
        return self.t.smin(keys, self.t.add(first_query, self.columns))

    def rows_out(self, panel: Value, width: int, out: Value, rows: Value) -> None:
        """A panel over features written as rows, one per query: squares are transposed in registers."""
        whole = width // self.lanes * self.lanes
        with self.t.loop(0, whole, self.lanes, name="square") as f:
            self._square_out(panel, width, out, rows, f.index, self.lanes)
        if whole < width:
            self._square_out(panel, width, out, rows, constant("i64", whole), width - whole)

    def _square_out(
        self, panel: Value, width: int, out: Value, rows: Value, first: Value, features: int
    ) -> None:
        t, lanes, align = self.t, self.lanes, self.lanes * self.size
        for v in self.vectors:
            places = [self.vector_at(panel, t.add(first, i), v) for i in range(features)]
            square = [t.load_type(self.plan.vector, at, align) for at in places]
            square += [self.number(0.0)] * (lanes - features)
            for i, column in enumerate(transpose(t, square)):
                query = v * lanes + i
                with t.when(t.icmp("slt", constant("i64", query), rows)):
                    at = t.address(out, t.add(t.mul(constant("i64", query), width), first), self.dtype)
                    t.store_partial(self.dtype, column, at, None if features == lanes else features)


def forward_kernel(p: Problem, host: Host) -> NativeKernel:
    t = Text(host)
    b = Block(t, p)
    keep = p.half == "forward"
    q, k, v, out = (t.argument(i, "ptr") for i in range(4))
    below = t.argument(4, "ptr") if keep else None
    mask = t.argument(5, "ptr") if p.mask is not None else None
    sizes = [t.argument(i, "i64") for i in range(6, 10)]
    queries, keys = sizes[:2]
    emit_micro(t, p.plan)
    emit_pack(t, p.plan, "pack_queries", Stored(b.dtype), b.columns, exact=True)
    if p.mask is not None and p.spread.by_query:
        emit_pack(t, p.plan, "pack_mask", Stored(_as_number(p.mask.dtype)), b.columns, exact=True)
    panel = t.scratch
    scores = t.address(panel, p.features * b.row)
    sums = t.address(scores, KEYS * b.row)
    biases = t.address(sums, p.value_features * b.row)
    blocks = t.ceil_div(queries, b.columns)
    with t.loop(t.begin, t.end, name="unit") as unit:
        head = t.sdiv(unit.index, blocks)
        first = t.mul(t.srem(unit.index, blocks), b.columns)
        rows = t.smin(t.sub(queries, first), b.columns)
        shared = t.sdiv(head, p.group) if p.group > 1 else head
        at = t.add(t.mul(head, queries), first)
        size = constant("i64", b.size)
        t.call(
            "pack_queries", t.address(q, t.mul(at, p.features * b.size)), size,
            constant("i64", p.features * b.size), constant("i64", p.features), rows, panel,
        )  # fmt: skip
        with t.loop(0, p.value_features, name="clear") as f:
            b.store([b.number(0.0)] * p.plan.vectors, sums, f.index)
        parts = _Parts(
            t.address(k, t.mul(t.mul(shared, keys), p.features * b.size)),
            t.address(v, t.mul(t.mul(shared, keys), p.value_features * b.size)),
            b.mask_of(mask, head, sizes), panel, scores, sums, biases, keys, rows,
        )  # fmt: skip
        top, total = _over_keys(b, parts, first, b.last_key(first, keys))
        _finish(b, sums, total, t.address(out, t.mul(at, p.value_features * b.size)), rows)
        if below is not None:
            _keep_below(b, top, total, t.address(below, t.mul(at, b.size)), rows)
    scratch = (p.features + KEYS + p.value_features + KEYS * p.spread.by_query) * b.row
    return NativeKernel(f"attention_{p.half}", t.module(), 1, scratch)


def _as_number(dtype: DType) -> DType:
    """Truth values are bytes of 0 and 1 in memory."""
    return uint8 if dtype == bool_ else dtype


@dataclass(frozen=True)
class _Parts:
    """Addresses and sizes of one unit."""

    k: Value
    v: Value
    mask: Value | None
    panel: Value
    scores: Value
    sums: Value
    biases: Value
    keys: Value
    rows: Value


def _over_keys(b: Block, a: _Parts, first: Value, last: Value) -> tuple[list[Value], list[Value]]:
    """Blocks of keys in order. Leaves the largest score of every query, and the sum of exponentials."""
    t, p, n = b.t, b.p, b.plan.vectors
    start = [b.number(-INFINITY)] * n + [b.number(0.0)] * n
    with t.loop(0, last, KEYS, carried=start, name="keys") as block:
        count = t.smin(t.sub(last, block.index), KEYS)
        k = t.address(a.k, t.mul(block.index, p.features * b.size))
        v = t.address(a.v, t.mul(block.index, p.value_features * b.size))
        b.times_columns(k, p.features, a.panel, count, a.scores)
        top, total = block.values[:n], block.values[n:]
        highest = _mask_scores(b, a, first, block.index, count, top)
        safe = [t.select(t.fcmp("oeq", h, b.number(-INFINITY)), b.number(0.0), h) for h in highest]
        factor = [exp(t, t.fsub(old, s), 0.0) for old, s in zip(top, safe, strict=True)]
        added = _exponentials(b, a.scores, safe, count)
        total = [t.fma(s, f, x) for s, f, x in zip(total, factor, added, strict=True)]
        with t.when(t.icmp("sgt", block.index, 0)), t.loop(0, p.value_features, name="fade") as f:
            b.store(
                [t.fmul(x, y) for x, y in zip(b.load(a.sums, f.index), factor, strict=True)], a.sums, f.index
            )
        b.add_weighted(v, p.value_features, a.scores, count, a.sums)
        block.next(*highest, *total)
    return block.results[:n], block.results[n:]


def _mask_scores(
    b: Block, a: _Parts, first: Value, key: Value, count: Value, top: Sequence[Value]
) -> list[Value]:
    t, by_query = b.t, b.p.spread.by_query and a.mask is not None
    if by_query:
        _pack_biases(b, a, first, key, count)
    with t.loop(0, count, carried=tuple(top), name="mask") as i:
        at = t.add(key, i.index)
        bias = _biases(b, a, i.index) if by_query else b.of_key(a.mask, at)
        score = b.masked(b.load(a.scores, i.index), at, first, bias)
        b.store(score, a.scores, i.index)
        i.next(*(t.fmax(h, s) for h, s in zip(i.values, score, strict=True)))
    return i.results


def _pack_biases(b: Block, a: _Parts, first: Value, key: Value, count: Value) -> None:
    """The mask of these queries and a block of keys, with queries in the lanes as scores have them."""
    t, mask = b.t, b.p.mask
    assert mask is not None and a.mask is not None
    source = t.address(a.mask, t.add(t.mul(first, a.keys), key), mask.dtype)
    size = constant("i64", mask.dtype.itemsize)
    t.call("pack_mask", source, size, t.mul(a.keys, mask.dtype.itemsize), count, a.rows, a.biases)


def _biases(b: Block, a: _Parts, i: Value) -> list[Value]:
    assert b.p.mask is not None
    found = b.load(a.biases, i)
    return [b.t.fcmp("one", x, b.number(0.0)) for x in found] if b.p.mask.dtype == bool_ else found


def _exponentials(b: Block, scores: Value, safe: Sequence[Value], count: Value) -> list[Value]:
    t = b.t
    with t.loop(0, count, carried=[b.number(0.0)] * b.plan.vectors, name="exp") as i:
        e = [exp(t, t.fsub(x, s), 0.0) for x, s in zip(b.load(scores, i.index), safe, strict=True)]
        b.store(e, scores, i.index)
        i.next(*(t.fadd(total, x) for total, x in zip(i.values, e, strict=True)))
    return i.results


def _finish(b: Block, sums: Value, total: Sequence[Value], out: Value, rows: Value) -> None:
    """Divided by the sum of weights; where there are none, the sums are zeros and stay."""
    t = b.t
    one = [t.select(t.fcmp("oeq", s, b.number(0.0)), b.number(1.0), s) for s in total]
    with t.loop(0, b.p.value_features, name="divide") as f:
        b.store([t.fdiv(x, s) for x, s in zip(b.load(sums, f.index), one, strict=True)], sums, f.index)
    b.rows_out(sums, b.p.value_features, out, rows)


def _keep_below(b: Block, top: Sequence[Value], total: Sequence[Value], below: Value, rows: Value) -> None:
    t = b.t
    for v, (h, s) in enumerate(zip(top, total, strict=True)):
        nothing = t.fcmp("oeq", s, b.number(0.0))
        finite = t.fcmp("one", h, b.number(-INFINITY))
        value = t.fadd(t.select(finite, h, b.number(0.0)), log(t, t.select(nothing, b.number(1.0), s)))
        value = t.select(nothing, b.number(INFINITY), value)
        left = t.smax(t.sub(rows, v * b.lanes), 0)
        t.store_partial(b.dtype, value, t.address(below, v * b.lanes, b.dtype), t.smin(left, b.lanes))
