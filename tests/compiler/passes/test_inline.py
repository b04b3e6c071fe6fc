"""inline: calls become their bodies, claimed ones stay."""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb
from tests.compiler.arrays import assert_same_results
from tests.compiler.passes.texts import becomes, graph_of, stays
from trilobite.compiler.graph.passes.inline import inline
from trilobite.compiler.graph.rewrite import Counters
from trilobite.ir.graph import Equation, Graph
from trilobite.ir.primitive import table
from trilobite.ir.text import walk
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType, dim
from trilobite.ir.verify import verify

NESTED = """
    graph main(%0: f32[3]) {
      %1: f32[3] = neg %0
      %2: f32[3], %3: f32[3] = call %1 {name="outer", graph=^0}
        ^0 graph outer(%0: f32[3]) {
          %1: f32[3] = call %0 {name="inner", graph=^0}
            ^0 graph inner(%0: f32[3]) {
              %1: f32[3] = exp %0
              return %1
            }
          %2: f32[3] = call %1 {name="inner", graph=^0}
            ^0 graph inner(%0: f32[3]) {
              %1: f32[3] = exp %0
              return %1
            }
          return %2, %0
        }
      %4: f32[3] = add %2, %3
      return %4
    }
"""


def test_nested_calls_become_one_flat_graph() -> None:
    after = """
        graph main(%0: f32[3]) {
          %1: f32[3] = neg %0
          %2: f32[3] = exp %1
          %3: f32[3] = exp %2
          %4: f32[3] = add %3, %1
          return %4
        }
    """
    becomes(inline, NESTED, after)


def test_what_is_claimed_stays_whole() -> None:
    def claims(e: Equation) -> bool:
        return bool(e.attributes["name"] == "inner")

    after = """
        graph main(%0: f32[3]) {
          %1: f32[3] = neg %0
          %2: f32[3] = call %1 {name="inner", graph=^0}
            ^0 graph inner(%0: f32[3]) {
              %1: f32[3] = exp %0
              return %1
            }
          %3: f32[3] = call %2 {name="inner", graph=^0}
            ^0 graph inner(%0: f32[3]) {
              %1: f32[3] = exp %0
              return %1
            }
          %4: f32[3] = add %3, %1
          return %4
        }
    """
    becomes(lambda g: inline(g, claims), NESTED, after)


def test_a_graph_without_calls_is_returned_as_it_is() -> None:
    stays(inline, "graph main(%0: f32[3]) {\n  %1: f32[3] = neg %0\n  return %1\n}")


def test_calls_are_counted_by_name() -> None:
    counters = Counters()
    inline(graph_of(NESTED), counters=counters)
    # The body of `inner` is flattened into `outer` once, for each of the two equations.
    assert counters == {"call outer": 1, "call inner": 2}


def test_a_call_that_fixes_symbolic_sizes_has_them_as_numbers_afterwards() -> None:
    n = dim("n", max=9)
    inner = record_graph(lambda x: [table["reduce_sum"](x, axes=(0,))], [TensorType((n, 2), tb.float32)])

    def body(x: Any) -> list[Any]:
        big = table["full"](shape=(n, 2), dtype=tb.float32, value=3.0)
        index = np.asarray(1, np.int32)
        (y,) = table["cond"](index, x, branches=(inner, inner))
        return [table["add"](x, big), y]

    symbolic = record_graph(body, [TensorType((n, 2), tb.float32)], "symbolic")
    outer = record_graph(
        lambda x: table["call"](x, graph=symbolic, name="symbolic"), [TensorType((5, 2), tb.float32)]
    )
    flat = inline(outer)
    verify(flat)
    assert not any(g.symbols for g in walk(flat))
    assert "f32[5,2] = full {shape=(5, 2)" in str(flat)
    assert_same_results(outer, flat, np.random.default_rng(0))


def test_calls_inside_control_flow_and_control_flow_inside_calls() -> None:
    leaf = record_graph(lambda x: [table["exp"](x)], [TensorType((2,), tb.float32)], "leaf")

    def step(c: Any, x: Any) -> list[Any]:
        (y,) = table["call"](table["add"](c, x), graph=leaf, name="leaf")
        return [y, y]

    types = [TensorType((2,), tb.float32)] * 2
    body = record_graph(step, types, "step")

    def looped(c: Any, xs: Any) -> list[Any]:
        return list(table["scan"](c, xs, body=body, consts=0, carries=1, length=4, reverse=False))

    loop = record_graph(looped, [types[0], TensorType((4, 2), tb.float32)], "loop")
    outer = record_graph(lambda *v: table["call"](*v, graph=loop, name="loop"), loop.input_types)
    flat = inline(outer)
    verify(flat)
    assert all(e.primitive.name != "call" for g in walk(flat) for e in g.equations)
    assert_same_results(outer, flat, np.random.default_rng(1))


def test_bodies_nested_three_hundred_deep_need_no_stack() -> None:
    graph = record_graph(lambda x: [table["neg"](x)], [TensorType((), tb.float32)])
    for _ in range(300):
        graph = _wrapped(graph)
    assert [e.primitive.name for e in inline(graph).equations] == ["neg"]


def _wrapped(graph: Graph) -> Graph:
    return record_graph(lambda x: table["call"](x, graph=graph, name="deeper"), graph.input_types)


def test_the_lines_of_a_shared_composite_are_those_of_its_callers() -> None:
    def two(x: tb.Tensor) -> tb.Tensor:
        y = tb.softmax(x, axis=0)
        return tb.softmax(y + 1, axis=0)

    graph = tb.jit(two, target="reference").lower(tb.tensor([1.0, 2.0])).graph
    lines = [e.location.line for e in inline(graph).equations]
    first = two.__code__.co_firstlineno
    assert sorted(set(lines)) == [first + 1, first + 2]
    assert lines == sorted(lines)


def test_what_a_checkpoint_computes_again_stays_behind_its_barrier() -> None:
    block = tb.checkpoint(lambda x: tb.exp(tb.sin(x)))
    fn = tb.jit(tb.grad(lambda x: block(x).sum()), target="reference")
    flat = inline(fn.lower(tb.tensor([0.5, 1.5])).graph)
    names = [e.primitive.name for e in flat.equations]
    assert names.count("barrier") == 1
    assert names.count("sin") == 2
