"""fold_batch_norm: scales and shifts per channel go into weights that are stable."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.passes.texts import graph_of
from trilobite.compiler.graph.passes import PASSES, Options
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.passes.fold_batch_norm import fold_batch_norm
from trilobite.compiler.graph.passes.split_stable import split_stable
from trilobite.compiler.graph.rewrite import Counters
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph

CONV = "{groups=1, dtype=f64, stride=(1,), low=(0,), high=(0,), w_dilation=(1,), x_dilation=(1,)}"
BEFORE = f"""
    graph main(%0: f64[2,3,5], %1: f64[4,3,2], %2: f64[4], %3: f64[4], %4: f64[4]) {{
      %5: f64[2,4,4] = conv %0, %1 {CONV}
      %6: f64[2,4,4] = broadcast %2 {{shape=(2, 4, 4), axes=(1,)}}
      %7: f64[2,4,4] = sub %5, %6
      %8: f64[2,4,4] = broadcast %3 {{shape=(2, 4, 4), axes=(1,)}}
      %9: f64[2,4,4] = mul %8, %7
      %10: f64[2,4,4] = broadcast %4 {{shape=(2, 4, 4), axes=(1,)}}
      %11: f64[2,4,4] = add %9, %10
      return %11
    }}
"""
AFTER = f"""
    graph main(%0: f64[2,3,5], %1: f64[4,3,2], %2: f64[4], %3: f64[4], %4: f64[4]) {{
      %5: f64[4] = neg %2
      %6: f64[4] = mul %5, %3
      %7: f64[4] = add %6, %4
      %8: f64[4,3,2] = broadcast %3 {{shape=(4, 3, 2), axes=(0,)}}
      %9: f64[4,3,2] = mul %1, %8
      %10: f64[2,4,4] = conv %0, %9 {CONV}
      %11: f64[2,4,4] = broadcast %7 {{shape=(2, 4, 4), axes=(1,)}}
      %12: f64[2,4,4] = add %10, %11
      return %12
    }}
