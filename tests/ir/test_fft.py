"""Fourier transforms against their sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from derivative_checks import check, check_batching, check_recording, normal

from trilobite.base.dtypes import BY_NAME
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.ir.primitives import table
from trilobite.ir.types import TensorType, dim

Array = np.ndarray[Any, Any]
fft, rfft, irfft = table["fft"], table["rfft"], table["irfft"]
LENGTHS = [1, 2, 3, 4, 7, 12, 31, 64, 97]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def sums(x: Array, axis: int, sign: int, count: int | None = None) -> Array:
    """The defining sum in long double, for `count` frequencies."""
    n = x.shape[axis]
    j, k = np.arange(n), np.arange(n if count is None else count)
    turns = np.outer(k, j) % n * (np.longdouble(2) * np.pi / n)
    kernel = np.cos(turns) + sign * 1j * np.sin(turns)
    return np.moveaxis(np.tensordot(kernel, x.astype(np.clongdouble), axes=(1, axis)), 0, axis)


def close(a: Array, b: Array, n: int, eps: float) -> None:
    """Within a few rounding errors for each halving of the length."""
    np.testing.assert_array_less(
        np.abs(a - b), (4 + 4 * np.log2(n)) * eps * np.sqrt(n) * max(np.abs(b).max(), 1) + 1e-300
    )


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(("dtype", "eps"), [("complex128", 2.0**-53), ("complex64", 2.0**-24)])
def test_complex(rng: np.random.Generator, n: int, inverse: bool, dtype: str, eps: float) -> None:
    for axis, shape in ((0, (n,)), (1, (3, n, 2)), (0, (n, 0))):
        x = normal(rng, np.empty(shape, dtype))
        got = fft(x, axes=(axis,), inverse=inverse)
        assert got.dtype == x.dtype
        if x.size:
            close(got, sums(x, axis, 1 if inverse else -1), n, eps)


def test_several_axes(rng: np.random.Generator) -> None:
    x = normal(rng, np.empty((4, 3, 5), np.complex128))
    close(fft(x, axes=(0, 2), inverse=False), sums(sums(x, 0, -1), 2, -1), 20, 2.0**-53)
    np.testing.assert_array_equal(fft(x, axes=(), inverse=False), x)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize(
    ("dtype", "eps"),
    [("float64", 2.0**-53), ("float32", 2.0**-24), ("float16", 2.0**-24), ("bfloat16", 2.0**-24)],
)
def test_real(rng: np.random.Generator, n: int, dtype: str, eps: float) -> None:
    for axis, shape in ((0, (n,)), (1, (3, n, 2))):
        x = rng.standard_normal(shape).astype(BY_NAME[dtype])
        got = rfft(x, axis=axis)
        assert got.dtype == (np.complex128 if dtype == "float64" else np.complex64)
        close(got, sums(x.astype(np.float64), axis, -1, n // 2 + 1), n, eps)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize(("dtype", "eps"), [("complex128", 2.0**-53), ("complex64", 2.0**-24)])
def test_back_to_real(rng: np.random.Generator, n: int, dtype: str, eps: float) -> None:
    """Mirrored to the full spectrum, with imaginary parts dropped where there is no mirror image."""
    x = normal(rng, np.empty((3, n // 2 + 1, 2), dtype))
    whole = np.zeros((3, n, 2), np.complex128)
    whole[:, : n // 2 + 1] = x
    for k in range(n // 2 + 1, n):
        whole[:, k] = np.conj(x[:, n - k])
    whole[:, 0] = whole[:, 0].real
    if n % 2 == 0:
        whole[:, n // 2] = whole[:, n // 2].real
    want = sums(whole, 1, 1)
    got = irfft(x, axis=1, length=n)
    assert got.dtype == np.dtype("float64" if dtype == "complex128" else "float32")
    np.testing.assert_allclose(want.imag, 0, atol=1e-12)
    close(got, want.real, n, eps)


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_derivatives(rng: np.random.Generator, n: int) -> None:
    x = normal(rng, np.empty((2, n, 3), np.complex128))
    for inverse in (False, True):
        check(lambda a, i=inverse: fft(a, axes=(1, 2), inverse=i), [x], rng)
    check(lambda a: rfft(a, axis=1), [rng.standard_normal((2, n, 3))], rng, order=3)
    spectrum = normal(rng, np.empty((2, n // 2 + 1), np.complex128))
    check(lambda a: irfft(a, axis=1, length=n), [spectrum], rng, order=3)


def test_batching_and_recording(rng: np.random.Generator) -> None:
    x = normal(rng, np.empty((4, 5), np.complex128))
    calls: list[tuple[Any, Array]] = [
        (lambda a: fft(a, axes=(0, 1), inverse=False), x),
        (lambda a: fft(a, axes=(1,), inverse=True), x),
        (lambda a: rfft(a, axis=0), x.real.copy()),
        (lambda a: irfft(a, axis=1, length=8), x),
    ]
    for call, operand in calls:
        check_batching(call, [operand], rng)
        check_recording(call, [operand])


def test_symbolic_sizes() -> None:
    n = dim("n")
    assert rfft.type(TensorType((n, 7), np.dtype("float32")), axis=1) == TensorType(
        (n, 4), np.dtype("complex64")
    )
    assert fft.type(TensorType((3, n), np.dtype("complex64")), axes=(1,), inverse=False).shape == (3, n)


def test_cost_grows_as_n_log_n() -> None:
    x = TensorType((2, 8), np.dtype("complex64"))
    assert fft.cost([x], [x], {"axes": (1,), "inverse": False}) == 5 * 16 * 3
    real = TensorType((2, 8), np.dtype("float32"))
    assert rfft.cost([real], [rfft.type(real, axis=1)], {"axis": 1}) == 2.5 * 16 * 3


C64, F32 = np.dtype("complex64"), np.dtype("float32")


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (
            lambda: fft.type(TensorType((3,), F32), axes=(0,), inverse=False),
            DTypeError,
            "fft does not take float32",
        ),
        (lambda: rfft.type(TensorType((3,), C64), axis=0), DTypeError, "rfft does not take complex64"),
        (lambda: fft.type(TensorType((3, 3), C64), axes=(0, 0), inverse=False), ShapeError, "distinct axes"),
        (lambda: fft.type(TensorType((3,), C64), axes=(1,), inverse=False), ShapeError, "below 1"),
        (lambda: rfft.type(TensorType((3, 0), F32), axis=1), ShapeError, "axis 1 has no elements"),
        (
            lambda: irfft.type(TensorType((3,), C64), axis=0, length=6),
            ShapeError,
            "4 numbers for a length of 6",
        ),
    ],
)
def test_refusals(act: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as e:
        act()
    assert text in str(e.value)
