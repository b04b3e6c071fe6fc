"""Grids of integers: number = (code - zero)·scale. Made from ranges, or from the values of a weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import DType
from trilobite.base.reciprocals import with_reciprocal
from trilobite.base.records import dataclass

Array = np.ndarray[Any, Any]
_LEAST = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Grid:
    """One scale and one zero point for a whole tensor."""

    scale: float
    zero: int
    dtype: DType

    def code(self, number: float) -> int:
        """The code next to a number, held inside the format."""
        info = np.iinfo(self.dtype)
        if not np.isfinite(number):
            return int(info.max if number > 0 else info.min)
        return int(np.clip(np.rint(number / self.scale) + self.zero, info.min, info.max))

    @staticmethod
    def of(low: float, high: float, dtype: DType, symmetric: bool) -> Grid:
        """The grid whose codes reach from `low` to `high`; zero is a number of every grid."""
        low, high = min(low, 0.0), max(high, 0.0)
        info = np.iinfo(dtype)
        if symmetric:
            return Grid(_settled(max(-low, high) / info.max, info.min, info.max), 0, dtype)
        span = int(info.max) - int(info.min)
        scale = _settled((high - low) / span, -span, span)
        zero = int(np.clip(np.rint(info.min - low / scale), info.min, info.max))
        return Grid(scale, zero, dtype)


def _settled(scale: float, low: int, high: int) -> float:
    """A scale as float32 has it, of those next to it one whose reciprocal gives the same codes: then no unit
    has to divide. 1 where nothing but zeros was seen."""
    return with_reciprocal(float(np.float32(scale)), int(low), int(high)) if scale > _LEAST else 1.0


def weight_codes(
    w: Array, axes: Sequence[int], dtype: DType, least: Array | None = None
) -> tuple[Array, Array]:
    """Codes of a weight and their scales, one for each place on `axes` (with no axes one for all), without
    zero points. `least` are scales that must be reached.
    """
    others = tuple(i for i in range(w.ndim) if i not in axes)
    most = np.abs(w.astype(np.float64)).max(axis=others, keepdims=True) if w.size else np.ones((1,) * w.ndim)
    limit = np.iinfo(dtype).max
    scale = np.where(most / limit > _LEAST, most / limit, 1.0)
    if least is not None:
        scale = np.maximum(scale, least.reshape(scale.shape))
    scale = scale.astype(np.float32)
    codes = np.clip(np.rint(w.astype(np.float64) / scale), -limit, limit).astype(dtype)
    return codes, scale.reshape([w.shape[a] for a in axes])
