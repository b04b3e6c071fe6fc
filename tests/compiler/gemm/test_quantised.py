"""Products with weights on a grid of few bits: dequantised on the way into the registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.gemm.products import graph_of, native, random_matrix
from trilobite.base.dtypes import float8_e4m3fn, int4, uint4
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.rewrite import Counters
from trilobite.compiler.targets.cpu.contraction.gemm.lower import accepts
from trilobite.compiler.targets.cpu.passes.prepack import prepack
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.ir.types import TensorType
from trilobite.ir.verify import verify


def layer(m: int, n: int, k: int, grid: Any, axis: int | None, tb: bool) -> Graph:
    shape = (n, k) if tb else (k, n)
    scales = () if axis is None else (shape[axis],)

    def product(x: Any, q: Any, scale: Any, zero: Any) -> Any:
        w = table["dequantise"](q, scale, zero, axis=axis)
        return table["dot"](x, w, contract=((1,), (1 if tb else 0,)), batch=((), ()), dtype=x.dtype)

    return graph_of(product, ((m, k), "float32"), (shape, grid), (scales, "float32"), (scales, grid))


def nibbles(m: int, n: int, k: int, grid: Any, axis: int | None, tb: bool) -> Graph:
    """The same layer whose weight is two elements to a byte."""
    shape = (n, k) if tb else (k, n)
    scales = () if axis is None else (shape[axis],)
    packed = table["nibble_pack"].type(TensorType(shape, grid)).shape

    def product(x: Any, p: Any, scale: Any, zero: Any) -> Any:
        q = table["nibble_unpack"](p, columns=shape[1], dtype=grid)
        w = table["dequantise"](q, scale, zero, axis=axis)
        return table["dot"](x, w, contract=((1,), (1 if tb else 0,)), batch=((), ()), dtype=x.dtype)

    return graph_of(product, ((m, k), "float32"), (packed, "uint8"), (scales, "float32"), (scales, grid))


def values_of(graph: Graph) -> list[Any]:
    rng = np.random.default_rng(7)
    x, q, scale, zero = graph.input_types
    return [
        random_matrix(rng, x.shape, x.dtype),
        random_matrix(rng, q.shape, q.dtype),
        rng.uniform(0.001, 0.1, scale.shape).astype(np.float32),
        random_matrix(rng, zero.shape, zero.dtype),
    ]


@pytest.mark.parametrize("grid", ["int8", "uint8", int4, uint4, "int16", float8_e4m3fn])
@pytest.mark.parametrize("m, n, k", [(1, 70, 45), (9, 50, 300), (1, 33, 8)])
@pytest.mark.parametrize("tb", [False, True])
def test_product_with_a_quantised_weight(grid: Any, m: int, n: int, k: int, tb: bool) -> None:
    for axis in (None, 0, 1):
        graph = layer(m, n, k, grid, axis, tb)
        assert accepts(graph) is None
        x, q, scale, zero = values_of(graph)
        (found,) = native(graph, [x, q, scale, zero], cuts=(0.4,))
        w = table["dequantise"].evaluate(q, scale.astype(np.float64), zero, axis=axis)
        w = w.T if tb else w
        expected, size = x.astype(np.float64) @ w, abs(x.astype(np.float64)) @ abs(w)
        assert (abs(found - expected) <= (k + 4) * 2.0**-24 * size).all()
        np.testing.assert_allclose(
            found, run(graph, [x, q, scale, zero])[0], rtol=1e-3, atol=1e-3 * size.max()
        )


@pytest.mark.parametrize("grid", [int4, uint4])
@pytest.mark.parametrize("m, n, k", [(1, 70, 45), (9, 50, 300), (1, 33, 8), (7, 100, 33), (1, 5000, 3)])
@pytest.mark.parametrize("tb", [False, True])
def test_two_to_a_byte(grid: Any, m: int, n: int, k: int, tb: bool) -> None:
    """Same bits as one to a byte."""
    for axis in (None, 0, 1):
        x, q, scale, zero = values_of(layer(m, n, k, grid, axis, tb))
        (expected,) = native(layer(m, n, k, grid, axis, tb), [x, q, scale, zero])
        graph = nibbles(m, n, k, grid, axis, tb)
        assert accepts(graph) is None
        (found,) = native(graph, [x, table["nibble_pack"].evaluate(q), scale, zero], cuts=(0.3, 0.6))
        np.testing.assert_array_equal(found, expected)


def test_what_is_refused() -> None:
    assert accepts(layer(3, 4, 5, "int32", None, False)) == (
        "numbers on a grid of 32 bits, which float32 does not hold"
    )


@pytest.mark.parametrize("grid, packs", [(int4, 1), ("int8", 0)])
@pytest.mark.parametrize("tb", [False, True])
def test_the_pass_keeps_weights_small(grid: Any, packs: int, tb: bool) -> None:
    for m, axis in ((1, None), (5, 0), (3, 1)):
        graph, counters = layer(m, 20, 30, grid, axis, tb), Counters()
        after = prepack(graph, graph.inputs[1:], counters)
        after = dce(after)
        verify(after)
        names = [e.primitive.name for e in after.equations]
        assert names == ["nibble_pack"] * packs + ["dot_quantised"]
        assert counters == {"dot_quantised": 1}
        values = values_of(graph)
        (expected,) = run(graph, values)
        np.testing.assert_array_equal(run(after, values)[0], expected)
        weight = table["nibble_pack"].evaluate(values[1]) if packs else values[1]
        last = after.equations[-1]
        product = Graph(last.inputs, [last], after.outputs)
        assert accepts(product) is None
        (found,) = native(product, [values[0], weight, *values[2:]], cuts=(0.5,))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
