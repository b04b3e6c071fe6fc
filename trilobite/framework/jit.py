"""`tb.jit`: record a function once per kind of call, compile the graph for a target, run that from then on.

State is captured through cells alone: a tensor read from outside is an input, one written is an output.
Arguments are tensors (or arrays), Python numbers (traced, weakly typed), and static values: bools, strings,
None, and whatever static_argnums and static_argnames name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any

import numpy as np

from trilobite.base import pytree
from trilobite.base.errors import ArgumentError, TraceError
from trilobite.base.locations import user_location
from trilobite.framework.generation import generation
from trilobite.framework.leaves import GradLeaf, get_grad, set_grad
from trilobite.framework.ops.creation import to_array
from trilobite.framework.ops.registry import read as read_strong
from trilobite.framework.signature import Call, Dynamic, Signature, Static, describe, hold, take_apart
from trilobite.framework.tensor import Tensor, wrap
from trilobite.framework.transforms import check_function, is_tensor
from trilobite.ir.evaluate import executable
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.record import Recording, record, see
from trilobite.ir.transforms.tape import Boundary, Taped
from trilobite.ir.types import TensorType, type_of


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
    checked: int
    differentiable: bool  # does any output continue on the tape outside?
    attributes: dict[str, Any] = field(default_factory=dict)

    def present(self) -> dict[cells.Cell, cells.Cell]:
        """Where captured gradients are now: a parameter may have another tensor as its gradient by then."""
        found = ((cell, get_grad(leaf)) for cell, leaf, _ in self.grad_cells)
        return {cell: grad._cell for cell, grad in found if grad is not None}


class Jitted:
    """A compiled function. Call it like the original."""

    def __init__(
        self,
        fn: Callable[..., Any],
        target: str,
        static_argnums: Sequence[int],
        static_argnames: Sequence[str],
        shapes: Any,
    ) -> None:
        self.fn, self.target, self.shapes = fn, target, shapes
        self.static_argnums, self.static_argnames = tuple(static_argnums), tuple(static_argnames)
        self.entries: dict[Signature, list[Entry]] = {}
        self.recompilations: list[str] = []
        update_wrapper(self, fn, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = self._take_apart(args, kwargs)
        found = self._find(call)
        shared = _shared(found, call)
        if shared:
            call = hold(call, shared)
            found = self._find(call)
        return self._run(found, call)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        bound = instance.__dict__.setdefault("_jitted", {}) if hasattr(instance, "__dict__") else {}
        name = self.fn.__name__
        if name not in bound:
            bound[name] = Jitted(
                self.fn.__get__(instance, owner),
                self.target,
                [n - 1 for n in self.static_argnums],
                self.static_argnames,
                self.shapes,
            )
        return bound[name]

    def _take_apart(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        return take_apart(args, kwargs, self.static_argnums, self.static_argnames, self.shapes)

    # -- recordings ------------------------------------------------------------------------------------------

    def _find(self, call: Call) -> Entry:
        candidates = self.entries.get(call.signature, ())
        reason = ""
        for e in candidates:
            reason = _still_holds(e, call)
            if not reason:
                return e
        if self.entries:
            self.recompilations.append(reason or self._difference(call.signature))
        found = self._trace(call)
        if (
            not found.recording.values
        ):  # one that closes over values of a running transform serves this call only
            self.entries.setdefault(call.signature, []).append(found)
        return found

    def _difference(self, new: Signature) -> str:
        """Why no recording so far serves: compared with the newest of them."""
        old = list(self.entries)[-1]
        if old.tree != new.tree:
            return f"the arguments have another structure: {new.tree} instead of {old.tree}"
        for i, (a, b) in enumerate(zip(old.leaves, new.leaves, strict=True)):
            if a != b:
                return f"argument leaf {i} is {describe(b)} instead of {describe(a)}"
        if old.aliases != new.aliases:
            return "other arguments are the same tensor"
        if old.autocast != new.autocast:
            return f"autocast is {'off' if new.autocast is None else new.autocast.name}"
        return f"gradients are {'on' if new.grad_enabled else 'off'}"

    def _trace(self, call: Call) -> Entry:
        rows = call.signature.leaves
        dynamic = [r for r in rows if isinstance(r, Dynamic)]
        out: dict[str, Any] = {}

        def body(*values: Value) -> list[Value]:
            inner = _placeholders(values, dynamic, call)
            it = iter(inner)
            leaves = [next(it) if isinstance(r, Dynamic) else r.value for r in rows]
            args, kwargs = call.signature.tree.unflatten(leaves)
            result = self.fn(*args, **kwargs)
            return _collect(result, inner, values, call, out)

        with_cells = [r.type for r in dynamic]
        recording = record(body, with_cells, getattr(self.fn, "__name__", "function"))
        notes = out["notes"]
        captured = [(_type_seen(c), requires(c)) for c in recording.cells]
        grad_was = [(k[1], v) for k, v in notes.items() if isinstance(k, tuple) and k[0] == "grad was"]
        switches = [(k[1], v) for k, v in notes.items() if isinstance(k, tuple) and k[0] == "training"]
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
            generation(),
            any(recording.tracked),
        )
        e.attributes = {
            "graph": recording.graph,
            "name": recording.graph.name,
            "target": self.target,
            "tracked": recording.tracked,
        }
        return e

    # -- running ---------------------------------------------------------------------------------------------

    def _run(self, e: Entry, call: Call) -> Any:
        r = e.recording
        values = [t._read() for t in call.tensors] + r.operands()
        if e.grad_cells:
            present, n = e.present(), len(call.tensors)
            values[n : n + len(r.cells)] = [see(present.get(c, c)) for c in r.cells]
        if not e.differentiable:  # nothing that backward() outside could follow: its tape need not know
            values = [entry.threads.context.ambient.strip(v) for v in values]
        if entry.threads.context.recorder is None and all(type(v) is np.ndarray for v in values):
            outs: Sequence[Value] = executable(r.graph, self.target)(values)
        else:
            outs = table["call"](*values, **e.attributes)
        return _deliver(e, call, _distinct(outs, values))

    # -- looking inside --------------------------------------------------------------------------------------

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The recorded program for these arguments, without running it."""
        return Lowered(self._find(self._take_apart(args, kwargs)).recording.graph, self.target)

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """Where each operation runs, and why the function was recorded more than once."""
        lines = []
        if args or kwargs:
            lowered = self.lower(*args, **kwargs)
            lines.append(f"{lowered.graph.name} on {self.target}: {len(lowered.graph)} equations")
            lines += [f"  {e.primitive.name:<14} {e.location}" for e in lowered.graph.equations]
        lines += [f"recorded again: {why}" for why in self.recompilations]
        return "\n".join(lines) or ("recorded once" if self.entries else "not called yet")


