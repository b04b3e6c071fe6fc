"""Parts that cores share: DRAM's channels, the dies of a part, the network to DRAM."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trilobite.base.errors import MachineError
from trilobite.processor import Device, Machine, load_machine

# every task reads 64 pieces of 512 bytes, $1 bytes apart, from $0 + task * $2
STRIDED = """
    SREAD $3, #taskId
    SMUL  $3, $3, $2
    SADD  $3, $3, $0
    LI    $10, #nram(0)
    SMOVE $4, #512
    SMOVE $20, #512
    SMOVE $21, $1
    SMOVE $22, #64
    COPY2 $10, $3, $4, $20
"""


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilobite.processor.device.Device.checks", False)


def machine(**changes: object) -> Machine:
    base = load_machine("dlp-m")
    slow = replace(base.dram, gb_per_s=24.0, latency_ns=0.0)
    quick = replace(base.core, io_dma=replace(base.core.io_dma, outstanding=10_000))
    return replace(base, dram=slow, core=quick, **changes)


def cycles(part: Machine, stride: int, step: int, tasks: int) -> int:
    device = Device(part)
    data = device.array(np.zeros(1 << 19, np.float32))
    run = device.launch(device.load(STRIDED), [data, stride, step], dim=(tasks, 1, 1))
    return run.cycles - part.cycles(part.launch.overhead_ns)


def test_transfers_meet_in_one_channel_and_pass_each_other_in_others() -> None:
    part = machine()
    turn = part.dram.burst_bytes * part.dram.channels
    alone = cycles(part, turn, 0, 1)  # all pieces in channel 0
    same = cycles(part, turn, turn, 4)
    apart = cycles(part, turn, part.dram.burst_bytes, 4)  # task i in channel i
    assert same > 3.5 * alone
    assert apart < 1.1 * alone


def test_bytes_spread_over_all_channels_have_all_of_them() -> None:
    part = machine()
    assert cycles(part, 512, 0, 1) < 0.35 * cycles(part, 512 * part.dram.channels, 0, 1)


def test_a_die_has_its_share_of_the_bandwidth() -> None:
    one, two = machine(), machine(chips=2)
    assert cycles(two, 512, 0, 4) > 1.8 * cycles(one, 512, 0, 4)  # four cores of cluster 0, on the first die
    assert cycles(two, 512, 0, 16) == pytest.approx(cycles(one, 512, 0, 16), rel=0.02)


def test_dram_behind_the_network_is_reached_over_its_links() -> None:
    base = machine()
    narrow = replace(base.noc, link_bytes_per_cycle=1)
    near, far = (machine(noc=replace(narrow, dram_at=at)) for at in ((0,), (3,)))
    assert cycles(near, 512, 0, 1) == cycles(base, 512, 0, 1)
    assert cycles(far, 512, 0, 1) > 2 * cycles(near, 512, 0, 1)
    links = replace(far.noc, link_bytes_per_cycle=64, hop_cycles=100)
    assert cycles(machine(noc=links), 512, 0, 1) == cycles(near, 512, 0, 1) + 2 * 100


def test_dram_beside_no_cluster_is_refused() -> None:
    with pytest.raises(MachineError, match="beside cluster 9, which is not there"):
        machine(noc=replace(load_machine("dlp-m").noc, dram_at=(9,)))
