"""What follows a product in the same kernel: bias, activation, residual, several results, other dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.gemm.products import graph_of, lowered, matrices_of, native
from trilobite.base.dtypes import bfloat16, float16
from trilobite.compiler.targets.cpu.contraction.gemm.lower import accepts
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table

SHAPES = [(7, 17, 5), (33, 65, 300), (1, 40, 30), (1, 1, 9), (40, 1, 20), (5, 3, 0), (64, 48, 600)]


def product(x: Any, y: Any, dtype: Any = None) -> Any:
    return table["dot"](x, y, contract=((1,), (0,)), batch=((), ()), dtype=np.dtype(dtype or x.dtype))


def bias_activation_residual(m: int, n: int, k: int, dtype: Any) -> Graph:
    def layer(x: Any, y: Any, bias: Any, residual: Any) -> Any:
        sums = table["add"](product(x, y), table["broadcast"](bias, shape=(m, n), axes=(1,)))
        zero = table["full"](shape=(m, n), value=0.0, dtype=np.dtype(dtype))
        active = table["maximum"](sums, zero)
        return [table["add"](active, residual), active, sums]

    return graph_of(layer, ((m, k), dtype), ((k, n), dtype), ((n,), dtype), ((m, n), dtype))


def judge(graph: Graph, tolerance: float, cuts: tuple[float, ...] = ()) -> None:
    values = matrices_of(graph)
    expected = run(graph, values)
    for found, meant in zip(native(graph, values, cuts), expected, strict=True):
        assert found.dtype == meant.dtype
        size = max(float(abs(meant.astype(np.float64)).max(initial=0)), 1.0)
        np.testing.assert_allclose(
            found.astype(float), meant.astype(float), rtol=tolerance, atol=tolerance * size
        )


@pytest.mark.parametrize(
    "dtype, tolerance", [("float32", 1e-4), ("float64", 1e-12), (float16, 0.01), (bfloat16, 0.05)]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_bias_activation_residual(shape: tuple[int, int, int], dtype: Any, tolerance: float) -> None:
    assert accepts(bias_activation_residual(*shape, dtype)) is None
    judge(bias_activation_residual(*shape, dtype), tolerance)
    judge(bias_activation_residual(*shape, dtype), tolerance, cuts=(0.4, 0.7))


@pytest.mark.parametrize("shape", SHAPES)
def test_integers_stay_exact(shape: tuple[int, int, int]) -> None:
    m, n, k = shape

    def scaled(x: Any, y: Any, shift: Any) -> Any:
        sums = product(x, y, "int32")
        more = table["add"](sums, table["broadcast"](shift, shape=(m, n), axes=(1,)))
        return [table["cast"](more, dtype=np.dtype("int8")), more]

    graph = graph_of(scaled, ((m, k), "int8"), ((k, n), "int8"), ((n,), "int32"))
    values = matrices_of(graph)
    for found, meant in zip(native(graph, values), run(graph, values), strict=True):
        np.testing.assert_array_equal(found, meant)


def test_rows_and_batches_of_operands() -> None:
    """A number per row, one per batch and row, and a whole operand, all at once."""

    def attention(q: Any, k: Any, row: Any, entry: Any, mask: Any) -> Any:
        scores = table["dot"](q, k, contract=((2,), (2,)), batch=((0,), (0,)), dtype=q.dtype)
        scores = table["mul"](scores, table["broadcast"](row, shape=(3, 5, 20), axes=(1,)))
        scores = table["sub"](scores, table["broadcast"](entry, shape=(3, 5, 20), axes=(0, 1)))
        return table["select"](mask, scores, table["neg"](scores))

    shapes = ((3, 5, 8), "float32"), ((3, 20, 8), "float32"), ((5,), "float32"), ((3, 5), "float32")
    graph = graph_of(attention, *shapes, ((3, 5, 20), "bool"))
    rng = np.random.default_rng(5)
    values = [rng.standard_normal(t.shape).astype(t.dtype) for t in graph.input_types[:4]]
    values.append(rng.random((3, 5, 20)) < 0.5)
    (found,) = native(graph, values, cuts=(0.3,))
    np.testing.assert_allclose(found, run(graph, values)[0], rtol=1e-4, atol=1e-4)


def test_what_is_no_epilogue() -> None:
    def summed(x: Any, y: Any) -> Any:
        return table["reduce_sum"](product(x, y), axes=(1,))

    graph = graph_of(summed, ((3, 4), "float32"), ((4, 5), "float32"))
    assert accepts(graph) == "what follows the product is not elementwise along its rows and columns"

    def doubled(x: Any, y: Any) -> Any:
        return product(table["neg"](x), y)

    assert accepts(graph_of(doubled, ((3, 4), "float32"), ((4, 5), "float32"))) == "neg before the product"


@pytest.mark.parametrize("shape, dtype, operands", [
    ((33, 65, 30), "float32", (3,)),
    ((33, 65, 3000), "float32", ()),  # sums wait in the result while k runs on
    ((33, 65, 3000), float16, (3,)),
    ((1, 65, 3000), "float32", (2, 3)),
])  # fmt: skip
def test_the_residual_may_become_the_result(shape: Any, dtype: Any, operands: tuple[int, ...]) -> None:
    graph = bias_activation_residual(*shape, dtype)
    low = lowered(graph)
    places = [(o, i) for i in operands for o in range(3)]
    assert sorted(low.in_place) == sorted(places)
    x, y, bias, residual = matrices_of(graph)
    expected = native(graph, [x, y, bias, residual])
    for o, i in places:
        buffers = [x, y, bias.copy(), residual.copy()]
        found = native(graph, buffers, cuts=(0.3,), shared={o: buffers[i].reshape(residual.shape)})
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a.reshape(b.shape), b)
