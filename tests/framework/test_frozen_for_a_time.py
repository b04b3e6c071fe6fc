"""Tensors that stop requiring a gradient for a time keep theirs, and their hooks."""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb
from trilobite import nn, optim

X = np.array([[1.0, 2.0], [-0.5, 0.3], [0.7, -1.1]], np.float32)


def linear(seed: float, out: int) -> nn.Linear:
    layer = nn.Linear(2, out)
    with tb.no_grad():
        layer.weight.copy_(tb.tensor(np.linspace(-seed, seed, 2 * out, dtype=np.float32).reshape(out, 2)))
        layer.bias.fill_(0.1)
    return layer


def test_gradients_and_hooks_stay() -> None:
    layer, seen = linear(0.5, 1), []
    layer.weight.register_hook(lambda g: seen.append(g.shape))
    layer(tb.tensor(X)).sum().backward()
    once = layer.weight.grad.tolist()
    layer.requires_grad_(False)
    assert layer.weight.grad.tolist() == once
    layer.requires_grad_(True)
    layer(tb.tensor(X)).sum().backward()
    np.testing.assert_allclose(layer.weight.grad.tolist(), 2 * np.array(once), rtol=1e-6)
    assert len(seen) == 2


def test_a_frozen_gradient_can_be_removed() -> None:
    layer = linear(0.5, 1)
    layer(tb.tensor(X)).sum().backward()
    layer.requires_grad_(False)
    layer.zero_grad()
    assert layer.weight.grad is None
    layer.requires_grad_(True)
    assert layer.weight.grad is None


def adversaries(compiled: bool) -> tuple[list[float], Any]:
    judge, maker = linear(0.5, 1), linear(0.3, 2)
    first, second = optim.SGD(judge.parameters(), lr=0.1), optim.SGD(maker.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        first.zero_grad()
        judge(x).pow(2).mean().backward()
        first.step()
        judge.requires_grad_(False)
        second.zero_grad()
        loss = (judge(maker(x)) - 1).pow(2).mean()
        loss.backward()
        second.step()
        judge.requires_grad_(True)
        return loss

    run = tb.jit(step) if compiled else step
    found = [run(tb.tensor(X)).item() for _ in range(4)]
    assert not compiled or run.recompilations == []  # type: ignore[attr-defined]
    return found, judge.weight.grad.tolist()


def test_frozen_inside_a_compiled_step() -> None:
    (eager, gradient), (found, there) = adversaries(False), adversaries(True)
    np.testing.assert_allclose(found, eager, rtol=1e-5)
    np.testing.assert_allclose(there, gradient, rtol=1e-5)


def test_leaves_made_inside_are_recorded_once() -> None:
    """A penalty on slopes by the input: the leaf gets a gradient in every call, and nobody sees it."""
    model = linear(0.5, 1)
    opt = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        x = x.clone().requires_grad_()
        y = model(x).tanh()
        (slope,) = tb.autograd.grad(y.sum(), x, create_graph=True)
        opt.zero_grad()
        loss = (slope.norm(dim=1) - 1).pow(2).mean()
        loss.backward()
        opt.step()
        return loss + x.grad.sum()

    compiled = tb.jit(step)
    before = [p.clone() for p in model.parameters()]
    found = [compiled(tb.tensor(X)).item() for _ in range(3)]
    assert compiled.recompilations == []
    with tb.no_grad():
        for p, old in zip(model.parameters(), before, strict=True):
            p.copy_(old)
    np.testing.assert_allclose(found, [step(tb.tensor(X)).item() for _ in range(3)], rtol=1e-5)
