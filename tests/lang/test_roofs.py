"""Large shapes come within 80% of their roofs, and the ladder keeps its published order."""

from __future__ import annotations

import sys

import pytest
from harness import EXAMPLES, example

from trilobite.processor import Device

sys.path.insert(0, str(EXAMPLES))
measure = example("measure")
AIMED = (
    "matmul fp32",
    "matmul fp16",
    "matmul int8",
    "convolution",
    "softmax",
    "layer norm",
    "flash attention",
)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["dlp-m", "mlu370-x4"])
def test_kernels_come_near_their_roofs(name: str) -> None:
    dev = Device(name)
    machine = dev.machine
    for what, kernel, args, macs, rate, size in measure.shapes(dev):
        if what in AIMED:
            cycles = dev.launch(kernel, args, dim=(machine.cores, 1, 1)).cycles
            compute = macs / (machine.peak_ops(rate) / 2e9 / machine.clock_ghz) if rate else 0
            roof = max(compute, size / machine.dram_bytes_per_cycle)
            assert 0.8 <= roof / cycles <= 1.0, (what, roof / cycles)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_ladder_is_a_ladder() -> None:
    ms = {step: measure.ladder_step(step).seconds * 1e3 for step in measure.PUBLISHED}
    assert ms[1] > ms[2] > ms[3] and ms[4] > ms[5]
    for step in (4, 5, 6):
        assert abs(ms[step] / measure.PUBLISHED[step] - 1) <= 0.35


def test_a_short_ladder_keeps_its_order() -> None:
    ms = {step: measure.ladder_step(step, many=128 * 32 * 4).seconds for step in (4, 5)}
    assert ms[4] > ms[5]
