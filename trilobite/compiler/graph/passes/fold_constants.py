"""fold_constants: what depends on constants alone is computed now.

Enters: a graph. Leaves: the graph in which equations over constants are constants, as long as the result is
small (`cap` bytes: a graph must not grow by the results of its broadcasts), and conditionals whose index is a
constant are the branch it names. The NumPy rules do the arithmetic, so bits are those of the reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.compiler.graph.draft import Draft, spliced
from trilobite.compiler.graph.passes.dce import has_effect
from trilobite.compiler.graph.regions import extent, on_every_graph
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters, filled
from trilobite.ir.graph import Dense, Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.types import Affine

Array = np.ndarray[Any, Any]
CAP = 1 << 16

# Constants themselves; what must not be merged or looked through; what may refuse its operand while it runs.
_APART = frozenset(
    """
    constant full barrier call cond while scan fusion custom_call
    cholesky triangular_solve lu qr eigh eigvalsh eig eigvals svd svdvals pinv fft rfft irfft
    """.split()
)


def fold_constants(graph: Graph, counters: Counters = UNCOUNTED, *, cap: int = CAP) -> Graph:
    """The graph with results of constants in place of what computes them."""
    return on_every_graph(graph, lambda g: _Folder(g, counters, cap).run())


class _Folder(Draft):
    def __init__(self, graph: Graph, counters: Counters, cap: int) -> None:
        super().__init__(graph)
        self.counters, self.cap = counters, cap
        self.known: dict[Var, Array] = {}

    def run(self) -> Graph:
        pending = list(reversed(self.graph.equations))
        while pending:
            e = self.current(pending.pop())
            branch = self._taken(e)
            if branch is not None:
                pending += reversed(self._spliced(branch, e))
            elif not self._folded(e):
                self._keep(e)
        return self.finished()

    def _keep(self, e: Equation) -> None:
        self.equations.append(e)
        if e.primitive.name == "constant":
            self.known[e.outputs[0]] = e.attributes["value"].array
        elif e.primitive.name == "full" and not any(isinstance(d, Affine) for d in e.attributes["shape"]):
            self.known[e.outputs[0]] = e.primitive.evaluate(**e.attributes)  # a view of one element

    def _folded(self, e: Equation) -> bool:
        """Put constants in the place of an equation, if it can be computed and gives little."""
        if e.primitive.name in _APART or has_effect(e) or not all(v in self.known for v in e.inputs):
            return False
        if not all(self._is_small(v) for v in (*e.outputs, *e.inputs)):
            return False
        found = e.primitive.evaluate(*(self.known[v] for v in e.inputs), **e.attributes)
        results = found if e.primitive.multiple else (found,)
        for v, array in zip(e.outputs, results, strict=True):
            self._keep(_constant(array, v, e))
        self.counters[e.primitive.name] += 1
        return True

    def _is_small(self, v: Var) -> bool:
        """Results within the cap; operands within it too, or one number (whose array takes no memory)."""
        if any(isinstance(d, Affine) for d in v.type.shape):
            return False
        known = self.known.get(v)
        if known is not None and not any(known.strides):
            return True
        return v.type.dtype.itemsize * extent(v.type.shape) <= self.cap

    def _taken(self, e: Equation) -> Graph | None:
        """The branch of a conditional whose index is known."""
        if e.primitive.name != "cond" or e.inputs[0] not in self.known:
            return None
        branches: tuple[Graph, ...] = e.attributes["branches"]
        return branches[min(max(int(self.known[e.inputs[0]]), 0), len(branches) - 1)]

    def _spliced(self, branch: Graph, e: Equation) -> list[Equation]:
        """The branch's equations under fresh names, in the place of the conditional."""
        self.counters["cond"] += 1
        out, results = spliced(branch, e.inputs[1:], lambda b: b.location)
        self.put(e.outputs, results)
        return out


def _constant(array: Array, v: Var, e: Equation) -> Equation:
    """The constant, as one number where it is one."""
    flat = np.ascontiguousarray(array).reshape(-1)
    words = flat.view(np.uint8).reshape(max(flat.size, 1), -1) if flat.size else flat
    if flat.size and bool((words == words[:1]).all()):
        attributes = filled(flat[:1].reshape(()), v.type)
        if attributes is not None:
            return Equation(table["full"], (), attributes, (v,), e.location)
    return Equation(table["constant"], (), {"value": Dense(array)}, (v,), e.location)
