"""Convolution and its gradients against the definition written as loops."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from derivative_checks import batched, check, check_batching, check_recording, normal, pull
from hypothesis import given
from hypothesis import strategies as st

from trilobite.base.dtypes import BY_NAME
from trilobite.base.errors import ShapeError
from trilobite.ir.primitives import conv_blocks, table
from trilobite.ir.primitives.conv_geometry import geometry
from trilobite.ir.types import TensorType, dim

Array = np.ndarray[Any, Any]
conv, conv_input_grad, conv_weight_grad = (table[n] for n in ("conv", "conv_input_grad", "conv_weight_grad"))


def window(rank: int, **settings: Any) -> dict[str, Any]:
    """Attributes, with the plain ones filled in."""
    plain = {"stride": 1, "low": 0, "high": 0, "x_dilation": 1, "w_dilation": 1}
    out = {k: (v,) * rank if isinstance(v := settings.get(k, d), int) else tuple(v) for k, d in plain.items()}
    return {**out, "groups": settings.get("groups", 1)}


def terms(g: Any) -> Any:
    """Every product of the trilinear form: indices into x, w and y."""
    for n, grp, c, k in product(range(g.batch), range(g.groups), range(g.channels), range(g.filters)):
        for r, p in product(product(*map(range, g.kernel)), product(*map(range, g.out))):
            at = []
            for a, (i, j) in enumerate(zip(r, p, strict=True)):
                place = j * g.stride[a] + i * g.w_dilation[a] - g.low[a]
                if place % g.x_dilation[a] or not 0 <= place // g.x_dilation[a] < g.space[a]:
                    break
                at.append(place // g.x_dilation[a])
            else:
                yield (
                    (n, grp * g.channels + c, *at),
                    (grp * g.filters + k, c, *r),
                    (n, grp * g.filters + k, *p),
                )


def loops(kind: str, a: Array, b: Array, g: Any) -> Array:
    wide = np.result_type(a.dtype if a.dtype.kind in "fc" else np.float64, np.float64)
    out = np.zeros({"x": g.x_shape, "w": g.w_shape, "y": g.y_shape}[kind], wide)
    a, b = a.astype(wide), b.astype(wide)
    for x, w, y in terms(g):
        if kind == "y":
            out[y] += a[x] * b[w]
        elif kind == "x":
            out[x] += a[y] * b[w]
        else:
            out[w] += a[x] * b[y]
    return out


def case(
    rng: np.random.Generator, x: tuple[int, ...], w: tuple[int, ...], dtype: Any = np.float64, **settings: Any
) -> Any:
    win = window(len(x) - 2, **settings)
    g = geometry("conv", x, w, **win)
    arrays = [normal(rng, np.empty(s, dtype)) for s in (g.x_shape, g.w_shape, g.y_shape)]
    return (*arrays, g, win)


CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 3, 7, 6), (4, 3, 3, 2), {}),
    "one axis": ((3, 2, 11), (5, 2, 4), {"stride": 2, "low": 1, "high": 3}),
    "three axes": ((2, 2, 4, 5, 3), (3, 2, 2, 3, 2), {
        "stride": (1, 2, 1), "low": (1, 0, 1), "high": (0, 1, 0)}),
    "no axes": ((4, 6), (5, 6), {}),
    "strided": ((2, 2, 9, 8), (3, 2, 3, 3), {"stride": (2, 3), "low": 1, "high": 1}),
    "stride leaves a rest": ((1, 2, 10, 10), (2, 2, 3, 3), {"stride": 4}),
    "stride beyond the kernel": ((2, 2, 9, 9), (2, 2, 2, 2), {"stride": 3}),
    "asymmetric": ((2, 2, 5, 6), (3, 2, 3, 3), {"low": (0, 2), "high": (3, 1)}),
    "cropped": ((2, 2, 8, 9), (3, 2, 3, 2), {"low": (-2, 1), "high": (1, -3)}),
    "dilated kernel": ((2, 2, 9, 9), (3, 2, 3, 2), {"w_dilation": (2, 4), "low": 1, "high": 2}),
    "dilated input": ((2, 2, 4, 3), (3, 2, 3, 3), {"x_dilation": (2, 3), "low": 1, "high": 2}),
    "dilated input, cropped": ((2, 2, 5, 6), (3, 2, 3, 3), {
        "x_dilation": (2, 3), "low": (-1, -4), "high": (-3, -2)}),
    "grouped": ((2, 6, 6, 5), (9, 2, 3, 3), {"groups": 3, "low": 1, "high": 1}),
    "depthwise": ((2, 5, 6, 6), (5, 1, 3, 3), {"groups": 5, "low": 1, "high": 1}),
    "depthwise, two filters a channel": ((2, 4, 6, 6), (8, 1, 3, 3), {"groups": 4, "stride": 2}),
    "one by one": ((3, 4, 5, 5), (6, 4, 1, 1), {}),
    "one by one, grouped": ((3, 4, 5, 5), (6, 2, 1, 1), {"groups": 2}),
    "one by one, strided": ((3, 4, 5, 5), (6, 4, 1, 1), {"stride": 2}),
    "whole input": ((2, 3, 4, 5), (7, 3, 4, 5), {}),
    "everything": ((2, 4, 5, 4), (6, 2, 2, 3), {
        "stride": (2, 3), "low": (2, -1), "high": (-1, 3),
        "x_dilation": (2, 3), "w_dilation": (3, 2), "groups": 2}),
    "an axis without elements": ((2, 3, 0, 4), (2, 3, 2, 3), {"low": (1, 0), "high": (2, 1)}),
    "empty batch": ((0, 3, 5, 5), (2, 3, 3, 3), {}),
    "no channels": ((2, 0, 5, 5), (2, 0, 3, 3), {}),
    "no filters": ((2, 3, 5, 5), (0, 3, 3, 3), {}),
}  # fmt: skip


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture(params=CASES, ids=lambda n: n.replace(" ", "-"))
def subject(request: pytest.FixtureRequest, rng: np.random.Generator) -> Any:
    x, w, settings = CASES[request.param]
    return case(rng, x, w, **settings)


def compute(subject: Any, dtype: Any) -> list[tuple[str, Array, Array]]:
    """(which operand, what we compute, what the loops compute) for the three convolutions."""
    x, w, y, g, win = subject
    dtype = np.dtype(dtype)
    return [
        ("y", conv(x, w, dtype=dtype, **win), loops("y", x, w, g)),
        ("x", conv_input_grad(y, w, space=g.space, dtype=dtype, **win), loops("x", y, w, g)),
        ("w", conv_weight_grad(x, y, kernel=g.kernel, dtype=dtype, **win), loops("w", x, y, g)),
    ]


def test_values_are_those_of_plain_loops(subject: Any) -> None:
    for which, got, want in compute(subject, np.float64):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12, err_msg=which)
        assert got.dtype == np.float64 and got.shape == want.shape


@pytest.mark.parametrize("block", [1, 600, 2500])
def test_the_result_does_not_depend_on_where_blocks_are_cut(
    subject: Any, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conv_blocks, "BLOCK", block)
    monkeypatch.setattr(conv_blocks, "ROWS", block)
    monkeypatch.setattr(conv_blocks, "FEW", 10)
    monkeypatch.setattr(conv_blocks, "JOINED", 12)
    for which, got, want in compute(subject, np.float64):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12, err_msg=which)


@pytest.mark.parametrize("layout", ["reversed", "transposed", "repeated"])
def test_operands_of_any_layout(rng: np.random.Generator, layout: str) -> None:
    x, w, y, g, win = case(rng, (2, 3, 6, 5), (4, 3, 3, 2), stride=(1, 2), low=0, high=0)
    if layout == "reversed":
        x, w, y = (np.flip(a.copy(), (0, -1)) for a in (x, w, y))
    elif layout == "transposed":
        x, w, y = (np.asfortranarray(a) for a in (x, w, y))
    else:
        x, w, y = (np.broadcast_to(a[:1, :1, :1], a.shape) for a in (x, w, y))
    for which, got, want in compute((x, w, y, g, win), np.float64):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12, err_msg=which)


@pytest.mark.parametrize(
    ("dtype", "eps"),
    [
        ("float32", 2.0**-23),
        ("float16", 2.0**-10),
        ("bfloat16", 2.0**-7),
        ("float8_e5m2", 0.5),
        ("complex64", 2.0**-22),
        ("complex128", 2.0**-51),
    ],
)
def test_precision(rng: np.random.Generator, dtype: str, eps: float) -> None:
    """One rounding at the end for small formats; sums of float32 within the bound of any order."""
    subject = case(rng, (3, 4, 9, 8), (6, 2, 3, 3), BY_NAME[dtype], stride=(1, 2), low=1, high=1, groups=2)
    x, w, y, g, _ = subject
    wide = [np.abs(a.astype(np.complex128)) for a in (x, w, y)]
    sizes = {
        "y": loops("y", wide[0], wide[1], g),
        "x": loops("x", wide[2], wide[1], g),
        "w": loops("w", wide[0], wide[2], g),
    }
    for which, got, want in compute(subject, BY_NAME[dtype]):
        assert got.dtype == BY_NAME[dtype]
        bound = eps * np.abs(want) + 64 * 2.0 ** (-52 if dtype == "complex128" else -23) * sizes[which].real
        assert (np.abs(got.astype(want.dtype) - want) <= bound).all(), which


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        ("int8", "int32"),
        ("uint8", "int32"),
        ("int4", "int32"),
        ("int16", "int64"),
        ("int32", "int32"),
        ("int8", "int8"),
        ("int64", "int64"),
    ],
)
def test_integers_are_exact_and_wrap(rng: np.random.Generator, dtype: str, result: str) -> None:
    info = {"int4": (-8, 8), "uint8": (0, 256)}.get(dtype) or (
        np.iinfo(dtype).min // 2,
        np.iinfo(dtype).max // 2,
    )
    g = geometry("conv", (2, 3, 6, 5), (4, 3, 3, 3), **window(2, low=1, high=1))
    x, w, y = (rng.integers(*info, s).astype(BY_NAME[dtype]) for s in (g.x_shape, g.w_shape, g.y_shape))
    for which, a, b, got in (
        ("y", x, w, conv(x, w, dtype=np.dtype(result), **window(2, low=1, high=1))),
        ("x", y, w, conv_input_grad(y, w, space=g.space, dtype=np.dtype(result), **window(2, low=1, high=1))),
        (
            "w",
            x,
            y,
            conv_weight_grad(x, y, kernel=g.kernel, dtype=np.dtype(result), **window(2, low=1, high=1)),
        ),
    ):
        exact = _integer_loops(which, a.astype(np.int64), b.astype(np.int64), g)
        modulus = 2 ** (8 * np.dtype(result).itemsize)
        assert got.dtype == np.dtype(result)
        assert all((int(p) - q) % modulus == 0 for p, q in zip(got.ravel(), exact.ravel(), strict=True)), (
            which
        )


def _integer_loops(kind: str, a: Array, b: Array, g: Any) -> Array:
    out = np.zeros({"x": g.x_shape, "w": g.w_shape, "y": g.y_shape}[kind], object)
    for x, w, y in terms(g):
        to, p, q = {"y": (y, x, w), "x": (x, y, w), "w": (w, x, y)}[kind]
        out[to] += int(a[p]) * int(b[q])
    return out


def test_a_wider_result_keeps_the_operands_dtypes_on_the_way_back(rng: np.random.Generator) -> None:
    x, w, y, g, win = case(rng, (2, 4, 6, 5), (6, 2, 3, 3), BY_NAME["bfloat16"], groups=2, low=1, high=1)
    outs, back = pull(lambda a, b: conv(a, b, dtype=np.dtype("float32"), **win), [x, w])
    assert outs[0].dtype == np.float32
    np.testing.assert_allclose(outs[0], loops("y", x, w, g), rtol=1e-5, atol=1e-5)
    cx, cw = back([y.astype(np.float32)])
    assert cx.dtype == cw.dtype == x.dtype
    np.testing.assert_allclose(cx.astype(np.float64), loops("x", y, w, g), rtol=2.0**-8, atol=1e-5)
    np.testing.assert_allclose(cw.astype(np.float64), loops("w", x, y, g), rtol=2.0**-8, atol=1e-5)


def test_nan_and_infinity_pass_through(rng: np.random.Generator) -> None:
    x, w, _, _, win = case(rng, (1, 1, 5, 5), (1, 1, 2, 2))
    x[0, 0, 2, 2], x[0, 0, 0, 0] = np.nan, np.inf
    out = conv(x, w, dtype=x.dtype, **win)
    assert (
        np.isnan(out[0, 0, 1:3, 1:3]).all() and np.isinf(out[0, 0, 0, 0]) and np.isfinite(out[0, 0, 3]).all()
    )


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("three axes", "whole input")])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_derivatives_of_any_order(rng: np.random.Generator, name: str, dtype: Any) -> None:
    shape, weight, settings = CASES[name]
    x, w, y, g, win = case(rng, shape, weight, dtype, **settings)
    dtype = np.dtype(dtype)
    check(lambda a, b: conv(a, b, dtype=dtype, **win), [x, w], rng, order=3)
    check(lambda a, b: conv_input_grad(a, b, space=g.space, dtype=dtype, **win), [y, w], rng)
    check(lambda a, b: conv_weight_grad(a, b, kernel=g.kernel, dtype=dtype, **win), [x, y], rng)


@pytest.mark.parametrize("name", CASES)
def test_batching(rng: np.random.Generator, name: str) -> None:
    shape, weight, settings = CASES[name]
    x, w, y, g, win = case(rng, shape, weight, **settings)
    d = x.dtype
    for size in (3, 0) if name == "grouped" else (3,):
        if size:
            check_batching(lambda a, b: conv(a, b, dtype=d, **win), [x, w], rng, size=size)
            check_batching(
                lambda a, b: conv_input_grad(a, b, space=g.space, dtype=d, **win), [y, w], rng, size=size
            )
            check_batching(
                lambda a, b: conv_weight_grad(a, b, kernel=g.kernel, dtype=d, **win), [x, y], rng, size=size
            )


def test_batch_of_none(rng: np.random.Generator) -> None:
    x, w, y, _, win = case(rng, (2, 4, 5, 5), (6, 2, 3, 3), groups=2)
    (out,) = batched(lambda a, b: conv(a, b, dtype=x.dtype, **win), [x[None][:0], w], [True, False], 0)
    assert out.shape == (0, *y.shape)


@pytest.mark.parametrize("name", ["plain", "everything", "one by one", "empty batch"])
def test_recording(rng: np.random.Generator, name: str) -> None:
    shape, weight, settings = CASES[name]
    x, w, y, g, win = case(rng, shape, weight, **settings)
    check_recording(lambda a, b: conv(a, b, dtype=x.dtype, **win), [x, w])
    check_recording(lambda a, b: conv_input_grad(a, b, space=g.space, dtype=x.dtype, **win), [y, w])
    check_recording(lambda a, b: conv_weight_grad(a, b, kernel=g.kernel, dtype=x.dtype, **win), [x, y])


def test_a_symbolic_batch_and_length() -> None:
    n, length = dim("n"), dim("length", min=8)
    x, w = TensorType((n, 3, length), np.dtype("float32")), TensorType((4, 3, 5), np.dtype("float32"))
    out = conv.type(x, w, dtype=x.dtype, **window(1, low=1, high=1))
    assert out.shape == (n, 4, length - 2)
    assert conv_weight_grad.type(x, out, kernel=(5,), dtype=x.dtype, **window(1, low=1, high=1)) == w
    assert conv_input_grad.type(out, w, space=(length,), dtype=x.dtype, **window(1, low=1, high=1)) == x


def test_cost_counts_two_operations_a_product() -> None:
    x, w = TensorType((2, 6, 8, 8), np.dtype("float32")), TensorType((4, 3, 3, 3), np.dtype("float32"))
    win = window(2, groups=2)
    y = conv.type(x, w, dtype=x.dtype, **win)
    flops = 2.0 * 2 * 4 * 6 * 6 * 3 * 9
    assert conv.cost([x, w], [y], win) == flops
    assert conv_input_grad.cost([y, w], [x], win) == flops
    assert conv_weight_grad.cost([x, y], [w], win) == flops


@given(st.data())
def test_any_geometry(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 2))
    small = st.tuples(*[st.integers(1, 3)] * rank)
    pads = st.tuples(*[st.integers(-2, 3)] * rank)
    settings = {
        "stride": data.draw(small),
        "low": data.draw(pads),
        "high": data.draw(pads),
        "x_dilation": data.draw(small),
        "w_dilation": data.draw(small),
        "groups": data.draw(st.integers(1, 2)),
    }
    space = data.draw(st.tuples(*[st.integers(1, 7)] * rank))
    kernel = data.draw(small)
    groups = settings["groups"]
    shapes = (2, 2 * groups, *space), (groups, 2, *kernel)
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    try:
        subject = case(rng, *shapes, **settings)
    except ShapeError as e:
        assert "the padded input has" in str(e)
        return
    for which, got, want in compute(subject, np.float64):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12, err_msg=which)
