"""Sizes as plain numbers: graphs are compiled for known sizes."""

from __future__ import annotations

from trilobite.ir.graph import Var
from trilobite.ir.types import TensorType


def extents(t: TensorType | Var) -> tuple[int, ...]:
    """The shape of a type, or of a value."""
    found = t.type if isinstance(t, Var) else t
    return tuple(int(n) for n in found.shape)
