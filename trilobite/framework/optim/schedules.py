"""The schedules themselves: each is one formula over the number of steps done."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from trilobite.base.dtypes import float64
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.ops.creation import to_array
from trilobite.framework.optim import rates
from trilobite.framework.optim.arithmetic import cast
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.framework.optim.schedule import Number, Schedule, per_group, whole
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry


def float64_number(x: Any) -> Number:
    return wrap(cast(x._read(), float64)) if isinstance(x, Tensor) else wrap(to_array(float(x), float64))


def where(p: Number, x: Any, y: Any) -> Number:
    return wrap(table["select"](p._read(), float64_number(x)._read(), float64_number(y)._read()))


def least(x: Number, bound: float) -> Number:
    return wrap(table["minimum"](x._read(), float64_number(bound)._read()))


def floor(x: Number) -> Number:
    return wrap(table["floor"](x._read()))


def cosine(x: Number) -> Number:
    return wrap(table["cos"](x._read()))


def logarithm(x: Number) -> Number:
    return wrap(table["log"](x._read()))


def _count_for(t: Number) -> Any:
    """The count as a user's function takes it: a number where it is known, so that it may branch on it."""
    return int(t.item()) if entry.threads.context.recorder is None else t


class LambdaLR(Schedule):
    """base · fn(t). `fn`, one or one per group, takes the count as a 0-d float64 tensor: arithmetic, no
    branches on it.
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[Tensor], Any] | Sequence[Callable[[Tensor], Any]]
    ) -> None:
        self.functions = per_group("LambdaLR", "lr_lambda", lr_lambda, optimizer)
        super().__init__(optimizer)

    def rate(self, base: Number, t: Number, group: int) -> Number:
        return base * float64_number(self.functions[group](_count_for(t)))


class StepLR(Schedule):
    """base · gamma^⌊t / step_size⌋"""

    chains = True

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        self.step_size, self.gamma = whole("StepLR", "step_size", step_size), float(gamma)
        super().__init__(optimizer)

    def rate(self, base: Number, t: Number, group: int) -> Number:
        return base * self.gamma ** floor(t / self.step_size)


class MultiStepLR(Schedule):
    """base · gamma^(how many milestones are reached)"""

    chains = True

    def __init__(self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1) -> None:
        self.milestones = sorted(whole("MultiStepLR", "a milestone", m, 0) for m in milestones)
        self.gamma = float(gamma)
        super().__init__(optimizer)

    def rate(self, base: Number, t: Number, group: int) -> Number:
        passed = float64_number(0.0)
        for m in self.milestones:
            passed = passed + where(t >= m, 1.0, 0.0)
        return base * self.gamma**passed


class ConstantLR(Schedule):
    """base · factor for `total_iters` steps, then base."""

    chains = True

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5) -> None:
        self.factor, self.total = float(factor), whole("ConstantLR", "total_iters", total_iters, 0)
        super().__init__(optimizer)

    def rate(self, base: Number, t: Number, group: int) -> Number:
        return base * where(t < self.total, self.factor, 1.0)


class LinearLR(Schedule):
    """Linear warm-up: from base · start_factor to base · end_factor in `total_iters` steps, and there it
    stays.
    """

    chains = resumes = True

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
    ) -> None:
        self.start, self.end = float(start_factor), float(end_factor)
        self.total = whole("LinearLR", "total_iters", total_iters)
        super().__init__(optimizer)

    def rate(self, base: Number, t: Number, group: int) -> Number:
        done = least(t, self.total) / self.total
        return base * (self.start + (self.end - self.start) * done)


class ExponentialLR(Schedule):
    """base · gamma^t"""

    chains = resumes = True

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        self.gamma = float(gamma)
        super().__init__(optimizer)

    def rate(self, base: Number, t: Number, group: int) -> Number:
        return base * self.gamma**t


class PolynomialLR(Schedule):
    """base · (1 − t / total_iters)^power, and 0 from total_iters on."""

    chains = resumes = True

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0) -> None:
        self.total, self.power = whole("PolynomialLR", "total_iters", total_iters), float(power)
        super().__init__(optimizer)

    def rate(self, base: Number, t: Number, group: int) -> Number:
        return base * (1.0 - least(t, self.total) / self.total) ** self.power


class CosineAnnealingLR(Schedule):
    """Half a cosine from base down to eta_min in T_max steps; then up again, and so on."""

    chains = resumes = True

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        self.period, self.floor = whole("CosineAnnealingLR", "T_max", T_max), float(eta_min)
        super().__init__(optimizer)

    def rate(self, base: Number, t: Number, group: int) -> Number:
        return self.floor + (base - self.floor) * (1.0 + cosine(t * (math.pi / self.period))) / 2.0


class CosineAnnealingWarmRestarts(Schedule):
    """Cosines from base to eta_min, each beginning anew: the first of T_0 steps, each next one T_mult
    times as long.
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0) -> None:
        self.first = whole("CosineAnnealingWarmRestarts", "T_0", T_0)
        self.growth = whole("CosineAnnealingWarmRestarts", "T_mult", T_mult)
        self.floor = float(eta_min)
        super().__init__(optimizer)

    def rate(self, base: Number, t: Number, group: int) -> Number:
        done, length = self._cycle(t)
        return self.floor + (base - self.floor) * (1.0 + cosine(math.pi * (done / length))) / 2.0

    def _cycle(self, t: Number) -> tuple[Number, Number]:
        """Steps done in the running cycle, and how long it is."""
        if self.growth == 1:
            return t - floor(t / self.first) * self.first, float64_number(self.first)
        # Cycle n starts at T_0 (g^n − 1) / (g − 1). The logarithm finds n but for rounding, which the
        # comparisons put right.
        relative = 1.0 + t * ((self.growth - 1) / self.first)
        n = floor(logarithm(relative) / math.log(self.growth))
        n = where(self._start(n + 1.0) <= t, n + 1.0, n)
        n = where(self._start(n) > t, n - 1.0, n)
        return t - self._start(n), self.first * self._power(n)

    def _power(self, n: Number) -> Number:
        return float(self.growth) ** n

    def _start(self, n: Number) -> Number:
        return (self._power(n) - 1.0) * (self.first / (self.growth - 1))


