"""Every layer's derivatives: with respect to parameters and inputs, first and second order, forward and
reverse.
"""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradients
from layer_cases import ALL, Case
from layer_checks import build, call, differentiable, inputs

import trilobite as tb
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


NORMS = {
    "batch": lambda: nn.BatchNorm2d(6),
    "group": lambda: nn.GroupNorm(2, 6),
    "instance": lambda: nn.InstanceNorm2d(6, affine=True),
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_norms_take_transposed_gradients(norm: str, batch: int, training: bool, dtype: type) -> None:
    """Tokens of an image, as the stems of vision transformers make them: channels lie last in the gradient,
    and one image alone has strides that fit both orders.
    """
    draw = np.random.default_rng(4)
    x = draw.standard_normal((batch, 6, 5, 3)).astype(dtype)
    w = draw.standard_normal((batch, 15, 6)).astype(dtype)
    plain = np.ascontiguousarray(w.transpose(0, 2, 1)).reshape(x.shape)
    found = []
    for tokens in (True, False):
        layer = NORMS[norm]().train(training).to(getattr(tb, np.dtype(dtype).name))
        given = tb.tensor(x).requires_grad_()
        y = layer(given)
        loss = (y.flatten(2).transpose(1, 2) * tb.tensor(w)).sum() if tokens else (y * tb.tensor(plain)).sum()
        loss.backward()
        found.append([t.grad.numpy() for t in (layer.weight, layer.bias, given)])
    near = 1e-12 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(found[0][1], w.sum((0, 1)), rtol=near, atol=10 * near)
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=near, atol=10 * near)
