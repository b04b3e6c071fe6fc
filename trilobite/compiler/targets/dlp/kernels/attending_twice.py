"""Attention of halves in two passes over the keys: the first finds each query's largest score, the second
lets the matrix unit's drain take the exponentials.

The drain knows no exponential but a sigmoid, and far below zero they are one: sigmoid(y) = e^y / (1 + e^y).
With a bias that puts the largest score at -DISTANCE the drain gives e^(score - largest - DISTANCE), and the
constant factor falls out of the quotient. So the array multiplies keys and queries a second time, and the
vector unit, which an exponential passes eight times, has little to do. A column of ones beside the values
makes their product give the sum of the weights, too. The second pass begins where the first one ended: the
last two blocks of keys are still there.
"""

from __future__ import annotations

from math import exp
from typing import Any

from trilobite.processor.lang.python import arrangement
from trilobite.processor.lang.python.context import current
from trilobite.processor.lang.python.copies import BUILT_INS, copy, nram, sram, sync, wram
from trilobite.processor.lang.python.dtypes import NAMED
from trilobite.processor.lang.python.matrix import matmul
from trilobite.processor.lang.python.operations import TABLE, convert, emit, fill, intrinsic, view_of

f16, f32 = NAMED["f16"], NAMED["f32"]
task_id, task_dim, core_id = (BUILT_INS[name] for name in ("task_id", "task_dim", "core_id"))
add, largest_of, maximum, mul, recip = (TABLE[name] for name in ("add", "max", "maximum", "mul", "recip"))
HIDDEN = -1e30  # a score that no key reaches
DISTANCE = 11.0  # e^-DISTANCE is far below the last place of a half, and no half overflows at e^DISTANCE


@intrinsic
def scaled(dst: Any, a: Any, factor: float) -> None:
    """dst[i] = a[i] * factor in the format of dst, in one pass: a join of a with itself."""
    out, source = view_of("dst", dst, "scaled"), view_of("a", a, "scaled")
    steps = 0.0, 1.0, factor / 2, 0.0
    emit("VJOIN", [out, out.size, source, source, *steps], (out.fmt, source.fmt, source.fmt), ("",))


@intrinsic
def meet() -> None:
    """Waits for the cores of the cluster, and for what this one has begun."""
    current().barrier("cluster", "ipu")


def all_twice(
    q: Any, k: Any, v: Any, out: Any, heads: Any, group: Any, queries: Any, keys: Any, width: Any,
    values: Any, scale: Any, causal: Any, rows: Any, columns: Any, waits: Any, sharing: Any,
) -> None:  # fmt: skip
    """Each core takes blocks of queries. What the next one begins with comes while the last one ends. With
    `sharing` that many cores of a cluster have blocks of one head, and its keys and values in SRAM."""
    held, k0, k1 = wram(rows * width, f16), nram(columns * width, f16), nram(columns * width, f16)
    v0, v1 = nram(columns * (values + 1), f16), nram(columns * (values + 1), f16)
    factor, ones = nram(rows, f32), nram(columns, f16)
    fill(factor, scale)
    fill(ones, 1.0)
    copy(v0.view(columns, values + 1)[:, values:], ones.view(columns, 1))
    copy(v1.view(columns, values + 1)[:, values:], ones.view(columns, 1))
    blocks = (queries + rows - 1) // rows
    count = heads * blocks
    if task_id() < count:
        _begin(task_id(), q, k, held, k0, blocks, group, queries, keys, width, rows, columns, causal, sharing)
    for t in range(task_id(), count, task_dim()):
        head, first = t // blocks, (t % blocks) * rows
        m = min(rows, queries - first)
        from_, shared = head * queries + first, head // group * keys
        last = min(keys, first + m) if causal else keys
        if sharing:
            ks, vs = sram(keys * width, f16), sram(keys * values, f16)
            meet()  # who reads what lies there has done so
            _share(ks, k + shared * width, keys, width, sharing)
            meet()
            copy(k0[: min(columns, last) * width], ks[: min(columns, last) * width])
            _share(vs, v + shared * values, keys, values, sharing)
        kt = ks[:] if sharing else k + shared * width
        vt = vs[:] if sharing else v + shared * values
        result, s0, s1 = nram(rows * (values + 1), f32), nram(columns * rows, f32), nram(columns * rows, f32)
        fill(result[: m * (values + 1)], 0.0)
        bias = _tops(kt, s0, s1, k0, k1, held, m, first, last, scale, width, rows, columns, causal, waits)
        if sharing:
            meet()
        p0 = _weights(kt, vt, s0, s1, k0, k1, v0, v1, held, bias, factor, result, m, first, last, width,
                      values, rows, columns, causal, waits)  # fmt: skip
        _add_values(result, v0, p0, m, min(columns, last), values)
        if t + task_dim() < count:
            _begin(t + task_dim(), q, k, held, k0, blocks, group, queries, keys, width, rows, columns, causal,
                   sharing)  # fmt: skip
        _finish(out + from_ * values, result, m, values, rows)


