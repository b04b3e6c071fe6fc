"""Kernels of the kinds people write, beside NumPy: both levels, two machines, checked without a finding."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang
from practice_cases import CASES

from trilobite.processor.device import Device
from trilobite.processor.lang.bang.kernel import BangKernel
from trilobite.processor.lang.bang.source import Options

pytestmark = needs_clang
PRACTICE = Path(__file__).parent / "corpus" / "practice"
MACHINES = ("mlu370-x4", "mlu590")


def right(name: str, machine: str, level: int) -> None:
    case = CASES[name](np.random.default_rng(zlib.crc32(name.encode())))
    device = Device(machine)
    kernel = BangKernel(PRACTICE / f"{case.file}.mlu", case.entry, Options(level=level, contracts=True))
    given = [device.array(a) if isinstance(a, np.ndarray) else a for a in case.args]
    device.launch(kernel, given, case.dim, case.task, checks=True, traced=False)
    for place, want in case.want.items():
        got = given[place].numpy()
        got = got.astype(float) if got.dtype.kind in "fV" else got
        np.testing.assert_allclose(got, np.reshape(want, got.shape), rtol=case.near, atol=case.near)


@pytest.mark.parametrize(("place", "name"), list(enumerate(CASES)))
def test_a_kernel_runs_right_and_checks_clean(place: int, name: str) -> None:
    """On one of the machines, and every fourth as it is written."""
    right(name, MACHINES[place % 2], 0 if place % 4 == 3 else 2)


@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", CASES)
def test_every_kernel_at_both_levels(name: str, machine: str, level: int) -> None:
    right(name, machine, level)
