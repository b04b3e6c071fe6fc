"""Primitives that random graphs seldom draw, with sizes that only a run knows: as at the size itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.test_bounded import through_bounds
from trilobite.compiler.graph.bounded import bound
from trilobite.ir.evaluate import run
from trilobite.ir.primitives import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType, dim

N, M = dim("n", min=1, max=9), dim("m", min=1, max=7)
F, L, J = np.float32, np.int64, np.int32
# primitive, types of operands (of integers: the axes of the first that their columns or all of them name)
CASES: list[tuple[str, list[tuple[tuple[Any, ...], Any, tuple[int, ...]]], dict[str, Any]]] = [
    ("gather_nd", [((N, 5), F, ()), ((7, 2), L, (0, 1))], {"axes": (0, 1)}),
    ("gather_nd", [((N, M), F, ()), ((7, 2), J, (1, 0))], {"axes": (1, 0)}),
    ("gather_nd", [((N, 3), F, ()), ((M, 1), L, (0,))], {"axes": (0,)}),
    ("gather_nd", [((4, 3), F, ()), ((M, 2), L, (0, 1))], {"axes": (0, 1)}),
    ("scatter", [((N, 4), F, ()), ((6, 1), L, (0,)), ((6, 4), F, ())], {"axes": (0,), "kind": "add"}),
    ("scatter", [((5, 4), F, ()), ((M, 1), J, (0,)), ((M, 4), F, ())], {"axes": (0,), "kind": "add"}),
    ("scatter", [((N, 4), F, ()), ((M, 2), L, (0, 1)), ((M,), F, ())], {"axes": (0, 1), "kind": "add"}),
    ("scatter", [((3, N), F, ()), ((M, 2), J, (1, 0)), ((M,), F, ())], {"axes": (1, 0), "kind": "add"}),
    ("scatter", [((N, N), F, ()), ((M, 2), L, (0, 1)), ((M,), F, ())], {"axes": (0, 1), "kind": "add"}),
    ("scatter", [((N, 4), F, ()), ((1, 1), L, (0,)), ((1, 4), F, ())], {"axes": (0,), "kind": "set"}),
    ("scatter_reduce", [((N, 4), F, ()), ((M, 1), L, (0,)), ((M, 4), F, ())], {"axes": (0,), "kind": "mul"}),
    ("scatter_along", [((N, 3), F, ()), ((5, 3), L, (0,)), ((5, 3), F, ())], {"axis": 0, "kind": "add"}),
    ("scatter_along", [((5, 3), F, ()), ((M, 3), J, (0,)), ((M, 3), F, ())], {"axis": 0, "kind": "add"}),
    ("scatter_along", [((2, N), F, ()), ((2, M), L, (1,)), ((2, M), F, ())], {"axis": 1, "kind": "add"}),
    (
        "scatter_reduce_along",
        [((N, 3), F, ()), ((M, 3), L, (0,)), ((M, 3), F, ())],
        {"axis": 0, "kind": "mul"},
    ),
    ("take_along", [((N, 3), F, ()), ((5, 3), L, (0,))], {"axis": 0}),
    ("take_along", [((2, N), F, ()), ((2, M), J, (1,))], {"axis": 1}),
    ("sort", [((N, 3), F, ())], {"axis": 0, "keys": 1}),
    ("sort", [((3, N), L, (1,)), ((3, N), F, ())], {"axis": 1, "keys": 1}),
    ("sort", [((N,), L, (0,)), ((N,), J, (0,)), ((N,), F, ())], {"axis": 0, "keys": 2}),
    ("top_k", [((N, 3), F, ())], {"k": 1, "axis": 0}),
    ("top_k", [((N, 3), F, ())], {"k": 2, "axis": 1}),
    (
        "dot",
        [((4, N), F, ()), ((N, 3), F, ())],
        {"contract": ((1,), (0,)), "batch": ((), ()), "dtype": np.dtype(F)},
    ),
    (
        "dot",
        [((N, M, 4), F, ()), ((M, N, 3), F, ())],
        {"contract": ((0, 1), (1, 0)), "batch": ((), ()), "dtype": np.dtype(F)},
    ),
    *(
        (
            "window_reduce",
            [((2, M, N), F, ())],
            {
                "size": (2, 2),
                "stride": (1, 1),
                "low": (1, 1),
                "high": (1, 0),
                "dilation": (1, 1),
                "kind": kind,
            },
        )
        for kind in ("max", "min", "sum")
    ),
    (
        "window_argmax",
        [((N, 3, 6), F, ())],
        {"size": (2,), "stride": (2,), "low": (0,), "high": (0,), "dilation": (1,)},
    ),
    (
        "conv_weight_grad",
        [((N, 3, 9), F, ()), ((N, 3, 5), F, ())],
        {
            "stride": (2,),
            "low": (2,),
            "high": (1,),
            "w_dilation": (1,),
            "groups": 3,
            "x_dilation": (1,),
            "dtype": np.dtype(F),
            "kernel": (4,),
        },
    ),
    ("qr", [((N, 4, 3), F, ())], {"mode": "reduced"}),
    ("fft", [((N, 4), np.complex64, ())], {"axes": (1,), "inverse": False}),
]


def _all(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple | list) else [found]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_what_lies_behind_a_size_is_not_read(case: int) -> None:
    name, operands, attributes = CASES[case]
    primitive = table[name]

    def called(*values: Any) -> Any:
        return _all(primitive(*values, **attributes))

    types = [TensorType(shape, np.dtype(dtype)) for shape, dtype, _ in operands]
    graph = record_graph(called, types)
    rng = np.random.default_rng(case)
    for n, m in ((9, 7), (1, 1), (4, 6), (8, 2), (9, 1)):
        real = {id(N): n, id(M): m}
        shapes = [tuple(d if isinstance(d, int) else real[id(d)] for d in shape) for shape, _, _ in operands]
        values = []
        for shape, (_, dtype, axes) in zip(shapes, operands, strict=True):
            if not axes:
                values.append(rng.standard_normal(shape).astype(dtype))
            elif len(axes) == shape[-1] and "axes" in attributes:
                values.append(rng.integers(0, [shapes[0][a] for a in axes], shape).astype(dtype))
            else:
                values.append(rng.integers(0, shapes[0][axes[0]], shape).astype(dtype))
        expected = run(graph, values)
        for found, wanted in zip(through_bounds(graph, values, rng), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


REFUSED: list[tuple[str, tuple[Any, ...], Any, dict[str, Any], str]] = [
    ("fft", (4, N), np.complex64, {"axes": (1,), "inverse": False}, "fft along a size that the run decides"),
    ("qr", (2, N, N), F, {"mode": "reduced"}, "qr of a matrix whose size the run decides"),
    (
        "window_argmax",
        (2, N),
        F,
        {"size": (2,), "stride": (1,), "low": (1,), "high": (0,), "dilation": (1,)},
        "counts the places of a plane whose size the run decides",
    ),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_needs_each_size_by_itself_says_so(case: int) -> None:
    name, shape, dtype, attributes, why = REFUSED[case]
    graph = record_graph(lambda x: _all(table[name](x, **attributes)), [TensorType(shape, np.dtype(dtype))])
    assert why in str(bound(graph))
