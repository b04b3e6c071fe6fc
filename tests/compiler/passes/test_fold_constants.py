"""fold_constants: computed now what depends on constants alone, within a cap."""

from __future__ import annotations

from functools import partial

from tests.compiler.passes.texts import becomes, graph_of, stays
from trilobite.compiler.graph.passes.fold_constants import fold_constants
from trilobite.compiler.graph.rewrite import Counters

BEFORE = """
    graph main(%0: f32[3]) {
      %1: f32[3] = constant {value=dense(f32[3], 1.0, 2.0, nan)}
      %2: f32[3] = full {shape=(3,), dtype=f32, value=-0.0}
      %3: f32[3] = add %1, %2
      %4: f32[3] = mul %3, %3
      %5: f32[3] = add %0, %4
      return %5
    }
"""


def test_equations_over_constants_are_constants() -> None:
    after = """
        graph main(%0: f32[3]) {
          %1: f32[3] = constant {value=dense(f32[3], 1.0, 4.0, nan)}
          %2: f32[3] = add %0, %1
          return %2
        }
    """
    becomes(fold_constants, BEFORE, after)
    counters = Counters()
    fold_constants(graph_of(BEFORE), counters)
    assert counters == {"add": 1, "mul": 1}


def test_what_comes_out_as_one_number_is_one_number() -> None:
    before = """
        graph main() {
          %0: i32[4] = iota {shape=(4,), dtype=i32, axis=0}
          %1: i32[4] = sub %0, %0
          return %1
        }
    """
    after = """
        graph main() {
          %0: i32[4] = full {shape=(4,), dtype=i32, value=0}
          return %0
        }
    """
    becomes(fold_constants, before, after)


def test_a_result_above_the_cap_stays_computed() -> None:
    text = """
        graph main() {
          %0: f32[3] = constant {value=dense(f32[3], 1.0, 2.0, 3.0)}
          %1: f32[9,3] = broadcast %0 {shape=(9, 3), axes=(1,)}
          return %1
        }
    """
    stays(partial(fold_constants, cap=100), text)
    assert fold_constants(graph_of(text), cap=108).equations[-1].primitive.name == "constant"


def test_a_large_number_reduced_is_small() -> None:
    before = """
        graph main() {
          %0: i32[90000] = full {shape=(90000,), dtype=i32, value=2}
          %1: i32[] = reduce_sum %0 {axes=(0,)}
          return %1
        }
    """
    after = """
        graph main() {
          %0: i32[] = full {shape=(), dtype=i32, value=180000}
          return %0
        }
    """
    becomes(fold_constants, before, after)


def test_a_conditional_with_a_known_index_is_its_branch() -> None:
    before = """
        graph main(%0: f32[2]) {
          %1: i32[] = constant {value=dense(i32[], 7)}
          %2: f32[2] = cond %1, %0 {branches=(^0, ^1)}
            ^0 graph a(%0: f32[2]) {
              %1: f32[2] = exp %0
              return %1
            }
            ^1 graph b(%0: f32[2]) {
              %1: f32[2] = full {shape=(2,), dtype=f32, value=2.0}
              %2: f32[2] = mul %1, %1
              %3: f32[2] = sub %0, %2
              return %3
            }
          return %2
        }
    """
    after = """
        graph main(%0: f32[2]) {
          %1: f32[2] = full {shape=(2,), dtype=f32, value=4.0}
          %2: f32[2] = sub %0, %1
          return %2
        }
    """
    becomes(fold_constants, before, after)


def test_barriers_effects_and_symbolic_sizes_stay() -> None:
    stays(
        fold_constants,
        """
        dims n: 1..9
        graph main(%0: f32[n]) {
          %1: f32[2] = constant {value=dense(f32[2], 1.0, 2.0)}
          %2: f32[2] = barrier %1
          print %1 {fmt="{}"}
          %3: f32[n] = full {shape=(n,), dtype=f32, value=1.0}
          %4: f32[n] = exp %3
          return %2, %4
        }
        """,
    )


def test_what_may_refuse_its_operand_is_left_to_the_run() -> None:
    stays(
        fold_constants,
        """
        graph main() {
          %0: f32[1,1] = full {shape=(1, 1), dtype=f32, value=-1.0}
          %1: f32[1,1] = cholesky %0
          return %1
        }
        """,
    )
