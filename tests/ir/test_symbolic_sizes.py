"""One recording serves many sizes: batches and lengths that only a run knows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from derivative_checks import batched, pull
from test_primitive_table import NAMES, assert_same, cases, loop

from trilobite.base import dtypes as dt
from trilobite.base.errors import ShapeError
from trilobite.ir.evaluate import run
from trilobite.ir.primitive import Absent, table
from trilobite.ir.text import parse, show
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType, dim, type_of
from trilobite.ir.verify import verify

N = dim("n", min=1, max=64)
FIXED = {"callback": "one call per element needs their number", "print": "it gives no result to compare"}
BATCHED = [n for n in NAMES if not isinstance(table[n].batch, Absent) and n not in FIXED]


@pytest.mark.parametrize("name", BATCHED)
def test_a_batch_of_any_size_is_one_recording(name: str) -> None:
    many = [list(cases(name, seed)) for seed in range(5)]
    for case in zip(*many, strict=True):
        fn = partial(table[name], **case[0][1])
        operands = [np.stack(column) for column in zip(*(c[0] for c in case), strict=True)]
        mapped = [True] * len(operands)
        types = [TensorType((N, *o.shape[1:]), o.dtype) for o in operands]
        graph = record_graph(lambda *v, f=fn, m=mapped: batched(f, v, m, N), types)
        verify(graph)
        for size in (1, 5):
            values = [o[:size] for o in operands]
            for got, want in zip(run(graph, values), loop(fn, values, mapped, size), strict=True):
                assert_same(got, want)


# -- lengths -------------------------------------------------------------------------------------------------

Fn = Callable[..., Any]
_LINE, _PLACES = TensorType((N,), dt.float64), TensorType((N,), dt.int64)


def along(name: str, **attributes: Any) -> Fn:
    return partial(table[name], **attributes)


def _column(indices: Any) -> Any:
    return table["reshape"](indices, shape=(*indices.shape, 1))


_LENGTHS: dict[str, tuple[Fn, list[TensorType]]] = {
    "gather": (along("gather", axis=0), [_LINE, _PLACES]),
    "gather_nd": (lambda x, i: table["gather_nd"](x, _column(i), axes=(0,)), [_LINE, _PLACES]),
    "take_along": (along("take_along", axis=0), [_LINE, _PLACES]),
    "scatter set": (lambda x, i, u: table["scatter"](x, _column(i), u, axes=(0,), kind="set"), [_LINE,
    _PLACES, _LINE]),
    "scatter_along": (along("scatter_along", axis=0, kind="set"), [_LINE, _PLACES, _LINE]),
    "scatter mul": (along("scatter_reduce_along", axis=0, kind="mul"), [_LINE, _PLACES, _LINE]),
    "scatter max": (along("scatter_reduce_along", axis=0, kind="max"), [_LINE, _PLACES, _LINE]),
    "sort": (along("sort", axis=0, keys=1), [_LINE, _LINE]),
    "top_k": (along("top_k", k=1, axis=0), [_LINE]),
    "reduce_prod": (along("reduce_prod", axes=(0,)), [_LINE]),
    "reduce_max": (along("reduce_max", axes=(0,)), [_LINE]),
    "dynamic_slice": (along("dynamic_slice", sizes=(1,)), [_LINE, TensorType((), dt.int64)]),
    "concatenate": (along("concatenate", axis=0), [_LINE, _LINE]),
    "pad": (along("pad", low=(1,), high=(2,), between=(1,), value=0.0), [_LINE]),
}  # fmt: skip


@pytest.mark.parametrize("name", list(_LENGTHS))
def test_slopes_along_a_length_that_only_a_run_knows(name: str) -> None:
    fn, types = _LENGTHS[name]

    def slopes(*values: Any) -> list[Any]:
        outs, back = pull(fn, values)
        ones = [None if o.dtype == dt.int64 else table["sin"](o) for o in outs]
        return [*outs, *(r for r in back(ones) if r is not None)]

    graph = record_graph(slopes, types)
    verify(graph)
    assert parse(show(graph)) == graph
    rng = np.random.default_rng(3)
    for size in (1, 4, 9):
        shapes = [tuple(size if d is N or d == N else d for d in t.shape) for t in types]
        values = [
            rng.normal(size=s) if t.dtype == dt.float64 else np.asarray(rng.integers(-1, size + 1, s))
            for s, t in zip(shapes, types, strict=True)
        ]
        for got, want in zip(run(graph, values), slopes(*values), strict=True):
            assert type_of(got) == type_of(want)
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


def test_a_reshape_beside_two_symbolic_axes() -> None:
    """n·n is no affine size, but as many elements as n·n."""
    n = dim("n", max=9)
    square = TensorType((1, n, n), dt.float32)
    graph = record_graph(lambda x: [table["reshape"](x, shape=(n, 1, n))], [square])
    verify(graph)
    x = np.arange(9, dtype=np.float32).reshape(1, 3, 3)
    assert np.array_equal(run(graph, [x])[0], x.reshape(3, 1, 3))
    assert table["exp"].cost([square], [square], {}) == 10 * 81
    with pytest.raises(ShapeError) as error:
        record_graph(lambda x: [table["reshape"](x, shape=(n, n, 2))], [square])
    assert "expected: 1·n·n elements" in str(error.value)
