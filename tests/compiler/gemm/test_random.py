"""Random products: any sizes, axes, dtypes and cuts, with and without something after them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compiler.gemm.products import Axes, assert_product, dot_graph, graph_of, matrices_of, native
from trilobite.base.dtypes import bfloat16
from trilobite.ir.evaluate import run
from trilobite.ir.primitive import table

SIZES = st.sampled_from([0, 1, 1, 2, 3, 5, 6, 7, 8, 12, 15, 16, 17, 31, 33, 40, 65])
DTYPES = st.sampled_from([("float32",) * 2, ("float64",) * 2, ("int8", "int32"), (bfloat16, bfloat16)])
CUTS = st.lists(st.floats(0, 1), max_size=3)


def _arranged(draw: Any, sizes: list[int], roles: str) -> tuple[tuple[int, ...], dict[str, int]]:
    """Sizes in a random order of axes, and where each role went."""
    order = draw(st.permutations(range(len(sizes))))
    return tuple(sizes[i] for i in order), {roles[i]: at for at, i in enumerate(order)}


@st.composite
def products(draw: Any) -> tuple[tuple[int, ...], tuple[int, ...], Axes, Axes, Any]:
    m, n, k, b = (draw(SIZES) for _ in range(4))
    batched = draw(st.booleans())
    x, at_x = _arranged(draw, [min(b, 5), m, k] if batched else [m, k], "bmk" if batched else "mk")
    y, at_y = _arranged(draw, [min(b, 5), k, n] if batched else [k, n], "bkn" if batched else "kn")
    batch: Axes = ((at_x["b"],), (at_y["b"],)) if batched else ((), ())
    return x, y, ((at_x["k"],), (at_y["k"],)), batch, draw(DTYPES)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(products(), CUTS, st.integers(0, 99))
def test_random_products(problem: Any, cuts: list[float], seed: int) -> None:
    x, y, contract, batch, (operand, result) = problem
    graph = dot_graph(x, y, operand, result, contract, batch)
    values = matrices_of(graph, seed)
    (found,) = native(graph, values, cuts)
    assert_product(found, *values, contract, batch)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SIZES, SIZES, SIZES, CUTS, st.booleans())
def test_random_layers(m: int, n: int, k: int, cuts: list[float], tb: bool) -> None:
    def layer(x: Any, y: Any, bias: Any, residual: Any) -> Any:
        axes = ((1,), (1 if tb else 0,))
        sums = table["dot"](x, y, contract=axes, batch=((), ()), dtype=x.dtype)
        sums = table["add"](sums, table["broadcast"](bias, shape=(m, n), axes=(1,)))
        return [table["abs"](sums), table["sub"](sums, residual)]

    shapes = ((m, k), (n, k) if tb else (k, n), (n,), (m, n))
    graph = graph_of(layer, *((s, "float32") for s in shapes))
    values = matrices_of(graph, seed=m + n + k)
    for found, meant in zip(native(graph, values, cuts), run(graph, values), strict=True):
        size = float(abs(meant).max(initial=1.0))
        np.testing.assert_allclose(found, meant, rtol=1e-4, atol=1e-5 * size)
