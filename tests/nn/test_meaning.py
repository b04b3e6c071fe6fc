"""Every layer's results against what the layer means, written out in NumPy float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layer_cases import PLAIN, Case
from layer_checks import build, call, inputs
from oracle_space import oracles

import trilobite as tb
from trilobite.base import pytree

CASES = [
    c for c in PLAIN if not c.layer.startswith("Transformer")
]  # these are made of layers that stand here


def arrays(out: Any) -> list[np.ndarray]:
    found = pytree.leaves(out, lambda x: isinstance(x, (tb.Tensor, np.ndarray)))
    return [np.asarray(x.detach().numpy() if isinstance(x, tb.Tensor) else x) for x in found]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_results_are_what_the_layer_means(case: Case) -> None:
    layer = build(case)
    weights = {n: np.array(t.detach().numpy()) for n, t in layer.named_parameters()}
    found = arrays(call(layer, case, inputs(case)))
    expected = arrays(oracles[case.layer](weights, case, *case.arrays()))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
