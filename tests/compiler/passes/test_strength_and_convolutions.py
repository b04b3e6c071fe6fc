"""reduce_strength and linear_to_conv."""

from __future__ import annotations

import pytest

from tests.compiler.passes.test_rules import fires
from tests.compiler.passes.texts import becomes, graph_of
from trilobite.compiler.graph.passes.linear_to_conv import linear_to_conv
from trilobite.compiler.graph.passes.reduce_strength import RULES, reduce_strength
from trilobite.compiler.graph.rewrite import Rule
from trilobite.ir.graph import Graph


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_a_cheap_operation_has_the_bits_of_the_dear_one(rule: Rule) -> None:
    assert set(fires(rule)) == {d.name for d in rule.on}


def test_powers_of_two_become_shifts_and_masks() -> None:
    before = """
        graph main(%0: i32[5]) {
          %1: i32[5] = full {shape=(5,), dtype=i32, value=8}
          %2: i32[5] = mul %0, %1
          %3: i32[5] = floor_div %0, %1
          %4: i32[5] = rem %0, %1
          return %2, %3, %4
        }
    """
    after = """
        graph main(%0: i32[5]) {
          %1: i32[5] = full {shape=(5,), dtype=i32, value=3}
          %2: i32[5] = shift_left %0, %1
          %3: i32[5] = full {shape=(5,), dtype=i32, value=3}
          %4: i32[5] = shift_right %0, %3
          %5: i32[5] = full {shape=(5,), dtype=i32, value=7}
          %6: i32[5] = and %0, %5
          return %2, %4, %6
        }
    """
    becomes(reduce_strength, before, after)


@pytest.mark.parametrize("value", [0, 1, -8, 6, -(2**31)])
def test_other_numbers_stay(value: int) -> None:
    text = f"""
        graph main(%0: i32[5]) {{
          %1: i32[5] = full {{shape=(5,), dtype=i32, value={value}}}
          %2: i32[5] = mul %0, %1
          return %2
        }}
    """
    graph = graph_of(text)
    assert reduce_strength(graph) is graph


ONE = "{stride=(1, 1), low=(0, 0), high=(0, 0), x_dilation=(1, 1), w_dilation=(1, 1), groups=1, dtype=f64}"


def linear(contract: int, turn: str = "(0, 3, 1, 2)", shape: str = "f64[2,6,4,5]") -> str:
    w = "f64[3,6]" if contract == 0 else "f64[6,3]"
    return f"""
        graph main(%0: f64[2,3,4,5], %1: {w}) {{
          %2: f64[2,4,5,6] = dot %0, %1 {{contract=((1,), ({contract},)), batch=((), ()), dtype=f64}}
          %3: {shape} = transpose %2 {{axes={turn}}}
          return %3
        }}
    """


def test_a_linear_layer_between_moves_of_channels_is_a_convolution() -> None:
    after = f"""
        graph main(%0: f64[2,3,4,5], %1: f64[6,3]) {{
          %2: f64[6,3,1,1] = reshape %1 {{shape=(6, 3, 1, 1)}}
          %3: f64[2,6,4,5] = conv %0, %2 {ONE}
          return %3
        }}
    """
    becomes(linear_to_conv, linear(1), after, exact=False)
    after = f"""
        graph main(%0: f64[2,3,4,5], %1: f64[3,6]) {{
          %2: f64[6,3] = transpose %1 {{axes=(1, 0)}}
          %3: f64[6,3,1,1] = reshape %2 {{shape=(6, 3, 1, 1)}}
          %4: f64[2,6,4,5] = conv %0, %3 {ONE}
          return %4
        }}
    """
    becomes(linear_to_conv, linear(0), after, exact=False)


def test_channels_that_stay_last_and_products_read_twice_stay() -> None:
    other = graph_of(linear(1, "(0, 3, 2, 1)", "f64[2,6,5,4]"))
    assert linear_to_conv(other) is other
    graph = graph_of(linear(1))
    both = Graph(graph.inputs, graph.equations, [*graph.outputs, graph.equations[0].outputs[0]])
    assert linear_to_conv(both) is both
