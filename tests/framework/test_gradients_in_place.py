"""New gradients in the memory of the old ones: only where nobody would notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb

RNG = np.random.default_rng(8)
BATCHES = [RNG.standard_normal((6, 5)).astype(np.float32) for _ in range(6)]


class Trainer:
    """A small network whose step is compiled, beside one whose step is not."""

    def __init__(self, target: str = "cpu") -> None:
        tb.manual_seed(2)
        self.net = tb.nn.Sequential(tb.nn.Linear(5, 4), tb.nn.Tanh(), tb.nn.Linear(4, 3))
        self.optimizer = tb.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.jitted = tb.jit(self.step, target=target)

    def step(self, x: Any) -> Any:
        loss = (self.net(x) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    @property
    def grads(self) -> list[Any]:
        return [p.grad for p in self.net.parameters()]


def addresses(trainer: Trainer) -> list[int]:
    return [g._cell.value.ctypes.data for g in trainer.grads]


def agree(a: Trainer, b: Trainer) -> None:
    for x, y in zip(a.net.parameters(), b.net.parameters(), strict=True):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=2e-5, atol=1e-6)


@pytest.mark.counted
def test_gradients_stay_where_they_are() -> None:
    t, plain = Trainer(), Trainer()
    seen = []
    for x in BATCHES:
        t.jitted(tb.tensor(x))
        plain.step(tb.tensor(x))
        seen.append(addresses(t))
    assert seen[1] == seen[2] == seen[5]
    agree(t, plain)


Hold = Callable[[Any], Any]


@pytest.mark.parametrize(
    "hold",
    [
        lambda g: g, lambda g: g[1:], lambda g: g.detach(), lambda g: g._cell.value, lambda g: g.numpy(),
        lambda g: g._cell.value[..., 1:], lambda g: memoryview(g._cell.value),
    ],
    ids=["tensor", "view of it", "detached", "array", "numpy", "view of the array", "buffer"],
)  # fmt: skip
@pytest.mark.parametrize("at", [0, 1, 3])
def test_whoever_holds_a_gradient_keeps_it(hold: Hold, at: int) -> None:
    """Not only the one that is held: the others are new as well, or in place; all are right."""
    t, plain = Trainer(), Trainer()

    def values(held: Any) -> Any:
        return np.array(held.numpy() if isinstance(held, tb.Tensor) else held)

    kept, copies = [], []
    for n, x in enumerate(BATCHES):
        t.jitted(tb.tensor(x))
        plain.step(tb.tensor(x))
        if n in (1, 2, 4):
            kept.append(hold(t.grads[at]))
            copies.append(values(kept[-1]))
    for held, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(values(held), copy)
    assert not np.array_equal(copies[0], copies[1])
    kept.clear()
    agree(t, plain)


def test_gradients_written_or_replaced_between_steps() -> None:
    t, plain = Trainer(), Trainer()
    for n, x in enumerate(BATCHES):
        for trainer, step in ((t, t.jitted), (plain, plain.step)):
            step(tb.tensor(x))
            with tb.no_grad():
                if n == 1:
                    trainer.grads[0].mul_(3.0)
                if n == 2:
                    next(iter(trainer.net.parameters())).grad = tb.ones((4, 5))
                if n == 3:
                    trainer.optimizer.zero_grad()
    agree(t, plain)


def test_a_gradient_as_an_argument() -> None:
    t, plain = Trainer(), Trainer()
    for trainer, step in ((t, t.jitted), (plain, plain.step)):
        for x in BATCHES[:3]:
            step(tb.tensor(x))
        step(trainer.grads[0])  # 4 by 5: as good as any batch
    agree(t, plain)


def test_gradients_that_are_added_to_are_read_first() -> None:
    def accumulate(net: Any) -> Callable[[Any], Any]:
        def step(x: Any) -> Any:
            loss = (net(x) ** 2).mean()
            loss.backward()
            return loss

        return step

    tb.manual_seed(1)
    a = tb.nn.Linear(5, 3)
    tb.manual_seed(1)
    b = tb.nn.Linear(5, 3)
    compiled, plain = tb.jit(accumulate(a)), accumulate(b)
    for x in BATCHES:
        compiled(tb.tensor(x))
        plain(tb.tensor(x))
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-5)


@pytest.mark.counted
def test_calls_the_long_way_round_reuse_them_too() -> None:
    """With a keyword the short way does not serve."""
    t = Trainer()
    seen = []
    for x in BATCHES:
        t.jitted(x=tb.tensor(x))
        seen.append(addresses(t))
    assert seen[1] == seen[4]
    held = t.grads[0]
    before = held.numpy().copy()
    t.jitted(x=tb.tensor(BATCHES[0]))
    np.testing.assert_array_equal(held.numpy(), before)


def test_the_reference_target_makes_new_ones() -> None:
    t, plain = Trainer("reference"), Trainer()
    for x in BATCHES:
        t.jitted(tb.tensor(x))
        plain.step(tb.tensor(x))
    agree(t, plain)


@pytest.mark.counted
def test_weights_and_moments_of_convolutions_stay_where_they_are() -> None:
    tb.manual_seed(5)
    net = tb.nn.Sequential(tb.nn.Conv2d(3, 8, 3, padding=1), tb.nn.BatchNorm2d(8), tb.nn.Conv2d(8, 4, 3))
    optimizer = tb.optim.Adam(net.parameters(), lr=1e-2)

    @tb.jit
    def step(x: Any) -> Any:
        loss = (net(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    images = [tb.tensor(RNG.standard_normal((2, 3, 9, 9)).astype(np.float32)) for _ in range(4)]
    seen = []
    for x in images:
        step(x)
        (entry,) = [e for entries in step.entries.values() for e in entries]
        seen.append({id(c): c.value.ctypes.data for c in entry.recording.writes if c.value.ndim == 4})
    assert len(seen[0]) == 6  # two weights, each with two moments
    assert seen[1] == seen[2] == seen[3]


@pytest.mark.counted
def test_a_tensor_passed_twice_costs_no_copies() -> None:
    net = tb.nn.Linear(5, 5)
    optimizer = tb.optim.SGD(net.parameters(), lr=0.1)

    @tb.jit
    def step(x: Any, y: Any) -> Any:
        loss = ((net(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    x, other = tb.tensor(BATCHES[0]), tb.tensor(BATCHES[1])
    seen, losses = [], []
    for pair in [(x, x), (x, x), (x, x), (x, other), (x, x), (x, x)]:
        losses.append(step(*pair).item())
        seen.append([p._cell.value.ctypes.data for p in net.parameters()])
    assert all(s == seen[1] for s in seen[1:])
    assert losses[3] not in losses[:3]  # the pair that differs is not taken for a pair of the same


@pytest.mark.counted
def test_steps_for_two_sizes_of_batch_use_the_same_arrays() -> None:
    t, plain = Trainer(), Trainer()
    sizes = [x[:3] if i % 2 else x for i, x in enumerate([*BATCHES, *BATCHES])]
    seen = []
    for x in sizes:
        t.jitted(tb.tensor(x))
        plain.step(tb.tensor(x))
        seen.append([p._cell.value.ctypes.data for p in t.net.parameters()])
    assert all(s == seen[2] for s in seen[3:])
    agree(t, plain)
