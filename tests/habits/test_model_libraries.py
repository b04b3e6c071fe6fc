"""What sources of others stopped at: methods that need what they change, leaves in backward, names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import trilobite.distributions.utils as conversions
from trilobite.distributions import constraints

import trilobite as tb
from trilobite import distributions as D
from trilobite import nn

X = np.random.default_rng(3).standard_normal((3, 3))


def _barlow(c: tb.Tensor) -> tb.Tensor:
    on = tb.diagonal(c).add_(-1).pow_(2).sum()
    off = c.flatten()[:-1].view(2, 4)[:, 1:].flatten().pow_(2).sum()
    return on + 3 * off


def _apart(c: tb.Tensor) -> tb.Tensor:
    """The same without writing."""
    eye = tb.eye(3, dtype=tb.float64)
    return (((c - 1) ** 2) * eye).sum() + 3 * ((c**2) * (1 - eye)).sum()


IN_PLACE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "a power": (lambda c: c.pow_(2).sum(), lambda c: (c**2).sum()),
    "a product with itself": (lambda c: c.mul_(c).sum(), lambda c: (c * c).sum()),
    "several in a row": (
        lambda c: c.add_(1).pow_(3).abs_().clamp_(0.1, 2).sum(),
        lambda c: ((c + 1) ** 3).abs().clamp(0.1, 2).sum(),
    ),
    "a view": (
        lambda c: (c[0].pow_(2), c.sin().sum())[1],
        lambda c: tb.stack([c[0] ** 2, c[1], c[2]]).sin().sum(),
    ),
    "a column, then a sine": (
        lambda c: (c[:, 1].mul_(3.0).sin_(), (c * c).sum())[1],
        lambda c: (c[:, 0] ** 2).sum() + ((3 * c[:, 1]).sin() ** 2).sum() + (c[:, 2] ** 2).sum(),
    ),
    "both parts of a matrix": (_barlow, _apart),
}


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("jitted", [False, True])
def test_a_method_in_place_may_need_what_it_changes(name: str, jitted: bool) -> None:
    grads = []
    for fn in IN_PLACE[name]:
        x = tb.tensor(X, requires_grad=True)

        def run(fn: Any = fn, x: Any = x) -> tb.Tensor:
            loss = fn(x * 1)
            loss.backward()
            return loss

        loss = (tb.jit(run) if jitted else run)()
        grads.append((loss.item(), x.grad.numpy()))
    assert grads[0][0] == pytest.approx(grads[1][0], rel=1e-12)
    np.testing.assert_allclose(grads[0][1], grads[1][1], rtol=1e-12, atol=1e-12)


def test_what_another_operation_kept_must_stay() -> None:
    x = tb.tensor(X, requires_grad=True)
    y = x * 1
    s = y.sin()
    y.pow_(2)
    with pytest.raises(tb.errors.GradientError, match="the gradient of sin needs was changed in place"):
        (s + y).sum().backward()


class Adjoint(tb.autograd.Function):
    """Differentiates again in backward, by the leaves that it was called with."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x * w * w

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:  # type: ignore[override]
        x, w = ctx.saved_tensors
        with tb.enable_grad():
            y = x.detach().requires_grad_(True)
            return tb.autograd.grad(y * w * w, (y, w), g, allow_unused=True, retain_graph=True)


def test_saved_leaves_are_themselves_in_backward() -> None:
    x, w = tb.tensor([1.0, 2.0], requires_grad=True), nn.Parameter(tb.tensor([3.0, 5.0]))
    Adjoint.apply(x, w).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [9.0, 25.0])
    np.testing.assert_array_equal(w.grad.numpy(), [6.0, 20.0])


def test_names_that_libraries_ask_for() -> None:
    values, counts = tb.tensor([1.0, 2.0, 2.0]).unique(return_counts=True)
    assert values.tolist() == [1.0, 2.0] and counts.tolist() == [1, 2]
    assert nn.ParameterDict({"a": None, "b": tb.ones(2)})["a"] is None
    assert tb.functional.einsum is tb.einsum
    triangle = conversions.vec_to_tril_matrix(tb.arange(6.0) + 1)
    assert triangle.tolist() == [[1, 0, 0], [2, 3, 0], [4, 5, 6]]
    assert conversions.tril_matrix_to_vec(triangle, -1).tolist() == [2, 4, 5]
    p = tb.tensor([0.25, 0.75])
    np.testing.assert_allclose(
        conversions.logits_to_probs(conversions.probs_to_logits(p)).numpy(), p.numpy(), rtol=1e-6
    )


