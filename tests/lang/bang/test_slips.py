"""Slips of the pen in kernels of many shapes: each is named as what it is at its line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang
from slip_sources import KERNELS as FIRST_KERNELS
from slip_sources import SLIPS as FIRST_SLIPS
from slip_sources import Kernel
from slip_sources_more import KERNELS as MORE_KERNELS
from slip_sources_more import SLIPS as MORE_SLIPS

from trilobite.base.errors import KernelError, ProcessorFault
from trilobite.processor.device import Device
from trilobite.processor.lang.bang.kernel import BangKernel
from trilobite.processor.lang.bang.source import Options

pytestmark = needs_clang
KERNELS, SLIPS = {**FIRST_KERNELS, **MORE_KERNELS}, [*FIRST_SLIPS, *MORE_SLIPS]


def _checked(kernel: Kernel, path: Path, level: int, machine: str) -> tuple[list[Any], list[Any]]:
    device, args = Device(machine), kernel.args()
    given = [device.array(a) if isinstance(a, np.ndarray) else a for a in args]
    device.launch(BangKernel(path, "k", Options(level=level)), given, kernel.dim, kernel.task, checks=True)
    return args, given


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", KERNELS)
def test_what_is_right_is_clean(name: str, level: int, tmp_path: Path) -> None:
    path = tmp_path / "kernel.mlu"
    path.write_text(KERNELS[name].text, encoding="utf-8")
    args, given = _checked(KERNELS[name], path, level, "mlu370-x4" if level else "dlp-m")
    for at, want in KERNELS[name].wanted(args).items():
        np.testing.assert_allclose(given[at].numpy().astype(np.float64), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "right", "wrong", "pattern", "line"), SLIPS)
def test_a_slip_is_named(name: str, right: str, wrong: str, pattern: str, line: str, tmp_path: Path) -> None:
    assert right in KERNELS[name].text
    text = KERNELS[name].text.replace(right, wrong, 1)
    path = tmp_path / "kernel.mlu"
    path.write_text(text, encoding="utf-8")
    with pytest.raises((ProcessorFault, KernelError)) as caught:
        _checked(KERNELS[name], path, 2, "mlu370-x4")
    said = str(caught.value)
    assert re.search(pattern, said), said
    places = [f"kernel.mlu:{n}" for n, content in enumerate(text.splitlines(), 1) if line in content]
    assert any(re.search(rf"{re.escape(place)}\b", said) for place in places), said


def test_there_are_eighty() -> None:
    assert len(SLIPS) >= 80
