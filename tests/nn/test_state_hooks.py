"""Hooks around saving and loading of state."""

from __future__ import annotations

from typing import Any

import pytest

import trilobite as tb
from trilobite import nn


def net() -> Any:
    return nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 1)))


def test_hooks_around_saving() -> None:
    model, seen = net(), []
    model[1].register_state_dict_pre_hook(
        lambda m, prefix, keep: seen.append((type(m).__name__, prefix, keep))
    )
    model[1][0].register_state_dict_post_hook(
        lambda m, state, prefix, meta: state.pop(f"{prefix}bias") and None
    )
    handle = model.register_state_dict_post_hook(lambda m, s, prefix, meta: s.update(count=tb.tensor(len(s))))
    state = model.state_dict()
    assert seen == [("Sequential", "1.", False)]
    assert sorted(state) == ["0.bias", "0.weight", "1.0.weight", "count"]
    assert state["count"].item() == 3, "those within come first"
    handle.remove()
    assert "count" not in model.state_dict()
    assert sorted(model.state_dict(prefix="net.")) == ["net.0.bias", "net.0.weight", "net.1.0.weight"]


def test_a_hook_may_give_another_state() -> None:
    model = nn.Linear(2, 3)
    model._register_state_dict_hook(lambda m, s, prefix, meta: {f"x_{k}": v for k, v in s.items()})
    assert sorted(model.state_dict()) == ["x_bias", "x_weight"]


def test_hooks_after_loading() -> None:
    model, state = net(), net().state_dict()
    del state["1.0.bias"]
    with pytest.raises(tb.errors.StateError, match=r"missing: 1\.0\.bias"):
        model.load_state_dict(state)
    handle = model[1].register_load_state_dict_post_hook(lambda m, result: result.missing_keys.clear())
    assert model.load_state_dict(state).missing_keys == []
    assert model[0].weight.tolist() == state["0.weight"].tolist()
    handle.remove()
    with pytest.raises(tb.errors.StateError, match="missing"):
        model.load_state_dict(state)