def _begin(
    t: Any, q: Any, k: Any, held: Any, k0: Any, blocks: Any, group: Any, queries: Any, keys: Any, width: Any,
    rows: Any, columns: Any, causal: Any, sharing: Any,
) -> None:  # fmt: skip
    """The queries of a block and its first keys."""
    head, first = t // blocks, (t % blocks) * rows
    m = min(rows, queries - first)
    n = min(columns, min(keys, first + m) if causal else keys)
    from_, shared = head * queries + first, head // group * keys
    copy(held[: m * width], q[from_ * width : from_ * width + m * width])
    if not sharing:
        copy(k0[: n * width], k[shared * width : shared * width + n * width])


def _share(to: Any, source: Any, keys: Any, width: Any, cores: Any) -> None:
    """This core's part of what the cores of a cluster put into SRAM together."""
    part = (keys + cores - 1) // cores
    at = core_id() * part
    if at < keys:
        n = min(part, keys - at)
        copy(to[at * width : at * width + n * width], source[at * width : at * width + n * width])


def _finish(out: Any, result: Any, m: Any, values: Any, rows: Any) -> None:
    """Weighted values over the sum of the weights, which lies behind them."""
    total, weighted = result[values * m : values * m + m], result[: m * values].view(values, m)
    recip(total, total)
    mul(weighted, weighted, total)
    turned = nram(rows * values, f16)
    half = nram(rows * values, f16)
    convert(half[: m * values], result[: m * values])
    arrangement.transpose(turned[: m * values].view(m, values), half[: m * values].view(values, m))
    copy(out[: m * values], turned[: m * values])


def _tops(
    k: Any, s0: Any, s1: Any, k0: Any, k1: Any, held: Any, m: Any, first: Any, last: Any, scale: Any,
    width: Any, rows: Any, columns: Any, causal: Any, waits: Any,
) -> Any:  # fmt: skip
    """What is added to a query's scores before they are scaled: it puts the largest of them at -DISTANCE."""
    largest, sums = nram(rows, f32), nram(rows, f32)
    fill(largest[:m], HIDDEN)
    _score(s0, k0, held, None, None, m, min(columns, last), width)
    _fetch(k1, k, columns, last, columns, width)
    for j in range(0, last, 2 * columns):
        _top(j, s0, s1, k0, k1, k, held, largest, sums, m, first, last, width, columns, causal, waits)
        if j + columns < last:
            _top(
                j + columns,
                s1,
                s0,
                k1,
                k0,
                k,
                held,
                largest,
                sums,
                m,
                first,
                last,
                width,
                columns,
                causal,
                waits,
            )
    mul(largest[:m], largest[:m], -1.0)
    add(largest[:m], largest[:m], -DISTANCE / scale)
    return largest


def _top(
    j: Any, s: Any, s_next: Any, kb: Any, kb_next: Any, k: Any, held: Any, largest: Any, sums: Any, m: Any,
    first: Any, last: Any, width: Any, columns: Any, causal: Any, waits: Any,
) -> None:  # fmt: skip
    """The largest scores of block j, while block j + 1 is multiplied and the one behind it comes."""
    n = min(columns, last - j)
    if waits:  # now, or the next product waits for more than it must
        sync("vector")
    _hide(s, HIDDEN, j, first, m, n, causal)
    largest_of(sums[:m], s[: n * m].view(n, m), axis=0)
    if j + columns < last:
        _score(s_next, kb_next, held, None, None, m, min(columns, last - j - columns), width)
    _fetch(kb, k, j + 2 * columns, last, columns, width)
    maximum(largest[:m], largest[:m], sums[:m])


