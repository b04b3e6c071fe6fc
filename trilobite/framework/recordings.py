"""Recordings of jitted functions: one per kind of call, with what must hold for it to serve again.

Enters: a function and a call, taken apart. Leaves: an `Entry`, that is the recorded graph with the state it
touches, and how results, written arguments and gradients are found among its outputs. It does not run
anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from trilobite.base import pytree
from trilobite.base.errors import TraceError
from trilobite.base.records import dataclass
from trilobite.compiler.targets.contract import NO_USAGE, Usage
from trilobite.framework.change_counter import changes
from trilobite.framework.foreign_draws import told_if_drawn
from trilobite.framework.guard_walk import guards_of
from trilobite.framework.guards import Guards, Place, numbers_as_tensors
from trilobite.framework.leaves import GradLeaf, get_grad, hooks_of
from trilobite.framework.ops.creation import to_array
from trilobite.framework.ops.registry import read as read_strong
from trilobite.framework.signature import Call, Dynamic, Static
from trilobite.framework.state_locks import StateLock
from trilobite.framework.tensor import Tensor, wrap
from trilobite.framework.transforms import is_tensor
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import Value
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.record import Recorder, Recording, record
from trilobite.ir.transforms.tape import Boundary, Leaf, Taped
from trilobite.ir.types import TensorType, type_of


class StateToCome(TraceError):
    """A recorded function makes state that its later calls read: it has to be there before."""


@dataclass
class Entry:
    """One recording, and what must hold for it to serve."""

    recording: Recording
    out_tree: pytree.Tree
    out_static: list[Any]  # per leaf of the result: Static, or None where the leaf is an output
    arg_writes: list[int]  # dynamic arguments that the function writes
    grads: list[
        tuple[Any, bool]
    ]  # (leaf, or index of the argument; is there a gradient afterwards) for each changed one
    grad_was: list[tuple[GradLeaf, bool]]
    grad_cells: list[
        tuple[cells.Cell, GradLeaf, Any]
    ]  # captured cells that held gradients, and through which view
    captured: list[Any]  # (type, requires a gradient) per captured cell
    switches: list[tuple[Any, bool]]  # modules and the mode they were in
    forms: list[tuple[Any, Any]]  # optimisers and the form of their update
    hooks: list[tuple[Leaf, tuple[Any, ...]]]  # of tensors that the function reads
    checked: int
    differentiable: bool  # does any output continue on the tape outside?
    attributes: dict[str, Any] = field(default_factory=dict)
    usage: Usage = NO_USAGE
    differentiated: bool = False  # has a backward pass outside followed it?
    lock: StateLock | None = None  # what to hold while it runs, if it has state
    guards: Guards = field(default_factory=Guards)  # what it saw of Python
    changed: Place | None = None  # where Python was found to differ last

    def present(self) -> dict[cells.Cell, cells.Cell]:
        """Where captured gradients are now: a parameter may have another tensor as its gradient by then."""
        found = ((cell, get_grad(leaf)) for cell, leaf, _ in self.grad_cells)
        return {cell: grad._cell for cell, grad in found if grad is not None}


def trace(
    fn: Callable[..., Any],
    call: Call,
    options: tuple[tuple[str, Any], ...] = (),
    lifted: Sequence[Place] = (),
) -> Entry:
    """Run the function once on placeholders and keep what it does. `lifted` are numbers of Python that the
    recording takes as inputs.
    """
    rows = call.signature.leaves
    dynamic = [r for r in rows if isinstance(r, Dynamic)]
    out: dict[str, Any] = {}

    def body(*values: Value) -> list[Value]:
        inner = _placeholders(values, dynamic, call)
        it = iter(inner)
        leaves = [next(it) if isinstance(r, Dynamic) else r.value for r in rows]
        args, kwargs = call.signature.tree.unflatten(leaves)
        result = fn(*args, **kwargs)
        return _collect(result, inner, values, call, out)

    with_cells = [r.type for r in dynamic]
    with told_if_drawn(fn), numbers_as_tensors(lifted) as numbers:
        recording = record(body, with_cells, getattr(fn, "__name__", "function"))
    notes = out["notes"]
    captured = [(_type_seen(c), requires(c)) for c in recording.cells]
    grad_was = [(k[1], v) for k, v in notes.items() if isinstance(k, tuple) and k[0] == "grad was"]
    grad_was = [(leaf, was) for leaf, was in grad_was if leaf.owner is not out["own"]]
    switches = [(k[1], v) for k, v in notes.items() if isinstance(k, tuple) and k[0] == "training"]
    forms = [(k[1], v) for k, v in notes.items() if isinstance(k, tuple) and k[0] == "form"]
    hooks = [(c.leaf, hooks_of(c.leaf)) for c in recording.cells if c.leaf is not None]
    seen = ((leaf, get_grad(leaf)) for leaf, _ in grad_was)
    grad_cells = [
        (g._cell, leaf, g._view) for leaf, g in seen if g is not None and g._cell in recording.cells
    ]
    e = Entry(
        recording,
        out["tree"],
        out["static"],
        out["arg_writes"],
        out["grads"],
        grad_was,
        grad_cells,
        captured,
        switches,
        forms,
        hooks,
        changes(),
        any(recording.tracked),
    )
    e.attributes = {
        "graph": recording.graph,
        "name": recording.graph.name,
        "tracked": recording.tracked,
    }
    statics = [r.value for r in rows if isinstance(r, Static)]
    called = [k[1] for k in notes if isinstance(k, tuple) and k[0] == "module"]
    called += [hook for _, row in hooks for hook in row]
    e.guards = guards_of(fn, statics, called, numbers, out["own"])
    e.usage = _usage(e, len(dynamic), options)
    e.lock = _state_lock(e)
    return e


def _state_lock(e: Entry) -> StateLock | None:
    r, changed = e.recording, [leaf for leaf, _ in e.grads if not isinstance(leaf, int)]
    reads, writes = (*r.cells, *(leaf for leaf, _ in e.grad_was)), (*r.writes, *changed)
    return StateLock(reads, writes, _comes_back(r.graph)) if reads or writes or e.arg_writes else None


def _comes_back(graph: Graph) -> bool:
    """Does a run of it call Python code of the user's?"""
    waiting, known = [graph], {id(graph)}  # bodies of composites stand in many equations
    while waiting:
        for e in waiting.pop().equations:
            if e.primitive.effect or e.primitive.name == "custom_call":
                return True
            new = [g for _, g in e.regions() if id(g) not in known]
            known.update(map(id, new))
            waiting += new
    return False


