"""Time without data: on the library's kernels and random modules, the records of a launch with data."""

from __future__ import annotations

import numpy as np
import pytest
from library import CASES
from random_modules import RandomModule

from trilobite.base.errors import DataDependence
from trilobite.processor import Device
from trilobite.processor.lang.codegen.compile import compile_module

REFUSED = {"embedding_gather", "nms"}  # addresses and branches from values of tensors


@pytest.fixture(autouse=True)
def nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilobite.processor.device.Device.checks", False)


def both(name: str, machine: str):
    """The run without data first: it may not change anything."""
    device = Device(machine)
    call = CASES[name](np.random.default_rng(5)).python
    args = [device.array(a) if isinstance(a, np.ndarray) else a for a in call.args]
    before = [a.numpy().tobytes() for a in args if hasattr(a, "numpy")]
    timed = device.time(call.kernel, args, dim=call.dim, task=call.task)
    assert before == [a.numpy().tobytes() for a in args if hasattr(a, "numpy")]
    return timed, device.launch(call.kernel, args, dim=call.dim, task=call.task)


@pytest.mark.parametrize("name", sorted(CASES))
def test_kernels_of_the_library_take_the_same_time(name: str) -> None:
    machine = "dlp-m"
    try:
        timed, run = both(name, machine)
    except DataDependence as refused:
        assert "comes out of a tensor" in str(refused)
        assert name in REFUSED
        return
    assert name not in REFUSED
    for a, b in zip(timed.trace.cores, run.trace.cores, strict=True):
        assert a.records == b.records and a.instructions == b.instructions
    assert timed.cycles == run.cycles
    assert timed.energy.joules == pytest.approx(run.energy.joules, rel=1e-12)
    assert timed.stalls == run.stalls


@pytest.mark.parametrize("seed", range(12))
def test_random_modules_take_the_same_time(seed: int) -> None:
    device = Device(("dlp-s", "dlp-m")[seed % 2])
    program = compile_module(RandomModule(seed).module, device.machine)
    array = device.array(np.random.default_rng(3).standard_normal(96).astype(np.float32))
    before = array.numpy().tobytes()
    timed = device.time(device.load(program), [array, 3, 4])
    assert array.numpy().tobytes() == before
    run = device.launch(device.load(program), [array, 3, 4])
    assert [core.records for core in timed.trace.cores] == [core.records for core in run.trace.cores]
    assert timed.cycles == run.cycles
