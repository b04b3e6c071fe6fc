"""Equations with more operands than a routine has arguments."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb

RNG = np.random.default_rng(4)


@pytest.mark.parametrize("count", [2, 16, 17, 33, 300])
def test_many_parts_are_joined_in_their_order(count: int) -> None:
    parts = [RNG.standard_normal((3, 1 + n % 3)).astype(np.float32) for n in range(count)]
    found = tb.jit(lambda *xs: tb.concat(xs, axis=1), target="dlp:dlp-s")(*map(tb.tensor, parts))
    np.testing.assert_array_equal(found.numpy(), np.concatenate(parts, axis=1))


def test_chains_of_many_inputs_and_many_results() -> None:
    parts = [RNG.standard_normal((3, 5)).astype(np.float32) for _ in range(50)]
    summed = tb.jit(lambda *xs: sum(x * 2 for x in xs), target="dlp:dlp-s")(*map(tb.tensor, parts))
    np.testing.assert_allclose(summed.numpy(), sum(x * 2 for x in parts), rtol=1e-5, atol=1e-5)
    found = tb.jit(lambda x: [x * n + 1 for n in range(60)], target="dlp:dlp-s")(tb.tensor(parts[0]))
    for n, value in enumerate(found):
        np.testing.assert_allclose(value.numpy(), parts[0] * n + 1, rtol=1e-6, atol=1e-6)