"""


def equal(before: Graph, after: Graph, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    values = [rng.standard_normal(t.shape).astype(t.dtype) for t in before.input_types]  # type: ignore[arg-type]
    for found, expected in zip(run(after, values), run(before, values), strict=True):
        scale = 1e-12 if expected.dtype == np.float64 else 1e-5
        np.testing.assert_allclose(found, expected, rtol=scale, atol=scale * abs(expected).max())


def test_a_scale_and_shifts_behind_a_convolution() -> None:
    found = fold_batch_norm(graph_of(BEFORE), {1, 2, 3, 4})
    assert dce(found) == graph_of(AFTER), str(dce(found))
    equal(graph_of(BEFORE), found)
    counters = Counters()
    fold_batch_norm(graph_of(BEFORE), {1, 2, 3, 4}, counters)
    assert counters == {"conv": 1}


def test_a_quotient_that_comes_first() -> None:
    text = BEFORE.replace("sub %5, %6", "div %5, %6")
    found = fold_batch_norm(graph_of(text), {1, 2, 3, 4})
    assert found != graph_of(text)
    equal(graph_of(text), found)


@pytest.mark.parametrize("stable", [(), (1,), (1, 2), (1, 2, 4), (2, 3, 4)])
def test_what_changes_in_every_run_stays_outside(stable: tuple[int, ...]) -> None:
    graph = graph_of(BEFORE)
    assert fold_batch_norm(graph, stable) is graph


def test_a_product_that_others_read_too_stays() -> None:
    graph = graph_of(BEFORE)
    both = Graph(graph.inputs, graph.equations, [*graph.outputs, graph.equations[0].outputs[0]])
    assert fold_batch_norm(both, {1, 2, 3, 4}) is both


def test_the_bias_alone_stays() -> None:
    text = """
        graph main(%0: f64[2,3], %1: f64[3,4], %2: f64[4]) {
          %3: f64[2,4] = dot %0, %1 {contract=((1,), (0,)), batch=((), ()), dtype=f64}
          %4: f64[2,4] = broadcast %2 {shape=(2, 4), axes=(1,)}
          %5: f64[2,4] = add %3, %4
          return %5
        }
    """
    graph = graph_of(text)
    assert fold_batch_norm(graph, {1, 2}) is graph


def test_numbers_negations_and_quotients_behind_a_linear_layer() -> None:
    before = """
        graph main(%0: f64[2,3], %1: f64[4,3], %2: f64[4]) {
          %3: f64[2,4] = dot %0, %1 {contract=((1,), (1,)), batch=((), ()), dtype=f64}
          %4: f64[2,4] = broadcast %2 {shape=(2, 4), axes=(1,)}
          %5: f64[2,4] = sub %4, %3
          %6: f64[2,4] = full {shape=(2, 4), dtype=f64, value=3.0}
          %7: f64[2,4] = div %5, %6
          return %7
        }
    """
    graph = graph_of(before)
    found = fold_batch_norm(graph, {1, 2})
    assert [e.outputs[0].type.shape for e in found.equations if e.primitive.name in ("div", "neg")] == [
        (4,),
        (4,),
    ]
    equal(graph, found)


def test_a_quotient_by_the_product_is_not_a_scale() -> None:
    text = """
        graph main(%0: f64[2,3], %1: f64[3,4], %2: f64[4]) {
          %3: f64[2,4] = dot %0, %1 {contract=((1,), (0,)), batch=((), ()), dtype=f64}
          %4: f64[2,4] = broadcast %2 {shape=(2, 4), axes=(1,)}
          %5: f64[2,4] = div %4, %3
          return %5
        }
    """
    graph = graph_of(text)
    assert fold_batch_norm(graph, {1, 2}) is graph


def test_weights_on_the_left_and_several_channel_axes() -> None:
    before = """
        graph main(%0: f64[4,5,3], %1: f64[2,3], %2: f64[5], %3: f64[4]) {
          %4: f64[4,5,2] = dot %0, %1 {contract=((2,), (1,)), batch=((), ()), dtype=f64}
          %5: f64[4,5,2] = broadcast %2 {shape=(4, 5, 2), axes=(1,)}
          %6: f64[4,5,2] = mul %4, %5
          %7: f64[4,5,2] = broadcast %3 {shape=(4, 5, 2), axes=(0,)}
          %8: f64[4,5,2] = add %6, %7
          return %8
        }
    """
    graph = graph_of(before)
    found = fold_batch_norm(graph, {0, 2, 3})
    big = [e.primitive.name for e in found.equations if e.outputs[0].type.shape == (4, 5, 2)]
    assert "mul" not in big
    equal(graph, found)


def test_a_transposed_convolution_scales_its_other_axis() -> None:
    window = CONV.replace("}", ", space=(5,)}")
    before = f"""
        graph main(%0: f64[2,4,4], %1: f64[4,3,2], %2: f64[3]) {{
          %3: f64[2,3,5] = conv_input_grad %0, %1 {window}
          %4: f64[2,3,5] = broadcast %2 {{shape=(2, 3, 5), axes=(1,)}}
          %5: f64[2,3,5] = mul %3, %4
          return %5
        }}
    """
    after = f"""
        graph main(%0: f64[2,4,4], %1: f64[4,3,2], %2: f64[3]) {{
          %3: f64[4,3,2] = broadcast %2 {{shape=(4, 3, 2), axes=(1,)}}
          %4: f64[4,3,2] = mul %1, %3
          %5: f64[2,3,5] = conv_input_grad %0, %4 {window}
          return %5
        }}
    """
    found = dce(fold_batch_norm(graph_of(before), {1, 2}))
    assert found == graph_of(after), str(found)
    equal(graph_of(before), found)


def test_a_network_at_inference_has_one_shift_per_convolution_and_the_rest_is_stable() -> None:
    nn = tb.nn
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
        nn.Conv2d(4, 6, 3, groups=2), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(),
        nn.Linear(96, 5), nn.BatchNorm1d(5),
    )  # fmt: skip
    model.eval()
    graph = tb.jit(lambda x: model(x), target="reference").lower(tb.ones((2, 3, 6, 6))).graph
    options = Options(stable=frozenset(range(1, len(graph.inputs))))
    after = graph
    counted = {}
    for p in PASSES:
        after, counted[p.name] = p(after, options)
    assert counted["fold_batch_norm"] == {"conv": 2, "dot": 1}
    halves = split_stable(after, options.stable)
    assert halves is not None
    work = [
        e.primitive.name for e in halves.second.equations if e.primitive.name in ("mul", "sub", "add", "div")
    ]
    assert work == ["add", "add", "add"]
    rng = np.random.default_rng(1)
    values = [np.asarray(rng.uniform(0.2, 1, t.shape)).astype(t.dtype) for t in graph.input_types]
    np.testing.assert_allclose(run(after, values)[0], run(graph, values)[0], rtol=2e-5, atol=1e-5)


def test_a_batch_of_one_has_its_vectors_as_reshapes() -> None:
    before = """
        graph main(%0: f64[1,3], %1: f64[3,4], %2: f64[4], %3: f64[1,4]) {
          %4: f64[1,4] = dot %0, %1 {contract=((1,), (0,)), batch=((), ()), dtype=f64}
          %5: f64[1,4] = reshape %2 {shape=(1, 4)}
          %6: f64[1,4] = mul %4, %5
          %7: f64[1,4] = add %6, %3
          return %7
        }
    """
    after = """
        graph main(%0: f64[1,3], %1: f64[3,4], %2: f64[4], %3: f64[1,4]) {
          %4: f64[1,4] = reshape %2 {shape=(1, 4)}
          %5: f64[4] = reshape %4 {shape=(4,)}
          %6: f64[4] = reshape %3 {shape=(4,)}
          %7: f64[3,4] = broadcast %5 {shape=(3, 4), axes=(1,)}
          %8: f64[3,4] = mul %1, %7
          %9: f64[1,4] = dot %0, %8 {contract=((1,), (0,)), batch=((), ()), dtype=f64}
          %10: f64[1,4] = broadcast %6 {shape=(1, 4), axes=(1,)}
          %11: f64[1,4] = add %9, %10
          return %11
        }
    """
    found = dce(fold_batch_norm(graph_of(before), {1, 2, 3}))
    assert found == graph_of(after), str(found)
    equal(graph_of(before), found)


LARGE_BEFORE, LARGE_AFTER = (
    f"""
    graph main(%0: f64[2,128,5], %1: f64[140,128,2], %2: f64[140], %3: f64[140], %4: f64[140]) {{
      %5: f64[2,140,4] = conv %0, %1 {CONV}
{rest}
    }}
