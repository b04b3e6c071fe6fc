"""The backward kernel: slopes of queries, keys and values, with the weights computed again.

A unit is one key head with all query heads that share it, so what it adds to the slopes of keys and values
is its own. Blocks of queries are taken in order: scores as in the forward kernel, weights from the kept
logarithm, then four products with them.

Words: q, k, v, out, below, slope of out, dq, dk, dv, mask, then `Problem.words`.
"""

from __future__ import annotations

from collections.abc import Sequence

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.attention.forward import KEYS, Block
from trilobite.compiler.targets.cpu.contraction.attention.problem import Problem
from trilobite.compiler.targets.cpu.contraction.gemm.micro import call_micro, emit_micro
from trilobite.compiler.targets.cpu.contraction.gemm.pack import Stored, emit_pack
from trilobite.compiler.targets.cpu.emit.exponential import exp
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import constant


@dataclass(frozen=True)
class _Head:
    """Addresses of one unit that are the same for all its blocks."""

    k: Value
    v: Value
    dk: Value
    dv: Value


@dataclass(frozen=True)
class _Scratch:
    queries: Value  # panel over features
    slopes: Value  # of the output, panel over value features
    scores: Value  # a block of keys
    products: Value  # slopes of the weights, then of the scores
    sums: Value  # slopes of the queries, panel over features


def backward_kernel(p: Problem, host: Host) -> NativeKernel:
    t = Text(host)
    b = Block(t, p)
    q, k, v, out, below, slope, dq, dk, dv = (t.argument(i, "ptr") for i in range(9))
    mask = t.argument(9, "ptr") if p.mask is not None else None
    sizes = [t.argument(i, "i64") for i in range(10, 14)]
    queries, keys = sizes[:2]
    emit_micro(t, p.plan)
    emit_pack(t, p.plan, "pack_rows", Stored(b.dtype), b.columns, exact=True)
    s = _scratch(b, t.scratch)
    wide, value_wide = p.features * b.size, p.value_features * b.size
    with t.loop(t.begin, t.end, name="unit") as unit:
        row = t.mul(unit.index, keys)
        head = _Head(
            t.address(k, t.mul(row, wide)), t.address(v, t.mul(row, value_wide)),
            t.address(dk, t.mul(row, wide)), t.address(dv, t.mul(row, value_wide)),
        )  # fmt: skip
        _clear(t, head.dk, t.mul(keys, wide))
        _clear(t, head.dv, t.mul(keys, value_wide))
        with t.loop(0, p.group, name="shared") as g:
            own = t.add(t.mul(unit.index, p.group), g.index)
            row_mask = b.mask_of(mask, own, sizes)
            with t.loop(0, queries, b.columns, name="block") as block:
                at = t.add(t.mul(own, queries), block.index)
                rows = t.smin(t.sub(queries, block.index), b.columns)
                here = (t.address(q, t.mul(at, wide)), t.address(slope, t.mul(at, value_wide)))
                _pack(b, here, s, rows)
                mean = _mean(b, t.address(out, t.mul(at, value_wide)), here[1], rows)
                kept = _load_rows(b, t.address(below, t.mul(at, b.size)), rows)
                with t.loop(0, p.features, name="clear") as f:
                    b.store([b.number(0.0)] * p.plan.vectors, s.sums, f.index)
                _over_keys(
                    b,
                    head,
                    s,
                    here,
                    (block.index, b.last_key(block.index, keys), rows),
                    (mean, kept),
                    row_mask,
                )
                b.rows_out(s.sums, p.features, t.address(dq, t.mul(at, wide)), rows)
    size = (2 * p.features + p.value_features + 2 * KEYS) * b.row
    return NativeKernel("attention_backward", t.module(), 1, size)


def _scratch(b: Block, base: Value) -> _Scratch:
    p, places, at = b.p, [], 0
    for rows in (p.features, p.value_features, KEYS, KEYS, p.features):
        places.append(b.t.address(base, at * b.row))
        at += rows
    return _Scratch(*places)


def _clear(t: Text, base: Value, size: Value) -> None:
    zero = constant("<16 x i8>", 0)
    with t.loop(0, size, 16, name="zero") as i:
        t.store_type(zero, t.address(base, i.index), 1)


