"""Weights in panels: the value, the product with it, and the pass that makes both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.gemm.products import assert_product, graph_of, matrices, matrices_of, native, pieces
from trilobite.compiler.graph.rewrite import Counters
from trilobite.compiler.targets.cpu.contraction.gemm.lower import accepts
from trilobite.compiler.targets.cpu.contraction.gemm.tiling import plans
from trilobite.compiler.targets.cpu.passes.prepack import prepack
from trilobite.ir.evaluate import run
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType
from trilobite.ir.verify import verify
from trilobite.native.host import features


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k, n", [(7, 16), (33, 48), (33, 50), (100, 3), (1, 1), (0, 5)])
@pytest.mark.parametrize("contract", [0, 1])
@pytest.mark.parametrize("width", [2, 4, 16])
def test_panels_equal_their_meaning(dtype: str, k: int, n: int, contract: int, width: int) -> None:
    shape = (k, n) if contract == 0 else (n, k)
    graph = graph_of(lambda y: table["gemm_pack"](y, contract=contract, width=width), (shape, dtype))
    values = matrices_of(graph)
    (found,) = native(graph, values, cuts=(0.3, 0.7))
    np.testing.assert_array_equal(found, run(graph, values)[0])
    assert (np.sum(pieces(graph, values, (0.3, 0.7)), 0) <= 1).all()  # nobody writes what is another's


@pytest.mark.parametrize("m, n, k", [(1, 50, 20), (7, 16, 300), (40, 100, 513), (3, 2100, 5), (4, 5, 0)])
def test_product_with_panels(m: int, n: int, k: int) -> None:
    """Same bits as without: only where B is read from differs."""
    plain = matrices(m, n, k)
    x, y = matrices_of(plain)
    width = plans(features(), np.dtype("float32"))[-1].columns
    panels = table["gemm_pack"].evaluate(y, contract=0, width=width)

    def product(a: Any, b: Any) -> Any:
        return table["dot_packed"](a, b, columns=n, dtype=np.dtype("float32"))

    graph = graph_of(product, ((m, k), "float32"), (panels.shape, "float32"))
    (found,) = native(graph, [x, panels])
    (cut,) = native(graph, [x, panels], cuts=(0.2, 0.5, 0.9))
    assert_product(found, x, y, ((1,), (0,)))
    np.testing.assert_array_equal(found, cut)


def test_panels_of_another_width_are_refused() -> None:
    def product(a: Any, b: Any) -> Any:
        return table["dot_packed"](a, b, columns=5, dtype=np.dtype("float32"))

    graph = graph_of(product, ((4, 7), "float32"), ((2, 7, 3), "float32"))
    widths = " or ".join(str(plan.columns) for plan in plans(features(), np.dtype("float32")))
    assert accepts(graph) == f"panels of 3 float32\n  expected: {widths} float32"


def _network(x: Any, w: Any, v: Any) -> Any:
    hidden = table["dot"](x, w, contract=((1,), (1,)), batch=((), ()), dtype=x.dtype)
    turned = table["transpose"](v, axes=(1, 0))
    out = table["dot"](hidden, turned, contract=((1,), (0,)), batch=((), ()), dtype=x.dtype)
    again = table["dot"](out, v, contract=((1,), (0,)), batch=((), ()), dtype=x.dtype)
    return [out, again]


def _types(rows: int, dtype: str = "float32") -> list[TensorType]:
    return [TensorType(s, np.dtype(dtype)) for s in ((rows, 5), (9, 5), (6, 9))]


def test_products_with_stable_weights_are_packed() -> None:
    graph, counters = record_graph(_network, _types(4)), Counters()
    after = prepack(graph, set(graph.inputs[1:]), counters)
    verify(after)
    names = [e.primitive.name for e in after.equations]
    assert names.count("gemm_pack") == 3 and names.count("dot") == 0 and counters == {"dot_packed": 3}
    values = [np.random.default_rng(1).standard_normal(t.shape).astype(t.dtype) for t in graph.input_types]
    for found, expected in zip(run(after, values), run(graph, values), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_weights_that_constants_scale_are_packed() -> None:
    """A dequantised weight stays between runs, too; what is made of constants alone is folded elsewhere."""

    def scaled(x: Any, w: Any) -> Any:
        half = table["full"](shape=(9, 5), dtype=x.dtype, value=0.5)
        weights = (table["mul"](w, half), half)
        return [table["dot"](x, v, contract=((1,), (1,)), batch=((), ()), dtype=x.dtype) for v in weights]

    graph, counters = record_graph(scaled, _types(4)[:2]), Counters()
    prepack(graph, {graph.inputs[1]}, counters)
    assert counters == {"dot_packed": 1}


@pytest.mark.parametrize(
    "rows, dtype, stable",
    [(1, "float32", (1, 2)), (4, "int32", (1, 2)), (4, "float32", (0,)), (5000, "float32", (1, 2))],
)
def test_what_is_left_alone(rows: int, dtype: str, stable: tuple[int, ...]) -> None:
    graph = record_graph(_network, _types(rows, dtype))
    assert prepack(graph, {graph.inputs[i] for i in stable}) is graph
