"""Sweeps: replays where only time changes, launches where structure does, on any number of processes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError
from trilobite.processor import Device, Machine, Run, load_machine
from trilobite.processor.isa.formats import BF16, I4
from trilobite.processor.tools.sweep import grid, sweep

SOURCE = """
    LI $10, #nram(0)
    SMOVE $1, #4096
    VLOAD $10, $1, $0, #0
    VEXP $10, $1, $10
    VSTORE $10, $1, $0, #0
"""


def launch(machine: str | Machine) -> Run:
    device = Device(machine)
    return device.launch(device.load(SOURCE), [device.array(np.zeros(4096, np.float32))])


def test_points_are_what_a_launch_would_say() -> None:
    base = load_machine("dlp-s")
    machines = grid(base, {"dram.gb_per_s": [12.8, 25.6, 51.2], "core.vfu.bytes_per_cycle": [64, 128]})
    assert len(machines) == 6
    points = sweep(launch(base), machines)
    assert [point.name for point in points] == list(machines)
    for point in points:
        fresh = launch(machines[point.name])
        assert point.kind == "timing"
        assert (point.cycles, point.joules) == (fresh.cycles, pytest.approx(fresh.energy.total))
    assert points[0].cycles > points[-1].cycles


def test_processes_change_nothing(capsys) -> None:
    base = load_machine("dlp-s")
    machines = grid(base, {"dram.gb_per_s": [12.8, 25.6, 51.2]})
    run = launch(base)
    assert sweep(run, machines, workers=2) == sweep(run, machines, progress=True)
    assert "machines" in capsys.readouterr().out


def test_structural_points_are_launched_again() -> None:
    base = load_machine("dlp-s")
    machines = {"same": base, **grid(base, {"core.nram.kib": [1024]})}
    with pytest.raises(ArgumentError, match="changes the structure of the machine"):
        sweep(launch(base), machines)
    points = sweep(launch(base), machines, relaunch=launch)
    assert [point.kind for point in points] == ["timing", "structural"]
    with pytest.raises(ArgumentError, match=r"a machine has no field .dram\.gbs."):
        grid(base, {"dram.gbs": [1]})


def test_formats_keep_their_identity_behind_a_pickle() -> None:
    assert pickle.loads(pickle.dumps((BF16, I4))) == (BF16, I4)
    assert pickle.loads(pickle.dumps(BF16)) is BF16
