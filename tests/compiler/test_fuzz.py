"""The differential fuzzer: random typed graphs, interpreter against the fused graph against native code.

Integers, casts and moved data are equal in every bit; floats are as near as rounding of the intermediate
values allows. NaN, infinities, signed zeros and shapes without elements are among the inputs. Each graph runs
with its inputs as they come, and again with one of them held stable.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.compiler.arrays import assert_same_bits, assert_within_rounding, inputs_of, rounding_spread
from tests.compiler.random_graphs import Sample, random_graph
from trilobite.compiler.graph.pipeline import Options
from trilobite.compiler.targets.cpu.target import Executable, compile_graph
from trilobite.ir.evaluate import run
from trilobite.ir.verify import verify

BLOCK = 100


def check(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sample = random_graph(seed, symbolic=seed % 5 == 0, fused=True)
    stable = frozenset(range(1, len(sample.graph.inputs))) if seed % 3 == 0 else frozenset()
    executable = compile_graph(sample.graph, Options(stable=stable))
    for part in executable.parts:
        verify(part.fused)
    for wild in (False, True):
        values = inputs_of(sample.graph, rng, wild)
        expected = run(sample.graph, values)
        spread = rounding_spread(sample.graph, values, rng) if any(sample.rough) else None
        for what, found in (
            ("native", executable(list(values))),
            ("native again", executable(list(values))),
            ("fused", _fused(executable, values)),  # behind the runs: fused for the sizes that were run last
        ):
            _compare(sample, found, expected, spread, f"{what}, seed {seed}")


def _fused(executable: Executable, values: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """The fused graphs by the interpreter: what the kernels are asked to compute."""
    halves = executable.halves
    for part in executable.parts:
        verify(part.fused)
    if halves is None:
        return run(executable.main.fused, values)
    first = run(executable.weights.first.fused, [values[i] for i in halves.stable])
    return run(executable.main.fused, [*(values[i] for i in halves.kept), *first])


def _compare(
    sample: Sample,
    found: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    spread: Sequence[np.ndarray] | None,
    what: str,
) -> None:
    for i, rough in enumerate(sample.rough):
        try:
            if rough and spread is not None:
                assert_within_rounding(found[i], expected[i], spread[i])
            else:
                assert_same_bits(found[i], expected[i])
        except AssertionError as error:
            raise AssertionError(f"{what}, result {i} of\n{sample.graph}\n{error}") from None


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("block", range(2))
def test_random_graphs(block: int) -> None:
    for seed in range(20 * block, 20 * (block + 1)):
        check(seed)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("block", range(50))
def test_five_thousand_random_graphs(block: int) -> None:
    for seed in range(1000 + BLOCK * block, 1000 + BLOCK * (block + 1)):
        check(seed)
