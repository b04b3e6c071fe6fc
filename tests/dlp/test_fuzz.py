"""Random graphs on the processor against the interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.compiler.arrays import assert_same_bits, assert_within_rounding, inputs_of, rounding_spread
from tests.compiler.random_graphs import random_graph
from trilobite.base.errors import DeviceError
from trilobite.compiler.targets.registry import executable
from trilobite.ir.evaluate import run


def check(seed: int, target: str) -> None:
    rng = np.random.default_rng(seed)
    sample = random_graph(seed, symbolic=seed % 5 == 0, fused=True)
    try:
        compiled = executable(sample.graph, target)
    except DeviceError as error:
        assert "does not run" in str(error)
        return
    for wild in (False, True):
        values = inputs_of(sample.graph, rng, wild)
        want = run(sample.graph, values)
        spread = rounding_spread(sample.graph, values, rng) if any(sample.rough) else None
        got = compiled(list(values))
        for i, rough in enumerate(sample.rough):
            what = f"seed {seed}, result {i}"
            if rough:
                assert spread is not None
                assert_within_rounding(got[i], want[i], spread[i], what)
            else:
                assert_same_bits(got[i], want[i], what)


@pytest.mark.parametrize("seed", range(6))
def test_a_random_graph(seed: int) -> None:
    check(seed, "dlp:dlp-s" if seed % 2 else "dlp:dlp-m")


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_random_graphs(block: int, odd_machine: Path) -> None:
    for seed in range(100 + 50 * block, 150 + 50 * block):
        machine = ("dlp-s", "dlp-m", str(odd_machine))[seed % 3]
        check(seed, f"dlp:{machine}")


@pytest.mark.parametrize("seed", [507, 509])
def test_numbers_of_formats_without_arithmetic_are_their_bits(seed: int) -> None:
    check(seed, "dlp:dlp-s")
