"""Passes, fusion and planning take work in proportion to a graph's size: executed lines are counted, not
seconds, so that the answer is the same on any machine. Sizes above 1,000 are in the long tests, by calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.graph.pipeline import Options
from trilobite.compiler.targets.cpu.target import Executable
from trilobite.ir.graph import Graph

Shape = Callable[[Any, Any, int], Any]


def layers(x: Any, w: Any, n: int) -> Any:
    """Nine cheap operations and a product, again and again."""
    for i in range(n):
        k = i % 10
        x = x @ w if k == 9 else tb.tanh(x) if k == 4 else x * 1.25 if k % 2 else x + 0.5
    return x


def skips(x: Any, w: Any, n: int) -> Any:
    """Every value of the way in lives until the way out, as in training."""
    kept = []
    for _ in range(n // 6):
        x = tb.tanh(x @ w)
        kept.append(x)
    for k in reversed(kept):
        x = tb.sin(x @ w) * k
    return x


def fan(x: Any, w: Any, n: int) -> Any:
    """One value that everybody reads, and as many results."""
    return [tb.exp(x * float(i % 5 + 1)) @ w for i in range(n // 3)]


def diamonds(x: Any, w: Any, n: int) -> Any:
    for _ in range(n // 4):
        a = tb.exp(x)
        x = a * 2.0 - tb.sin(a)
    return x


def graph_of(shape: Shape, n: int) -> Graph:
    x, w = (tb.tensor(np.eye(16, dtype=np.float32)) for _ in range(2))
    return tb.make_graph(lambda x, w: shape(x, w, n))(x, w)


def compiled_and_planned(graph: Graph) -> None:
    Executable(graph, Options()).main.program({})


def lines(graph: Graph) -> int:
    """Executed lines of Python, turns of comprehensions among them."""
    count = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        compiled_and_planned(graph)
    finally:
        sys.settrace(before)
    return count


def calls(graph: Graph) -> int:
    """Calls of functions, Python's own among them: cheaper to count than lines."""
    count = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event.endswith("call")

    sys.setprofile(profile)
    try:
        compiled_and_planned(graph)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("shape", [layers, skips, fan, diamonds])
def test_work_grows_with_the_graph(shape: Shape) -> None:
    compiled_and_planned(graph_of(shape, 10))  # what is made once and kept
    small, large = graph_of(shape, 60), graph_of(shape, 600)
    grown = len(large) / len(small)
    assert 9 <= grown <= 12
    assert lines(large) < 1.4 * grown * lines(small)


def test_the_count_would_notice() -> None:
    """A pass that looks at every pair of equations is far outside of what the test above allows."""

    def pairs(n: int) -> int:
        count = 0

        def trace(frame: Any, event: str, arg: Any) -> Any:
            nonlocal count
            count += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            (lambda: [a + b for a in range(n) for b in range(n)])()
        finally:
            sys.settrace(before)
        return count

    assert pairs(600) > 50 * pairs(60)


@pytest.mark.long
@pytest.mark.parametrize("shape", [layers, skips, fan, diamonds])
def test_work_grows_with_large_graphs(shape: Shape) -> None:
    compiled_and_planned(graph_of(shape, 10))
    graphs = [graph_of(shape, n) for n in (100, 1000, 10_000)]
    each = [calls(g) / len(g) for g in graphs]
    shown = [f"{len(g):,} equations {c:.0f} calls each" for g, c in zip(graphs, each, strict=True)]
    print(f"{shape.__name__}: {', '.join(shown)}")
    assert max(each) < 1.5 * each[0]
