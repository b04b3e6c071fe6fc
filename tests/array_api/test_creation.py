"""Creation: dtypes, shapes, values, memory; eager and recorded."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trilobite as tb
from trilobite.base import dtypes as dt

STANDARD = tuple(tb.__array_namespace_info__().dtypes())
SHAPES = [(), (3,), (0,), (2, 0, 3), (4, 1, 2)]
EVERY = sorted(dt.ALL, key=lambda d: d.name)


def same(got: tb.Tensor, want: Any) -> None:
    want = np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    assert got.numpy().tobytes() == np.ascontiguousarray(want).tobytes()


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_filled_tensors_of_every_dtype(dtype: Any) -> None:
    number = {"bool": True, "int": 3, "float": 0.5, "complex": 1 - 2j}[dt.kind(dtype)]
    for shape in SHAPES:
        for make, value in ((tb.zeros, 0), (tb.ones, 1), (lambda s, **k: tb.full(s, number, **k), number)):
            if dtype == dt.float8_e8m0fnu and value == 0:
                continue  # a format of powers of two: it has no zero
            want = np.full(shape, np.asarray(value).astype(dtype))
            same(make(shape, dtype=dtype), want)
            same(tb.jit(lambda make=make, shape=shape: make(shape, dtype=dtype))(), want)
        assert tb.empty(shape, dtype=dtype).shape == shape and tb.empty(shape, dtype=dtype).dtype == dtype


def test_defaults() -> None:
    assert tb.zeros(2).dtype == tb.ones((2,)).dtype == tb.empty(2).dtype == tb.eye(2).dtype == tb.float32
    assert tb.linspace(0, 1, 3).dtype == tb.arange(0.0, 1.0, 0.5).dtype == tb.float32
    assert tb.arange(3).dtype == tb.full(2, 7).dtype == tb.asarray([1, 2]).dtype == tb.int64
    assert tb.full(2, 1.5).dtype == tb.asarray([1.0]).dtype == tb.asarray([]).dtype == tb.float32
    assert tb.full(2, True).dtype == tb.asarray([True, False]).dtype == tb.bool
    assert tb.full(2, 1j).dtype == tb.asarray(1j).dtype == tb.linspace(0, 1j, 2).dtype == tb.complex64
    assert tb.zeros(3).shape == (3,) and tb.zeros(()).shape == ()


@pytest.mark.parametrize("dtype", [None, "int8", "float64"])
def test_likes(dtype: str | None) -> None:
    x = tb.ones((2, 3), dtype=tb.int32)
    want = tb.int32 if dtype is None else getattr(tb, dtype)
    for out, value in (
        (tb.zeros_like(x, dtype=dtype), 0),
        (tb.ones_like(x, dtype=dtype), 1),
        (tb.full_like(x, 5, dtype=dtype), 5),
    ):
        assert out.shape == (2, 3) and out.dtype == want and out.tolist() == [[value] * 3] * 2
    assert tb.empty_like(x, dtype=dtype).dtype == want
    assert tb.full_like(tb.ones(2), tb.asarray(3.0)).tolist() == [3.0, 3.0]


ENDS = [0, 1, 5, -3, 10, 0.5, -2.5, 3.0]


@pytest.mark.parametrize("dtype", [None, "int8", "int64", "float32", "float64", "uint8"])
def test_arange(dtype: str | None) -> None:
    for start, stop, step in itertools.product(ENDS, ENDS, [1, 2, -1, 3, 0.3, -0.75]):
        if dtype == "uint8" and (min(start, stop) < 0 or step < 0):
            continue
        whole = all(isinstance(v, int) for v in (start, stop, step))
        count = len(np.arange(start, stop, step))
        want = (start + np.arange(count) * step).astype(dtype or ("int64" if whole else "float32"))
        same(tb.arange(start, stop, step, dtype=dtype), want)
        if whole:
            same(tb.jit(lambda s=start, e=stop, d=step: tb.arange(s, e, d, dtype=dtype))(), want)
    same(tb.arange(4), np.arange(4))


def test_arange_of_large_integers_is_exact() -> None:
    assert tb.arange(2**62, 2**62 + 3).tolist() == [2**62, 2**62 + 1, 2**62 + 2]
    assert tb.arange(2**64 - 3, 2**64 - 1, dtype=tb.uint64).tolist() == [2**64 - 3, 2**64 - 2]


@given(
    st.floats(-100, 100),
    st.floats(-100, 100),
    st.integers(0, 20),
    st.booleans(),
    st.sampled_from(["float32", "float64"]),
)
def test_linspace(start: float, stop: float, num: int, endpoint: bool, dtype: str) -> None:
    got = tb.linspace(start, stop, num, endpoint=endpoint, dtype=dtype)
    same(got, np.linspace(start, stop, num, endpoint=endpoint).astype(dtype))
    if num:
        assert got[0].item() == np.dtype(dtype).type(start)
    if num > 1 and endpoint:
        assert got[-1].item() == np.dtype(dtype).type(stop)


def test_linspace_of_integers_keeps_its_ends() -> None:
    ends = 2**62 + 1, 2**63 - 1
    got = tb.linspace(*ends, 5, dtype=tb.int64)
    assert (got[0].item(), got[-1].item()) == ends


def test_logspace() -> None:
    np.testing.assert_allclose(tb.logspace(0, 3, 4).numpy(), [1, 10, 100, 1000], rtol=1e-6)


@pytest.mark.parametrize("k", [0, 1, -1, 5, -5, 10**30, -(10**30)])
def test_eye_and_triangles(k: int) -> None:
    bounded = max(-20, min(20, k))
    for rows, columns in ((3, None), (2, 5), (5, 2), (0, 3)):
        same(tb.eye(rows, columns, k=k), np.eye(rows, columns, k=bounded, dtype=np.float32))
        same(
            tb.jit(lambda r=rows, c=columns: tb.eye(r, c, k=k, dtype=tb.int32))(),
            np.eye(rows, columns, k=bounded, dtype=np.int32),
        )
    x = np.arange(2 * 4 * 5).reshape(2, 4, 5) + 1
    same(tb.tril(tb.tensor(x), k=k), np.tril(x, bounded))
    same(tb.triu(tb.tensor(x), k=k), np.triu(x, bounded))
    same(tb.vmap(lambda m: tb.triu(m, k=k))(tb.tensor(x)), np.triu(x, bounded))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(indexing: Any) -> None:
    lines = [np.arange(3.0), np.arange(4.0) * 2, np.array([7.0])]
    for n in range(1, 4):
        got = tb.meshgrid(*map(tb.tensor, lines[:n]), indexing=indexing)
        assert isinstance(got, tuple)
        for g, w in zip(got, np.meshgrid(*lines[:n], indexing=indexing), strict=True):
            same(g, w)


def test_one_hot() -> None:
    got = tb.one_hot(tb.asarray([[2, 0], [1, 9]]), 3)
    assert got.tolist() == [[[0, 0, 1], [1, 0, 0]], [[0, 1, 0], [0, 0, 0]]]


# -- from data -------------------------------------------------------------------------------------------


def test_tensor_copies_and_asarray_shares() -> None:
    a = np.arange(3.0, dtype=np.float32)
    x, y = tb.tensor(a), tb.asarray(a)
    a[0] = 9
    assert x.tolist() == [0, 1, 2] and y.tolist() == [9, 1, 2]
    y[1] = 5
    assert a.tolist() == [9, 5, 2]
    z = tb.asarray(y, copy=True)
    y[2] = 7
    assert z.tolist() == [9, 5, 2] and tb.asarray(y).tolist() == [9, 5, 7]
    assert tb.from_numpy(a).tolist() == [9, 5, 7]


def test_asarray_without_a_copy_shares_or_refuses() -> None:
    x = tb.ones(3)
    y = tb.asarray(x, copy=False)
    y[0] = 4
    assert x[0].item() == 4
    with pytest.raises(ValueError, match=r"asarray\(copy=False\) from float32 to float64"):
        tb.asarray(x, dtype=tb.float64, copy=False)
    with pytest.raises(ValueError, match="has to be copied"):
        tb.asarray([1, 2], copy=False)


@pytest.mark.parametrize("dtype", STANDARD)
def test_asarray_of_numbers_lists_and_arrays(dtype: str) -> None:
    for data in (1, [1, 0], [[1, 0], [0, 1]], (1, 1), np.array([0, 1])):
        same(tb.asarray(data, dtype=dtype), np.asarray(data, dtype=dtype))
        same(tb.tensor(data, dtype=dtype), np.asarray(data, dtype=dtype))


def test_integers_beyond_a_float_arrive_whole() -> None:
    assert tb.asarray([2**64 - 1, 0], dtype=tb.uint64).tolist() == [2**64 - 1, 0]
    assert tb.asarray(-(2**63)).item() == -(2**63)
    with pytest.raises(OverflowError, match="the number 256 does not fit into uint8"):
        tb.asarray([1, 256], dtype=tb.uint8)
    with pytest.raises(OverflowError, match="does not fit into int64"):
        tb.asarray(2**63)


def test_lists_of_tensors_are_stacked_also_recorded() -> None:
    x = tb.tensor([1.0, 2.0])
    assert tb.asarray([x, x * 2]).tolist() == [[1, 2], [2, 4]]
    assert tb.jit(lambda x: tb.asarray([x[0], x[1] * 3, 5.0]))(x).tolist() == [1, 6, 5]
    assert tb.tensor([x[0], 7.0]).tolist() == [1, 7]


def test_full_of_a_tensor_without_dimensions() -> None:
    x = tb.asarray(3.0)
    out = tb.full((2,), x)
    out[0] = 1
    assert out.tolist() == [1, 3] and x.item() == 3.0
    assert tb.jit(lambda v: tb.full((2, 2), v, dtype=tb.int32))(x).tolist() == [[3, 3], [3, 3]]


def test_tensors_that_require_gradients_from_the_start() -> None:
    for x in (
        tb.zeros(2, requires_grad=True),
        tb.arange(3.0, requires_grad=True),
        tb.tensor([1.0], requires_grad=True),
    ):
        assert x.requires_grad and x.is_leaf


def test_symbolic_sizes() -> None:
    f = tb.jit(lambda x: tb.arange(x.shape[0]) + tb.zeros(x.shape, dtype=tb.int64), shapes=[(tb.dim("n"),)])
    assert f(tb.ones(3)).tolist() == [0, 1, 2] and f(tb.ones(5)).tolist() == [0, 1, 2, 3, 4]


# -- astype ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "target"), list(itertools.product(STANDARD, STANDARD)))
def test_astype(source: str, target: str) -> None:
    x = np.array([0, 1, 3, 100]).astype(source)
    want = x.real.astype(target) if "complex" in source and "complex" not in target else x.astype(target)
    same(tb.astype(tb.tensor(x), getattr(tb, target)), want)
    same(tb.jit(lambda t: t.astype(target))(tb.tensor(x)), want)


def test_astype_copies_unless_told() -> None:
    x = tb.ones(2)
    assert tb.astype(x, tb.float32, copy=False) is x
    y = tb.astype(x, tb.float32)
    y[0] = 5
    assert x.tolist() == [1, 1]


def test_to_and_its_shorthands() -> None:
    x = tb.asarray([1.5, 2.5])
    assert x.to(tb.float64).dtype == x.double().dtype == tb.float64
    assert x.to("cpu") is x and x.float() is x and x.to(tb.ones(1, dtype=tb.int8)).dtype == tb.int8
    kinds = {
        "half": "float16",
        "bfloat16": "bfloat16",
        "int": "int32",
        "long": "int64",
        "bool": "bool",
        "byte": "uint8",
    }
    for method, name in kinds.items():
        assert getattr(x, method)().dtype == getattr(tb, name)
    assert x.type_as(tb.ones(1, dtype=tb.float16)).dtype == tb.float16
    assert x.view(tb.int32).tolist() == np.array([1.5, 2.5], np.float32).view(np.int32).tolist()
    assert x.to_device("cpu") is x and x.cpu() is x