def _pack(b: Block, here: Sequence[Value], s: _Scratch, rows: Value) -> None:
    pairs = ((here[0], b.p.features, s.queries), (here[1], b.p.value_features, s.slopes))
    for source, width, panel in pairs:
        b.t.call(
            "pack_rows", source, constant("i64", b.size), constant("i64", width * b.size),
            constant("i64", width), rows, panel,
        )  # fmt: skip


def _load_rows(b: Block, base: Value, rows: Value) -> list[Value]:
    t = b.t
    out = []
    for v in b.vectors:
        left = t.smin(t.smax(t.sub(rows, v * b.lanes), 0), b.lanes)
        out.append(t.load_partial(b.dtype, t.address(base, v * b.lanes, b.dtype), left, b.lanes))
    return out


def _mean(b: Block, out: Value, slope: Value, rows: Value) -> list[Value]:
    """Per query Σ_f out[f]·slope[f], gathered into lanes."""
    t, width = b.t, b.p.value_features
    mean = [b.number(0.0) for _ in b.vectors]
    for query in range(b.columns):
        near = t.smin(constant("i64", query), t.sub(rows, 1)) if query else constant("i64", 0)
        x, y = (t.address(base, t.mul(near, width * b.size)) for base in (out, slope))
        with t.loop(0, width, b.lanes, carried=[b.number(0.0)], name="mean") as f:
            a, c = (t.load_type(b.plan.vector, t.address(z, f.index, b.dtype), b.size) for z in (x, y))
            f.next(t.fma(a, c, f.values[0]))
        v, lane = divmod(query, b.lanes)
        mean[v] = t.insert(mean[v], t.sum_lanes(f.results[0]), lane)
    return mean


def _over_keys(
    b: Block, head: _Head, s: _Scratch, here: Sequence[Value], bounds: tuple[Value, Value, Value],
    of_query: tuple[Sequence[Value], Sequence[Value]], mask: Value | None,
) -> None:  # fmt: skip
    t, p = b.t, b.p
    first, last, rows = bounds
    wide, value_wide = p.features * b.size, p.value_features * b.size
    with t.loop(0, last, KEYS, name="keys") as block:
        count = t.smin(t.sub(last, block.index), KEYS)
        k, dk = (t.address(x, t.mul(block.index, wide)) for x in (head.k, head.dk))
        v, dv = (t.address(x, t.mul(block.index, value_wide)) for x in (head.v, head.dv))
        b.times_columns(k, p.features, s.queries, count, s.scores)
        b.times_columns(v, p.value_features, s.slopes, count, s.products)
        with t.loop(0, count, name="weights") as i:
            at = t.add(block.index, i.index)
            score = b.masked(b.load(s.scores, i.index), at, first, b.of_key(mask, at))
            weights = [exp(t, t.fsub(x, y), 1.0) for x, y in zip(score, of_query[1], strict=True)]
            slopes = [t.fsub(x, y) for x, y in zip(b.load(s.products, i.index), of_query[0], strict=True)]
            b.store(weights, s.scores, i.index)
            to_scores = [
                t.fmul(t.fmul(w, x), b.number(p.scale)) for w, x in zip(weights, slopes, strict=True)
            ]
            b.store(to_scores, s.products, i.index)
        b.add_weighted(k, p.features, s.products, count, s.sums)
        _add_outer(b, s.scores, here[1], p.value_features, count, rows, dv)
        _add_outer(b, s.products, here[0], p.features, count, rows, dk)


def _add_outer(
    b: Block, weights: Value, rows_in: Value, width: int, keys: Value, rows: Value, out: Value
) -> None:
    """out[key, f] += Σ_query weights[key, query]·rows[query, f], a strip of columns at a time."""
    t = b.t

    def tile(first: Value, count: Value) -> None:
        with t.loop(0, width, b.columns, name="strip") as f:
            call_micro(
                t, count, rows, t.address(weights, t.mul(first, b.row)), constant("i64", b.row),
                constant("i64", b.size), t.address(rows_in, f.index, b.dtype),
                constant("i64", width * b.size),
                t.address(out, t.add(t.mul(first, width), f.index), b.dtype), constant("i64", width * b.size),
                constant("i64", 1),
            )  # fmt: skip

    b.tiles(keys, tile)
