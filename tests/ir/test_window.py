"""Windowed reductions against the definition written as loops."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from derivative_checks import batched, check, check_batching, check_recording, pull, push
from hypothesis import given
from hypothesis import strategies as st

from trilobite.base.dtypes import BY_NAME
from trilobite.base.errors import ArgumentError, DTypeError, GradientError, ShapeError
from trilobite.ir.primitives import table
from trilobite.ir.primitives.reduction import highest, lowest
from trilobite.ir.types import TensorType, dim

Array = np.ndarray[Any, Any]
window_reduce, window_argmax = table["window_reduce"], table["window_argmax"]
window_gather, window_scatter = table["window_gather"], table["window_scatter"]


def window(size: Any, **settings: Any) -> dict[str, Any]:
    rank = len(size)
    plain = {"stride": 1, "low": 0, "high": 0, "dilation": 1}
    out = {k: (v,) * rank if isinstance(v := settings.get(k, d), int) else tuple(v) for k, d in plain.items()}
    return {"size": tuple(size), **out}


def members(plane: tuple[int, ...], size: Any, stride: Any, low: Any, high: Any, dilation: Any) -> Any:
    """For each window, in order, the flat indices of its elements inside the plane, in order."""
    counts = [
        (n + lo + hi - (k - 1) * d - 1) // s + 1
        for n, lo, hi, k, d, s in zip(plane, low, high, size, dilation, stride, strict=True)
    ]
    for p in product(*map(range, counts)):
        found = []
        for k in product(*map(range, size)):
            at = [i * s + j * d - lo for i, j, s, d, lo in zip(p, k, stride, dilation, low, strict=True)]
            if all(0 <= a < n for a, n in zip(at, plane, strict=True)):
                found.append(int(np.ravel_multi_index(at, plane)))
        yield p, found


def loops(x: Array, kind: str, **win: Any) -> tuple[Array, Array]:
    """The reduction in float64, and the index of the winner (first of equals, NaN first)."""
    rank = len(win["size"])
    lead, plane = x.shape[: x.ndim - rank], x.shape[x.ndim - rank :]
    rows = list(members(plane, **win))
    shape = tuple(1 + max((p[a] for p, _ in rows), default=-1) for a in range(rank))
    identity = 0 if kind == "sum" else lowest(x.dtype) if kind == "max" else highest(x.dtype)
    out = np.full((*lead, *shape), identity).astype(
        x.dtype
        if kind != "sum"
        else np.result_type(np.float64, x.dtype)
        if x.dtype.kind in "fc"
        else np.float64
    )
    index = np.full((*lead, *shape), -1)
    for at in product(*map(range, lead)):
        flat = x[at].ravel()
        for p, elements in rows:
            if not elements:
                continue
            values = [flat[i] for i in elements]
            if kind == "sum":
                out[(*at, *p)] = sum(complex(v) if x.dtype.kind == "c" else float(v) for v in values)
                continue
            best = values[0]
            index[(*at, *p)] = elements[0]
            for v, i in zip(values[1:], elements[1:], strict=True):
                if best == best and (v != v or (v > best if kind == "max" else v < best)):
                    best, index[(*at, *p)] = v, i
            out[(*at, *p)] = best
    return out, index


CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "two by two": ((2, 3, 6, 8), window((2, 2), stride=2)),
    "overlapping": ((2, 3, 7, 8), window((3, 3), stride=2)),
    "padded": ((2, 2, 7, 6), window((3, 2), stride=(2, 1), low=1, high=(1, 0))),
    "asymmetric": ((1, 2, 5, 6), window((2, 3), stride=2, low=(0, 2), high=(1, 0))),
    "cropped": ((2, 8, 9), window((3, 2), low=(-1, 1), high=(0, -4))),
    "dilated": ((2, 9, 9), window((3, 2), stride=(1, 2), dilation=(2, 4), low=1, high=1)),
    "one axis": ((2, 3, 11), window((4,), stride=3, high=2)),
    "three axes": ((2, 4, 5, 6), window((2, 3, 2), stride=(2, 1, 3))),
    "strides leave gaps": ((2, 10, 11), window((2, 2), stride=4)),
    "one element": ((2, 5, 4), window((1, 1))),
    "one element, strided": ((2, 5, 4), window((1, 1), stride=2)),
    "whole plane": ((2, 5, 4), window((5, 4))),
    "windows inside the padding": ((2, 3, 3), window((2, 2), low=3, high=2)),
    "no leading axes": ((5, 6), window((2, 2))),
    "no windows axes": ((2, 3), window(())),
    "nothing before": ((0, 5, 5), window((2, 2))),
    "many taps": ((1, 13, 12), window((12, 11))),
}  # fmt: skip


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.fixture(params=CASES, ids=lambda n: n.replace(" ", "-"))
def subject(request: pytest.FixtureRequest) -> tuple[tuple[int, ...], dict[str, Any]]:
    return CASES[request.param]


@pytest.mark.parametrize("kind", ["max", "min", "sum"])
def test_values_are_those_of_plain_loops(subject: Any, kind: str, rng: np.random.Generator) -> None:
    shape, win = subject
    x = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)
    want, _ = loops(x, kind, **win)
    got = window_reduce(x, kind=kind, **win)
    assert got.shape == want.shape and got.dtype == x.dtype
    if kind == "sum":
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-14 * np.abs(x).sum())
    else:
        np.testing.assert_array_equal(got, want)
    assert not np.shares_memory(got, x) or shape == ()


def test_where_the_largest_stands(subject: Any, rng: np.random.Generator) -> None:
    shape, win = subject
    x = rng.integers(-2, 3, shape).astype(np.float64)  # many equal ones: the first wins
    got = window_argmax(x, **win)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, loops(x, "max", **win)[1])


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0])
def test_special_values(subject: Any, special: float, rng: np.random.Generator) -> None:
    shape, win = subject
    x = rng.integers(-1, 2, shape).astype(np.float64)
    x[rng.random(shape) < 0.3] = special
    for kind in ("max", "min"):
        np.testing.assert_array_equal(window_reduce(x, kind=kind, **win), loops(x, kind, **win)[0])
    np.testing.assert_array_equal(window_argmax(x, **win), loops(x, "max", **win)[1])


def test_minus_infinity_beats_padding() -> None:
    x = np.full((2, 2), -np.inf)
    got = window_argmax(x, **window((2, 2), low=1, high=1))
    np.testing.assert_array_equal(got, [[0, 0, 1], [0, 0, 1], [2, 2, 3]])


@pytest.mark.parametrize("dtype", sorted(set(BY_NAME) - {"complex64", "complex128", "float8_e8m0fnu"}))
def test_every_dtype(dtype: str, rng: np.random.Generator) -> None:
    d = BY_NAME[dtype]
    x = (
        rng.integers(0, 5, (2, 7, 6)).astype(d)
        if d.kind in "bu" or "uint" in dtype
        else rng.integers(-4, 4, (2, 7, 6)).astype(d)
    )
    win = window((3, 2), stride=(2, 1), low=(1, 0), high=1)
    for kind in ("max", "min") if dtype == "bool" else ("max", "min", "sum"):
        got = window_reduce(x, kind=kind, **win)
        assert got.dtype == d
        want = loops(x, kind, **win)[0]
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(d).astype(np.float64))
    np.testing.assert_array_equal(window_argmax(x, **win), loops(x, "max", **win)[1])


def test_sums_of_small_floats_accumulate_in_float32(rng: np.random.Generator) -> None:
    x = (1 + rng.random((4, 200))).astype(np.float16)
    got = window_reduce(x, kind="sum", **window((200,)))
    np.testing.assert_array_equal(got[:, 0], x.astype(np.float64).sum(1).astype(np.float16))


def test_complex_sums(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 7, 6)) + 1j * rng.standard_normal((2, 7, 6))
    win = window((3, 2), stride=2, low=1, high=1)
    np.testing.assert_allclose(window_reduce(x, kind="sum", **win), loops(x, "sum", **win)[0], rtol=1e-13)


@pytest.mark.parametrize("kind", ["max", "min", "sum"])
@pytest.mark.parametrize(
    "name", sorted(set(CASES) - {"windows inside the padding"})
)  # no differences of infinities
def test_derivatives(name: str, kind: str, rng: np.random.Generator) -> None:
    shape, win = CASES[name]
    x = rng.permutation(float(np.prod(shape)) * np.linspace(-1, 1, int(np.prod(shape)))).reshape(shape)
    check(lambda a: window_reduce(a, kind=kind, **win), [x], rng, order=3)


def test_windows_in_the_padding_pull_nothing(rng: np.random.Generator) -> None:
    shape, win = CASES["windows inside the padding"]
    x = rng.standard_normal(shape)
    out, back = pull(lambda a: window_reduce(a, kind="max", **win), [x])
    ct = rng.standard_normal(out[0].shape)
    index = loops(x, "max", **win)[1]
    want = np.zeros((2, 9))
    for i, j, k in np.ndindex(*index.shape):
        if index[i, j, k] >= 0:
            want[i, index[i, j, k]] += ct[i, j, k]
    np.testing.assert_allclose(back([ct])[0].reshape(2, 9), want, rtol=1e-14)
    _, (slope,) = push(lambda a: window_reduce(a, kind="max", **win), [x], [x])
    np.testing.assert_array_equal(slope == 0, index < 0)


def test_the_first_of_equal_elements_receives_the_slope() -> None:
    x = np.zeros((1, 4, 4))
    _, back = pull(lambda a: window_reduce(a, kind="max", **window((2, 2), stride=2)), [x])
    np.testing.assert_array_equal(
        back([np.ones((1, 2, 2))])[0][0], [[1, 0, 1, 0], [0] * 4, [1, 0, 1, 0], [0] * 4]
    )
    _, back = pull(lambda a: window_reduce(a, kind="min", **window((2,), stride=1)), [x[0, :1]])
    np.testing.assert_array_equal(back([np.array([[1.0, 2.0, 4.0]])])[0], [[1, 2, 4, 0]])


def test_complex_sum_derivatives(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 7, 6)) + 1j * rng.standard_normal((2, 7, 6))
    check(lambda a: window_reduce(a, kind="sum", **window((3, 2), stride=2, low=1, high=1)), [x], rng)


def test_taking_and_putting_back(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 4, 5))
    index = rng.integers(-1, 20, (2, 3, 3))
    want = np.array(
        [[[0.0 if i < 0 else x[b].ravel()[i] for i in row] for row in index[b]] for b in range(2)]
    )
    np.testing.assert_array_equal(window_gather(x, index, rank=2), want)
    y = rng.standard_normal((2, 3, 3))
    back = np.zeros((2, 20))
    for at in np.ndindex(2, 3, 3):
        if index[at] >= 0:
            back[at[0], index[at]] += y[at]
    got = window_scatter(y, index, plane=(4, 5), disjoint=False)
    np.testing.assert_allclose(got, back.reshape(2, 4, 5), rtol=1e-14)
    check(lambda a: window_gather(a, index, rank=2), [x], rng)
    check(lambda a: window_scatter(a, index, plane=(4, 5), disjoint=False), [y], rng)
    check_batching(lambda a, i: window_gather(a, i, rank=2), [x, index], rng)
    check_batching(lambda a, i: window_scatter(a, i, plane=(4, 5), disjoint=False), [y, index], rng)
    check_recording(lambda a, i: window_gather(a, i, rank=2), [x, index])
    check_recording(lambda a, i: window_scatter(a, i, plane=(4, 5), disjoint=False), [y, index])


def test_small_floats_are_put_back_in_float32() -> None:
    y = np.full((1, 3000), 1.0009765625, np.float16)
    got = window_scatter(y, np.zeros((1, 3000), np.int64), plane=(2,), disjoint=False)
    np.testing.assert_array_equal(got, np.array([[3000 * 1.0009765625, 0]], np.float16))


def test_batching_and_recording(subject: Any, rng: np.random.Generator) -> None:
    shape, win = subject
    x = rng.standard_normal(shape)
    for kind in ("max", "sum"):
        check_batching(lambda a, k=kind: window_reduce(a, kind=k, **win), [x], rng)
        check_recording(lambda a, k=kind: window_reduce(a, kind=k, **win), [x])
    check_batching(lambda a: window_argmax(a, **win), [x], rng)
    check_recording(lambda a: window_argmax(a, **win), [x])
    (none,) = batched(lambda a: window_argmax(a, **win), [x[None][:0]], [True], 0)
    assert none.shape == (0, *window_argmax(x, **win).shape)


def test_symbolic_sizes() -> None:
    n, length = dim("n"), dim("length", min=4)
    x = TensorType((n, 3, length), np.dtype("float32"))
    assert window_reduce.type(x, kind="max", **window((3,), low=1)).shape == (n, 3, length - 1)


@given(st.data())
def test_any_window(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 2))
    small, pads = st.tuples(*[st.integers(1, 3)] * rank), st.tuples(*[st.integers(-2, 3)] * rank)
    win = {
        "size": data.draw(small),
        "stride": data.draw(small),
        "low": data.draw(pads),
        "high": data.draw(pads),
        "dilation": data.draw(small),
    }
    plane = data.draw(st.tuples(*[st.integers(1, 7)] * rank))
    x = np.random.default_rng(data.draw(st.integers(0, 999))).integers(-3, 4, (2, *plane)).astype(np.float64)
    try:
        got = window_argmax(x, **win)
    except ShapeError as e:
        assert "the padded tensor has" in str(e)
        return
    want, index = loops(x, "max", **win)
    np.testing.assert_array_equal(got, index)
    np.testing.assert_array_equal(window_reduce(x, kind="max", **win), want)
    np.testing.assert_array_equal(window_reduce(x, kind="sum", **win), loops(x, "sum", **win)[0])


F64 = np.dtype("float64")


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (
            lambda: window_reduce(np.ones((1, 3, 3)), kind="max", **window((4, 2))),
            ShapeError,
            "a window spans 4 elements along window axis 0, the padded tensor has 3",
        ),
        (
            lambda: window_argmax(np.ones((1, 3, 3)), **window((2, 2), stride=0)),
            ArgumentError,
            "window_argmax: stride (0, 0)",
        ),
        (
            lambda: window_reduce(np.ones(3), kind="max", **window((2, 2))),
            ShapeError,
            "no more window axes than the tensor has",
        ),
        (
            lambda: window_reduce.type(TensorType((3,), F64), kind="mean", **window((2,))),
            ArgumentError,
            "max, min or sum",
        ),
        (
            lambda: window_reduce.type(TensorType((3,), np.dtype("complex64")), kind="max", **window((2,))),
            DTypeError,
            "does not take complex64",
        ),
        (
            lambda: window_reduce.type(TensorType((3,), np.dtype("bool")), kind="sum", **window((2,))),
            DTypeError,
            "does not take bool",
        ),
        (
            lambda: window_gather.type(
                TensorType((2, 3), F64), TensorType((3, 3), np.dtype("int64")), rank=1
            ),
            ShapeError,
            "equal axes before the last 1",
        ),
        (
            lambda: window_scatter.type(
                TensorType((2, 3), F64), TensorType((3, 3), np.dtype("int64")), plane=(4,), disjoint=False
            ),
            ShapeError,
            "equal shapes",
        ),
        (lambda: window_argmax.partials("vjp"), GradientError, "positions have no slope"),
    ],
)
def test_refusals(act: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as e:
        act()
    assert text in str(e.value)
