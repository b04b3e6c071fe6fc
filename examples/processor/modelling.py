"""What modelling choices do to the figures: the MLU270's ladder, and each option on and off.

Enters: runs that have a published time. Leaves: two sections for `validate.py`. The MLU270 runs the six
steps of its published log by its own published rates, nothing fitted to them. Then the runs are timed
again with one option of the machine's description changed at a time, so that errors which cancel each
other are seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from trilobite import dlp
from trilobite.processor import Device, Machine, Run, load_machine

ROWS = 327680  # of the long operand; the other is 256 x 256
SIDE = 256
LADDER = {1: 4193.76, 2: 1311.53, 3: 84.49, 4: 13.06, 5: 12.40, 6: 12.20}
WHAT = {
    1: "scalar loops on GDRAM, 256 cubed", 2: "scalar loops on NRAM, 256 cubed",
    3: "the matrix unit of one core", 4: "over all cores", 5: "through SRAM", 6: "pipelined",
}  # fmt: skip


@dlp.kernel
def scalar(
    a: dlp.gm[dlp.i8], b: dlp.gm[dlp.i8], c: dlp.gm[dlp.f16], m: int, k: int, n: int
):  # fmt: skip
    """Three loops on GDRAM."""
    for i in range(m):
        for j in range(n):
            total = dlp.i32(0)
            for p in range(k):
                total += dlp.i32(a[i * k + p]) * dlp.i32(b[p * n + j])
            c[i * n + j] = dlp.f16(total)


@dlp.kernel
def near(
    a: dlp.gm[dlp.i8], b: dlp.gm[dlp.i8], c: dlp.gm[dlp.f16], m: int, k: int, n: int, *, room: int = 65536
):  # fmt: skip
    """The same on NRAM."""
    left, right, out = dlp.nram(room, dlp.i8), dlp.nram(room, dlp.i8), dlp.nram(room, dlp.f16)
    dlp.copy(left[: m * k], a[: m * k])
    dlp.copy(right[: k * n], b[: k * n])
    for i in range(m):
        for j in range(n):
            total = dlp.i32(0)
            for p in range(k):
                total += dlp.i32(left[i * k + p]) * dlp.i32(right[p * n + j])
            out[i * n + j] = dlp.f16(total)
    dlp.copy(c[: m * n], out[: m * n])


@dlp.kernel
def blocks(
    a: dlp.gm[dlp.i8], b: dlp.gm[dlp.i8], scale: dlp.gm[dlp.f32], c: dlp.gm[dlp.f16], m: int, k: int, n: int,
    *, rows: int = 256, room: int = 65536, cols: int = 256,
):  # fmt: skip
    """Blocks of rows, one after the other: load, multiply, store."""
    left, out, right = dlp.nram(room, dlp.i8), dlp.nram(room, dlp.f16), dlp.wram(room, dlp.i8)
    factors = dlp.nram(cols, dlp.f32)
    dlp.copy(right[: k * n], b[: k * n])
    dlp.copy(factors[:n], scale[:n])
    for i in range(dlp.task_id() * rows, m, dlp.task_dim() * rows):
        dlp.copy(left[: rows * k], a[i * k : i * k + rows * k])
        dlp.matmul(
            out[: rows * n].view(rows, n), left[: rows * k].view(rows, k), right[: k * n].view(k, n),
            scale=factors[:n],
        )  # fmt: skip
        dlp.copy(c[i * n : i * n + rows * n], out[: rows * n])


@dlp.kernel
def shared(
    a: dlp.gm[dlp.i8], b: dlp.gm[dlp.i8], scale: dlp.gm[dlp.f32], c: dlp.gm[dlp.f16], m: int, k: int, n: int,
    *, rows: int = 256, room: int = 65536, cols: int = 256, cores: int = 4,
):  # fmt: skip
    """The memory core loads the blocks of its cluster's cores to SRAM and stores theirs; nothing overlaps."""
    left, out, right = dlp.nram(room, dlp.i8), dlp.nram(room, dlp.f16), dlp.wram(room, dlp.i8)
    near_a, near_c = dlp.sram(cores * room, dlp.i8), dlp.sram(cores * room, dlp.f16)
    factors = dlp.nram(cols, dlp.f32)
    band = rows * cores
    clusters, core = dlp.task_dim() // dlp.core_dim(), dlp.core_id()
    memory = dlp.is_memory_core()
    if not memory:
        dlp.copy(right[: k * n], b[: k * n])
        dlp.copy(factors[:n], scale[:n])
    for i in range(dlp.task_id() // dlp.core_dim() * band, m, clusters * band):
        if memory:
            dlp.copy(near_a[: band * k], a[i * k : i * k + band * k])
        dlp.sync_cluster()
        if not memory:
            dlp.copy(left[: rows * k], near_a[core * rows * k : core * rows * k + rows * k])
            dlp.matmul(
                out[: rows * n].view(rows, n), left[: rows * k].view(rows, k), right[: k * n].view(k, n),
                scale=factors[:n],
            )  # fmt: skip
            dlp.copy(near_c[core * rows * n : core * rows * n + rows * n], out[: rows * n])
        dlp.sync_cluster()
        if memory:
            dlp.copy(c[i * n : i * n + band * n], near_c[: band * n])


@dlp.kernel
def pipelined(
    a: dlp.gm[dlp.i8], b: dlp.gm[dlp.i8], scale: dlp.gm[dlp.f32], c: dlp.gm[dlp.f16], m: int, k: int, n: int,
    *, rows: int = 128, room: int = 32768, weights: int = 65536, cols: int = 256, cores: int = 4,
):  # fmt: skip
    """Five stages: in step t the memory core loads block t and stores t - 4; a core takes t - 1, multiplies
    t - 2 and puts back t - 3."""
    left, out = dlp.nram((2, room), dlp.i8), dlp.nram((2, room), dlp.f16)
    right, factors = dlp.wram(weights, dlp.i8), dlp.nram(cols, dlp.f32)
    near_a, near_c = dlp.sram((2, cores * room), dlp.i8), dlp.sram((2, cores * room), dlp.f16)
    band = rows * cores
    clusters, core = dlp.task_dim() // dlp.core_dim(), dlp.core_id()
    mine, memory = dlp.task_id() // dlp.core_dim(), dlp.is_memory_core()
    steps = (m // band - mine + clusters - 1) // clusters
    if not memory:
        dlp.copy(right[: k * n], b[: k * n])
        dlp.copy(factors[:n], scale[:n])
    for t in range(steps + 4):
        if memory:
            if t < steps:
                first = (mine + t * clusters) * band
                dlp.copy_async(near_a[t % 2, : band * k], a[first * k : first * k + band * k])
            if t >= 4:
                first = (mine + (t - 4) * clusters) * band
                dlp.copy_async(c[first * n : first * n + band * n], near_c[t % 2, : band * n])
        else:
            if t >= 1 and t - 1 < steps:
                place = core * rows * k
                dlp.copy_async(left[(t - 1) % 2, : rows * k], near_a[(t - 1) % 2, place : place + rows * k])
            if t >= 2 and t - 2 < steps:
                dlp.matmul(
                    out[t % 2, : rows * n].view(rows, n), left[t % 2, : rows * k].view(rows, k),
                    right[: k * n].view(k, n), scale=factors[:n],
                )  # fmt: skip
            if t >= 3 and t - 3 < steps:
                place = core * rows * n
                dlp.copy_async(near_c[(t - 3) % 2, place : place + rows * n], out[(t - 3) % 2, : rows * n])
        dlp.sync_cluster()


def ladder_step(step: int, rows: int = ROWS, side: int = SIDE) -> Run:
    """One step on the MLU270: 1 to 3 on one core, 4 to 6 on all; cycles without data."""
    device = Device("mlu270")
    m = side if step <= 2 else rows
    kinds = ((m, "int8"), (side, "int8"), (m, "float16"))
    a, b, c = (device.empty((count, side), kind) for count, kind in kinds)
    if step <= 2:
        return device.time(scalar if step == 1 else near, [a, b, c, m, side, side])
    kernel: Any = {3: blocks, 4: blocks, 5: shared, 6: pipelined}[step]
    cores = device.machine.cores if step > 3 else 1
    task = f"union{device.machine.clusters}" if step >= 5 else "block"
    args = [a, b, device.empty((side,), "float32"), c, m, side, side]
    return device.time(kernel, args, dim=(cores, 1, 1), task=task)


def carried_over() -> Machine:
    """The MLU270 by its own published rates, with what the MLU370-X4's ladder calibrated."""
    machine, known = load_machine("mlu270"), load_machine("mlu370-x4")
    return replace(machine, core=replace(machine.core, scalar=known.core.scalar), launch=known.launch)


LADDER_TEXT = """
## The ladder of the MLU270

int8 operands, fp16 results: 256 cubed on one core, then {rows} x 256 x 256, as
`examples/processor/modelling.py` writes it for this part, timed without data. Nothing is fitted to these
rows. The calibration of the MLU370-X4 does not transfer: scalar code on GDRAM is faster on this part than
the X4's latencies say, on NRAM slower, and its steps with the matrix unit move {mb:.0f} MB in 12.2 ms at
best, a fifth of the part's own published bandwidth, which the model uses up. What held it back the log
does not say (its convolution instruction wants its operands in another layout).

| step | what | ours, ms | by its own rates alone, ms | published, ms | error |
|---|---|---|---|---|---|
"""


def ladder() -> str:
    machine, lines = carried_over(), []
    for step, published in LADDER.items():
        run = ladder_step(step)
        own, ours = run.seconds * 1e3, run.replay(machine).seconds * 1e3
        error = 100 * (ours / published - 1)
        lines.append(f"| {step} | {WHAT[step]} | {ours:.3f} | {own:.3f} | {published} | {error:+.1f}% |")
    moved = ROWS * SIDE * 3 / 1e6
    return LADDER_TEXT.format(rows=ROWS, mb=moved) + "\n".join(lines) + "\n"


# -- options -------------------------------------------------------------------------------------------------


def _dram(**values: Any) -> Callable[[Machine], Machine]:
    return lambda m: replace(m, dram=replace(m.dram, **values))


def _core(part: str, **values: Any) -> Callable[[Machine], Machine]:
    return lambda m: replace(m, core=replace(m.core, **{part: replace(getattr(m.core, part), **values)}))


def _defaults(m: Machine) -> Machine:
    """Without anything that was calibrated."""
    from trilobite.processor.machine.description import Launch, ScalarUnit

    unit = replace(m.core.scalar, scratchpad=ScalarUnit.scratchpad, dram=ScalarUnit.dram)
    return replace(m, core=replace(m.core, scalar=unit), launch=Launch())


ROWS_OF_DRAM = {
    "row_bytes": 2048, "banks": 16, "row_ns": 45.0, "refresh_interval_ns": 3900.0, "refresh_ns": 295.0,
    "efficiency": 0.92,
}  # fmt: skip
OPTIONS: dict[str, Callable[[Machine], Machine]] = {
    "DRAM without the efficiency of 0.85": _dram(efficiency=1.0),
    "DRAM with rows, banks and refresh; efficiency 0.92 for turnaround": _dram(**ROWS_OF_DRAM),
    "DRAM's latency doubled": lambda m: _dram(latency_ns=2 * m.dram.latency_ns)(m),
    "one transfer of a DMA in flight": _core("io_dma", outstanding=1),
    "taps of an image's pixels not folded into channels": _core("mfu", first_layer_fold=False),
    "queues of 256 instructions": _core("queues", depth=256),
    "instructions fetched through a cache of 32 KiB": _core("fetch", kib=32),
    "barriers of one cycle": lambda m: replace(m, barrier_cycles=1),
    "without the launch's overhead": lambda m: replace(m, launch=replace(m.launch, overhead_ns=0.0)),
    "our defaults in place of what was calibrated": _defaults,
}
ENERGY: dict[str, Callable[[Machine], Machine]] = {
    "half of the activations zero, not gated": lambda m: _zeros(m, "none"),
    "half of the activations zero, gated": lambda m: _zeros(m, "activations"),
    "2:4 sparse weights": _core("mfu", sparse=True),
}


def _zeros(m: Machine, gating: str) -> Machine:
    made = _core("mfu", zero_gating=gating)(m)
    return replace(made, activity=replace(made.activity, zero_activations=0.5))


OPTIONS_TEXT = """
## Options on and off

Each run again with one choice of the model changed, as errors beside the published time; the first line
is as the gates above have it, launch included. An error that a change makes smaller although the choice
it undoes is right cancels another one: without DRAM's efficiency step 4 comes closer and step 5 leaves.
What most of a run hangs on is the line with the largest change.
"""


def _error(run: Run, machine: Machine, time: Callable[[Run], float], published: float) -> str:
    return f"{100 * (time(run.replay(machine)) / published - 1):+.1f}%"


def options(runs: dict[str, tuple[Run, float]]) -> str:
    """`runs`: by name, with the published seconds."""
    head = ["option", *runs]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name, change in {"as the gates have it": lambda m: m, **OPTIONS}.items():
        cells = [_error(run, change(run.machine), lambda r: r.seconds, told) for run, told in runs.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "Energy of the same runs, in mJ with DRAM:", "", f"| option | {' | '.join(runs)} |"]
    lines.append("|" + "---|" * len(head))
    for name, change in {"as the gates have it": lambda m: m, **ENERGY}.items():
        joules = [run.replay(change(run.machine)).energy.total for run, _ in runs.values()]
        lines.append(f"| {name} | {' | '.join(f'{1e3 * j:.3f}' for j in joules)} |")
    return OPTIONS_TEXT + "\n" + "\n".join(lines) + "\n"
