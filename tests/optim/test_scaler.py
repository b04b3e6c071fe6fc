"""Loss scaling: what it scales, which steps it leaves out, how the scale moves; the same bits recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, StateError
from trilobite.framework import optim


def test_scaled_and_unscaled_a_step_is_the_plain_step() -> None:
    rng = np.random.default_rng(0)
    x = tb.tensor(rng.normal(size=(4, 3)).astype(np.float32))
    results = []
    for scaler in (optim.GradScaler(), optim.GradScaler(enabled=False)):
        w = tb.tensor(np.linspace(-1, 1, 3, dtype=np.float32), requires_grad=True)
        optimizer = optim.SGD([w], lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            scaler.scale(((x @ w) ** 2).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        results.append(w.detach().numpy())
    np.testing.assert_array_equal(*results), "a power of two scales without rounding"


def run(jitted: bool, steps: int = 40, **settings: Any) -> tuple[list[float], list[np.ndarray], int]:
    w = tb.tensor(np.linspace(-1, 1, 6, dtype=np.float32), requires_grad=True)
    optimizer = optim.Adam([w], lr=0.05)
    schedule = optim.ExponentialLR(optimizer, 0.95)
    scaler = optim.GradScaler(init_scale=8.0, growth_interval=3, **settings)
    ema = optim.ExponentialMovingAverage([w], 0.9)

    def step(bad: tb.Tensor) -> tb.Tensor:
        loss = ((w * w * w - 0.2) ** 2).sum() * bad
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        optim.clip_grad_norm_([w], 0.5)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        ema.update()
        return scaler._scale * 1.0

    f = tb.jit(step, target="reference") if jitted else step
    rng = np.random.default_rng(3)
    scales = []
    for _ in range(steps):
        bad = rng.choice([1.0, 1.0, 1.0, np.inf, np.nan])
        scales.append(f(tb.tensor(bad, dtype=tb.float32)).item())
    state = [
        w.detach().numpy().copy(),
        *(t.numpy().copy() for t in optimizer.state[w].values()),
        ema.averages[0].numpy(),
    ]
    return scales, state, optimizer.state[w]["step"].item()


def test_bad_steps_are_left_out_and_the_scale_moves() -> None:
    scales, state, count = run(False)
    rng = np.random.default_rng(3)
    want, scale, good, taken = [], 8.0, 0, 0
    for _ in range(40):
        if np.isfinite(rng.choice([1.0, 1.0, 1.0, np.inf, np.nan])):
            good, taken = good + 1, taken + 1
            if good == 3:
                scale, good = scale * 2, 0
        else:
            scale, good = scale / 2, 0
        want.append(scale)
    assert scales == want and count == taken and 0 < taken < 40
    assert all(np.isfinite(s).all() for s in state)


def test_recorded_it_is_the_same_bit_for_bit() -> None:
    a, b = run(False), run(True)
    assert a[0] == b[0] and a[2] == b[2]
    for x, y in zip(a[1], b[1], strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_scale_beyond_float16_does_not_overflow_a_float16_loss() -> None:
    scaler = optim.GradScaler()
    loss = tb.tensor(np.asarray(3.0, np.float16), requires_grad=True)
    scaled = scaler.scale(loss)
    assert scaled.dtype == tb.float32 and scaled.item() == 3.0 * 2**16


def test_small_gradients_survive_in_float16() -> None:
    """Without a scale this gradient is below the smallest float16."""

    def gradient(scaler: optim.GradScaler) -> float:
        w = tb.tensor(np.asarray([2.0], np.float16), requires_grad=True)
        optimizer = optim.SGD([w])
        scaler.scale((w.astype(tb.float32) * 2e-9).sum()).backward()
        scaler.unscale_(optimizer)
        seen = w.grad.numpy().astype(np.float64)
        return float(seen[0])

    assert gradient(optim.GradScaler(enabled=False)) == 0.0


def test_an_accident_of_one_optimiser_does_not_stop_the_other() -> None:
    a, b = tb.tensor([1.0], requires_grad=True), tb.tensor([1.0], requires_grad=True)
    first, second = optim.SGD([a], lr=1.0), optim.SGD([b], lr=1.0)
    scaler = optim.GradScaler(init_scale=4.0)
    a.grad, b.grad = tb.tensor([float("inf")]), tb.tensor([2.0])
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert a.detach().tolist() == [1.0] and b.detach().tolist() == [0.5]
    assert scaler.get_scale() == 2.0


def test_trees_of_losses_are_scaled() -> None:
    scaled = optim.GradScaler(init_scale=4.0).scale({"a": tb.tensor(1.0), "b": [tb.tensor(2.0)]})
    assert scaled["a"].item() == 4.0 and scaled["b"][0].item() == 8.0


def test_the_scale_can_be_set_and_restored() -> None:
    scaler = optim.GradScaler()
    scaler.update(64.0)
    again = optim.GradScaler()
    again.load_state_dict(scaler.state_dict())
    assert again.get_scale() == 64.0
    assert optim.GradScaler(enabled=False).get_scale() == 1.0
    with pytest.raises(StateError, match="does not fit GradScaler"):
        again.load_state_dict({"scale": 1.0})


def test_a_scale_never_grows_to_infinity() -> None:
    scaler = optim.GradScaler(init_scale=2.0**127, growth_interval=1)
    for _ in range(3):
        scaler.update()
    assert scaler.get_scale() == 2.0**127


def test_wrong_uses() -> None:
    w = tb.tensor([1.0], requires_grad=True)
    optimizer, scaler = optim.SGD([w]), optim.GradScaler()
    with pytest.raises(ArgumentError, match="growth_factor > 1"):
        optim.GradScaler(growth_factor=1.0)
    with pytest.raises(ArgumentError, match="with a closure"):
        scaler.step(optimizer, lambda: None)
    w.grad = tb.ones(1)
    scaler.unscale_(optimizer)
    with pytest.raises(StateError, match="a second time since the last step"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    tb.jit(lambda: scaler.unscale_(optimizer))()
    with pytest.raises(StateError, match="not in the same recorded function"):
        scaler.step(optimizer)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("device", ["cpu", "cpu:0", "cuda", "cuda:1", "mps", None])
def test_the_scaler_of_a_kind_of_device_is_the_plain_one_or_none(device: str | None, enabled: bool) -> None:
    """Called as PyTorch does: on the processor all settings count; elsewhere there is nothing to scale."""
    words = () if device is None else (device,)
    settings = {"init_scale": 8.0, "growth_factor": 4.0, "backoff_factor": 0.25, "growth_interval": 2}
    scaler = tb.amp.GradScaler(*words, **settings, enabled=enabled)
    on = enabled and device is not None and device.startswith("cpu")
    plain = optim.GradScaler(**settings, enabled=on)
    assert scaler.state_dict() == plain.state_dict()
    assert scaler.get_scale() == (8.0 if on else 1.0)
    assert scaler.scale(tb.tensor(3.0)).item() == (24.0 if on else 3.0)
    defaults = tb.amp.GradScaler(*words, enabled=enabled)
    assert defaults.state_dict() == optim.GradScaler(enabled=on).state_dict()
