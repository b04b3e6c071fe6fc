"""Searching, sorting, sets, taking and scattering: against NumPy, eager, recorded and batched."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import trilobite as tb
from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError

Array = np.ndarray[Any, Any]
REALS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")


def same(got: tb.Tensor, want: Any) -> None:
    want = np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_array_equal(got.detach().numpy(), want)


def few(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Few distinct elements, so that equal ones abound."""
    values = np.random.default_rng(seed).integers(0, 4, shape)
    return (values if dtype.startswith("u") else values - 2).astype(dtype)


# -- where -----------------------------------------------------------------------------------------------


def test_where() -> None:
    mask, x, y = np.array([[True], [False]]), np.arange(3, dtype=np.float32), np.float64([[5], [6]])
    same(tb.where(tb.tensor(mask), tb.tensor(x), tb.tensor(y)), np.where(mask, x, y))
    same(tb.where(tb.tensor(mask), tb.tensor(x), 7), np.where(mask, x, np.float32(7)))
    same(tb.where(tb.tensor(mask), 1, 2.5), np.where(mask, 1, 2.5).astype(np.float32))
    same(tb.jit(tb.where)(*map(tb.tensor, (mask, x, y))), np.where(mask, x, y))
    for g, w in zip(tb.where(tb.tensor(mask)), np.where(mask), strict=True):
        same(g, w)


# -- nonzero ---------------------------------------------------------------------------------------------


@given(
    npst.arrays(
        "int8", npst.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4), elements=st.integers(-1, 1)
    )
)
def test_nonzero(x: Array) -> None:
    for g, w in zip(tb.nonzero(tb.tensor(x)), np.nonzero(x), strict=True):
        same(g, w)
    same(tb.argwhere(tb.tensor(x)), np.argwhere(x))
    found = np.count_nonzero(x)
    for size in (0, found, found + 2, x.size + 1):
        got = tb.jit(lambda t, n=size: tb.nonzero(t, size=n, fill_value=-7))(tb.tensor(x))
        for g, w in zip(got, np.nonzero(x), strict=True):
            same(g, np.concatenate([w, np.full(max(size - found, 0), -7)])[:size])


def test_nonzero_in_a_batch() -> None:
    x = np.array([[0, 1, 1], [1, 0, 0]])
    (got,) = tb.vmap(lambda r: tb.nonzero(r, size=2, fill_value=9))(tb.tensor(x))
    assert got.tolist() == [[1, 2], [0, 9]]


# -- searchsorted ----------------------------------------------------------------------------------------


@given(st.data(), st.sampled_from(REALS), st.sampled_from(["left", "right"]))
def test_searchsorted(data: st.DataObject, dtype: str, side: Any) -> None:
    line = np.sort(few(dtype, (data.draw(st.integers(0, 9)),), data.draw(st.integers(0, 5))))
    values = few(dtype, data.draw(npst.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4)), 3)
    want = np.searchsorted(line, values, side)
    same(tb.searchsorted(tb.tensor(line), tb.tensor(values), side=side), want)
    same(tb.jit(lambda a, b: tb.searchsorted(a, b, side=side))(tb.tensor(line), tb.tensor(values)), want)
    sorter = np.arange(len(line))[::-1].copy()
    same(
        tb.searchsorted(tb.tensor(line[::-1].copy()), tb.tensor(values), side=side, sorter=tb.tensor(sorter)),
        want,
    )


def test_searchsorted_of_numbers_and_nan() -> None:
    line = np.array([1.0, 2.0, np.nan, np.nan])
    for side in ("left", "right"):
        same(
            tb.searchsorted(tb.tensor(line), tb.tensor([np.nan, 3.0, 2.0], dtype=tb.float64), side=side),
            np.searchsorted(line, [np.nan, 3.0, 2.0], side),
        )
    assert tb.searchsorted(tb.asarray([1, 3, 5]), 4).item() == 2
    assert tb.bucketize(tb.asarray([0.5, 3.0]), tb.asarray([1.0, 3.0]), right=True).tolist() == [0, 2]


# -- sorting ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*REALS, "bool"])
@pytest.mark.parametrize("descending", [False, True])
def test_sorting_is_stable(dtype: str, descending: bool) -> None:
    x = few(dtype, (4, 7, 3)) if dtype != "bool" else few("int8", (4, 7, 3)) > 0
    for axis in (0, 1, -1):
        order = np.argsort(x if not descending else _falling(x), axis=axis, kind="stable")
        want = np.take_along_axis(x, order, axis)
        same(tb.argsort(tb.tensor(x), axis=axis, descending=descending), order)
        same(tb.sort(tb.tensor(x), axis=axis, descending=descending), want)
        same(tb.jit(lambda t, a=axis: tb.argsort(t, axis=a, descending=descending))(tb.tensor(x)), order)
    same(tb.vmap(lambda t: tb.sort(t, descending=descending))(tb.tensor(x)), want)


