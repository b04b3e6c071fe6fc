"""Handing over: what a compiled call returns goes to results, written arguments, gradients and cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilobite.framework.leaves import GradLeaf, get_grad, set_grad
from trilobite.framework.recordings import Entry
from trilobite.framework.signature import Call
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import cells


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
        cells.write(present.get(cell, cell), value)
    return e.out_tree.unflatten(leaves)


def _hand_over(leaf: GradLeaf, grad: Tensor | None, adds: bool) -> None:
    """Gradients of parameters were accumulated inside; those of arguments began at nothing there and are
    added here.
    """
    old = get_grad(leaf) if adds else None
    if old is not None and grad is not None:
        grad = wrap(table["add"](old._read(), grad._read()))
    set_grad(leaf, grad)
