"""Gather, scatter and windows against loops over their elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from derivative_checks import pull, push
from hypothesis import given
from hypothesis import strategies as st

from trilobite.base import dtypes as dt
from trilobite.ir.primitive import table

Array = np.ndarray[Any, Any]
FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "max": max, "min": min,
}  # fmt: skip


def clamp(i: int, size: int) -> int:
    return min(max(int(i), 0), size - 1)


def gather_loop(x: Array, indices: Array, axes: tuple[int, ...]) -> Array:
    rest = [a for a in range(x.ndim) if a not in axes]
    out = np.empty((*indices.shape[:-1], *(x.shape[a] for a in rest)), x.dtype)
    for point in np.ndindex(*indices.shape[:-1]):
        where: list[Any] = [slice(None)] * x.ndim
        for k, a in enumerate(axes):
            where[a] = clamp(indices[(*point, k)], x.shape[a])
        out[point] = x[tuple(where)]
    return out


def scatter_loop(x: Array, indices: Array, updates: Array, axes: tuple[int, ...], kind: str) -> Array:
    """One update after the other, in row-major order."""
    out = x.copy()
    rest = [a for a in range(x.ndim) if a not in axes]
    for point in np.ndindex(*indices.shape[:-1]):
        at = {a: clamp(indices[(*point, k)], x.shape[a]) for k, a in enumerate(axes)}
        for r in np.ndindex(*(x.shape[a] for a in rest)):
            full = tuple({**at, **dict(zip(rest, r, strict=True))}[a] for a in range(x.ndim))
            out[full] = FOLD[kind](out[full], updates[(*point, *r)])
    return out


@st.composite
def points(draw: Any) -> tuple[Array, Array, tuple[int, ...], np.random.Generator]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    axes = tuple(draw(st.permutations(range(len(shape))))[: draw(st.integers(1, len(shape)))])
    lead = tuple(draw(st.lists(st.integers(0, 4), max_size=2)))
    indices = rng.integers(-2, 6, (*lead, len(axes))).astype(
        draw(st.sampled_from(["int8", "int32", "int64"]))
    )
    return rng.normal(size=shape), indices, axes, rng


@given(points())
def test_gather_nd_reads_every_point(case: Any) -> None:
    x, indices, axes, _ = case
    np.testing.assert_array_equal(table["gather_nd"](x, indices, axes=axes), gather_loop(x, indices, axes))


@given(points(), st.sampled_from(["set", "add", "mul", "max", "min"]))
def test_scatter_writes_in_order(case: Any, kind: str) -> None:
    x, indices, axes, rng = case
    updates = rng.normal(size=gather_loop(x, indices, axes).shape)
    name = "scatter" if kind in ("set", "add") else "scatter_reduce"
    want = scatter_loop(x, indices, updates, axes, kind)
    out = table[name](x, indices, updates, axes=axes, kind=kind)
    assert out.tobytes() == want.tobytes()  # the order of additions is part of the meaning


@given(points(), st.sampled_from(["set", "add"]))
def test_scatter_is_the_adjoint_of_gather(case: Any, kind: str) -> None:
    x, indices, axes, rng = case
    updates = rng.normal(size=gather_loop(x, indices, axes).shape)
    _, back = pull(lambda v, u: table["scatter"](v, indices, u, axes=axes, kind=kind), [x, updates])
    ct = rng.normal(size=x.shape)
    to_x, to_updates = back([ct])
    tangent = rng.normal(size=updates.shape)
    _, (slope,) = push(
        lambda v, u: table["scatter"](v, indices, u, axes=axes, kind=kind), [x, updates], [x, tangent]
    )
    np.testing.assert_allclose(
        (ct * slope).sum(), (to_x * x).sum() + (to_updates * tangent).sum(), atol=1e-12
    )


def test_of_several_sets_to_one_place_the_last_stays_and_gets_the_slope() -> None:
    x, at, u = np.zeros(3), np.array([[1], [1], [0], [1]]), np.array([1.0, 2.0, 3.0, 4.0])
    assert table["scatter"](x, at, u, axes=(0,), kind="set").tolist() == [3, 4, 0]
    _, back = pull(lambda v: table["scatter"](x, at, v, axes=(0,), kind="set"), [u])
    assert back([np.array([10.0, 20.0, 30.0])])[0].tolist() == [0, 0, 10, 20]


def test_small_floats_accumulate_in_float32() -> None:
    x = np.array([256.0], dt.bfloat16)
    ones = np.ones(8, dt.bfloat16)  # 256 + 1 is 256 in bfloat16
    assert float(table["scatter"](x, np.zeros((8, 1), int), ones, axes=(0,), kind="add")[0]) == 264.0


@pytest.mark.parametrize("kind", ["set", "add", "mul", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_lanes_are_points_of_their_own(axis: int, kind: str) -> None:
    rng = np.random.default_rng(axis)
    x, shape = rng.normal(size=(3, 4, 2)), [3, 4, 2]
    shape[axis] = 5
    at, u = rng.integers(-1, 5, shape), rng.normal(size=shape)
    want = x.copy()
    for i in np.ndindex(*shape):
        place = (*i[:axis], clamp(at[i], x.shape[axis]), *i[axis + 1 :])
        want[place] = FOLD[kind](want[place], u[i])
    name = "scatter_along" if kind in ("set", "add") else "scatter_reduce_along"
    assert table[name](x, at, u, axis=axis, kind=kind).tobytes() == want.tobytes()
    taken = table["take_along"](x, at, axis=axis)
    for i in np.ndindex(*shape):
        assert taken[i] == x[(*i[:axis], clamp(at[i], x.shape[axis]), *i[axis + 1 :])]


def test_equal_extremes_share_the_slope() -> None:
    x, at, u = np.array([1.0, 5.0]), np.array([0, 0, 1, 1]), np.array([3.0, 3.0, 5.0, 2.0])
    _, back = pull(lambda *v: table["scatter_reduce_along"](v[0], at, v[1], axis=0, kind="max"), [x, u])
    to_x, to_u = back([np.array([6.0, 8.0])])
    assert to_x.tolist() == [0, 4] and to_u.tolist() == [3, 3, 4, 0]


def test_product_with_zeros_has_exact_slopes() -> None:
    x, at, u = np.array([2.0]), np.zeros(3, int), np.array([0.0, 3.0, 5.0])
    _, back = pull(lambda *v: table["scatter_reduce_along"](v[0], at, v[1], axis=0, kind="mul"), [x, u])
    to_x, to_u = back([np.array([1.0])])
    assert to_x.tolist() == [0] and to_u.tolist() == [30, 0, 0]


def test_gather_puts_the_axes_of_the_indices_in_place_of_the_axis() -> None:
    x, at = np.arange(24.0).reshape(2, 3, 4), np.array([[0, 2], [1, 9]])
    out = table["gather"](x, at, axis=1)
    np.testing.assert_array_equal(out, x[:, np.minimum(at, 2), :])


@given(st.integers(0, 2**32), st.integers(1, 3))
def test_windows_are_clamped_inside(seed: int, ndim: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 6, ndim))
    sizes = tuple(int(rng.integers(0, n + 1)) for n in shape)
    x, y = rng.normal(size=shape), rng.normal(size=sizes)
    starts = [np.asarray(s) for s in rng.integers(-4, 9, ndim)]
    first = [min(max(int(s), 0), d - n) for s, d, n in zip(starts, shape, sizes, strict=True)]
    window = tuple(slice(f, f + n) for f, n in zip(first, sizes, strict=True))
    np.testing.assert_array_equal(table["dynamic_slice"](x, *starts, sizes=sizes), x[window])
    want = x.copy()
    want[window] = y
    np.testing.assert_array_equal(table["dynamic_update_slice"](x, y, *starts), want)


def test_reading_at_computed_places_keeps_no_values_for_the_backward_pass() -> None:
    """So that tensors may be changed in place afterwards."""
    assert table["gather"].keeps(1) == ((1,), False, True)
    assert table["scatter"].keeps(0b101)[0] == (1,)
    assert table["dynamic_slice"].keep == (0,) and table["dynamic_update_slice"].keep == (0, 1)