def test_distributions_of_larger_batches() -> None:
    wide = D.Normal(tb.tensor([0.0, 1.0]), tb.tensor(2.0)).expand((3, 2))
    assert wide.batch_shape == (3, 2) and wide.sample((4,)).shape == (4, 3, 2)
    np.testing.assert_allclose(
        wide.log_prob(tb.zeros(3, 2)).numpy()[1],
        D.Normal(tb.tensor([0.0, 1.0]), 2.0).log_prob(tb.zeros(2)).numpy(),
    )
    grouped = D.Independent(D.Normal(tb.zeros(4), tb.ones(4)), 1).expand((5,))
    assert grouped.sample().shape == (5, 4) and grouped.log_prob(tb.zeros(5, 4)).shape == (5,)


@pytest.mark.parametrize(
    "inside",
    [
        constraints.positive,
        constraints.unit_interval,
        constraints.interval(-2.0, 3.0),
        constraints.less_than(1.0),
        constraints.real,
        constraints.simplex,
        constraints.lower_cholesky,
    ],
)
def test_real_numbers_go_into_a_set(inside: Any) -> None:
    x = tb.tensor(X)
    for ways in (D.transform_to, D.biject_to):
        assert bool(inside.check(ways(inside)(x)).all())
    back = D.biject_to(inside)
    again = back(back.inv(back(x)))
    np.testing.assert_allclose(again.numpy(), back(x).numpy(), rtol=1e-9, atol=1e-9)


def test_factors_of_correlation_matrices() -> None:
    tb.manual_seed(0)
    law = D.LKJCholesky(3, tb.tensor(1.5, dtype=tb.float64))
    drawn = law.sample((4000,))
    assert bool(constraints.corr_cholesky.check(drawn).all())
    matrices = (drawn @ drawn.mT).numpy()
    # each correlation is a beta variable on (-1, 1) with both parameters 1.5 + (3 - 2) / 2 = 2: variance 1/5
    np.testing.assert_allclose(matrices[:, [1, 2, 2], [0, 0, 1]].var(0), 0.2, atol=0.02)
    two = D.LKJCholesky(2, tb.tensor(2.0, dtype=tb.float64))  # its density over r is 3/4 (1 - r^2)
    r = np.linspace(-0.9, 0.9, 7)
    low = np.stack([np.stack([np.ones(7), np.zeros(7)], -1), np.stack([r, np.sqrt(1 - r**2)], -1)], -2)
    np.testing.assert_allclose(two.log_prob(tb.tensor(low)).numpy(), np.log(0.75 * (1 - r**2)), rtol=1e-12)


def test_two_axes_by_name() -> None:
    """`diagonal(dim1=, dim2=)` passed over dim1; PyTorch counts from 0 elsewhere."""
    x = tb.asarray(np.random.default_rng(0).standard_normal((5, 3, 4)))
    want = np.diagonal(x.numpy(), 1, 1, 2)
    for got in (
        x.diagonal(offset=1, dim1=-2, dim2=-1),
        tb.diagonal(x, 1, dim1=1, dim2=2),
        x.diagonal(1, 1, dim2=2),
    ):
        np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(x.diagonal(dim1=2, dim2=0).numpy(), np.diagonal(x.numpy(), 0, 2, 0))
    for got in (
        x.transpose(dim0=0, dim1=2),
        x.transpose(0, dim1=2),
        x.swapaxes(axis0=0, axis1=2),
        x.swapdims(dim0=0, dim1=2),
    ):
        np.testing.assert_array_equal(got.numpy(), x.numpy().swapaxes(0, 2))
    with pytest.raises(TypeError, match="given under several names: dim, axis"):
        tb.sum(x, dim=0, axis=1)


def test_operands_and_sizes_by_pytorchs_words() -> None:
    x, y = tb.tensor([[1.0, -2.0]]), tb.tensor([[4.0, 3.0]])
    assert tb.add(input=x, other=y, alpha=2).tolist() == [[9.0, 4.0]]
    assert tb.pow(input=x, exponent=2).tolist() == [[1.0, 4.0]]
    assert tb.sort(input=x, dim=1).values.tolist() == [[-2.0, 1.0]]
    assert tb.std(input=y, dim=1).item() == pytest.approx(0.5**0.5)
    assert x.expand(size=(3, 2)).shape == tb.tile(x, dims=(3, 1)).shape == (3, 2)
    assert x.index_add(dim=0, index=tb.tensor([0]), source=y, alpha=2).tolist() == [[9.0, 4.0]]


# -- leaves that were parts, results that go somewhere -----------------------------------------------------