def _falling(x: Array) -> Array:
    """Keys whose rising order is the falling order of x."""
    return -np.unique(x, return_inverse=True)[1].reshape(x.shape).astype(np.int64)


def test_nan_sorts_last_and_signed_zeros_keep_their_order() -> None:
    x = np.array([np.nan, 1.0, 0.0, -0.0, -np.inf, np.nan, np.inf], np.float32)
    assert tb.argsort(tb.tensor(x)).tolist() == [4, 2, 3, 1, 6, 0, 5]
    assert tb.argsort(tb.tensor(x), descending=True).tolist() == [0, 5, 6, 1, 2, 3, 4]
    got = tb.sort(tb.tensor(x), descending=True).numpy()
    assert got.tobytes() == x[[0, 5, 6, 1, 2, 3, 4]].tobytes()


def test_sorting_without_dimensions_and_without_elements() -> None:
    assert tb.sort(tb.asarray(3.0)).item() == 3.0 and tb.argsort(tb.asarray(3.0)).item() == 0
    assert tb.sort(tb.zeros((2, 0))).shape == (2, 0)


@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8"])
@pytest.mark.parametrize("largest", [True, False])
def test_topk(dtype: str, largest: bool) -> None:
    x = few(dtype, (3, 8))
    order = np.argsort(_falling(x) if largest else x, axis=1, kind="stable")
    for k in (0, 1, 3, 8):
        got = tb.topk(tb.tensor(x), k, largest=largest)
        same(got.values, np.take_along_axis(x, order[:, :k], 1))
        same(got.indices, order[:, :k])
    values, places = tb.tensor(x).topk(2, dim=0)
    assert values.shape == places.shape == (2, 8)


def test_gradients_of_sorted_values_go_where_they_came_from() -> None:
    x = tb.tensor([3.0, 1.0, 2.0], requires_grad=True)
    (tb.sort(x) * tb.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [100, 1, 10]


# -- sets ------------------------------------------------------------------------------------------------

SETS = npst.arrays("float32", npst.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=5),
                   elements=st.sampled_from([0.0, -0.0, 1.0, -2.5, np.inf, np.nan]))  # fmt: skip


@given(SETS)
def test_unique(x: Array) -> None:
    t = tb.tensor(x)
    values, indices, inverse, counts = tb.unique_all(t)
    want = np.unique(x, equal_nan=False)
    np.testing.assert_array_equal(values.numpy(), want)
    assert values.dtype == t.dtype and indices.dtype == inverse.dtype == counts.dtype == tb.int64
    assert inverse.shape == x.shape and counts.sum().item() == x.size
    flat = x.reshape(-1)
    np.testing.assert_array_equal(flat[indices.numpy()], values.numpy())
    np.testing.assert_array_equal(values.numpy()[inverse.numpy()].reshape(x.shape), x)
    for v, i, c in zip(values.tolist(), indices.tolist(), counts.tolist(), strict=True):
        places = np.flatnonzero(flat == v)
        assert (c, i) == ((len(places), places[0]) if v == v else (1, i))
    np.testing.assert_array_equal(tb.unique_values(t).numpy(), want)
    assert tb.unique_counts(t).counts.tolist() == counts.tolist()
    assert tb.unique_inverse(t).inverse_indices.tolist() == inverse.tolist()


@pytest.mark.parametrize("dtype", [*REALS, "bool", "complex64"])
def test_unique_of_every_dtype(dtype: str) -> None:
    x = (
        few("int8", (20,)).astype(dtype)
        if dtype != "complex64"
        else few("int8", (20,)) + 1j * few("int8", (20,), 1)
    )
    same(tb.unique_values(tb.asarray(x).astype(dtype)), np.unique(x).astype(dtype))


def test_unique_of_a_fixed_size_inside_jit() -> None:
    x = tb.asarray([3, 1, 3, 2])
    got = tb.jit(lambda t: tb.unique_all(t, size=5, fill_value=-1))(x)
    assert got.values.tolist() == [1, 2, 3, -1, -1] and got.counts.tolist() == [1, 1, 2, 0, 0]
    assert got.inverse_indices.tolist() == [2, 0, 2, 1] and got.indices.tolist()[:3] == [1, 3, 0]
    assert tb.vmap(lambda t: tb.unique_values(t, size=2))(tb.asarray([[1, 1], [4, 2]])).tolist() == [
        [1, 0],
        [2, 4],
    ]