def _weights(
    k: Any, v: Any, s0: Any, s1: Any, k0: Any, k1: Any, v0: Any, v1: Any, held: Any, bias: Any, factor: Any,
    result: Any, m: Any, first: Any, last: Any, width: Any, values: Any, rows: Any, columns: Any,
    causal: Any, waits: Any,
) -> Any:  # fmt: skip
    """The second pass, from the last block of keys to the first: the values of all but this one are added to
    the result, and its weights are given."""
    p0, p1 = wram(columns * rows, f16), wram(columns * rows, f16)
    steps = (last + columns - 1) // columns
    end = (steps - 1) * columns
    if steps % 2 == 1:
        _score(s0, k0, held, bias, factor, m, last - end, width)
        _weigh(end, s0, s1, p0, p1, k0, k1, v0, v1, k, v, held, bias, result, m, first, last, factor,
               width, values, columns, causal, waits)  # fmt: skip
    else:
        _score(s1, k1, held, bias, factor, m, last - end, width)
    for pair in range(steps // 2):
        j = (steps // 2 - 1 - pair) * 2 * columns
        _weigh(j + columns, s1, s0, p1, p0, k1, k0, v1, v0, k, v, held, bias, result, m, first, last,
               factor, width, values, columns, causal, waits)  # fmt: skip
        _weigh(j, s0, s1, p0, p1, k0, k1, v0, v1, k, v, held, bias, result, m, first, last, factor,
               width, values, columns, causal, waits)  # fmt: skip
    return p0


def _weigh(
    j: Any, s: Any, s_next: Any, p: Any, p_last: Any, kb: Any, kb_next: Any, vb: Any, vb_last: Any, k: Any,
    v: Any, held: Any, bias: Any, result: Any, m: Any, first: Any, last: Any, factor: Any,
    width: Any, values: Any, columns: Any, causal: Any, waits: Any,
) -> None:  # fmt: skip
    """The weights of block j go to p, while those of the block before it are made, the values of the one
    behind it are added, and further keys and the values of this one come."""
    n = min(columns, last - j)
    if waits:
        sync("vector", "move")
    _hide(s, 0.0, j, first, m, n, causal)
    scaled(s.cast(f16)[: n * m], s[: n * m], exp(DISTANCE))  # in place
    if j > 0:
        _score(s_next, kb_next, held, bias, factor, m, columns, width)
    if j + columns < last:
        _add_values(result, vb_last, p_last, m, min(columns, last - j - columns), values)
    if j >= 2 * columns:
        _fetch(kb, k, j - 2 * columns, last, columns, width)
    copy(vb.view(columns, values + 1)[:n, :values], v[j * values : (j + n) * values].view(n, values))
    copy(p[: n * m], s.cast(f16)[: n * m])


def _score(s: Any, keys: Any, held: Any, bias: Any, factor: Any, m: Any, n: Any, width: Any) -> None:
    """s[n][m] = keys[n] . queries[m], or with a bias the weights of these keys"""
    left, right = keys[: n * width].view(n, width), held[: m * width].view(m, width)
    if bias is None:
        matmul(s[: n * m].view(n, m), left, right, transpose_b=True)
    else:
        matmul(s[: n * m].view(n, m), left, right, bias=bias[:m], scale=factor[:m], activation="sigmoid",
               transpose_b=True)  # fmt: skip


def _fetch(buffer: Any, source: Any, at: Any, last: Any, columns: Any, width: Any) -> None:
    """Starts the copy of a block of keys, if there is one."""
    if at < last:
        n = min(columns, last - at)
        copy(buffer[: n * width], source[at * width : at * width + n * width])


def _hide(s: Any, value: Any, j: Any, first: Any, m: Any, n: Any, causal: Any) -> None:
    """Of keys behind a query."""
    if causal:
        for row in range(max(0, first + 1 - j), n):
            hidden = min(m, j + row - first)
            fill(s[row * m : row * m + hidden], value)


def _add_values(result: Any, vb: Any, weights: Any, m: Any, n: Any, values: Any) -> None:
    """The weighted values of a block, and behind them the sum of its weights, are added."""
    left, right = vb[: n * (values + 1)].view(n, values + 1), weights[: n * m].view(n, m)
    matmul(result[: m * (values + 1)].view(values + 1, m), left, right, accumulate=True, transpose_a=True)
