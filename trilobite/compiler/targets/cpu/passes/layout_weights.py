"""Values in each order of axes that their readers ask for, and weights in the forms that kernels take.

Enters: equations of the graph that `layout` rewrites. Leaves: those of the new graph, each form of a value
made once. What becomes of an equation is decided in `layout`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from trilobite.compiler.targets.cpu.contraction.convert import accumulator_of
from trilobite.compiler.targets.cpu.contraction.tiling import tiling_of, tilings
from trilobite.compiler.targets.cpu.passes.bytes import Emit
from trilobite.compiler.targets.cpu.passes.layout_axes import Order, identity, permuted, weight_last
from trilobite.compiler.targets.cpu.passes.layout_pixels import wide_weight
from trilobite.compiler.targets.cpu.passes.layout_winograd import factor_of, squares_of_taps, tile_of
from trilobite.ir.graph import Dense, Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.types import Shape
from trilobite.native.host import Host

_NEAR = 16  # bytes of a vector among which a lane's operand is chosen at no cost


class Values:
    """What a new graph has so far."""

    def __init__(self, graph: Graph) -> None:
        self.versions: dict[Var, dict[Order, Var]] = {v: {identity(v.type.ndim): v} for v in graph.inputs}
        self.equations: list[Equation] = []
        self.maker = {v: e for e in graph.equations for v in e.outputs}

    def emit(self, e: Equation, name: str, inputs: tuple[Var, ...], attributes: Mapping[str, Any]) -> Var:
        """One equation with one result, for the user's line of `e`."""
        self.equations.append(Equation.of(name, inputs, dict(attributes), e.location))
        return self.equations[-1].outputs[0]

    def keep(self, v: Var, order: Order, made: Var) -> None:
        self.versions.setdefault(v, {})[order] = made

    def get(self, v: Var, order: Order) -> Var:
        """The value with its axes in this order in memory."""
        found = self.versions[v]
        if order not in found:
            have = next(iter(found))
            found[order] = self.moved(v, found[have], tuple(have.index(i) for i in order))
        return found[order]

    def moved(self, v: Var, source: Var, axes: Order) -> Var:
        """Transposed; a reshape if only axes of one element change places, and constants at once."""
        e = self.maker.get(v)
        at = e or Equation(table["transpose"], (), {}, ())
        shape = permuted(source.type, axes).shape
        if e is not None and e.primitive.name == "constant":
            array = np.ascontiguousarray(e.attributes["value"].array.transpose(axes))
            return self.emit(at, "constant", (), {"value": Dense(array)})
        if [i for i in axes if source.type.shape[i] != 1] == sorted(
            i for i in axes if source.type.shape[i] != 1
        ):
            return self.emit(at, "reshape", (source,), {"shape": shape})
        return self.emit(at, "transpose", (source,), {"axes": axes})


class Weights(Values):
    """Weights of convolutions. With accuracy "strict" no convolution runs by tiles."""

    def __init__(self, graph: Graph, host: Host, accuracy: str) -> None:
        super().__init__(graph)
        self.host, self.accuracy = host, accuracy
        self.panels: dict[tuple[Any, ...], Var] = {}  # by weight, what packs it and how

    def tile(self, e: Equation) -> int:
        return tile_of(e) if self.accuracy != "strict" else 0

    def weight(self, e: Equation, w: Var, transposed: bool) -> Var:
        """In panels; one filter per channel stays plain, its channels are lanes as they are."""
        groups = e.attributes["groups"]
        if is_channelwise(e, w):
            return self.get(w, weight_last(w.type.ndim))
        groups //= self.merged(e, w, transposed)
        lanes = self.panel_columns(e, w, transposed, groups)
        return self.packed(e, w, "conv_panels", {"lanes": lanes, "transposed": transposed, "groups": groups})

    def panel_columns(self, e: Equation, w: Var, transposed: bool, groups: int) -> int:
        """The widest there are, where a tile of one vector takes what does not fill two: then a network has
        one text of each kernel. Tiles of outputs and groups have no such tile.
        """
        host, dtypes = self.host, (w.type.dtype, e.attributes["dtype"])
        if groups == 1 and not self.tile(e):
            return tilings(host, *dtypes)[-1].columns
        columns = w.type.shape[1] if transposed else w.type.shape[0] // max(groups, 1)
        return tiling_of(host, *dtypes, int(columns)).columns

    def merged(self, e: Equation, w: Var, transposed: bool) -> int:
        """How many groups of few filters, with few channels each, share the lanes of one vector. A lane takes
        its channel from a quarter of the vector that holds its group at no cost; from further away it is
        dear, so those groups share short vectors alone.
        """
        groups = e.attributes["groups"]
        if transposed or groups == 1 or is_channelwise(e, w) or self.tile(e):
            return 1
        filters, channels = max(w.type.shape[0] // groups, 1), w.type.shape[1]
        kept = accumulator_of(w.type.dtype, e.attributes["dtype"]).itemsize
        within = filters == channels and _NEAR % (channels * kept) == 0
        lanes = self.host.lanes(kept) if within else min(self.host.lanes(kept), 2 * _NEAR // kept)
        most = lanes // filters if 0 < channels * kept <= _NEAR else 1
        return max((m for m in range(2, most + 1) if groups % m == 0), default=1)

    def wide_weight(self, e: Equation, count: int) -> Var:
        """The weight for so many pixels at once."""
        stride = e.attributes["stride"][-1]
        return self._reformed(
            e, ("pixels", count, stride), lambda emit, w: wide_weight(emit, w, count, stride)
        )

    def squares(self, e: Equation) -> Var:
        """The weight of a kernel larger than 3x3 as squares of taps."""
        return self._reformed(e, ("squares",), lambda emit, w: squares_of_taps(emit, w, factor_of(e)))

    def _reformed(self, e: Equation, how: tuple[Any, ...], make: Callable[[Emit, Var], Var]) -> Var:
        """Another weight that gives the same convolution, to be packed; made once."""
        w = e.inputs[1]
        if (w, *how) not in self.panels:
            plain = identity(w.type.ndim)
            made = self.panels[w, *how] = make(partial(self.emit, e), self.get(w, plain))
            self.keep(made, plain, made)
        return self.panels[w, *how]

    def packed(
        self, e: Equation, w: Var, packer: str, attributes: dict[str, Any], shape: Shape | None = None
    ) -> Var:
        """A weight, or it under another shape, in panels; made once for all that ask for the same."""
        key = (w, packer, *sorted(attributes.items()))
        if key not in self.panels:
            source = self.get(w, identity(w.type.ndim))
            if shape is not None:
                source = self.emit(e, "reshape", (source,), {"shape": shape})
            self.panels[key] = self.emit(e, packer, (source,), attributes)
        return self.panels[key]


def is_channelwise(e: Equation, w: Var) -> bool:
    """Is there one filter for each channel?"""
    return 1 < e.attributes["groups"] == w.type.shape[0] and w.type.shape[1] == 1
