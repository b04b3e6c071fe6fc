"""Compiled functions with gradients on: as without them while nobody differentiates; right if one does."""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb

RNG = np.random.default_rng(21)
X = RNG.standard_normal((6, 5)).astype(np.float32)


def network() -> Any:
    tb.manual_seed(4)
    return tb.nn.Sequential(tb.nn.Linear(5, 8), tb.nn.GELU(), tb.nn.Linear(8, 3))


def weight_programs(jitted: Any) -> list[Any]:
    """Executables that this function has run, with their part for weights."""
    found = []
    for e in (e for entries in jitted.entries.values() for e in entries):
        found += [x for x in e.recording.graph.__dict__.get("_executables", {}).values() if x.division.two]
    return found


def test_weights_are_packed_once_and_nothing_is_kept() -> None:
    net = network()
    f = tb.jit(net)
    with tb.no_grad():
        want = f(tb.tensor(X)).numpy()
    for _ in range(3):
        out = f(tb.tensor(X))
        assert out.requires_grad
        np.testing.assert_array_equal(out.detach().numpy(), want)
    assert len(weight_programs(f)) == 2  # gradients on and off: two recordings
    runs: list[object] = []
    weights = weight_programs(f)[1].weights
    parts = [part for part in (weights.rest, *weights._packers.values()) if part.runners]
    assert parts
    for part in parts:
        (runner,) = part.runners.values()
        part.runners[()] = lambda *args, runner=runner: runs.append(args) or runner(*args)
    f(tb.tensor(X))
    assert not runs


def test_a_backward_pass_that_comes_is_right() -> None:
    net, other = network(), network()
    f = tb.jit(net)
    for n in range(3):
        x, y = tb.tensor(X * (n + 1)).requires_grad_(), tb.tensor(X * (n + 1)).requires_grad_()
        (f(x) ** 2).sum().backward()
        (other(y) ** 2).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-5, atol=1e-5)
        for p, q in zip(net.parameters(), other.parameters(), strict=True):
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-5, atol=1e-4)
            p.grad = q.grad = None


def test_two_derivatives() -> None:
    f = tb.jit(lambda x: tb.tanh(x * 2.0).sum())
    x = tb.tensor(X).requires_grad_()
    f(x).backward(create_graph=True)
    first, x.grad = x.grad, None
    first.sum().backward()
    t = np.tanh(X * 2)
    np.testing.assert_allclose(first.detach().numpy(), 2 * (1 - t**2), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), -8 * t * (1 - t**2), rtol=1e-4, atol=1e-5)


def test_weights_that_change_are_seen() -> None:
    net = network()
    f = tb.jit(net)
    f(tb.tensor(X))
    with tb.no_grad():
        net[0].weight.mul_(-2.0)
    np.testing.assert_allclose(
        f(tb.tensor(X)).detach().numpy(), net(tb.tensor(X)).detach().numpy(), rtol=1e-5, atol=1e-6
    )
    view = net[2].weight.detach().numpy()
    for factor in (3.0, 0.5, -1.0):
        view *= factor
        np.testing.assert_allclose(
            f(tb.tensor(X)).detach().numpy(), net(tb.tensor(X)).detach().numpy(), rtol=1e-5, atol=1e-6
        )


def test_a_tensor_changed_before_the_backward_pass_is_reported() -> None:
    net = network()
    out = tb.jit(net)(tb.tensor(X)).sum()
    with tb.no_grad():
        net[2].weight.add_(1.0)
    try:
        out.backward()
    except tb.errors.GradientError as error:
        assert "was changed in place" in str(error)
    else:
        raise AssertionError("nothing was reported")


def test_effects_happen_once() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        tb.debug.callback(lambda a: seen.append(float(a)), None, x.sum())
        return (x * x).sum()

    x = tb.tensor(X).requires_grad_()
    tb.jit(f)(x).backward()
    np.testing.assert_allclose(seen, [X.sum()], rtol=1e-5)
    np.testing.assert_allclose(x.grad.numpy(), 2 * X, rtol=1e-6)


def test_state_is_written_once() -> None:
    count = tb.zeros(())

    def f(x: Any) -> Any:
        count.add_(1.0)
        return (x * count).sum()

    jitted = tb.jit(f)
    x = tb.tensor(X).requires_grad_()
    for _ in range(3):
        jitted(x).backward()
    assert count.item() == 3.0
    np.testing.assert_allclose(x.grad.numpy(), np.full_like(X, 6.0))


def test_modules_that_train_keep_what_backward_needs_at_once() -> None:
    net = tb.nn.Sequential(tb.nn.Linear(5, 8), tb.nn.BatchNorm1d(8))
    f = tb.jit(net)
    f(tb.tensor(X))
    (entry,) = [e for entries in f.entries.values() for e in entries]
    assert not weight_programs(f) and entry.differentiable
    net.eval()
    f(tb.tensor(X))
    assert weight_programs(f)


def test_the_reference_target() -> None:
    net = network()
    f = tb.jit(net, target="reference")
    x = tb.tensor(X).requires_grad_()
    f(x).sum().backward()
    want = tb.tensor(X).requires_grad_()
    net(want).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), want.grad.numpy(), rtol=1e-5)
