"""hoist_while: what the rounds of a `while` all do alike is done once, before them."""

from __future__ import annotations

import numpy as np

import trilobite as tb
from tests.compiler.passes.texts import becomes, stays
from trilobite.compiler.graph.passes.hoist_while import hoist_while


def test_carries_that_stay_are_constants_of_test_and_body() -> None:
    before = """
        graph main(%0: f32[], %1: f32[]) {
          %2: f32[], %3: f32[] = while %0, %1 {test=^0, body=^1, consts=(0, 0)}
            ^0 graph test(%0: f32[], %1: f32[]) {
              %2: bool[] = lt %0, %1
              return %2
            }
            ^1 graph body(%0: f32[], %1: f32[]) {
              %2: f32[] = add %0, %1
              return %2, %1
            }
          return %2, %3
        }
    """
    after = """
        graph main(%0: f32[], %1: f32[]) {
          %2: f32[] = while %1, %1, %0 {test=^0, body=^1, consts=(1, 1)}
            ^0 graph test(%0: f32[], %1: f32[]) {
              %2: bool[] = lt %1, %0
              return %2
            }
            ^1 graph body(%0: f32[], %1: f32[]) {
              %2: f32[] = add %1, %0
              return %2
            }
          return %2, %1
        }
    """
    becomes(hoist_while, before, after)


def test_what_constants_give_is_computed_before_the_first_round() -> None:
    before = """
        graph main(%0: f32[3], %1: f32[], %2: f32[3]) {
          %3: f32[3] = while %1, %0, %2 {test=^0, body=^1, consts=(1, 1)}
            ^0 graph test(%0: f32[], %1: f32[3]) {
              %2: f32[] = exp %0
              %3: f32[] = reduce_max %1 {axes=(0,)}
              %4: bool[] = lt %3, %2
              return %4
            }
            ^1 graph body(%0: f32[3], %1: f32[3]) {
              %2: f32[3] = sin %0
              %3: f32[3] = add %1, %2
              return %3
            }
          return %3
        }
    """
    after = """
        graph main(%0: f32[3], %1: f32[], %2: f32[3]) {
          %3: f32[] = exp %1
          %4: f32[3] = sin %0
          %5: f32[3] = while %3, %4, %2 {test=^0, body=^1, consts=(1, 1)}
            ^0 graph test(%0: f32[], %1: f32[3]) {
              %2: f32[] = reduce_max %1 {axes=(0,)}
              %3: bool[] = lt %2, %0
              return %3
            }
            ^1 graph body(%0: f32[3], %1: f32[3]) {
              %2: f32[3] = add %1, %0
              return %2
            }
          return %5
        }
    """
    becomes(hoist_while, before, after)


def test_a_loop_in_which_all_changes_stays() -> None:
    stays(
        hoist_while,
        """
        graph main(%0: f32[], %1: f32[]) {
          %2: f32[] = while %0, %1 {test=^0, body=^1, consts=(0, 1)}
            ^0 graph test(%0: f32[]) {
              %1: bool[] = lt %0, %0
              return %1
            }
            ^1 graph body(%0: f32[], %1: f32[]) {
              %2: f32[] = add %0, %1
              return %2
            }
          return %2
        }
        """,
    )


def test_weights_of_a_loop_are_packed_when_they_change_and_not_in_every_round() -> None:
    w = tb.tensor(np.linspace(-0.1, 0.1, 96 * 96, dtype=np.float32).reshape(96, 96))

    @tb.jit
    def settle(x: tb.Tensor) -> tb.Tensor:
        return tb.while_loop(lambda v: tb.max(tb.abs(v)) > 1e-3, lambda v: tb.tanh(v @ w), x)

    text = settle.explain(tb.ones((64, 96)))
    once, every = text.split("every run:")
    assert "gemm_pack" in once
    assert "while kernel" in every and "gemm_pack" not in every
