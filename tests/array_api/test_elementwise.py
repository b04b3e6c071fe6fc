"""Elementwise operations against NumPy, for every dtype they take: dtype, values, recordings, batches,
numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base import dtypes as dt

Array = np.ndarray[Any, Any]
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS, COMPLEX = ("float32", "float64"), ("complex64", "complex128")
NUMBERS, REALS, INEXACT = INTS + FLOATS + COMPLEX, INTS + FLOATS, FLOATS + COMPLEX

UNARY: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "abs": (np.abs, NUMBERS),
    "acos": (np.arccos, INEXACT),
    "acosh": (np.arccosh, INEXACT),
    "asin": (np.arcsin, INEXACT),
    "asinh": (np.arcsinh, INEXACT),
    "atan": (np.arctan, INEXACT),
    "atanh": (np.arctanh, INEXACT),
    "bitwise_invert": (np.invert, (*INTS, "bool")),
    "ceil": (np.ceil, REALS),
    "conj": (np.conj, NUMBERS),
    "cos": (np.cos, INEXACT),
    "cosh": (np.cosh, INEXACT),
    "exp": (np.exp, INEXACT),
    "exp2": (np.exp2, INEXACT),
    "expm1": (np.expm1, INEXACT),
    "floor": (np.floor, REALS),
    "imag": (np.imag, COMPLEX),
    "isfinite": (np.isfinite, NUMBERS),
    "isinf": (np.isinf, NUMBERS),
    "isnan": (np.isnan, NUMBERS),
    "log": (np.log, INEXACT),
    "log1p": (np.log1p, INEXACT),
    "log2": (np.log2, INEXACT),
    "log10": (np.log10, INEXACT),
    "logical_not": (np.logical_not, (*NUMBERS, "bool")),
    "negative": (np.negative, NUMBERS),
    "positive": (np.positive, NUMBERS),
    "real": (np.real, NUMBERS),
    "reciprocal": (lambda x: np.divide(1, x, dtype=x.dtype), INEXACT),
    "round": (np.round, NUMBERS),
    "sign": (np.sign, NUMBERS),
    "signbit": (np.signbit, FLOATS),
    "sin": (np.sin, INEXACT),
    "sinh": (np.sinh, INEXACT),
    "square": (np.square, NUMBERS),
    "sqrt": (np.sqrt, INEXACT),
    "tan": (np.tan, INEXACT),
    "tanh": (np.tanh, INEXACT),
    "trunc": (np.trunc, REALS),
    "deg2rad": (np.deg2rad, FLOATS),
    "angle": (lambda x: np.angle(x if np.iscomplexobj(x) else x + 0), INEXACT),
    "bitwise_count": (lambda x: np.bitwise_count(x.view(f"u{x.itemsize}")).astype(x.dtype), INTS),
    "frac": (lambda x: x - np.trunc(x), FLOATS),
}
BINARY: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "add": (np.add, (*NUMBERS, "bool")),
    "atan2": (np.arctan2, FLOATS),
    "bitwise_and": (np.bitwise_and, (*INTS, "bool")),
    "bitwise_or": (np.bitwise_or, (*INTS, "bool")),
    "bitwise_xor": (np.bitwise_xor, (*INTS, "bool")),
    "copysign": (np.copysign, FLOATS),
    "divide": (np.divide, INEXACT),
    "equal": (np.equal, (*NUMBERS, "bool")),
    "floor_divide": (np.floor_divide, REALS),
    "greater": (np.greater, (*REALS, "bool")),
    "greater_equal": (np.greater_equal, REALS),
    "hypot": (np.hypot, FLOATS),
    "less": (np.less, REALS),
    "less_equal": (np.less_equal, REALS),
    "logaddexp": (np.logaddexp, FLOATS),
    "logical_and": (np.logical_and, (*NUMBERS, "bool")),
    "logical_or": (np.logical_or, (*NUMBERS, "bool")),
    "logical_xor": (np.logical_xor, (*NUMBERS, "bool")),
    "maximum": (np.maximum, (*REALS, "bool")),
    "minimum": (np.minimum, (*REALS, "bool")),
    "multiply": (np.multiply, (*NUMBERS, "bool")),
    "nextafter": (np.nextafter, FLOATS),
    "not_equal": (np.not_equal, (*NUMBERS, "bool")),
    "remainder": (np.remainder, REALS),
    "subtract": (np.subtract, NUMBERS),
    "fmod": (np.fmod, REALS),
}


def sample(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Signed, over many magnitudes, with the numbers that matter among them."""
    random = np.random.default_rng([seed, sum(map(ord, dtype))])
    d = np.dtype(dtype)
    size = int(np.prod(shape, dtype=int))
    if d.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    if d.kind in "iu":
        info = np.iinfo(d)
        wide = random.integers(info.min, info.max, shape, dtype=d, endpoint=True)
        wide.reshape(-1)[: min(size, 4)] = [0, 1, info.max, info.min][: min(size, 4)]
        return wide
    if d.kind == "c":
        return (sample("float64", shape, seed) + 1j * sample("float64", shape, seed + 1)).astype(d)
    wide = (random.standard_normal(shape) * 10.0 ** random.uniform(-6, 3, shape)).astype(d)
    wide.reshape(-1)[: min(size, 4)] = [0.0, -0.0, 1.0, -0.5][: min(size, 4)]
    return wide


