"""`tb.fft`: the standard's signatures, NumPy's numbers in the operand's precision, gradients, errors as
text."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, DTypeError, ShapeError

Array = np.ndarray[Any, Any]
F = tb.fft
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
MANY = ("fftn", "ifftn", "rfftn", "irfftn")
TWO = ("fft2", "ifft2", "rfft2", "irfft2")
OTHERS = ("fftfreq", "rfftfreq", "fftshift", "ifftshift")
REAL_INPUT = ("rfft", "ihfft", "rfftn", "rfft2")
NORMS = ("backward", "ortho", "forward")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(13)


def operand(rng: np.random.Generator, name: str, shape: tuple[int, ...], double: bool = True) -> Array:
    out = rng.standard_normal(shape)
    if name not in REAL_INPUT:
        out = out + 1j * rng.standard_normal(shape)
    return out if double else out.astype(np.complex64 if out.dtype.kind == "c" else np.float32)


def same(got: tb.Tensor, want: Array, tol: float) -> None:
    assert tuple(got.shape) == want.shape and got.dtype == want.dtype
    np.testing.assert_allclose(
        got.numpy(), want, rtol=0, atol=tol * max(1.0, float(np.abs(want).max(initial=0)))
    )


@pytest.mark.parametrize("name", [*ONE, *MANY, *OTHERS])
def test_signatures_are_the_standards(name: str) -> None:
    strict = pytest.importorskip("array_api_strict").fft
    ours, theirs = (inspect.signature(getattr(m, name)).parameters.values() for m in (F, strict))
    assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in theirs]


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ONE)
def test_one_axis_as_numpy(rng: np.random.Generator, name: str, norm: str, double: bool) -> None:
    for axis, n in ((-1, None), (0, None), (1, 4), (1, 11), (2, 1), (0, 2)):
        x = operand(rng, name, (5, 7, 6), double)
        want = getattr(np.fft, name)(x, n=n, axis=axis, norm=norm)
        same(getattr(F, name)(tb.tensor(x), n=n, axis=axis, norm=norm), want, 1e-13 if double else 1e-5)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", [*MANY, *TWO])
def test_several_axes_as_numpy(rng: np.random.Generator, name: str, norm: str) -> None:
    x = operand(rng, name, (4, 3, 5))
    fn, reference = getattr(F, name), getattr(np.fft, name)
    same(fn(tb.tensor(x), norm=norm), reference(x, norm=norm), 1e-13)
    for s, axes in ((None, (0, 2)), ((3, 6), (1, 0)), ((7, 2), (-1, -2)), ((-1, 4), (0, 2))):
        same(fn(tb.tensor(x), s=s, axes=axes, norm=norm), reference(x, s=s, axes=axes, norm=norm), 1e-13)
    if name in MANY:
        same(fn(tb.tensor(x), s=(4, 2), norm=norm), reference(x, s=(4, 2), axes=(1, 2), norm=norm), 1e-13)
        same(fn(tb.tensor(x), axes=(1,), norm=norm), reference(x, axes=(1,), norm=norm), 1e-13)


def test_no_axes_change_nothing(rng: np.random.Generator) -> None:
    x = operand(rng, "fftn", (3, 2))
    np.testing.assert_array_equal(F.fftn(tb.tensor(x), axes=()).numpy(), x)
    assert F.fftn(tb.zeros((0, 4)), axes=(1,)).shape == (0, 4)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_there_and_back(rng: np.random.Generator, n: int, norm: str) -> None:
    x, real = operand(rng, "fft", (3, n)), operand(rng, "rfft", (3, n))
    same(F.ifft(F.fft(tb.tensor(x), norm=norm), norm=norm), x, 1e-14)
    same(F.ifftn(F.fftn(tb.tensor(x), norm=norm), norm=norm), x, 1e-14)
    same(F.irfft(F.rfft(tb.tensor(real), norm=norm), n=n, norm=norm), real, 1e-14)
    same(F.irfftn(F.rfftn(tb.tensor(real), norm=norm), s=(3, n), norm=norm), real, 1e-14)
    same(F.hfft(F.ihfft(tb.tensor(real), norm=norm), n=n, norm=norm), real, 1e-14)


def test_dtypes() -> None:
    single = (tb.float16, tb.bfloat16, tb.float32, tb.int64, tb.complex64)
    for given, wanted in (*((d, tb.complex64) for d in single), (tb.float64, tb.complex128)):
        x = tb.asarray([1, 2, 3, 4]).astype(given)
        assert F.fft(x).dtype == wanted
        np.testing.assert_allclose(F.fft(x).numpy(), np.fft.fft([1, 2, 3, 4]), atol=1e-6)
        if given != tb.complex64:
            assert F.rfft(x).dtype == wanted
    assert F.irfft(tb.ones((3,), dtype=tb.complex64)).dtype == tb.float32


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_frequencies(n: int) -> None:
    same(F.fftfreq(n, d=0.25, dtype=tb.float64), np.fft.fftfreq(n, 0.25), 1e-15)
    same(F.rfftfreq(n, d=0.25, dtype=tb.float64), np.fft.rfftfreq(n, 0.25), 1e-15)
    assert F.fftfreq(n).dtype == F.rfftfreq(n).dtype == tb.float32


def test_shifts(rng: np.random.Generator) -> None:
    x = operand(rng, "fft", (4, 5, 3))
    for axes in (None, 0, (1, 2), (-1,), ()):
        same(F.fftshift(tb.tensor(x), axes=axes), np.fft.fftshift(x, axes), 0)
        same(F.ifftshift(tb.tensor(x), axes=axes), np.fft.ifftshift(x, axes), 0)
        same(F.ifftshift(F.fftshift(tb.tensor(x), axes=axes), axes=axes), x, 0)


# -- gradients -----------------------------------------------------------------------------------------------


def loss(name: str, **options: Any) -> Callable[[Any], Any]:
    """A real function that weighs every part of the result differently."""

    def f(x: tb.Tensor) -> tb.Tensor:
        y = getattr(F, name)(x, **options)
        weights = tb.reshape(tb.linspace(-1, 2, int(np.prod(y.shape)), dtype=tb.float64), tuple(y.shape))
        if y.dtype == tb.complex128:
            return (tb.real(y) ** 2 * weights + tb.imag(y) * weights**2).sum()
        return (y**2 * weights).sum()

    return f


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", [*ONE, *MANY])
def test_gradients(rng: np.random.Generator, name: str, norm: str) -> None:
    for options in ({}, {"n": 5, "axis": 0} if name in ONE else {"s": (3, 5), "axes": (1, 0)}):
        f = loss(name, norm=norm, **options)
        x = operand(rng, name, (3, 4))
        g, step = tb.grad(f)(tb.tensor(x)).numpy(), 1e-6
        assert g.dtype == x.dtype
        for _ in range(4):
            direction = operand(rng, name, x.shape)
            slope = (
                f(tb.tensor(x + step * direction)).item() - f(tb.tensor(x - step * direction)).item()
            ) / (2 * step)
            assert abs(slope - np.vdot(g, direction).real) < 1e-6 * max(1, abs(slope))
            _, forward = tb.jvp(f, (tb.tensor(x),), (tb.tensor(direction),))
            assert abs(forward.item() - np.vdot(g, direction).real) < 1e-11 * max(1.0, np.abs(g).sum())
        np.testing.assert_array_equal(tb.jit(tb.grad(f))(tb.tensor(x)).numpy(), g)


def test_vmap(rng: np.random.Generator) -> None:
    for name in (*ONE, *MANY):
        x = operand(rng, name, (3, 4, 5))
        got = tb.vmap(getattr(F, name))(tb.tensor(x)).numpy()
        want = np.stack([getattr(F, name)(tb.tensor(row)).numpy() for row in x])
        np.testing.assert_allclose(got, want, atol=1e-13)


# -- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda: F.fft(tb.ones((3,)), norm="unitary"), ArgumentError, "fft.fft with norm='unitary'"),
        (lambda: F.hfft(tb.ones((3,)), norm="unitary"), ArgumentError, "'backward', 'ortho' or 'forward'"),
        (lambda: F.fft(tb.ones((3,)), n=0), ArgumentError, "fft.fft of length 0"),
        (
            lambda: F.fft(tb.ones((2, 0))),
            ArgumentError,
            "remedy: pass n, or transform an axis that has elements",
        ),
        (lambda: F.irfft(tb.ones((1,))), ArgumentError, "fft.irfft of length 0"),
        (lambda: F.fft(tb.ones((3,)), axis=1), ShapeError, "fft.fft: axis 1 of a tensor with 1 dimensions"),
        (lambda: F.fftn(tb.ones((3, 3)), axes=(0, 0)), ShapeError, "name one axis twice"),
        (lambda: F.fftn(tb.ones((3, 3)), s=(2,), axes=(0, 1)), ArgumentError, "1 lengths for 2 axes"),
        (lambda: F.rfftn(tb.ones((3, 3)), axes=()), ArgumentError, "fft.rfftn over no axes"),
        (lambda: F.rfft(tb.ones((3,), dtype=tb.complex64)), DTypeError, "fft.rfft of complex64"),
        (lambda: F.fftfreq(0), ArgumentError, "fft.fftfreq of length 0"),
        (lambda: F.fftfreq(3, dtype=tb.int32), DTypeError, "expected: a float dtype"),
        (lambda: F.fftt, AttributeError, "trilobite.fft has no 'fftt'; it has fft, "),
    ],
)
def test_refusals(act: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as e:
        act()
    assert text in str(e.value)
