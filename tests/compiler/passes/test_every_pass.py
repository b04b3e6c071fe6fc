"""Random typed graphs through every pass: well-typed afterwards, and of the same meaning."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.arrays import assert_same_bits, assert_within_rounding, inputs_of, rounding_spread
from tests.compiler.random_graphs import Sample, graphs
from trilobite.compiler.graph.passes import PASSES, Options
from trilobite.compiler.graph.passes.cse import cse
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.passes.fold_batch_norm import fold_batch_norm
from trilobite.compiler.graph.passes.fold_constants import fold_constants
from trilobite.compiler.graph.passes.hoist_scan import hoist_scan
from trilobite.compiler.graph.passes.hoist_while import hoist_while
from trilobite.compiler.graph.passes.inline import inline
from trilobite.compiler.graph.passes.linear_to_conv import linear_to_conv
from trilobite.compiler.graph.passes.merge_branches import merge_branches
from trilobite.compiler.graph.passes.reduce_strength import reduce_strength
from trilobite.compiler.graph.passes.rematerialise import rematerialise
from trilobite.compiler.graph.passes.simplify import simplify
from trilobite.compiler.graph.passes.sink_shapes import sink_shapes
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.verify import verify

Change = Callable[[Graph], Graph]
EACH: dict[str, Change] = {
    "inline": inline,
    "dce": dce,
    "cse": cse,
    "simplify": simplify,
    "reassociate": lambda g: simplify(g, reassociate=True),
    "fold_constants": fold_constants,
    "sink_shapes": sink_shapes,
    "hoist_scan": hoist_scan,
    "hoist_while": hoist_while,
    "linear_to_conv": linear_to_conv,
    "merge_branches": lambda g: merge_branches(g, range(len(g.inputs))),
    "fold_batch_norm": lambda g: fold_batch_norm(g, range(1, len(g.inputs))),
    "reduce_strength": reduce_strength,
    "rematerialise": lambda g: rematerialise(g, 1),
    "all": lambda g: _all(g),
}


def _all(graph: Graph) -> Graph:
    options = Options(stable=frozenset(range(1, len(graph.inputs))), memory=1, reassociate=True)
    for p in PASSES:
        graph, _ = p(graph, options)
    return graph


def check(sample: Sample, changed: Graph, seed: int) -> None:
    verify(changed)
    rng = np.random.default_rng(seed)
    for wild in (False, True):
        values = inputs_of(sample.graph, rng, wild)
        found, expected = run(changed, values), run(sample.graph, values)
        spread = rounding_spread(sample.graph, values, rng) if any(sample.rough) else None
        for i, rough in enumerate(sample.rough):
            try:
                if rough and spread is not None:
                    assert_within_rounding(found[i], expected[i], spread[i])
                else:
                    assert_same_bits(found[i], expected[i])
            except AssertionError as error:
                raise AssertionError(f"result {i} of\n{sample.graph}\nbecame\n{changed}\n{error}") from None


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", EACH)
@settings(max_examples=25)
@given(sample=graphs, seed=st.integers(0, 2**16))
def test_a_pass_keeps_the_meaning(name: str, sample: Sample, seed: int) -> None:
    check(sample, EACH[name](sample.graph), seed)
