"""No kernel reads behind the end of an operand: each ends where memory that may not be touched begins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.fences import fenced
from tests.compiler.gemm.products import Array, graph_of, matrices, matrices_of, native
from tests.compiler.gemm.test_quantised import nibbles, values_of
from trilobite.base.dtypes import bfloat16, int4
from trilobite.ir.primitive import table


def assert_same_behind_a_fence(graph: Any, values: list[Array]) -> None:
    expected = native(graph, values)
    with fenced(values) as closed:
        found = native(graph, closed, cuts=(0.4,))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "operand, result", [("float32",) * 2, ("float64",) * 2, ("int8", "int32"), (bfloat16,) * 2]
)
@pytest.mark.parametrize("shape", [(7, 17, 5), (1, 37, 21), (13, 1, 19), (9, 33, 70), (3, 40, 1)])
def test_products(shape: tuple[int, int, int], operand: Any, result: Any) -> None:
    for ta in (False, True):
        for tb in (False, True):
            graph = matrices(*shape, operand, result, ta, tb)
            assert_same_behind_a_fence(graph, matrices_of(graph))


@pytest.mark.parametrize("m", [1, 5])
@pytest.mark.parametrize("tb", [False, True])
def test_nibbles(m: int, tb: bool) -> None:
    for axis in (None, 0, 1):
        graph = nibbles(m, 37, 21, int4, axis, tb)
        x, _, scale, zero = values_of(graph)
        shape = (37, 21) if tb else (21, 37)
        q = np.random.default_rng(2).integers(-8, 8, shape).astype(int4)
        assert_same_behind_a_fence(graph, [x, table["nibble_pack"].evaluate(q), scale, zero])


def test_panels_and_epilogues() -> None:
    def layer(x: Any, y: Any, bias: Any) -> Any:
        panels = table["dot"](x, y, contract=((1,), (0,)), batch=((), ()), dtype=x.dtype)
        return table["add"](panels, table["broadcast"](bias, shape=(5, 21), axes=(1,)))

    graph = graph_of(layer, ((5, 9), "float32"), ((9, 21), "float32"), ((21,), "float32"))
    assert_same_behind_a_fence(graph, matrices_of(graph))
    for contract in (0, 1):
        packed = graph_of(
            lambda y, c=contract: table["gemm_pack"](y, contract=c, width=16), ((9, 21), "float32")
        )
        assert_same_behind_a_fence(packed, matrices_of(packed))
