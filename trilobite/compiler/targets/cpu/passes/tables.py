"""tables: what is computed between two 8-bit grids from one byte alone is read from a table.

Enters: a graph. Leaves: the graph with `lookup` for chains of elementwise equations that begin and end with
bytes and read nothing else but numbers (an activation between grids: dequantise, the function, quantise). A
table holds what the primitives' own rules give, so its bits are those of the chain, on every machine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.passes.rules.pointwise import POINTWISE
from trilobite.compiler.graph.regions import on_every_graph
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters
from trilobite.compiler.targets.cpu.emit.lookup import in_registers
from trilobite.compiler.targets.cpu.passes.bytes import BYTES
from trilobite.compiler.targets.cpu.primitives.lookup import CODES
from trilobite.ir.graph import Dense, Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.types import TensorType
from trilobite.native.host import Host, features

Array = np.ndarray[Any, Any]
_GRIDS = {"quantise": 4, "dequantise": 3}  # what they cost
_CHEAP = frozenset(
    "add sub mul neg abs sign floor ceil trunc round not and or xor shift_left shift_right bitcast cast "
    "eq ne lt le gt ge select maximum minimum is_nan is_inf is_finite signbit copysign".split()
)
_FUNCTION = 8  # a division, a root, an exponential
_PAYS, _PAYS_FROM_MEMORY = 7, 15  # from which cost on a lookup is less: from registers, lane by lane


class _Chain(NamedTuple):
    """A value that is a function of one byte: what it is for each, and the equations that make it."""

    root: Var
    values: Array
    cost: dict[int, int]  # of each equation


def tables(graph: Graph, counters: Counters = UNCOUNTED, host: Host | None = None) -> Graph:
    pays = _PAYS if in_registers(host or features()) else _PAYS_FROM_MEMORY
    return on_every_graph(graph, lambda g: _Tables(g, pays).run(counters))


class _Tables:
    def __init__(self, graph: Graph, pays: int) -> None:
        self.graph, self.pays = graph, pays
        self.numbers: dict[Var, Array] = {}  # values that are the same everywhere, as one number
        self.chains: dict[Var, _Chain] = {}

    def run(self, counters: Counters) -> Graph:
        if not any(e.primitive.name == "dequantise" for e in self.graph.equations):
            return self.graph
        out: list[Equation] = []
        for e in self.graph.equations:
            self._note(e)
            found = self._looked_up(e)
            out += found or [e]
            if found:
                counters["lookup"] += 1
        return dce(Graph(self.graph.inputs, out, self.graph.outputs, self.graph.name))

    def _note(self, e: Equation) -> None:
        name, out = e.primitive.name, e.outputs[0] if e.outputs else None
        if out is None:
            return
        if name == "full":
            self.numbers[out] = e.primitive.evaluate(**{**e.attributes, "shape": ()})
        elif name == "constant" and e.attributes["value"].array.size == 1:
            self.numbers[out] = e.attributes["value"].array.reshape(())
        elif name in ("broadcast", "reshape") and e.inputs[0] in self.numbers:
            self.numbers[out] = self.numbers[e.inputs[0]]
        elif name in POINTWISE or (name in _GRIDS and e.attributes["axis"] is None):
            self._extend(e)

    def _extend(self, e: Equation) -> None:
        found = {v: self._chain(v) for v in e.inputs if v not in self.numbers}
        chains = {v: c for v, c in found.items() if c is not None}
        roots = {c.root for c in chains.values()}
        (out,), name = e.outputs, e.primitive.name
        if len(roots) != 1 or len(chains) < len(found):
            return
        (root,) = roots
        grid = e.inputs[1:] if name in _GRIDS else ()
        if any(v in chains for v in grid) or any(v.type.shape != out.type.shape for v in (root, *chains)):
            return
        operands = [chains[v].values if v in chains else self.numbers[v] for v in e.inputs]
        if not grid:
            operands = [np.broadcast_to(a, CODES) for a in operands]
        with np.errstate(all="ignore"):
            values = np.asarray(e.primitive.evaluate(*operands, **e.attributes))
        cost = {k: n for c in chains.values() for k, n in c.cost.items()}
        cost[id(e)] = _GRIDS.get(name, 1 if name in _CHEAP else _FUNCTION)
        self.chains[out] = _Chain(root, values, cost)

    def _chain(self, v: Var) -> _Chain | None:
        """What a value is of; a byte that is nothing else begins a chain."""
        if v in self.chains:
            return self.chains[v]
        if v.type.dtype not in BYTES:
            return None
        return _Chain(v, np.arange(CODES, dtype=np.uint8).view(v.type.dtype), {})

    def _looked_up(self, e: Equation) -> list[Equation]:
        if not e.outputs or e.outputs[0] not in self.chains or e.outputs[0].type.dtype not in BYTES:
            return []
        out, chain = e.outputs[0], self.chains[e.outputs[0]]
        if sum(chain.cost.values()) < self.pays:
            return []
        values = np.ascontiguousarray(chain.values, out.type.dtype)
        held = Var(TensorType((CODES,), out.type.dtype))
        constant = Equation(table["constant"], (), {"value": Dense(values)}, (held,), e.location)
        return [constant, Equation(table["lookup"], (chain.root, held), {}, (out,), e.location)]
