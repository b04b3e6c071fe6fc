"""Launches without data: what is refused, what is allowed, and that nothing is left behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import DataDependence, ProcessorFault
from trilobite.processor.device import Device
from trilobite.processor.sim.run import Run

from .test_ahead import long_program

LOAD = "LI $10, #nram(0)\nSMOVE $11, #64\nCOPY $10, $0, $11\nSYNC\n"  # 64 bytes of the array


@pytest.fixture(autouse=True)
def nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilobite.processor.device.Device.checks", False)


def both(source: str, machine: str = "dlp-m", **options: Any) -> tuple[Run, Run]:
    """Without data, then with it; the first leaves the array alone."""
    device = Device(machine)
    array = device.array(np.random.default_rng(2).standard_normal(1024).astype(np.float32))
    before = array.numpy().tobytes()
    timed = device.time(device.load(source), [array], **options)
    assert array.numpy().tobytes() == before
    run = device.launch(device.load(source), [array], **options)
    assert [c.records for c in timed.trace.cores] == [c.records for c in run.trace.cores]
    assert timed.cycles == run.cycles and timed.instructions == run.instructions
    return timed, run


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m", "mlu370-x4", "tpu-v1"])
@pytest.mark.parametrize("seed", range(3))
def test_random_programs_take_the_same_time(machine: str, seed: int) -> None:
    timed, run = both(long_program(5, seed), machine)
    assert timed.energy.joules == pytest.approx(run.energy.joules, rel=1e-12)
    assert timed.stalls == run.stalls


@pytest.mark.parametrize(
    "use, what",
    [
        ("CBZ #end, $1", "what it branches on"),
        ("BLT #end, $1, $2", "what it branches on"),
        ("SADD $3, $1, #5\nSE $4, $3, $2\nCBNZ #end, $4", "what it branches on"),
        ("SADD.f32 $3, $1, $1\nSCVT.i64.f32 $3, $3\nCB #end, $3", "what it branches on"),
        ("SLOAD.i64 $2, $1, #0", "an address"),
        ("SSTORE.i64 $2, $1, #0", "an address"),
        ("VAV.f32 $10, $1, $10, $10", "the operand n"),
        ("VAV.f32 $1, $11, $10, $10", "the operand dst"),
        ("SSTORE.i64 $1, $0, #0\nSLOAD.i64 $2, $0, #0\nCBZ #end, $2", "what it branches on"),
        ("LI $3, #nram(4096)\nSSTORE.i64 $1, $3, #0\nSLOAD.i64 $2, $3, #0\nJUMP $2", "what it branches on"),
    ],
)
def test_values_that_decide_are_refused(use: str, what: str) -> None:
    device = Device("dlp-m")
    array = device.array(np.zeros(64, np.float32))
    source = LOAD + "SLOAD.i64 $1, $10, #0\n" + use + "\nend: HALT"
    with pytest.raises(DataDependence) as caught:
        device.time(device.load(source), [array])
    text = str(caught.value)
    assert f"the time of this launch depends on data: {what} comes out of a tensor" in text
    assert "cluster 0 core 0, <text>:" in text and "launch it with data" in text
    assert not array.numpy().any()


@pytest.mark.parametrize(
    "use",
    [
        "VAS.f32 $10, $11, $10, $1",  # a scalar operand does not change the time
        "SADD $2, $1, $1\nSMOVE $2, #3\nCB #end, $2",  # written again by something known
        "SSTORE.i64 $1, $0, #0\nSMOVE $2, #1\nSSTORE.i64 $2, $0, #0\nSLOAD.i64 $3, $0, #0\nCB #end, $3",
        "LI $3, #nram(2048)\nSMOVE $2, #1\nSSTORE.i32 $2, $3, #0\nSLOAD.i32 $4, $3, #0\nCB #end, $4",
        "SLOAD.i64 $3, $0, #512\nSAND $3, $3, #1\nCB #end, $3",  # the host wrote it
    ],
)
def test_values_that_do_not_decide_are_allowed(use: str) -> None:
    both(LOAD + "SLOAD.f32 $1, $10, #0\n" + use + "\nend: HALT")


def test_unknown_scratchpads_are_no_source_of_decisions() -> None:
    device = Device("dlp-m")
    with pytest.raises(DataDependence):
        device.time(device.load("LI $1, #nram(0)\nSLOAD.i64 $2, $1, #0\nCBZ #end, $2\nend: HALT"))


def test_what_a_tensor_instruction_writes_is_unknown() -> None:
    device = Device("dlp-m")
    array = device.array(np.zeros(64, np.float32))
    source = (
        "LI $10, #nram(0)\nSMOVE $11, #64\nCOPY $0, $10, $11\nSYNC\nSLOAD.i64 $2, $0, #8\nCBZ #e, $2\ne: HALT"
    )
    with pytest.raises(DataDependence):
        device.time(device.load(source), [array])


def test_clusters_meet_and_broadcast_the_same() -> None:
    source = """
        SREAD $1, #isMpu
        CBZ #core, $1
        LI $10, #sram(0)
        SMOVE $11, #256
        COPY $10, $0, $11
        SYNC
        LI $12, #nram(1024)
        SMOVE $13, #15
        COPYX $12, $10, $11, $13
        SYNC
        BARRIER.cluster
        HALT
        core: BARRIER.cluster
        LI $12, #nram(1024)
        SMOVE $13, #64
        VAV.f32 $12, $13, $12, $12
        SREAD $2, #taskId
        SMUL $2, $2, #256
        SADD $2, $2, $0
        SMOVE $11, #256
        COPY $2, $12, $11
    """
    both(source, "dlp-m", dim=(8, 1, 1), task="union2")


def test_a_random_number_in_a_tensor_is_data_as_well() -> None:
    device = Device("dlp-m")
    source = (
        "LI $10, #nram(0)\nSMOVE $11, #8\nRV.f32 $10, $11\nSYNC\nSLOAD.u32 $2, $10, #0\nCBZ #e, $2\ne: HALT"
    )
    with pytest.raises(DataDependence):
        device.time(device.load(source))


def test_faults_are_those_of_a_launch() -> None:
    source = "SMOVE $11, #64\nLI $10, #nram(0)\nSMOVE $12, #7\nCOPY $10, $12, $11"
    texts = []
    for way in ("time", "launch"):
        device = Device("dlp-m")
        with pytest.raises(ProcessorFault) as caught:
            getattr(device, way)(device.load(source))
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_an_endless_loop_meets_the_limit() -> None:
    device = Device("dlp-m")
    with pytest.raises(ProcessorFault, match="limit of 100000 instructions"):
        device.time(device.load("again: JUMP #again"), limit=100_000)
