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
from trilobite.ir.types import size_of

Step = tuple[Primitive, dict[str, Any]]


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
