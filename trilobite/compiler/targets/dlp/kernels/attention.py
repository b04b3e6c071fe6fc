"""Attention as one routine: softmax(q k^T scale) v block by block, without ever holding all scores.

Enters: a call of the composite, whose operands lie row-major. Leaves: a routine in which each core takes
blocks of queries; of which sizes and in which way, T1 says: once over the keys (`attending.py`), or twice
with the matrix unit's drain for the exponentials (`attending_twice.py`).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from trilobite.base.dtypes import float16, float32
from trilobite.compiler.targets.dlp.interfaces import LoweredGroup
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.ir.graph import Equation
from trilobite.processor import Device
from trilobite.processor.lang.ir import KernelModule
from trilobite.processor.lang.scratchpad import ScratchpadOverflow, room_of
from trilobite.processor.machine import Machine
from trilobite.processor.sim.timing.arrays import product_cycles

if TYPE_CHECKING:
    from trilobite.processor.lang.python.kernel import Kernel

RATES = {float32: "fp32", float16: "fp16"}
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
    # few networks need the language of kernels
    from trilobite.compiler.targets.dlp.kernels.attending import kernel

    return kernel(a.dtype, {**meta, "sharing": blocks.sharing} if blocks.twice else meta)


def _cost(a: Attention, machine: Machine, cores: int, blocks: Blocks) -> float:
    """Cycles of the core with most blocks, about: the units work beside each other, but not always."""
    mfu, rate = machine.core.mfu, RATES[a.dtype]
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
