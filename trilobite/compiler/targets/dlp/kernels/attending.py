"""Attention in one pass over the keys: a running maximum, and exponentials by the vector unit.

A block of queries stays in WRAM, blocks of keys and values pass by. Everything lies as [...][query], so that
what belongs to a query repeats along the rows. While the vector unit turns the scores of one block into
weights, the matrix unit multiplies the next block, and the one after that comes from memory.
"""

from __future__ import annotations

from typing import Any

from trilobite.base.dtypes import DType, float32
from trilobite.compiler.targets.dlp.kernels.attending_twice import HIDDEN, all_twice
from trilobite.processor.lang.python import arrangement
from trilobite.processor.lang.python.copies import BUILT_INS, copy, copy_async, nram, sync, wram
from trilobite.processor.lang.python.dtypes import NAMED, gm
from trilobite.processor.lang.python.kernel import Kernel
from trilobite.processor.lang.python.matrix import matmul
from trilobite.processor.lang.python.operations import TABLE, convert, fill, fma

f16, f32 = NAMED["f16"], NAMED["f32"]
task_id, task_dim, is_memory_core = (BUILT_INS[n] for n in ("task_id", "task_dim", "is_memory_core"))
add, exp, largest_of, maximum, mul, recip, sub, sum_of = (
    TABLE[name] for name in ("add", "exp", "max", "maximum", "mul", "recip", "sub", "sum")
)
SMALL = 1e-30  # below every sum of weights: the largest of them is 1


def kernel(dtype: DType, meta: dict[str, Any]) -> Kernel:
    """Of numbers of that type, with what is known when it is compiled; with `sharing` in two passes."""
    if "sharing" in meta:
        return Kernel(of_halves_twice, 2, meta)
    return Kernel(of_floats if dtype == float32 else of_halves, 2, meta)


def of_floats(
    q: gm[f32], k: gm[f32], v: gm[f32], out: gm[f32],  # type: ignore[valid-type]
    *, heads: int, group: int, queries: int, keys: int, width: int, values: int, scale: float, causal: bool,
    rows: int, columns: int, waits: bool,
) -> None:  # fmt: skip
    _all(q, k, v, out, f32, heads, group, queries, keys, width, values, scale, causal, rows, columns, waits)


def of_halves(
    q: gm[f16], k: gm[f16], v: gm[f16], out: gm[f16],  # type: ignore[valid-type]
    *, heads: int, group: int, queries: int, keys: int, width: int, values: int, scale: float, causal: bool,
    rows: int, columns: int, waits: bool,
) -> None:  # fmt: skip
    _all(q, k, v, out, f16, heads, group, queries, keys, width, values, scale, causal, rows, columns, waits)


def of_halves_twice(
    q: gm[f16], k: gm[f16], v: gm[f16], out: gm[f16],  # type: ignore[valid-type]
    *, heads: int, group: int, queries: int, keys: int, width: int, values: int, scale: float, causal: bool,
    rows: int, columns: int, waits: bool, sharing: int,
) -> None:  # fmt: skip
    if is_memory_core() == 0:
        all_twice(q, k, v, out, heads, group, queries, keys, width, values, scale, causal, rows, columns,
                  waits, sharing)  # fmt: skip


def _all(
    q: Any, k: Any, v: Any, out: Any, kind: Any, heads: Any, group: Any, queries: Any, keys: Any, width: Any,
    values: Any, scale: Any, causal: Any, rows: Any, columns: Any, waits: Any,
) -> None:  # fmt: skip
    factor = nram(rows, f32)
    fill(factor, scale)
    ones = None
    if kind is not f32:
        ones = nram(columns, kind)
        fill(ones, 1.0)
    blocks = (queries + rows - 1) // rows
    for t in range(task_id(), heads * blocks, task_dim()):
        head, first = t // blocks, (t % blocks) * rows
        m = min(rows, queries - first)
        from_, shared = head * queries + first, head // group * keys
        last = min(keys, first + m) if causal else keys
        result = _attend(q + from_ * width, k + shared * width, v + shared * values, kind, m, first, last,
                         factor, ones, width, values, rows, columns, causal, waits)  # fmt: skip
        turned = nram(rows * values, f32)
        arrangement.transpose(turned[: m * values].view(m, values), result[: m * values].view(values, m))
        if kind is f32:
            copy(out[from_ * values : from_ * values + m * values], turned[: m * values])
        else:
            half = nram(rows * values, kind)
            convert(half[: m * values], turned[: m * values])
            copy(out[from_ * values : from_ * values + m * values], half[: m * values])


