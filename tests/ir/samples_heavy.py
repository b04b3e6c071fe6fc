"""Operands and attributes for the table test: convolution, windows, factorisations, Fourier transforms.

Factorisations whose vectors have a free phase get matrices for which LAPACK's choice moves smoothly: real
ones with real, well separated eigenvalues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Rows = Iterable[tuple[list[Array], dict[str, Any]]]
Rng = np.random.Generator
F64, C128 = np.dtype("float64"), np.dtype("complex128")


def _normal(rng: Rng, shape: tuple[int, ...], dtype: Any = F64) -> Array:
    out = rng.standard_normal(shape)
    return out + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else out


# -- convolution ---------------------------------------------------------------------------------------------

_WINDOWS = [
    (
        (2, 3, 6, 5),
        (4, 3, 3, 2),
        {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "w_dilation": (1, 1), "groups": 1},
    ),
    (
        (2, 4, 7, 6),
        (6, 2, 2, 3),
        {"stride": (2, 3), "low": (1, -1), "high": (0, 2), "w_dilation": (2, 1), "groups": 2},
    ),
    ((2, 3, 9), (3, 1, 4), {"stride": (2,), "low": (2,), "high": (1,), "w_dilation": (1,), "groups": 3}),
]


def _convolutions(rng: Rng) -> Iterable[tuple[Array, Array, Array, dict[str, Any]]]:
    for dtype in (F64, C128):
        for x, w, window in _WINDOWS:
            settings = {**window, "x_dilation": (1,) * (len(x) - 2), "dtype": dtype}
            out = []
            for i, n in enumerate(x[2:]):
                span = (w[2 + i] - 1) * settings["w_dilation"][i] + 1
                out.append((n + settings["low"][i] + settings["high"][i] - span) // settings["stride"][i] + 1)
            yield (
                _normal(rng, x, dtype),
                _normal(rng, w, dtype),
                _normal(rng, (x[0], w[0], *out), dtype),
                settings,
            )


def _conv(rng: Rng) -> Rows:
    for x, w, _, settings in _convolutions(rng):
        yield [x, w], settings
    plain = {"stride": (1, 1), "w_dilation": (1, 1), "groups": 1, "dtype": F64}
    for spread in ((1, 2), (3, 1), (2, 3)):  # zeros between elements of the input, along one axis or both
        window = {"x_dilation": spread, "low": (1, 0), "high": (0, 2)}
        yield [_normal(rng, (2, 3, 4, 5)), _normal(rng, (4, 3, 3, 2))], {**plain, **window}


def _conv_input_grad(rng: Rng) -> Rows:
    for x, w, y, settings in _convolutions(rng):
        yield [y, w], {**settings, "space": x.shape[2:]}


def _conv_weight_grad(rng: Rng) -> Rows:
    for x, w, y, settings in _convolutions(rng):
        yield [x, y], {**settings, "kernel": w.shape[2:]}


# -- windows -------------------------------------------------------------------------------------------------

_POOLS = [
    ((2, 3, 6, 8), {"size": (2, 2), "stride": (2, 2), "low": (0, 0), "high": (0, 0), "dilation": (1, 1)}),
    ((2, 7, 6), {"size": (3, 2), "stride": (2, 1), "low": (1, 0), "high": (1, 1), "dilation": (1, 2)}),
    ((3, 11), {"size": (4,), "stride": (3,), "low": (0,), "high": (2,), "dilation": (1,)}),
]


def _window_reduce(rng: Rng) -> Rows:
    for shape, window in _POOLS:
        for kind in ("max", "min", "sum"):
            yield (
                [rng.permutation(np.linspace(-3, 3, int(np.prod(shape)))).reshape(shape)],
                {**window, "kind": kind},
            )
    yield [_normal(rng, (2, 7), C128)], {**_POOLS[2][1], "kind": "sum"}


def _window_argmax(rng: Rng) -> Rows:
    for shape, window in _POOLS:
        yield [_normal(rng, shape)], dict(window)


def _window_gather(rng: Rng) -> Rows:
    yield [_normal(rng, (2, 4, 5)), rng.integers(-1, 20, (2, 3, 2))], {"rank": 2}


def _window_scatter(rng: Rng) -> Rows:
    yield [_normal(rng, (2, 3, 2)), rng.integers(-1, 20, (2, 3, 2))], {"plane": (4, 5), "disjoint": False}
    yield [_normal(rng, (2, 3)), np.array([[4, 0, 2], [-1, 3, 1]])], {"plane": (5,), "disjoint": True}


# -- factorisations ------------------------------------------------------------------------------------------


def _positive(rng: Rng, shape: tuple[int, ...], dtype: Any) -> Array:
    a = _normal(rng, shape, dtype)
    return a @ a.swapaxes(-1, -2).conj() + np.eye(shape[-1])


def _triangular_solve(rng: Rng) -> Rows:
    for left, lower, transpose, unit in ((1, 1, 0, 0), (1, 0, 1, 1), (0, 1, 1, 0), (0, 0, 0, 1)):
        for dtype in (F64, C128):
            a = _normal(rng, (2, 3, 3), dtype) + 3 * np.eye(3)
            b = _normal(rng, (2, 3, 2) if left else (2, 2, 3), dtype)
            flags = {"left": left, "lower": lower, "transpose": transpose, "unit": unit}
            yield [a, b], {k: bool(v) for k, v in flags.items()}


def _cholesky(rng: Rng) -> Rows:
    yield [_positive(rng, (2, 4, 4), F64)], {}
    yield [_positive(rng, (3, 3), C128)], {}


def _lu(rng: Rng) -> Rows:
    for shape, dtype in (((2, 4, 4), F64), ((5, 3), F64), ((3, 5), C128)):
        yield [_normal(rng, shape, dtype)], {}


def _qr(rng: Rng) -> Rows:
    for shape, dtype, mode in (
        ((2, 4, 4), F64, "reduced"),
        ((5, 3), C128, "reduced"),
        ((3, 5), C128, "complete"),
    ):
        yield [_normal(rng, shape, dtype)], {"mode": mode}


def _svd(rng: Rng) -> Rows:
    for shape, full in (((2, 3, 3), False), ((5, 3), False), ((4, 4), True)):
        yield [_normal(rng, shape)], {"full": full}


def _rectangular(rng: Rng) -> Rows:
    yield [_normal(rng, (2, 4, 3))], {}
    yield [_normal(rng, (3, 5), C128)], {}


def _pinv(rng: Rng) -> Rows:
    for shape, dtype in (((2, 4, 3), F64), ((3, 5), C128)):
        yield [_normal(rng, shape, dtype), np.full(shape[:-2], 1e-12)], {}


def _eigh(rng: Rng) -> Rows:
    a = _normal(rng, (2, 4, 4))
    yield [a + a.swapaxes(-1, -2)], {}


def _eigvalsh(rng: Rng) -> Rows:
    yield from _eigh(rng)
    a = _normal(rng, (3, 3), C128)
    yield [a + a.conj().T], {}


def _eig(rng: Rng) -> Rows:
    frame = _normal(rng, (2, 3, 3)) + 2 * np.eye(3)
    yield [frame @ (np.array([-2.0, 0.5, 3.0])[:, None] * np.linalg.inv(frame))], {}


def _eigvals(rng: Rng) -> Rows:
    yield from _eig(rng)
    yield [_normal(rng, (3, 3), C128)], {}


# -- Fourier transforms --------------------------------------------------------------------------------------


def _fft(rng: Rng) -> Rows:
    for axes in ((0,), (0, 2), (1,)):
        for inverse in (False, True):
            yield [_normal(rng, (4, 5, 3), C128)], {"axes": axes, "inverse": inverse}


def _rfft(rng: Rng) -> Rows:
    for n in (1, 2, 7, 8):
        yield [_normal(rng, (2, n, 2))], {"axis": 1}


def _irfft(rng: Rng) -> Rows:
    for n in (1, 2, 7, 8):
        yield [_normal(rng, (2, n // 2 + 1), C128)], {"axis": 1, "length": n}


samples: dict[str, Callable[[Rng], Rows]] = {
    "conv": _conv,
    "conv_input_grad": _conv_input_grad,
    "conv_weight_grad": _conv_weight_grad,
    "window_reduce": _window_reduce,
    "window_argmax": _window_argmax,
    "window_gather": _window_gather,
    "window_scatter": _window_scatter,
    "triangular_solve": _triangular_solve,
    "cholesky": _cholesky,
    "lu": _lu,
    "qr": _qr,
    "svd": _svd,
    "svdvals": _rectangular,
    "pinv": _pinv,
    "eigh": _eigh,
    "eigvalsh": _eigvalsh,
    "eig": _eig,
    "eigvals": _eigvals,
    "fft": _fft,
    "rfft": _rfft,
    "irfft": _irfft,
}

BOUNDS: dict[str, tuple[float, str]] = {
    "conv": (8, "terms"),
    "conv_input_grad": (8, "terms"),
    "conv_weight_grad": (8, "terms"),
    "window_reduce": (4, "terms"),
    # A factorisation errs as its whole matrix does, magnified by its condition: below 1e3 in these samples.
    **dict.fromkeys(
        ("cholesky", "eig", "eigh", "eigvals", "lu", "pinv", "qr", "svd", "svdvals"), (1e3, "result")
    ),
    "triangular_solve": (1e3, "result"),
    "rfft": (1e2, "result"),
}
