"""The table of passes: names, order, options, and growth with the size of a graph."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.graph.passes import PASSES, Pass
from trilobite.compiler.graph.passes.inline import inline
from trilobite.compiler.graph.pipeline import Options
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType
from trilobite.ir.verify import verify


def test_names_are_distinct_and_each_says_what_it_does() -> None:
    names = [p.name for p in PASSES]
    assert len(set(names)) == len(names)
    assert all(p.doc for p in PASSES)


def test_a_training_step_keeps_its_results() -> None:
    model = tb.nn.Sequential(
        tb.nn.Conv2d(3, 4, 3, padding=1),
        tb.nn.BatchNorm2d(4),
        tb.nn.ReLU(),
        tb.nn.Flatten(),
        tb.nn.Linear(144, 5),
    )
    opt = tb.optim.Adam(model.parameters(), lr=1e-2)

    def step(x: tb.Tensor, y: tb.Tensor) -> tb.Tensor:
        loss = tb.nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    rng = np.random.default_rng(0)
    x = tb.tensor(rng.standard_normal((2, 3, 6, 6)).astype(np.float32))
    jitted = tb.jit(step, target="reference")
    graph = jitted.lower(x, tb.tensor([1, 3])).graph
    after, values = (
        graph,
        [np.asarray(rng.uniform(0.1, 1, t.shape)).astype(t.dtype) for t in graph.input_types],
    )
    for p in PASSES:
        after, _ = p(after, Options())
        verify(after)
    assert len(after) < 0.75 * len(inline(graph))
    for found, expected in zip(run(after, values), run(graph, values), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5)


# -- growth --------------------------------------------------------------------------------------------------


def chain(n: int) -> Graph:
    """A network-like graph of about n equations: products, biases, activations, shared parts, constants."""

    def body(x: Any, w: Any, b: Any) -> list[Any]:
        for _ in range(n // 10):
            y = table["dot"](x, w, contract=((1,), (1,)), batch=((), ()), dtype=x.dtype)
            y = table["add"](y, table["broadcast"](b, shape=y.shape, axes=(1,)))
            one = table["full"](shape=y.shape, dtype=y.dtype, value=1.0)
            z = table["mul"](table["neg"](table["neg"](y)), one)
            t = table["transpose"](table["tanh"](table["transpose"](z, axes=(1, 0))), axes=(1, 0))
            x = table["add"](t, table["mul"](y, y))
        return [x]

    f32 = tb.float32
    return record_graph(body, [TensorType((4, 4), f32), TensorType((4, 4), f32), TensorType((4,), f32)])


def lines_run(work: Callable[[], object]) -> int:
    """How many function calls a piece of work makes: a count that no other load on the machine changes."""
    count = 0

    def seen(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    old = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(old)
    return count


@pytest.mark.parametrize("p", PASSES, ids=lambda p: p.name)
def test_work_grows_in_proportion_to_the_graph(p: Pass) -> None:
    small, large = chain(200), chain(2000)
    options = Options(stable=frozenset({1, 2}), memory=1, reassociate=True, mixed_precision="bfloat16")
    p(chain(50), options)  # what is worked out once per process
    few, many = (lines_run(lambda g=g: p(g, options)) for g in (small, large))  # type: ignore[misc]
    assert many <= 11 * few + 500, (few, many)
