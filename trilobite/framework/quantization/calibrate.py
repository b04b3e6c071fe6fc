"""Ranges of values that were seen: by extremes, by percentiles, by the least loss of information.

Enters: arrays of one value, batch by batch. Leaves: (low, high). Percentiles and entropy look twice: the
first pass finds the extremes, the second counts how often each of 2048 bins between them was met.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.base.dtypes import DType
from trilobite.framework.quantization.scheme import Scheme

Array = np.ndarray[Any, Any]
BINS = 2048
_PARTS = tuple(float(part) for part in np.linspace(1.0, 0.05, 96))  # of the whole range


class Range:
    """What was seen of one value."""

    def __init__(self) -> None:
        self.low, self.high = np.inf, -np.inf
        self.counts: Array = np.zeros(BINS, np.int64)

    def look(self, x: Array) -> None:
        """First pass: extremes of what is finite."""
        x = x[np.isfinite(x)]
        if x.size:
            self.low, self.high = min(self.low, float(x.min())), max(self.high, float(x.max()))

    def include(self, number: float) -> None:
        if np.isfinite(number):
            self.low, self.high = min(self.low, number), max(self.high, number)

    def count(self, x: Array) -> None:
        """Second pass: bins between the extremes. Zeros are left out: every grid has zero, so however many
        there are (behind a ReLU most), they say nothing about the range.
        """
        if self.low < self.high:
            x = x[np.isfinite(x) & (x != 0)].astype(np.float64)
            self.counts += np.histogram(x, BINS, (self.low, self.high))[0]

    def chosen(self, scheme: Scheme, symmetric: bool) -> tuple[float, float]:
        """The range that a grid should have."""
        if self.low > self.high:  # nothing finite was seen
            return 0.0, 0.0
        if scheme.calibration == "minmax" or self.low == self.high or not self.counts.any():
            return self.low, self.high
        if scheme.calibration == "percentile":
            return self._percentile(scheme.percentile)
        return self._least_loss(scheme.dtype, symmetric)

    def _percentile(self, percent: float) -> tuple[float, float]:
        """Both tails are cut, each by half of what lies outside."""
        tail = (100 - percent) / 200 * self.counts.sum()
        total = np.cumsum(self.counts)
        first = int(np.searchsorted(total, tail, side="right"))
        last = BINS - 1 - int(np.searchsorted(np.cumsum(self.counts[::-1]), tail, side="right"))
        edges = np.linspace(self.low, self.high, BINS + 1)
        return (float(edges[first]), float(edges[last + 1])) if first <= last else (self.low, self.high)

    def _least_loss(self, dtype: DType, symmetric: bool) -> tuple[float, float]:
        """The range whose codes tell most about what was seen: the least relative entropy between the clipped
        counts and those that the codes give back. Ends are moved in one after the other, or both at once.
        """
        edges = np.linspace(self.low, self.high, BINS + 1)
        middles = (edges[:-1] + edges[1:]) / 2
        low, high = min(self.low, 0.0), max(self.high, 0.0)
        levels = min(int(np.iinfo(dtype).max) - int(np.iinfo(dtype).min), BINS)

        def best(ends: Callable[[float], tuple[float, float]]) -> tuple[float, float]:
            losses = [(_loss(self.counts, middles, *ends(part), levels), -part) for part in _PARTS]
            return ends(-min(losses)[1])

        if symmetric:
            end = max(-low, high)
            low, high = best(lambda part: (-end * part, end * part))
            return max(self.low, low), min(self.high, high)
        if high > 0:
            low, high = best(lambda part: (low, high * part))
        if low < 0:
            low, high = best(lambda part: (low * part, high))
        return low, high


def _loss(counts: Array, middles: Array, low: float, high: float, levels: int) -> float:
    """Relative entropy of the clipped counts and of the same counts spread evenly within each code."""
    clipped = np.clip(middles, low, high)
    inside = clipped == middles
    if not inside.any():
        return float("inf")
    code = np.rint((clipped - low) / (high - low) * levels).astype(np.int64)
    p = np.where(inside, counts, 0).astype(np.float64)
    ends = np.flatnonzero(inside)[[0, -1]]
    p[ends[0]] += counts[: ends[0]].sum()
    p[ends[1]] += counts[ends[1] + 1 :].sum()
    kept = np.where(inside, counts, 0)  # what codes know: without the clipped tails
    met = inside & (counts > 0)
    weight = np.bincount(code[met], minlength=levels + 1).astype(np.float64)
    mass = np.bincount(code[inside], weights=kept[inside], minlength=levels + 1)
    q = np.where(met, (mass / np.maximum(weight, 1))[code], 0.0)
    p, q = p / p.sum(), q / max(q.sum(), 1e-30)
    used = p > 0
    return float((p[used] * np.log(p[used] / np.maximum(q[used], 1e-9))).sum())