def same(got: tb.Tensor, want: Any) -> None:
    want = np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_array_equal(got.numpy(), want)


CASES = [
    (name, dtype) for table in (UNARY, BINARY) for name, (_, dtypes) in table.items() for dtype in dtypes
]


@pytest.mark.parametrize(("name", "dtype"), [c for c in CASES if c[0] in UNARY])
def test_unary(name: str, dtype: str) -> None:
    fn, reference = getattr(tb, name), UNARY[name][0]
    x = sample(dtype, (5, 13))
    with np.errstate(all="ignore"):
        want = reference(x)
    t = tb.tensor(x)
    same(fn(t), want)
    assert tb.jit(fn, target="reference")(t).numpy().tobytes() == fn(t).numpy().tobytes()
    same(tb.vmap(fn)(t), want)
    same(fn(tb.tensor(x[:0])), want[:0])
    same(fn(tb.tensor(x[2, 3])), want[2, 3])


@pytest.mark.parametrize(("name", "dtype"), [c for c in CASES if c[0] in BINARY])
def test_binary(name: str, dtype: str) -> None:
    fn, reference = getattr(tb, name), BINARY[name][0]
    x, y = sample(dtype, (4, 1, 7)), sample(dtype, (3, 7), seed=5)
    with np.errstate(all="ignore"):
        want = reference(x, y)
    a, b = tb.tensor(x), tb.tensor(y)
    same(fn(a, b), want)
    assert tb.jit(fn, target="reference")(a, b).numpy().tobytes() == fn(a, b).numpy().tobytes()
    same(tb.vmap(fn, in_axes=(0, None))(a, b), want)
    same(fn(a[:0], b), want[:0])
    with np.errstate(all="ignore"):
        same(fn(a, b[0, 4]), reference(x, y[0, 4]))


@pytest.mark.parametrize("dtype", INTS)
def test_shifts(dtype: str) -> None:
    x, width = sample(dtype, (6, 9)), np.dtype(dtype).itemsize * 8
    n = (np.arange(54).reshape(6, 9) % width).astype(dtype)
    for name, reference in (("bitwise_left_shift", np.left_shift), ("bitwise_right_shift", np.right_shift)):
        same(getattr(tb, name)(tb.tensor(x), tb.tensor(n)), reference(x, n))
        same(tb.jit(getattr(tb, name))(tb.tensor(x), tb.tensor(n)), reference(x, n))
    same(tb.tensor(x) << 2, x << np.dtype(dtype).type(2))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_pow(dtype: str) -> None:
    x = sample(dtype, (30,)) if np.dtype(dtype).kind in "fc" else (np.arange(30) % 7).astype(dtype)
    y = (np.arange(30) % 5).astype(dtype)
    with np.errstate(all="ignore"):
        same(tb.tensor(x) ** tb.tensor(y), np.power(x, y))
        same(2 ** tb.tensor(y), np.power(np.dtype(dtype).type(2), y))


@pytest.mark.parametrize("dtype", INTS)
def test_integers_become_default_floats_where_only_floats_make_sense(dtype: str) -> None:
    x = tb.tensor(np.array([1, 2, 3], dtype))
    assert tb.sin(x).dtype == (x / x).dtype == tb.mean(x).dtype == tb.hypot(x, x).dtype == tb.float32
    np.testing.assert_array_equal((x / 2).numpy(), np.array([0.5, 1.0, 1.5], np.float32))