def _usage(e: Entry, arguments: int, options: tuple[tuple[str, Any], ...]) -> Usage:
    """Cells that are only read are stable; those read and written give their arrays to the new values, and
    gradients of parameters theirs to the new gradients.
    """
    r = e.recording
    at = {cell: arguments + i for i, cell in enumerate(r.cells)}
    written = set(r.writes)
    first = len(r.graph.outputs) - len(r.writes)
    donated = tuple((first + k, at[c]) for k, c in enumerate(r.writes) if c in at)
    changing = written | {tensor._cell for _, tensor in e.guards.lifted}
    stable = frozenset(i for c, i in at.items() if c not in changing)
    plain = not e.grad_cells and not any(isinstance(where, int) for where, _ in e.grads)
    gradients = sum(there for _, there in e.grads) if plain else 0
    return Usage(stable, donated, options, tuple(range(first - gradients, first)))


def requires(cell: cells.Cell) -> bool:
    return cell.leaf is not None or (type(cell.held) is Taped and cell.held.interpreter.ambient)


def _type_seen(cell: cells.Cell) -> TensorType:
    return type_of(cell.held if cell.owner is entry.threads.context.recorder else cells.read(cell))


def _placeholders(values: Sequence[Value], rows: Sequence[Dynamic], call: Call) -> list[Tensor]:
    """Tensors that stand for the arguments inside the recording; arguments that are one tensor outside are
    one inside.
    """
    ctx = entry.context()
    out: list[Tensor] = []
    for i, (v, row) in enumerate(zip(values, rows, strict=True)):
        if call.signature.aliases[i] != i and row == rows[call.signature.aliases[i]]:
            out.append(out[call.signature.aliases[i]])
            continue
        t = wrap(v)
        if row.grad == "leaf":
            t._cell.leaf = GradLeaf()
            ctx.recorder.notes["grad", t._cell.leaf] = None  # type: ignore[union-attr]
        elif row.grad == "history" and ctx.ambient.level > ctx.grad_off:
            t._cell.value = Taped(ctx.ambient, v, Boundary("an argument", ()))
        if row.weak is not None:
            t._note("weak", row.weak)
        out.append(t)
    return out


