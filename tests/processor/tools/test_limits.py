"""What bounds a launch: each part of the machine in turn, and the machine that is faster there agrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trilobite import dlp
from trilobite.processor import Device
from trilobite.processor.machine import load_machine
from trilobite.processor.tools.limits import PARTS, limits, limits_text, sentence


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
    assert limits_text(run).splitlines()[3].startswith(part)


@dlp.kernel
def timed(x: dlp.gm[dlp.i32]):
    if dlp.atomic("add", x[:1], 1) > 0:
        x[1] = 1


def test_a_launch_whose_course_depends_on_time_is_not_replayed() -> None:
    dev = Device("dlp-m")
    run = dev.launch(timed, [dev.array(np.zeros(2, np.int32))], dim=(2, 1, 1))
    assert "may depend on time" in limits_text(run)
