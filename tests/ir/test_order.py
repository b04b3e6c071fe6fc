"""Sorting, the largest, places and running reductions against plain Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from derivative_checks import check, pull
from hypothesis import given
from hypothesis import strategies as st

from trilobite.base import dtypes as dt
from trilobite.ir.evaluate import run
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType, dim

Array = np.ndarray[Any, Any]
numbers = st.floats(width=32) | st.sampled_from([0.0, -0.0, 1.0, math.nan, math.inf, -math.inf])


def rank(v: float) -> tuple[bool, float]:
    """NaN last."""
    return (math.isnan(v), 0.0 if math.isnan(v) else v)


@given(
    st.lists(numbers, max_size=12),
    st.sampled_from([dt.float64, dt.float32, dt.float16, dt.bfloat16, dt.float8_e5m2]),
)
def test_sort_is_stable_with_nan_last(values: list[float], dtype: Any) -> None:
    with np.errstate(all="ignore"):
        x = np.array(values, np.float32).astype(dtype)
    order = sorted(range(len(values)), key=lambda i: rank(float(x[i])))
    out, places = table["sort"](x, np.arange(len(values)), axis=0, keys=1)
    assert places.tolist() == order and out.tobytes() == x[order].tobytes()
    (alone,) = table["sort"](x, axis=0, keys=1)
    assert [str(float(v)) for v in alone] == [str(float(v)) for v in out]


@given(st.lists(st.tuples(st.integers(0, 2), numbers), max_size=12))
def test_the_first_key_comes_before_the_second(rows: list[tuple[int, float]]) -> None:
    a, b = np.array([r[0] for r in rows], np.int8), np.array([r[1] for r in rows])
    order = sorted(range(len(rows)), key=lambda i: (a[i], rank(b[i])))
    assert table["sort"](a, b, np.arange(len(rows)), axis=0, keys=2)[2].tolist() == order


@given(st.lists(numbers, min_size=1, max_size=12), st.data())
def test_top_k_falls_with_nan_first_and_equal_ones_in_order(values: list[float], data: Any) -> None:
    k = data.draw(st.integers(0, len(values)))
    x = np.array(values)
    order = sorted(
        range(len(values)), key=lambda i: (not math.isnan(x[i]), 0.0 if math.isnan(x[i]) else -x[i])
    )[:k]
    out, places = table["top_k"](x, k=k, axis=0)
    assert places.tolist() == order and places.dtype == dt.int64 and out.tobytes() == x[order].tobytes()


@given(st.lists(numbers, min_size=1, max_size=9))
def test_places_of_extremes(values: list[float]) -> None:
    x = np.array(values)
    nans = [i for i, v in enumerate(values) if math.isnan(v)]
    assert int(table["argmax"](x, axis=0)) == (nans[0] if nans else values.index(max(values)))
    assert int(table["argmin"](x, axis=0)) == (nans[0] if nans else values.index(min(values)))


# -- running reductions --------------------------------------------------------------------------------------

_FOLD = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "logsumexp": np.logaddexp}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", list(_FOLD))
@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 9])
def test_running_reductions_are_folds(kind: str, reverse: bool, n: int) -> None:
    x = np.random.default_rng(n).normal(size=(2, n)) * 3
    want = np.empty_like(x)
    for row, out in zip(x, want, strict=True):
        total = None
        for i in range(n - 1, -1, -1) if reverse else range(n):
            total = row[i] if total is None else _FOLD[kind](total, row[i])
            out[i] = total
    np.testing.assert_array_equal(table["cumulative"](x, axis=1, kind=kind, reverse=reverse), want)


def test_running_extremes_give_the_slope_to_the_latest_equal_element() -> None:
    x = np.array([1.0, 3.0, 3.0, 2.0, math.nan, 5.0])
    _, back = pull(lambda v: table["cumulative"](v, axis=0, kind="max", reverse=False), [x])
    assert back([np.arange(1.0, 7.0)])[0].tolist() == [1, 2, 7, 0, 11, 0]
    _, back = pull(lambda v: table["cumulative"](v, axis=0, kind="max", reverse=True), [x[:4]])
    assert back([np.arange(1.0, 5.0)])[0].tolist() == [0, 3, 3, 4]


def test_running_products_of_zeros_have_exact_slopes_to_third_order() -> None:
    x = np.array([2.0, 0.0, 3.0, 0.0, 5.0])
    rng = np.random.default_rng(0)
    check(lambda v: table["cumulative"](v, axis=0, kind="prod", reverse=False), [x], rng, order=3, tol=1e-4)
    check(lambda v: table["reduce_prod"](v, axes=(0,)), [x], rng, order=3, tol=1e-4)
    _, back = pull(lambda v: table["reduce_prod"](v, axes=(0,)), [np.array([2.0, 0.0, 3.0])])
    assert back([np.array(1.0)])[0].tolist() == [0, 6, 0]


def test_running_log_sums_start_from_nothing() -> None:
    x = np.array([-math.inf, -math.inf, 1.0, 800.0, -800.0])
    out, back = pull(lambda v: table["cumulative"](v, axis=0, kind="logsumexp", reverse=False), [x])
    assert out[0].tolist() == [-math.inf, -math.inf, 1.0, 800.0, 800.0]
    assert back([np.ones(5)])[0].tolist() == [0, 0, 1, 2, 0]


@pytest.mark.parametrize("kind", list(_FOLD))
def test_slopes_of_running_reductions_work_for_a_symbolic_length(kind: str) -> None:
    n = dim("n", max=40)

    def both(x: Any, ct: Any) -> list[Any]:
        return pull(lambda v: table["cumulative"](v, axis=0, kind=kind, reverse=False), [x])[1]([ct])

    graph = record_graph(both, [TensorType((n,), dt.float64)] * 2)
    rng = np.random.default_rng(0)
    for size in (1, 5, 33):
        x, ct = rng.normal(size=size), rng.normal(size=size)
        np.testing.assert_allclose(run(graph, [x, ct])[0], both(x, ct)[0], rtol=1e-12)


def test_sums_of_small_floats_accumulate_in_float32() -> None:
    x = np.full(1000, 0.1, dt.bfloat16)
    exact = 1000 * float(x[0])
    assert float(table["reduce_sum"](x, axes=(0,))) == float(
        np.asarray(exact, np.float32).astype(dt.bfloat16)
    )
    last = table["cumulative"](x, axis=0, kind="sum", reverse=False)[-1]
    assert abs(float(last) - exact) <= exact * 2.0**-8


def test_reductions_of_nothing() -> None:
    nothing = np.empty((0, 2))
    assert table["reduce_sum"](nothing, axes=(0,)).tolist() == [0, 0]
    assert table["reduce_prod"](nothing, axes=(0,)).tolist() == [1, 1]
    assert table["reduce_max"](nothing, axes=(0,)).tolist() == [-math.inf] * 2
    assert table["reduce_min"](nothing.astype(np.int8), axes=(0,)).tolist() == [127, 127]
    assert float(table["reduce_max"](np.empty(0, dt.float8_e4m3fn), axes=(0,))) == -448
    assert table["reduce_and"](np.empty((0, 2), bool), axes=(0,)).tolist() == [True, True]
    assert table["reduce_or"](np.empty((0, 2), np.uint8), axes=(0,)).tolist() == [0, 0]
    assert table["reduce_and"](np.empty(0, dt.int4), axes=(0,)).astype(int).tolist() == -1


def test_the_order_of_additions_depends_on_the_shape_alone() -> None:
    x = np.random.default_rng(0).normal(size=(64, 33)).astype(np.float32)
    other = np.asfortranarray(x)
    assert table["reduce_sum"](x, axes=(0, 1)).tobytes() == table["reduce_sum"](other, axes=(0, 1)).tobytes()
    assert table["reduce_prod"](x, axes=(0,)).tobytes() == table["reduce_prod"](other, axes=(0,)).tobytes()
