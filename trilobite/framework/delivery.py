"""Handing over: what a compiled call returns goes to results, written arguments, gradients and cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any
from weakref import ref

import numpy as np

from trilobite.base.errors import StateError
from trilobite.base.locations import user_location
from trilobite.framework.leaves import GradLeaf, get_grad, set_grad
from trilobite.framework.recordings import Entry
from trilobite.framework.signature import Call
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import cells
from trilobite.native import ownership
from trilobite.native.ownership import OLD_GRADIENT, TENSORS_CELL


def shared_cells(e: Entry, call: Call) -> set[cells.Cell]:
    """Cells that the function writes by one way and sees by another: through two views, or as an argument
    and from outside. The gradient of a parameter that is also passed counts as written.
    """
    r = e.recording
    if not e.arg_writes and not r.writes and not e.grads:
        return set()
    at = [t._cell for t in call.tensors]
    found = set(at).intersection(r.writes)
    if e.grads:
        found |= {c for c in at if c.leaf is not None and c in r.cells}
    for i in e.arg_writes:
        t = call.tensors[i]
        others = (o for o in call.tensors if o._cell is t._cell and o is not t)
        if t._cell in r.cells or any(o._view != t._view for o in others):
            found.add(t._cell)
    return found


def deliver(e: Entry, call: Call, outs: Sequence[Value]) -> Any:
    """Hand the outputs to where they belong."""
    it, present = iter(outs), e.present()
    leaves = [wrap(next(it)) if s is None else s.value for s in e.out_static]
    for i in e.arg_writes:
        call.tensors[i]._store(next(it))
    for where, there in e.grads:
        leaf = call.tensors[where]._cell.leaf if isinstance(where, int) else where
        _hand_over(leaf, wrap(next(it)) if there else None, isinstance(where, int))
    for cell, value in zip(e.recording.writes, it, strict=True):
        cells.replace(present.get(cell, cell), value)
    return e.out_tree.unflatten(leaves)


# -- state that a callback writes ----------------------------------------------------------------------------


class Witness:
    """Sees whether Python code that a call runs on its way writes state that the call itself writes: what it
    wrote would be lost. It holds no array, so that arrays may still be overwritten.
    """

    def __init__(self, e: Entry) -> None:
        there = e.recording.writes if e.lock is not None and e.lock.comes_back else ()
        self._seen = [(c, ref(c.held)) for c in there if type(c.held) is np.ndarray]
        self._name, self._when = e.recording.graph.name, cells.now

    def check(self) -> None:
        held = [(c.held, array()) for c, array in self._seen]
        if any(now is not before or cells.stamped_after(now, self._when) for now, before in held):
            raise StateError(
                f"a callback in {self._name} has written state that {self._name} writes too",
                where=user_location(),
                expected="callbacks that leave such tensors alone: results are stored when the call ends",
                remedy="return the new value from the callback and write it in the function",
            )


# -- gradients that are replaced -----------------------------------------------------------------------------


def old_gradients(e: Entry, array: Callable[[cells.Cell], Any] = attrgetter("value")) -> list[Any]:
    """The arrays of gradients that the call replaces and nobody will miss; none if somebody holds one. Where
    a cell has its array elsewhere, `array` finds it.
    """
    gradients = [leaf.grad for leaf, there in e.grads if there] if e.usage.replaced else []
    if any(g is None or not is_alone(g, OLD_GRADIENT) for g in gradients):
        return []
    return [array(g._cell) for g in gradients]


def forget_gradients(grads: Sequence[tuple[GradLeaf, bool]]) -> None:
    """After a call that did not end: its new gradients may be half written, in the arrays of the old ones."""
    for leaf, there in grads:
        if there:
            leaf.grad = None


def is_plain(t: Tensor) -> bool:
    return t._view is None and t._extra is None


def is_alone(t: Tensor, references: int) -> bool:
    """Does nobody share the tensor's cell, or refer to the tensor but for these references and ours?"""
    ours = 1  # `t`
    return (
        is_plain(t) and ownership.is_alone(t, references + ours) and ownership.is_alone(t._cell, TENSORS_CELL)
    )


def _hand_over(leaf: GradLeaf, grad: Tensor | None, adds: bool) -> None:
    """Gradients of parameters were accumulated inside; those of arguments began at nothing there and are
    added here.
    """
    old = get_grad(leaf) if adds else None
    if old is not None and grad is not None:
        grad = wrap(table["add"](old._read(), grad._read()))
    set_grad(leaf, grad)
