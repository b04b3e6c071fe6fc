"""What changes a tensor in place: its memory, or the value of its cell.

Enters: a tensor, perhaps a view, and the value it is to show. Leaves: the base changed there and nowhere
else, with the history that each of the tensors on it may have (decision 43).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trilobite.base.errors import GradientError
from trilobite.base.locations import user_location
from trilobite.framework.views import update
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.cells import Cell
from trilobite.ir.transforms.record import see_outer
from trilobite.ir.transforms.tape import Taped, excuse, taped

if TYPE_CHECKING:
    from trilobite.framework.tensor import Tensor

_stop = table["stop_gradient"]


def store(x: Tensor, new: Value, since: int | None = None) -> None:
    """Replace what the tensor shows. Through a view, the base changes there and nowhere else. `since` is
    when the operation began whose result this is, if it is one in place.
    """
    cell, ctx = x._cell, entry.threads.context
    if cell.leaf is not None and ctx.ambient.level > ctx.grad_off and not is_detached(x):
        raise GradientError(
            "a leaf tensor that requires a gradient was changed in place",
            where=user_location(),
            expected="leaves keep the value that the gradient is taken at",
            remedy="change it under tb.no_grad(), or change a copy: x.clone()",
        )
    apart = ctx.ambient.level <= ctx.grad_off
    if is_detached(x):
        if type(new) is Taped and new.interpreter is ctx.ambient and not apart:
            store(_leave_base(x, new), new.primal)
            return
        apart = True
    if apart and type(new) is Taped and new.interpreter is ctx.ambient:
        new = new.primal  # the base, and under no_grad every tensor, gets a value without its history
    old = cell.value if cell.owner is ctx.recorder else see_outer(cell)
    if ctx.undo is not None and cell not in ctx.undo:
        ctx.undo[cell] = copied(old)
    if (
        type(old) is np.ndarray
        and type(new) is np.ndarray
        and ctx.recorder is None
        and _store_memory(x, old, new)
    ):
        return
    cells.stamp(old)
    if since is not None and type(new) is Taped:
        excuse(new.node, since)
    keeps = apart and type(old) is Taped and old.interpreter is ctx.ambient
    base = old.primal if keeps else old
    written = new if x._view is None else update(base, x._view, new)
    cells.write(cell, taped(ctx.ambient, written, old.node, old.index) if keeps else written)


def _store_memory(x: Tensor, old: np.ndarray[Any, Any], new: np.ndarray[Any, Any]) -> bool:
    """Write into the array itself, so that whoever shares the memory sees it."""
    if not old.flags.writeable:
        return False
    target = old if x._view is None else x._look(old)
    if not (target is old or np.may_share_memory(target, old)) or not target.flags.writeable:
        target, new = old, update(old, x._view or (), new)
    np.copyto(target, new, casting="no")
    cells.stamp(old, is_checked(x))
    return True


def _leave_base(x: Tensor, new: Value) -> Tensor:
    """A value with a history is written through a detached view: from here on the view has a history of
    its own, which its base must not get, so it holds a cell of its own. Gives the view that it was.
    """
    before, view = x._through(), x._view or ()
    detached = max(i for i, (primitive, _) in enumerate(view) if primitive is _stop)
    line, parent = [x], _parent(x)  # the views from this one up to the detached one
    while parent is not None and len(parent._view or ()) > detached:
        line.append(parent)
        parent = _parent(parent)
    known = len(line[-1]._view or ())
    cell = Cell(update(line[-1]._read(), view[known:], new) if view[known:] else new)
    for handle in line:
        handle._cell, handle._view, handle._extra = cell, (handle._view or ())[known:] or None, None
    return before


def is_checked(x: Tensor) -> bool:
    """Does a write through this handle concern the tape? Not by `x.data`, or a part of it."""
    extra = x._extra
    while extra is not None:
        if "unchecked" in extra:
            return False
        extra = extra["parent"]._extra if "parent" in extra else None
    return True


def is_detached(x: Tensor) -> bool:
    return any(primitive is _stop for primitive, _ in x._view or ())


def _parent(x: Tensor) -> Tensor | None:
    """The view that this one was taken of."""
    return None if x._extra is None else x._extra.get("parent")


def copied(value: Value) -> Value:
    return value.copy() if isinstance(value, np.ndarray) else value
