"""Any axes: batches, transposes, operands that have to be copied, symbolic sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.gemm.products import (
    NO_AXES,
    Axes,
    assert_product,
    dot_graph,
    graph_of,
    lowered,
    matrices,
    matrices_of,
    native,
    pieces,
    random_matrix,
)
from trilobite.base.dtypes import bfloat16
from trilobite.ir.primitive import table
from trilobite.ir.types import Symbol, dim

CASES: list[tuple[str, tuple[int, ...], tuple[int, ...], Axes, Axes]] = [
    ("one batch axis", (5, 7, 9), (5, 9, 20), ((2,), (1,)), ((0,), (0,))),
    ("attention scores", (2, 10, 3, 8), (2, 12, 3, 8), ((3,), (3,)), ((0, 2), (0, 2))),
    ("attention values", (2, 3, 10, 12), (2, 12, 3, 8), ((3,), (1,)), ((0, 1), (0, 2))),
    ("batch axes in another order", (4, 3, 5, 6), (3, 4, 6, 7), ((3,), (2,)), ((0, 1), (1, 0))),
    ("three batch axes", (2, 3, 2, 5, 6), (2, 2, 3, 6, 4), ((4,), (3,)), ((0, 1, 2), (0, 2, 1))),
    ("several rows axes", (3, 4, 5), (5, 6), ((2,), (0,)), NO_AXES),
    ("several contracted axes", (6, 4, 5), (4, 5, 7), ((1, 2), (0, 1)), NO_AXES),
    ("weight gradient", (3, 4, 5), (3, 4, 6), ((0, 1), (0, 1)), NO_AXES),
    ("contracted axes in another order", (6, 4, 5), (5, 4, 7), ((1, 2), (1, 0)), NO_AXES),
    ("contracted axes apart", (2, 3, 10, 8), (3, 8, 20), ((1, 3), (0, 1)), NO_AXES),
    ("free axes apart", (4, 5, 6), (3, 5, 7), ((1,), (1,)), NO_AXES),
    ("no free axes", (5, 9), (5, 9), ((1,), (1,)), ((0,), (0,))),
    ("outer product", (5,), (9,), ((), ()), NO_AXES),
    ("inner product", (300,), (300,), ((0,), (0,)), NO_AXES),
    ("row of a batch", (6, 1, 40), (6, 50, 40), ((2,), (2,)), ((0,), (0,))),
    ("column of a batch", (6, 50, 40), (6, 40), ((2,), (1,)), ((0,), (0,))),
    ("sizes of one", (1, 4, 1, 5), (1, 5, 1, 3), ((3,), (1,)), ((0,), (0,))),
    ("matrix times vector", (50, 40), (40,), ((1,), (0,)), NO_AXES),
    ("vector times matrix", (40,), (40, 50), ((0,), (0,)), NO_AXES),
]


@pytest.mark.parametrize("x, y, contract, batch", [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_any_axes(x: tuple[int, ...], y: tuple[int, ...], contract: Axes, batch: Axes) -> None:
    graph = dot_graph(x, y, "float32", "float32", contract, batch)
    values = matrices_of(graph)
    (found,) = native(graph, values)
    assert_product(found, *values, contract, batch)
    (cut,) = native(graph, values, cuts=(0.15, 0.5, 0.8))
    np.testing.assert_array_equal(cut, found)


@pytest.mark.parametrize("x, y, contract, batch", [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_units_write_disjoint_memory(
    x: tuple[int, ...], y: tuple[int, ...], contract: Axes, batch: Axes
) -> None:
    graph = dot_graph(x, y, "float32", "float32", contract, batch)
    if len(lowered(graph).steps) > 1:
        return  # a copy comes first, which pieces() does not run
    written = pieces(graph, matrices_of(graph), (0.15, 0.5, 0.8))
    np.testing.assert_array_equal(sum(w.astype(int) for w in written), 1)


@pytest.mark.parametrize("shape", [(50, 70, 20), (9, 500, 40), (500, 9, 40), (1, 700, 30), (300, 1, 30)])
def test_units_of_large_products_write_disjoint_memory(shape: tuple[int, int, int]) -> None:
    graph = matrices(*shape)
    written = pieces(graph, matrices_of(graph), (0.3, 0.31, 0.9))
    np.testing.assert_array_equal(sum(w.astype(int) for w in written), 1)
    assert all(w.any() for w in written[::2])


def test_transposes_before_the_product_cost_nothing() -> None:
    def attention(q: Any, k: Any) -> Any:
        q, k = (table["transpose"](v, axes=(0, 2, 1, 3)) for v in (q, k))
        return table["dot"](q, k, contract=((3,), (3,)), batch=((0, 1), (0, 1)), dtype=q.dtype)

    graph = graph_of(attention, ((2, 7, 3, 8), "float32"), ((2, 9, 3, 8), "float32"))
    assert len(lowered(graph).steps) == 1
    q, k = matrices_of(graph)
    (found,) = native(graph, [q, k])
    expected = np.einsum("bqhd,bkhd->bhqk", q.astype(np.float64), k.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_one_text_serves_all_sizes() -> None:
    def text(m: int, n: int, k: int) -> str:
        graph = dot_graph((m, k), (k, n), "float32", "float32", ((1,), (0,)))
        return lowered(graph).steps[0].kernel.text

    assert text(7, 64, 9) == text(512, 1024, 2048) == text(33, 31, 1)
    assert text(7, 8, 9) == text(512, 48, 2048) == text(33, 5, 1)  # the same, or that of narrower panels


def test_texts_are_made_once_and_depend_on_what_they_must() -> None:
    """A problem with the form of an earlier one gets its text; each difference in form gives another."""
    base = ((8, 9), (9, 10), ((1,), (0,)), NO_AXES)
    forms = [
        (*base, "float32", "float32"), (*base, "float64", "float64"), (*base, "float32", bfloat16),
        ((2, 8, 9), (2, 9, 10), ((2,), (1,)), ((0,), (0,)), "float32", "float32"),
        ((1, 9), (9, 10), ((1,), (0,)), NO_AXES, "float32", "float32"),
        ((1, 9), (10, 9), ((1,), (1,)), NO_AXES, "float32", "float32"),
    ]  # fmt: skip

    def kernel(form: Any, scale: int) -> Any:
        x, y, contract, batch, operand, result = form
        x, y = (tuple(d * scale if d in (8, 9) else d for d in s) for s in (x, y))  # as many columns
        return lowered(dot_graph(x, y, operand, result, contract, batch)).steps[0].kernel

    kernels = [kernel(f, 1) for f in forms]
    assert len({k.text for k in kernels}) == len(forms)
    for form, first in zip(forms, kernels, strict=True):
        assert kernel(form, 3) is first


@pytest.mark.parametrize("sizes", [(1, 1), (5, 9), (40, 33)])
def test_symbolic_sizes(sizes: tuple[int, int]) -> None:
    n, t = dim("n", max=64), dim("t", max=64)
    symbols = {Symbol("n", 1, 64): sizes[0], Symbol("t", 1, 64): sizes[1]}
    rng = np.random.default_rng(3)
    cases: list[tuple[Any, Any, Axes, Axes]] = [
        ((n, 20), (20, 30), ((1,), (0,)), NO_AXES),
        ((3, n, 8), (3, t, 8), ((2,), (2,)), ((0,), (0,))),
        ((3, n, t), (3, t, 8), ((2,), (1,)), ((0,), (0,))),
        ((n, t, 8), (n, 8, t), ((2,), (1,)), ((0,), (0,))),
        ((1, n), (n, 30), ((1,), (0,)), NO_AXES),
    ]
    for x, y, contract, batch in cases:
        graph = dot_graph(x, y, "float32", "float32", contract, batch)
        shapes = [[d if isinstance(d, int) else d.value(symbols) for d in s] for s in (x, y)]
        values = [random_matrix(rng, s, "float32") for s in shapes]
        (found,) = native(graph, values, cuts=(0.3,), sizes=symbols)
        assert_product(found, *values, contract, batch)
