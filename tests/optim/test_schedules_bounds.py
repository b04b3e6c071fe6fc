"""Counts of steps that schedules take: each at its least, and one below it, by the text of the error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError

S = tb.optim.lr_scheduler
# name of the count -> the schedule with it, and the least that is allowed
COUNTS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "StepLR: step_size": (lambda o, n: S.StepLR(o, n), 1),
    "MultiStepLR: a milestone": (lambda o, n: S.MultiStepLR(o, [n, 5]), 0),
    "ConstantLR: total_iters": (lambda o, n: S.ConstantLR(o, 0.5, n), 0),
    "LinearLR: total_iters": (lambda o, n: S.LinearLR(o, total_iters=n), 1),
    "PolynomialLR: total_iters": (lambda o, n: S.PolynomialLR(o, n), 1),
    "CosineAnnealingLR: T_max": (lambda o, n: S.CosineAnnealingLR(o, n), 1),
    "CosineAnnealingWarmRestarts: T_0": (lambda o, n: S.CosineAnnealingWarmRestarts(o, n), 1),
    "CosineAnnealingWarmRestarts: T_mult": (lambda o, n: S.CosineAnnealingWarmRestarts(o, 3, n), 1),
    "CyclicLR: step_size_up": (lambda o, n: S.CyclicLR(o, 0.1, 0.2, n), 1),
    "CyclicLR: step_size_down": (lambda o, n: S.CyclicLR(o, 0.1, 0.2, 3, n), 1),
    "OneCycleLR: total_steps": (lambda o, n: S.OneCycleLR(o, 0.1, n), 2),
    "ReduceLROnPlateau: patience": (lambda o, n: S.ReduceLROnPlateau(o, patience=n), 0),
    "ReduceLROnPlateau: cooldown": (lambda o, n: S.ReduceLROnPlateau(o, cooldown=n), 0),
    "SWALR: anneal_epochs": (lambda o, n: tb.optim.SWALR(o, 0.05, n), 0),
    "SequentialLR: a milestone": (
        lambda o, n: S.SequentialLR(o, [S.ConstantLR(o), S.ConstantLR(o)], [n]), 1
    ),
}  # fmt: skip


def optimizer() -> Any:
    return tb.optim.SGD([tb.nn.Parameter(tb.ones(2))], lr=0.1, momentum=0.9)


@pytest.mark.parametrize("name", COUNTS)
def test_counts_have_a_least(name: str) -> None:
    make, least = COUNTS[name]
    made = make(optimizer(), least)
    make(optimizer(), np.int64(least + 3))
    assert made is not None
    for wrong in (least - 1, -5, True, 1.5, "3"):
        with pytest.raises(ArgumentError, match=f"{name} is .*") as error:
            make(optimizer(), wrong)
        assert f"an integer of at least {least}" in str(error.value)
