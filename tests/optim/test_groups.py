"""Parameter groups: their numbers change in place, their form does not; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, DTypeError, StateError
from trilobite.framework import optim


def leaf(*values: float) -> tb.Tensor:
    return tb.tensor(list(values), requires_grad=True)


def test_groups_have_numbers_of_their_own() -> None:
    a, b = leaf(1.0), leaf(1.0)
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5, "weight_decay": 0.1}], lr=0.25)
    a.grad = b.grad = tb.ones(1)
    optimizer.step()
    assert a.detach().tolist() == [0.75]
    assert b.detach().tolist() == pytest.approx([1.0 - 0.5 * 1.1])


def test_a_group_added_later_joins_the_steps() -> None:
    a, b = leaf(1.0), leaf(1.0)
    optimizer = optim.Adam([a], lr=0.1)
    a.grad = tb.ones(1)
    optimizer.step()
    optimizer.add_param_group({"params": [b], "lr": 0.2, "betas": (0.5, 0.6)})
    a.grad, b.grad = tb.ones(1), tb.ones(1)
    optimizer.step()
    assert optimizer.state[a]["step"].item() == 2 and optimizer.state[b]["step"].item() == 1
    assert b.detach().tolist() == pytest.approx([0.8])
    assert optimizer.param_groups[1]["beta1"].item() == 0.5


def test_named_parameters_and_generators_are_taken() -> None:
    a, b = leaf(1.0), leaf(2.0)
    named = optim.SGD([("a", a), ("b", b)]).param_groups[0]["params"]
    assert named[0] is a and named[1] is b
    assert len(optim.SGD(p for p in (a, b)).state) == 2


def test_assigning_writes_into_the_number_that_is_there() -> None:
    optimizer = optim.SGD([leaf(1.0)], lr=0.1, momentum=0.9)
    group = optimizer.param_groups[0]
    rate = group["lr"]
    group["lr"] = 0.3
    assert group["lr"].item() == 0.3 and rate.item() == 0.1
    group["lr"] = rate * 2.0
    assert group["lr"].item() == 0.2 and group.live("lr").item() == 0.2
    group["lr"] *= 0.5
    assert group["lr"].item() == rate.item() == 0.1
    assert rate.dtype == tb.float64 and rate.shape == ()


def test_what_was_read_stays() -> None:
    """Rates are noted for a plot, and put back after a step without them."""
    optimizer = optim.Adam([leaf(1.0)], lr=0.4)
    group, schedule, seen = optimizer.param_groups[0], optim.StepLR(optimizer, 1, 0.5), []
    for _ in range(3):
        seen.append(group["lr"])
        schedule.step()
    assert [float(r) for r in seen] == [0.4, 0.2, 0.1]
    before, copied, first = dict(group), {**group}, {k: v for k, v in group.items() if k != "params"}
    betas = group["betas"]
    group["lr"], group["betas"] = 0.0, (0.1, 0.2)
    assert float(before["lr"]) == float(copied["lr"]) == float(first["lr"]) == 0.05
    assert [float(b) for b in betas] == [0.9, 0.999]
    group["lr"] = before["lr"]
    assert float(group["lr"]) == 0.05
    with pytest.raises(tb.errors.StateError, match="group would not see it"):
        group["lr"].mul_(2.0)
    stored = group["lr"]
    stored += 1.0
    assert stored.item() == 1.05 and group["lr"].item() == 0.05


def test_a_tensor_given_as_rate_is_shared() -> None:
    rate = tb.tensor(0.5, dtype=tb.float32)
    a = leaf(1.0)
    optimizer = optim.SGD([a], lr=rate)
    rate.copy_(0.25)
    a.grad = tb.ones(1)
    optimizer.step()
    assert a.detach().tolist() == [0.75]


def test_parameters_that_are_fixed_for_now_are_passed_over() -> None:
    a = tb.tensor([1.0])
    optimizer = optim.Adam([a, leaf(1.0)])
    optimizer.step()
    assert a.tolist() == [1.0]


def test_zero_grad_forgets_or_fills() -> None:
    a = leaf(1.0)
    optimizer = optim.SGD([a])
    a.grad = tb.ones(1)
    optimizer.zero_grad(set_to_none=False)
    assert a.grad.tolist() == [0.0]
    optimizer.zero_grad()
    assert a.grad is None


def test_it_says_what_it_is() -> None:
    text = repr(optim.SGD([leaf(1.0), leaf(2.0)], lr=0.1, momentum=0.9))
    assert text.startswith("SGD(2 tensors, lr=0.1, momentum=0.9") and "nesterov=False" in text


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: optim.SGD([]), ArgumentError, "there are no parameters"),
        (lambda: optim.SGD(iter(())), ArgumentError, r"used up before is empty"),
        (
            lambda: optim.SGD(leaf(1.0)),
            ArgumentError,
            r"the parameters are one Tensor[\s\S]*put it into a list",
        ),
        (lambda: optim.SGD([1.0]), ArgumentError, "parameter 0 is a float"),
        (lambda: optim.SGD(3), ArgumentError, "parameter 0 is a int"),
        (lambda: optim.SGD([tb.tensor([1])]), DTypeError, "parameter 0 is int64"),
        (lambda: optim.SGD([leaf(1.0) * 2.0]), ArgumentError, r"the result of a computation[\s\S]*detach"),
        (lambda: optim.SGD([leaf(1.0)], lr=-1.0), ArgumentError, r"SGD: lr is -1.0[\s\S]*lr >= 0"),
        (lambda: optim.SGD([leaf(1.0)], lr=float("nan")), ArgumentError, "lr is nan"),
        (lambda: optim.SGD([leaf(1.0)], lr="fast"), ArgumentError, "lr is 'fast'"),
        (lambda: optim.SGD([leaf(1.0)], lr=tb.ones(2)), ArgumentError, r"a float tensor without dimensions"),
        (lambda: optim.Adam([leaf(1.0)], betas=(0.9, 1.0)), ArgumentError, r"beta2 is 1.0[\s\S]*in \[0, 1\)"),
        (lambda: optim.Adam([leaf(1.0)], betas=0.9), ArgumentError, "2 numbers: beta1, beta2"),
        (lambda: optim.SGD([leaf(1.0)], nesterov=True), ArgumentError, "a momentum above 0 and dampening=0"),
        (
            lambda: optim.SGD([leaf(1.0)], momentum=0.9, dampening=0.1, nesterov=True),
            ArgumentError,
            "dampening=0",
        ),
        (
            lambda: optim.SGD([{"params": [leaf(1.0)], "rate": 1.0}]),
            ArgumentError,
            "SGD has no setting 'rate'",
        ),
        (lambda: optim.SGD([{"lr": 1.0}]), ArgumentError, 'a dict with "params"'),
    ],
)
def test_what_cannot_be_optimised(build: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        build()


def test_a_tensor_in_two_places_is_refused_and_changes_nothing() -> None:
    a, b = leaf(1.0), leaf(2.0)
    with pytest.raises(ArgumentError, match="parameter 1 is there twice"):
        optim.SGD([a, a])
    optimizer = optim.SGD([a])
    with pytest.raises(ArgumentError, match="parameter 1 is there twice"):
        optimizer.add_param_group({"params": [b, a]})
    assert len(optimizer.param_groups) == 1 and len(optimizer.state) == 1


def test_what_a_group_refuses() -> None:
    group = optim.SGD([leaf(1.0)], momentum=0.9).param_groups[0]
    with pytest.raises(StateError, match="a parameter group has no 'learning_rate'"):
        group["learning_rate"] = 0.1
    with pytest.raises(StateError, match="a parameter group has no 'weight_decy'"):
        group["weight_decy"] = 0.1
    with pytest.raises(ArgumentError, match=r"lr is set to a tensor of shape \(2,\)"):
        group["lr"] = tb.ones(2)
    with pytest.raises(StateError, match="what a parameter group has stays there"):
        del group["lr"]
    with pytest.raises(ArgumentError, match="a momentum above 0 and dampening=0"):
        group.update(dampening=0.5, nesterov=True)
    assert group["nesterov"] is False and group["dampening"].item() == 0.5
    with pytest.raises(ArgumentError, match="the parameters are one Tensor"):
        group["params"] = leaf(1.0)


def test_names_of_the_users_own_are_kept() -> None:
    optimizer = optim.AdamW([{"params": [leaf(1.0)], "lr_scale": 0.5, "name": "head"}], lr=0.1)
    group = optimizer.param_groups[0]
    assert group["lr_scale"] == 0.5 and group["name"] == "head"
    group["lr"] = 0.1 * group["lr_scale"]
    assert group["lr"].item() == 0.05 and group.setdefault("initial_lr", group["lr"]).item() == 0.05
    group["lr"] = 0.2
    assert group["initial_lr"].item() == 0.05
    assert [b.item() for b in group["betas"]] == [0.9, 0.999] and "betas" in group
    group["betas"] = (0.5, 0.25)
    assert (group["beta1"].item(), group["beta2"].item()) == (0.5, 0.25)


def _run(change: Any, jitted: bool, steps: int = 3, **settings: Any) -> np.ndarray:
    a, b = leaf([1.0, -2.0]), leaf([0.5, 3.0])
    optimizer = optim.SGD([a], lr=0.1, **settings)

    def step(x: tb.Tensor) -> tb.Tensor:
        optimizer.zero_grad()
        loss = ((a * x) ** 2).sum() + ((b * x) ** 3).sum()
        loss.backward()
        optimizer.step()
        return loss

    call, x = tb.jit(step) if jitted else step, tb.tensor([0.5, 1.5])
    for part in (None, change):
        if part is not None:
            part(optimizer, a, b)
        for _ in range(steps):
            call(x)
    return np.concatenate([a.detach().numpy(), b.detach().numpy()])


CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "a term that was absent": (lambda o, a, b: o.param_groups[0].update(weight_decay=0.5), {}),
    "state that was absent": (lambda o, a, b: o.param_groups[0].__setitem__("momentum", 0.9), {}),
    "a switch": (lambda o, a, b: o.param_groups[0].__setitem__("nesterov", True), {"momentum": 0.9}),
    "the other way": (lambda o, a, b: o.param_groups[0].__setitem__("maximize", True), {}),
    "other parameters": (lambda o, a, b: o.param_groups[0].__setitem__("params", [b]), {"momentum": 0.9}),
    "one more in the list": (lambda o, a, b: o.param_groups[0]["params"].append(b), {"momentum": 0.9}),
    "a group more": (lambda o, a, b: o.add_param_group({"params": [b], "lr": 0.01}), {}),
    "a parameter in another group": (
        lambda o, a, b: (o.param_groups[0].update(params=[b]), o.add_param_group({"params": [a], "lr": 0.7})),
        {},
    ),
    "no group": (lambda o, a, b: o.param_groups.clear(), {}),
    "a hook before": (
        lambda o, a, b: o.register_step_pre_hook(lambda o, args, kw: [a.grad.mul_(3.0)].clear()),
        {},
    ),
    "a hook after": (
        lambda o, a, b: o.register_step_post_hook(lambda o, args, kw: [b.detach().mul_(0.5)].clear()),
        {},
    ),
    "a hook of a gradient": (lambda o, a, b: a.register_hook(lambda g: g * 3.0), {}),
    "a hook behind a gradient": (
        lambda o, a, b: a.register_post_accumulate_grad_hook(lambda p: [p.grad.mul_(2.0)].clear()),
        {},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_form_is_seen_by_compiled_steps(change: str) -> None:
    do, settings = CHANGES[change]
    eager, compiled = _run(do, False, **settings), _run(do, True, **settings)
    np.testing.assert_allclose(compiled, eager, rtol=1e-6)
    assert not np.allclose(eager, _run(lambda o, a, b: None, False, **settings))


def test_the_user_s_line_is_named() -> None:
    with pytest.raises(ArgumentError, match=r"where: .*test_groups.py:\d+ in test_the_user_s_line_is_named"):
        optim.Adam([leaf(1.0)], lr=-0.5)


def test_numbers_are_finite_whatever_the_count() -> None:
    """Corrections stay exact for long runs: at a large count they are 1."""
    a = leaf(1.0)
    optimizer = optim.Adam([a], lr=0.1)
    optimizer.state[a]["step"].copy_(10_000_000)
    a.grad = tb.ones(1)
    optimizer.step()
    m, v = 0.1, 0.001
    np.testing.assert_allclose(a.detach().numpy(), [1.0 - 0.1 * m / (np.sqrt(v) + 1e-8)], rtol=1e-6)


def test_a_model_converted_after_the_optimiser_was_made_is_an_error() -> None:
    model = tb.nn.Linear(3, 2)
    optimizer = optim.Adam(model.parameters())
    model.double()
    model(tb.ones((1, 3), dtype=tb.float64)).sum().backward()
    with pytest.raises(
        StateError, match=r"is float64\[2, 3\] now[\s\S]*float32\[2, 3\][\s\S]*convert the model first"
    ):
        optimizer.step()
