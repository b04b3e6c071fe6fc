"""State saved and restored: training goes on with the same bits, through a checkpoint on disk too;
misfits are refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optim_reference import CASES

import trilobite as tb
from trilobite.base.errors import StateError
from trilobite.framework import checkpoint, optim


def build(case: str, seed: int = 0) -> tuple[list[tb.Tensor], optim.Optimizer]:
    rng = np.random.default_rng(seed)
    params = [
        tb.tensor(rng.normal(size=s).astype(np.float32), requires_grad=True) for s in ((3, 2), (), (5,))
    ]
    name, _, settings = CASES[case]
    return params, getattr(optim, name)(params, **settings)


def steps(params: list[tb.Tensor], optimizer: optim.Optimizer, seed: int, count: int = 7) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        for p in params:
            p.grad = tb.tensor(np.asarray(rng.normal(size=p.shape), np.float32))
        optimizer.step()


def bits(params: list[tb.Tensor]) -> list[bytes]:
    return [p.detach().numpy().tobytes() for p in params]


@pytest.mark.parametrize("case", CASES)
def test_restored_it_goes_on_with_the_same_bits(case: str, tmp_path: Path) -> None:
    params, optimizer = build(case)
    steps(params, optimizer, 1)
    checkpoint.save(tmp_path / "run", {"params": params_of(params), "optimizer": optimizer.state_dict()})
    steps(params, optimizer, 2)

    again, other = build(case, seed=5)
    other.param_groups[0]["lr"] = 99.0
    found = checkpoint.load(tmp_path / "run")
    with tb.no_grad():
        for p, array in zip(again, found["params"], strict=True):
            p.copy_(array)
    other.load_state_dict(found["optimizer"])
    steps(again, other, 2)
    assert bits(again) == bits(params)


def params_of(params: list[tb.Tensor]) -> list[np.ndarray]:
    return [p.detach().numpy().copy() for p in params]


def test_the_state_is_a_copy_both_ways() -> None:
    params, optimizer = build("adam")
    steps(params, optimizer, 1)
    saved = optimizer.state_dict()
    before = saved["state"][0]["mean"].copy()
    steps(params, optimizer, 2)
    np.testing.assert_array_equal(saved["state"][0]["mean"], before)
    optimizer.load_state_dict(saved)
    steps(params, optimizer, 3)
    np.testing.assert_array_equal(saved["state"][0]["mean"], before)


def test_a_recorded_step_goes_on_after_loading() -> None:
    params, optimizer = build("adam")
    jitted = tb.jit(lambda: optimizer.step())
    for p in params:
        p.grad = tb.ones(p.shape)
    jitted()
    saved, values = optimizer.state_dict(), params_of(params)
    jitted()
    want = bits(params)
    optimizer.load_state_dict(saved)
    with tb.no_grad():
        for p, v in zip(params, values, strict=True):
            p.copy_(v)
    jitted()
    assert bits(params) == want and not jitted.recompilations


def test_all_numbers_come_back() -> None:
    _, optimizer = build("adam all")
    saved = optimizer.state_dict()
    assert saved["param_groups"][0]["beta1"] == 0.8 and saved["param_groups"][0]["params"] == [0, 1, 2]
    _, other = build("adam all")
    for name in ("lr", "beta1", "beta2", "eps", "weight_decay"):
        other.param_groups[0][name] = 0.123
    other.load_state_dict(saved)
    assert {k: v.item() for k, v in other.param_groups[0].numbers().items()} == {
        "lr": 0.02, "beta1": 0.8, "beta2": 0.95, "eps": 1e-5, "weight_decay": 0.1,
    }  # fmt: skip


def _lacking(saved: dict[str, Any]) -> None:
    del saved["state"][1]["mean"]


def _reshaped(saved: dict[str, Any]) -> None:
    saved["state"][2]["mean_square"] = np.zeros((5, 1), np.float32)


def _widened(saved: dict[str, Any]) -> None:
    saved["state"][2]["mean"] = np.zeros(5, np.float64)


def _fewer(saved: dict[str, Any]) -> None:
    saved["state"].pop()


def _turned(saved: dict[str, Any]) -> None:
    saved["param_groups"][0]["maximize"] = True


def _wordy(saved: dict[str, Any]) -> None:
    saved["param_groups"][0]["lr"] = "fast"


def _grouped(saved: dict[str, Any]) -> None:
    saved["param_groups"] = saved["param_groups"] * 2


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_lacking, r"parameter 1 has \['mean_square', 'step'\]"),
        (_reshaped, r"mean_square of parameter 2 is float32\[5, 1\][\s\S]*expected: float32\[5\]"),
        (_widened, r"mean of parameter 2 is float64\[5\]"),
        (_fewer, "it is of 2 parameters"),
        (_turned, "maximize of group 0 is True"),
        (_wordy, "lr of group 0 is 'fast'"),
        (_grouped, "it has 2 parameter groups"),
        (lambda s: s.pop("state"), r"it has \['param_groups'\]"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(spoil: Any, message: str) -> None:
    params, optimizer = build("adam")
    steps(params, optimizer, 1)
    before = optimizer.state_dict()
    saved = optimizer.state_dict()
    for row in saved["state"]:
        row["step"] = np.asarray(77)
    spoil(saved)
    with pytest.raises(StateError, match=message):
        optimizer.load_state_dict(saved)
    after = optimizer.state_dict()
    assert str(after) == str(before)


def test_a_decay_of_nothing_does_not_take_one() -> None:
    _, with_decay = build("adamw")
    saved = with_decay.state_dict()
    plain = optim.AdamW(
        [tb.tensor(np.zeros(s, np.float32), requires_grad=True) for s in ((3, 2), (), (5,))], weight_decay=0.0
    )
    with pytest.raises(StateError, match=r"weight_decay of group 0 is 0.01[\s\S]*remedy"):
        plain.load_state_dict(saved)
