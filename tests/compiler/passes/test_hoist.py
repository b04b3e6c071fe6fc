"""hoist: the same results, with less inside the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.passes.dce import dce
from trilobite.compiler.passes.hoist import hoist
from trilobite.compiler.passes.inline import inline
from trilobite.compiler.passes.simplify import simplify
from trilobite.compiler.rewrite import Counters
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph
from trilobite.ir.verify import verify


def normal(*shape: int, seed: int = 0) -> Any:
    return tb.tensor(np.random.default_rng(seed).standard_normal(shape))


def hoisted(fn: Any, *args: Any) -> tuple[Graph, Counters]:
    graph = dce(simplify(inline(tb.make_graph(fn)(*args))))
    counters = Counters()
    out = hoist(graph, counters)
    verify(out)
    values = [np.asarray(a.numpy()) for a in args]
    for a, b in zip(run(out, values), run(graph, values), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    return dce(out), counters


def scans(graph: Graph) -> list[Equation]:
    return [e for e in graph.equations if e.primitive.name == "scan"]


def test_work_on_constants_leaves_the_loop() -> None:
    def f(w: Any, xs: Any) -> Any:
        return tb.scan(lambda c, x: (tb.tanh(c @ (w.T @ w) + x), c), xs[0], xs)

    graph, counters = hoisted(f, normal(4, 4), normal(5, 3, 4, seed=1))
    (scan,) = scans(graph)
    assert [e.primitive.name for e in scan.attributes["body"].equations].count("dot") == 1
    assert counters["equation that is alike in every round"] >= 1


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("start", ["zeros", "given"])
def test_a_sum_of_products_is_one_product(start: str, reverse: bool) -> None:
    def f(xs: Any, ys: Any, s: Any) -> Any:
        first = tb.zeros((4, 5), dtype=tb.float64) if start == "zeros" else s
        total, c = tb.scan(
            lambda c, v: ((c[0] + v[0].T @ (v[1] * c[1].sum()), c[1] * 0.5), c[1]),
            (first, xs[0]), (xs, ys), reverse=reverse,
        )  # fmt: skip
        return total[0], c

    graph, counters = hoisted(f, normal(6, 3, 4), normal(6, 3, 5, seed=1), normal(4, 5, seed=2))
    (scan,) = scans(graph)
    assert counters["sum over rounds"] == 1 and scan.attributes["carries"] == 1
    assert "dot" not in [e.primitive.name for e in scan.attributes["body"].equations]


def test_a_carry_that_is_read_stays() -> None:
    def f(xs: Any) -> Any:
        return tb.scan(lambda c, x: (c + (x @ c).sum(), c), xs[0], xs)

    graph, counters = hoisted(f, normal(5, 3, 3))
    assert counters["sum over rounds"] == 0 and scans(graph)[0].attributes["carries"] == 1


def test_a_result_that_repeats_is_no_stack() -> None:
    def f(w: Any, xs: Any) -> Any:
        _, (a, b) = tb.scan(lambda c, x: (c + x, (w, x)), xs[0], xs)
        _, d = tb.scan(lambda c, v: (c @ v[0], v[1]), xs[0], (a, b))
        return _, d

    graph, counters = hoisted(f, normal(3, 3), normal(4, 3, 3, seed=1))
    assert counters["result that repeats"] == 3 and counters["sequence that repeats"] == 1
    assert all(v.type.shape != (4, 3, 3) for e in scans(graph)[:1] for v in e.outputs)


def test_gradients_of_a_recurrent_layer_are_summed_behind_the_loop() -> None:
    lstm = tb.nn.LSTM(4, 5).double()
    weights = list(lstm.parameters())

    def f(x: Any) -> Any:
        for p in weights:
            p.grad = None
        (lstm(x)[0] ** 2).sum().backward()
        return [p.grad for p in weights]

    x = normal(7, 3, 4)
    want = [g.numpy().copy() for g in f(x)]
    got = tb.jit(f, target="cpu")(x)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-10, atol=1e-12)
    for p in weights:
        p.grad = None
    lowered = tb.jit(f, target="cpu").lower(x)
    stages = lowered.stages["hoist"]
    backward = stages[stages.rindex(" scan ") :]
    assert "f64[20,5]" not in backward.split("^")[0].split("=")[0]


def test_an_empty_loop() -> None:
    def f(w: Any, xs: Any) -> Any:
        total, ys = tb.scan(lambda c, x: (c + x.T @ x, w), tb.zeros((3, 3), dtype=tb.float64), xs)
        return total, ys

    hoisted(f, normal(2, 2), normal(0, 4, 3, seed=1))
