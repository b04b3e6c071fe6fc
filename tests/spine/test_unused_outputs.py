"""Hooks: on outputs that nobody used, on one of several outputs, on views of leaves."""

from __future__ import annotations

import numpy as np

import trilobite as tb


def test_a_hook_on_an_unused_output_is_not_called() -> None:
    x = tb.tensor(np.random.default_rng(0).standard_normal((4, 3)), requires_grad=True)
    seen: list[str] = []
    q, r = tb.linalg.qr(x)
    q.register_hook(lambda g: seen.append("q"))
    r.register_hook(lambda g: seen.append("r"))
    (r * r).sum().backward()
    assert seen == ["r"]
    assert np.isfinite(x.grad.numpy()).all()


def test_a_hook_on_one_of_several_outputs_changes_that_gradient_alone() -> None:
    x = tb.tensor(np.arange(6.0), requires_grad=True)
    first, second = tb.split(x, 3)
    first.register_hook(lambda g: g * 10)
    second.register_hook(lambda g: None)
    (first + 2 * second).sum().backward()
    assert x.grad.tolist() == [10, 10, 10, 2, 2, 2]


def test_a_hook_on_a_view_of_a_leaf_is_called_in_every_backward_until_it_is_removed() -> None:
    x = tb.tensor(np.arange(6.0), requires_grad=True)
    y = x[:3]
    remove = y.register_hook(lambda g: g * 10)
    (y * 2).sum().backward()
    y.sum().backward()
    assert x.grad.tolist() == [30, 30, 30, 0, 0, 0]
    remove()
    y.sum().backward()
    assert x.grad.tolist() == [31, 31, 31, 0, 0, 0]


def test_a_view_of_a_leaf_keeps_its_gradient_when_asked() -> None:
    x = tb.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    y = x.T
    y.retain_grad()
    (y * tb.arange(6.0).reshape(3, 2)).sum().backward()
    assert y.grad.tolist() == [[0, 1], [2, 3], [4, 5]] and x.grad.tolist() == [[0, 2, 4], [1, 3, 5]]
