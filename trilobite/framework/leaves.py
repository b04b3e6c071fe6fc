"""Leaves of the ambient tape: where `backward()` starts, where it ends, and where gradients are kept.

While a function is recorded, gradients are notes of the recording: they become outputs, not attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from trilobite.base.errors import GradientError
from trilobite.base.locations import user_location
from trilobite.base.quiet import begin, end
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.primitives.common import OWN
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.bind import Traced, bind
from trilobite.ir.transforms.tape import Leaf

if TYPE_CHECKING:
    from trilobite.framework.tensor import Tensor

_SMALL = 1 << 12  # elements of a gradient: from here on the way through `bind` is the smaller part


class GradLeaf(Leaf):
    """The node of a tensor that requires a gradient, and the gradient itself. `owner` is the recording that
    its tensor was made in: such a gradient leaves the recording only as a result.
    """

    __slots__ = ("__weakref__", "after", "grad", "owner")

    def __init__(self, owner: Any = None) -> None:
        super().__init__()
        self.owner = owner
        self.grad: Tensor | None = None
        self.after: list[Callable[[], Any]] | None = None  # called when a gradient has been added


def hooks_of(leaf: Leaf) -> tuple[Any, ...]:
    """All that is called when a gradient arrives at a leaf."""
    before = [hook for row in (leaf.hooks or {}).values() for hook in row]
    return (*before, *(getattr(leaf, "after", None) or ()))


def get_grad(leaf: GradLeaf) -> Tensor | None:
    """The gradient as the current recording sees it."""
    recorder = entry.threads.context.recorder
    while recorder is not None:
        if ("grad", leaf) in recorder.notes:
            found: Tensor | None = recorder.notes["grad", leaf]
            return found
        recorder.notes.setdefault(("grad was", leaf), leaf.grad is not None)
        recorder = recorder.parent
    return leaf.grad


def set_grad(leaf: GradLeaf, value: Tensor | None) -> None:
    """Replace the gradient as the current recording sees it."""
    recorder = entry.threads.context.recorder
    if recorder is None:
        leaf.grad = value
    else:
        recorder.notes["grad", leaf] = value


def own(ct: Value, shared: set[int]) -> Value:
    """A cotangent with memory of its own: not a view, and not one that another leaf got."""
    if not isinstance(ct, np.ndarray):
        return ct
    if id(ct) in shared or ct.base is not None or not ct.flags.writeable:
        ct = ct.copy()
    shared.add(id(ct))
    return ct


def added_in_place(old: Tensor, ct: Value) -> bool:
    """Adds to a small gradient where it lies, if nobody has to be told: the sum as it would be otherwise."""
    cell, ctx = old._cell, entry.threads.context
    if not cell.owner is ctx.recorder is ctx.watch is ctx.undo is None:
        return False  # who records does not look at values: they may lie elsewhere
    value = cell.value
    plain = type(value) is type(ct) is np.ndarray and old._view is None and cell.leaf is None
    if not plain or value.size > _SMALL or value.dtype.num >= OWN:
        return False
    if value.dtype != ct.dtype or value.shape != ct.shape or not value.flags.writeable:
        return False
    token = begin()
    try:
        np.add(value, ct, value)
    finally:
        end(token)
    cells.stamp(value)
    return True


def seed_of(value: Value, gradient: Any) -> Value:
    """The cotangent that a backward pass starts from: 1 for a single element, or what the user gives."""
    if gradient is None:
        if any(d != 1 for d in value.shape):
            raise GradientError(
                f"backward() from a tensor of shape {tuple(value.shape)}",
                where=user_location(),
                expected="a single element",
                remedy="reduce it first (loss.sum().backward()), or pass the cotangent: backward(gradient)",
            )
        return bind(table["full"], shape=value.shape, dtype=value.dtype, value=1.0)
    seed: Value = gradient if isinstance(gradient, Traced) else np.asarray(gradient, value.dtype)
    if seed.shape != value.shape:
        raise GradientError(
            f"backward(gradient) of shape {tuple(seed.shape)}",
            where=user_location(),
            expected=f"the tensor's shape {tuple(value.shape)}",
            remedy="pass one cotangent per element of the tensor",
        )
    return seed


def not_tracked(value: Value) -> GradientError:
    """Why backward() cannot start here."""
    if isinstance(value, Traced) and type(value).__name__ in ("Taped", "Batched", "Dual"):
        return GradientError(
            "backward() inside grad, jvp or vmap",
            where=user_location(),
            expected="the function's result, which the transform differentiates itself",
            remedy="use tb.grad on the inner function; backward() only walks the eager tape",
        )
    return GradientError(
        "backward() from a tensor that no gradient flows through",
        where=user_location(),
        expected="a tensor computed from one with requires_grad=True, outside tb.no_grad()",
        remedy="set requires_grad=True on the leaves, or remove detach() and no_grad() on the way",
    )
