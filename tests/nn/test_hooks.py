"""Hooks: when they are called, what they may replace, and that they go away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError
from trilobite.framework import nn


def linear() -> nn.Linear:
    layer = nn.Linear(2, 1, bias=False)
    with tb.no_grad():
        layer.weight.copy_([[2.0, -3.0]])
    return layer


def x() -> tb.Tensor:
    return tb.tensor([[1.0, 4.0]])


def test_forward_hooks_see_and_replace() -> None:
    m, seen = linear(), []
    first = m.register_forward_pre_hook(lambda mod, args: (args[0] * 10,))
    m.register_forward_hook(lambda mod, args, out: seen.append((args[0].tolist(), out.tolist())))
    m.register_forward_hook(lambda mod, args, out: out + 1)
    assert m(x()).tolist() == [[-99.0]]
    assert seen == [([[10.0, 40.0]], [[-100.0]])]
    first.remove()
    assert m(x()).tolist() == [[-9.0]]


def test_hooks_with_keywords_and_order() -> None:
    class Power(nn.Module):
        def forward(self, x: Any, power: int = 1) -> Any:
            return x**power

    m, order = Power(), []
    m.register_forward_pre_hook(lambda mod, a, k: order.append("late"), with_kwargs=True)
    m.register_forward_pre_hook(lambda mod, a: order.append("early"), prepend=True)
    m.register_forward_pre_hook(lambda mod, a, k: (a, {"power": 3}), with_kwargs=True)
    m.register_forward_hook(lambda mod, a, k, out: order.append(k["power"]), with_kwargs=True)
    assert m(tb.tensor(2.0), power=2).item() == 8.0
    assert order == ["early", "late", 3]


def test_a_handle_is_a_context_and_a_function() -> None:
    m = linear()
    with m.register_forward_hook(lambda mod, a, out: out * 0):
        assert m(x()).tolist() == [[0.0]]
    assert m(x()).tolist() == [[-10.0]]
    remove = m.register_forward_hook(lambda mod, a, out: out * 0)
    remove()
    assert m(x()).tolist() == [[-10.0]]


def test_a_hook_that_is_always_called_sees_a_failure() -> None:
    m, seen = linear(), []
    m.register_forward_hook(lambda mod, a, out: seen.append(out), always_call=True)
    with pytest.raises(ValueError, match="linear of an input"):
        m(tb.ones((3,)))
    assert seen == [None]


def test_backward_hooks_see_gradients_of_results_and_inputs() -> None:
    m, seen = linear(), []
    m.register_full_backward_hook(lambda mod, gi, go: seen.append((gi[0].tolist(), go[0].tolist())))
    t = x().requires_grad_()
    (m(t) * 5 + t.sum()).sum().backward()
    assert seen == [([[10.0, -15.0]], [[5.0]])]  # this module's share alone, not that of t.sum()
    assert t.grad.tolist() == [[11.0, -14.0]] and m.weight.grad.tolist() == [[5.0, 20.0]]


def test_backward_hooks_replace_gradients() -> None:
    m = linear()
    m.register_full_backward_pre_hook(lambda mod, go: (go[0] * 2,))
    handle = m.register_full_backward_hook(lambda mod, gi, go: (gi[0] + 100,))
    t = x().requires_grad_()
    m(t).sum().backward()
    assert t.grad.tolist() == [[104.0, 94.0]] and m.weight.grad.tolist() == [[2.0, 8.0]]
    handle.remove()
    t.grad = None
    m(t).sum().backward()
    assert t.grad.tolist() == [[4.0, -6.0]]


def test_a_backward_hook_of_a_first_layer_has_no_input_gradient() -> None:
    m, seen = linear(), []
    m.register_full_backward_hook(lambda mod, gi, go: seen.append((gi, go[0].tolist())))
    m(x()).sum().backward()
    assert seen == [((None,), [[1.0]])]


def test_backward_hooks_work_under_grad_and_jit() -> None:
    m, seen = linear(), []
    m.register_full_backward_hook(lambda mod, gi, go: (seen.append(gi[0].shape), (gi[0] * 3,))[1])
    g = tb.grad(lambda t: (m(t) ** 2).sum())(x())
    expected = 3 * 2 * -10 * np.array([[2.0, -3.0]])
    np.testing.assert_allclose(g.detach().numpy(), expected)

    def step(t: tb.Tensor) -> Any:
        t = t.detach().clone().requires_grad_()
        (m(t) ** 2).sum().backward()
        return t.grad

    np.testing.assert_allclose(tb.jit(step)(x()).numpy(), expected)
    assert seen == [(1, 2), (1, 2)]


def test_second_derivatives_pass_a_hooked_module() -> None:
    m = nn.Tanh()
    m.register_full_backward_hook(lambda mod, gi, go: None)
    found = tb.grad(lambda v: tb.grad(lambda u: m(u).sum())(v).sum())(tb.tensor([0.3, -1.2]))
    t = np.tanh([0.3, -1.2])
    np.testing.assert_allclose(found.numpy(), -2 * t * (1 - t * t), rtol=1e-5)


def test_modules_with_several_results_and_no_gradient() -> None:
    lstm, seen = nn.LSTM(2, 3), []
    lstm.register_full_backward_hook(lambda mod, gi, go: seen.append([g is None for g in go]))
    with tb.no_grad():
        lstm(tb.ones((4, 1, 2)))
    assert seen == []
    _, (h, _) = lstm(tb.ones((4, 1, 2)))
    h.sum().backward()
    assert seen == [[False, False, False]]


def test_wrong_hooks_are_refused() -> None:
    m = linear()
    with pytest.raises(ArgumentError, match="a hook 3"):
        m.register_forward_hook(3)  # type: ignore[arg-type]
    handle = m.register_forward_pre_hook(lambda mod, a, k: 7, with_kwargs=True)
    with pytest.raises(ArgumentError, match="a forward pre-hook of Linear returned int"):
        m(x())
    handle.remove()
    m.register_full_backward_hook(lambda mod, gi, go: (gi[0], gi[0]))
    t = x().requires_grad_()
    with pytest.raises(ArgumentError, match="a backward hook of Linear returned 2 gradients"):
        m(t).sum().backward()
