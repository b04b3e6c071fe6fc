"""Leaves: which values are, and that their gradients have memory of their own."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.pytree import node_of
from trilobite.compiler.targets.dlp.resident import address_of
from trilobite.framework.leaves import own


class Point(NamedTuple):
    x: int
    y: int


class Row(tuple[int, ...]):
    """A tuple with nothing of its own."""


def test_tuples_with_names_are_containers_and_what_resembles_them_is_not() -> None:
    assert node_of(Point(1, 2)) is not None and tb.tree.leaves(Point(1, 2)) == [1, 2]
    assert node_of(Row((1, 2))) is None
    assert node_of(ast.Name("x")) is None  # has `_fields`, and is no tuple


def test_what_is_copied() -> None:
    shared: set[int] = set()
    fresh = np.arange(6.0)
    assert own(fresh, shared) is fresh
    assert own(fresh, shared) is not fresh  # another leaf has it
    view = np.arange(6.0)[1:]
    assert own(view, set()) is not view
    fixed = np.arange(6.0)
    fixed.flags.writeable = False
    found = own(fixed, set())
    assert found is not fixed and found.flags.writeable and np.array_equal(found, fixed)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_may_be_written(compiled: bool) -> None:
    """Of sums, broadcasts and constants, whose cotangents are one number everywhere."""
    x, y = (tb.tensor(np.ones((3, 4), np.float32), requires_grad=True) for _ in range(2))

    def loss() -> tb.Tensor:
        return (x + y).sum() + (2 * x).mean()

    (tb.jit(loss) if compiled else loss)().backward()
    x.grad.add_(1.0)
    assert np.allclose(y.grad.numpy(), 1.0) and np.allclose(x.grad.numpy(), 2 + 2 / 12)


def test_where_an_array_lies_in_a_memory() -> None:
    """From the first byte to the last; outside, between granules or in pieces it does not."""
    room = np.zeros(4096 + 256, np.uint8)
    skew = -room.ctypes.data % 256
    memory = room[skew : skew + 4096]
    device = SimpleNamespace(memory=SimpleNamespace(gdram=memory))
    assert address_of(device, memory[:256]) == 0
    assert address_of(device, memory[256:]) == 256
    assert address_of(device, memory[4096 - 256 :]) == 4096 - 256
    assert address_of(device, memory[1:257]) is None
    assert address_of(device, memory[:512:2]) is None
    assert address_of(device, memory[:0]) is None
    assert address_of(device, np.zeros(8192, np.uint8)) is None
    half = SimpleNamespace(memory=SimpleNamespace(gdram=memory[256:2048]))
    assert address_of(half, memory[:256]) is None
    assert address_of(half, memory[1792:2048]) == 1536
    assert address_of(half, memory[1792:2049]) is None
