"""Pruned parameters: masks, what is left after several methods, training, saving, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from trilobite.nn.utils import prune

import trilobite as tb
from trilobite import nn

RNG = np.random.default_rng(11)
W = RNG.permutation(np.arange(1.0, 21.0)).reshape(5, 4) * RNG.choice([-1.0, 1.0], (5, 4))


def layer() -> Any:
    out = nn.Linear(4, 5)
    out.weight = nn.Parameter(tb.tensor(W.astype("f4")))
    return out


def mask_of(module: Any, name: str = "weight") -> Any:
    return getattr(module, f"{name}_mask").numpy().astype(bool)


def smallest_gone(count: int, size: np.ndarray | None = None) -> Any:
    size = np.abs(W) if size is None else size
    return size > np.sort(size.ravel())[count - 1] if count else np.ones_like(W, bool)


@pytest.mark.parametrize(("amount", "count"), [(0.3, 6), (0.0, 0), (1.0, 20), (7, 7), (0, 0), (0.125, 2)])
def test_the_smallest_elements(amount: float, count: int) -> None:
    module = prune.l1_unstructured(layer(), "weight", amount)
    np.testing.assert_array_equal(mask_of(module), smallest_gone(count))
    np.testing.assert_array_equal(module.weight.detach().numpy(), W * smallest_gone(count))
    assert sorted(dict(module.named_parameters())) == ["bias", "weight_orig"]
    assert sorted(module.state_dict()) == ["bias", "weight_mask", "weight_orig"]


def test_a_second_method_sees_what_is_left() -> None:
    module = prune.l1_unstructured(layer(), "weight", 0.5)
    prune.l1_unstructured(module, "weight", 0.5)
    np.testing.assert_array_equal(mask_of(module), smallest_gone(15))
    prune.ln_structured(module, "weight", 1, n=1, dim=0)
    rows = np.abs(W * smallest_gone(15))
    left = np.abs(W).sum(1).copy()
    left[rows.sum(1) == 0] = np.inf  # slices that are gone are no candidates
    wanted = smallest_gone(15).copy()
    wanted[left.argmin()] = False
    np.testing.assert_array_equal(mask_of(module), wanted)
    assert prune.is_pruned(nn.Sequential(module)) and len(module._hooks.forward_pre) == 1


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("n", [1, 2, float("inf")])
def test_slices_of_least_norm(dim: int, n: float) -> None:
    module = prune.ln_structured(layer(), "weight", 2, n=n, dim=dim)
    norms = np.linalg.norm(W, n, axis=1 if dim == 0 else 0)
    wanted = norms > np.sort(norms)[1]
    np.testing.assert_array_equal(
        mask_of(module), np.broadcast_to(wanted[:, None] if dim == 0 else wanted, W.shape)
    )


def test_draws() -> None:
    module = prune.random_unstructured(layer(), "weight", 8)
    assert mask_of(module).sum() == 12
    other = prune.random_structured(layer(), "weight", 0.5, dim=1)
    assert sorted(mask_of(other).sum(0)) == [0, 0, 5, 5]
    masks = {prune.random_unstructured(layer(), "weight", 8).weight_mask.numpy().tobytes() for _ in range(5)}
    assert len(masks) > 1


def test_importance_of_the_users() -> None:
    scores = RNG.standard_normal((5, 4))
    module = prune.l1_unstructured(layer(), "weight", 6, importance_scores=tb.tensor(scores))
    np.testing.assert_array_equal(mask_of(module), smallest_gone(6, np.abs(scores)))


def test_all_layers_as_one_line() -> None:
    a, b = layer(), layer()
    with tb.no_grad():
        b.weight.mul_(100.0)
    prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=0.25)
    assert mask_of(a).sum() == 10 and mask_of(b).all()
    prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=2)
    assert mask_of(a).sum() == 8 and mask_of(b).all(), "of what is left"


class EverySecond(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        mask = default_mask.clone()
        mask.view(-1)[::2] = 0
        return mask


def test_a_method_of_the_users() -> None:
    module = layer()
    EverySecond.apply(module, "weight")
    EverySecond.apply(module, "weight")
    assert np.flatnonzero(mask_of(module)).tolist() == [3, 7, 11, 15, 19]
    pruned = prune.L1Unstructured(0.5).prune(tb.tensor(W))
    np.testing.assert_array_equal(pruned.numpy(), W * smallest_gone(10))


@pytest.mark.parametrize("jitted", [False, True])
def test_what_is_pruned_stays_zero_in_training(jitted: bool) -> None:
    module = prune.l1_unstructured(layer(), "weight", 0.5)
    optimizer = tb.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)
    x = tb.tensor(RNG.standard_normal((6, 4)).astype("f4"))

    def step() -> tb.Tensor:
        optimizer.zero_grad()
        loss = (module(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    run = tb.jit(step) if jitted else step
    losses = [run().item() for _ in range(5)]
    assert losses[-1] < losses[0]
    module(x)
    mask = mask_of(module)
    np.testing.assert_array_equal(module.weight.detach().numpy()[~mask], 0.0)
    np.testing.assert_array_equal(module.weight_orig.detach().numpy()[~mask], W.astype("f4")[~mask])
    assert (module.weight_orig.detach().numpy()[mask] != W.astype("f4")[mask]).all()
    other = EverySecond.apply(copy_of := layer(), "weight") and copy_of
    other.load_state_dict(module.state_dict())
    np.testing.assert_array_equal(other(x).detach().numpy(), module(x).detach().numpy())
    trained, y = module.weight_orig, module(x).detach().numpy()
    prune.remove(module, "weight")
    assert module.weight is trained and not prune.is_pruned(module)
    assert sorted(module.state_dict()) == ["bias", "weight"]
    np.testing.assert_array_equal(module(x).detach().numpy(), y)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "too many": (
        lambda: prune.l1_unstructured(layer(), "weight", 21),
        "21 are to be pruned, and there are 20",
    ),
    "a share above 1": (lambda: prune.l1_unstructured(layer(), "weight", 1.5), "amount is 1.5"),
    "below 0": (lambda: prune.random_unstructured(layer(), "weight", -1), "amount is -1"),
    "slices of a line": (lambda: prune.ln_structured(layer(), "bias", 1, n=2, dim=0), "with 1 dimensions"),
    "another shape": (lambda: prune.custom_from_mask(layer(), "weight", tb.ones(4, 5)), "a mask of shape"),
    "other scores": (
        lambda: prune.l1_unstructured(layer(), "weight", 1, importance_scores=tb.ones(4, 5)),
        "importance scores of shape",
    ),
    "slices of all": (
        lambda: prune.global_unstructured([(layer(), "weight")], prune.LnStructured, amount=1, n=2),
        "global_unstructured by LnStructured",
    ),
    "nothing to remove": (lambda: prune.remove(layer(), "weight"), "'weight' of a Linear is not pruned"),
    "no method": (lambda: prune.PruningContainer(3), "a pruning method 3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    call, text = REFUSED[name]
    with pytest.raises(tb.errors.TrilobiteError, match=text):
        call()


def test_nothing_changed_where_it_was_refused() -> None:
    module = layer()
    with pytest.raises(tb.errors.ArgumentError):
        prune.l1_unstructured(module, "weight", 99)
    assert sorted(module.state_dict()) == ["bias", "weight"] and not prune.is_pruned(module)
    prune.l1_unstructured(module, "weight", 3)
    with pytest.raises(tb.errors.ArgumentError):
        prune.l1_unstructured(module, "weight", 99)
    assert prune.is_pruned(module) and mask_of(module).sum() == 17
