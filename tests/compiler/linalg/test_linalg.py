"""`lu` and `triangular_solve` as kernels: rows in the order of the rules, residuals of rounding alone."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.arrays import assert_same_bits
from trilobite.base import dtypes as dt
from trilobite.compiler.program.program import hosts
from trilobite.compiler.targets.cpu.linalg.lower import lower_root
from trilobite.compiler.targets.cpu.target import compile_graph
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import result_types, table
from trilobite.ir.types import Symbol, TensorType, affine
from trilobite.native.host import AARCH64, SSE2, Host
from trilobite.native.objects import assembly
from trilobite.native.pool import set_threads, threads

Array = np.ndarray[Any, Any]
FLOATS = [np.float32, np.float64]
CASES = list(itertools.product([False, True], repeat=4))


def graph_of(name: str, types: list[TensorType], outputs: tuple[int, ...] = (), **attributes: Any) -> Graph:
    inputs = tuple(Var(t) for t in types)
    results = tuple(Var(t) for t in result_types(table[name], types, attributes))
    kept = tuple(results[i] for i in outputs) if outputs else results
    return Graph(inputs, (Equation(table[name], inputs, attributes, results),), kept)


def native(graph: Graph, values: list[Array]) -> list[Array]:
    executable = compile_graph(graph)
    assert not list(hosts(executable.main.program({}).steps))
    return executable([v.copy() for v in values])


def factored(x: Array, outputs: tuple[int, ...] = ()) -> list[Array]:
    return native(graph_of("lu", [TensorType(x.shape, x.dtype)], outputs), [x])


def matrices(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * np.exp2(rng.integers(-4, 5, shape))).astype(dtype)


# -- lu ------------------------------------------------------------------------------------------------------

SHAPES = [
    (1, 1),
    (2, 2),
    (7, 7),
    (8, 8),
    (9, 9),
    (33, 33),
    (40, 17),
    (17, 40),
    (3, 6, 6),
    (2, 2, 12, 5),
    (90, 90),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_factors_multiply_to_the_matrix_in_its_order(shape: tuple[int, ...], dtype: Any) -> None:
    x = matrices(shape, dtype)
    packed, pivots, order = factored(x)
    _, expected_pivots, expected_order = table["lu"].evaluate(x)
    assert_same_bits(pivots, expected_pivots)
    assert_same_bits(order, expected_order)
    m, n = shape[-2:]
    k = min(m, n)
    wide = packed.astype(np.float64)
    low = np.tril(wide[..., :, :k], -1) + np.eye(m, k)
    product = low @ np.triu(wide[..., :k, :])
    moved = np.take_along_axis(x.astype(np.float64), order[..., None], axis=-2)
    bound = 3 * k * np.finfo(dtype).eps * (abs(low) @ abs(np.triu(wide[..., :k, :])))
    assert (abs(product - moved) <= bound).all()
    assert (abs(low) <= 1.0).all()


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3), (3, 0), (0, 4, 4)], ids=str)
def test_nothing_has_factors(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    for found, expected in zip(factored(x), table["lu"].evaluate(x), strict=True):
        assert_same_bits(found, expected)


def test_the_first_of_equals_and_nan_before_all_are_pivots() -> None:
    equal = np.array([[1, 2, 0], [-1, 5, 1], [1, 2, 7]], np.float64)
    unknown = np.array([[3, 1, 2], [np.nan, 4, 5], [9, np.nan, 1]], np.float64)
    zero = np.zeros((3, 3))
    column = np.array([[0, 1.0, 2], [0, 3, 4], [0, -5, 6]])
    for x in (equal, unknown, zero, column):
        found, expected = factored(x), table["lu"].evaluate(x)
        assert_same_bits(found[1], expected[1])
        assert_same_bits(found[2], expected[2])
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-14)


@pytest.mark.parametrize("outputs", [(0,), (1,), (2, 0), (1, 2)])
def test_results_that_nobody_reads_are_left_out(outputs: tuple[int, ...]) -> None:
    x = matrices((3, 11, 11), np.float32)
    whole = factored(x)
    for found, i in zip(factored(x, outputs), outputs, strict=True):
        assert_same_bits(found, whole[i])


# -- triangular_solve ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("left", "lower", "transpose", "unit"), CASES)
def test_triangles_are_solved(left: bool, lower: bool, transpose: bool, unit: bool, dtype: Any) -> None:
    attributes = {"left": left, "lower": lower, "transpose": transpose, "unit": unit}
    for lead, n, columns in (
        ((), 1, 1),
        ((), 7, 3),
        ((3,), 9, 20),
        ((2, 2), 16, 8),
        ((), 41, 1),
        ((), 33, 37),
    ):
        rng = np.random.default_rng(n)
        a = (rng.uniform(-0.5, 0.5, (*lead, n, n)) + 2 * np.eye(n)).astype(dtype)
        b = matrices((*lead, n, columns) if left else (*lead, columns, n), dtype, n)
        types = [TensorType(v.shape, v.dtype) for v in (a, b)]
        (x,) = native(graph_of("triangular_solve", types, **attributes), [a, b])
        triangle = (np.tril if lower else np.triu)(a.astype(np.float64))
        if unit:
            triangle = triangle * (1 - np.eye(n)) + np.eye(n)
        if transpose:
            triangle = triangle.swapaxes(-1, -2)
        wide = x.astype(np.float64)
        product = triangle @ wide if left else wide @ triangle
        size = abs(triangle) @ abs(wide) if left else abs(wide) @ abs(triangle)
        assert (abs(product - b) <= 3 * n * np.finfo(dtype).eps * size).all(), (lead, n, columns)


def test_the_other_triangle_is_not_read_and_a_zero_divides() -> None:
    a = np.array([[2.0, np.nan], [1.0, 0.0]])
    b = np.array([[4.0], [5.0]])
    types = [TensorType(v.shape, v.dtype) for v in (a, b)]
    attributes = {"left": True, "lower": True, "transpose": False, "unit": False}
    (x,) = native(graph_of("triangular_solve", types, **attributes), [a, b])
    assert x.ravel().tolist() == [2.0, np.inf]


@pytest.mark.parametrize("left", [False, True])
def test_a_matrix_that_is_its_own_right_side_stays_whole_while_it_is_read(left: bool) -> None:
    """Both operands are one value that dies there: the result must not take its memory."""
    x = Var(TensorType((17, 17), dt.float64))
    doubled, solved, less = Var(x.type), Var(x.type), Var(x.type)
    attributes = {"left": left, "lower": True, "transpose": False, "unit": False}
    equations = (
        Equation(table["add"], (x, x), {}, (doubled,)),
        Equation(table["triangular_solve"], (doubled, doubled), attributes, (solved,)),
        Equation(table["neg"], (solved,), {}, (less,)),
    )
    value = np.random.default_rng(0).uniform(-0.5, 0.5, (17, 17)) + 2 * np.eye(17)
    graph = Graph((x,), equations, (less,))
    np.testing.assert_allclose(native(graph, [value])[0], run(graph, [value])[0], rtol=1e-9, atol=1e-12)


# -- around them ---------------------------------------------------------------------------------------------


def test_systems_within_a_compiled_function_and_eager_have_the_same_bits() -> None:
    a, b = tb.tensor(matrices((4, 30, 30), np.float32)), tb.tensor(matrices((4, 30, 5), np.float32, 1))
    for f in (tb.linalg.solve, lambda x, _: tb.linalg.inv(x)):
        assert_same_bits(tb.jit(f)(a, b).numpy(), f(a, b).numpy())


def test_any_number_of_matrices_and_of_threads() -> None:
    n = Symbol("n", 1, 40)
    graph = graph_of("lu", [TensorType((affine(0, [(n, 1)]), 9, 9), dt.float32)])
    before = threads()
    try:
        for count in (1, 7, 40):
            x = matrices((count, 9, 9), np.float32, count)
            found = []
            for number in (1, 2, 3):
                set_threads(number)
                found.append(compile_graph(graph)([x.copy()]))
            for other in found[1:]:
                for a, b in zip(found[0], other, strict=True):
                    assert_same_bits(a, b)
            assert_same_bits(found[0][1], run(graph, [x])[1])
    finally:
        set_threads(before)


def test_complex_systems_are_numpys() -> None:
    x = TensorType((3, 3), dt.complex64)
    (step,) = compile_graph(graph_of("lu", [x])).main.program({}).steps
    assert "lu of complex64 has no kernel" in str(step)


@pytest.mark.parametrize("host", [SSE2, AARCH64], ids=["sse2", "aarch64"])
def test_text_compiles_for_other_machines(host: Host) -> None:
    types = [TensorType((5, 5), dt.float64), TensorType((7, 5), dt.float64)]
    attributes = {"left": False, "lower": False, "transpose": True, "unit": False}
    for graph in (graph_of("lu", types[:1]), graph_of("triangular_solve", types, **attributes)):
        (step,) = lower_root(graph.equations[0], graph.inputs, graph.outputs, host).steps
        assert "entry" in assembly(step.kernel.text, step.kernel.level, host)
