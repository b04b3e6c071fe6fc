"""prepack: weights that stay the same are packed once, not in every product.

Enters: a graph and which of its values are stable. Leaves: the graph in which products with a stable matrix
are `dot_packed` with its `gemm_pack`, which depends on stable values alone and so runs only when they change.
Products with a single row stay as they are: they read the matrix once, where it is. So do products with very
many rows.

Products of bytes with a stable matrix are `conv_integer`, which is a product where there is no space; those
with a single row, too, for only its panels have neighbours of depth side by side.

Products with a dequantised matrix become `dot_quantised`: the matrix stays as small as it is, and stable
4-bit numbers are packed two to a byte.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod
from typing import Any

from trilobite.base.dtypes import bits, float32, float64, int4, int32, is_integer, uint4
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters
from trilobite.compiler.targets.cpu.contraction.convert import widens
from trilobite.compiler.targets.cpu.contraction.gemm.tiling import plan_for
from trilobite.compiler.targets.cpu.passes.bytes import BYTES, conv_attributes, exact, moved, panel_attributes
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.types import Dim
from trilobite.native.host import Host, features

MANY_ROWS = 256  # from here on packing anew in every run takes no longer than reading panels, and no memory
"""From so many rows on, a product that packs as it goes is as fast, and the weight needs no second copy."""


def prepack(
    graph: Graph, stable: Collection[Var], counters: Counters = UNCOUNTED, host: Host | None = None
) -> Graph:
    """The graph with packed weights; itself if there are none."""
    return _Packer(graph, stable, counters, host or features()).run()


class _Packer:
    def __init__(self, graph: Graph, stable: Collection[Var], counters: Counters, host: Host) -> None:
        self.graph, self.counters, self.host = graph, Counters(), host
        self.total = counters
        self.settled = set(stable)
        self.fixed: set[Var] = set()  # made of constants alone
        self.made: dict[Var, Equation] = {}
        self.packed: dict[tuple[Any, ...], Var] = {}
        self.out: list[Equation] = []

    def run(self) -> Graph:
        for e in self.graph.equations:
            self.settle(e)
            self.made.update(dict.fromkeys(e.outputs, e))
            self.out.append(self.rewritten(e))
        self.total.update(self.counters)
        if not self.counters:
            return self.graph
        return Graph(self.graph.inputs, self.out, self.graph.outputs, self.graph.name)

    def settle(self, e: Equation) -> None:
        """Notes results that stay between runs: a weight times a constant scale does, too."""
        if e.primitive.effect or not all(v in self.settled or v in self.fixed for v in e.inputs):
            return
        weights = any(v in self.settled for v in e.inputs)
        (self.settled if weights else self.fixed).update(e.outputs)

    def rewritten(self, e: Equation) -> Equation:
        """A product of a row or rows with a matrix in its best form; anything else as it is."""
        if e.primitive.name != "dot" or e.outputs[0] in self.settled:
            return e
        x, y = e.inputs
        contract = e.attributes["contract"]
        matrix = y.type.ndim == 2 and all(isinstance(d, int) and d > 0 for d in y.type.shape)
        if e.attributes["batch"] != ((), ()) or contract[0] != (x.type.ndim - 1,) or not matrix:
            return e
        weight, along = self.untransposed(y, contract[1][0])
        if weight in self.made and self.made[weight].primitive.name == "dequantise":
            return self.quantised(e, self.made[weight], along)
        small = self.behind_casts(x), self.behind_casts(weight)
        if self.multiplies_bytes(e, *small):
            return self.bytes_product(e, *small, along)
        return self.product(e, weight, along) if self.pays(e) else e

    def pays(self, e: Equation) -> bool:
        x, y = (v.type for v in e.inputs)
        same = e.attributes["dtype"] == y.dtype and y.dtype in (float32, float64)
        return e.inputs[1] in self.settled and same and _rows(x.shape[:-1])

    def behind_casts(self, v: Var) -> Var:
        """What a value was before casts that change no integer."""
        while v in self.made and self.made[v].primitive.name == "cast":
            source = self.made[v].inputs[0]
            if not is_integer(source.type.dtype) or not widens(source.type.dtype, v.type.dtype):
                break
            v = source
        return v

    def multiplies_bytes(self, e: Equation, x: Var, y: Var) -> bool:
        known = all(isinstance(d, int) and d > 0 for d in x.type.shape)
        small = x.type.dtype in BYTES and y.type.dtype in BYTES and y in self.settled
        return known and small and exact(x.type.shape[-1], e.attributes["dtype"])

    def bytes_product(self, e: Equation, x: Var, y: Var, contract: int) -> Equation:
        def emit(name: str, inputs: tuple[Var, ...], attributes: Mapping[str, Any]) -> Var:
            self.out.append(Equation.of(name, inputs, attributes, e.location))
            return self.out[-1].outputs[0]

        columns = int(y.type.shape[1 - contract])
        how = panel_attributes(self.host, x.type.dtype, columns, transposed=contract == 0)
        packed = self.once(e, "conv_integer_panels", y, how)
        dtype = e.attributes["dtype"]
        kept = dtype if bits(dtype) <= 32 else int32
        attributes = {**conv_attributes(how, columns, ()), "dtype": kept}
        inputs = (moved(emit, x), packed)
        self.counters["conv_integer"] += 1
        if kept == dtype:
            return Equation(table["conv_integer"], inputs, attributes, e.outputs, e.location)
        sums = emit("conv_integer", inputs, attributes)
        return Equation(table["cast"], (sums,), {"dtype": dtype}, e.outputs, e.location)

    def untransposed(self, y: Var, contract: int) -> tuple[Var, int]:
        """The matrix behind transposes, and its axis that is contracted."""
        while y in self.made and self.made[y].primitive.name == "transpose":
            y, contract = self.made[y].inputs[0], 1 - contract if _turns(self.made[y]) else contract
        return y, contract

    def quantised(self, e: Equation, grid: Equation, contract: int) -> Equation:
        q, scale, zero = grid.inputs
        if scale.type.dtype != float32 or q.type.dtype == int32:
            return e
        columns: int | None = None
        if q.type.dtype in (int4, uint4) and q in self.settled:
            columns = int(q.type.shape[1])
            q = self.once(e, "nibble_pack", q, {})
        attributes = {
            "contract": contract, "axis": grid.attributes["axis"], "columns": columns,
            "dtype": e.attributes["dtype"],
        }  # fmt: skip
        self.counters["dot_quantised"] += 1
        inputs = (e.inputs[0], q, scale, zero)
        return Equation(table["dot_quantised"], inputs, attributes, e.outputs, e.location)

    def product(self, e: Equation, y: Var, contract: int) -> Equation:
        x = e.inputs[0]
        columns = y.type.shape[1 - contract]
        known = columns if isinstance(columns, int) else None
        width = plan_for(self.host, y.type.dtype, known).columns
        packed = self.once(e, "gemm_pack", y, {"contract": contract, "width": width})
        self.counters["dot_packed"] += 1
        attributes = {"columns": columns, "dtype": e.attributes["dtype"]}
        return Equation(table["dot_packed"], (x, packed), attributes, e.outputs, e.location)

    def once(self, near: Equation, name: str, source: Var, attributes: Mapping[str, Any]) -> Var:
        """A weight in another form, made once however many products read it."""
        key = (name, source, tuple(sorted(attributes.items())))
        if key not in self.packed:
            self.out.append(Equation.of(name, (source,), attributes, near.location))
            (self.packed[key],) = self.out[-1].outputs
        return self.packed[key]


def _turns(e: Equation) -> bool:
    return tuple(e.attributes["axes"]) == (1, 0)


def _rows(shape: tuple[Dim, ...]) -> bool:
    """Whether there is, or may be, more than one row, and not so many that packing no longer shows."""
    known = [d for d in shape if isinstance(d, int)]
    return any(d != 1 for d in shape) and (len(known) < len(shape) or prod(known) < MANY_ROWS)
