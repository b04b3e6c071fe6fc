"""Containers: they behave as the list or dict they are called after, and the module around them knows their
entries.
"""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, IndexingError
from trilobite.framework import nn


def names(m: nn.Module) -> list[str]:
    return [n for n, _ in m.named_children()]


def test_sequential_by_position() -> None:
    m = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert len(m) == 3 and isinstance(m[1], nn.ReLU) and m[-1] is m[2] and list(m) == [m[0], m[1], m[2]]
    part = m[1:]
    assert type(part) is nn.Sequential and names(part) == ["1", "2"] and part[0] is m[1]
    m[1] = nn.Tanh()
    assert isinstance(m[1], nn.Tanh)
    m.append(nn.Sigmoid()).extend([nn.Identity()])
    m.insert(0, nn.Identity())
    assert [type(x).__name__ for x in m] == ["Identity", "Linear", "Tanh", "Linear", "Sigmoid", "Identity"]
    assert names(m) == list("012345")
    del m[0]
    popped = m.pop()
    assert isinstance(popped, nn.Identity) and names(m) == list("0123")
    x = tb.ones((4, 2))
    expected = m[3](m[2](m[1](m[0](x))))
    np.testing.assert_array_equal(m(x).detach().numpy(), expected.detach().numpy())


def test_sequential_by_name() -> None:
    m = nn.Sequential({"first": nn.Linear(2, 3), "act": nn.ReLU(), "last": nn.Linear(3, 1)})
    assert m.first is m[0] and m[-1] is m.last and names(m[:2]) == ["first", "act"]
    del m[1]
    assert names(m) == ["first", "last"] and m(tb.ones((1, 2))).shape == (1, 1)


def test_sequential_of_nothing_passes() -> None:
    assert nn.Sequential()(5) == 5


def test_module_list() -> None:
    m = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    m += [nn.ReLU()]
    assert len(m) == 4 and len(m + [nn.ReLU()]) == 5 and type(m[:2]) is nn.ModuleList
    assert [n for n, _ in m.named_parameters()][:2] == ["0.weight", "0.bias"]
    with pytest.raises(IndexingError, match="entry 4 of a ModuleList of 4") as e:
        m[4]
    assert "expected: -4 <= index < 4" in str(e.value)
    with pytest.raises(ArgumentError, match="str in a ModuleList"):
        m.append("layer")
    with pytest.raises(Exception, match="has no forward"):
        m(1)


def test_module_dict() -> None:
    m = nn.ModuleDict({"a": nn.Linear(1, 2), "b": nn.ReLU()})
    m["c"] = nn.Tanh()
    m.update([("b", nn.Sigmoid())])
    assert list(m) == list(m.keys()) == ["a", "b", "c"] and len(m) == 3 and "b" in m and "z" not in m
    assert isinstance(m["b"], nn.Sigmoid) and [type(v).__name__ for v in m.values()] == [
        "Linear",
        "Sigmoid",
        "Tanh",
    ]
    assert isinstance(m.pop("c"), nn.Tanh) and "c" not in m
    with pytest.raises(KeyError, match="a ModuleDict has no entry 'z'"):
        m["z"]
    with pytest.raises(ArgumentError, match="int in a ModuleDict"):
        m["n"] = 3
    with pytest.raises(ArgumentError, match="already has an attribute 'keys'"):
        m["keys"] = nn.ReLU()
    m.clear()
    assert len(m) == 0


def test_parameter_list_and_dict() -> None:
    m = nn.ParameterList([np.ones(2), tb.zeros((3,))])
    m.append(tb.ones((1,)))
    assert [tuple(p.shape) for p in m] == [(2,), (3,), (1,)] and all(isinstance(p, nn.Parameter) for p in m)
    assert [n for n, _ in m.named_parameters()] == ["0", "1", "2"]
    assert "(1): Parameter of float32 (3,)" in repr(m)
    d = nn.ParameterDict({"w": np.ones((2, 2), np.float32)})
    d["b"] = tb.zeros((2,))
    assert list(d.state_dict()) == ["w", "b"] and d["b"].requires_grad
    assert "(w): Parameter of float32 (2, 2)" in repr(d)


def test_entries_may_not_change_while_recording() -> None:
    m = nn.Sequential(nn.ReLU(), nn.Tanh())
    for change in (lambda: m.append(nn.ReLU()), lambda: m.pop(), lambda: m.insert(0, nn.ReLU())):
        with pytest.raises(RuntimeError, match="while a function is being recorded"):
            tb.jit(lambda x, c=change: (c(), x)[1])(tb.ones(()))
    assert len(m) == 2


def test_parameter_dict_as_a_dict() -> None:
    d = nn.ParameterDict({"a": tb.ones(2), "b": tb.zeros(3)})
    assert d.get("a") is d["a"] and d.get("c") is None and d.get("c", 4) == 4
    new = d.setdefault("c", tb.ones(1))
    assert isinstance(new, nn.Parameter) and d.setdefault("c") is new and list(d) == ["a", "b", "c"]
    other = d.copy()
    assert other["b"] is d["b"] and other is not d
    assert d.popitem() == ("c", new) and list(d) == ["a", "b"] and "c" in other
    joined = d | {"a": tb.zeros(1), "e": tb.ones(4)}
    assert list(joined) == ["a", "b", "e"] and d["a"] is not joined["a"] and joined["b"] is d["b"]
    d |= {"f": tb.ones(1)}
    assert [name for name, _ in d.named_parameters()] == ["a", "b", "f"]
    assert list(d.fromkeys(["x", "y"], 1.0)) == ["x", "y"]
    with pytest.raises(KeyError, match="has no entry"):
        nn.ParameterDict().popitem()
    assert nn.ModuleDict({"l": nn.ReLU()}).get("m") is None
