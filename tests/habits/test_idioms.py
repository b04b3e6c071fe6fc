"""Idioms of PyTorch's model code, each with what it means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from trilobite.distributions import constraints

import trilobite as tb
from trilobite import nn
from trilobite.base.errors import ShapeError

R = np.random.default_rng(4)


@pytest.mark.filterwarnings("ignore::trilobite.MeaningWarning")
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("compiled", [False, True])
def test_sort_is_unpacked_into_values_and_indices(rows: int, compiled: bool) -> None:
    a = R.normal(size=(rows, 4))

    def f(x: Any) -> Any:
        values, indices = tb.sort(x, descending=True)
        return values, indices

    values, indices = (tb.jit(f) if compiled else f)(tb.tensor(a))
    assert np.array_equal(values.numpy(), -np.sort(-a)) and np.array_equal(indices.numpy(), np.argsort(-a))
    assert [r.tolist() for r in tb.sort(tb.tensor(a))] == np.sort(a).tolist()  # a loop goes over rows


def test_sort_that_is_unpacked_has_a_gradient() -> None:
    x = tb.tensor([3.0, 1.0, 2.0], requires_grad=True)
    values, _ = tb.sort(x)
    (values * tb.tensor([1.0, 2.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [4.0, 1.0, 2.0]


OUT: dict[str, Any] = {
    "add": lambda x, out: tb.add(x, x, alpha=3, out=out), "exp": lambda x, out: tb.exp(x, out=out),
    "mul": lambda x, out: tb.mul(x, 3.0, out=out), "sum": lambda x, out: tb.sum(x, dim=0, out=out),
    "cat": lambda x, out: tb.cat([x, x], dim=1, out=out), "mm": lambda x, out: tb.mm(x, x.T, out=out),
    "clamp": lambda x, out: tb.clamp(x, 0.0, 0.5, out=out),
    "where": lambda x, out: tb.where(x > 0, x, 1.0, out=out),
    "div": lambda x, out: tb.div(x, 0.3, rounding_mode="floor", out=out),
}  # fmt: skip


@pytest.mark.parametrize("name", list(OUT))
def test_results_are_written_where_out_says(name: str) -> None:
    x = tb.tensor(R.normal(size=(3, 4)))
    wanted = OUT[name](x, None)
    room = tb.full(tuple(wanted.shape), -7.0, dtype=tb.float64)
    assert OUT[name](x, room) is room and np.array_equal(room.numpy(), wanted.numpy())
    empty = tb.empty(0, dtype=tb.float64)
    assert np.array_equal(OUT[name](x, empty).numpy(), wanted.numpy()) and empty.shape == wanted.shape
    with pytest.raises(ShapeError, match="out= of shape"):
        OUT[name](x, tb.zeros(5, 5, 5, dtype=tb.float64))


def test_words_that_nobody_knows_are_refused() -> None:
    with pytest.raises(TypeError, match="exp"):
        tb.exp(tb.ones(2), axiss=1)


def test_values_of_topk_may_be_normalised_in_place() -> None:
    x = tb.tensor(R.normal(size=(3, 6)), requires_grad=True)
    weights, places = tb.topk(x.softmax(-1), 2)
    weights /= weights.sum(-1, keepdim=True)
    (weights * tb.tensor([1.0, 3.0], dtype=tb.float64)).sum().backward()
    probe = tb.tensor(x.detach().numpy(), requires_grad=True)
    taken = probe.softmax(-1).gather(-1, places)
    ((taken / taken.sum(-1, keepdim=True)) * tb.tensor([1.0, 3.0], dtype=tb.float64)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), probe.grad.numpy(), rtol=1e-12)


def test_what_only_adds_dimensions_is_written_through() -> None:
    a = tb.arange(4)
    a.expand(1, -1).copy_(tb.arange(4)[None] * 2)
    assert a.tolist() == [0, 2, 4, 6]
    with pytest.raises(Exception, match="a write through broadcast"):
        tb.zeros(3).expand(2, 3).add_(1)


def test_whole_quotients_of_integers_are_integers() -> None:
    assert tb.div(7, 2, rounding_mode="trunc").dtype == tb.int64
    assert tb.div(-7, 2, rounding_mode="trunc").item() == -3
    assert tb.div(7, 2.0, rounding_mode="trunc").dtype == tb.float32


def test_the_slope_of_xlogy_where_x_is_zero() -> None:
    x, y = tb.tensor([0.0, 0.0, 2.0], requires_grad=True), tb.tensor([2.5, 0.0, 3.0])
    tb.xlogy(x, y).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [np.log(2.5), 0.0, np.log(3.0)], rtol=1e-6)
    z = tb.tensor([0.0, 1.0], requires_grad=True)
    tb.special.xlog1py(z, tb.tensor([1.5, 2.0])).sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), np.log1p([1.5, 2.0]), rtol=1e-6)


def test_layers_and_buffers_as_pytorch_makes_them() -> None:
    table = nn.Embedding(4, 2, None, None, 2.0, False, True, tb.ones(4, 2))
    assert table.sparse and table.weight.tolist() == [[1.0, 1.0]] * 4
    assert not nn.Embedding(4, 2, _freeze=True).weight.requires_grad

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept, self.lost = nn.Buffer(tb.ones(2)), nn.Buffer(tb.ones(3), persistent=False)

    layer = Layer().double()
    assert list(layer.state_dict()) == ["kept"] and [n for n, _ in layer.named_buffers()] == ["kept", "lost"]
    assert layer.lost.dtype == tb.float64
    a = R.normal(size=(3, 4))
    np.testing.assert_allclose(
        tb.linalg.vector_norm(tb.tensor(a), 3, 1).numpy(), (np.abs(a) ** 3).sum(1) ** (1 / 3)
    )
    inverse, info = tb.linalg.inv_ex(tb.tensor(a[:3, :3]))
    np.testing.assert_allclose(inverse.numpy(), np.linalg.inv(a[:3, :3]))
    assert info.item() == 0


def test_sets_that_parameters_lie_in() -> None:
    assert constraints.simplex.check(tb.tensor([0.25, 0.75])).item()
    assert not constraints.positive.check(tb.tensor(-1.0)).item()
    assert constraints.positive_definite.check(tb.tensor([[2.0, 0.5], [0.5, 1.0]])).item()
    assert not constraints.positive_definite.check(tb.tensor([[1.0, 2.0], [2.0, 1.0]])).item()


def test_a_row_of_what_was_sorted_is_told_from_pytorchs_pair() -> None:
    with pytest.warns(tb.MeaningWarning, match=r"tb.sort\(x, dim=-1\)\[0\]"):
        first = tb.sort(tb.tensor([[2.0, 1.0], [4.0, 3.0]]))[0]
    assert first.tolist() == [1.0, 2.0]
    assert tb.sort(tb.tensor(5.0))[0].item() == 5.0 and tb.sort(tb.tensor(5.0))[1].item() == 0


def test_a_gradient_by_a_view_of_a_leaf() -> None:
    a = tb.ones((3, 3), requires_grad=True)
    row = a[0]
    (g,) = tb.autograd.grad((row * row * 3).sum(), row)
    assert g.tolist() == [6.0, 6.0, 6.0]
    flat = a.view(9)
    by_view, by_leaf = tb.autograd.grad((flat * 2).sum() + a.sum(), (flat, a))
    assert by_view.tolist() == [2.0] * 9 and by_leaf.tolist() == [[3.0] * 3] * 3
    for _ in range(2):  # a view that is kept is used in one backward pass after the other
        (row * row).sum().backward()
    assert a.grad is not None and a.grad.tolist() == [[4.0] * 3, [0.0] * 3, [0.0] * 3]
    with tb.no_grad():
        a.mul_(5)
    (row * row).sum().backward()
    assert a.grad[0].tolist() == [14.0] * 3


def test_numbers_are_reduced_along_their_only_place() -> None:
    x = tb.tensor(3.0, requires_grad=True)
    for name in ("sum", "mean", "prod", "amax", "amin", "logsumexp"):
        assert getattr(x, name)(0).item() == getattr(x, name)(-1).item() == 3.0
    assert x.softmax(0).item() == 1.0 and (x > 0).all(0).item() is True
    x.sum(0).backward()
    assert x.grad is not None and x.grad.item() == 1.0
    for wrong in (1, -2):
        with pytest.raises(IndexError):
            x.sum(wrong)


def test_the_old_order_of_factors_that_optimisers_still_use() -> None:
    x, y, z = tb.full((3,), 5.0), tb.full((3,), 2.0), tb.full((3,), 4.0)
    assert x.clone().add_(0.5, y).tolist() == [6.0] * 3
    assert x.clone().sub_(0.5, y).tolist() == [4.0] * 3
    assert x.clone().addcmul_(0.5, y, z).tolist() == [9.0] * 3
    assert x.clone().addcdiv_(-2, y, z).tolist() == [4.0] * 3
    assert x.clone().add_(y, alpha=0.5).tolist() == [6.0] * 3


def test_randint_like_below_one_number() -> None:
    x = tb.zeros(200)
    for drawn in (tb.randint_like(x, high=2), tb.randint_like(x, 2), tb.randint_like(x, 0, 2)):
        assert drawn.dtype == x.dtype and set(drawn.tolist()) == {0.0, 1.0}
