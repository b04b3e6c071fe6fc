"""Attention as one routine: softmax(q k^T scale) v block by block, without ever holding all scores.

Enters: a call of the composite, whose operands lie row-major. Leaves: a routine in which each core takes
blocks of queries (`attending.py`); of which sizes, T1 says.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from trilobite.base.dtypes import bfloat16, float16, float32
from trilobite.compiler.targets.dlp.interfaces import LoweredGroup
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.ir.graph import Equation
from trilobite.processor import Device
from trilobite.processor.lang.ir import KernelModule
from trilobite.processor.lang.scratchpad import ScratchpadOverflow, room_of
from trilobite.processor.machine import Machine
from trilobite.processor.sim.timing.arrays import product_cycles
from trilobite.processor.sim.timing.cost import free_functions

if TYPE_CHECKING:
    from trilobite.processor.lang.python.kernel import Kernel

RATES = {float32: "fp32", float16: "fp16", bfloat16: "bf16"}
ROWS = (512, 384, 320, 256, 192, 128, 96, 64, 48, 32, 16, 8)  # queries of a block
COLUMNS = (512, 384, 256, 192, 128, 64, 32, 16, 8)  # keys of a block
FINALISTS = 4  # sizes of blocks that T1 is asked about
STEP = 100  # cycles that a step costs whatever its size


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
    if len(kinds) != 1 or q.type.dtype not in RATES or not all(len(s) >= 2 and prod(s) for s in shapes):
        return None
    if RATES[q.type.dtype] not in machine.core.mfu.macs_per_cycle:
        return None
    (*lead, queries, width), (*keyed, keys, _), values = *map(extents, (q, k)), extents(v)[-1]
    heads, shared = prod(lead), prod(keyed)
    if extents(v)[:-1] != (*keyed, keys) or lead[:-1] != keyed[:-1] or heads % max(shared, 1):
        return None
    found = Attention(heads, heads // shared, queries, keys, width, values, float(options["scale"]),
                      bool(options["causal"]), q.type.dtype)  # fmt: skip
    return found if _fitting(found, machine, 1) else None


@dataclass(frozen=True)
class Blocks:
    """Queries and keys of a block; cores of a cluster that share keys in SRAM, 1 if each has its own; whether
    those of a head stay in WRAM."""

    rows: int
    columns: int
    team: int = 1
    keeps: bool = False

    def __str__(self) -> str:
        text = f"blocks of {self.rows} queries and {self.columns} keys"
        return text + f", {self.team} cores share keys" * (self.team > 1) + ", keys kept" * self.keeps


@lru_cache(maxsize=256)
def blocks_of(a: Attention, machine: Machine, cores: int) -> Blocks:
    """Of those that scratchpads hold and are expected to take least, the ones that T1 likes best."""
    found = sorted(_fitting(a, machine, cores), key=lambda blocks: _cost(a, machine, cores, blocks))[
        :FINALISTS
    ]
    return min(found, key=lambda blocks: cycles_of_blocks(a, machine, cores, blocks))


def _fitting(a: Attention, machine: Machine, cores: int) -> list[Blocks]:
    """Sizes whose buffers fit, no larger than the next one that holds everything, and the teams for each."""
    rows = [r for i, r in enumerate(ROWS) if r == ROWS[-1] or ROWS[i + 1] < a.queries]
    columns = [c for i, c in enumerate(COLUMNS) if c == COLUMNS[-1] or COLUMNS[i + 1] < a.keys]
    sizes = [(r, c) for r in rows for c in columns if _fits(a, machine, r, c)]
    found = dict[tuple[object, ...], Blocks]()
    for r, c in sizes:  # of equally many blocks the smallest, which are most alike
        blocks, steps = -(-a.queries // r), -(-a.keys // c)
        ways = [Blocks(r, c, team) for team in _teams(a, machine, cores, r)]
        if cores == 1 < blocks and _fits(a, machine, r, c, a.keys * (a.width + a.values) * a.dtype.itemsize):
            ways.append(Blocks(r, c, keeps=True))
        found.update(((blocks, steps, way.team, way.keeps), way) for way in ways)
    return list(found.values())


def _teams(a: Attention, machine: Machine, cores: int, rows: int) -> list[int]:
    """Cores of a cluster that have blocks of one head each time: all clusters are launched, and every core of
    one has as many blocks as the others."""
    blocks, each, found = -(-a.queries // rows), machine.cores_per_cluster, [1]
    if cores < machine.cores or machine.interlock == "ranges" or a.heads * blocks % each:
        return found
    for team in range(2, each + 1):
        if a.causal and team < each and blocks != team:
            continue  # two teams of a cluster would look at different numbers of keys
        homes = each // team * a.keys * (a.width + a.values) * a.dtype.itemsize
        if each % team == 0 and blocks % team == 0 and homes <= room_of(machine, "sram"):
            found.append(team)
    return found


def _fits(a: Attention, machine: Machine, rows: int, columns: int, kept: int = 0) -> bool:
    near, far = _bytes(a, rows, columns)
    far += kept
    pool = machine.core.pool_kib * 1024
    fits = near <= room_of(machine, "nram") and far <= room_of(machine, "wram")
    return fits and (not pool or near + far <= pool)


def _bytes(a: Attention, rows: int, columns: int) -> tuple[int, int]:
    """Of NRAM and of WRAM; a margin is for what lies at multiples of 64."""
    size = a.dtype.itemsize
    near = columns * (a.width + a.values) * size + 4 * columns * rows + rows * a.values * (4 + size)
    return near + 7 * 4 * rows + 1024, 2 * rows * (a.width + columns) * size + 256


def cycles_of_blocks(a: Attention, machine: Machine, cores: int, blocks: Blocks) -> int:
    """Cycles of the routine alone, without data; more than any where its buffers do not fit after all."""
    device, kernel = Device(machine), _kernel(a, machine, blocks)
    task = f"union{cores // machine.cores_per_cluster}" if blocks.team > 1 else "block"
    counts = a.heads * a.queries * a.width, *(a.heads // a.group * a.keys * n for n in (a.width, a.values))
    arrays = [device.empty((n,), a.dtype) for n in (*counts, a.heads * a.queries * a.values)]
    try:
        return device.time(kernel, arrays, dim=(cores, 1, 1), task=task).cycles
    except ScratchpadOverflow:
        return sys.maxsize


def _kernel(a: Attention, machine: Machine, blocks: Blocks) -> Kernel:
    # few networks need the language of kernels
    from trilobite.compiler.targets.dlp.kernels.attending import Plan, kernel

    return kernel(a.dtype, Plan(a.heads, a.group, a.queries, a.keys, a.width, a.values, a.scale, a.causal,
                                blocks.rows, blocks.columns, machine.interlock != "ranges", blocks.team,
                                machine.cores_per_cluster, blocks.keeps))  # fmt: skip


def _cost(a: Attention, machine: Machine, cores: int, blocks: Blocks) -> float:
    """Cycles of a core with as many blocks as any, about."""
    count, size = -(-a.queries // blocks.rows), a.dtype.itemsize
    busy = min(cores, a.heads * count)
    draw = machine.dram_bytes_per_cycle / busy * (count if blocks.keeps else blocks.team)
    total = 0.0
    for (rows, reached), times in _kinds(a, blocks).items():
        full, rest = divmod(reached, blocks.columns)
        total += times * full * _step(a, machine, rows, blocks.columns, draw)
        total += times * (_step(a, machine, rows, rest, draw) if rest else 0.0)
    begin: float = min(blocks.rows, a.queries) * a.width * size * busy / machine.dram_bytes_per_cycle
    return -(-a.heads * count // cores) * total / count + begin


def _kinds(a: Attention, blocks: Blocks) -> dict[tuple[int, int], int]:
    """Queries and keys of the blocks of a head, and how many are alike."""
    found = dict[tuple[int, int], int]()
    for first in range(0, a.queries, blocks.rows):
        rows = min(blocks.rows, a.queries - first)
        kind = rows, min(a.keys, first + rows) if a.causal else a.keys
        found[kind] = found.get(kind, 0) + 1
    return found


def _step(a: Attention, machine: Machine, rows: int, columns: int, draw: float) -> float:
    """Cycles of both parts of a step, or of its bytes at the rate at which this core draws keys from DRAM."""
    mfu, vfu, rate = machine.core.mfu, machine.core.vfu, RATES[a.dtype]
    free = free_functions(mfu, rate) or vfu.bytes_per_cycle / 4 / vfu.transcendental_passes
    first = product_cycles(mfu, rate, columns, rows, a.width), 4 * rows * a.values / vfu.bytes_per_cycle
    second = product_cycles(mfu, rate, a.values, rows, columns), rows * columns / free
    moved = columns * (a.width + a.values) * a.dtype.itemsize / draw
    return float(max(max(first) + max(second), moved) + STEP)


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