class OneCycleLR(Schedule):
    """Up from max_lr / div_factor to max_lr, then down to that / final_div_factor, once (Smith 2018).

    It lasts total_steps, or epochs · steps_per_epoch; then the last values stay. Momentum (or Adam's first
    beta) runs the other way if `cycle_momentum`. With `three_phase` the way down first mirrors the way up.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
    ) -> None:
        if total_steps is None:
            total_steps = whole("OneCycleLR", "epochs", epochs) * whole(
                "OneCycleLR", "steps_per_epoch", steps_per_epoch
            )
        self.total = whole("OneCycleLR", "total_steps", total_steps, 2)
        if not 0.0 <= pct_start <= 1.0 or anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(
                f"OneCycleLR(pct_start={pct_start}, anneal_strategy={anneal_strategy!r})",
                where=user_location(),
                expected="pct_start from 0 to 1, anneal_strategy 'cos' or 'linear'",
            )
        self.peaks = [float(m) for m in per_group("OneCycleLR", "max_lr", max_lr, optimizer)]
        self.linear = anneal_strategy == "linear"
        self.low, self.high = float(base_momentum), float(max_momentum)
        self.div, self.final_div = float(div_factor), float(final_div_factor)
        self.ends = self._phase_ends(float(pct_start), three_phase)
        self.momentum = [momentum_name("OneCycleLR", g) for g in optimizer.param_groups if cycle_momentum]
        super().__init__(optimizer)

    def _phase_ends(self, share: float, three: bool) -> list[float]:
        up = share * self.total - 1.0
        return [up, 2.0 * share * self.total - 2.0, self.total - 1.0] if three else [up, self.total - 1.0]

    def rate(self, base: Number, t: Number, group: int) -> Number:
        peak = self.peaks[group]
        first, last = peak / self.div, peak / self.div / self.final_div
        return self._along(t, [first, peak, first, last] if len(self.ends) == 3 else [first, peak, last])

    def others(self, t: Number, group: int) -> dict[str, Number]:
        if not self.momentum:
            return {}
        tops = (
            [self.high, self.low, self.high, self.high]
            if len(self.ends) == 3
            else [self.high, self.low, self.high]
        )
        return {self.momentum[group]: self._along(t, tops)}

    def _along(self, t: Number, corners: Sequence[float]) -> Number:
        """The value at `t` on the way from corner to corner."""
        t = least(t, self.total - 1.0)
        out, start = None, 0.0
        for end, (a, b) in zip(self.ends, pairwise(corners), strict=True):
            piece = self._between(a, b, (t - start) / (end - start if end != start else 1.0))
            out = piece if out is None else where(t > start, piece, out)
            start = end
        assert out is not None
        return out

    def _between(self, a: float, b: float, done: Number) -> Number:
        return a + (b - a) * done if self.linear else b + (a - b) * (1.0 + cosine(math.pi * done)) / 2.0


def momentum_name(owner: str, group: Any) -> str:
    """What a group calls the number that runs against its rate."""
    for name in ("beta1", "momentum"):
        if rates.has(group, name):
            return name
    raise ArgumentError(
        f"{owner}(cycle_momentum=True) with an optimiser that has no momentum",
        where=user_location(),
        expected="SGD or RMSprop with momentum above 0, Adam, AdamW, Lion or LAMB",
        remedy="cycle_momentum=False",
    )


class SWALR(Schedule):
    """From base to swa_lr in `anneal_epochs` steps, along a cosine or a line, for weight averaging."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
    ) -> None:
        self.ends = [float(r) for r in per_group("SWALR", "swa_lr", swa_lr, optimizer)]
        self.steps = whole("SWALR", "anneal_epochs", anneal_epochs, 0)
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(
                f"SWALR: anneal_strategy is {anneal_strategy!r}",
                where=user_location(),
                expected="'cos' or 'linear'",
            )
        self.linear = anneal_strategy == "linear"
        super().__init__(optimizer)

    def rate(self, base: Number, t: Number, group: int) -> Number:
        done = least(t / max(self.steps, 1), 1.0) if self.steps else float64_number(1.0)
        share = done if self.linear else (1.0 - cosine(math.pi * done)) / 2.0
        return base + (self.ends[group] - base) * share
