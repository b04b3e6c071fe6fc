"""Attention as a kernel: blocks of queries on every core, blocks of keys passing by, a running maximum.

Everything lies as [key or value][query], so that a query is a column of the matrix unit: the drain finds the
largest score of each column (MMTOP), the drain's functions take the exponentials and add them up (VSOFT). The
steps of all blocks are one sequence, and each has two parts. In the first one the scores of this step become
weights while the values of the step before are added, and the next keys come. In the second one the scores
of the next step are multiplied while the vector unit scales the sum to the new maximum, or finishes a block
of queries, and values come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trilobite.base.dtypes import DType, bfloat16, float16, float32
from trilobite.processor.lang.python import arrangement
from trilobite.processor.lang.python.context import current
from trilobite.processor.lang.python.copies import BUILT_INS, copy_async, nram, sram, sync, wram
from trilobite.processor.lang.python.dtypes import NAMED, gm
from trilobite.processor.lang.python.kernel import Kernel
from trilobite.processor.lang.python.matrix import matmul, matmul_top, softmax_weights
from trilobite.processor.lang.python.operations import TABLE, convert, emit, fill, fma, intrinsic, view_of

bf16, f16, f32 = (NAMED[name] for name in ("bf16", "f16", "f32"))
core_id, is_memory_core, task_id, task_dim = (
    BUILT_INS[name] for name in ("core_id", "is_memory_core", "task_id", "task_dim")
)
exp, maximum, mul, recip, sub = (TABLE[name] for name in ("exp", "maximum", "mul", "recip", "sub"))
LOWEST = -3.4028234663852886e38  # no score is below, but for -inf
SMALL = 1e-30  # below every sum of weights but that of no key: the largest of them is 1
FAR = 1 << 40  # a reach beyond every key


@dataclass(frozen=True)
class Plan:
    """What is known when the kernel is compiled: `group` heads of queries share one of keys, blocks have
    `rows` queries and `columns` keys, and `waits` says that nothing but SYNCs orders the machine's units."""

    heads: int
    group: int
    queries: int
    keys: int
    width: int
    values: int
    scale: float
    causal: bool
    rows: int
    columns: int
    waits: bool
    team: int = 1  # cores of a cluster that take blocks of one head, and get its keys and values from SRAM
    cores: int = 1  # of a cluster
    keeps: bool = False  # whether a core alone has the keys and values of a head in WRAM

    @property
    def has_home(self) -> bool:
        """Whether keys and values of a head come from DRAM once, to where several blocks find them."""
        return self.keeps or self.team > 1

    @property
    def blocks(self) -> int:
        """Of queries, in a head."""
        return -(-self.queries // self.rows)


@dataclass(frozen=True)
class Memory:
    """The operands, and the buffers of a core. `held` has the queries of two blocks, of which one may be
    under way; the homes of keys and values are in SRAM or WRAM."""

    q: Any
    k: Any
    v: Any
    out: Any
    key_home: Any
    value_home: Any
    held: Any
    keys: Any
    values: Any
    scores: Any
    result: Any
    turned: Any
    factor: Any
    top: Any  # the largest scores, with this step's
    before: Any  # without them
    change: Any  # what the last one costs: e to the power before - top
    sums: Any
    total: Any
    final: Any  # what the sum is multiplied by: 1, or at the end of a block one over the total


@intrinsic
def memory(q: Any, k: Any, v: Any, out: Any, kind: Any, plan: Plan) -> Memory:
    r, c = plan.rows, plan.columns
    homes: list[Any] = [None, None]
    if plan.has_home:
        home, count = (sram, plan.cores // plan.team) if plan.team > 1 else (wram, 1)
        homes = [home(count * plan.keys * n, kind) for n in (plan.width, plan.values)]
    vectors: list[Any] = [nram(r, f32) for _ in range(7)]
    near: list[Any] = [nram(c * plan.width, kind), nram(c * plan.values, kind), nram(c * r, f32)]
    near += [nram(plan.values * r, f32), nram(r * plan.values, kind)]
    return Memory(q, k, v, out, homes[0], homes[1], wram(2 * r * plan.width, kind), *near, *vectors)


@intrinsic
def meet(plan: Plan) -> None:
    """Waits for what this core has begun, and for the cores of the cluster."""
    if plan.waits:
        current().sync(())
    if plan.team > 1:
        current().barrier("cluster", "ipu")


@intrinsic
def spread(dst: Any, src: Any, mask: Any) -> None:
    """Starts the copy from SRAM to the same place of some cores."""
    emit(
        "COPYX",
        [view_of("dst", dst, "spread"), view_of("src", src, "spread"), src.nbytes, mask],
        is_async=True,
    )


def kernel(dtype: DType, plan: Plan) -> Kernel:
    """Of numbers of that type."""
    entry = {float32: of_floats, float16: of_halves, bfloat16: of_bfloats}[dtype]
    return Kernel(entry, 2, {"plan": plan})


def of_floats(q: gm[f32], k: gm[f32], v: gm[f32], out: gm[f32], *, plan: Plan) -> None:  # type: ignore[valid-type]
    _attend(q, k, v, out, f32, plan)


def of_halves(q: gm[f16], k: gm[f16], v: gm[f16], out: gm[f16], *, plan: Plan) -> None:  # type: ignore[valid-type]
    _attend(q, k, v, out, f16, plan)


def of_bfloats(q: gm[bf16], k: gm[bf16], v: gm[bf16], out: gm[bf16], *, plan: Plan) -> None:  # type: ignore[valid-type]
    _attend(q, k, v, out, bf16, plan)


def _attend(q: Any, k: Any, v: Any, out: Any, kind: Any, plan: Any) -> None:
    """All steps of a core: block t of queries from key j on, two of them in the loop because weights
    alternate between two buffers. The step before is t_old, j_old, and -1 if there is none; `turn` is where
    queries lie."""
    m = memory(q, k, v, out, kind, plan)
    p0, p1 = wram(plan.columns * plan.rows, kind), wram(plan.columns * plan.rows, kind)
    count = plan.heads * plan.blocks
    t, j, t_old, j_old, turn, is_odd = task_id(), 0, -1, 0, 0, False
    if is_memory_core() == 0 and t < count:
        _begin(m, t, plan)
        while t < count:
            t, j, t_old, j_old, turn = _step(m, p0, p1, t, j, t_old, j_old, turn, plan)
            is_odd = True
            if t < count:
                t, j, t_old, j_old, turn = _step(m, p1, p0, t, j, t_old, j_old, turn, plan)
                is_odd = False
        meet(plan)
        if is_odd:
            _add_values(m, p0, t_old, j_old, plan)
        else:
            _add_values(m, p1, t_old, j_old, plan)
        _finish(m, t_old, plan)
        if plan.waits:
            sync("vector")
        _store(m, t_old, 0, plan.rows, plan)


def _begin(m: Any, t: Any, plan: Any) -> None:
    """The scores of the first step."""
    _fetch_queries(m, t, 0, 0, plan.rows, plan)
    if plan.has_home:
        _bring(m.key_home, m.k, t, 0, plan.width, plan)
        meet(plan)
    _fetch(m.keys, m.key_home, m.k, t, 0, plan.width, plan)
    fill(m.factor, plan.scale)
    fill(m.top, LOWEST)
    fill(m.before, LOWEST)
    meet(plan)
    _score(m, t, 0, 0, plan)
    if plan.has_home:
        _bring_next(m, t, 0, plan)


def _step(m: Any, p: Any, p_old: Any, t: Any, j: Any, t_old: Any, j_old: Any, turn: Any, plan: Any) -> Any:
    """Both parts of a step; the next one, and this one as its step before."""
    count, stride = plan.heads * plan.blocks, task_dim()
    t_next, j_next = _following(t, j, plan)
    is_last = j_next == 0
    start, each = _share(t, j, plan)
    meet(plan)
    if t_old >= 0:
        _add_values(m, p_old, t_old, j_old, plan)
    _weigh(m, p, t, j, is_last, plan)
    if t_next < count:
        _fetch(m.keys, m.key_home, m.k, t_next, j_next, plan.width, plan)
    if plan.has_home:
        _bring(m.value_home, m.v, t, j, plan.values, plan)
    if t + stride < count:
        _fetch_queries(m, t + stride, 1 - turn, start, each, plan)
    turn_next = turn
    if is_last:
        turn_next = 1 - turn
    meet(plan)
    if t_next < count:
        _score(m, t_next, j_next, turn_next, plan)
        if plan.has_home:
            _bring_next(m, t_next, j_next, plan)
    _fetch(m.values, m.value_home, m.v, t, j, plan.values, plan)
    _settle(m, t, j, t_old, is_last, plan)
    if t >= stride:
        _store(m, t - stride, start, each, plan)
    return t_next, j_next, t, j, turn_next


def _following(t: Any, j: Any, plan: Any) -> Any:
    """The step behind block t of queries and key j."""
    t_next, j_next = t, j + plan.columns
    if j_next >= _reached(t, plan):
        t_next, j_next = t + task_dim(), 0
    return t_next, j_next


def _settle(m: Any, t: Any, j: Any, t_old: Any, is_last: Any, plan: Any) -> None:
    """The sum at the new maximum, or a finished block; and what the sum will be multiplied by."""
    queries = _queries(t, plan)
    if is_last:
        maximum(m.final[:queries], m.total[:queries], SMALL)
        recip(m.final[:queries], m.final[:queries])
    else:
        fill(m.final[:queries], 1.0)
    if j > 0:
        weighted = m.result[: plan.values * queries].view(plan.values, queries)
        mul(weighted, weighted, m.change[:queries])
    elif t_old >= 0:
        _finish(m, t_old, plan)
        if plan.waits:
            sync("vector")


def _index(t: Any, plan: Any) -> Any:
    """Which block of its head it is. Causal ones look at more keys the further behind they are, so that heads
    whose first block is of an odd turn are taken from behind."""
    index = t % plan.blocks
    if plan.causal and t // plan.blocks * plan.blocks // task_dim() % 2 == 1:
        index = plan.blocks - 1 - index
    return index


def _first(t: Any, plan: Any) -> Any:
    """The first query of a block in its head."""
    return _index(t, plan) * plan.rows


def _queries(t: Any, plan: Any) -> Any:
    """How many queries a block has."""
    return min(plan.rows, plan.queries - _first(t, plan))


def _reached(t: Any, plan: Any) -> Any:
    """How many keys a block of queries looks at, and the blocks of its team with it."""
    behind = (_index(t, plan) // plan.team + 1) * plan.team * plan.rows
    return min(plan.keys, behind, plan.queries) if plan.causal else plan.keys


def _keys(t: Any, j: Any, plan: Any) -> Any:
    """How many keys a step has."""
    return min(plan.columns, _reached(t, plan) - j)


def _share(t: Any, j: Any, plan: Any) -> Any:
    """The queries that a step fetches for the next block and stores of the one before: from which on, and how
    many. Nothing waits behind all of them in the queue that way."""
    steps = (_reached(t, plan) + plan.columns - 1) // plan.columns
    each = (plan.rows + steps - 1) // steps
    return j // plan.columns * each, each


def _fetch_queries(m: Any, t: Any, turn: Any, start: Any, each: Any, plan: Any) -> None:
    at = (t // plan.blocks * plan.queries + _first(t, plan) + start) * plan.width
    to = (turn * plan.rows + start) * plan.width
    size = min(each, _queries(t, plan) - start) * plan.width
    if size > 0:
        copy_async(m.held[to : to + size], m.q[at : at + size])


def _head(t: Any, plan: Any) -> Any:
    """The head of keys."""
    return t // plan.blocks // plan.group


def _part(t: Any, j: Any, plan: Any) -> Any:
    """The keys of a step that this core brings for its team: the first one, and how many."""
    n = _keys(t, j, plan)
    each = (n + plan.team - 1) // plan.team
    start = core_id() % plan.team * each if plan.team > 1 else 0
    return start, min(each, n - start)


def _place(plan: Any) -> Any:
    """Which of a cluster's teams this core belongs to."""
    return core_id() // plan.team if plan.team > 1 else 0


def _bring(home: Any, source: Any, t: Any, j: Any, width: Any, plan: Any) -> None:
    """This core's part of keys or values to SRAM, if the block before had not brought them."""
    before = t - task_dim()
    is_there = before >= 0
    if is_there:
        is_there = _head(before, plan) == _head(t, plan) and j + _keys(t, j, plan) <= _reached(before, plan)
    if not is_there:
        start, n = _part(t, j, plan)
        to, at = _place(plan) * plan.keys + j + start, _head(t, plan) * plan.keys + j + start
        if n > 0:
            copy_async(home[to * width : (to + n) * width], source[at * width : (at + n) * width])


def _bring_next(m: Any, t: Any, j: Any, plan: Any) -> None:
    """The keys of the step behind this one."""
    t_next, j_next = _following(t, j, plan)
    if t_next < plan.heads * plan.blocks:
        _bring(m.key_home, m.k, t_next, j_next, plan.width, plan)


def _fetch(to: Any, home: Any, source: Any, t: Any, j: Any, width: Any, plan: Any) -> None:
    """Keys or values of a step: from DRAM or WRAM, or this core's part from SRAM to all cores of its team."""
    if plan.team > 1:
        start, n = _part(t, j, plan)
        first = _place(plan)
        at, mask = first * plan.keys + j + start, ((1 << plan.team) - 1) << (first * plan.team)
        if n > 0:
            spread(to[start * width : (start + n) * width], home[at * width : (at + n) * width], mask)
    elif plan.keeps:
        n = _keys(t, j, plan)
        copy_async(to[: n * width], home[j * width : (j + n) * width])
    else:
        at, n = _head(t, plan) * plan.keys + j, _keys(t, j, plan)
        copy_async(to[: n * width], source[at * width : (at + n) * width])


def _score(m: Any, t: Any, j: Any, turn: Any, plan: Any) -> None:
    """[key][query] of products times the scale, and their largest."""
    n, queries = _keys(t, j, plan), _queries(t, plan)
    half = turn * (plan.rows * plan.width)
    left = m.keys[: n * plan.width].view(n, plan.width)
    right = m.held[half : half + queries * plan.width].view(queries, plan.width)
    reach = _first(t, plan) - j if plan.causal else FAR
    matmul_top(m.scores[: n * queries].view(n, queries), left, right, m.top[:queries], reach=reach,
               scale=m.factor[:queries], transpose_b=True)  # fmt: skip


def _weigh(m: Any, p: Any, t: Any, j: Any, is_last: Any, plan: Any) -> None:
    """Scores become weights, and what the maximum and the total are before the next step."""
    n, queries = _keys(t, j, plan), _queries(t, plan)
    top, before, change = m.top[:queries], m.before[:queries], m.change[:queries]
    sums, total = m.sums[:queries], m.total[:queries]
    fill(sums, 0.0)
    softmax_weights(p[: n * queries].view(n, queries), m.scores[: n * queries].view(n, queries), top, sums)
    sub(change, before, top)
    exp(change, change)
    if j == 0:
        maximum(total, sums, 0.0)
    else:
        fma(total, total, change, sums)
    if is_last:
        fill(m.top, LOWEST)
        fill(m.before, LOWEST)
    else:
        maximum(before, before, top)


def _add_values(m: Any, p: Any, t: Any, j: Any, plan: Any) -> None:
    """[value][query] of a step's weights times its values are added."""
    n, queries = _keys(t, j, plan), _queries(t, plan)
    left, right = m.values[: n * plan.values].view(n, plan.values), p[: n * queries].view(n, queries)
    weighted = m.result[: plan.values * queries].view(plan.values, queries)
    if j == 0:
        matmul(weighted, left, right, scale=m.final[:queries], transpose_a=True)
    else:
        matmul(weighted, left, right, accumulate=True, scale=m.final[:queries], transpose_a=True)


def _finish(m: Any, t: Any, plan: Any) -> None:
    """[query][value] in the format of the result."""
    queries = _queries(t, plan)
    size = plan.values * queries
    narrow = m.result.cast(m.turned.fmt)[:size]
    if m.turned.fmt is not m.result.fmt:
        convert(narrow, m.result[:size])
    turned = m.turned[:size].view(queries, plan.values)
    arrangement.transpose(turned, narrow.view(plan.values, queries))


def _store(m: Any, t: Any, start: Any, each: Any, plan: Any) -> None:
    at = (t // plan.blocks * plan.queries + _first(t, plan) + start) * plan.values
    size = min(each, _queries(t, plan) - start) * plan.values
    if size > 0:
        copy_async(m.out[at : at + size], m.turned[start * plan.values : start * plan.values + size])
