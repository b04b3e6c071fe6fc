"""mixed_precision: operands of large products in a shorter format, sums in float32."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tests.compiler.passes.texts import graph_of, stays
from trilobite.base.errors import ArgumentError
from trilobite.compiler.graph.passes.mixed_precision import mixed_precision
from trilobite.compiler.graph.rewrite import Counters
from trilobite.ir.evaluate import run
from trilobite.ir.verify import verify

BEFORE = """
    graph main(%0: f32[64,64], %1: f32[64,64], %2: f32[3]) {
      %3: f32[64,64] = dot %0, %1 {contract=((1,), (0,)), batch=((), ()), dtype=f32}
      %4: f32[64,64] = dot %3, %0 {contract=((1,), (0,)), batch=((), ()), dtype=f32}
      %5: f32[] = dot %2, %2 {contract=((0,), (0,)), batch=((), ()), dtype=f32}
      return %4, %5
    }
"""
AFTER = """
    graph main(%0: f32[64,64], %1: f32[64,64], %2: f32[3]) {
      %3: bf16[64,64] = cast %0 {dtype=bf16}
      %4: bf16[64,64] = cast %1 {dtype=bf16}
      %5: f32[64,64] = dot %3, %4 {contract=((1,), (0,)), batch=((), ()), dtype=f32}
      %6: bf16[64,64] = cast %5 {dtype=bf16}
      %7: f32[64,64] = dot %6, %3 {contract=((1,), (0,)), batch=((), ()), dtype=f32}
      %8: f32[] = dot %2, %2 {contract=((0,), (0,)), batch=((), ()), dtype=f32}
      return %7, %8
    }
"""


def test_large_products_read_short_operands_each_cast_once() -> None:
    counters = Counters()
    found = mixed_precision(graph_of(BEFORE), "bfloat16", counters)
    verify(found)
    assert found == graph_of(AFTER), str(found)
    assert counters == {"dot": 2}


@pytest.mark.parametrize(("dtype", "unit"), [("bfloat16", 2.0**-8), ("float16", 2.0**-11)])
def test_the_error_is_that_of_the_operands(dtype: str, unit: float) -> None:
    """Every operand is off by a unit at most, and sums are taken in float32."""
    rng = np.random.default_rng(0)
    values = [rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2)] + [np.zeros(3, np.float32)]
    graph = graph_of(BEFORE)
    first = type(graph)(graph.inputs, graph.equations, graph.equations[0].outputs)
    (found,) = run(mixed_precision(first, dtype), values)
    terms = abs(values[0]).astype(float) @ abs(values[1]).astype(float)
    error = abs(found - values[0].astype(float) @ values[1].astype(float))
    assert (error <= 2.1 * unit * terms).all()
    assert error.max() > unit / 64 * terms.max() / 64  # it did round


def test_nothing_happens_unasked() -> None:
    stays(mixed_precision, BEFORE)


def test_small_products_and_other_dtypes_stay() -> None:
    stays(partial(mixed_precision, dtype="bfloat16", fewest=5000), BEFORE)
    stays(partial(mixed_precision, dtype="bfloat16", fewest=1), BEFORE.replace("f32", "f64"))


def test_a_dtype_that_is_no_short_float_is_refused() -> None:
    with pytest.raises(ArgumentError) as error:
        mixed_precision(graph_of(BEFORE), "int8")
    assert str(error.value) == (
        "mixed precision with operands in int8\n"
        "  expected: one of bfloat16, float16\n"
        '  remedy: mixed_precision="bfloat16", or none for float32 throughout'
    )
