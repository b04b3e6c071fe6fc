"""Short-time Fourier transforms and the windows they look through."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.ops import fft
from trilobite.framework.ops.creation import without_meaning
from trilobite.framework.ops.registry import operators
from trilobite.framework.tensor import Tensor, wrap


def _op(name: str) -> Any:
    return operators[name].public


# -- windows -----------------------------------------------------------------------------------------------


def _window(n: int, periodic: bool, shape: Any, settings: dict[str, Any]) -> Tensor:
    dtype = settings.pop("dtype", None)
    settings.pop("device", None)
    requires_grad = settings.pop("requires_grad", False)
    without_meaning(settings)
    span = n if periodic else n - 1
    line = np.ones(n) if n <= 1 else np.asarray(shape(np.arange(n), span), np.float64)
    out = wrap(line.astype(dt.default_float if dtype is None else dt.as_dtype(dtype)))
    return out.requires_grad_() if requires_grad else out


def hann_window(window_length: int, periodic: bool = True, **settings: Any) -> Tensor:
    """Half a cosine wave, raised: 0 at the ends."""
    return hamming_window(window_length, periodic, 0.5, 0.5, **settings)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **settings: Any
) -> Tensor:
    """alpha - beta·cos(2πk / n)."""
    return _window(window_length, periodic, lambda k, n: alpha - beta * np.cos(2 * math.pi * k / n), settings)


def blackman_window(window_length: int, periodic: bool = True, **settings: Any) -> Tensor:
    """Two cosines, lower at the sides."""

    def shape(k: Any, n: int) -> Any:
        return 0.42 - 0.5 * np.cos(2 * math.pi * k / n) + 0.08 * np.cos(4 * math.pi * k / n)

    return _window(window_length, periodic, shape, settings)


def bartlett_window(window_length: int, periodic: bool = True, **settings: Any) -> Tensor:
    """A triangle."""
    return _window(window_length, periodic, lambda k, n: 1 - np.abs(2 * k / n - 1), settings)


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, **settings: Any) -> Tensor:
    """Kaiser's window: as much of its energy as can be had near frequency 0."""
    return _window(
        window_length, periodic,
        lambda k, n: np.i0(beta * np.sqrt(np.maximum(1 - (2 * k / n - 1) ** 2, 0))) / np.i0(beta), settings,
    )  # fmt: skip


# -- transforms --------------------------------------------------------------------------------------------


def _looked_through(window: Any, win_length: int, n_fft: int, dtype: Any) -> Any:
    """The window, centred in a frame, in the precision of the signal; a complex one stays complex."""
    real = dt.real_of(dtype)
    if window is None:
        view = _op("ones")(win_length, dtype=real)
    else:
        view = window.to(dt.complex_of(real) if window.dtype in dt.COMPLEX else real)
    if tuple(view.shape) != (win_length,) or win_length > n_fft:
        raise ArgumentError(
            f"a window of shape {tuple(view.shape)} for frames of {n_fft}",
            where=user_location(),
            expected=f"({win_length},), not longer than a frame",
        )
    left = (n_fft - win_length) // 2
    return _op("pad")(view, ((left, n_fft - win_length - left),)) if win_length < n_fft else view


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Spectra of frames of n_fft samples, hop_length apart: (..., frequencies, frames)."""
    from trilobite.framework.nn.functional import pad

    hop = n_fft // 4 if hop_length is None else hop_length
    x: Any = input.reshape(1, -1) if input.ndim == 1 else input
    if center:
        x = pad(x[:, None], (n_fft // 2, n_fft // 2), mode=pad_mode)[:, 0]
    if n_fft > x.shape[-1] or n_fft < 1 or hop < 1:
        raise ArgumentError(
            f"stft with n_fft={n_fft}, hop_length={hop} of {x.shape[-1]} samples",
            where=user_location(),
            expected="frames that are not longer than the signal, and steps of at least 1",
        )
    view = _looked_through(window, n_fft if win_length is None else win_length, n_fft, x.dtype)
    frames = x.unfold(-1, n_fft, hop) * view
    one = frames.dtype not in dt.COMPLEX if onesided is None else onesided
    spectra = (fft.rfft if one else fft.fft)(frames)
    if normalized:
        spectra = spectra / math.sqrt(n_fft)
    out = spectra.mT
    out = out[0] if input.ndim == 1 else out
    return _op("view_as_real")(out) if return_complex is False else out  # type: ignore[no-any-return]


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose spectra these are: overlapping frames added, over what the windows add up to. Windows
    that leave samples out are an error; inside jit, where only a run knows them, such samples are NaN or inf.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    spectra = input[None] if input.ndim == 2 else input
    one = spectra.shape[-2] != n_fft if onesided is None else onesided
    frames = spectra.mT
    if window is not None and window.dtype in dt.COMPLEX and not return_complex:
        raise ArgumentError(
            "istft through a complex window as a real signal",
            where=user_location(),
            expected="a real window, or return_complex=True",
        )
    if one:
        frames = fft.irfft(frames, n=n_fft)
    else:
        frames = fft.ifft(frames)
        frames = frames if return_complex else frames.real
    if normalized:
        frames = frames * math.sqrt(n_fft)
    view = _looked_through(window, n_fft if win_length is None else win_length, n_fft, frames.dtype)
    count = frames.shape[-2]
    total = n_fft + hop * (count - 1)
    at = wrap((np.arange(count)[:, None] * hop + np.arange(n_fft)[None, :]).reshape(-1))
    add = _op("index_add")
    lines = (frames * view).reshape(frames.shape[0], -1)
    signal = add(_op("zeros")((frames.shape[0], total), dtype=lines.dtype), 1, at, lines)
    weight = add(_op("zeros")(total, dtype=view.dtype), 0, at, (view * view).expand(count, n_fft).reshape(-1))
    start = n_fft // 2 if center else 0
    end = total - start if length is None else min(start + length, total)
    weight = weight[start:end]
    if isinstance(weight._read(), np.ndarray) and float(weight.detach().abs().amin()) < 1e-11:
        raise ArgumentError(
            "istft through windows that leave samples out",
            where=user_location(),
            expected="windows that overlap everywhere",
            remedy="a smaller hop_length, or center=True",
        )
    out = signal[:, start:end] / weight
    if length is not None and length > out.shape[-1]:
        out = _op("pad")(out, ((0, 0), (0, length - out.shape[-1])))
    return out[0] if input.ndim == 2 else out  # type: ignore[no-any-return]


explain_room(globals())