def _collect(
    result: Any, inner: Sequence[Tensor], values: Sequence[Value], call: Call, out: dict[str, Any]
) -> list[Value]:
    """The outputs of the recording: results, written arguments, changed gradients."""
    recorder = entry.context().recorder
    assert recorder is not None
    leaves, out["tree"] = pytree.flatten(result, is_tensor)
    out["static"] = [None if _is_output(x) else Static(x) for x in leaves]
    outputs = [read_strong(x) if isinstance(x, Tensor) else to_array(x) for x in leaves if _is_output(x)]
    out["arg_writes"] = []
    for i, (t, v) in enumerate(zip(inner, values, strict=True)):
        now = t._cell.value
        if (
            call.signature.aliases[i] == i
            and now is not v
            and not (type(now) is Taped and isinstance(now.node, Boundary))
        ):
            out["arg_writes"].append(i)
            outputs.append(now)
    out["notes"], out["own"] = recorder.notes, recorder
    out["grads"] = []
    at = {t._cell.leaf: i for i, t in enumerate(inner) if t._cell.leaf is not None}
    for k, grad in list(recorder.notes.items()):
        if not (isinstance(k, tuple) and k[0] == "grad") or (k[1] in at and grad is None):
            continue
        if k[1].owner is recorder:  # of a tensor made here
            continue
        out["grads"].append((at.get(k[1], k[1]), grad is not None))
        if grad is not None:
            outputs.append(grad._read())
    return outputs


def _is_output(x: Any) -> bool:
    return isinstance(x, (Tensor, np.ndarray))


def still_holds(e: Entry, call: Call) -> str:
    """Empty if the recording serves now, else what has changed."""
    for leaf, was in e.grad_was:
        if (get_grad(leaf) is not None) != was:
            return f"a parameter {'has no' if was else 'has a'} gradient from before"
    if any(get_grad(leaf)._view != view for _, leaf, view in e.grad_cells):  # type: ignore[union-attr]
        return "the gradient of a parameter is another view of its memory"
    present = e.present()
    for seen, (kind, grad) in zip(e.recording.cells, e.captured, strict=True):
        cell = present.get(seen, seen)
        if requires(cell) != grad:
            return "a tensor that the function reads requires a gradient now, or no longer does"
        value = cell.held if cell.owner is entry.threads.context.recorder else cells.read(cell)
        if value.shape != kind.shape or value.dtype != kind.dtype:
            return f"a tensor that the function reads is {type_of(value)} instead of {kind}"
    return _python_differs(e)


def hand_on(e: Entry, recorder: Recorder | None) -> None:
    """A recording that becomes a part of another: what it depends on, that one depends on."""
    while recorder is not None:
        for what, rows in (("training", e.switches), ("form", e.forms)):
            for of, was in rows:
                recorder.notes.setdefault((what, of), was)
        recorder = recorder.parent


def _python_differs(e: Entry) -> str:
    """What the function would find otherwise than when it was recorded; modules only if one has changed."""
    reason, e.changed = e.guards.differs()
    if reason or e.checked == changes():
        return reason
    for module, mode in e.switches:
        if module.__dict__.get("training") != mode:
            return f"{type(module).__name__} is in {'evaluation' if mode else 'training'} mode now"
    if any(optimizer.form() != was for optimizer, was in e.forms):
        return "parameters or settings of an optimiser were changed"
    if any(hooks_of(leaf) != was for leaf, was in e.hooks):
        return "a tensor that the function reads has other hooks"
    reason, e.changed = e.guards.module_differs()
    if not reason:
        e.checked = changes()
    return reason
