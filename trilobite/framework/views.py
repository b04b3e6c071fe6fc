"""Views as data: steps that a handle applies to its cell's value, and how a write through them changes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilobite.base.errors import StateError
from trilobite.base.locations import user_location
from trilobite.ir.primitive import Primitive, Value
from trilobite.ir.primitives import table
from trilobite.ir.primitives.shape import inverse
from trilobite.ir.transforms.bind import bind
from trilobite.ir.types import Shape, size_of

Step = tuple[Primitive, dict[str, Any]]


def diagonal_steps(shape: Shape, offset: int, a: int, b: int) -> tuple[Step, ...]:
    """The diagonal of the plane of two axes as a new last axis: each (columns + 1)th element of the plane."""
    row, column, last = max(-offset, 0), max(offset, 0), len(shape) - 1
    order = (*(i for i in range(len(shape)) if i not in (a, b)), a, b)
    *lead, m, n = (shape[i] for i in order)
    count = max(min(m - row, n - column), 0)
    start = row * n + column if count else 0
    stop = start + (count - 1) * (n + 1) + 1 if count else 0
    flat: Step = (table["reshape"], {"shape": (*lead, m * n)})
    zeros, ones = (0,) * (last - 1), (1,) * (last - 1)
    line: Step = (
        table["slice"],
        {"start": (*zeros, start), "stop": (*lead, stop), "step": (*ones, n + 1)},
    )
    turned: tuple[Step, ...] = (
        () if order == tuple(range(last + 1)) else ((table["transpose"], {"axes": order}),)
    )
    return (*turned, flat, line)


def update(base: Value, view: Sequence[Step], new: Value) -> Value:
    """The base with what the view shows replaced: views undone from the innermost out."""
    shown = [base]
    for primitive, attributes in view[:-1]:
        shown.append(bind(primitive, shown[-1], **attributes))
    for (primitive, attributes), before in zip(reversed(view), reversed(shown), strict=True):
        new = _undo(primitive, attributes, before, new)
    return new


def _undo(primitive: Primitive, attributes: dict[str, Any], before: Value, new: Value) -> Value:
    if primitive is table["stop_gradient"]:
        return new
    if primitive is table["reshape"]:
        return bind(primitive, new, shape=before.shape)
    if primitive is table["broadcast"] and size_of(before.shape) == size_of(new.shape):
        return bind(table["reshape"], new, shape=before.shape)  # dimensions of 1 were added, nothing repeated
    if primitive is table["transpose"]:
        return bind(primitive, new, axes=inverse(attributes["axes"]))
    if primitive is table["reverse"]:
        return bind(primitive, new, axes=attributes["axes"])
    if primitive is table["slice"]:
        return bind(
            table["update_slice"], before, new, **{k: attributes[k] for k in ("start", "stop", "step")}
        )
    raise StateError(
        f"a write through {primitive.name}: several elements of the view are one element of the tensor",
        where=user_location(),
        expected="a view in which every element stands alone",
        remedy="clone() the view before writing to it",
    )
