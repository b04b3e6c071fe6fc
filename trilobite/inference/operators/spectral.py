"""Fourier transforms. Complex numbers stand as pairs on a last axis."""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.registry import operator

Array = np.ndarray[Any, Any]


def _number(x: Tensor) -> Tensor:
    """Pairs, or single real numbers, as complex ones."""
    wide = x if x.dtype in (tb.float32, tb.float64) else x.astype(tb.float32)
    if x.shape[-1] == 1:
        return tb.complex(wide[..., 0], tb.zeros_like(wide[..., 0]))
    return tb.complex(wide[..., 0], wide[..., 1])


def _pairs(z: Tensor, dtype: Any) -> Tensor:
    return tb.stack([tb.real(z), tb.imag(z)], axis=-1).astype(dtype)


def _dft(node: Node, x: Tensor, length: Array | None, axis: int) -> Tensor:
    at = axis % x.ndim
    one_sided, inverse = node.attribute("onesided", 0), node.attribute("inverse", 0)
    usual = 2 * (x.shape[at] - 1) if one_sided and inverse else x.shape[at]
    n = usual if length is None else int(length.reshape(()))
    if inverse and one_sided:
        real = tb.fft.irfft(_number(x), n=n, axis=at)
        return tb.expand_dims(real, axis=-1).astype(x.dtype)
    z = (tb.fft.ifft if inverse else tb.fft.fft)(_number(x), n=n, axis=at)
    if one_sided:
        z = z[tuple(slice(0, n // 2 + 1) if a == at else slice(None) for a in range(z.ndim))]
    return _pairs(z, x.dtype)


@operator("DFT", since=17, known=(1,))
def dft_17(node: Node, x: Tensor, length: Array | None = None) -> Tensor:
    return _dft(node, x, length, node.attribute("axis", 1))


@operator("DFT", since=20, known=(1, 2))
def dft(node: Node, x: Tensor, length: Array | None = None, axis: Array | None = None) -> Tensor:
    return _dft(node, x, length, -2 if axis is None else int(axis.reshape(())))


@operator("STFT", since=17, known=(1, 3))
def stft(
    node: Node, x: Tensor, step: Array, window: Tensor | None = None, length: Array | None = None
) -> Tensor:
    """Transforms of windows that begin every `step` elements: (batch, frames, frequencies, 2)."""
    hop = int(step.reshape(()))
    size = int(length.reshape(())) if length is not None else int(window.shape[0])  # type: ignore[union-attr]
    if x.ndim == 2:
        x = tb.expand_dims(x, axis=-1)
    frames = (x.shape[1] - size) // hop + 1
    places = np.arange(frames)[:, None] * hop + np.arange(size)[None, :]
    z = _number(x)
    cut = tb.reshape(tb.index_select(z, 1, tb.asarray(places.reshape(-1))), (x.shape[0], frames, size))
    if window is not None:
        cut = cut * window
    out = tb.fft.fft(cut, axis=2)
    if node.attribute("onesided", 1):
        out = out[:, :, : size // 2 + 1]
    return _pairs(out, x.dtype)
