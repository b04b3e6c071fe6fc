"""Schedules made of schedules: one after the other, or on top of each other."""

from __future__ import annotations

from collections.abc import Sequence

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.optim import rates
from trilobite.framework.optim.optimizer import Optimizer
from trilobite.framework.optim.schedule import Number, Schedule, whole
from trilobite.framework.optim.schedules import where


def _of(owner: str, schedules: Sequence[Schedule]) -> Optimizer:
    """The optimiser that all of them are of."""
    if not schedules or any(type(s).rate is Schedule.rate for s in schedules):
        raise ArgumentError(
            f"{owner} of {[type(s).__name__ for s in schedules]}",
            where=user_location(),
            expected="at least one schedule, each a function of the number of steps",
        )
    if any(s.optimizer is not schedules[0].optimizer for s in schedules):
        raise ArgumentError(
            f"{owner}: the schedules are of several optimisers",
            where=user_location(),
            expected="one optimiser",
        )
    return schedules[0].optimizer


class SequentialLR(Schedule):
    """One schedule after the other: the next begins, counting from 0, when its milestone is reached."""

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[Schedule], milestones: Sequence[int]
    ) -> None:
        found = _of("SequentialLR", schedulers)
        self.schedulers = list(schedulers)
        self.milestones = [whole("SequentialLR", "a milestone", m) for m in milestones]
        rising = self.milestones == sorted(set(self.milestones))
        if found is not optimizer or not rising or len(self.milestones) != len(self.schedulers) - 1:
            raise ArgumentError(
                f"SequentialLR of {len(schedulers)} schedules with milestones {list(milestones)}",
                where=user_location(),
                expected="schedules of this optimiser, and rising milestones, one fewer than schedules",
            )
        super().__init__(optimizer)

    def rate(self, base: Number, t: Number, group: int) -> Number:
        out = self.schedulers[0].rate(base, t, group)
        for s, m in zip(self.schedulers[1:], self.milestones, strict=True):
            out = where(t >= m, s.rate(base, t - m, group), out)
        return out

    def others(self, t: Number, group: int) -> dict[str, Number]:
        out = self.schedulers[0].others(t, group)
        for s, m in zip(self.schedulers[1:], self.milestones, strict=True):
            for name, value in s.others(t - m, group).items():
                before = out.get(name, rates.number(self.optimizer.param_groups[group], name))
                out[name] = where(t >= m, value, before)
        return out


class ChainedScheduler(Schedule):
    """Schedules on top of each other: each takes what the one before it gives as its base."""

    def __init__(self, schedulers: Sequence[Schedule]) -> None:
        optimizer = _of("ChainedScheduler", schedulers)
        self.schedulers = list(schedulers)
        super().__init__(optimizer)

    def rate(self, base: Number, t: Number, group: int) -> Number:
        for s in self.schedulers:
            base = s.rate(base, t, group)
        return base

    def others(self, t: Number, group: int) -> dict[str, Number]:
        return {name: value for s in self.schedulers for name, value in s.others(t, group).items()}
