"""What bounds a launch: each part of the machine in turn, and the machine that is faster there agrees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trilobite import dlp
from trilobite.processor import Device
from trilobite.processor.isa.address import address
from trilobite.processor.isa.row import SRAM
from trilobite.processor.machine import load_machine
from trilobite.processor.tools.critical import critical_parts
from trilobite.processor.tools.limits import PARTS, limits, limits_text, sentence
from trilobite.processor.tools.roofs import roofline_points


def with_part(machine: Any, part: str, **values: Any) -> Any:
    """The machine with other figures in one of its parts."""
    if part.startswith("core."):
        name = part.removeprefix("core.")
        inner = replace(getattr(machine.core, name), **values)
        return replace(machine, core=replace(machine.core, **{name: inner}))
    return replace(machine, **{part: replace(getattr(machine, part), **values)})


VECTOR = "VEXP.f32 $10, $12, $10"
PRODUCT = "MM.f32.f32.f32 $10, $10, $11, $20, $24"


def loop(rounds: int, body: str) -> str:
    """Registers that programs name, and a loop of the body; the memory core leaves at once."""
    return f"""
        SREAD $2, #isMpu
        CBNZ #end, $2
        SREAD $3, #taskId
        SMUL $3, $3, #65536
        SADD $1, $3, $0
        LI $10, #nram(0)
        LI $11, #wram(0)
        LI $12, #4096
        LI $13, #16384
        LI $14, #sram(0)
        LI $15, #nram(65536)
        LI $16, #256
        LI $17, #16384
        SMOVE $7, #3
        SMOVE $8, #1000
        SMOVE $20, #64
        SMOVE $21, #64
        SMOVE $22, #64
        SMOVE $5, #{rounds}
        again:
        {body}
        SADD $5, $5, #-1
        CB #again, $5
        end: HALT
    """


@dlp.kernel
def nothing(x: dlp.gm[dlp.f32]):
    dlp.sync()


@dlp.kernel
def streams(x: dlp.gm[dlp.f32], *, tile: int = 16384):
    for i in range(4):
        at = (dlp.task_id() * 4 + i) * tile
        a = dlp.nram(tile, dlp.f32)
        dlp.copy(a, x[at : at + tile])


@dlp.kernel
def multiplies(x: dlp.gm[dlp.f32]):
    a, w, c = dlp.nram((128, 128), dlp.f32), dlp.wram((128, 128), dlp.f32), dlp.nram((128, 128), dlp.f32)
    for _ in range(32):
        dlp.matmul(c, a, w)


@dlp.kernel
def vectors(x: dlp.gm[dlp.f32]):
    a, b = dlp.nram(8192, dlp.f32), dlp.nram(8192, dlp.f32)
    for _ in range(32):
        dlp.exp(b, a)


@dlp.kernel
def scalars(x: dlp.gm[dlp.f32]):
    total = 1
    for i in range(20000):
        total = total * 3 + i
    x[0] = dlp.f32(total)


@dlp.kernel
def walks(x: dlp.gm[dlp.f32]):
    total = dlp.f32(0)
    for i in range(1000):
        total += x[i]
    x[0] = total


@dlp.kernel
def moves(x: dlp.gm[dlp.f32]):
    a, w = dlp.nram(16384, dlp.f32), dlp.wram(16384, dlp.f32)
    for _ in range(32):
        dlp.copy(w, a)


CASES: list[tuple[dlp.Kernel, int, str]] = [
    (nothing, 1, "the launch"), (streams, 16, "DRAM bandwidth"), (moves, 1, "the move DMA"),
    (multiplies, 1, "the matrix unit"), (vectors, 1, "the vector unit"), (scalars, 1, "the scalar unit"),
    (walks, 1, "DRAM latency"),
]  # fmt: skip


def launched(kernel: dlp.Kernel, tasks: int, change: Callable[[Any], Any] = lambda machine: machine) -> Any:
    dev = Device(change(load_machine("dlp-m")))
    x = dev.array(np.zeros(1 << 20, np.float32))
    return dev.launch(kernel, [x], dim=(tasks, 1, 1))


@pytest.mark.parametrize(("kernel", "tasks", "part"), CASES, ids=[f"{k.name}{n}" for k, n, _ in CASES])
def test_the_sentence_names_the_part_that_counts(kernel: dlp.Kernel, tasks: int, part: str) -> None:
    run = launched(kernel, tasks)
    assert sentence(run).startswith(f"bound by {part}: twice as fast it saves ")
    found = {limit.part: limit for limit in limits(run)}
    assert found[part].saved > 0.25
    for name in (part, "the NoC"):  # a launch on the faster machine takes exactly that long
        assert launched(kernel, tasks, PARTS[name]).cycles == found[name].cycles
    assert limits_text(run).splitlines()[4].startswith(part)


@dlp.kernel
def timed(x: dlp.gm[dlp.i32]):
    if dlp.atomic("add", x[:1], 1) > 0:
        x[1] = 1


def test_a_launch_whose_course_depends_on_time_is_not_replayed() -> None:
    dev = Device("dlp-m")
    run = dev.launch(timed, [dev.array(np.zeros(2, np.int32))], dim=(2, 1, 1))
    assert "may depend on time" in limits_text(run)


# Each part in turn: a machine that is slow there, and a program that needs it. `$0` is an array of 4 MiB.
SLOW: dict[str, tuple[Callable[[Any], Any], str, dict[str, Any]]] = {
    "DRAM bandwidth": (
        lambda m: with_part(m, "dram", gb_per_s=20.0),
        loop(40, "COPY $10, $1, $13"), {"dim": (16, 1, 1)},
    ),
    "DMA in flight": (
        lambda m: with_part(m, "core.io_dma", outstanding=1), loop(40, "COPY $10, $1, $13"), {},
    ),
    "DRAM latency": (
        lambda m: with_part(m, "dram", latency_ns=4000.0),
        loop(20, "SMOVE $13, #64\nCOPY $10, $1, $13\nSYNC"), {},
    ),
    "the io DMA": (
        lambda m: with_part(m, "core.io_dma", bytes_per_cycle=2), loop(20, "COPY $10, $1, $13"), {},
    ),
    "the move DMA": (
        lambda m: with_part(m, "core.move_dma", bytes_per_cycle=4), loop(20, "COPY $11, $10, $13"), {},
    ),
    "the vector unit": (lambda m: m, loop(40, VECTOR), {}),
    "NRAM": (
        lambda m: with_part(m, "core.nram", bytes_per_cycle=8), loop(40, "VAV.f32 $10, $12, $10, $10"), {},
    ),
    "the matrix unit": (lambda m: m, loop(40, PRODUCT), {}),
    "WRAM": (lambda m: with_part(m, "core.wram", bytes_per_cycle=2), loop(40, PRODUCT), {}),
    "queue depth": (
        lambda m: with_part(m, "core.queues", depth=4),
        loop(20, "\n".join([*[VECTOR] * 8, *[PRODUCT] * 8, *["COPY $15, $1, $17"] * 8, "SYNC"])), {},
    ),
    "the scalar unit": (lambda m: m, loop(400, "SDIV $9, $8, $7\nSDIV $9, $8, $7"), {}),
    "SRAM": (
        lambda m: with_part(m, "sram", bytes_per_cycle=8, bus_bytes_per_cycle=8),
        loop(20, "COPY $10, $14, $13"), {"dim": (4, 1, 1), "task": "union1"},
    ),
    "the NoC": (
        lambda m: with_part(m, "noc", link_bytes_per_cycle=2),
        loop(20, f"LI $19, #{address(SRAM, 0, 2)}\nCOPY $14, $19, $13"), {},
    ),
    "barriers": (
        lambda m: replace(m, barrier_cycles=400),
        loop(40, "BARRIER.cluster.ipu"), {"dim": (4, 1, 1), "task": "union1"},
    ),
    "the launch": (lambda m: with_part(m, "launch", overhead_ns=50000.0), loop(2, "NOP"), {}),
}  # fmt: skip
ROOFS = ("DRAM bandwidth", "the matrix unit", "the vector unit")


@pytest.mark.parametrize("part", SLOW)
def test_limits_critical_path_and_roofline_agree(part: str) -> None:
    change, source, options = SLOW[part]
    machine = with_part(load_machine("dlp-m"), "launch", overhead_ns=1.0, round_ns=1.0)
    device = Device(change(machine))
    array = device.array(np.zeros(1 << 20, np.float32))
    run = device.launch(device.load(source), [array], checks=False, **options)
    found = limits(run)
    assert found[0].part == part and found[0].saved > 0.15
    path = critical_parts(run)
    assert next(iter(path)) == part and sum(path.values()) == run.cycles
    assert run.cycles >= run.roofline.cycles
    if part in ROOFS:
        assert run.roofline.part == part
        assert f"in {part}; roofline: " in limits_text(run) and limits_text(run).splitlines()[1].endswith(
            part
        )


def test_vector_work_counts_in_the_roofline_of_a_launch() -> None:
    run = launched(vectors, 1, lambda m: with_part(m, "launch", overhead_ns=1.0))
    point = roofline_points(run)[0]
    assert point.operations == 32 * 8192 == run.roofline.elements
    assert 0.05 < point.share * run.machine.cores <= 1.0
