"""hoist_scan: what a loop need not do step by step is done once, outside."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.arrays import assert_close, assert_same_bits, inputs_of
from tests.compiler.passes.texts import becomes, graph_of, stays
from trilobite.compiler.graph.passes import PASSES, Options
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.passes.hoist_scan import hoist_scan
from trilobite.compiler.graph.rewrite import Counters
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.text import walk
from trilobite.ir.verify import verify


def test_what_every_step_gives_is_repeated_and_not_stacked() -> None:
    loop = "scan %0, %1, %2 {body=^0, consts=1, carries=1, length=4, reverse=false}"
    before = f"""
        graph main(%0: f32[2], %1: f32[3], %2: f32[4,3]) {{
          %3: f32[3], %4: f32[4,2], %5: f32[4,3], %6: f32[4,3] = {loop}
            ^0 graph step(%0: f32[2], %1: f32[3], %2: f32[3]) {{
              %3: f32[3] = mul %1, %2
              return %3, %0, %2, %3
            }}
          return %3, %4, %5, %6
        }}
    """
    after = """
        graph main(%0: f32[2], %1: f32[3], %2: f32[4,3]) {
          %3: f32[3], %4: f32[4,3] = scan %1, %2 {body=^0, consts=0, carries=1, length=4, reverse=false}
            ^0 graph step(%0: f32[3], %1: f32[3]) {
              %2: f32[3] = mul %0, %1
              return %2, %2
            }
          %5: f32[4,2] = broadcast %0 {shape=(4, 2), axes=(1,)}
          return %3, %5, %2, %4
        }
    """
    becomes(hoist_scan, before, after)


def test_sequences_that_repeat_and_carries_that_stay_are_constants() -> None:
    before = """
        graph main(%0: f32[3], %1: f32[3], %2: f32[3]) {
          %3: f32[4,3] = broadcast %2 {shape=(4, 3), axes=(1,)}
          %4: f32[4,3] = full {shape=(4, 3), dtype=f32, value=2.0}
          %5: f32[3], %6: f32[3] = scan %0, %1, %3, %4 {body=^0, consts=0, carries=2, length=4, reverse=false}
            ^0 graph step(%0: f32[3], %1: f32[3], %2: f32[3], %3: f32[3]) {
              %4: f32[3] = mul %0, %2
              %5: f32[3] = sub %4, %1
              %6: f32[3] = add %5, %3
              return %6, %1
            }
          return %5, %6
        }
    """
    after = """
        graph main(%0: f32[3], %1: f32[3], %2: f32[3]) {
          %3: f32[3] = full {shape=(3,), dtype=f32, value=2.0}
          %4: f32[3] = scan %2, %3, %1, %0 {body=^0, consts=3, carries=1, length=4, reverse=false}
            ^0 graph step(%0: f32[3], %1: f32[3], %2: f32[3], %3: f32[3]) {
              %4: f32[3] = mul %3, %0
              %5: f32[3] = sub %4, %2
              %6: f32[3] = add %5, %1
              return %6
            }
          return %4, %1
        }
    """
    becomes(hoist_scan, before, after)


def test_steps_over_constants_happen_before_the_loop() -> None:
    before = """
        graph main(%0: f32[3], %1: f32[2,3]) {
          %2: f32[2,3] = scan %0, %1 {body=^0, consts=1, carries=1, length=4, reverse=true}
            ^0 graph step(%0: f32[3], %1: f32[2,3]) {
              %2: f32[2,3] = broadcast %0 {shape=(2, 3), axes=(1,)}
              %3: f32[3] = exp %0
              %4: f32[2,3] = broadcast %3 {shape=(2, 3), axes=(1,)}
              %5: f32[2,3] = mul %1, %4
              %6: f32[2,3] = sub %5, %2
              return %6
            }
          return %2
        }
    """
    counters = Counters()
    after = dce(hoist_scan(graph_of(before), counters))
    verify(after)
    names = [[e.primitive.name for e in g.equations] for g in walk(after)]
    assert names == [["exp", "scan"], ["broadcast", "broadcast", "mul", "sub"]]
    assert counters == {"step -> before the loop": 1}
    values = inputs_of(graph_of(before), np.random.default_rng(0))
    assert_same_bits(run(after, values)[0], run(graph_of(before), values)[0])


def test_products_of_a_sequence_with_a_constant_are_one_before_the_loop() -> None:
    row = "contract=((1,), (0,)), batch=((), ()), dtype=f64"
    before = f"""
        graph main(%0: f64[3,2], %1: f64[2,2], %2: f64[4,2], %3: f64[5,4,3]) {{
          %4: f64[4,2] = scan %0, %1, %2, %3 {{body=^0, consts=2, carries=1, length=5, reverse=false}}
            ^0 graph step(%0: f64[3,2], %1: f64[2,2], %2: f64[4,2], %3: f64[4,3]) {{
              %4: f64[4,2] = dot %3, %0 {{{row}}}
              %5: f64[4,2] = dot %2, %1 {{{row}}}
              %6: f64[4,2] = add %4, %5
              return %6
            }}
          return %4
        }}
    """
    after = f"""
        graph main(%0: f64[3,2], %1: f64[2,2], %2: f64[4,2], %3: f64[5,4,3]) {{
          %4: f64[5,4,2] = dot %3, %0 {{contract=((2,), (0,)), batch=((), ()), dtype=f64}}
          %5: f64[4,2] = scan %1, %2, %4 {{body=^0, consts=1, carries=1, length=5, reverse=false}}
            ^0 graph step(%0: f64[2,2], %1: f64[4,2], %2: f64[4,2]) {{
              %3: f64[4,2] = dot %1, %0 {{{row}}}
              %4: f64[4,2] = add %2, %3
              return %4
            }}
          return %5
        }}
    """
    found = dce(hoist_scan(graph_of(before)))
    verify(found)
    assert found == graph_of(after), str(found)
    values = inputs_of(found, np.random.default_rng(3), wild=False)
    assert_close(run(found, values)[0], run(graph_of(before), values)[0], ulps=1024)


SUMS = """
    graph main(%0: f64[3,2], %1: f64[3], %2: f64[5,4,3], %3: f64[5,4,2]) {
      %4: f64[3,2], %5: f64[3] = scan %0, %1, %2, %3 {body=^0, consts=0, carries=2, length=5, reverse=REVERSE}
        ^0 graph step(%0: f64[3,2], %1: f64[3], %2: f64[4,3], %3: f64[4,2]) {
          %4: f64[4,3] = tanh %2
          %5: f64[3,2] = dot %4, %3 {contract=((0,), (0,)), batch=((), ()), dtype=f64}
          %6: f64[3,2] = add %0, %5
          %7: f64[3] = reduce_sum %4 {axes=(0,)}
          %8: f64[3] = add %7, %1
          return %6, %8
        }
      return %4, %5
    }
