"""Every layer beside PyTorch's own: the same arguments, weights and inputs give the same results, gradients
and buffers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layer_cases import PLAIN, Case
from layer_checks import build, call, differentiable, inputs

import trilobite as tb
from trilobite.base import pytree

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.peer,
    pytest.mark.filterwarnings("ignore:enable_nested_tensor"),
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths"),
]
# PyTorch computes these with constants rounded to float32.
ROUNDED = {"Hardsigmoid": 1e-7, "CELU": 1e-7}

# PyTorch's gradient is not that of its own result: differences of the result are up to 0.25 away from it.
OWN_SLOPE = {"CrossMapLRN2d"}

CASES = [c for c in PLAIN if not c.own]


def torch_layer(case: Case, ours: Any) -> Any:
    layer = getattr(torch.nn, case.layer)(*case.args, **case.kwargs).double()
    state = {k: torch.from_numpy(np.array(v.detach().numpy())) for k, v in ours.state_dict().items()}
    layer.load_state_dict(state)
    return layer


def leaves(out: Any) -> list[Any]:
    found = pytree.leaves(out, lambda x: isinstance(x, (tb.Tensor, torch.Tensor)))
    return [x for x in found if x is not None]


def array(x: Any) -> np.ndarray:
    return np.asarray(x.detach().numpy())


def close(name: str, ours: Any, theirs: Any, tol: float) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=tol, atol=tol / 10, err_msg=name)


def through_softmax(log_probs: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The gradient of what log_softmax made: PyTorch's CTC gradient is right only together with it."""
    return gradient - np.exp(log_probs) * gradient.sum(-1, keepdims=True)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_results_and_gradients_are_pytorchs(case: Case, training: bool) -> None:
    ours = build(case).train(training)
    theirs = torch_layer(case, ours).train(training)
    args, moving = inputs(case), differentiable(case)
    their_args = [torch.from_numpy(np.array(a.numpy())) for a in args]
    for i in moving:
        args[i].requires_grad_()
        their_args[i].requires_grad_()
    tol = ROUNDED.get(case.layer, 1e-9)
    out, their_out = leaves(call(ours, case, args)), leaves(theirs(*their_args, **case.call))
    assert len(out) == len(their_out)
    total, their_total = 0.0, 0.0
    for i, (a, b) in enumerate(zip(out, their_out, strict=True)):
        close(f"result {i}", array(a), array(b), tol)
        if a.dtype.kind == "f":
            weight = np.random.default_rng(i).standard_normal(a.shape)
            total, their_total = (
                total + (a * tb.tensor(weight)).sum(),
                their_total + (b * torch.from_numpy(weight)).sum(),
            )
    if not their_total.requires_grad or case.layer in OWN_SLOPE:
        return
    total.backward()
    their_total.backward()
    for i in moving:
        grads = [array(args[i].grad), array(their_args[i].grad)]
        if case.layer == "CTCLoss":
            grads = [through_softmax(case.arrays()[i], g) for g in grads]
        close(f"gradient of input {i}", *grads, tol)
    theirs_by_name = dict(theirs.named_parameters())
    for name, p in ours.named_parameters():
        close(f"gradient of {name}", array(p.grad), array(theirs_by_name[name].grad), tol)
    for name, b in theirs.named_buffers():
        close(f"buffer {name}", array(ours.get_buffer(name)), array(b), tol)


def test_names_and_order_of_the_state_are_pytorchs() -> None:
    for case in CASES:
        ours = build(case)
        theirs = getattr(torch.nn, case.layer)(*case.args, **case.kwargs)
        assert list(ours.state_dict()) == list(theirs.state_dict()), case.id
        assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()], case.id
