"""`tb.optim.lr_scheduler`: the schedules under PyTorch's name for where they stand, and two more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trilobite.framework.optim.combined import ChainedScheduler, SequentialLR
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.framework.optim.plateau import ReduceLROnPlateau
from trilobite.framework.optim.schedule import Number, Schedule, one_of, per_group, whole
from trilobite.framework.optim.schedules import (
    SWALR,
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    StepLR,
    float64_number,
    floor,
    momentum_name,
    where,
)

LRScheduler = _LRScheduler = Schedule


class MultiplicativeLR(Schedule):
    """The rate times fn(1)·fn(2)·...·fn(t). Eager only: the product is carried in Python."""

    chains = resumes = True

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]]
    ) -> None:
        self.functions = per_group("MultiplicativeLR", "lr_lambda", lr_lambda, optimizer)
        super().__init__(optimizer)

    def rate(self, base: Number, t: Number, group: int) -> Number:
        total = 1.0
        for i in range(1, int(t.item()) + 1):
            total *= self.functions[group](i)
        return base * total


class CyclicLR(Schedule):
    """Up and down between two rates, in straight lines; the height may shrink from cycle to cycle.

    `scale_fn` takes the place of `mode`: the height's factor, of the cycle (1, 2, ...) or of the step, as
    `scale_mode` says. The momentum (or Adam's first beta) runs the other way if `cycle_momentum`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[Number], Number] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
    ) -> None:
        one_of("CyclicLR", "mode", mode, ("triangular", "triangular2", "exp_range"))
        one_of("CyclicLR", "scale_mode", scale_mode, ("cycle", "iterations"))
        self.up = float(whole("CyclicLR", "step_size_up", step_size_up))
        down = self.up if step_size_down is None else whole("CyclicLR", "step_size_down", step_size_down)
        self.total = self.up + float(down)
        self.mode, self.gamma = mode, float(gamma)
        self.scale_fn, self.by_cycle = scale_fn, scale_mode == "cycle"
        self.rates = _ranges("lr", base_lr, max_lr, optimizer)
        self.momenta = _ranges("momentum", base_momentum, max_momentum, optimizer) if cycle_momentum else []
        self.momentum = [momentum_name("CyclicLR", g) for g in optimizer.param_groups if cycle_momentum]
        super().__init__(optimizer)

    def rate(self, base: Number, t: Number, group: int) -> Number:
        low, high = self.rates[group]
        return float64_number(low) + (high - low) * self._height(t)

    def others(self, t: Number, group: int) -> dict[str, Number]:
        if not self.momentum:
            return {}
        low, high = self.momenta[group]
        return {self.momentum[group]: float64_number(high) - (high - low) * self._height(t)}

    def _height(self, t: Number) -> Number:
        """How far up from the low to the high end, from 0 to 1."""
        cycle = floor(t / self.total)
        done, turn = t / self.total - cycle, self.up / self.total
        height = where(done <= turn, done / turn, (1.0 - done) / (1.0 - turn))
        if self.scale_fn is not None:
            return height * self.scale_fn(cycle + 1.0 if self.by_cycle else t)
        if self.mode == "triangular2":
            return height * 0.5**cycle
        return height * self.gamma**t if self.mode == "exp_range" else height


def _ranges(name: str, low: Any, high: Any, optimizer: Optimizer) -> list[tuple[float, float]]:
    lows = per_group("CyclicLR", f"base_{name}", low, optimizer)
    highs = per_group("CyclicLR", f"max_{name}", high, optimizer)
    return [(float(a), float(b)) for a, b in zip(lows, highs, strict=True)]


__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
    "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR",
    "PolynomialLR", "ReduceLROnPlateau", "SWALR", "SequentialLR", "StepLR",
]  # fmt: skip
