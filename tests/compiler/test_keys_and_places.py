"""What tells compiled things apart, and where their numbers lie."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.emit.test_text import execute
from tests.compiler.passes.texts import graph_of
from trilobite.base.dtypes import float64, int8, int32
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.passes.merge_branches import merge_branches
from trilobite.compiler.program.plan import _aligned
from trilobite.compiler.targets.contract import Usage
from trilobite.compiler.targets.registry import executable
from trilobite.native.llvm.text import Text

GRAPH = """
    graph main(%0: f32[5], %1: f32[5]) {
      %2: f32[5] = add %0, %1
      %3: f32[5] = exp %2
      return %3, %2
    }
"""


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_one_graph_is_compiled_anew_for_each_usage_and_target(target: str) -> None:
    graph = graph_of(GRAPH)
    usages = [
        Usage(), Usage(stable=frozenset({1})), Usage(stable=frozenset({0})), Usage(donated=((0, 0),)),
        Usage(donated=((0, 1),)), Usage(replaced=(1,)), Usage(alone=True),
        Usage(options=(("skip", ("fold_constants",)),)),
    ]  # fmt: skip
    made = [executable(graph, target, usage) for usage in usages]
    assert len({id(each) for each in made}) == len(usages)
    again = [executable(graph, target, usage._replace()) for usage in usages]
    assert all(a is b for a, b in zip(made, again, strict=True))
    other = "reference" if target == "cpu" else "cpu"
    assert executable(graph, other) is not made[0] and executable(graph, other).target == other
    assert made[0].target == target


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex128])
def test_constants_begin_at_a_line_of_the_cache(dtype: Any) -> None:
    kept = []  # so that memory is not given twice
    for n in (0, 1, 3, 7, 15, 16, 17, 33, 64, 65, 1000):
        array = np.arange(2 * n).astype(dtype).reshape(n, 2)[:, ::-1]
        found = _aligned(array)
        kept += [found, bytearray(n + 8)]
        assert n == 0 or found.ctypes.data % 64 == 0  # what is empty lies anywhere
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, array)
        assert not np.shares_memory(found, array)


ROWS = "{contract=((1,), (0,)), batch=((), ()), dtype=f32}"


def test_biases_that_change_stay_behind_the_slices() -> None:
    """Put together they would be joined in every run."""
    graph = graph_of(f"""
        graph main(%0: f32[1,8], %1: f32[8,4], %2: f32[8,3], %3: f32[4], %4: f32[3]) {{
          %5: f32[1,4] = dot %0, %1 {ROWS}
          %6: f32[1,4] = broadcast %3 {{shape=(1, 4), axes=(1,)}}
          %7: f32[1,4] = add %5, %6
          %8: f32[1,3] = dot %0, %2 {ROWS}
          %9: f32[1,3] = broadcast %4 {{shape=(1, 3), axes=(1,)}}
          %10: f32[1,3] = add %8, %9
          return %7, %10
        }}
    """)
    for stable, joins in (({1, 2}, 1), ({1, 2, 3}, 1), ({1, 2, 4}, 1), ({1, 2, 3, 4}, 2)):
        names = [e.primitive.name for e in dce(merge_branches(graph, stable)).equations]
        assert names.count("dot") == 1 and names.count("concatenate") == joins, stable


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
@pytest.mark.parametrize(("dtype", "bits"), [(int8, 8), (int32, 32), (float64, 64)])
def test_masks_of_a_count_that_is_known_when_it_runs(lanes: int, dtype: Any, bits: int) -> None:
    """Counts far beyond the lanes, beyond what a byte holds too, are all lanes."""
    counts = [
        0,
        1,
        lanes - 1,
        lanes,
        lanes + 1,
        127,
        128,
        255,
        256,
        257,
        256 + lanes - 1,
        65536,
        1 << 32,
        1 << 40,
    ]
    for count, bits_of in itertools.product(counts, {8, bits}):

        def build(t: Text, bits_of: int = bits_of) -> None:
            out, n = t.argument(0, "ptr"), t.argument(1, "i64")
            mask = t.mask(n, lanes, bits_of)
            value = t.splat(t.load(dtype, t.argument(2, "ptr")), lanes)
            t.store_masked(dtype, value, out, mask)

        kind = {int8: np.int8, int32: np.int32, float64: np.float64}[dtype]
        found, one = np.zeros(lanes, kind), np.ones(1, kind)
        execute(build, found, count, one)
        assert found.tolist() == [float(i < count) for i in range(lanes)], (count, bits_of)


@pytest.mark.parametrize("number", [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1.5])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_extremes_beside_a_number_on_the_processor(number: float, dtype: str) -> None:
    """Of constants too: a NaN on either side is the result."""
    x = np.asarray([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0, 1.5, 3.0], dtype)
    for f in (tb.maximum, tb.minimum):
        for g in (lambda t, f=f: f(t, number), lambda t, f=f: f(tb.full_like(t, number), t)):
            found = tb.jit(g, target="dlp:dlp-s")(tb.tensor(x)).numpy()
            np.testing.assert_array_equal(found, g(tb.tensor(x)).numpy())
    np.testing.assert_array_equal(
        tb.jit(lambda t: tb.maximum(t, number), target="dlp:dlp-s")(tb.tensor(x)).numpy(),
        np.maximum(x, np.asarray(number, dtype)),
    )
