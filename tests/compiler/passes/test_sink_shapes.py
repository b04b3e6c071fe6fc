"""sink_shapes: work on the small shape; reshapes and transposes meet, cancel, or vanish in products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.arrays import assert_close, inputs_of
from tests.compiler.passes.texts import becomes, stays
from trilobite.compiler.graph.passes.cse import cse
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.passes.inline import inline
from trilobite.compiler.graph.passes.simplify import simplify
from trilobite.compiler.graph.passes.sink_shapes import SINKING, TRANSPOSED_PRODUCTS, kept_axes, sink_shapes
from trilobite.compiler.graph.rewrite import Counters
from trilobite.ir.evaluate import run
from trilobite.ir.types import dim

# (rule, exact), inputs, lines before, lines after; the last value is the result.
PAIRS: list[tuple[str, bool, str, str, str]] = [
    ("* -> on_small_shape", True, "%0: f32[4], %1: f32[4]",
     "%2: f32[2,4,3] = broadcast %0 {shape=(2, 4, 3), axes=(1,)}\n"
     "%3: f32[2,4,3] = broadcast %1 {shape=(2, 4, 3), axes=(1,)}\n%4: f32[2,4,3] = mul %2, %3",
     "%2: f32[4] = mul %0, %1\n%3: f32[2,4,3] = broadcast %2 {shape=(2, 4, 3), axes=(1,)}"),
    ("* -> on_small_shape", True, "%0: f32[4], %1: f32[4,3]",
     "%2: f32[2,4,3] = broadcast %0 {shape=(2, 4, 3), axes=(1,)}\n"
     "%3: f32[2,4,3] = broadcast %1 {shape=(2, 4, 3), axes=(1, 2)}\n%4: f32[2,4,3] = sub %2, %3",
     "%2: f32[4,3] = broadcast %0 {shape=(4, 3), axes=(0,)}\n%3: f32[4,3] = sub %2, %1\n"
     "%4: f32[2,4,3] = broadcast %3 {shape=(2, 4, 3), axes=(1, 2)}"),
    ("* -> on_small_shape", True, "%0: f32[4]",
     "%1: f32[2,4] = broadcast %0 {shape=(2, 4), axes=(1,)}\n"
     "%2: f32[2,4] = full {shape=(2, 4), dtype=f32, value=3.0}\n%3: bool[2,4] = gt %1, %2",
     "%1: f32[4] = full {shape=(4,), dtype=f32, value=3.0}\n%2: bool[4] = gt %0, %1\n"
     "%3: bool[2,4] = broadcast %2 {shape=(2, 4), axes=(1,)}"),
    ("* -> reshape_below", True, "%0: f32[2,6]",
     "%1: f32[3,4] = reshape %0 {shape=(3, 4)}\n%2: f32[3,4] = neg %1\n"
     "%3: f32[12] = reshape %2 {shape=(12,)}",
     "%1: f32[2,6] = neg %0\n%2: f32[12] = reshape %1 {shape=(12,)}"),
    ("* -> reshape_below", True, "%0: f32[6,5], %1: f32[5]",
     "%2: f32[2,3,5] = reshape %0 {shape=(2, 3, 5)}\n"
     "%3: f32[2,3,5] = broadcast %1 {shape=(2, 3, 5), axes=(2,)}\n%4: f32[2,3,5] = add %2, %3",
     "%2: f32[6,5] = broadcast %1 {shape=(6, 5), axes=(1,)}\n%3: f32[6,5] = add %0, %2\n"
     "%4: f32[2,3,5] = reshape %3 {shape=(2, 3, 5)}"),
    ("* -> transpose_below", True, "%0: f32[2,3], %1: f32[2,3], %2: f32[3]",
     "%3: f32[3,2] = transpose %0 {axes=(1, 0)}\n%4: f32[3,2] = transpose %1 {axes=(1, 0)}\n"
     "%5: f32[3,2] = sub %3, %4\n%6: f32[3,2] = broadcast %2 {shape=(3, 2), axes=(0,)}\n"
     "%7: f32[3,2] = mul %5, %6\n%8: f32[2,3] = transpose %7 {axes=(1, 0)}",
     "%3: f32[2,3] = sub %0, %1\n%4: f32[2,3] = broadcast %2 {shape=(2, 3), axes=(1,)}\n"
     "%5: f32[2,3] = mul %3, %4"),
    ("transpose(broadcast(x)) -> transpose_repeated", True, "%0: f32[2,3]",
     "%1: f32[2,4,3] = broadcast %0 {shape=(2, 4, 3), axes=(0, 2)}\n"
     "%2: f32[3,2,4] = transpose %1 {axes=(2, 0, 1)}",
     "%1: f32[3,2] = transpose %0 {axes=(1, 0)}\n"
     "%2: f32[3,2,4] = broadcast %1 {shape=(3, 2, 4), axes=(0, 1)}"),
    ("reshape(broadcast(x)) -> reshape_repeated", True, "%0: f32[5]",
     "%1: f32[2,3,5] = broadcast %0 {shape=(2, 3, 5), axes=(2,)}\n%2: f32[6,5] = reshape %1 {shape=(6, 5)}",
     "%1: f32[6,5] = broadcast %0 {shape=(6, 5), axes=(1,)}"),
    ("transpose(reshape(x)) -> transpose_slice", True, "%0: f32[2,5,3,4,6]",  # one of three, by heads
     "%1: f32[2,5,1,4,6] = slice %0 {start=(0, 0, 1, 0, 0), stop=(2, 5, 2, 4, 6), step=(1, 1, 1, 1, 1)}\n"
     "%2: f32[2,5,4,6] = reshape %1 {shape=(2, 5, 4, 6)}\n"
     "%3: f32[2,4,5,6] = transpose %2 {axes=(0, 2, 1, 3)}",
     "%1: f32[2,5,1,4,6] = slice %0 {start=(0, 0, 1, 0, 0), stop=(2, 5, 2, 4, 6), step=(1, 1, 1, 1, 1)}\n"
     "%2: f32[1,2,4,5,6] = transpose %1 {axes=(2, 0, 3, 1, 4)}\n"
     "%3: f32[2,4,5,6] = reshape %2 {shape=(2, 4, 5, 6)}"),
    ("reduce_sum(transpose(x)) -> reduce_transposed", True, "%0: i32[2,3,4]",
     "%1: i32[4,3,2] = transpose %0 {axes=(2, 1, 0)}\n%2: i32[4,2] = reduce_sum %1 {axes=(1,)}",
     "%1: i32[2,4] = reduce_sum %0 {axes=(1,)}\n%2: i32[4,2] = transpose %1 {axes=(1, 0)}"),
    ("reduce_sum(transpose(x)) -> reduce_transposed", False, "%0: f64[2,3]",
     "%1: f64[3,2] = transpose %0 {axes=(1, 0)}\n%2: f64[3] = reduce_sum %1 {axes=(1,)}",
     "%1: f64[3] = reduce_sum %0 {axes=(0,)}"),
    *((f"{name}(transpose(x)) -> reduce_transposed", True, "%0: i32[2,3]",
       f"%1: i32[3,2] = transpose %0 {{axes=(1, 0)}}\n%2: i32[3] = {name} %1 {{axes=(1,)}}",
       f"%1: i32[3] = {name} %0 {{axes=(0,)}}")
      for name in ("reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or")),
    ("dot(x, y) -> read_transposed", True, "%0: f32[4,2], %1: f32[3,4]",
     "%2: f32[2,4] = transpose %0 {axes=(1, 0)}\n%3: f32[4,3] = transpose %1 {axes=(1, 0)}\n"
     "%4: f32[2,3] = dot %2, %3 {contract=((1,), (0,)), batch=((), ()), dtype=f32}",
     "%2: f32[2,3] = dot %0, %1 {contract=((0,), (1,)), batch=((), ()), dtype=f32}"),
    ("dot(x, y) -> read_transposed", True, "%0: f32[2,5,3,4], %1: f32[2,3,6,4]",  # heads of an attention
     "%2: f32[2,3,5,4] = transpose %0 {axes=(0, 2, 1, 3)}\n"
     "%3: f32[2,3,4,6] = transpose %1 {axes=(0, 1, 3, 2)}\n"
     "%4: f32[2,3,5,6] = dot %2, %3 {contract=((3,), (2,)), batch=((0, 1), (0, 1)), dtype=f32}",
     "%2: f32[2,3,5,6] = dot %0, %1 {contract=((3,), (3,)), batch=((0, 2), (0, 1)), dtype=f32}"),
    ("dot(x, y) -> read_repeated", False, "%0: f64[2,3,4], %1: f64[4,5]",
     "%2: f64[2,4,5] = broadcast %1 {shape=(2, 4, 5), axes=(1, 2)}\n"
     "%3: f64[2,3,5] = dot %0, %2 {contract=((2,), (1,)), batch=((0,), (0,)), dtype=f64}",
     "%2: f64[2,3,5] = dot %0, %1 {contract=((2,), (0,)), batch=((), ()), dtype=f64}"),
    ("transpose(dot(x, y)) -> give_transposed", False, "%0: f64[7,4], %1: f64[7,5]",
     "%2: f64[4,5] = dot %0, %1 {contract=((0,), (0,)), batch=((), ()), dtype=f64}\n"
     "%3: f64[5,4] = transpose %2 {axes=(1, 0)}",
     "%2: f64[5,4] = dot %1, %0 {contract=((0,), (0,)), batch=((), ()), dtype=f64}"),
    ("transpose(dot(x, y)) -> give_transposed", False, "%0: f64[2,3,4,6], %1: f64[2,3,6]",
     "%2: f64[2,3,4] = dot %0, %1 {contract=((3,), (2,)), batch=((0, 1), (0, 1)), dtype=f64}\n"
     "%3: f64[3,2,4] = transpose %2 {axes=(1, 0, 2)}",
     "%2: f64[3,2,4] = dot %0, %1 {contract=((3,), (2,)), batch=((1, 0), (1, 0)), dtype=f64}"),
]  # fmt: skip


def text(inputs: str, lines: str) -> str:
    result = lines.splitlines()[-1].split(":")[0]
    return f"graph main({inputs}) {{\n{lines}\nreturn {result}\n}}"


@pytest.mark.parametrize(("rule", "exact", "inputs", "before", "after"), PAIRS, ids=[p[0] for p in PAIRS])
def test_before_and_after(rule: str, exact: bool, inputs: str, before: str, after: str) -> None:
    counters = Counters()
    becomes(lambda g: sink_shapes(g, counters), text(inputs, before), text(inputs, after), exact)
    assert counters[rule] >= 1


def test_every_rule_has_a_pair() -> None:
    assert {r.name for r in (*SINKING, *TRANSPOSED_PRODUCTS)} <= {p[0] for p in PAIRS}


KEPT = [
    # rows would be turned, which a product can read as they are
    "%0: f32[5,3,4]\n%1: f32[5,1,4] = slice %0 {start=(0, 1, 0), stop=(5, 2, 4), step=(1, 1, 1)}\n"
    "%2: f32[5,4] = reshape %1 {shape=(5, 4)}\n%3: f32[4,5] = transpose %2 {axes=(1, 0)}",
    # the union of what varies is everything: nothing to gain
    "%0: f32[4], %1: f32[3]\n%2: f32[4,3] = broadcast %0 {shape=(4, 3), axes=(0,)}\n"
    "%3: f32[4,3] = broadcast %1 {shape=(4, 3), axes=(1,)}\n%4: f32[4,3] = mul %2, %3",
    # the reshape splits the axis along which the other operand varies
    "%0: f32[6], %1: f32[3]\n%2: f32[2,3] = reshape %0 {shape=(2, 3)}\n"
    "%3: f32[2,3] = broadcast %1 {shape=(2, 3), axes=(1,)}\n%4: f32[2,3] = add %2, %3",
    # transposes that differ
    "%0: f32[2,2,2], %1: f32[2,2,2]\n%2: f32[2,2,2] = transpose %0 {axes=(1, 0, 2)}\n"
    "%3: f32[2,2,2] = transpose %1 {axes=(0, 2, 1)}\n%4: f32[2,2,2] = add %2, %3",
    # free axes in another order: the result would be transposed
    "%0: f32[2,3,4], %1: f32[4,5]\n%2: f32[3,2,4] = transpose %0 {axes=(1, 0, 2)}\n"
    "%3: f32[3,2,5] = dot %2, %1 {contract=((2,), (0,)), batch=((), ()), dtype=f32}",
]


@pytest.mark.parametrize("lines", KEPT)
def test_what_gains_nothing_stays(lines: str) -> None:
    inputs, rest = lines.split("\n", 1)
    stays(sink_shapes, text(inputs, rest))


def test_a_product_that_others_read_too_is_not_computed_twice() -> None:
    stays(
        sink_shapes,
        """
        graph main(%0: f32[7,4], %1: f32[7,5]) {
          %2: f32[4,5] = dot %0, %1 {contract=((0,), (0,)), batch=((), ()), dtype=f32}
          %3: f32[5,4] = transpose %2 {axes=(1, 0)}
          return %3, %2
        }
        """,
    )


def test_axes_that_a_reshape_keeps() -> None:
    n = dim("n", max=7)
    assert kept_axes((2, 3, 4), (6, 4)) == [None, 2]
    assert kept_axes((6, 4), (2, 3, 4)) == [None, None, 1]
    assert kept_axes((4,), (1, 4, 1, 1)) == [None, 0, None, None]
    assert kept_axes((1, 4, 1), (4,)) == [1]
    assert kept_axes((n, 3, 4), (n, 12)) == [0, None]
    assert kept_axes((n, 6), (n, 2, 3)) == [0, None, None]
    assert kept_axes((4, 6, 5), (8, 3, 5)) == [None, None, 2]
    assert kept_axes((), ()) == []


def test_symbolic_sizes_sink_too() -> None:
    before = """
        dims n: 1..9
        graph main(%0: f32[4], %1: f32[n,4]) {
          %2: f32[n,4] = broadcast %0 {shape=(n, 4), axes=(1,)}
          %3: f32[n,4] = exp %2
          %4: f32[n,4] = add %1, %3
          return %4
        }
    """
    after = """
        dims n: 1..9
        graph main(%0: f32[4], %1: f32[n,4]) {
          %2: f32[4] = exp %0
          %3: f32[n,4] = broadcast %2 {shape=(n, 4), axes=(1,)}
          %4: f32[n,4] = add %1, %3
          return %4
        }
    """
    becomes(sink_shapes, before, after, exact=False)


def step(fn: Any, *values: Any) -> tuple[Any, Any]:
    before = tb.jit(fn, target="reference").lower(*values).graph
    after = dce(cse(sink_shapes(simplify(inline(before)))))
    return before, after


def test_the_gradient_of_a_linear_layer_has_no_transpose() -> None:
    model = tb.nn.Sequential(tb.nn.Linear(5, 7), tb.nn.Tanh(), tb.nn.Linear(7, 3))

    def loss(x: tb.Tensor) -> tb.Tensor:
        model.zero_grad()
        out = (model(x) ** 2).sum()
        out.backward()
        return out

    before, after = step(loss, tb.ones((4, 5)))
    names = [e.primitive.name for e in after.equations]
    assert "transpose" in {e.primitive.name for e in inline(before).equations}
    assert "transpose" not in names
    values = inputs_of(before, np.random.default_rng(0), wild=False)
    for found, expected in zip(run(after, values), run(before, values), strict=True):
        assert_close(found, expected, ulps=64)


def test_the_numbers_of_a_normalisation_are_worked_out_per_channel() -> None:
    """What batch norm multiplies and adds is computed once per channel, not once per pixel."""
    norm = tb.nn.BatchNorm2d(4)
    norm.eval()
    _, after = step(norm, tb.ones((2, 4, 6, 6)))
    big = [e.primitive.name for e in after.equations if e.outputs[0].type.shape == (2, 4, 6, 6)]
    assert sorted(big) == ["add", "broadcast", "broadcast", "broadcast", "broadcast", "mul", "mul", "sub"]
    assert all(e.inputs[0].type.shape == (4,) for e in after.equations if e.primitive.name == "broadcast")
