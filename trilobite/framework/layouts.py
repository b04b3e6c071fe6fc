"""Where a view's elements lie in the memory of its base: strides, counted in elements.

A base is row-major, whatever array holds it today: eager and recorded code decide alike what is a view and
what is a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilobite.base.errors import ShapeError
from trilobite.framework.views import Step
from trilobite.ir.types import Affine, Dim, Shape

Strides = tuple[Dim, ...]


def row_major(shape: Shape) -> Strides:
    """How far apart neighbours along each axis are in row-major order."""
    out: list[Any] = []
    step: Any = 1
    for d in reversed(shape):
        out.append(step)
        step = step * (d if d != 0 else 1)
    return tuple(reversed(out))


def strides(shape: Shape, view: Sequence[Step]) -> Strides | None:
    """The strides of what the view shows of a base of this shape; None if no strides reach its elements."""
    steps = row_major(shape)
    for primitive, attributes in view:
        shape, found = _RULES[primitive.name](shape, steps, attributes)
        if found is None:
            return None
        steps = found
    return steps


def first_element(shape: Shape, view: Sequence[Step]) -> Dim | None:
    """Which element of the base a view shows first; None if no strides reach its elements."""
    steps, at = row_major(shape), 0
    for primitive, attributes in view:
        for axis, step in enumerate(steps):
            if primitive.name == "slice":
                at = at + attributes["start"][axis] * step
            elif primitive.name == "reverse" and axis in attributes["axes"]:
                at = at + (shape[axis] - 1) * step
        shape, found = _RULES[primitive.name](shape, steps, attributes)
        if found is None:
            return None
        steps = found
    return at


def is_row_major(shape: Shape, steps: Strides | None) -> bool:
    """Do the elements follow each other without gaps? Axes of one element have no neighbours."""
    if any(d == 0 for d in shape):
        return True
    return steps is not None and all(
        d == 1 or step == want for d, step, want in zip(shape, steps, row_major(shape), strict=True)
    )


def reshaped(shape: Shape, steps: Strides, new: Shape) -> Strides | None:
    """Strides under another shape with as many elements; None if only a copy can have it."""
    if any(d == 0 for d in shape) or is_row_major(shape, steps):
        return row_major(new)
    out: list[Any] = []
    sizes = list(new)
    for size, step in reversed(_runs(shape, steps)):
        left: Any = size
        while sizes and (left != 1 or sizes[-1] == 1):
            d = sizes.pop()
            if not _divides(d, left):
                return None
            out.append(step)
            left, step = left // d, step * d
        if left != 1:
            return None
    out += [1] * len(sizes)
    return tuple(reversed(out))


def _divides(d: Dim, size: Dim) -> bool:
    """Whatever the symbols turn out to be; if that depends on them, it does not."""
    if not isinstance(size, Affine):
        return not isinstance(d, Affine) and size % d == 0
    try:
        return size % d == 0
    except ShapeError:
        return False


def _runs(shape: Shape, steps: Strides) -> list[tuple[Any, Any]]:
    """Axes that can be walked as one, merged: sizes and strides, without axes of one element."""
    runs: list[tuple[Any, Any]] = []
    for d, step in zip(shape, steps, strict=True):
        if d == 1:
            continue
        if runs and runs[-1][1] == d * step:
            runs[-1] = (runs[-1][0] * d, step)
        else:
            runs.append((d, step))
    return runs


Rule = tuple[Shape, Strides | None]


def _stop_gradient(shape: Shape, steps: Strides, attributes: dict[str, Any]) -> Rule:
    return shape, steps


def _reshape(shape: Shape, steps: Strides, attributes: dict[str, Any]) -> Rule:
    new = attributes["shape"]
    return new, reshaped(shape, steps, new)


def _transpose(shape: Shape, steps: Strides, attributes: dict[str, Any]) -> Rule:
    axes = attributes["axes"]
    return tuple(shape[a] for a in axes), tuple(steps[a] for a in axes)


def _reverse(shape: Shape, steps: Strides, attributes: dict[str, Any]) -> Rule:
    return shape, tuple(-s if a in attributes["axes"] else s for a, s in enumerate(steps))


def _slice(shape: Shape, steps: Strides, attributes: dict[str, Any]) -> Rule:
    start, stop, by = attributes["start"], attributes["stop"], attributes["step"]
    sizes = tuple(b - a if c == 1 else -((a - b) // c) for a, b, c in zip(start, stop, by, strict=True))
    return sizes, tuple(s * c for s, c in zip(steps, by, strict=True))


def _broadcast(shape: Shape, steps: Strides, attributes: dict[str, Any]) -> Rule:
    new = attributes["shape"]
    out: list[Dim] = [0] * len(new)
    for axis, d, step in zip(attributes["axes"], shape, steps, strict=True):
        out[axis] = step if d == new[axis] else 0
    return new, tuple(out)


_RULES = {
    "stop_gradient": _stop_gradient,
    "reshape": _reshape,
    "transpose": _transpose,
    "reverse": _reverse,
    "slice": _slice,
    "broadcast": _broadcast,
}
