"""Attention as one routine: softmax(q k^T scale) v block by block, without ever holding all scores.

Enters: a call of the composite, whose operands lie row-major. Leaves: a routine in which each core takes
blocks of queries. A block stays in WRAM, blocks of keys and values pass by. Everything lies as [...][query],
so that what belongs to a query repeats along the rows. While the vector unit turns the scores of one block
into weights, the matrix unit multiplies the next block, and the one after that comes from memory. Halves
have a second way, in which the matrix unit does most of it: `attending_twice.py`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from trilobite.base.dtypes import float16, float32
from trilobite.compiler.targets.dlp.interfaces import LoweredGroup
from trilobite.compiler.targets.dlp.kernels.attending_twice import HIDDEN, all_twice
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.ir.graph import Equation
from trilobite.processor import Device
from trilobite.processor.lang.ir import KernelModule
from trilobite.processor.lang.python import arrangement
from trilobite.processor.lang.python.copies import BUILT_INS, copy, copy_async, nram, sync, wram
from trilobite.processor.lang.python.dtypes import NAMED, gm
from trilobite.processor.lang.python.kernel import Kernel
from trilobite.processor.lang.python.matrix import matmul
from trilobite.processor.lang.python.operations import TABLE, convert, fill, fma
from trilobite.processor.lang.scratchpad import ScratchpadOverflow, room_of
from trilobite.processor.machine import Machine
from trilobite.processor.sim.timing.arrays import product_cycles

f16, f32 = NAMED["f16"], NAMED["f32"]
task_id, task_dim, is_memory_core = (BUILT_INS[n] for n in ("task_id", "task_dim", "is_memory_core"))
add, exp, largest_of, maximum, mul, recip, sub, sum_of = (
    TABLE[name] for name in ("add", "exp", "max", "maximum", "mul", "recip", "sub", "sum")
)
KINDS = {float32: ("fp32", f32), float16: ("fp16", f16)}
SMALL = 1e-30  # below every sum of weights: the largest of them is 1
ROWS = (256, 192, 160, 128, 96, 64, 48, 32, 16, 8)  # queries of a block
COLUMNS = (256, 128, 64, 32, 16, 8)  # keys of a block
BYTES = {float32: 4 * 11, float16: 4 * 3 + 2 * 8}  # of a score that pass the vector unit: eight times for exp
BYTES_TWICE = 4 * 2  # of a score in two passes
SCALES = (2.0**-64, 2.0**64)  # between which two passes find their bias
FINALISTS = 6  # sizes of blocks that T1 is asked about
STEP = 500  # cycles that a block of keys costs whatever its size


@dataclass(frozen=True)
class Attention:
    """`group` heads of queries share one of keys and values."""

    heads: int
    group: int
    queries: int
    keys: int
    width: int
    values: int
    scale: float
    causal: bool
    dtype: Any


def attention_of(e: Equation, machine: Machine) -> Attention | None:
    """What a call asks for, if this routine runs it: no mask but the causal one, no dropout."""
    if e.attributes["name"] != "attention" or "options" not in e.attributes or len(e.inputs) != 3:
        return None
    options, (q, k, v) = dict(e.attributes["options"]), e.inputs
    shapes = [tuple(x.type.shape) for x in e.inputs]
    if options["p"] or options["masked"] or not all(isinstance(n, int) for s in shapes for n in s):
        return None
    kinds = {x.type.dtype for x in (*e.inputs, *e.outputs)}
    if len(kinds) != 1 or q.type.dtype not in KINDS or not all(len(s) >= 2 and prod(s) for s in shapes):
        return None
    if KINDS[q.type.dtype][0] not in machine.core.mfu.macs_per_cycle:
        return None
    (*lead, queries, width), (*keyed, keys, _), values = *map(extents, (q, k)), extents(v)[-1]
    heads, shared = prod(lead), prod(keyed)
    if extents(v)[:-1] != (*keyed, keys) or lead[:-1] != keyed[:-1] or heads % max(shared, 1):
        return None
    found = Attention(heads, heads // shared, queries, keys, width, values, float(options["scale"]),
                      bool(options["causal"]), q.type.dtype)  # fmt: skip
    return found if _fitting(found, machine) else None


@dataclass(frozen=True)
class Blocks:
    """Queries and keys of a block; whether the keys pass twice; how many cores share them in SRAM, 0 if each
    has its own."""

    rows: int
    columns: int
    twice: bool = False
    sharing: int = 0

    def __str__(self) -> str:
        text = f"blocks of {self.rows} queries and {self.columns} keys"
        return text + ", twice" * self.twice + ", shared in SRAM" * bool(self.sharing)


@lru_cache(maxsize=256)
def blocks_of(a: Attention, machine: Machine, cores: int) -> Blocks:
    """Of those that scratchpads hold and are expected to take least, the ones that T1 likes best."""
    found = list[Blocks]()
    for ways in (_fitting(a, machine, True), _fitting(a, machine), _twice(a, machine, cores)):
        found += sorted(ways, key=lambda blocks: _cost(a, machine, cores, blocks))[:FINALISTS]
    return min(dict.fromkeys(found), key=lambda blocks: cycles_of_blocks(a, machine, cores, blocks))


def _fitting(a: Attention, machine: Machine, shared: bool = False) -> list[Blocks]:
    """Sizes whose buffers fit; with `shared` those that may: a finished block lies where others were."""
    return [Blocks(r, c) for r in ROWS for c in COLUMNS if _fits(a, machine, r, c, shared)]


def _twice(a: Attention, machine: Machine, cores: int) -> list[Blocks]:
    """Sizes for two passes: of halves whose largest score is the largest after scaling. Where all cores of a
    cluster have blocks of one head they may share it."""
    if a.dtype != float16 or not SCALES[0] <= a.scale <= SCALES[1]:
        return []
    found, team = list[Blocks](), machine.cores_per_cluster
    for r in ROWS:
        blocks = -(-a.queries // r)
        is_one = cores > 1 < team and blocks % team == 0
        fits = is_one and 2 * a.keys * (a.width + a.values) <= room_of(machine, "sram")
        for c in COLUMNS:
            near = r * (a.values + 1) * 4 + 2 * c * (4 * r + 2 * (a.width + a.values + 1)) + 4 * r * 4
            if _has_room(machine, near, 2 * r * (a.width + 2 * c)):
                found.append(Blocks(r, c, True, team if fits else 0))
    return found


def cycles_of_blocks(a: Attention, machine: Machine, cores: int, blocks: Blocks) -> int:
    """Cycles of the routine alone, without data; more than any where its buffers do not fit after all."""
    device, kernel = Device(machine), _kernel(a, machine, blocks)
    task = f"union{cores // machine.cores_per_cluster}" if blocks.sharing else "block"
    counts = a.heads * a.queries * a.width, a.heads * a.keys * a.width, a.heads * a.keys * a.values
    arrays = [device.empty((n,), a.dtype) for n in (*counts, a.heads * a.queries * a.values)]
    try:
        return device.time(kernel, arrays, dim=(cores, 1, 1), task=task).cycles
    except ScratchpadOverflow:
        return sys.maxsize


def _kernel(a: Attention, machine: Machine, blocks: Blocks) -> Kernel:
    meta = {"heads": a.heads, "group": a.group, "queries": a.queries, "keys": a.keys, "width": a.width,
            "values": a.values, "scale": a.scale, "causal": a.causal, "rows": blocks.rows,
            "columns": blocks.columns, "waits": machine.interlock != "ranges"}  # fmt: skip
    if blocks.twice:
        return Kernel(_of_halves_twice, 2, {**meta, "sharing": blocks.sharing})
    return Kernel(_of_floats if a.dtype == float32 else _of_halves, 2, meta)


def _cost(a: Attention, machine: Machine, cores: int, blocks: Blocks) -> float:
    """Cycles of the core with most blocks, about: the units work beside each other, but not always."""
    mfu, rate = machine.core.mfu, KINDS[a.dtype][0]
    rows, columns = min(blocks.rows, a.queries), min(blocks.columns, a.keys)
    unit = product_cycles(mfu, rate, columns, rows, a.width) * (1 + blocks.twice)
    unit += product_cycles(mfu, rate, a.values, rows, columns)
    passed = columns * (BYTES_TWICE if blocks.twice else BYTES[a.dtype]) + 4 * a.values * (not blocks.twice)
    vector = rows * passed / machine.core.vfu.bytes_per_cycle
    step = max(unit, vector) + min(unit, vector) / 4 + STEP
    turns = -(-a.heads * -(-a.queries // rows) // cores)
    return float(
        turns * (-(-a.keys // columns) * step + 12 * rows * a.values / machine.core.vfu.bytes_per_cycle)
    )


def _fits(a: Attention, machine: Machine, rows: int, columns: int, shared: bool) -> bool:
    item, done = a.dtype.itemsize, rows * a.values
    halves = columns * rows * item if item != 4 else 0
    block = 2 * columns * (a.width + a.values) * item + 2 * columns * rows * 4 + halves
    turned = done * (4 if item == 4 else 4 + item)
    near = done * 4 + (max(block, turned) if shared else block + turned) + 10 * rows * 4 + 4096
    far = rows * a.width * item + 2 * columns * rows * item
    return _has_room(machine, near, far)


def _has_room(machine: Machine, near: int, far: int) -> bool:
    """For that many bytes of NRAM and of WRAM."""
    pool = machine.core.pool_kib * 1024
    fits = near <= room_of(machine, "nram") and far <= room_of(machine, "wram")
    return fits and (not pool or near + far <= pool)


def lower_attention(
    module: KernelModule, name: str, a: Attention, machine: Machine, cores: int
) -> LoweredGroup:
    """Adds the routine: pointers to q, k, v and the result."""
    blocks = blocks_of(a, machine, cores)
    made = _kernel(a, machine, blocks).module(machine)
    (function,) = made.functions.values()
    for buffer in made.buffers.values():
        buffer.name = f"{name}.{buffer.name}"
        module.add_buffer(buffer)
    function.name, function.is_entry, function.is_routine = name, False, True
    module.add_function(function)
    return LoweredGroup(name, "matrix", None, str(blocks))


def _of_floats(
    q: gm[f32], k: gm[f32], v: gm[f32], out: gm[f32],  # type: ignore[valid-type]
    *, heads: int, group: int, queries: int, keys: int, width: int, values: int, scale: float, causal: bool,
    rows: int, columns: int, waits: bool,
) -> None:  # fmt: skip
    _all(q, k, v, out, f32, heads, group, queries, keys, width, values, scale, causal, rows, columns, waits)


def _of_halves(
    q: gm[f16], k: gm[f16], v: gm[f16], out: gm[f16],  # type: ignore[valid-type]
    *, heads: int, group: int, queries: int, keys: int, width: int, values: int, scale: float, causal: bool,
    rows: int, columns: int, waits: bool,
) -> None:  # fmt: skip
    _all(q, k, v, out, f16, heads, group, queries, keys, width, values, scale, causal, rows, columns, waits)


def _of_halves_twice(
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
