"""The rule machinery: patterns, numbers, one walk, regions."""

from __future__ import annotations

from typing import Any

import pytest

import trilobite as tb
from tests.compiler.passes.texts import graph_of
from trilobite.base import dtypes as dt
from trilobite.base.errors import IRError
from trilobite.compiler.graph.regions import extent, outer_first, uses
from trilobite.compiler.graph.rewrite import (
    Counters,
    Match,
    Rule,
    by_head,
    element_of,
    literal,
    parse_pattern,
    rewrite,
)
from trilobite.ir.graph import Var
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType, dim

CHAIN = """
    graph main(%0: f32[2], %1: f32[2]) {
      %2: f32[2] = full {shape=(2,), dtype=f32, value=0.0}
      %3: f32[2] = add %0, %1
      %4: f32[2] = add %3, %3
      %5: f32[2] = add %4, %2
      return %5
    }
"""


def fired(*rules: Rule) -> Counters:
    counters = Counters()
    rewrite(graph_of(CHAIN), by_head(rules), counters)
    return counters


def test_a_pattern_is_a_tree() -> None:
    tree = parse_pattern("select(not(p), x, -0.0)")
    assert tree.head == "select" and tree.inner is not None
    assert [(p.head, p.kind) for p in tree.inner] == [
        ("not", "operation"),
        ("x", "value"),
        ("-0.0", "literal"),
    ]
    with pytest.raises(IRError, match="does not end where it should"):
        parse_pattern("add(x, y) z")


def test_the_same_letter_means_the_same_value() -> None:
    assert fired(Rule("add(x, x)", "x")) == {"add(x, x) -> x": 1}
    assert fired(Rule("add(x, y)", "x")) == {"add(x, y) -> x": 3}


def test_a_literal_means_its_bits() -> None:
    assert fired(Rule("add(x, 0)", "x")) == {"add(x, 0) -> x": 1}
    assert fired(Rule("add(x, -0.0)", "x")) == {}
    assert fired(Rule("add(x, c)", "x")) == {"add(x, c) -> x": 1}


@pytest.mark.parametrize(
    ("text", "dtype", "found"),
    [
        ("-1", dt.uint8, None), ("ones", dt.uint8, 255), ("ones", dt.int8, -1), ("ones", dt.bool_, True),
        ("lowest", dt.int4, -8), ("highest", dt.uint64, 2**64 - 1), ("inf", dt.float8_e4m3fn, None),
        ("0", dt.float8_e8m0fnu, None), ("true", dt.int32, None), ("0.5", dt.int32, None),
        ("3", dt.bool_, None),
    ],
)  # fmt: skip
def test_a_dtype_has_a_literal_or_it_has_not(text: str, dtype: dt.DType, found: Any) -> None:
    element = literal(text, dtype)
    assert (None if element is None else element.item()) == found


def test_a_number_that_a_dtype_rounds_is_not_its_number() -> None:
    assert element_of(0.1, dt.float32) is None
    assert element_of(2**24 + 1, dt.float32) is None
    assert element_of(300, dt.int8) is None
    assert element_of(0.5, dt.bfloat16) is not None


def test_a_rule_for_some_dtypes_fires_for_those() -> None:
    assert fired(Rule("add(x, x)", "x", dt.INTEGERS)) == {}
    assert fired(Rule("add(x, x)", "x", dt.FLOATS)) == {"add(x, x) -> x": 1}


def test_a_rule_that_changes_the_type_is_an_error_that_names_it() -> None:
    def shorter(m: Match) -> Var:
        return m.make("reduce_sum", m["x"], axes=(0,))

    with pytest.raises(IRError) as error:
        fired(Rule("add(x, x)", shorter))
    assert str(error.value) == (
        "the rule add(x, x) -> shorter gives f32[]\n  where: ?:0 in ?\n  expected: f32[2]"
    )


def test_rules_that_chase_each_other_end() -> None:
    """Every equation may cause so many firings and no more."""
    counters = fired(Rule("add(x, y)", "add(y, x)"))
    assert counters["add(x, y) -> add(y, x)"] == 3 * 64


def test_what_a_rule_writes_is_rewritten_in_turn() -> None:
    counters = fired(Rule("add(x, x)", "mul(x, x)"), Rule("mul(x, x)", "abs(x)"), Rule("abs(x)", "exp(x)"))
    assert counters == {"add(x, x) -> mul(x, x)": 1, "mul(x, x) -> abs(x)": 1, "abs(x) -> exp(x)": 1}


def test_operations_of_many_results_are_never_replaced() -> None:
    graph = graph_of("""
        graph main(%0: f32[0]) {
          %1: f32[0], %2: i64[0] = top_k %0 {axis=0, k=0}
          return %1
        }
    """)
    assert rewrite(graph, by_head([Rule("*", lambda m: m.equation.inputs[0])]), Counters()) is graph


def test_a_region_used_twice_is_rewritten_once_and_stays_shared() -> None:
    t = TensorType((2,), tb.float32)
    leaf = record_graph(lambda x: [table["add"](x, x)], [t])
    graph = record_graph(
        lambda i, x: [*table["cond"](i, x, branches=(leaf, leaf)), *table["cond"](i, x, branches=(leaf,))],
        [TensorType((), tb.int32), t],
    )
    counters = Counters()
    after = rewrite(graph, by_head([Rule("add(x, x)", "exp(x)")]), counters)
    regions = [r for e in after.equations for r in e.attributes["branches"]]
    assert counters == {"add(x, x) -> exp(x)": 1}
    assert len({id(r) for r in regions}) == 1


def test_graphs_stand_before_what_they_contain() -> None:
    t = TensorType((2,), tb.float32)
    graph = record_graph(lambda i, x: [table["exp"](x)], [TensorType((), tb.int32), t])
    inner = graph
    for _ in range(3):
        inner = record_graph(
            lambda i, x, g=inner: table["cond"](i, i, x, branches=(g, graph)), graph.input_types
        )
    order = outer_first(inner)
    assert order[0] is inner and order[-1] is graph and len(order) == 4


def test_sizes_and_readers() -> None:
    assert extent((2, dim("n", max=7), 3)) == 42
    assert extent(()) == 1
    graph = graph_of(CHAIN)
    assert [uses(graph)[e.outputs[0]] for e in graph.equations] == [1, 2, 1, 1]
