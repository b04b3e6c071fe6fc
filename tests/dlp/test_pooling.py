"""Poolings on the vector unit: the interpreter's values, and tiles that all cores have equally many of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.targets.dlp.kernels.pooling import Pooling, tile_of
from trilobite.processor.isa.formats import I8
from trilobite.processor.machine import load_machine

F = tb.nn.functional
STEM = Pooling(1, (112, 112), (56, 56), 64, (3, 3), (2, 2), (1, 1), (1, 1), I8, "max")


@pytest.mark.parametrize(("rows", "cores", "windows"), [(56, 16, 4), (56, 1, 56), (48, 16, 3), (7, 16, 1)])
def test_rows_are_dealt_evenly(rows: int, cores: int, windows: int) -> None:
    """In as few turns as there may be, with as little read twice: 2 rows each would be 28 tiles for 16."""
    pooling = STEM._replace(space=(2 * rows, 32), out=(rows, 16))
    assert tile_of(pooling, load_machine("dlp-m"), cores) == (windows, 64)


def test_tiles_fit() -> None:
    machine = load_machine("dlp-m")
    small = replace(machine, core=replace(machine.core, nram=replace(machine.core.nram, reserved_kib=450)))
    tile = tile_of(STEM, small, 1)
    assert tile is not None and 1 <= tile[0] < 56 and STEM.bytes(*tile) <= 62 * 1024


@pytest.mark.parametrize("shape", [(1, 5, 23, 9), (3, 7, 11, 12)])
@pytest.mark.parametrize(("size", "stride", "pad"), [(3, 2, 1), (2, 2, 0), (5, 3, 2)])
def test_values(shape: tuple[int, int, int, int], size: int, stride: int, pad: int) -> None:
    x = tb.tensor(np.random.default_rng(size).normal(size=shape).astype(np.float32))
    fast = tb.jit(lambda v: F.max_pool2d(v, size, stride, pad), target="dlp:dlp-m", options={"checks": True})
    assert np.array_equal(fast(x).numpy(), F.max_pool2d(x, size, stride, pad).numpy())


class Pooled(tb.nn.Module):
    """Poolings between convolutions."""

    def __init__(self, channels: tuple[int, int], window: tuple[int, int, int]) -> None:
        (one, two), (size, stride, pad) = channels, window
        self.first = tb.nn.Conv2d(3, one, 3, padding=1)
        self.second = tb.nn.Conv2d(one, two, 1)
        self.third = tb.nn.Conv2d(two, 8, 3)
        self.window = size, stride, pad

    def forward(self, x: tb.Tensor) -> tb.Tensor:
        x = F.max_pool2d(F.relu(self.first(x)), *self.window)
        return self.third(F.max_pool2d(F.relu(self.second(x)), 2, 1))


@pytest.mark.parametrize("machine", ["dlp-m", "dlp-s", "mlu370-x4"])
@pytest.mark.parametrize("seed", range(4))
def test_values_between_convolutions_stay_on_chip(machine: str, seed: int) -> None:
    """Rows of a pooling come from the SRAM of several clusters, and go there."""
    rng = np.random.default_rng(seed)
    channels = int(rng.choice([8, 24, 33])), int(rng.choice([16, 40]))
    window = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(0, 2))
    images, height = (2 if seed == 3 else 1), int(rng.integers(9, 40))
    model = Pooled(channels, window).eval()
    x = tb.tensor(rng.integers(-3, 4, (images, 3, height, height + 3)).astype(np.float32))
    with tb.no_grad():
        chip = tb.jit(lambda v: model(v), target=f"dlp:{machine}", options={"checks": True})
        got, want = chip(x).numpy(), model(x).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
        kernel = chip.lower(x).stages["kernel"]
    at_home = kernel.count('^0(%0: ptr.sram "p0", %1: ptr.sram "p1")')
    assert at_home == (2 if machine != "dlp-s" and images == 1 else 0), "where SRAM is cut along rows"