@dataclass(frozen=True)
class Lowered:
    """A recorded program on its way to a target."""

    graph: Graph
    target: str

    @property
    def stages(self) -> dict[str, str]:
        """Every level as text, in order."""
        return {"graph": str(self.graph)}

    def compile(self) -> Callable[[Sequence[Value]], list[Value]]:
        return executable(self.graph, self.target)


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    target: str = "reference",
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    shapes: Sequence[Any] | None = None,
) -> Any:
    """Compile a function. `shapes` declares symbolic dimensions: one entry per positional argument, None for
    "as it is".
    """
    numbers = (static_argnums,) if isinstance(static_argnums, int) else static_argnums
    names = (static_argnames,) if isinstance(static_argnames, str) else static_argnames
    if fn is None:
        return lambda f: jit(f, target=target, static_argnums=numbers, static_argnames=names, shapes=shapes)
    check_function("jit", fn)
    _check_static(fn, numbers, names)
    return Jitted(fn, target, numbers, tuple(names) + _names_of(fn, numbers), shapes)


def _check_static(fn: Callable[..., Any], numbers: Sequence[int], names: Sequence[str]) -> None:
    """Static arguments must be ones that the function has."""
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return
    kinds = {p.kind for p in parameters.values()}
    open_ended, any_name = inspect.Parameter.VAR_POSITIONAL in kinds, inspect.Parameter.VAR_KEYWORD in kinds
    n = len(parameters)
    wrong: list[object] = [] if open_ended else [i for i in numbers if not -n <= i < n]
    wrong += [] if any_name else [name for name in names if name not in parameters]
    if wrong:
        raise ArgumentError(
            f"jit with the static argument {wrong[0]!r} of a function of ({', '.join(parameters)})",
            where=user_location(),
            expected="positions and names of its parameters",
            remedy="static_argnums counts from 0; static_argnames are the parameters' names",
        )