@pytest.mark.parametrize("dtype", [*REALS, "complex64"])
@pytest.mark.parametrize("invert", [False, True])
def test_isin(dtype: str, invert: bool) -> None:
    x, elements = few(dtype, (3, 4)), few(dtype, (2, 2), 7)[:1]
    want = np.isin(x, elements, invert=invert)
    same(tb.isin(tb.tensor(x), tb.tensor(elements), invert=invert), want)
    same(tb.jit(lambda a, b: tb.isin(a, b, invert=invert))(tb.tensor(x), tb.tensor(elements)), want)
    same(tb.isin(tb.tensor(x), 1, invert=invert), np.isin(x, 1, invert=invert))
    same(tb.isin(1, tb.tensor(x), invert=invert), np.asarray(np.isin(1, x, invert=invert)))
    same(tb.isin(tb.tensor(x), tb.zeros(0, dtype=dtype), invert=invert), np.isin(x, [], invert=invert))


def test_bincount() -> None:
    x = tb.asarray([1, 4, 1])
    assert tb.bincount(x).tolist() == [0, 2, 0, 0, 1]
    assert tb.bincount(x, weights=tb.asarray([0.5, 2.0, 1.0]), minlength=7).tolist() == [
        0,
        1.5,
        0,
        0,
        2,
        0,
        0,
    ]
    assert tb.jit(lambda t: tb.bincount(t, size=5))(x).tolist() == [0, 2, 0, 0, 1]


# -- taking and scattering -------------------------------------------------------------------------------

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take(axis: int) -> None:
    for indices in (np.array([0, -1, 0]), np.array([[1], [0]]), np.array(1), np.zeros((0,), int)):
        same(tb.take(tb.tensor(X), tb.tensor(indices), axis=axis), np.take(X, indices, axis))
        same(
            tb.jit(lambda x, i: tb.take(x, i, axis=axis))(tb.tensor(X), tb.tensor(indices)),
            np.take(X, indices, axis),
        )
    same(tb.take(tb.tensor(X[0, 0]), tb.tensor([2, 0])), X[0, 0][[2, 0]])
    same(tb.tensor(X).index_select(axis, tb.tensor([1, 0])), np.take(X, [1, 0], axis))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_along_axis(axis: int) -> None:
    order = np.argsort(-X, axis=axis)
    same(tb.take_along_axis(tb.tensor(X), tb.tensor(order), axis=axis), np.take_along_axis(X, order, axis))
    best = tb.argmax(tb.tensor(X), axis=axis, keepdims=True)
    same(tb.take_along_axis(tb.tensor(X), best, axis=axis), X.max(axis, keepdims=True))
    line = np.array([0, -1]).reshape([-1 if i == axis % 3 else 1 for i in range(3)])
    same(tb.take_along_axis(tb.tensor(X), tb.tensor(line), axis=axis), np.take(X, [0, -1], axis))


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(
    ("reduce", "by"),
    [("sum", np.sum), ("prod", np.prod), ("mean", np.mean), ("amax", np.max), ("amin", np.min)],
)
def test_scatter_reduce_with_and_without_what_was_there(reduce: str, by: Any, own: bool) -> None:
    rng = np.random.default_rng(11)
    x, source = rng.standard_normal((3, 5)) * 9, rng.standard_normal((3, 7)) * 9
    index = rng.integers(0, 4, (3, 7))
    want = x.copy()
    for r in range(3):
        for c in set(index[r].tolist()):
            want[r, c] = by([*([x[r, c]] if own else []), *source[r, index[r] == c]])
    run = lambda x, s: tb.scatter_reduce(x, 1, tb.tensor(index), s, reduce, include_self=own)  # noqa: E731
    for way in (run, tb.jit(run)):
        np.testing.assert_allclose(way(tb.tensor(x), tb.tensor(source)).numpy(), want, rtol=1e-12)
    slope = tb.jit(tb.grad(lambda x: run(x, tb.tensor(source)).sum()))(tb.tensor(x)).numpy()
    touched = np.zeros((3, 5), bool)
    np.put_along_axis(touched, index, True, 1)
    assert (slope[~touched] == 1).all() and (own or (slope[touched] == 0).all())


