"""prepack: weights that stay the same are packed once, not in every product.

Enters: a graph and which of its values are stable. Leaves: the graph in which products with a stable matrix
are `dot_packed` with its `gemm_pack`, which depends on stable values alone and so runs only when they change.
Products with a single row stay as they are: they read the matrix once, where it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from trilobite.base.dtypes import float32, float64
from trilobite.compiler.cpu.gemm.tiling import tiling
from trilobite.compiler.rewrite import Counters
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import result_types, table
from trilobite.ir.types import Dim
from trilobite.native.host import Host, features


def prepack(
    graph: Graph, stable: Collection[Var], counters: Counters | None = None, host: Host | None = None
) -> Graph:
    """The graph with packed weights; itself if there are none."""
    return _Packer(graph, stable, Counters() if counters is None else counters, host or features()).run()


class _Packer:
    def __init__(self, graph: Graph, stable: Collection[Var], counters: Counters, host: Host) -> None:
        self.graph, self.counters, self.host = graph, counters, host
        self.settled = set(stable)
        self.made: dict[Var, Equation] = {}
        self.packed: dict[tuple[Var, int], Var] = {}
        self.out: list[Equation] = []

    def run(self) -> Graph:
        for e in self.graph.equations:
            if e.inputs and all(v in self.settled for v in e.inputs) and not e.primitive.effect:
                self.settled.update(e.outputs)
            self.made.update(dict.fromkeys(e.outputs, e))
            self.out.append(self.product(e) if self.pays(e) else e)
        if not self.packed:
            return self.graph
        return Graph(self.graph.inputs, self.out, self.graph.outputs, self.graph.name)

    def pays(self, e: Equation) -> bool:
        if e.primitive.name != "dot" or e.inputs[1] not in self.settled or e.outputs[0] in self.settled:
            return False
        x, y = (v.type for v in e.inputs)
        contract, dtype = e.attributes["contract"], e.attributes["dtype"]
        plain = e.attributes["batch"] == ((), ()) and contract[0] == (x.ndim - 1,) and y.ndim == 2
        whole = all(isinstance(d, int) and d > 0 for d in y.shape)
        return plain and whole and dtype == y.dtype and dtype in (float32, float64) and _rows(x.shape[:-1])

    def product(self, e: Equation) -> Equation:
        x, y = e.inputs
        (contract,) = e.attributes["contract"][1]
        columns = y.type.shape[1 - contract]
        while y in self.made and self.made[y].primitive.name == "transpose":
            y, contract = self.made[y].inputs[0], 1 - contract if _turns(self.made[y]) else contract
        if (y, contract) not in self.packed:
            width = tiling(self.host, y.type.dtype).columns
            self.packed[y, contract] = self.emit(e, "gemm_pack", (y,), {"contract": contract, "width": width})
        self.counters["dot_packed"] += 1
        attributes = {"columns": columns, "dtype": e.attributes["dtype"]}
        return Equation(table["dot_packed"], (x, self.packed[y, contract]), attributes, e.outputs, e.location)

    def emit(self, near: Equation, name: str, inputs: tuple[Var, ...], attributes: Mapping[str, Any]) -> Var:
        (type_,) = result_types(table[name], [v.type for v in inputs], attributes)
        out = Var(type_)
        self.out.append(Equation(table[name], inputs, attributes, (out,), near.location))
        return out


def _turns(e: Equation) -> bool:
    return tuple(e.attributes["axes"]) == (1, 0)


def _rows(shape: tuple[Dim, ...]) -> bool:
    """Whether there is, or may be, more than one row."""
    return any(d != 1 for d in shape)
