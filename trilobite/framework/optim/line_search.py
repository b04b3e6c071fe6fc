"""Line search: a step along a direction that satisfies the strong Wolfe conditions.

Enters: a function `at(step) -> (value, slope, gradient)` along the direction, with its value and slope at
0. Leaves: a step where the value has fallen enough and the slope has flattened enough, or the best one
found. Plain numbers and NumPy arrays; it knows nothing of parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
SUFFICIENT, CURVATURE = 1e-4, 0.9
"""How much of the fall that the slope promises must come true; how much of the slope may be left."""


class Point(NamedTuple):
    """A step along the direction, with value, slope along the direction, and gradient there."""

    step: float
    value: float
    slope: float
    gradient: Array


At = Callable[[float], tuple[float, float, Array]]


class Search:
    """One search. `evaluations` counts the calls of `at`."""

    def __init__(self, at: At, origin: Point, limit: int, tolerance: float) -> None:
        self._at, self.origin, self.limit, self.tolerance = at, origin, limit, tolerance
        self.evaluations = 0

    def point(self, step: float) -> Point:
        self.evaluations += 1
        return Point(step, *self._at(step))

    def enough(self, p: Point) -> bool:
        """Has the value fallen by its share of what the slope promised?"""
        return p.value <= self.origin.value + SUFFICIENT * p.step * self.origin.slope

    def flat(self, p: Point) -> bool:
        return abs(p.slope) <= -CURVATURE * self.origin.slope

    def run(self, first: float) -> Point:
        """Widen the step until an interval must hold a good one, then narrow that down."""
        before, now = self.origin, self.point(first)
        while self.evaluations < self.limit:
            if not self.enough(now) or (self.evaluations > 1 and now.value >= before.value):
                return self.narrow(before, now)
            if self.flat(now):
                return now
            if now.slope >= 0:
                return self.narrow(now, before)
            low, high = now.step + 0.01 * (now.step - before.step), now.step * 10.0
            wider = cubic_minimum(before, now, (low + high) / 2.0)
            before, now = now, self.point(min(max(wider, low), high))
        return min((before, now), key=_order) if not math.isfinite(now.value) else now

    def narrow(self, low: Point, high: Point) -> Point:
        """`low` is the best so far; a good step lies between the two."""
        slow = False
        while self.evaluations < self.limit:
            width = abs(high.step - low.step)
            if width * _longest(low.gradient, high.gradient) < self.tolerance:
                break
            step, slow = _inside(low, high, slow)
            p = self.point(step)
            if not self.enough(p) or not p.value < low.value:
                high = p
                continue
            if self.flat(p):
                return p
            if p.slope * (high.step - low.step) >= 0:
                high = low
            low = p
        return low


def _order(p: Point) -> float:
    return p.value if math.isfinite(p.value) else math.inf


def _longest(*gradients: Array) -> float:
    finite = [float(np.abs(g).max(initial=0.0)) for g in gradients if np.isfinite(g).all()]
    return max(finite, default=1.0)


def _inside(low: Point, high: Point, slow: bool) -> tuple[float, bool]:
    """A step strictly between the two: the cubic's minimum; kept off the ends where it lies on one, or was
    close to one before.
    """
    a, b = sorted((low.step, high.step))
    step, margin = cubic_minimum(low, high, (a + b) / 2.0), 0.1 * (b - a)
    if min(b - step, step - a) >= margin:
        return step, False
    if slow or not a < step < b:
        return (a + margin if abs(step - a) < abs(step - b) else b - margin), False
    return step, True


def cubic_minimum(a: Point, b: Point, otherwise: float) -> float:
    """Where the cubic through two values and slopes is least, if there is such a place."""
    if a.step == b.step or not all(map(math.isfinite, (a.value, b.value, a.slope, b.slope))):
        return otherwise
    chord = a.slope + b.slope - 3.0 * (a.value - b.value) / (a.step - b.step)
    inside = chord * chord - a.slope * b.slope
    if not inside >= 0.0:
        return otherwise
    root = math.copysign(math.sqrt(inside), b.step - a.step)
    bottom = b.slope - a.slope + 2.0 * root
    if bottom == 0.0:
        return otherwise
    return b.step - (b.step - a.step) * (b.slope + root - chord) / bottom