def _names_of(fn: Callable[..., Any], numbers: Sequence[int]) -> tuple[str, ...]:
    """Static positions are static by keyword as well."""
    try:
        parameters = list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return ()
    return tuple(parameters[n] for n in numbers if -len(parameters) <= n < len(parameters))


def _shared(e: Entry, call: Call) -> set[cells.Cell]:
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


def requires(cell: cells.Cell) -> bool:
    return cell.leaf is not None or (type(cell.value) is Taped and cell.value.interpreter.ambient)


def _type_seen(cell: cells.Cell) -> TensorType:
    return type_of(cells.read(cell))


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
    out["notes"] = recorder.notes
    out["grads"] = []
    at = {t._cell.leaf: i for i, t in enumerate(inner) if t._cell.leaf is not None}
    for k, grad in list(recorder.notes.items()):
        if not (isinstance(k, tuple) and k[0] == "grad") or (k[1] in at and grad is None):
            continue
        out["grads"].append((at.get(k[1], k[1]), grad is not None))
        if grad is not None:
            outputs.append(grad._read())
    return outputs


def _is_output(x: Any) -> bool:
    return isinstance(x, (Tensor, np.ndarray))


def _still_holds(e: Entry, call: Call) -> str:
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
        value = cell.value if cell.owner is entry.threads.context.recorder else cells.read(cell)
        if value.shape != kind.shape or value.dtype != kind.dtype:
            return f"a tensor that the function reads is {type_of(value)} instead of {kind}"
    if e.checked != generation():
        for module, mode in e.switches:
            if module.__dict__.get("training") != mode:
                return f"{type(module).__name__} is in {'evaluation' if mode else 'training'} mode now"
        e.checked = generation()
    return ""


def _distinct(outs: Sequence[Value], values: Sequence[Value]) -> list[Value]:
    """Outputs with memory of their own: an array that is also an input, or another output, or a view, is
    copied.
    """
    taken = {id(v) for v in values}
    out: list[Value] = []
    for o in outs:
        if type(o) is np.ndarray and (id(o) in taken or o.base is not None or not o.flags.writeable):
            o = o.copy()
        taken.add(id(o))
        out.append(o)
    return out


def _deliver(e: Entry, call: Call, outs: Sequence[Value]) -> Any:
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


def make_graph(fn: Callable[..., Any], *, static_argnums: int | Sequence[int] = ()) -> Callable[..., Graph]:
    """`make_graph(f)(x)` is the graph that f records for x."""
    jitted = jit(fn, static_argnums=static_argnums)
    return lambda *args, **kwargs: jitted.lower(*args, **kwargs).graph


def eval_shape(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The types of `fn`'s results, without computing them."""
    jitted = jit(fn)
    e = jitted._find(jitted._take_apart(args, kwargs))
    types = iter(e.recording.graph.output_types)
    return e.out_tree.unflatten(next(types) if s is None else s.value for s in e.out_static)


def refuse_during_recording(what: str) -> None:
    """Called where Python state is about to change: inside a recording that would happen once instead of
    every run.
    """
    if entry.threads.context.recorder is not None:
        raise TraceError(
            f"{what} while a function is being recorded",
            where=user_location(),
            expected="state that changes from run to run lives in tensors",
            remedy="make it a buffer and write to it in place: self.count += 1",
        )
