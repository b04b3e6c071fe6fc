"""Reductions, running sums, norms and softmax: against NumPy in float64, with dtypes and derivatives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base import dtypes as dt

Array = np.ndarray[Any, Any]
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS, COMPLEX = ("float32", "float64"), ("complex64", "complex128")
AXES: list[Any] = [None, 0, -1, (0, 2), (1,), (), (0, 1, 2)]


def sample(dtype: str, shape: tuple[int, ...] = (3, 4, 5)) -> Array:
    random = np.random.default_rng(sum(map(ord, dtype)))
    d = np.dtype(dtype)
    if d.kind in "iu":
        return random.integers(0 if d.kind == "u" else -50, 50, shape).astype(d)
    if d.kind == "c":
        return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(d)
    return (
        random.integers(0, 2, shape).astype(bool)
        if d.kind == "b"
        else (random.standard_normal(shape) * 9).astype(d)
    )


def near(got: tb.Tensor, want: Any, dtype: Any = None) -> None:
    want = np.asarray(want)
    assert got.shape == want.shape
    assert got.dtype == (want.dtype if dtype is None else dtype)
    if got.dtype.kind in "fc":
        eps = np.finfo(got.dtype).eps
        np.testing.assert_allclose(got.detach().numpy(), want, rtol=64 * eps, atol=256 * eps)
    else:
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("name", ["sum", "prod"])
@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, *COMPLEX, "bool"])
def test_sums_and_products(name: str, dtype: str) -> None:
    x = sample(dtype) if name == "sum" else sample(dtype, (2, 3, 2))
    wide = "uint64" if dtype.startswith("u") else "int64" if dtype in (*INTS, "bool") else dtype
    for axis, keepdims in itertools.product(AXES, (False, True)):
        want = getattr(np, name)(x.astype(wide), axis=axis, keepdims=keepdims, dtype=wide)
        got = getattr(tb, name)(tb.tensor(x), axis=axis, keepdims=keepdims)
        near(got, want, getattr(tb, wide))
        again = lambda t, a=axis, k=keepdims: getattr(tb, name)(t, axis=a, keepdims=k)  # noqa: E731
        recorded = tb.jit(again, target="reference")(tb.tensor(x))
        assert recorded.numpy().tobytes() == got.numpy().tobytes()
        near(tb.jit(again, target="cpu")(tb.tensor(x)), want, getattr(tb, wide))
    assert getattr(tb, name)(tb.tensor(x), dtype=tb.float64).dtype == tb.float64


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
def test_extremes(name: str, dtype: str) -> None:
    x = sample(dtype)
    for axis, keepdims in itertools.product(AXES, (False, True)):
        near(
            getattr(tb, name)(tb.tensor(x), axis=axis, keepdims=keepdims),
            getattr(np, name)(x, axis, keepdims=keepdims),
        )
    for axis, keepdims in itertools.product([None, 0, -1], (False, True)):
        arg = getattr(tb, f"arg{name}")(tb.tensor(x), axis=axis, keepdims=keepdims)
        near(arg, getattr(np, f"arg{name}")(x, axis, keepdims=keepdims))
    assert tb.jit(tb.argmax)(tb.tensor(x)).item() == x.argmax()


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX])
@pytest.mark.parametrize("correction", [0, 1, 0.5, 2.0])
def test_mean_variance_and_deviation(dtype: str, correction: float) -> None:
    x = sample(dtype)
    wide = x.astype(np.complex128 if dtype in COMPLEX else np.float64)
    real = dt.real_of(np.dtype(dtype))
    for axis, keepdims in itertools.product([a for a in AXES if a != ()], (False, True)):
        near(tb.mean(tb.tensor(x), axis=axis, keepdims=keepdims), wide.mean(axis, keepdims=keepdims), x.dtype)
        for name in ("var", "std"):
            want = getattr(np, name)(wide, axis, ddof=correction, keepdims=keepdims)
            near(
                getattr(tb, name)(tb.tensor(x), axis=axis, correction=correction, keepdims=keepdims),
                want,
                real,
            )


def test_variance_of_large_offsets_does_not_cancel() -> None:
    x = np.array([1e6, 1e6 + 1, 1e6 + 2], np.float32)
    assert tb.var(tb.tensor(x)).item() == pytest.approx(2 / 3, rel=1e-6)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_small_floats_add_up_in_float32(name: str) -> None:
    x = tb.ones(5000, dtype=name)
    assert tb.sum(x).item() == float(np.float32(5000).astype(x.dtype))
    assert tb.mean(x).item() == 1.0 and tb.mean(x).dtype == x.dtype
    assert tb.var(x).item() == 0.0 and tb.var(x).dtype == x.dtype


@pytest.mark.parametrize("name", ["all", "any", "count_nonzero"])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "complex64"])
def test_truth(name: str, dtype: str) -> None:
    x = (sample("int8") % 3 == 0).astype(dtype)
    for axis, keepdims in itertools.product(AXES, (False, True)):
        want = getattr(np, name)(x, axis=axis, keepdims=keepdims) if axis != () else None
        if want is not None:
            near(getattr(tb, name)(tb.tensor(x), axis=axis, keepdims=keepdims), want)


# -- running ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, *COMPLEX])
def test_cumulative(dtype: str) -> None:
    x = sample(dtype, (2, 3, 4)) if dtype not in INTS else sample(dtype, (2, 3, 4)) % 4
    wide = "uint64" if dtype.startswith("u") else "int64" if dtype in INTS else dtype
    for name, reference, first in (("cumulative_sum", np.cumsum, 0), ("cumulative_prod", np.cumprod, 1)):
        for axis in (0, 1, -1):
            want = reference(x.astype(wide), axis)
            near(getattr(tb, name)(tb.tensor(x), axis=axis), want, getattr(tb, wide))
            begun = np.insert(want, 0, first, axis)
            near(getattr(tb, name)(tb.tensor(x), axis=axis, include_initial=True), begun, getattr(tb, wide))
        near(tb.vmap(getattr(tb, name))(tb.tensor(x[0])), reference(x[0].astype(wide), 1), getattr(tb, wide))
        line = tb.tensor(x[0, 0])
        near(getattr(tb, name)(line), reference(x[0, 0].astype(wide)), getattr(tb, wide))
        assert getattr(tb, name)(line, dtype=tb.float64).dtype == tb.float64 if dtype not in COMPLEX else True
        assert getattr(tb, name)(tb.tensor(x[:, :0]), axis=1, include_initial=True).shape == (2, 1, 4)


def test_running_extremes_and_logsumexp() -> None:
    x = sample("float64", (3, 5))
    near(tb.cummax(tb.tensor(x), 1), np.maximum.accumulate(x, 1))
    near(tb.cummin(tb.tensor(x), axis=0), np.minimum.accumulate(x, 0))
    near(tb.logcumsumexp(tb.tensor(x), 1), np.logaddexp.accumulate(x, 1))
    near(tb.cumsum(tb.tensor(x), 1), np.cumsum(x, 1))
    near(tb.tensor(x).cumprod(dim=0), np.cumprod(x, 0))


# -- norms, softmax --------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0, 1, 2, 3, 0.5, np.inf, -np.inf])
def test_norm(p: float) -> None:
    x = sample("float64", (3, 4))
    sizes = np.abs(x)
    want = {
        0: (x != 0).sum(1), np.inf: sizes.max(1), -np.inf: sizes.min(1),
    }.get(p, (sizes ** (p or 1)).sum(1) ** (1 / (p or 1)))  # fmt: skip
    near(tb.norm(tb.tensor(x), p, axis=1), np.asarray(want, np.float64))


def test_the_norm_has_a_slope_at_zero() -> None:
    x = tb.zeros(3, requires_grad=True)
    tb.norm(x).backward()
    assert x.grad.tolist() == [0, 0, 0]


def _softmax(x: Array, axis: Any) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


OUTSIDE = np.array([[1e4, 1e4 - 1, -1e4], [-np.inf, 0.0, 3.0]])
NORMALISED: dict[str, Callable[[Array, Any], Array]] = {
    "softmax": _softmax,
    "log_softmax": lambda x, a: (
        x - x.max(a, keepdims=True) - np.log(np.exp(x - x.max(a, keepdims=True)).sum(a, keepdims=True))
    ),
    "logsumexp": lambda x, a: np.log(np.exp(x - x.max(a, keepdims=True)).sum(a)) + x.max(a),
}


@pytest.mark.parametrize("name", NORMALISED)
@pytest.mark.parametrize("axis", [-1, 0, (0, 1)])
def test_softmax_and_its_kin(name: str, axis: Any) -> None:
    fn = getattr(tb, name)
    for x in (sample("float64", (4, 3)), OUTSIDE):
        near(fn(tb.tensor(x), axis), NORMALISED[name](x, axis))
        recorded = tb.jit(lambda t: fn(t, axis), target="reference")(tb.tensor(x))
        assert recorded.numpy().tobytes() == fn(tb.tensor(x), axis).numpy().tobytes()
        near(tb.jit(lambda t: fn(t, axis), target="cpu")(tb.tensor(x)), NORMALISED[name](x, axis))
    x = sample("float64", (2, 4, 3))
    near(tb.vmap(lambda t: fn(t, axis))(tb.tensor(x)), np.stack([NORMALISED[name](r, axis) for r in x]))


@pytest.mark.parametrize("name", NORMALISED)
def test_derivatives_of_softmax_and_its_kin(name: str) -> None:
    """Reverse mode has its own rule, forward mode differentiates the body: both agree with differences."""
    fn = getattr(tb, name)
    x, w = tb.tensor(sample("float64", (3, 4))), tb.tensor(sample("float64", (4,)))
    f = lambda t: tb.sum(fn(t, -1) * (w if name != "logsumexp" else w[:3]))  # noqa: E731
    g = tb.grad(f)(x)
    t = tb.tensor(sample("float64", (3, 4)) + 1)
    forward = tb.jvp(f, (x,), (t,))[1].item()
    assert tb.sum(g * t).item() == pytest.approx(forward, rel=1e-12)
    h = 1e-6
    assert forward == pytest.approx((f(x + h * t) - f(x - h * t)).item() / (2 * h), rel=1e-7)
    assert tb.jit(tb.grad(f))(x).numpy() == pytest.approx(g.numpy(), rel=1e-14)
    second = tb.hessian(f)(x)
    bump = lambda s: tb.grad(f)(x + s * t)  # noqa: E731
    want = (bump(h) - bump(-h)).numpy() / (2 * h)
    got = tb.einsum("ijkl,kl->ij", second, t).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-8)


def test_logsumexp_of_infinities() -> None:
    assert tb.logsumexp(tb.tensor([-np.inf, -np.inf])).item() == -np.inf
    assert tb.logsumexp(tb.tensor([np.inf, 1.0])).item() == np.inf
    x = tb.tensor([-np.inf, -np.inf], requires_grad=True)
    tb.logsumexp(x).backward()
    assert x.grad.tolist() == [0, 0]


def test_softmax_of_small_floats_is_rounded_once() -> None:
    x = sample("float32", (2, 50)).astype(dt.bfloat16)
    want = _softmax(x.astype(np.float32), -1).astype(dt.bfloat16)
    np.testing.assert_array_equal(
        tb.softmax(tb.tensor(x)).numpy().astype(np.float32), want.astype(np.float32)
    )
    assert tb.softmax(tb.tensor(x), dtype=tb.float32).dtype == tb.float32


def test_composites_stay_whole() -> None:
    graph = str(tb.make_graph(lambda x: tb.softmax(x))(tb.ones((2, 3))))
    assert "softmax" in graph


def test_median_and_quantile() -> None:
    x = sample("float64", (3, 6))
    near(tb.median(tb.tensor(x), axis=1), np.median(x, 1))
    near(tb.quantile(tb.tensor(x), 0.5), np.median(x))
    for q in (0.0, 0.1, 0.5, 0.77, 1.0):
        near(tb.quantile(tb.tensor(x), q, 0), np.quantile(x, q, 0))
    x[0, 0] = np.nan
    assert np.isnan(tb.median(tb.tensor(x), axis=1).numpy()).tolist() == [True, False, False]


def test_nansum() -> None:
    assert tb.nansum(tb.tensor([1.0, np.nan, 2.0])).item() == 3.0
