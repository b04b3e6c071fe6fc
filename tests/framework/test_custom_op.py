"""Operations that are Python functions of arrays: values, derivatives of any order, vmap, jit, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, GradientError, ShapeError, TrilobiteError
from trilobite.ir.text import show
from trilobite.ir.text_reader import parse

calls: list[tuple[int, ...]] = []


@tb.custom_op
def power(x: Any, y: Any, *, p: int = 2) -> Any:
    calls.append(x.shape)
    return (x - y) ** p


@power.defvjp
def _(inputs: Any, out: Any, cotangent: Any, *, p: int = 2) -> Any:
    x, y = inputs
    slope = p * power(x, y, p=p - 1) * cotangent
    return slope, -slope


@power.defjvp
def _(inputs: Any, tangents: Any, *, p: int = 2) -> Any:
    return power(*inputs, p=p), p * power(*inputs, p=p - 1) * (tangents[0] - tangents[1])


@tb.custom_op(result=lambda x: (tb.TensorType(x.shape[:1], tb.float32), tb.TensorType(x.shape[:1], x.dtype)))
def both(x: Any) -> Any:
    return x.sum(1, dtype=np.float32), x.max(1)


@both.defvjp
def _(inputs: Any, outs: Any, cotangents: Any) -> Any:
    (x,), (_, largest), (first, second) = inputs, outs, cotangents
    return (first[:, None] + second[:, None] * (x == largest[:, None]).astype(x.dtype),)


def numbers(*shape: int) -> Any:
    return (np.random.default_rng(3).normal(size=shape) * 3).astype(np.float32)


def test_values_and_gradients_eager_and_compiled() -> None:
    a, b = tb.asarray(numbers(5, 7)), tb.asarray(numbers(5, 7)[::-1].copy())

    def loss(a: Any, b: Any) -> Any:
        return (power(a * 2, b, p=3) + 1).sum()

    want = 6 * (2 * a.numpy() - b.numpy()) ** 2
    for grad in (tb.grad(loss), tb.jit(tb.grad(loss)), tb.jit(tb.grad(loss), target="reference")):
        assert np.allclose(grad(a, b).numpy(), want, rtol=1e-5)
    assert np.array_equal(tb.jit(loss)(a, b).numpy(), loss(a, b).numpy())


def test_derivatives_of_derivatives_and_forward_mode() -> None:
    x, y = tb.tensor(2.5), tb.tensor(-1.0)
    assert float(tb.grad(tb.grad(lambda x: power(x, y, p=4)))(x)) == pytest.approx(12 * 3.5**2)
    value, slope = tb.jvp(lambda x: power(x, y, p=3), (x,), (tb.tensor(2.0),))
    assert (float(value), float(slope)) == pytest.approx((3.5**3, 2 * 3 * 3.5**2))


def test_several_results_of_other_shapes() -> None:
    x = tb.tensor(numbers(4, 6), requires_grad=True)
    total, largest = both(x)
    assert total.shape == largest.shape == (4,)
    (total.sum() + 10 * largest.sum()).backward()
    want = 1 + 10 * (x.detach().numpy() == x.detach().numpy().max(1, keepdims=True))
    assert np.array_equal(x.grad.numpy(), want.astype(np.float32))
    compiled = tb.jit(lambda x: both(x)[1])(x.detach())
    assert np.array_equal(compiled.numpy(), x.detach().numpy().max(1))


def test_vmap_is_one_call_an_element() -> None:
    a, b = numbers(3, 4), numbers(4)
    calls.clear()
    out = tb.vmap(lambda x: power(x, tb.asarray(b), p=2))(tb.asarray(a))
    assert calls == [(4,)] * 3
    assert np.array_equal(out.numpy(), (a - b) ** 2)


def test_what_nobody_needs_is_not_called() -> None:
    @tb.jit
    def step(x: Any) -> Any:
        power(x, x)
        return x + 1

    x = tb.asarray(numbers(3))
    step(x)
    calls.clear()
    step(x)
    assert calls == []


def test_the_graph_reads_back() -> None:
    graph = tb.make_graph(lambda x: power(x, x + 1, p=3))(tb.asarray(numbers(3)))
    assert "custom_call" in show(graph) and parse(show(graph)) == graph


def test_a_function_cannot_write_to_its_operands_and_may_return_them() -> None:
    @tb.custom_op
    def same(x: Any) -> Any:
        return x

    @tb.custom_op
    def spoils(x: Any) -> Any:
        x += 1
        return x

    x = tb.tensor(numbers(3))
    y = same(x)
    y += 1
    assert not np.array_equal(x.numpy(), y.numpy())
    with pytest.raises(ValueError, match="read-only"):
        spoils(x)


def test_names_never_meet() -> None:
    first, second = (tb.custom_op(lambda x, k=k: x * k) for k in (2, 3))
    assert first.name != second.name
    x = tb.asarray(numbers(3))
    assert np.array_equal((first(x) + second(x)).numpy(), 2 * x.numpy() + 3 * x.numpy())


@tb.custom_op
def bare(x: Any) -> Any:
    return np.abs(x)


def wrong_rule(rule: Any) -> Any:
    @tb.custom_op
    def op(x: Any) -> Any:
        return x * 2

    op.defvjp(rule)
    return lambda: tb.grad(lambda x: op(x).sum())(tb.asarray(numbers(3)))


@pytest.mark.parametrize(
    "use, kind, said",
    [
        (lambda: tb.grad(lambda x: bare(x).sum())(tb.asarray(numbers(3))), GradientError,
         "the operation bare has no derivative for reverse mode"),
        (lambda: tb.jvp(bare, (tb.tensor(1.0),), (tb.tensor(1.0),)), GradientError,
         "the operation bare has no derivative for forward mode"),
        (wrong_rule(lambda inputs, out, ct: (ct, ct)), GradientError, "gave 2 cotangents"),
        (wrong_rule(lambda inputs, out, ct: (ct[:2],)), GradientError, r"gave f32\[2\] for input 0"),
        (lambda: power(tb.tensor(1.0), tb.tensor(1.0), p=[1]), ArgumentError,
         "the constant p of power is a list"),
        (lambda: power([1.0, 2.0], 1.0), ArgumentError, "power was given a nested argument"),
        (lambda: tb.custom_op(lambda: 1.0)(), ShapeError, "no operand whose type"),
        (lambda: tb.custom_op(lambda x: x[:1])(tb.asarray(numbers(3))), ShapeError, r"float32\[1\]"),
        (lambda: (tb.custom_op(bare.fn, name="taken"), tb.custom_op(bare.fn, name="taken")), ArgumentError,
         "two routines named 'taken'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(use: Any, kind: type[TrilobiteError], said: str) -> None:
    with pytest.raises(kind, match=said):
        use()
