"""Whole random programs, split: any placements of inputs, odd sizes, gradients too, against one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sharding_runs import random_placement, run_split
from test_sharding_rules import graph_of, with_gradients
from trilobite.nn import functional as F

import trilobite as tb
from trilobite.ir.evaluate import run

Array = np.ndarray[Any, Any]
Draw = np.random.Generator


def _product(x: Any, y: Any, draw: Draw) -> Any:
    return x @ y.mT if x.shape[1] == y.shape[1] else x.mT @ y if x.shape[0] == y.shape[0] else x.mT @ x


def _same_shape(x: Any, y: Any, draw: Draw) -> Any:
    y = y if x.shape == y.shape else y.sum() / float(y.size)
    return tb.tanh(x) * y + x if draw.random() < 0.5 else x - y * 0.5


def _reduced(x: Any, y: Any, draw: Draw) -> Any:
    axis = int(draw.integers(2))
    mean = x.mean(axis=axis, keepdims=True)
    return x - mean if draw.random() < 0.5 else x * x.amax(axis=axis, keepdims=True)


def _reshaped(x: Any, y: Any, draw: Draw) -> Any:
    a, b = x.shape
    shapes = [(a * b, 1), (1, a * b), *((a // k, b * k) for k in (2, 3) if a % k == 0)]
    return x.reshape(shapes[int(draw.integers(len(shapes)))]).reshape((a, b)) + x


def _rows(x: Any, y: Any, draw: Draw) -> Any:
    return tb.concatenate([x[:, 1:], x[:, :1]], 1) if draw.random() < 0.5 else tb.flip(x, (0,)) * 0.5


OPERATIONS: list[Callable[[Any, Any, Draw], Any]] = [
    _product, _same_shape, _reduced, _reshaped, _rows,
    lambda x, y, draw: F.softmax(x, int(draw.integers(2))),
    lambda x, y, draw: x.mT * 1.5,
    lambda x, y, draw: F.layer_norm(x, (x.shape[-1],)),
    lambda x, y, draw: F.gelu(x),
]  # fmt: skip


def program(seed: int) -> tuple[Callable[..., Any], list[Array]]:
    """A function of three matrices, and some."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(4, 8, 3)
    args = [draw.normal(size=(sizes[i], sizes[j])) for i, j in ((0, 1), (1, 2), (0, 2))]

    def f(*given: Any) -> Any:
        pick = np.random.default_rng(seed + 1)
        values = list(given)
        for _ in range(8):
            x, y = (values[int(pick.integers(len(values)))] for _ in range(2))
            out = OPERATIONS[int(pick.integers(len(OPERATIONS)))](x, y, pick)
            values.append(out / (1.0 + abs(out).mean()))
        return sum((v * v).mean() for v in values[3:]) * tb.ones(2).to(values[0].dtype)

    return f, args


def check_program(seed: int) -> None:
    f, args = program(seed)
    graph = graph_of(with_gradients(f, 3), args)
    want = run(graph, args)
    draw = np.random.default_rng(seed + 2)
    mesh = [(2,), (3,), (4,), (2, 2)][int(draw.integers(4))]
    ins = [random_placement(v.type, mesh, draw) for v in graph.inputs]
    found, _ = run_split(graph, args, ins, mesh)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(0, 40, 10))
def test_random_programs(seed: int) -> None:
    check_program(seed)


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_many_random_programs(block: int) -> None:
    for seed in range(1000 + block * 100, 1000 + block * 100 + 15):
        check_program(seed)
