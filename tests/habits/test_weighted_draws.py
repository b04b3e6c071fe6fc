"""Samplers of PyTorch's name that draw by weights."""

from __future__ import annotations

import pytest

import trilobite as tb
from trilobite.framework.pytorch.utils.samplers import WeightedRandomSampler


@pytest.mark.parametrize("replacement", [True, False])
def test_draws_follow_their_weights(replacement: bool) -> None:
    tb.manual_seed(0)
    sampler = WeightedRandomSampler([0.0, 1.0, 0.0, 3.0, 2.0], 3, replacement)
    assert len(sampler) == 3
    for _ in range(20):
        drawn = list(sampler)
        assert len(drawn) == 3 and set(drawn) <= {1, 3, 4} and all(type(i) is int for i in drawn)
        assert replacement or sorted(drawn) == [1, 3, 4]


def test_as_often_as_they_weigh() -> None:
    tb.manual_seed(1)
    drawn = list(WeightedRandomSampler([1.0, 3.0], 4000))
    assert 0.7 < sum(drawn) / 4000 < 0.8