"""


@pytest.mark.parametrize("reverse", ["true", "false"])
def test_sums_over_steps_are_one_product_after_the_loop(reverse: str) -> None:
    before = graph_of(SUMS.replace("REVERSE", reverse))
    counters = Counters()
    after = hoist_scan(before, counters)
    verify(after)
    assert counters == {"sum of dot": 1, "sum of reduce_sum": 1}
    (scan,) = (e for e in after.equations if e.primitive.name == "scan")
    assert [str(v.type) for v in scan.outputs] == ["f64[5,4,3]"]  # tanh, stacked once for both
    values = inputs_of(before, np.random.default_rng(1), wild=False)
    for found, expected in zip(run(after, values), run(before, values), strict=True):
        assert_close(found, expected, ulps=256)


def test_a_sum_whose_terms_are_larger_than_itself_is_carried() -> None:
    stays(hoist_scan, SUMS.replace("REVERSE", "true").replace("[5,4,", "[5,40,").replace("[4,", "[40,"))


def test_a_sum_that_steps_read_is_carried() -> None:
    text = SUMS.replace("REVERSE", "true").replace("return %6, %8", "%9: f64[3] = exp %1\n return %6, %9")
    graph = graph_of(text)
    counters = Counters()
    hoist_scan(graph, counters)
    assert counters == {"sum of dot": 1}


def test_print_stays_in_its_loop(capsys: Any) -> None:
    text = """
        graph main(%0: f32[3], %1: f32[3]) {
          %2: f32[3] = scan %0, %1 {body=^0, consts=1, carries=1, length=2, reverse=false}
            ^0 graph step(%0: f32[3], %1: f32[3]) {
              print %0 {fmt="{}"}
              return %1
            }
          return %2
        }
    """
    graph = graph_of(text)
    run(dce(hoist_scan(graph)), [np.zeros(3, np.float32)] * 2)
    assert capsys.readouterr().out == "[0. 0. 0.]\n" * 2


def lstm_step() -> Graph:
    model, head = tb.nn.LSTM(6, 8), tb.nn.Linear(8, 3)

    def step(x: tb.Tensor) -> tb.Tensor:
        model.zero_grad()
        loss = (head(model(x)[0]) ** 2).sum()
        loss.backward()
        return loss

    return tb.jit(step, target="reference").lower(tb.ones((5, 2, 6))).graph


def test_the_gradient_of_a_recurrent_weight_is_one_product() -> None:
    before = lstm_step()
    after = before
    for p in PASSES:
        after, _ = p(after, Options())
        verify(after)
    scans = [e for e in after.equations if e.primitive.name == "scan"]
    assert len(scans) == 2
    # Neither loop stacks or carries anything of the size of the recurrent weight.
    assert not any(v.type.shape[-2:] == (32, 8) for e in scans for v in e.outputs)
    inside = Counter(b.primitive.name for e in scans for b in e.attributes["body"].equations)
    assert inside["dot"] == 2
    rng = np.random.default_rng(2)
    values = [np.asarray(rng.standard_normal(t.shape)).astype(t.dtype) for t in before.input_types]
    for found, expected in zip(run(after, values), run(before, values), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