def _attend(
    q: Any, k: Any, v: Any, kind: Any, m: Any, first: Any, last: Any, factor: Any, ones: Any, width: Any,
    values: Any, rows: Any, columns: Any, causal: Any, waits: Any,
) -> Any:  # fmt: skip
    """[values][query] of one block of queries over the keys up to `last`."""
    held, result = wram(rows * width, kind), nram(rows * values, f32)
    largest, total, before, sums = nram(rows, f32), nram(rows, f32), nram(rows, f32), nram(rows, f32)
    k0, k1 = nram(columns * width, kind), nram(columns * width, kind)
    v0, v1 = nram(columns * values, kind), nram(columns * values, kind)
    s0, s1 = nram(columns * rows, f32), nram(columns * rows, f32)
    p0, p1 = wram(columns * rows, kind), wram(columns * rows, kind)
    half = None if kind is f32 else nram(columns * rows, kind)
    n = min(columns, last)
    copy_async(held[: m * width], q[: m * width])
    copy_async(k0[: n * width], k[: n * width])
    fill(result[: m * values], 0.0)
    fill(largest[:m], HIDDEN)
    fill(total[:m], 0.0)
    sync("io")
    _score(s0, k0, held, factor, m, n, width)
    _fetch(k1, k, columns, last, columns, width)
    turned = result[: m * values].view(values, m)
    _weigh(0, s0, s1, p0, k0, k1, v0, k, v, half, held, largest, total, before, sums, m, first, last,
           factor, width, values, rows, columns, causal, waits)  # fmt: skip
    for j in range(columns, last, 2 * columns):
        _add_values(turned, v0, p0, kind, ones, total, before, m, columns, values)
        _weigh(j, s1, s0, p1, k1, k0, v1, k, v, half, held, largest, total, before, sums, m, first, last,
               factor, width, values, rows, columns, causal, waits)  # fmt: skip
        if j + columns < last:
            _add_values(turned, v1, p1, kind, ones, total, before, m, columns, values)
            _weigh(j + columns, s0, s1, p0, k0, k1, v0, k, v, half, held, largest, total, before, sums, m,
                   first, last, factor, width, values, rows, columns, causal, waits)  # fmt: skip
    steps = (last + columns - 1) // columns
    n = last - (steps - 1) * columns
    if steps % 2 == 1:
        _add_values(turned, v0, p0, kind, ones, total, before, m, n, values)
    else:
        _add_values(turned, v1, p1, kind, ones, total, before, m, n, values)
    maximum(total[:m], total[:m], SMALL)
    recip(total[:m], total[:m])
    mul(turned, turned, total[:m])
    return result


def _score(s: Any, keys: Any, held: Any, factor: Any, m: Any, n: Any, width: Any) -> None:
    """s[n][m] = keys[n] . queries[m] * scale"""
    left, right = keys[: n * width].view(n, width), held[: m * width].view(m, width)
    matmul(s[: n * m].view(n, m), left, right, scale=factor[:m], transpose_b=True)


def _fetch(buffer: Any, source: Any, at: Any, last: Any, columns: Any, width: Any) -> None:
    """Starts the copy of a block, if there is one."""
    if at < last:
        n = min(columns, last - at)
        copy_async(buffer[: n * width], source[at * width : at * width + n * width])


def _add_values(
    turned: Any, values: Any, weights: Any, kind: Any, ones: Any, total: Any, before: Any, m: Any, n: Any,
    width: Any,
) -> None:  # fmt: skip
    """What was added so far is scaled to the new maximum, and the weighted values of a block are added. Of
    rounded weights the sum is taken here, or what they are divided by would not be theirs."""
    mul(turned, turned, before[:m])
    if kind is not f32:
        mul(total[:m], total[:m], before[:m])
    sync("io")
    sync("move")
    left, right = values[: n * width].view(n, width), weights[: n * m].view(n, m)
    matmul(turned, left, right, accumulate=True, transpose_a=True)
    if kind is not f32:
        matmul(total[:m].view(1, m), ones[:n].view(1, n), right, accumulate=True)


def _weigh(
    j: Any, s: Any, s_next: Any, p: Any, kb: Any, kb_next: Any, vb: Any, k: Any, v: Any, half: Any, held: Any,
    largest: Any, total: Any, before: Any, sums: Any, m: Any, first: Any, last: Any, factor: Any, width: Any,
    values: Any, rows: Any, columns: Any, causal: Any, waits: Any,
) -> None:  # fmt: skip
    """Scores of block j in s become weights in p, while block j + 1 is multiplied and further ones come. The
    vector unit begins first: it has most to do. Weights are still under way to p at the end."""
    n = min(columns, last - j)
    block = s[: n * m].view(n, m)
    if causal:
        for row in range(max(0, first + 1 - j), n):
            hidden = min(m, j + row - first)
            fill(s[row * m : row * m + hidden], HIDDEN)
    largest_of(sums[:m], block, axis=0)
    maximum(sums[:m], sums[:m], largest[:m])
    sub(before[:m], largest[:m], sums[:m])
    exp(before[:m], before[:m])
    maximum(largest[:m], largest[:m], sums[:m])
    sub(block, block, largest[:m])
    if half is None:
        exp(s[: n * m], s[: n * m])
        _ahead(j, s_next, kb, kb_next, vb, k, v, held, m, last, factor, width, values, columns)
        _put(p[: n * m], s[: n * m], waits)
        sum_of(sums[:m], block, axis=0)
        fma(total[:m], total[:m], before[:m], sums[:m])
    else:  # below the maximum a difference x is rounded by |x| / 2048 at most, a weight by less than it has
        convert(half[: n * m], s[: n * m])
        exp(half[: n * m], half[: n * m])
        _ahead(j, s_next, kb, kb_next, vb, k, v, held, m, last, factor, width, values, columns)
        _put(p[: n * m], half[: n * m], waits)


def _put(weights: Any, source: Any, waits: Any) -> None:
    """Where nothing orders the units the scalar core goes on; elsewhere it does so anyhow."""
    if waits:
        copy_async(weights, source)
    else:
        copy(weights, source)


def _ahead(
    j: Any, s: Any, kb: Any, kb_next: Any, vb: Any, k: Any, v: Any, held: Any, m: Any, last: Any, factor: Any,
    width: Any, values: Any, columns: Any,
) -> None:  # fmt: skip
    """Beside the vector unit: the scores of block j + 1, the keys behind it, and the values of block j."""
    sync("io")
    if j + columns < last:
        _score(s, kb_next, held, factor, m, min(columns, last - j - columns), width)
    _fetch(kb, k, j + 2 * columns, last, columns, width)
    _fetch(vb, v, j, last, columns, values)