@pytest.mark.parametrize("dtype", INTS)
def test_integer_division_by_zero_is_zero(dtype: str) -> None:
    x, zero = tb.tensor(np.array([5, 0], dtype)), tb.zeros(2, dtype=dtype)
    assert (x // zero).tolist() == [0, 0] and (x % zero).tolist() == [0, 0]


SMALL = sorted(dt.SMALL_FLOATS, key=lambda d: d.name)


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_small_floats_compute_in_float32_and_round_once(dtype: Any) -> None:
    x = sample("float32", (40,)).astype(dtype)
    if dtype == dt.float8_e8m0fnu:
        x = np.abs(sample("float32", (40,)) + 1).astype(dtype)
    wide = x.astype(np.float32)
    for name in ("exp", "sqrt", "tanh"):
        with np.errstate(all="ignore"):
            want = getattr(np, name)(wide).astype(dtype)
        got = getattr(tb, name)(tb.tensor(x)).numpy()
        np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))
    with np.errstate(all="ignore"):
        want = (wide * wide).astype(dtype)
    np.testing.assert_array_equal(
        (tb.tensor(x) * tb.tensor(x)).numpy().astype(np.float32), want.astype(np.float32)
    )


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_four_bit_integers_wrap(dtype: str) -> None:
    x = tb.arange(0, 8).astype(dtype)
    info = tb.iinfo(x.dtype)
    want = [(v * 3 - info.min) % 16 + info.min for v in range(8)]
    assert (x * 3).tolist() == want and (x * 3).dtype == x.dtype
    assert tb.jit(lambda t: t * 3)(x).tolist() == want


# -- what is made of several primitives ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("bounds", [(None, None), (2, None), (None, 5), (2, 5)])
def test_clip(dtype: str, bounds: tuple[Any, Any]) -> None:
    x = sample(dtype, (4, 5))
    want = (
        x if bounds == (None, None) else np.clip(x, *(None if b is None else x.dtype.type(b) for b in bounds))
    )
    same(tb.clip(tb.tensor(x), *bounds), want)
    arrays = [None if b is None else tb.full((5,), b, dtype=dtype) for b in bounds]
    same(tb.clip(tb.tensor(x), min=arrays[0], max=arrays[1]), want)
    same(tb.jit(lambda t: tb.clip(t, *bounds))(tb.tensor(x)), want)


@pytest.mark.parametrize("way", [lambda f: f, tb.jit], ids=["eager", "jit"])
def test_clip_on_its_bounds_and_of_nan(way: Any) -> None:
    x = tb.tensor([-1.0, 1.0, 0.25, -1.5, 3.0, np.nan])
    slope = way(tb.grad(lambda x, low, high: tb.clip(x, low, high).sum(), argnums=(0, 1, 2)))
    assert way(tb.grad(lambda x: tb.clip(x, -1, 1).sum()))(x).tolist() == [1, 1, 1, 0, 0, 1]
    bounds = tb.full((6,), -1.0), tb.full((6,), 1.0)
    found = [g.tolist() for g in slope(x, *bounds)]
    assert found == [[1, 1, 1, 0, 0, 1], [0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 0]]
    assert np.isnan(way(tb.clip)(x, bounds[0] * np.nan, bounds[1]).numpy()).all()
    assert np.isnan(way(lambda x: tb.clip(x, max=float("nan")))(x).numpy()).all()
    same(way(lambda x: tb.clip(x, 1.0, -1.0))(x), np.array([-1.0] * 5 + [np.nan], np.float32))


def test_clip_keeps_the_dtype_but_not_the_kind() -> None:
    x = tb.asarray([-100, 0, 100], dtype=tb.int8)
    assert tb.clip(x, -1000, 1000).tolist() == [-100, 0, 100]
    assert tb.clip(x, tb.asarray(-300, dtype=tb.int16), tb.asarray(50, dtype=tb.int64)).tolist() == [
        -100,
        0,
        50,
    ]
    assert tb.clip(x, tb.asarray(-300, dtype=tb.int16)).dtype == tb.int8
    assert tb.clip(x, 0.5).dtype == tb.float32
    assert tb.clip(x, 200, 300).tolist() == [127, 127, 127]


