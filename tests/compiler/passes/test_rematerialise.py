"""rematerialise: cheap values are computed again instead of kept, as far as a number of bytes asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.arrays import assert_same_bits, inputs_of
from tests.compiler.passes.texts import graph_of
from trilobite.compiler.graph.passes import PASSES, Options
from trilobite.compiler.graph.passes.cse import cse
from trilobite.compiler.graph.passes.rematerialise import peak_bytes, rematerialise
from trilobite.compiler.graph.rewrite import Counters
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType
from trilobite.ir.verify import verify

MATRIX = "{contract=((1,), (0,)), batch=((), ()), dtype=f32}"


def test_memory_is_counted_from_equation_to_last_reader() -> None:
    text = f"""
        graph main(%0: f32[10,10], %1: f32[10,10]) {{
          %2: f32[10,10] = dot %0, %1 {MATRIX}
          %3: f32[10,10] = exp %2
          %4: f32[100] = reshape %3 {{shape=(100,)}}
          %5: f32[10,10] = dot %2, %1 {MATRIX}
          %6: f32[100] = neg %4
          return %6, %5
        }}
    """
    # At the last equation the reshape still shows the exp (400 bytes), beside neg and the second product.
    assert peak_bytes(graph_of(text)) == 1200


def network(depth: int) -> Graph:
    """Layers of a product and tanh(2y), and a backward part that reads each layer's value, the last first."""

    def body(x: Any, w: Any) -> list[Any]:
        kept = []
        for _ in range(depth):
            y = table["dot"](x, w, contract=((1,), (0,)), batch=((), ()), dtype=x.dtype)
            x = table["add"](y, table["mul"](y, y))
            kept.append((x, y))
        for x_k, y in reversed(kept):
            g = table["mul"](x, table["add"](x_k, y))
            x = table["dot"](g, w, contract=((1,), (1,)), batch=((), ()), dtype=x.dtype)
        return [x]

    t = TensorType((16, 16), tb.float32)
    return record_graph(body, [t, t])


@pytest.mark.parametrize("share", [0.9, 0.75, 0.66])
def test_the_peak_falls_to_the_budget_and_no_bit_changes(share: float) -> None:
    before = network(20)
    most = peak_bytes(before)
    counters = Counters()
    after = rematerialise(before, int(most * share), counters)
    verify(after)
    assert peak_bytes(after) <= most * share
    assert counters["values"] > 0 and counters["bytes"] > 0
    values = inputs_of(before, np.random.default_rng(0), wild=False)
    values = [v / 8 for v in values]
    assert_same_bits(run(after, values)[0], run(before, values)[0])


def test_no_product_is_computed_again() -> None:
    before = network(20)
    after = rematerialise(before, 1)
    assert sum(e.primitive.name == "dot" for e in after.equations) == 40
    assert peak_bytes(after) < peak_bytes(before)


def test_what_is_computed_again_is_not_merged_with_the_first_time() -> None:
    before = network(12)
    after = rematerialise(before, int(0.7 * peak_bytes(before)))
    assert peak_bytes(cse(after)) == peak_bytes(after) < peak_bytes(before)


def test_nothing_happens_unasked_or_within_the_budget() -> None:
    graph = network(6)
    assert rematerialise(graph) is graph
    assert rematerialise(graph, int(peak_bytes(graph))) is graph


def test_calls_into_python_are_never_made_again(capsys: Any) -> None:
    seen: list[int] = []

    def note(x: Any) -> Any:
        seen.append(1)
        return x

    def body(x: Any) -> list[Any]:
        t = TensorType(x.shape, x.dtype)
        (y,) = table["callback"](x, fn=note, results=(t,))
        kept = [table["neg"](y)]
        for _ in range(30):
            x = table["exp"](x)
        return [table["add"](x, table["mul"](kept[0], y))]

    graph = record_graph(body, [TensorType((64,), tb.float32)])
    after = rematerialise(graph, 1)
    run(after, [np.zeros(64, np.float32)])
    assert len(seen) == 1


def test_a_training_step_of_a_network_takes_less_and_stays_equal() -> None:
    nn = tb.nn
    layers = [m for _ in range(6) for m in (nn.Linear(32, 32), nn.GELU())]
    model = nn.Sequential(*layers)

    def loss(x: tb.Tensor) -> tb.Tensor:
        model.zero_grad()
        out = (model(x) ** 2).mean()
        out.backward()
        return out

    graph = tb.jit(loss, target="reference").lower(tb.ones((64, 32))).graph
    for p in PASSES:
        graph, _ = p(graph, Options())
    most = peak_bytes(graph)
    after = rematerialise(graph, int(0.6 * most))
    verify(after)
    assert peak_bytes(after) <= 0.6 * most
    values = inputs_of(graph, np.random.default_rng(0), wild=False)
    for found, expected in zip(run(after, values), run(graph, values), strict=True):
        assert_same_bits(found, expected)


def test_symbolic_sizes_count_as_large_as_they_may_be() -> None:
    text = """
        dims n: 1..8
        graph main(%0: f32[n]) {
          %1: f32[n,n] = broadcast %0 {shape=(n, n), axes=(0,)}
          %2: f32[n,n] = exp %1
          return %2
        }
    """
    graph = graph_of(text)
    assert peak_bytes(graph) == 4 * 64
    assert rematerialise(graph, 1) is graph
