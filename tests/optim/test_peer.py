"""The same training in PyTorch: every optimiser and schedule that it has, step by step in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optim_reference import CASES

import trilobite as tb
from trilobite.framework import optim

pytestmark = pytest.mark.peer
torch = pytest.importorskip("torch")

SHAPES = ((4, 3), (), (6,))


def both(seed: int = 0) -> tuple[list[tb.Tensor], list[Any]]:
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(rng.normal(size=s)) for s in SHAPES]
    return (
        [tb.tensor(a, requires_grad=True) for a in arrays],
        [torch.tensor(a, requires_grad=True) for a in arrays],
    )


def give(rng: np.random.Generator, ours: list[tb.Tensor], theirs: list[Any], skip: int = -1) -> None:
    for i, (p, q) in enumerate(zip(ours, theirs, strict=True)):
        g = np.asarray(rng.normal(size=q.shape) * 10.0 ** rng.uniform(-5, 3, size=q.shape))
        p.grad, q.grad = (None, None) if i == skip else (tb.tensor(g), torch.tensor(g))


def same(ours: list[tb.Tensor], theirs: list[Any], tolerance: float = 1e-10) -> None:
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=tolerance, atol=1e-11)


@pytest.mark.parametrize("case", [c for c, row in CASES.items() if hasattr(torch.optim, row[0])])
def test_optimisers(case: str, request: pytest.FixtureRequest) -> None:
    name, _, settings = CASES[case]
    if name == "ASGD":  # PyTorch keeps its rate in the default dtype
        request.addfinalizer(lambda: torch.set_default_dtype(torch.float32))
        torch.set_default_dtype(torch.float64)
    ours, theirs = both()
    a, b = getattr(optim, name)(ours, **settings), getattr(torch.optim, name)(theirs, **settings)
    rng = np.random.default_rng(1)
    for n in range(40):
        give(rng, ours, theirs, skip=n % 5)
        a.step()
        b.step()
        same(ours, theirs)


SCHEDULES = {
    "LambdaLR": {"lr_lambda": lambda t: 0.9**t},
    "StepLR": {"step_size": 4, "gamma": 0.3},
    "MultiStepLR": {"milestones": [3, 8, 8], "gamma": 0.5},
    "ConstantLR": {"factor": 0.25, "total_iters": 6},
    "LinearLR": {"start_factor": 0.1, "end_factor": 0.9, "total_iters": 9},
    "ExponentialLR": {"gamma": 0.9},
    "PolynomialLR": {"total_iters": 12, "power": 2.0},
    "CosineAnnealingLR": {"T_max": 15, "eta_min": 0.001},
    "CosineAnnealingWarmRestarts": {"T_0": 4, "T_mult": 2, "eta_min": 0.001},
    "OneCycleLR": {"max_lr": 0.5, "total_steps": 31},
    "MultiplicativeLR": {"lr_lambda": lambda t: 0.9 + 0.01 * t},
    "CyclicLR": {
        "base_lr": 0.01,
        "max_lr": 0.3,
        "step_size_up": 4,
        "step_size_down": 3,
        "mode": "triangular2",
    },
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str) -> None:
    ours, theirs = both()
    a, b = optim.SGD(ours, lr=0.1, momentum=0.9), torch.optim.SGD(theirs, lr=0.1, momentum=0.9)
    s = getattr(optim.lr_scheduler, name)(a, **SCHEDULES[name])
    t = getattr(torch.optim.lr_scheduler, name)(b, **SCHEDULES[name])
    for _ in range(30):
        b.step()
        assert s.get_last_lr()[0] == pytest.approx(t.get_last_lr()[0], rel=1e-9, abs=1e-12)
        assert a.param_groups[0]["momentum"].item() == pytest.approx(b.param_groups[0]["momentum"], rel=1e-9)
        s.step()
        t.step()


def test_schedules_in_sequence_and_chained() -> None:
    ours, theirs = both()
    a, b = optim.SGD(ours, lr=0.1), torch.optim.SGD(theirs, lr=0.1)
    k = torch.optim.lr_scheduler
    s = optim.SequentialLR(a, [optim.LinearLR(a, 0.1, 1.0, 5), optim.CosineAnnealingLR(a, 10)], [5])
    t = k.SequentialLR(b, [k.LinearLR(b, 0.1, 1.0, 5), k.CosineAnnealingLR(b, 10)], [5])
    for _ in range(15):
        b.step()
        assert s.get_last_lr()[0] == pytest.approx(t.get_last_lr()[0], rel=1e-9, abs=1e-12)
        s.step()
        t.step()
    ours, theirs = both()
    a, b = optim.SGD(ours, lr=0.1), torch.optim.SGD(theirs, lr=0.1)
    s = optim.ChainedScheduler([optim.ExponentialLR(a, 0.9), optim.StepLR(a, 3, 0.5)])
    t = k.ChainedScheduler([k.ExponentialLR(b, 0.9), k.StepLR(b, 3, 0.5)])
    for _ in range(12):
        b.step()
        assert s.get_last_lr()[0] == pytest.approx(t.get_last_lr()[0], rel=1e-9)
        s.step()
        t.step()


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
def test_plateau(mode: str, threshold_mode: str) -> None:
    ours, theirs = both()
    a, b = optim.SGD(ours, lr=0.1), torch.optim.SGD(theirs, lr=0.1)
    settings = {
        "mode": mode,
        "threshold_mode": threshold_mode,
        "patience": 2,
        "cooldown": 1,
        "threshold": 0.05,
    }
    s = optim.ReduceLROnPlateau(a, **settings)
    t = torch.optim.lr_scheduler.ReduceLROnPlateau(b, **settings)
    for metric in np.random.default_rng(3).normal(size=60) + 2.0:
        s.step(float(metric))
        t.step(float(metric))
        assert s.get_last_lr()[0] == pytest.approx(b.param_groups[0]["lr"], rel=1e-9)


@pytest.mark.parametrize("order", [1.0, 2.0, 3.5, float("inf")])
def test_clipping(order: float) -> None:
    ours, theirs = both()
    give(np.random.default_rng(2), ours, theirs, skip=1)
    total = optim.clip_grad_norm_(ours, 0.7, order)
    want = torch.nn.utils.clip_grad_norm_(theirs, 0.7, order)
    assert total.item() == pytest.approx(want.item(), rel=1e-10)
    for p, q in zip(ours, theirs, strict=True):
        if p.grad is not None:
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-9)


def test_lbfgs_ends_where_theirs_does() -> None:
    start = np.array([-1.2, 1.0, 0.5])
    ours, theirs = tb.tensor(start, requires_grad=True), torch.tensor(start, requires_grad=True)

    def valley(x: Any) -> Any:
        a, b = x[1:] - x[:-1] * x[:-1], 1.0 - x[:-1]
        return (a * a * 100.0 + b * b).sum()

    def closure(optimizer: Any, x: Any) -> Any:
        def run() -> Any:
            optimizer.zero_grad()
            value = valley(x)
            value.backward()
            return value

        return run

    settings: dict[str, Any] = {"line_search_fn": "strong_wolfe", "max_iter": 100, "max_eval": 1000}
    a, b = optim.LBFGS([ours], **settings), torch.optim.LBFGS([theirs], **settings)
    for _ in range(3):
        a.step(closure(a, ours))
        b.step(closure(b, theirs))
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), atol=1e-6)


def test_loss_scaling_moves_as_theirs() -> None:
    ours, theirs = both()
    a, b = optim.Adam(ours, lr=0.01), torch.optim.Adam(theirs, lr=0.01)
    s = optim.GradScaler(init_scale=1024.0, growth_interval=3)
    t = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    rng = np.random.default_rng(5)
    for _ in range(25):
        bad = float(rng.choice([1.0, 1.0, 1.0, np.inf]))
        a.zero_grad()
        b.zero_grad()
        loss, want = sum((p * p * bad).sum() for p in ours), sum((q * q * bad).sum() for q in theirs)
        s.scale(loss).backward()
        t.scale(want).backward()
        s.step(a)
        t.step(b)
        s.update()
        t.update()
        assert s.get_scale() == t.get_scale()
    same(ours, theirs)


@pytest.mark.parametrize(
    "settings",
    [
        {"lr": 0.5, "max_iter": 5, "history_size": 4, "line_search_fn": "strong_wolfe"},
        {"lr": 0.5, "max_iter": 5, "history_size": 4},
        {"lr": 1.0, "max_iter": 20, "line_search_fn": "strong_wolfe"},
    ],
)
def test_lbfgs_asks_for_the_same_losses(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    start, x, y = rng.normal(size=(6, 3)), rng.normal(size=(20, 6)), rng.normal(size=(20, 3))
    asked: list[list[float]] = []
    for lib, room in ((tb, optim), (torch, torch.optim)):
        w = lib.tensor(start, requires_grad=True)
        opt, losses = room.LBFGS([w], **settings), []

        def closure(w: Any = w, opt: Any = opt, losses: list[float] = losses, lib: Any = lib) -> Any:
            opt.zero_grad()
            loss = ((lib.tanh(lib.tensor(x) @ w) - lib.tensor(y)) ** 2).mean()
            loss.backward()
            losses.append(loss.detach().item())
            return loss

        for _ in range(3):
            opt.step(closure)
        asked.append(losses)
    np.testing.assert_allclose(asked[0], asked[1], rtol=1e-6)
