"""Guards of optimisers, data and draws on both sides, as `test_both_sides.py` has them of operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.errors.test_both_sides import Case, z
from trilobite import nn, optim
from trilobite.base.errors import TrilobiteError
from trilobite.framework import data, metrics
from trilobite.framework.data import transforms as T
from trilobite.framework.pytorch.utils.data import TensorDataset
from trilobite.framework.quantization.scheme import Scheme


def sgd(**settings: Any) -> Any:
    return optim.SGD([nn.Parameter(z(2))], **{"lr": 0.1, **settings})


def loaded(change: Any) -> None:
    """Into an optimiser what another one saved, changed."""
    one, other = sgd(momentum=0.9), sgd(momentum=0.9)
    for each in (one, other):
        each.param_groups[0]["params"][0].grad = tb.ones(2)
        each.step()
    saved = one.state_dict()
    change(saved)
    other.load_state_dict(saved)


def sequential(milestones: list[int], count: int = 2) -> Any:
    o = sgd()
    return optim.SequentialLR(o, [optim.StepLR(o, 2) for _ in range(count)], milestones)


SET = data.ArrayDataset(np.arange(6))
CASES: dict[str, Case] = {
    "percentile": (
        lambda: Scheme(percentile=100.5),
        "percentile",
        lambda: Scheme(percentile=100),
    ),
    "percentile below": (lambda: Scheme(percentile=50), "percentile", lambda: Scheme(percentile=50.5)),
    "rows": (
        lambda: data.ArrayDataset(np.zeros(2), np.zeros(())),
        "a 0-d array has no rows",
        lambda: data.ArrayDataset(np.zeros(2), np.zeros(2)),
    ),
    "lengths": (
        lambda: TensorDataset(z(2), z(3)),
        r"TensorDataset of lengths \[2, 3\]",
        lambda: TensorDataset(z(2), z(2)),
    ),
    "rate": (lambda: sgd(lr=-0.1), "lr is -0.1", lambda: sgd(lr=0.0)),
    "rate by word": (lambda: sgd(lr="fast"), "lr is 'fast'", lambda: sgd(lr=np.float32(0.5))),
    "rate by truth": (lambda: sgd(lr=True), "lr is True", lambda: sgd(lr=1)),
    "rate by vector": (lambda: sgd(lr=z(1)), r"lr is a tensor float32\[1\]", lambda: sgd(lr=tb.tensor(0.5))),
    "rate by integers": (
        lambda: sgd(lr=tb.tensor(1)),
        "lr is a tensor int64",
        lambda: sgd(lr=np.asarray(0.5)),
    ),
    "betas": (
        lambda: optim.Adam([nn.Parameter(z(2))], betas=(0.9,)),
        r"betas is \(0.9,\)",
        lambda: optim.Adam([nn.Parameter(z(2))], betas=(0.9, 0.99)),
    ),
    "betas of one": (
        lambda: optim.Adam([nn.Parameter(z(2))], betas=(0.9, 1.0)),
        "1.0",
        lambda: optim.Adam([nn.Parameter(z(2))], betas=[0.0, 0.0]),
    ),
    "closure": (
        lambda: tb.amp.GradScaler().step(sgd(), lambda: None),
        "with a closure",
        lambda: tb.amp.GradScaler(),
    ),
    "schedule": (
        lambda: optim.StepLR(nn.Linear(1, 1), 2),
        "StepLR of a Linear",
        lambda: optim.StepLR(sgd(), 2),
    ),
    "steps": (lambda: optim.StepLR(sgd(), 0), "is 0", lambda: optim.StepLR(sgd(), 1)),
    "steps by half": (lambda: optim.StepLR(sgd(), 1.5), "is 1.5", lambda: optim.StepLR(sgd(), np.int64(2))),
    "steps by truth": (lambda: optim.StepLR(sgd(), True), "is True", lambda: optim.StepLR(sgd(), 3)),
    "milestones": (lambda: sequential([4, 6]), "SequentialLR of 2 schedules", lambda: sequential([4])),
    "milestones that fall": (lambda: sequential([6, 4], 3), "with milestones", lambda: sequential([4, 6], 3)),
    "milestones that stay": (lambda: sequential([4, 4], 3), "with milestones", lambda: sequential([4, 5], 3)),
    "no schedules": (
        lambda: optim.ChainedScheduler([]),
        "at least one schedule",
        lambda: optim.ChainedScheduler([optim.StepLR(sgd(), 2)]),
    ),
    "groups": (
        lambda: loaded(lambda s: s["param_groups"].append({})),
        "2 parameter groups",
        lambda: loaded(lambda s: None),
    ),
    "parameters": (
        lambda: loaded(lambda s: s["state"].clear()),
        "0 parameters",
        lambda: loaded(lambda s: None),
    ),
    "names": (lambda: loaded(lambda s: s.pop("state")), "param_groups", lambda: loaded(lambda s: None)),
    "group": (
        lambda: loaded(lambda s: s["param_groups"][0].pop("momentum")),
        "has no 'momentum'",
        lambda: loaded(lambda s: None),
    ),
    "pad": (lambda: data.PadCollate(multiple=0), "multiple is 0", lambda: data.PadCollate(multiple=1)),
    "no batch": (lambda: data.PadCollate()([]), "an empty batch", lambda: data.PadCollate()([np.zeros(2)])),
    "subset": (lambda: data.Subset(SET, [0.5]), "indices have dtype", lambda: data.Subset(SET, [5])),
    "subset by plane": (lambda: data.Subset(SET, [[1]]), "indices have shape", lambda: data.Subset(SET, [])),
    "workers": (lambda: data.Loader(SET, 2, worker_kind="x"), "worker_kind 'x'", lambda: data.Loader(SET, 2)),
    "sampler": (
        lambda: data.Loader(SET, 2, sampler=[1]),
        "sampler is a list",
        lambda: data.Loader(SET, 2, sampler=None),
    ),
    "batch": (lambda: data.Loader(SET, 0), "is 0", lambda: data.Loader(SET, 1)),
    "size": (lambda: T.Resize(0), "size 0", lambda: T.Resize(1)),
    "sizes": (lambda: T.Resize((1, 2, 3)), "size", lambda: T.Resize((1, 2))),
    "hue": (lambda: T.ColorJitter(hue=0.51), "hue <= 0.5", lambda: T.ColorJitter(hue=0.5)),
    "contrast": (lambda: T.ColorJitter(contrast=-0.1), "amounts >= 0", lambda: T.ColorJitter(contrast=0)),
    "angles": (lambda: T.Rotate((5.0, 4.0)), "angles from 5.0 to 4.0", lambda: T.Rotate((5.0, 5.0))),
    "endless angles": (lambda: T.Rotate(float("inf")), "angles from -inf", lambda: T.Rotate(180.0)),
    "deviation": (lambda: T.Normalize(0.0, 0.0), "std", lambda: T.Normalize(0.0, 1e-6)),
    "mean": (lambda: T.Normalize(float("nan"), 1.0), "mean", lambda: T.Normalize(-1.0, 1.0)),
    "bytes": (
        lambda: T.Normalize(0.0, 1.0)(np.zeros(2, np.uint8)),
        "got uint8",
        lambda: T.Normalize(0.0, 1.0)(np.zeros(2)),
    ),
    "labels": (lambda: T.OneHot(3)(np.array([3])), "labels from 3 to 3", lambda: T.OneHot(3)(np.array([2]))),
    "labels below": (
        lambda: T.OneHot(3)(np.array([-1])),
        "labels from -1",
        lambda: T.OneHot(3)(np.array([0])),
    ),
    "float labels": (lambda: T.OneHot(3)(np.array([1.0])), "got float64", lambda: T.OneHot(1)(np.array([0]))),
    "multinomial": (
        lambda: tb.multinomial(tb.ones((1, 1, 2)), 1),
        "multinomial of shape",
        lambda: tb.multinomial(tb.ones((1, 2)), 2),
    ),
    "multinomial of more": (
        lambda: tb.multinomial(tb.ones(2), 3),
        "3",
        lambda: tb.multinomial(tb.ones(2), 3, True),
    ),
    "exponential": (
        lambda: tb.random.exponential((2,), 0.0),
        "at a rate of 0.0",
        lambda: tb.random.exponential((2,), 1e-3),
    ),
    "fold_in": (
        lambda: tb.random.fold_in(tb.random.key(0), 0.5),
        "fold_in of 0.5",
        lambda: tb.random.fold_in(tb.random.key(0), 3),
    ),
    "fold_in of many": (
        lambda: tb.random.fold_in(tb.random.key(0), [1, 2]),
        "an integer without dimensions",
        lambda: tb.random.fold_in(tb.random.key(0), np.int32(-3)),
    ),
    "top": (lambda: metrics.TopKAccuracy(0), "is 0", lambda: metrics.TopKAccuracy(1)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_guard(name: str) -> None:
    wrong, message, right = CASES[name]
    with pytest.raises((TrilobiteError, KeyError), match=message):
        wrong()
    right()
