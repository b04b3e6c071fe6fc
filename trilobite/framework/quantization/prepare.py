"""A model as a graph that can be quantised: recorded in evaluation mode, batch norms folded.

Enters: a module and example arguments. Leaves: a `Prepared`: the graph, the arrays of its weights, their
names, and the form of its results. The size of the batch stays open where the model allows it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from trilobite.base import pytree
from trilobite.base.errors import ShapeError, StateError, TraceError
from trilobite.base.locations import user_location
from trilobite.base.records import dataclass
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.passes.fold_batch_norm import fold_batch_norm
from trilobite.compiler.graph.passes.fold_constants import fold_constants
from trilobite.compiler.graph.passes.inline import inline
from trilobite.compiler.graph.passes.simplify import simplify
from trilobite.compiler.graph.passes.stable import stable_values
from trilobite.framework.jit import jit
from trilobite.framework.modes import no_grad
from trilobite.framework.nn.module import Module
from trilobite.framework.recordings import Entry, trace
from trilobite.framework.tensor import Tensor
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.transforms import cells
from trilobite.ir.types import dim, symbols_of

Array = np.ndarray[Any, Any]
LARGEST_BATCH = 1 << 16
_PRODUCTS = frozenset({"conv", "conv_input_grad", "dot"})


@dataclass
class Prepared:
    """A graph of inputs and weights. `arguments` of its inputs are the caller's, the others are weights."""

    graph: Graph
    arguments: int
    weights: dict[Var, Array]
    names: dict[Var, str]
    out_tree: Any
    out_static: list[Any]
    open_batch: bool
    stable: set[Var] = field(default_factory=set)
    makers: dict[Var, Equation] = field(default_factory=dict)

    def array(self, v: Var) -> Array | None:
        """The numbers of a value that depends on weights alone; None for others and for open sizes."""
        if v in self.weights:
            return self.weights[v]
        if v not in self.stable or symbols_of(v.type.shape):
            return None
        found = self._computed(v)
        self.weights[v] = found
        return found

    def _computed(self, v: Var) -> Array:
        """By the equations that it comes from."""
        needed: list[Equation] = []
        seen: set[Var] = set()
        stack = [v]
        while stack:
            now = stack.pop()
            if now in seen or now in self.weights:
                continue
            seen.add(now)
            needed.append(self.makers[now])
            stack += self.makers[now].inputs
        wanted = {id(e) for e in needed}
        equations = [e for e in self.graph.equations if id(e) in wanted]
        inputs = list(dict.fromkeys(i for e in equations for i in e.inputs if i in self.weights))
        (out,) = run(Graph(inputs, equations, [v]), [self.weights[i] for i in inputs])
        return np.asarray(out)

    def layer(self, v: Var) -> str:
        """The name of the layer that a weight belongs to: of the largest parameter it is made of."""
        stack, seen, found = [v], set[Var](), list[Var]()
        while stack:
            now = stack.pop()
            if now in seen:
                continue
            seen.add(now)
            if now in self.names:
                found.append(now)
            elif now in self.makers:
                stack += self.makers[now].inputs
        if not found:
            return ""
        largest = max(found, key=lambda w: self.weights[w].size)
        return self.names[largest].rpartition(".")[0]


def prepare(model: Module, args: Sequence[Any]) -> Prepared:
    """Record the model for arguments like these."""
    model = copy.deepcopy(model).eval()
    entry, arguments, open_batch = _recorded(model, args)
    r = entry.recording
    if r.writes or entry.arg_writes or entry.grads:
        raise StateError(
            f"{type(model).__name__} writes state when it runs, even in evaluation mode",
            where=user_location(),
            expected="a forward pass that only reads its tensors",
            remedy="quantise the part of the model that keeps no state of its own",
        )
    known = {t._cell: name for name, t in (*model.named_parameters(), *model.named_buffers())}
    arrays = [np.asarray(cells.read(c)) for c in r.cells] + [np.asarray(v) for v in r.values]
    labels = [known.get(c, f"tensor_{i}") for i, c in enumerate(r.cells)]
    labels += [f"value_{i}" for i in range(len(r.values))]
    graph = _folded(r.graph, frozenset(range(arguments, len(r.graph.inputs))))
    found = Prepared(
        graph,
        arguments,
        dict(zip(graph.inputs[arguments:], arrays, strict=True)),
        dict(zip(graph.inputs[arguments:], labels, strict=True)),
        entry.out_tree,
        entry.out_static,
        open_batch,
    )
    found.stable = stable_values(graph, range(arguments, len(graph.inputs)))
    found.makers = {v: e for e in graph.equations for v in e.outputs}
    return found


def _recorded(model: Module, args: Sequence[Any]) -> tuple[Entry, int, bool]:
    """With an open batch if the model can be recorded so, else for the sizes of the example."""
    try:
        return (*_record(model, args, _open(args)), True)
    except (TraceError, ShapeError):
        return (*_record(model, args, None), False)


def _record(model: Module, args: Sequence[Any], shapes: Any) -> tuple[Entry, int]:
    call = jit(model, shapes=shapes)._take_apart(args, {})
    with no_grad():
        return trace(model, call), len(call.tensors)


def _open(args: Sequence[Any]) -> Any:
    """Every tensor's first axis is the batch."""
    n = dim("batch", max=LARGEST_BATCH)

    def opened(leaf: Any) -> Any:
        shape = getattr(leaf, "shape", ())
        return (n, *shape[1:]) if len(shape) else None

    leaves = [pytree.flatten(a, lambda x: isinstance(x, Tensor | np.ndarray)) for a in args]
    return [tree.unflatten([opened(x) for x in found]) for found, tree in leaves]


def _folded(graph: Graph, stable: frozenset[int]) -> Graph:
    weights = stable_values(graph, stable)

    def whole(e: Equation) -> bool:
        """Calls stay, but for batch norms and those that multiply by weights."""
        if e.attributes["name"] == "batch_norm_inference":
            return False
        return not _multiplies(e.attributes["graph"], [v in weights for v in e.inputs])

    graph = simplify(fold_constants(inline(graph, whole)))
    graph = simplify(fold_batch_norm(graph, stable, large=None))
    return dce(graph)


def _multiplies(graph: Graph, from_weights: Sequence[bool]) -> bool:
    """Is there a product of a weight and something else inside?"""
    fixed = stable_values(graph, [i for i, known in enumerate(from_weights) if known])
    return any(
        (e.primitive.name in _PRODUCTS and any(v in fixed for v in e.inputs) and e.outputs[0] not in fixed)
        or (e.primitive.name == "call" and _multiplies(e.attributes["graph"], [v in fixed for v in e.inputs]))
        for e in graph.equations
    )
