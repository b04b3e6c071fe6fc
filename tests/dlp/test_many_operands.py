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


def test_counts_of_short_logs_are_those_of_their_records() -> None:
    """Energy and rooflines count joined logs; the records themselves say the same."""
    from trilobite.processor.sim.actions import tensor_actions
    from trilobite.processor.sim.record import TensorRecord

    x = tb.tensor(RNG.standard_normal((40, 33)).astype(np.float32))
    function = tb.jit(lambda x: tb.softmax(tb.sin(x) @ x.T, axis=-1), target="dlp:dlp-m")
    function(x)
    for core in function.last_run.trace.cores:
        records = [r for r in core.records if isinstance(r, TensorRecord)]
        counted = list(tensor_actions([core], 64))
        assert sum(count for _, count in counted) == len(records)
        moved = sum(r.bytes for record in records for r in (*record.reads, *record.writes))
        assert moved == sum(n * r.bytes for record, n in counted for r in (*record.reads, *record.writes))