@pytest.mark.parametrize("dtype", FLOATS)
def test_sigmoid_is_accurate_in_both_tails(dtype: str) -> None:
    x = np.array([-700.0, -88.0, -20.0, -1.0, -1e-9, 0.0, 1e-9, 1.0, 20.0, 88.0, np.inf, -np.inf], dtype)
    wide = x.astype(np.longdouble)
    with np.errstate(all="ignore"):
        want = 1 / (1 + np.exp(-wide))
        slope = np.exp(-np.abs(wide)) / (1 + np.exp(-np.abs(wide))) ** 2
    t = tb.tensor(x, requires_grad=True)
    out = tb.sigmoid(t)
    out.sum().backward()
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(
        out.detach().numpy(), want.astype(dtype), rtol=8 * eps, atol=np.finfo(dtype).tiny
    )
    np.testing.assert_allclose(t.grad.numpy(), slope.astype(dtype), rtol=8 * eps, atol=np.finfo(dtype).tiny)
    forward = tb.jvp(tb.sigmoid, (tb.tensor(x),), (tb.ones_like(tb.tensor(x)),))[1]
    np.testing.assert_allclose(forward.numpy(), slope.astype(dtype), rtol=16 * eps, atol=np.finfo(dtype).tiny)


def test_relu() -> None:
    x = tb.tensor([-np.inf, -2.0, -0.0, 0.0, 3.0, np.inf, np.nan], requires_grad=True)
    out = tb.relu(x)
    assert out.tolist()[:6] == [0.0, 0.0, 0.0, 0.0, 3.0, np.inf] and np.isnan(out.tolist()[6])
    out[:6].sum().backward()
    assert x.grad.tolist()[:6] == [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]


def test_nan_to_num_lerp_logit_isclose() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 2.5], np.float32)
    same(tb.nan_to_num(tb.tensor(x)), np.nan_to_num(x))
    same(
        tb.nan_to_num(tb.tensor(x), nan=1.0, posinf=2.0, neginf=3.0),
        np.nan_to_num(x, nan=1.0, posinf=2.0, neginf=3.0),
    )
    assert tb.lerp(tb.tensor([0.0, 10.0]), tb.tensor([10.0, 20.0]), 0.25).tolist() == [2.5, 12.5]
    p = tb.tensor([0.1, 0.5, 0.9])
    np.testing.assert_allclose(tb.sigmoid(tb.logit(p)).numpy(), p.numpy(), rtol=1e-6)
    a, b = (
        np.array([1.0, 1.0, np.nan, np.inf], np.float32),
        np.array([1.000001, 1.1, np.nan, np.inf], np.float32),
    )
    for nan in (False, True):
        same(tb.isclose(tb.tensor(a), tb.tensor(b), equal_nan=nan), np.isclose(a, b, equal_nan=nan))
    assert tb.allclose(tb.tensor(a[:1]), tb.tensor(b[:1])) is True
    assert tb.allclose(tb.tensor(a), tb.tensor(b), equal_nan=True) is False


def test_round_to_decimals() -> None:
    x = np.array([1.2345, -2.5, 0.125, 1250.0])
    same(tb.round(tb.tensor(x), decimals=2), np.round(x, 2))
    same(tb.round(tb.tensor(x), decimals=-2), np.round(x, -2))


def test_rad2deg() -> None:
    np.testing.assert_allclose(tb.rad2deg(tb.tensor([np.pi, -1.0])).numpy(), [180.0, -57.29578], rtol=1e-6)


def test_complex_from_parts() -> None:
    z = tb.complex(tb.asarray([1.0, -0.0]), tb.asarray([np.inf, 2.0]))
    assert z.dtype == tb.complex64 and z.real.tolist() == [1.0, -0.0] and z.imag.tolist() == [np.inf, 2.0]


def test_identities_are_copies() -> None:
    """positive, conj, real and round of what they leave alone do not share memory with it."""
    for fn in (tb.positive, tb.conj, tb.real, tb.clip, tb.nan_to_num):
        for grad in (False, True):
            x = tb.tensor([1.0, 2.0], requires_grad=grad)
            y = fn(x)
            with tb.no_grad():
                x[0] = 9.0
            assert y.tolist() == [1.0, 2.0], fn


def test_operators_leave_strangers_to_themselves() -> None:
    class Stranger:
        def __radd__(self, other: Any) -> str:
            return "mine"

    assert tb.ones(2) + Stranger() == "mine"
    with pytest.raises(TypeError):
        tb.ones(2) + "a"
    assert (np.ones(2, np.float32) + tb.ones(2)).dtype == tb.float32
    assert isinstance(np.ones(2) * tb.ones(2), tb.Tensor)