@pytest.mark.parametrize("jitted", [False, True])
def test_a_part_of_the_data_becomes_a_leaf(jitted: bool) -> None:
    """As equations of physics have it: the coordinates are columns of one array."""
    data = tb.tensor(X)

    def run() -> tuple[tb.Tensor, tb.Tensor]:
        x, t = data[:, :1].requires_grad_(), data[:, 1:2]
        t.requires_grad = True
        (slope,) = tb.autograd.grad((x**3 * t).sum(), x, create_graph=True)
        (mixed,) = tb.autograd.grad(slope.sum(), t)
        return slope, mixed

    slope, mixed = (tb.jit(run) if jitted else run)()
    np.testing.assert_allclose(slope.detach().numpy(), 3 * X[:, :1] ** 2 * X[:, 1:2])
    np.testing.assert_allclose(mixed.detach().numpy(), 3 * X[:, :1] ** 2)
    assert not data.requires_grad


def test_what_requires_a_gradient_may_be_asked_to() -> None:
    w = tb.tensor(X, requires_grad=True)
    part = w[0].requires_grad_()
    part.sum().backward()
    assert w.grad.numpy()[0].tolist() == [1.0, 1.0, 1.0] and not part.is_leaf
    with pytest.raises(tb.errors.GradientError, match="leaves only"):
        part.requires_grad_(False)


INTO: dict[str, tuple[Callable[..., Any], Callable[[], Any]]] = {
    "max of two": (lambda x, y, **k: tb.max(x, y, **k), lambda: np.maximum(X, X.T)),
    "max along": (lambda x, y, **k: tb.max(x, 1, **k), lambda: (X.max(1), X.argmax(1))),
    "min along": (
        lambda x, y, **k: tb.min(x, dim=0, keepdim=True, **k),
        lambda: (X.min(0)[None], X.argmin(0)[None]),
    ),
    "sort": (lambda x, y, **k: tb.sort(x, dim=1, **k), lambda: (np.sort(X, 1), np.argsort(X, 1))),
    "cummax": (lambda x, y, **k: tb.cummax(x, 1, **k)[:1], lambda: (np.maximum.accumulate(X, 1),)),
    "std": (lambda x, y, **k: tb.std(x, dim=1, **k), lambda: X.std(1, ddof=1)),
    "addmm": (lambda x, y, **k: tb.addmm(x, x, y, beta=2, **k), lambda: 2 * X + X @ X.T),
    "addcmul": (lambda x, y, **k: tb.addcmul(x, x, y, value=3, **k), lambda: X + 3 * X * X.T),
    "entr": (lambda x, y, **k: tb.special.entr(x * 0 + 2, **k), lambda: np.full((3, 3), -2 * np.log(2))),
    "add": (lambda x, y, **k: tb.add(x, y, **k), lambda: X + X.T),
}


@pytest.mark.parametrize("name", INTO)
def test_results_go_where_out_says(name: str) -> None:
    call, wanted = INTO[name]
    x = tb.tensor(X)
    found = wanted() if isinstance(wanted(), tuple) else (wanted(),)
    if name == "cummax":
        rooms: Any = (tb.full((3, 3), 7.0, dtype=tb.float64), tb.full((3, 3), 7))
    else:
        rooms = tuple(
            tb.full(w.shape, 7, dtype=tb.int64 if w.dtype == np.int64 else tb.float64) for w in found
        )
    call(x, x.T, out=rooms if len(rooms) > 1 else rooms[0])
    for room, w in zip(rooms, found, strict=False):
        np.testing.assert_allclose(room.numpy(), w)
    assert call(x, x.T, out=None) is not None


def test_normal_draws_go_where_out_says() -> None:
    room = tb.zeros(3, 3, dtype=tb.float64)
    tb.manual_seed(3)
    tb.normal(tb.tensor(X), 0.0, out=room)
    np.testing.assert_array_equal(room.numpy(), X)


def test_lists_of_tensors() -> None:
    xs, ys = [tb.tensor(X), tb.tensor(X[0])], [tb.tensor(X.T), tb.tensor(X[1])]
    np.testing.assert_allclose(
        [n.item() for n in tb._foreach_norm(xs, ord=1)], [np.abs(X).sum(), np.abs(X[0]).sum()]
    )
    sums = tb._foreach_addcmul(xs, ys, ys, [2.0, 3.0])
    np.testing.assert_allclose(sums[0].numpy(), X + 2 * X.T**2)
    np.testing.assert_allclose(sums[1].numpy(), X[0] + 3 * X[1] ** 2)
    tb._foreach_addcdiv_(xs, ys, ys, 0.5)
    np.testing.assert_allclose(xs[0].numpy(), X + 0.5)


def test_a_tensor_from_outside_is_made_contiguous() -> None:
    outside = tb.tensor(X)
    turned = outside.T
    found = tb.jit(lambda: (outside.T.contiguous() * 2, turned.contiguous().view(-1)))()
    np.testing.assert_array_equal(found[0].numpy(), 2 * X.T)
    np.testing.assert_array_equal(found[1].numpy(), X.T.ravel())


def test_collate_is_below_utils() -> None:
    collate = tb.utils.data._utils.collate
    assert collate.default_collate([1, 2]).tolist() == [1, 2]