def test_scatter_reduce_by_an_unknown_name() -> None:
    with pytest.raises(ArgumentError, match="expected: one of sum, prod, mean, amax, amin"):
        tb.scatter_reduce(tb.zeros(3), 0, tb.tensor([1]), tb.ones(1), "median")


def test_repeat_interleave_takes_the_axis_by_its_place() -> None:
    x = np.random.default_rng(12).standard_normal((2, 3))
    same(tb.repeat_interleave(tb.tensor(x), 2, 1), np.repeat(x, 2, 1))
    same(tb.tensor(x).repeat_interleave(tb.tensor([1, 3]), 0), np.repeat(x, [1, 3], 0))
    same(tb.tensor(x).repeat_interleave(2), np.repeat(x, 2))


def test_gather_and_scatter_as_in_pytorch() -> None:
    x = tb.tensor(X[0])
    index = tb.asarray([[0, 2], [1, 1]])
    same(x.gather(1, index), np.take_along_axis(X[0][:2], index.numpy(), 1))
    source = tb.asarray([[10.0, 20.0], [30.0, 40.0]])
    want = X[0].copy()
    np.put_along_axis(want[:2], index.numpy(), source.numpy(), 1)
    same(x.scatter(1, index, source), want)
    added = X[0].copy()
    np.add.at(added, (np.array([[0, 0], [1, 1]]), index.numpy()), source.numpy())
    same(x.scatter_add(1, index, source), added)
    same(tb.jit(lambda t: t.scatter_add(1, index, source))(x), added)
    assert x.scatter(1, index, 5.0)[1, 1].item() == 5.0
    assert x.scatter(1, index, source, reduce="amax")[0, 2].item() == 20.0
    assert tb.scatter_reduce(x, 1, index, source, "prod")[1, 1].item() == 5.0 * 30 * 40
    y = x.clone()
    y.scatter_(1, index, source).scatter_add_(1, index, source)
    assert y[0, 0].item() == 20.0


def test_slices_by_index() -> None:
    x, rows = tb.zeros((3, 2)), tb.asarray([[1.0, 2.0], [3.0, 4.0]])
    i = tb.asarray([2, 2])
    assert tb.index_add(x, 0, i, rows).tolist() == [[0, 0], [0, 0], [4, 6]]
    assert tb.index_copy(x, 0, tb.asarray([0, -1]), rows).tolist() == [[1, 2], [0, 0], [3, 4]]
    assert tb.index_fill(x, 1, tb.asarray([0]), 7).tolist() == [[7, 0]] * 3
    x.index_add_(0, i, rows)
    assert x.tolist() == [[0, 0], [0, 0], [4, 6]]


def test_masks_as_functions() -> None:
    x, mask = tb.tensor(X[0]), tb.tensor(X[0] % 3 == 0)
    same(x.masked_fill(mask, -1), np.where(X[0] % 3 == 0, np.float32(-1), X[0]))
    same(tb.masked_fill(tb.asarray([1, 2]), tb.asarray([True, False]), 5), np.array([5, 2]))
    same(tb.masked_select(x, mask), X[0][X[0] % 3 == 0])
    got = tb.jit(lambda a, m: tb.masked_select(a, m, size=6, fill_value=-1))(x, mask)
    assert got.tolist() == [0, 3, 6, 9, -1, -1]
    y = x.clone()
    y.masked_fill_(mask, 100)
    same(y, np.where(X[0] % 3 == 0, np.float32(100), X[0]))


@given(st.data())
def test_gradients_of_gather_and_scatter(data: st.DataObject) -> None:
    index = data.draw(npst.arrays("int64", (2, 4), elements=st.integers(0, 2)))
    w = np.arange(8.0).reshape(2, 4) + 1
    g = tb.grad(lambda x: (x.gather(0, tb.asarray(index)) * tb.asarray(w)).sum())(
        tb.asarray(X[0].astype(np.float64))
    )
    want = np.zeros((3, 4))
    np.add.at(want, (index, np.arange(4)[None, :].repeat(2, 0)), w)
    same(g, want)


def test_every_index_dtype_and_every_operand_dtype() -> None:
    for d in sorted(dt.ALL, key=lambda d: d.name):
        x = tb.asarray(np.array([1, 0, 1]).astype(d)) if d != dt.float8_e8m0fnu else tb.ones(3, dtype=d)
        assert tb.take(x, tb.asarray([2, 0])).tolist() == [x[2].item(), x[0].item()]
    for name, n in itertools.product(("int8", "uint16", "uint64"), (1,)):
        assert tb.take(tb.asarray([5, 6]), tb.asarray([n], dtype=name)).item() == 6
