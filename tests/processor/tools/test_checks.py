"""Checked launches: same outputs and cycles as unchecked ones, notes under faults, poison."""

from __future__ import annotations

import numpy as np
import pytest

from trilobite.base.errors import ProcessorFault
from trilobite.processor.device import Device
from trilobite.processor.tools.findings import CheckFailed

MATMUL = """
    // every task multiplies its own rows, in two tiles, ping-pong
    .entry main
    main:
        SREAD $40, #taskId
        SMUL $41, $40, #1408        // 11 rows of 32 halves, two tiles
        SADD $0, $0, $41
        SMUL $41, $40, #1144        // 11 rows of 13 floats, two tiles
        SADD $2, $2, $41
        LI $10, #nram(0)
        LI $11, #nram(1024)
        LI $12, #nram(8192)
        LI $13, #wram(0)
        SMOVE $20, #352
        SMOVE $21, #416
        SMOVE $22, #143
        SMOVE $3, #11
        SMOVE $4, #13
        SMOVE $5, #32
        MLOAD.f16 $13, $21, $1, #0
        VLOAD.f16 $10, $20, $0, #0
        SYNC.io
        VLOAD.f16 $11, $20, $0, #704
        MM.f32.f16.f16.relu $12, $10, $13, $3, $6
        SYNC.matrix
        VMS $12, $22, $12, #0.5
        SYNC.vector
        VSTORE $12, $22, $2, #0
        SYNC.io
        MM.f32.f16.f16.relu $12, $11, $13, $3, $6
        SYNC.matrix
        VMS $12, $22, $12, #0.5
        SYNC.vector
        VSTORE $12, $22, $2, #572
"""


def launch(source: str = MATMUL, machine: str = "dlp-m", tasks: int = 20, **options):
    device = Device(machine)
    rng = np.random.default_rng(3)
    a = rng.standard_normal((tasks * 22, 32)).astype(np.float16)
    b = rng.standard_normal((32, 13)).astype(np.float16)
    out = device.empty((tasks * 22, 13))
    args = [device.array(a), device.array(b), out]
    run = device.launch(device.load(source)["main"], args, dim=(tasks, 1, 1), **options)
    expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0) / 2
    return run, out.numpy(), expected


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m", "mlu270"])
def test_cycles_and_outputs_do_not_change(machine: str) -> None:
    plain, out, expected = launch(machine=machine, checks=False)
    assert np.allclose(out, expected, rtol=1e-3, atol=1e-3)
    for options in ({"checks": True}, {"checks": True, "poison": True}):
        watched, same, _ = launch(machine=machine, **options)
        assert (same == out).all()
        assert watched.cycles == plain.cycles and watched.instructions == plain.instructions
        assert [row.cycles for row in watched.stalls] == [row.cycles for row in plain.stalls]
        assert watched.energy.joules == pytest.approx(plain.energy.joules, rel=1e-12)  # in another order


def test_a_device_decides_unless_a_launch_does(monkeypatch) -> None:
    wrong = MATMUL.replace("SYNC.matrix\n", "", 1)
    launch(wrong, tasks=1)
    monkeypatch.setattr(Device, "checks", True)
    with pytest.raises(CheckFailed):
        launch(wrong, tasks=1)
    launch(wrong, tasks=1, checks=False)


def test_poison_makes_a_missing_sync_visible() -> None:
    for queue in ("io", "matrix", "vector"):
        wrong = MATMUL.replace(f"SYNC.{queue}\n", "\n", 1)
        _, fine, expected = launch(wrong, tasks=1)
        assert np.allclose(fine, expected, rtol=1e-3, atol=1e-3)  # program order hides it
        _, poisoned, _ = launch(wrong, tasks=1, poison=True)
        assert not np.allclose(poisoned, expected, rtol=1e-3, atol=1e-3, equal_nan=True)
        with pytest.raises(CheckFailed):
            launch(wrong, tasks=1, poison=True, checks=True)


QUEUE = """
    .entry main
    main:
        LI $10, #nram(0)
        SMOVE $1, #8
        VSET $10, $1, #1
        {adds}
        {sync}
        VSTORE $10, $1, $0, #0
"""


@pytest.mark.parametrize("count", [1, 5, 40])
def test_a_queue_sees_its_own_results(count: int) -> None:
    """Also when it is longer than it is deep; whoever is outside sees the canary."""
    device = Device("dlp-m")
    out = device.empty(8)
    adds = "VAS $10, $1, $10, #1\n" * count
    right, wrong = (device.load(QUEUE.format(adds=adds, sync=sync))["main"] for sync in ("SYNC.vector", ""))
    device.launch(right, [out], poison=True, checks=True)
    assert (out.numpy() == count + 1).all()
    device.launch(wrong, [out], poison=True)
    assert np.isnan(out.numpy()).all()


def test_a_full_queue_has_finished_its_oldest() -> None:
    """Seventeen fills in a queue of sixteen: the first must be done, the others may not be."""
    device = Device("dlp-m")
    assert device.machine.core.queues.depth == 16
    out = device.empty((17, 4))
    fills = "\n".join("VSET $10, $1, #1\nSADD $10, $10, #16" for _ in range(17))
    source = f".entry main\nmain: LI $10, #nram(0)\nLI $11, #nram(0)\nSMOVE $1, #4\n{fills}\nSMOVE $2, #68"
    device.launch(device.load(source + "\nVSTORE $11, $2, $0, #0")["main"], [out], poison=True)
    assert (out.numpy()[0] == 1).all() and np.isnan(out.numpy()[1:]).all()


def test_the_end_of_a_task_waits_for_everything() -> None:
    device = Device("dlp-m")
    out = device.empty(8)
    device.launch(device.load(QUEUE.format(adds="", sync="SYNC.vector"))["main"], [out], poison=True)
    assert (out.numpy() == 1).all()


def test_poison_means_nothing_where_the_hardware_waits() -> None:
    device = Device("dlp-s")
    out = device.empty(8)
    device.launch(device.load(QUEUE.format(adds="", sync=""))["main"], [out], poison=True, checks=True)
    assert (out.numpy() == 1).all()


def test_findings_stand_under_a_fault() -> None:
    device = Device("dlp-m")
    data = device.array(np.ones(8, np.float32))
    source = """
        .entry main
        main: LI $10, #nram(0)
            SMOVE $1, #8
            VLOAD $10, $1, $0, #0
            VAV $10, $1, $10, $10
            TRAP #3
    """
    with pytest.raises(ProcessorFault, match="trapped with code 3") as caught:
        device.launch(device.load(source)["main"], [data], checks=True)
    assert not isinstance(caught.value, CheckFailed)
    notes = caught.value.__notes__
    assert len(notes) == 2 and all(note.startswith("before that, the checkers found:\n") for note in notes)


def test_many_findings_are_cut_short() -> None:
    loads = "\n".join(f"VLOAD $10, $1, $0, #0\nVAS $11, $1, $10, #{i}" for i in range(30))
    device = Device("dlp-m")
    data = device.array(np.ones(8, np.float32))
    source = f".entry main\nmain: LI $10, #nram(0)\nLI $11, #nram(64)\nSMOVE $1, #8\n{loads}"
    with pytest.raises(CheckFailed) as caught:
        device.launch(device.load(source)["main"], [data], checks=True)
    text = str(caught.value)
    assert text.startswith(f"the checkers found {len(caught.value.findings)} errors\nread after write")
    assert text.endswith(f"and {len(caught.value.findings) - 20} more")
