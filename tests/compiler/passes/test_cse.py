"""cse: common subexpressions are computed once, except behind barriers."""

from __future__ import annotations

import numpy as np

import trilobite as tb
from tests.compiler.passes.texts import becomes, graph_of, stays
from trilobite.compiler.graph.passes.cse import cse
from trilobite.compiler.graph.passes.inline import inline
from trilobite.compiler.graph.rewrite import Counters


def test_equal_equations_become_one_whatever_the_order_of_a_sum() -> None:
    before = """
        graph main(%0: f32[3], %1: f32[3]) {
          %2: f32[3] = add %0, %1
          %3: f32[3] = add %1, %0
          %4: f32[3] = exp %2
          %5: f32[3] = exp %3
          %6: f32[3] = sub %4, %0
          %7: f32[3] = sub %0, %5
          return %6, %7
        }
    """
    after = """
        graph main(%0: f32[3], %1: f32[3]) {
          %2: f32[3] = add %0, %1
          %3: f32[3] = exp %2
          %4: f32[3] = sub %3, %0
          %5: f32[3] = sub %0, %3
          return %4, %5
        }
    """
    becomes(cse, before, after)
    counters = Counters()
    cse(graph_of(before), counters)
    assert counters == {"add": 1, "exp": 1}


def test_operands_of_maximum_are_not_exchanged() -> None:
    """Of 0.0 and -0.0, which are equal, maximum gives the second."""
    stays(
        cse,
        """
        graph main(%0: f32[3], %1: f32[3]) {
          %2: f32[3] = maximum %0, %1
          %3: f32[3] = maximum %1, %0
          return %2, %3
        }
        """,
    )


def test_both_zeros_and_numbers_of_other_kinds_are_apart() -> None:
    stays(
        cse,
        """
        graph main() {
          %0: f32[2] = full {shape=(2,), dtype=f32, value=0.0}
          %1: f32[2] = full {shape=(2,), dtype=f32, value=-0.0}
          %2: f64[2] = full {shape=(2,), dtype=f64, value=0.0}
          return %0, %1, %2
        }
        """,
    )


def test_barriers_effects_and_what_follows_them_are_apart() -> None:
    stays(
        cse,
        """
        graph main(%0: f32[3]) {
          %1: f32[3] = barrier %0
          %2: f32[3] = barrier %0
          %3: f32[3] = exp %1
          %4: f32[3] = exp %2
          print %3 {fmt="{}"}
          print %3 {fmt="{}"}
          return %3, %4
        }
        """,
    )


def test_equal_random_bits_are_one() -> None:
    before = """
        graph main(%0: u32[2], %1: u32[2]) {
          %2: u32[5] = random_bits %0, %1 {shape=(5,), stream=0}
          %3: u32[5] = random_bits %0, %1 {shape=(5,), stream=0}
          %4: u32[5] = random_bits %0, %1 {shape=(5,), stream=1}
          return %2, %3, %4
        }
    """
    after = """
        graph main(%0: u32[2], %1: u32[2]) {
          %2: u32[5] = random_bits %0, %1 {shape=(5,), stream=0}
          %3: u32[5] = random_bits %0, %1 {shape=(5,), stream=1}
          return %2, %2, %3
        }
    """
    becomes(cse, before, after)


def test_inside_regions_and_equal_conditionals() -> None:
    branches = """
            ^0 graph a(%0: f32[2]) {{
              %1: f32[2] = exp %0
              {0}
              return {1}
            }}
            ^1 graph b(%0: f32[2]) {{
              return %0, %0
            }}
    """
    before = f"""
        graph main(%0: i32[], %1: f32[2]) {{
          %2: f32[2], %3: f32[2] = cond %0, %1 {{branches=(^0, ^1)}}
            {branches.format("%2: f32[2] = exp %0", "%1, %2")}
          %4: f32[2], %5: f32[2] = cond %0, %1 {{branches=(^0, ^1)}}
            {branches.format("%2: f32[2] = exp %0", "%1, %2")}
          return %2, %5
        }}
    """
    after = f"""
        graph main(%0: i32[], %1: f32[2]) {{
          %2: f32[2], %3: f32[2] = cond %0, %1 {{branches=(^0, ^1)}}
            {branches.format("", "%1, %1")}
          return %2, %3
        }}
    """
    becomes(cse, before, after)


def test_what_a_checkpoint_computes_again_is_not_merged_with_the_first_time() -> None:
    block = tb.checkpoint(lambda x: tb.exp(tb.sin(x)))
    graph = tb.jit(tb.grad(lambda x: block(x).sum()), target="reference").lower(tb.tensor([0.5, 1.5])).graph
    names = [e.primitive.name for e in cse(inline(graph)).equations]
    assert names.count("sin") == 2


def test_the_earlier_line_is_kept() -> None:
    def fn(x: tb.Tensor) -> tb.Tensor:
        y = tb.exp(x)
        return y + tb.exp(x)

    graph = cse(tb.jit(fn, target="reference").lower(tb.tensor(np.float32([1.0]))).graph)
    first = fn.__code__.co_firstlineno
    assert [(e.primitive.name, e.location.line) for e in graph.equations] == [
        ("exp", first + 1),
        ("add", first + 2),
    ]
