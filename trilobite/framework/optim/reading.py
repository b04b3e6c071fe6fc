"""What `group["lr"]` gives: the number as it is now, as PyTorch's plain number would be.

Enters: the tensor that a group keeps. Leaves: a tensor of its own, which later assignments to the group do
not change. It is not written in place: `group["lr"] *= 0.5` computes and assigns, other writes would be lost
and are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.base.errors import StateError
from trilobite.base.locations import user_location
from trilobite.framework.tensor import Tensor
from trilobite.framework.writing import copied
from trilobite.ir.transforms.cells import Cell


class Reading(Tensor):
    """A number of a parameter group as it was when it was read."""

    __slots__ = ()

    def _store(self, new: Any, since: int | None = None) -> None:
        raise StateError(
            "a number that was read from a parameter group is changed in place: the group would not see it",
            where=user_location(),
            expected="an assignment to the group",
            remedy='group["lr"] = value',
        )


def _computed(name: str) -> Callable[[Any, Any], Any]:
    def dunder(self: Any, other: Any) -> Any:
        return getattr(Tensor, name)(self, other)

    return dunder


for _name in "add sub mul truediv floordiv mod pow".split():
    setattr(Reading, f"__i{_name}__", _computed(f"__{_name}__"))


def reading(live: Tensor) -> Tensor:
    """A copy of a number, for somebody who keeps it."""
    value = copied(live._read())
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    out = Reading.__new__(Reading)
    out._cell, out._view, out._extra = Cell(value), None, None
    return out
