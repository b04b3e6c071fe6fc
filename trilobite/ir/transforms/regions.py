"""The transforms, on regions: graph in, graph out. Each records the interpreter's run under another
interpreter.

Control flow and calls are differentiated and batched through these; no primitive has a second set of rules
for graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from trilobite.base.dtypes import is_inexact
from trilobite.base.errors import IRError
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import Value
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.backward import backward
from trilobite.ir.transforms.batch import Batch, Batched
from trilobite.ir.transforms.bind import Traced, deeper
from trilobite.ir.transforms.forward import Forward
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.transforms.tape import Leaf, Tape, zeros
from trilobite.ir.types import Dim, TensorType

T = TypeVar("T")


def _cached(graph: Graph, key: Hashable, make: Callable[[], T]) -> T:
    """Derived graphs live as long as the graph they come from."""
    store: dict[Hashable, Any] = graph.__dict__.setdefault("_derived", {})
    if key not in store:
        store[key] = make()
    found: T = store[key]
    return found


def forward_graph(graph: Graph, active: Sequence[bool]) -> tuple[Graph, tuple[bool, ...]]:
    """(inputs, tangents of active inputs) -> (outputs, tangents of active outputs); and which outputs are
    active.
    """
    return _cached(graph, ("jvp", tuple(active)), lambda: _forward_graph(graph, active))


def _forward_graph(graph: Graph, active: Sequence[bool]) -> tuple[Graph, tuple[bool, ...]]:
    n = len(graph.inputs)
    out_active: list[bool] = []

    def body(*values: Value) -> list[Value]:
        with deeper(entry.context()) as level:
            forward = Forward(level)
            tangents = iter(values[n:])
            duals = [
                forward.dual(v, next(tangents) if a else None)
                for v, a in zip(values[:n], active, strict=True)
            ]
            pairs = [forward.split(o) for o in run(graph, duals)]
            forward.alive = False
        out_active[:] = [t is not None for _, t in pairs]
        return [p for p, _ in pairs] + [t for _, t in pairs if t is not None]

    types = [*graph.input_types, *(t for t, a in zip(graph.input_types, active, strict=True) if a)]
    return record_graph(body, types, f"{graph.name}.jvp"), tuple(out_active)


class Reverse:
    """The two halves of a differentiated graph.

    forward:  inputs -> outputs, residuals backward: residuals, cotangents of inexact outputs -> cotangents of
    wanted inputs
    """

    def __init__(self, forward: Graph, backward: Graph, outputs: int, wanted: tuple[bool, ...]) -> None:
        self.forward, self.backward, self.outputs, self.wanted = forward, backward, outputs, wanted

    @property
    def residual_types(self) -> tuple[TensorType, ...]:
        return self.forward.output_types[self.outputs :]


def reverse_graph(graph: Graph, wanted: Sequence[bool]) -> Reverse:
    """Split differentiation of a graph into a forward and a backward graph."""
    wanted = tuple(w and is_inexact(t.dtype) for w, t in zip(wanted, graph.input_types, strict=True))
    return _cached(graph, ("vjp", wanted), lambda: _reverse_graph(graph, wanted))


def _reverse_graph(graph: Graph, wanted: tuple[bool, ...]) -> Reverse:
    n = len(graph.inputs)
    inexact = [t for t in graph.output_types if is_inexact(t.dtype)]
    mark: list[int] = []

    def joint(*values: Value) -> list[Value]:
        ctx = entry.context()
        with deeper(ctx) as level:
            tape = Tape(level)
            leaves = [Leaf() if w else None for w in wanted]
            taped = [
                v if leaf is None else tape.wrap(v, leaf) for v, leaf in zip(values[:n], leaves, strict=True)
            ]
            outs = run(graph, taped)
            assert ctx.recorder is not None
            mark.append(len(ctx.recorder.equations))
            targets = [o for o in outs if is_inexact(o.dtype)]
            roots = [(o, ct) for o, ct in zip(targets, values[n:], strict=True) if tape.tracks(o)]
            found = backward(tape, roots)
            tape.alive = False
            cts = [found.get(x) for x in leaves if x is not None]
            full = [
                zeros(t) if c is None else c for c, t in zip(cts, _wanted_types(graph, wanted), strict=True)
            ]
            return [tape.strip(o) for o in outs] + full

    whole = record_graph(joint, [*graph.input_types, *inexact], graph.name)
    return _split(whole, n, len(graph.outputs), mark[0], wanted)


def _wanted_types(graph: Graph, wanted: Sequence[bool]) -> list[TensorType]:
    return [t for t, w in zip(graph.input_types, wanted, strict=True) if w]


def _split(whole: Graph, n_in: int, n_out: int, mark: int, wanted: tuple[bool, ...]) -> Reverse:
    """Cut the joint graph after its forward part; what the backward part reads across the cut are the
    residuals.
    """
    first, second = list(whole.equations[:mark]), list(whole.equations[mark:])
    cheap = {e.outputs[0]: e for e in first if e.primitive.name in ("constant", "full", "iota")}
    own: set[Var] = set(whole.inputs[n_in:]) | {v for e in second for v in e.outputs}
    crossing: dict[Var, None] = {}
    for v in (*(v for e in second for v in e.inputs), *whole.outputs[n_out:]):
        if v not in own:
            crossing[v] = None
    again = [e for v, e in cheap.items() if v in crossing]
    residuals = [v for v in crossing if v not in cheap]
    forward = Graph(whole.inputs[:n_in], first, (*whole.outputs[:n_out], *residuals), f"{whole.name}.fwd")
    inputs = (*residuals, *whole.inputs[n_in:])
    back = Graph(inputs, [*again, *second], whole.outputs[n_out:], f"{whole.name}.bwd")
    return Reverse(forward, prune(back), n_out, wanted)


def prune(graph: Graph) -> Graph:
    """Without the equations that nothing needs (those with effects stay)."""
    needed: set[Var] = set(graph.outputs)
    kept: list[Equation] = []
    for e in reversed(graph.equations):
        if (
            e.primitive.effect
            or any(v in needed for v in e.outputs)
            or any(g.has_effects for _, g in e.regions())
        ):
            kept.append(e)
            needed.update(e.inputs)
    return Graph(graph.inputs, kept[::-1], graph.outputs, graph.name)


def batch_graph(
    graph: Graph, size: Dim, mapped: Sequence[bool], force: Sequence[bool] | None = None
) -> tuple[Graph, tuple[bool, ...]]:
    """The graph over a batch in axis 0 of the mapped inputs; and which outputs are mapped (at least those in
    `force`).
    """
    force = tuple(force) if force is not None else (False,) * len(graph.outputs)
    return _cached(
        graph, ("batch", size, tuple(mapped), force), lambda: _batch_graph(graph, size, mapped, force)
    )


def _batch_graph(
    graph: Graph, size: Dim, mapped: Sequence[bool], force: Sequence[bool]
) -> tuple[Graph, tuple[bool, ...]]:
    out_mapped: list[bool] = []

    def body(*values: Value) -> list[Value]:
        with deeper(entry.context()) as level:
            batch = Batch(level, size)
            outs = run(graph, [Batched(batch, v) if m else v for v, m in zip(values, mapped, strict=True)])
            flags = [
                f or (isinstance(o, Traced) and o.interpreter is batch)
                for o, f in zip(outs, force, strict=True)
            ]
            results = [batch.out(o) if m else o for o, m in zip(outs, flags, strict=True)]
            batch.alive = False
        out_mapped[:] = flags
        return results

    types = [
        TensorType((size, *t.shape), t.dtype) if m else t
        for t, m in zip(graph.input_types, mapped, strict=True)
    ]
    return record_graph(body, types, f"{graph.name}.vmap"), tuple(out_mapped)


def check_same(kind: str, graphs: Sequence[Graph]) -> None:
    """Branches of one conditional give the same types."""
    for other in graphs[1:]:
        if other.output_types != graphs[0].output_types:
            raise IRError(
                f"the branches of {kind} give {list(graphs[0].output_types)} and {list(other.output_types)}",
                remedy="cast or broadcast the results of the branches to the same dtype and shape",
            )


def fixpoint(start: Sequence[bool], step: Callable[[list[bool]], Sequence[bool]]) -> list[bool]:
    """Grow a set of flags until the body adds none."""
    now = list(start)
    while True:
        new = [x or y for x, y in zip(now, step(now), strict=True)]
        if new == now:
            return now
        now = new
