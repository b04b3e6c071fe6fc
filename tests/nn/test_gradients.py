"""Every layer's derivatives: with respect to parameters and inputs, first and second order, forward and
reverse.
"""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradients
from layer_cases import ALL, Case
from layer_checks import build, call, differentiable, inputs

from trilobite.framework import nn

# Those whose gradient is meant to differ from the derivative have tests of their own.
LAYERS = [
    c
    for c in ALL
    if not c.kwargs.get("scale_grad_by_freq") and (c.layer, "padding_idx" in c.kwargs) != ("Embedding", True)
]


@pytest.mark.parametrize("case", LAYERS, ids=lambda c: c.id)
def test_derivatives_agree_with_differences(case: Case) -> None:
    layer, args, moving = build(case), inputs(case), differentiable(case)
    names = [n for n, _ in layer.named_parameters()]

    def run(*tensors: object) -> object:
        given = list(args)
        for i, t in zip(moving, tensors[len(names) :], strict=True):
            given[i] = t
        weights = dict(zip(names, tensors, strict=False))
        return call(lambda *a, **k: nn.functional_call(layer, weights, a, k), case, given)

    arrays = [np.array(p.detach().numpy()) for p in layer.parameters()]
    arrays += [np.array(args[i].numpy()) for i in moving]
    check_gradients(run, *arrays, second=case.second, tol=case.tol)
