"""merge_branches: small products of one value with several stable weights become one."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.arrays import assert_close, inputs_of
from tests.compiler.passes.texts import graph_of
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.passes.merge_branches import merge_branches
from trilobite.compiler.graph.passes.simplify import simplify
from trilobite.compiler.graph.rewrite import Counters
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.verify import verify

ROWS = "{contract=((1,), (0,)), batch=((), ()), dtype=f32}"
BEFORE = f"""
    graph main(%0: f32[1,8], %1: f32[8,4], %2: f32[8,3], %3: f32[8,4]) {{
      %4: f32[1,4] = dot %0, %1 {ROWS}
      %5: f32[1,4] = tanh %4
      %6: f32[1,3] = dot %0, %2 {ROWS}
      %7: f32[1,4] = dot %0, %3 {ROWS}
      return %5, %6, %7
    }}
"""
AFTER = f"""
    graph main(%0: f32[1,8], %1: f32[8,4], %2: f32[8,3], %3: f32[8,4]) {{
      %4: f32[8,11] = concatenate %1, %2, %3 {{axis=1}}
      %5: f32[1,11] = dot %0, %4 {ROWS}
      %6: f32[1,4] = slice %5 {{start=(0, 0), stop=(1, 4), step=(1, 1)}}
      %7: f32[1,3] = slice %5 {{start=(0, 4), stop=(1, 7), step=(1, 1)}}
      %8: f32[1,4] = slice %5 {{start=(0, 7), stop=(1, 11), step=(1, 1)}}
      %9: f32[1,4] = tanh %6
      return %9, %7, %8
    }}
"""


def equal(before: Graph, after: Graph) -> None:
    verify(after)
    values = inputs_of(before, np.random.default_rng(2), wild=False)
    for found, expected in zip(run(after, values), run(before, values), strict=True):
        assert_close(found, expected, ulps=64)


def test_three_products_of_one_row() -> None:
    counters = Counters()
    found = merge_branches(graph_of(BEFORE), {1, 2, 3}, counters)
    assert found == graph_of(AFTER), str(found)
    assert counters == {"dot": 3}
    equal(graph_of(BEFORE), found)


@pytest.mark.parametrize("stable", [(), (1,), (0,)])
def test_weights_that_change_stay_apart(stable: tuple[int, ...]) -> None:
    graph = graph_of(BEFORE)
    assert merge_branches(graph, stable) is graph


def test_large_results_stay_apart() -> None:
    graph = graph_of(BEFORE)
    assert merge_branches(graph, {1, 2, 3}, largest=43) is graph
    assert merge_branches(graph, {1, 2, 3}, largest=44) is not graph


def test_weights_that_come_later_stay_apart() -> None:
    text = f"""
        graph main(%0: f32[1,8], %1: f32[8,4], %2: f32[8,3]) {{
          %3: f32[1,4] = dot %0, %1 {ROWS}
          %4: f32[8,3] = exp %2
          %5: f32[1,3] = dot %0, %4 {ROWS}
          return %3, %5
        }}
    """
    graph = graph_of(text)
    assert merge_branches(graph, {1, 2}) is graph


def test_convolutions_of_one_kernel_size() -> None:
    window = "{groups=1, dtype=f32, stride=(1,), low=(0,), high=(0,), w_dilation=(1,), x_dilation=(1,)}"
    before = graph_of(f"""
        graph main(%0: f32[2,3,5], %1: f32[4,3,2], %2: f32[2,3,2], %3: f32[2,3,3]) {{
          %4: f32[2,4,4] = conv %0, %1 {window}
          %5: f32[2,2,4] = conv %0, %2 {window}
          %6: f32[2,2,3] = conv %0, %3 {window}
          return %4, %5, %6
        }}
    """)
    after = merge_branches(before, {1, 2, 3})
    assert sum(e.primitive.name == "conv" for e in after.equations) == 2
    equal(before, after)


def test_one_token_of_attention_has_one_product_for_query_key_and_value() -> None:
    q, k, v = (tb.nn.Linear(16, 16) for _ in range(3))
    fn = tb.jit(lambda x: (q(x), k(x), v(x)), target="reference")
    before = fn.lower(tb.ones((1, 16))).graph
    after = dce(merge_branches(dce(simplify(before)), set(range(1, len(before.inputs)))))
    names = [e.primitive.name for e in after.equations if e.primitive.name != "reshape"]
    # One product with one bias; the biases are put together where they first stand.
    assert names == ["concatenate", "dot", "concatenate", "broadcast", "add", "slice", "slice", "slice"]
    equal(before, after)


def test_a_bias_that_others_do_not_have_stays_behind_the_slice() -> None:
    before = graph_of(f"""
        graph main(%0: f32[1,8], %1: f32[8,4], %2: f32[8,3], %3: f32[4]) {{
          %4: f32[1,4] = dot %0, %1 {ROWS}
          %5: f32[1,4] = broadcast %3 {{shape=(1, 4), axes=(1,)}}
          %6: f32[1,4] = add %4, %5
          %7: f32[1,3] = dot %0, %2 {ROWS}
          return %6, %7
        }}
    """)
    after = merge_branches(before, {1, 2, 3})
    names = [e.primitive.name for e in after.equations]
    assert names == ["concatenate", "dot", "slice", "slice", "broadcast", "add"]
    equal(before, after)


def test_a_bias_of_one_number_for_all_channels_is_no_vector_of_channels() -> None:
    """Put together with others it would have one entry where a product has several."""
    before = graph_of(f"""
        graph main(%0: f32[1,8], %1: f32[8,4], %2: f32[8,3], %3: f32[1], %4: f32[3]) {{
          %5: f32[1,4] = dot %0, %1 {ROWS}
          %6: f32[1,4] = broadcast %3 {{shape=(1, 4), axes=(1,)}}
          %7: f32[1,4] = add %5, %6
          %8: f32[1,3] = dot %0, %2 {ROWS}
          %9: f32[1,3] = broadcast %4 {{shape=(1, 3), axes=(1,)}}
          %10: f32[1,3] = add %8, %9
          return %7, %10
        }}
    """)
    equal(before, merge_branches(before, {1, 2, 3, 4}))
