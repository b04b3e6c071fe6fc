"""Places that no usual size meets: ties and signed zeros, the smallest numbers, sizes as lists, steps that
go up, parameters of several shapes. Each beside NumPy, or by hand.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import TrilobiteError
from trilobite.framework import random as draws


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_frexp_of_every_exponent(dtype: Any) -> None:
    """From the least subnormal number to the largest, each with neighbours on both sides."""
    info = np.finfo(dtype)
    powers = np.ldexp(dtype(1), np.arange(int(np.log2(info.smallest_subnormal)), info.maxexp)).astype(dtype)
    near = np.concatenate([powers, np.nextafter(powers, dtype(np.inf)), np.nextafter(powers, dtype(0))])
    x = np.concatenate([near, -near, [0.0, -0.0]]).astype(dtype)
    mantissa, power = tb.frexp(tb.tensor(x))
    wanted, powers_of = np.frexp(x)
    np.testing.assert_array_equal(power.numpy(), powers_of)
    np.testing.assert_array_equal(mantissa.numpy(), wanted)


@pytest.mark.parametrize("shape", [(3, 3), (3, 5), (5, 3), (1, 4), (4, 1), (2, 2, 2), (3, 3, 3), (7, 2)])
@pytest.mark.parametrize("wrap", [False, True])
def test_diagonals_are_filled_as_numpy_does(shape: tuple[int, ...], wrap: bool) -> None:
    x = np.arange(1.0, 1 + math.prod(shape)).reshape(shape)
    found = tb.tensor(x).clone()
    found.fill_diagonal_(-1.0, wrap)
    np.fill_diagonal(x, -1.0, wrap)
    np.testing.assert_array_equal(found.numpy(), x)


def test_medians_by_either_habit() -> None:
    """With the standard's words the mean of the middle two, with PyTorch's the lower one and its place."""
    x = np.random.default_rng(0).normal(size=(4, 6))
    t = tb.tensor(x)
    np.testing.assert_array_equal(tb.median(t, keepdims=True).numpy(), np.median(x, keepdims=True))
    np.testing.assert_array_equal(tb.median(t, axis=1).numpy(), np.median(x, axis=1))
    column = tb.median(t, axis=0, keepdims=True).numpy()
    np.testing.assert_allclose(column, np.median(x, axis=0, keepdims=True), rtol=1e-15)
    lower = np.sort(x, axis=1)[:, 2]
    np.testing.assert_array_equal(tb.median(t, 1).values.numpy(), lower)
    np.testing.assert_array_equal(tb.median(t, 1, True).values.numpy(), lower[:, None])
    assert float(tb.median(t)) == np.sort(x.ravel())[11]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("n", [4, 15, 16, 17, 31, 33, 64, 65, 257, 1025])
def test_both_zeros_are_ties_and_ties_keep_their_order(dtype: str, n: int) -> None:
    rng = np.random.default_rng(n)
    x = rng.choice([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf], n)
    t = tb.tensor(x, dtype=getattr(tb, dtype))
    order = np.argsort(x, kind="stable")  # NumPy compares: both zeros are equal
    for fn in (tb.argsort, tb.jit(tb.argsort)):
        np.testing.assert_array_equal(fn(t).numpy(), order)
    down = np.argsort(-x, kind="stable")
    found = tb.sort(t, dim=0, descending=True, stable=True).indices
    np.testing.assert_array_equal(found.numpy(), down)
    signs = np.signbit(tb.sort(t).values.numpy().astype(np.float64))
    np.testing.assert_array_equal(signs, np.signbit(x[order]))


@pytest.mark.parametrize("size", [[2, 3], (2, 3)])
def test_sizes_of_integers_are_lists_or_tuples(size: Any) -> None:
    low, one = tb.randint(4, 9, size), tb.randint(9, size)
    assert tuple(low.shape) == tuple(one.shape) == (2, 3)
    assert set(low.numpy().ravel().tolist()) <= set(range(4, 9))
    assert set(one.numpy().ravel().tolist()) <= set(range(9))


def test_normal_numbers_of_every_form_of_the_call() -> None:
    tb.manual_seed(5)
    mean, spread = tb.tensor([[100.0], [200.0], [300.0]]), tb.tensor([1.0, 2.0, 3.0, 4.0])
    both = tb.normal(mean, spread).numpy()
    assert both.shape == (3, 4)
    np.testing.assert_allclose(both, np.broadcast_to([[100.0], [200.0], [300.0]], (3, 4)), atol=24)
    assert len(np.unique(both)) == 12
    assert tb.normal(mean, 2.0).shape == (3, 1) and tb.normal(7.0, spread).shape == (4,)
    zero = tb.normal(mean, tb.zeros(3, 4)).numpy()
    np.testing.assert_array_equal(zero, np.broadcast_to([[100.0], [200.0], [300.0]], (3, 4)))
    for wide in (
        tb.normal((2000,), 50.0, 0.5),
        tb.normal((2000,), 50, 1),
    ):  # tb.random.normal(shape, mean, std)
        assert tuple(wide.shape) == (2000,) and abs(float(wide.mean()) - 50) < 0.2
    assert abs(float(tb.normal((4000,), 0.0, 3.0).std()) - 3.0) < 0.2
    assert abs(float(tb.normal(-5.0, 2.0, (4000,)).mean()) + 5.0) < 0.3


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_choices_along_any_axis(axis: int) -> None:
    x = np.arange(24).reshape(2, 3, 4)
    n = x.shape[axis]
    found = draws.choice(tb.tensor(x), n, replace=False, axis=axis).numpy()
    assert found.shape == x.shape
    np.testing.assert_array_equal(np.sort(found, axis=axis), x)
    assert draws.choice(tb.tensor(x), (5,), axis=axis).numpy().shape == tuple(
        5 if d == axis % 3 else s for d, s in enumerate(x.shape)
    )


@pytest.mark.parametrize("axis", [3, -4])
def test_an_axis_that_a_choice_does_not_have(axis: int) -> None:
    with pytest.raises(TrilobiteError, match="choice"):
        draws.choice(tb.zeros(2, 3, 4), 2, axis=axis)


def test_a_loss_that_rises_does_not_end_lbfgs() -> None:
    """Without a line search a step may go up: only a change that is small in size ends it."""
    x = tb.tensor([1.0], dtype=tb.float64, requires_grad=True)
    optimizer = tb.optim.LBFGS([x], lr=2.5, max_iter=4, tolerance_grad=0.0, tolerance_change=0.0)
    seen = []

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        seen.append((float(x), float(loss)))
        return loss

    optimizer.step(closure)
    assert [loss for _, loss in seen][:2] == [1.0, 2.25]  # from 1 by min(1, 1/2) * 2.5 * 2 to -1.5
    assert len(seen) == 4
    assert seen[2][0] == pytest.approx(-1.5 + 2.5 * 1.5)  # Newton's step, two and a half times as long


@pytest.mark.parametrize("t", [0, 1, 3, 7, 12])
def test_a_schedule_that_is_set_to_an_epoch_has_its_rate_at_once(t: int) -> None:
    for name, settings in (
        ("StepLR", {"step_size": 3}), ("ExponentialLR", {"gamma": 0.8}),
        ("CosineAnnealingLR", {"T_max": 15}), ("MultiStepLR", {"milestones": [2, 7]}),
        ("LinearLR", {"total_iters": 6}),
    ):  # fmt: skip
        rates = []
        for jumps in (False, True):
            optimizer = tb.optim.SGD([tb.tensor([1.0], requires_grad=True)], lr=0.5)
            schedule = getattr(tb.optim.lr_scheduler, name)(optimizer, **settings)
            if jumps:
                schedule.step(t)
            else:
                for _ in range(t):
                    optimizer.step()
                    schedule.step()
            rates.append(schedule.get_last_lr())
            assert schedule.last_epoch == t
        assert rates[0] == pytest.approx(rates[1], rel=1e-12), name


@pytest.mark.parametrize("kind", ["BatchNorm1d", "InstanceNorm1d"])
def test_running_statistics_begin_anew(kind: str) -> None:
    layer = getattr(tb.nn, kind)(3, track_running_stats=True)
    layer(tb.tensor(np.random.default_rng(0).normal(3, 2, (4, 3, 5)).astype(np.float32)))
    assert float(layer.running_mean.abs().max()) > 0
    layer.num_batches_tracked.fill_(3)
    layer.reset_running_stats()
    assert int(layer.num_batches_tracked) == 0
    assert (
        layer.running_mean.numpy().tolist() == [0.0] * 3 and layer.running_var.numpy().tolist() == [1.0] * 3
    )


def test_a_library_registers_what_runs_here() -> None:
    """The key of the call stands before the library's own."""
    for own, asked, there in (
        ("", "", True), ("CUDA", "", False), ("CUDA", "CPU", True), ("CPU", "CUDA", False),
        ("", "Meta", False), ("CPU", "", True), ("", "Autograd", True),
    ):  # fmt: skip
        name = f"{own or 'none'}_{asked or 'none'}".lower()
        tb.library.Library("narrow_places", "FRAGMENT", own).impl(name, lambda x: x + 1, asked)
        if there:
            assert float(tb.library.named(f"narrow_places::{name}")(tb.tensor(2.0))) == 3.0
        else:
            with pytest.raises(KeyError):
                tb.library.named(f"narrow_places::{name}")


@pytest.mark.parametrize("inside", ["grad", "jvp", "vmap"])
def test_backward_inside_a_transform_says_so(inside: str) -> None:
    def f(x: Any) -> Any:
        y = (x * x).sum()
        y.backward()
        return y

    x = tb.tensor([1.0, 2.0], requires_grad=True)
    run = {
        "grad": lambda: tb.grad(f)(x), "jvp": lambda: tb.jvp(f, (x,), (x,)),
        "vmap": lambda: tb.vmap(f)(x[None]),
    }[inside]  # fmt: skip
    with pytest.raises(TrilobiteError, match="inside grad, jvp or vmap"):
        run()
