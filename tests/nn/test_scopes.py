"""Equations of a recorded network know the module they come from, by the name `named_modules` has."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import TrilobiteError
from trilobite.base.locations import user_location
from trilobite.framework import nn
from trilobite.inference.model import Node


class Block(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(3, 3)
        self.more = nn.ModuleList([nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.ReLU())])

    def forward(self, x: tb.Tensor) -> tb.Tensor:
        x = tb.sin(self.first(x))
        for layer in self.more:
            x = layer(x)
        return nn.Tanh()(x)


def modules_of(function, *args) -> list[tuple[str, str]]:
    graph = tb.jit(function).lower(*args).graph
    return [(e.primitive.name, e.location.module) for e in graph.equations]


def test_every_equation_names_its_module() -> None:
    found = modules_of(Block(), tb.tensor(np.ones((2, 3), np.float32)))
    assert [m for name, m in found if name == "dot"] == ["first", "more.0", "more.1.0"]
    assert dict(found)["sin"] == ""
    assert ("call", "more.1.1") in found
    assert found[-1][1] == "Tanh"  # made during the call: it has no name in the tree


def test_the_way_back_names_the_module_of_the_way_there() -> None:
    block = Block()

    def step(x: tb.Tensor) -> tb.Tensor:
        loss = (block(x) * tb.cos(x)).sum()
        loss.backward()
        return loss

    found = modules_of(step, tb.tensor(np.ones((2, 3), np.float32)))
    products = [m for name, m in found if name == "dot"]
    assert products[:3] == ["first", "more.0", "more.1.0"]
    # the gradient of each weight, and of what each layer but the first was given
    assert sorted(products[3:]) == ["first", "more.0", "more.0", "more.1.0", "more.1.0"]
    outside = next(m for name, m in reversed(found) if name == "cos")
    assert outside == "" and user_location().module == ""


def test_names_begin_below_the_outermost_module_and_end_with_it() -> None:
    block = Block()

    def step(x: tb.Tensor) -> tb.Tensor:
        return tb.cos(block(x)) + tb.exp(x)

    found = dict(modules_of(step, tb.tensor(np.ones((2, 3), np.float32))))
    assert found["cos"] == found["exp"] == ""


def test_a_call_that_fails_leaves_no_name_behind() -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            self.inner = nn.Linear(2, 2)

        def forward(self, x: tb.Tensor) -> tb.Tensor:
            return self.inner(x)

    with pytest.raises(TrilobiteError):
        tb.jit(Fails()).lower(tb.tensor(np.ones((1, 5), np.float32)))
    assert user_location().module == ""
    found = modules_of(Block(), tb.tensor(np.ones((2, 3), np.float32)))
    assert next(m for name, m in found if name == "dot") == "first"


def test_threads_have_names_of_their_own() -> None:
    seen: list[str] = []

    class Asks(nn.Module):
        def __init__(self) -> None:
            self.inner = nn.Linear(3, 3)

        def forward(self, x: tb.Tensor) -> tb.Tensor:
            thread = threading.Thread(target=lambda: seen.append(user_location().module))
            thread.start()
            thread.join()
            return self.inner(x)

    modules_of(Asks(), tb.tensor(np.ones((2, 3), np.float32)))
    assert seen == [""]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("/layer1/layer1.0/conv1/Conv", "layer1.0.conv1"),
        ("/features/features.3/Relu", "features.3"),
        ("Conv_12", ""),
        ("", ""),
        ("/a.b/Add", "a_b"),
    ],
)
def test_nodes_of_exporters_tell_their_module(name: str, wanted: str) -> None:
    assert Node("Conv", (), (), {}, name=name).scope == wanted