"""
    for rest in (
        """
      %6: f64[2,140,4] = broadcast %2 {shape=(2, 140, 4), axes=(1,)}
      %7: f64[2,140,4] = sub %5, %6
      %8: f64[2,140,4] = broadcast %3 {shape=(2, 140, 4), axes=(1,)}
      %9: f64[2,140,4] = mul %8, %7
      %10: f64[2,140,4] = broadcast %4 {shape=(2, 140, 4), axes=(1,)}
      %11: f64[2,140,4] = add %9, %10
      return %11""",
        """
      %6: f64[140] = neg %2
      %7: f64[140] = mul %6, %3
      %8: f64[140] = add %7, %4
      %9: f64[2,140,4] = broadcast %3 {shape=(2, 140, 4), axes=(1,)}
      %10: f64[2,140,4] = mul %5, %9
      %11: f64[2,140,4] = broadcast %8 {shape=(2, 140, 4), axes=(1,)}
      %12: f64[2,140,4] = add %10, %11
      return %12""",
    )
)


def test_a_large_weight_stays_as_it_is() -> None:
    """So that no second copy of it is kept; what follows is one product and one sum."""
    found = dce(fold_batch_norm(graph_of(LARGE_BEFORE), {1, 2, 3, 4}))
    names = [e.primitive.name for e in found.equations]
    assert sorted(names) == sorted(e.primitive.name for e in graph_of(LARGE_AFTER).equations)
    (conv,) = (e for e in found.equations if e.primitive.name == "conv")
    assert conv.inputs == found.inputs[:2]
    assert names[-3:] == ["mul", "broadcast", "add"]
    equal(graph_of(LARGE_BEFORE), found)
    assert fold_batch_norm(found, {1, 2, 3, 4}) is found
