"""`tb.optim.lr_scheduler`: the schedules under PyTorch's name for where they stand, and two more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trilobite.framework.optim.combined import ChainedScheduler, SequentialLR
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.framework.optim.plateau import ReduceLROnPlateau
from trilobite.framework.optim.schedule import Number, Schedule, per_group
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
    where,
)

LRScheduler = _LRScheduler = Schedule


class MultiplicativeLR(Schedule):
    """The rate times fn(1)·fn(2)·...·fn(t). Eager only: the product is carried in Python."""

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.functions = per_group("MultiplicativeLR", "lr_lambda", lr_lambda, optimizer)
        super().__init__(optimizer)

    def rate(self, base: Number, t: Number, group: int) -> Number:
        total = 1.0
        for i in range(1, int(t.item()) + 1):
            total *= self.functions[group](i)
        return base * total


class CyclicLR(Schedule):
    """Up and down between two rates, in straight lines; the height may shrink from cycle to cycle."""

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float,
        max_lr: float,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        cycle_momentum: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.low, self.high, self.mode, self.gamma = float(base_lr), float(max_lr), mode, float(gamma)
        self.up = float(step_size_up)
        self.total = self.up + float(step_size_up if step_size_down is None else step_size_down)
        super().__init__(optimizer)

    def rate(self, base: Number, t: Number, group: int) -> Number:
        cycle = floor(t / self.total)
        part = t / self.total - cycle
        turn = self.up / self.total
        height = where(part <= turn, part / turn, (1.0 - part) / (1.0 - turn))
        if self.mode == "triangular2":
            height = height * 0.5**cycle
        elif self.mode == "exp_range":
            height = height * self.gamma**t
        return float64_number(self.low) + (self.high - self.low) * height


__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
    "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR",
    "PolynomialLR", "ReduceLROnPlateau", "SWALR", "SequentialLR", "StepLR",
]  # fmt: skip
