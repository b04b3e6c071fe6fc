"""Modules as values: pytrees under every transform, and functional_call."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import trilobite as tb
from trilobite.base import pytree
from trilobite.base.errors import ArgumentError
from trilobite.framework import nn, random

RNG = np.random.default_rng(1)
X = tb.tensor(RNG.standard_normal((5, 3)).astype(np.float32))


def network(seed: int = 0) -> nn.Sequential:
    random.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 2))


def loss(m: nn.Module, x: tb.Tensor) -> tb.Tensor:
    return (m(x) ** 2).sum()


def arrays(m: nn.Module) -> list[np.ndarray]:
    return [np.array(p.detach().numpy()) for p in m.parameters()]


def test_grad_gives_a_module_of_gradients() -> None:
    m = network()
    grads = tb.grad(loss)(m, X)
    assert type(grads) is nn.Sequential and type(grads[0]) is nn.Linear and grads[0].in_features == 3
    loss(m, X).backward()
    for g, p in zip(grads.parameters(), m.parameters(), strict=True):
        np.testing.assert_array_equal(g.detach().numpy(), p.grad.numpy())


def test_a_training_step_is_a_tree_map() -> None:
    m = network()
    step = tb.jit(lambda m, x: pytree.map(lambda p, g: p - 0.1 * g, m, tb.grad(loss)(m, x)))
    moved = step(m, X)
    assert loss(moved, X).item() < loss(m, X).item()
    np.testing.assert_array_equal(arrays(m)[0], arrays(network())[0])


def test_compiled_with_a_module_as_argument() -> None:
    m, other = network(0), network(1)
    f = tb.jit(loss, target="reference")
    for module in (m, other):
        np.testing.assert_array_equal(f(module, X).detach().numpy(), loss(module, X).detach().numpy())
    assert f.recompilations == []  # the same structure: the same program
    m.eval()
    f(m, X)
    assert len(f.recompilations) == 1


def test_settings_are_part_of_the_structure() -> None:
    f = tb.jit(lambda m, x: m(x))
    for slope in (0.1, 0.4):
        np.testing.assert_allclose(f(nn.LeakyReLU(slope), tb.tensor([-1.0])).numpy(), [-slope], rtol=1e-6)
    assert pytree.flatten(nn.Dropout(0.1))[1] != pytree.flatten(nn.Dropout(0.2))[1]
    assert pytree.flatten(network(0))[1] == pytree.flatten(network(1))[1]
    hooked = network()
    hooked.register_forward_hook(lambda *a: None)
    assert pytree.flatten(hooked)[1] != pytree.flatten(network())[1]


def test_buffers_written_inside_jit_come_back() -> None:
    m = nn.BatchNorm1d(3)
    twin = copy.deepcopy(m)
    f = tb.jit(lambda module, x: module(x))
    f(m, X)
    twin(X)
    for a, b in zip(m.buffers(), twin.buffers(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_an_ensemble_is_a_vmap_over_stacked_modules() -> None:
    members = [network(i) for i in range(3)]
    stacked = pytree.map(lambda *ts: tb.tensor(np.stack([t.detach().numpy() for t in ts])), *members)
    out = tb.vmap(lambda m, x: m(x), in_axes=(0, None))(stacked, X)
    for i, m in enumerate(members):
        np.testing.assert_allclose(out.numpy()[i], m(X).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_gradients_per_example() -> None:
    m = network()
    per = tb.vmap(tb.grad(lambda m, x: loss(m, x)), in_axes=(None, 0))(m, X)
    total = tb.grad(loss)(m, X)
    for g, t in zip(per.parameters(), total.parameters(), strict=True):
        assert g.shape == (5, *t.shape)
        np.testing.assert_allclose(g.detach().numpy().sum(0), t.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_forward_mode_in_the_direction_of_a_module() -> None:
    m = network().double()
    x = tb.tensor(X.numpy().astype(np.float64))
    direction = pytree.map(lambda p: tb.tensor(RNG.standard_normal(p.shape)), m)
    _, found = tb.jvp(lambda mod: loss(mod, x), (m,), (direction,))
    grads = tb.grad(loss)(m, x)
    expected = sum(
        (g.detach().numpy() * d.numpy()).sum()
        for g, d in zip(grads.parameters(), direction.parameters(), strict=True)
    )
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-10)


def test_tied_weights_are_one_leaf() -> None:
    m = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Tanh(), nn.Linear(3, 3, bias=False))
    m[2].weight = m[0].weight
    leaves, tree = pytree.flatten(m)
    assert len(leaves) == 1
    again = tree.unflatten([tb.zeros((3, 3))])
    assert again[0].weight is again[2].weight
    g = tb.grad(loss)(m, X)
    assert g[0].weight is g[2].weight
    loss(m, X).backward()
    np.testing.assert_array_equal(g[0].weight.detach().numpy(), m[0].weight.grad.numpy())


def test_a_shared_module_is_shared_again() -> None:
    layer = nn.Linear(3, 3)
    m = nn.ModuleList([layer, layer])
    leaves, tree = pytree.flatten(m)
    assert len(leaves) == 2
    again = tree.unflatten(leaves)
    assert again[0] is again[1] and again[0] is not layer


def test_leaves_have_dotted_names() -> None:
    assert [n for n, _ in pytree.paths(network())] == [
        "0.weight", "0.bias", "2.weight", "2.bias", "3.weight", "3.bias",
    ]  # fmt: skip


# -- functional_call ---------------------------------------------------------------------------------------


def test_functional_call_lends_other_tensors() -> None:
    m = network()
    zero = tb.zeros((2, 4))
    out = nn.functional_call(m, {"3.weight": zero}, (X,))
    np.testing.assert_allclose(out.detach().numpy(), np.broadcast_to(m[3].bias.detach().numpy(), (5, 2)))
    assert m[3].weight.detach().numpy().any()
    params = {n: tb.tensor(p.detach().numpy()) for n, p in m.named_parameters()}
    g = tb.grad(lambda ps: (nn.functional_call(m, ps, X) ** 2).sum())(params)
    loss(m, X).backward()
    for name, p in m.named_parameters():
        np.testing.assert_allclose(g[name].numpy(), p.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_functional_call_takes_keywords_and_buffers() -> None:
    m = nn.BatchNorm1d(3).eval()
    mean = tb.tensor([1.0, 2.0, 3.0])
    out = nn.functional_call(m, {"running_mean": mean}, kwargs={"input": X})
    np.testing.assert_allclose(
        out.detach().numpy(), (X.numpy() - mean.numpy()) / np.sqrt(1 + 1e-5), rtol=1e-5, atol=1e-6
    )
    with pytest.raises(ArgumentError, match="functional_call: BatchNorm1d has no wait, moan"):
        nn.functional_call(m, {"wait": mean, "moan": mean}, (X,))


def test_functional_call_changes_tied_places_together() -> None:
    m = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    m[1].weight = m[0].weight
    out = nn.functional_call(m, {"1.weight": tb.tensor([[2.0, 0.0], [0.0, 2.0]])}, (tb.ones((1, 2)),))
    assert out.tolist() == [[4.0, 4.0]]


def test_functional_call_inside_jit_follows_the_mode() -> None:
    m = nn.Sequential(nn.Dropout(0.5))
    f = tb.jit(lambda x: nn.functional_call(m, {}, (x,)))
    x = tb.ones((20, 20))
    assert 0.0 in f(x).numpy()
    m.eval()
    assert 0.0 not in f(x).numpy()


def test_counters_do_not_stand_in_the_way_of_gradients() -> None:
    m = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    g = tb.grad(loss)(m, X)
    assert not g[1].num_batches_tracked.numpy().any() and not g[1].running_mean.detach().numpy().any()
    assert not m[1].running_mean.numpy().any()  # grad works on a copy: its statistics moved, not these
    loss(m, X).backward()
    np.testing.assert_array_equal(g[0].weight.detach().numpy(), m[0].weight.grad.numpy())
