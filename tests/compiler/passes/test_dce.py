"""dce: what nothing needs is gone, also inside control flow and across its borders."""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb
from tests.compiler.arrays import assert_same_results
from tests.compiler.passes.texts import becomes, graph_of, stays
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.rewrite import Counters
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType
from trilobite.ir.verify import verify

F2 = TensorType((2,), tb.float32)


def only(graph: Graph, *kept: int) -> Graph:
    """The graph with some of its outputs."""
    return Graph(graph.inputs, graph.equations, [graph.outputs[i] for i in kept], graph.name)


def test_unread_equations_go_and_are_counted() -> None:
    before = """
        graph main(%0: f32[3], %1: f32[3]) {
          %2: f32[3] = exp %0
          %3: f32[3] = neg %2
          %4: f32[3] = add %0, %2
          return %4
        }
    """
    after = """
        graph main(%0: f32[3], %1: f32[3]) {
          %2: f32[3] = exp %0
          %3: f32[3] = add %0, %2
          return %3
        }
    """
    becomes(dce, before, after)
    counters = Counters()
    dce(graph_of(before), counters)
    assert counters == {"neg": 1}


def test_a_graph_that_needs_everything_is_returned_as_it_is() -> None:
    stays(dce, "graph main(%0: f32[3]) {\n  %1: f32[3] = neg %0\n  return %1\n}")


def test_effects_stay_with_what_they_show() -> None:
    text = """
        graph main(%0: f32[3]) {
          %1: f32[3] = neg %0
          print %1 {fmt="{}"}
          return %0
        }
    """
    stays(dce, text)


def test_effects_inside_a_branch_keep_the_conditional(capsys: Any) -> None:
    def loud(x: Any) -> list[Any]:
        table["print"](table["neg"](x), fmt="{}")
        return [table["exp"](x)]

    quiet = record_graph(lambda x: [table["sin"](x)], [F2])
    noisy = record_graph(loud, [F2])

    def body(i: Any, x: Any) -> list[Any]:
        table["cond"](i, x, branches=(quiet, noisy))
        return [x]

    graph = record_graph(body, [TensorType((), tb.int32), F2])
    kept = dce(graph)
    verify(kept)
    assert "exp" not in str(kept) and "sin" not in str(kept)
    run(kept, [np.asarray(1, np.int32), np.float32([1, 2])])
    assert capsys.readouterr().out == "[-1. -2.]\n"


def test_results_and_operands_of_a_conditional_are_narrowed() -> None:
    first = record_graph(lambda x, y, z: [table["exp"](x), table["neg"](z)], [F2] * 3)
    second = record_graph(lambda x, y, z: [table["sin"](x), table["add"](y, z)], [F2] * 3)
    graph = record_graph(
        lambda i, *v: table["cond"](i, *v, branches=(first, second)), [TensorType((), tb.int32), *[F2] * 3]
    )
    half = only(graph, 0)
    found = dce(half)
    verify(found)
    (e,) = found.equations
    assert e.inputs == found.inputs[:2] and len(e.outputs) == 1
    assert [[b.primitive.name for b in g.equations] for g in e.attributes["branches"]] == [["exp"], ["sin"]]
    assert_same_results(half, found, np.random.default_rng(0))


def scan_graph() -> Graph:
    """Carries: a running sum, a product that reads the sum, a counter that nobody else reads."""

    def step(k: Any, total: Any, product: Any, counter: Any, x: Any, unused: Any) -> list[Any]:
        total = table["add"](total, x)
        product = table["mul"](product, total)
        return [total, product, table["add"](counter, k), table["exp"](total), table["sin"](product)]

    types = [F2] * 6
    body = record_graph(step, types, "step")
    sequence = TensorType((4, 2), tb.float32)
    attributes = {"body": body, "consts": 1, "carries": 3, "length": 4, "reverse": False}
    return record_graph(lambda *v: table["scan"](*v, **attributes), [*types[:4], sequence, sequence])


def test_carries_that_only_feed_themselves_are_not_carried() -> None:
    rng = np.random.default_rng(1)
    for kept, carries, operands in [((3,), 1, 2), ((1,), 2, 3), ((0, 1, 2), 3, 5), ((4,), 2, 3)]:
        before = only(scan_graph(), *kept)
        after = dce(before)
        verify(after)
        (e,) = after.equations
        assert e.attributes["carries"] == carries, kept
        assert len(e.inputs) == operands, kept
        assert_same_results(before, after, rng)


def test_a_loop_keeps_what_its_test_reads() -> None:
    i32 = TensorType((), tb.int32)

    def check(limit: Any, i: Any, x: Any, y: Any) -> list[Any]:
        return [table["lt"](i, limit)]

    def step(one: Any, unused: Any, i: Any, x: Any, y: Any) -> list[Any]:
        return [table["add"](i, one), table["sin"](x), table["exp"](y)]

    test = record_graph(check, [i32, i32, F2, F2], "test")
    body = record_graph(step, [i32, F2, i32, F2, F2], "body")
    graph = record_graph(
        lambda *v: table["while"](*v, test=test, body=body, consts=(1, 2)), [i32, i32, F2, i32, F2, F2]
    )
    before = only(graph, 1)
    after = dce(before)
    verify(after)
    (e,) = after.equations
    assert e.attributes["consts"] == (1, 1) and len(e.inputs) == 4 and len(e.outputs) == 2
    values = [np.asarray(3, np.int32), np.asarray(1, np.int32), np.float32([7, 7]), np.asarray(0, np.int32)]
    values += [np.float32([0.5, -2]), np.float32([1, 1])]
    assert np.array_equal(run(after, values)[0], run(before, values)[0])


def test_regions_nested_three_hundred_deep_need_no_stack() -> None:
    graph = record_graph(lambda i, x: [table["neg"](x), table["exp"](x)], [TensorType((), tb.int32), F2])
    for _ in range(300):
        graph = _wrapped(graph)
    found = dce(only(graph, 0))
    for _ in range(300):
        (e,) = found.equations
        (found,) = e.attributes["branches"]
    assert [e.primitive.name for e in found.equations] == ["neg"]


def _wrapped(graph: Graph) -> Graph:
    return record_graph(lambda i, x: table["cond"](i, i, x, branches=(graph,)), graph.input_types)


def test_an_operand_that_alone_decides_a_size_stays() -> None:
    text = """
        dims n: 1..9
        graph main(%0: i32[], %1: f32[n]) {
          %2: f32[] = cond %0, %1 {branches=(^0,)}
            ^0 graph sized(%0: f32[n]) {
              %1: f32[n] = full {shape=(n,), dtype=f32, value=2.0}
              %2: f32[] = reduce_sum %1 {axes=(0,)}
              return %2
            }
          return %2
        }
    """
    stays(dce, text)
