"""State dicts: what they hold, and that loading is all or nothing."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, StateError
from trilobite.framework import nn


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def arrays(m: nn.Module) -> dict[str, np.ndarray]:
    return {k: np.array(v.numpy()) for k, v in m.state_dict().items()}


def test_the_state_shares_memory_and_requires_no_gradient() -> None:
    m = network()
    state = m.state_dict()
    assert not any(t.requires_grad for t in state.values())
    with tb.no_grad():
        m[0].weight.fill_(9.0)
    assert (state["0.weight"].numpy() == 9.0).all()
    assert m.state_dict(keep_vars=True)["0.weight"] is m[0].weight
    assert next(iter(m.state_dict(prefix="net."))) == "net.0.weight"


def test_loading_copies_and_casts() -> None:
    m, state = network(), arrays(network())
    state["0.weight"] = state["0.weight"].astype(np.float64) + 0.5
    m.load_state_dict(state)
    np.testing.assert_array_equal(m[0].weight.detach().numpy(), state["0.weight"].astype(np.float32))
    assert m[0].weight.dtype == tb.float32 and m[0].weight.requires_grad
    state["0.weight"][:] = 0
    assert m[0].weight.detach().numpy().any()


def test_assign_takes_the_dtype_too() -> None:
    m = network()
    weight = m[0].weight
    m.load_state_dict(
        {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in arrays(m).items()}, assign=True
    )
    assert m[0].weight is weight and weight.dtype == tb.float64


def test_an_error_lists_everything_and_changes_nothing() -> None:
    m = network()
    before = arrays(m)
    state = {k: v + 1 for k, v in before.items()}
    del state["2.bias"], state["0.bias"]
    state |= {"extra": np.ones(2), "9.weight": np.ones(1)}
    state["1.weight"] = np.ones(5, np.float32)
    state["1.num_batches_tracked"] = np.asarray(2.5)
    with pytest.raises(StateError) as e:
        m.load_state_dict(state)
    text = str(e.value)
    assert text.startswith("the state dict does not fit Sequential; nothing was changed\n")
    assert "missing: 0.bias, 2.bias" in text
    assert "unexpected: extra, 9.weight" in text
    assert "1.weight: shape (5,) instead of (4,)" in text
    assert "1.num_batches_tracked: float64 instead of int64" in text
    assert "test_state_dict.py" in text and "strict=False" in text
    for name, value in arrays(m).items():
        np.testing.assert_array_equal(value, before[name])


def test_without_strictness_names_may_miss_but_shapes_must_fit() -> None:
    m = network()
    result = m.load_state_dict({"0.bias": np.full(4, 7.0), "other": np.ones(1)}, strict=False)
    assert result.missing_keys == [k for k in m.state_dict() if k != "0.bias"]
    assert result.unexpected_keys == ["other"]
    assert (m[0].bias.detach().numpy() == 7.0).all()
    with pytest.raises(StateError, match=r"0\.bias: shape \(3,\) instead of \(4,\)"):
        m.load_state_dict({"0.bias": np.ones(3)}, strict=False)


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(ArgumentError, match="load_state_dict of list"):
        network().load_state_dict([1, 2])  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"the state '0\.weight' is str"):
        network().load_state_dict({"0.weight": "heavy"}, strict=False)


def test_loading_reaches_a_compiled_function() -> None:
    m, other = network().eval(), network().eval()
    f = tb.jit(lambda x: m(x))
    x = tb.tensor(np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32))
    f(x)
    m.load_state_dict(other.state_dict())
    np.testing.assert_allclose(f(x).detach().numpy(), other(x).detach().numpy(), rtol=1e-6)


def test_tied_weights_stand_under_both_names() -> None:
    m = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    m[1].weight = m[0].weight
    assert list(m.state_dict()) == ["0.weight", "1.weight"]
    m.load_state_dict(m.state_dict())
    assert m[0].weight is m[1].weight
