"""Products of two matrices: every shape, transposition and cut, against float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.compiler.gemm.products import assert_product, matrices, matrices_of, native

SHAPES = [
    (1, 1, 1), (6, 16, 4), (7, 17, 5), (5, 3, 2), (13, 31, 300), (67, 129, 70), (33, 10, 513), (200, 40, 33),
    (2, 300, 9), (3, 5, 1030), (12, 2100, 3),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_transposition(shape: tuple[int, int, int], dtype: str) -> None:
    for ta, tb in itertools.product((False, True), repeat=2):
        graph = matrices(*shape, dtype, ta=ta, tb=tb)
        x, y = matrices_of(graph)
        (found,) = native(graph, [x, y])
        assert_product(found, x, y, graph.equations[0].attributes["contract"])


@pytest.mark.parametrize("shape", [(0, 5, 7), (5, 0, 7), (0, 0, 0), (1, 0, 3), (0, 1, 1)])
def test_nothing_to_compute(shape: tuple[int, int, int]) -> None:
    graph = matrices(*shape)
    (found,) = native(graph, matrices_of(graph))
    assert found.shape == shape[:2]


@pytest.mark.parametrize("m, n", [(5, 20), (1, 3), (40, 1), (1, 1)])
def test_an_empty_sum_is_zero(m: int, n: int) -> None:
    graph = matrices(m, n, 0)
    (found,) = native(graph, matrices_of(graph))
    np.testing.assert_array_equal(found, np.zeros((m, n), np.float32))


@pytest.mark.parametrize(
    "shape", [(50, 70, 600), (9, 500, 40), (500, 9, 40), (1, 700, 300), (300, 1, 300), (4, 100, 8)]
)
@pytest.mark.parametrize("tb", [False, True])
def test_bits_do_not_depend_on_the_cut(shape: tuple[int, int, int], tb: bool) -> None:
    graph = matrices(*shape, tb=tb)
    values = matrices_of(graph)
    (whole,) = native(graph, values)
    for cuts in ((0.5,), (0.1, 0.45, 0.77), tuple(i / 13 for i in range(13))):
        (cut,) = native(graph, values, cuts)
        np.testing.assert_array_equal(cut.view(np.uint32), whole.view(np.uint32))


@pytest.mark.parametrize("shape", [(7, 19, 40), (1, 40, 50), (40, 1, 50), (3, 3, 3)])
def test_nan_and_infinity_flow(shape: tuple[int, int, int]) -> None:
    graph = matrices(*shape)
    x, y = matrices_of(graph)
    x[0, 1], y[2, 0], x[-1, 0] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        expected = x.astype(np.float64) @ y.astype(np.float64)
    (found,) = native(graph, [x, y])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    whole = np.isinf(expected)
    np.testing.assert_array_equal(found[whole], expected[whole].astype(np.float32))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-4, atol=1e-4)


def test_operands_may_begin_anywhere() -> None:
    graph = matrices(20, 33, 50)
    values = []
    for v in matrices_of(graph):
        room = np.zeros(v.nbytes + 64, np.uint8)
        start = (-room.ctypes.data) % 64 + v.dtype.itemsize
        values.append(room[start : start + v.nbytes].view(v.dtype).reshape(v.shape))
        values[-1][...] = v
    (found,) = native(graph, values)
    assert_product(found, *values, ((1,), (0,)))
