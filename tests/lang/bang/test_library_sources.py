"""A corpus as operator libraries write it: sources compile at both levels, run right and check clean on two
machines; seeded mistakes are named as what they are."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang
from library_sources import MISTAKES, OPERATIONS, STYLES, sources, write

from trilobite.base.errors import TrilobiteError
from trilobite.processor.device import Device
from trilobite.processor.lang.bang.kernel import BangKernel
from trilobite.processor.lang.bang.source import Options

pytestmark = needs_clang
MACHINES = ("mlu370-x4", "mlu590")
SHORT = sources()[:: len(sources()) // 20][:20]


def launched(source: Path, style: str, n: int, machine: str, level: int) -> tuple[np.ndarray, ...]:
    """x, z and the result of a checked launch on n elements."""
    chosen = STYLES[style]
    rng = np.random.default_rng(n)
    x, z = rng.uniform(-2, 2, (2, n)).astype(np.float32)
    device = Device(machine)
    y = device.array(np.full(n, np.nan, np.float32))
    kernel = BangKernel(source, chosen.entry, Options(level=level, contracts=True))
    given = [y, device.array(x), device.array(z), *chosen.arguments(n)]
    device.launch(kernel, given, chosen.dim, chosen.task, checks=True, traced=False)
    return x, z, y.numpy()


def right(style: str, operation: str, folder: Path, machine: str, level: int) -> None:
    for n in (1000, 77):
        x, z, y = launched(write(style, operation, folder), style, n, machine, level)
        want = OPERATIONS[operation][1](x.astype(np.float64), z.astype(np.float64))
        np.testing.assert_allclose(y, want, rtol=2e-5, atol=2e-5)


def test_there_are_two_hundred_sources_and_sixty_mistakes() -> None:
    assert len(sources()) >= 200 and len(SHORT) == 20 and len(MISTAKES) >= 60
    assert len({name for name, _ in SHORT}) == len(STYLES)


@pytest.mark.parametrize(("style", "operation"), SHORT)
def test_a_source_runs_right_and_checks_clean(style: str, operation: str, tmp_path: Path) -> None:
    right(style, operation, tmp_path, "mlu590", 2)


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("style", "operation"), sources())
def test_every_source_at_both_levels(style: str, operation: str, machine: str, tmp_path: Path) -> None:
    for level in LEVELS:
        right(style, operation, tmp_path, machine, level)


def named(number: int, folder: Path, level: int) -> None:
    style, old, new, said = MISTAKES[number]
    source = write(style, "fused", folder, old, new)
    try:
        launched(source, style, 1000, "mlu370-x4", level)
    except TrilobiteError as error:
        assert re.search(said, str(error)), str(error)
    else:
        pytest.fail("the mistake was not found")


@pytest.mark.parametrize("number", range(0, len(MISTAKES), 3))
def test_a_seeded_mistake_is_named(number: int, tmp_path: Path) -> None:
    named(number, tmp_path, 2)


@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_every_seeded_mistake_is_named(number: int, level: int, tmp_path: Path) -> None:
    named(number, tmp_path, level)
