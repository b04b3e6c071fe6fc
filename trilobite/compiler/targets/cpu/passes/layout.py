"""layout: convolutions and pooling to their channels-last forms, and the values between them with them.

Enters: a graph whose composites are inlined. Leaves: a graph with the same inputs and outputs in which no
`conv` or `window_*` is left but those a kernel cannot run (complex numbers); values of one component share
one order of axes (`layout_axes`), so a transpose stands only where a value enters or leaves: at the graph's
inputs and outputs, at a flattening before a dense layer, at a weight's gradient. Weights become panels by
an equation that reads the weight alone. Of kernels it chooses one thing: which 3x3 convolutions run by
tiles (`layout_winograd`).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from trilobite.base.dtypes import is_complex, is_float
from trilobite.compiler.graph.passes.stable import stable_values
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters
from trilobite.compiler.targets.cpu.contraction.planes.tile import FILTERS
from trilobite.compiler.targets.cpu.passes.bytes import (
    BYTES,
    integer_form,
    is_integer_convolution,
    moved,
    padding,
)
from trilobite.compiler.targets.cpu.passes.layout_axes import (
    CONVOLUTIONS,
    REDUCTIONS,
    TIED,
    WINDOWS,
    Order,
    channels_last,
    identity,
    inverse,
    mixes_channels,
    orders,
    permuted,
    permuted_attributes,
    weight_last,
    window_rank,
)
from trilobite.compiler.targets.cpu.passes.layout_pixels import pixels_at_once, wide_attributes
from trilobite.compiler.targets.cpu.passes.layout_planes import fits, is_worth_moving, on_planes, stays
from trilobite.compiler.targets.cpu.passes.layout_weights import Weights, is_channelwise
from trilobite.compiler.targets.cpu.passes.layout_windows import last_window
from trilobite.compiler.targets.cpu.passes.layout_winograd import (
    factor_of,
    tiled_attributes,
    whole_source,
)
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import Affine, size_of
from trilobite.native.host import Host

_LEAST_PIXELS = 16  # of a product over pixels
_FORMS = ("conv_integer", "conv_last", "conv_panels", "conv_planes", "conv_winograd", "window_last")


def layout(
    graph: Graph, host: Host | None = None, accuracy: str = "default", stable: Collection[int] = (),
    counters: Counters = UNCOUNTED,
) -> Graph:  # fmt: skip
    """The graph in channels-last form. `host` decides how wide the panels of weights are. Where weights stay
    between runs (`stable` inputs), convolutions of bytes are worth tiles; with accuracy "strict" none is.
    """
    if host is None:
        from trilobite.native.host import features

        host = features()
    found = _Layout(graph, host, accuracy, stable).run()
    counters.update(e.primitive.name for e in found.equations if _is_counted(e))
    return found


def _is_counted(e: Equation) -> bool:
    """The forms made here, and the transposes of activations and gradients that are left."""
    name = e.primitive.name
    return name.startswith(_FORMS) or (name == "transpose" and e.inputs[0].type.ndim > 2)


class _Layout(Weights):
    def __init__(self, graph: Graph, host: Host, accuracy: str, stable: Collection[int]) -> None:
        super().__init__(graph, host, accuracy)
        self.graph = graph
        self.stable = stable_values(graph, stable)
        self.order = orders(graph, self.stays, self.moves)
        self.bytes: dict[Var, Var] = {}

    def run(self) -> Graph:
        for e in self.graph.equations:
            self.rewrite(e)
        outputs = [self.get(v, identity(v.type.ndim)) for v in self.graph.outputs]
        return Graph(self.graph.inputs, _alive(self.equations, outputs), outputs, self.graph.name)

    # -- values ----------------------------------------------------------------------------------------------

    def home(self, v: Var) -> Order:
        return self.order.get(v, identity(v.type.ndim))

    # -- equations -------------------------------------------------------------------------------------------

    def rewrite(self, e: Equation) -> None:
        name = e.primitive.name
        if name in CONVOLUTIONS and not is_complex(e.inputs[0].type.dtype):
            self.convolution(e)
        elif name in WINDOWS and not is_complex(e.inputs[0].type.dtype):
            self.window(e)
        elif name == "transpose" and self._renames(e):
            (x,), (out,) = e.inputs, e.outputs
            self.keep(out, self.home(out), self.get(x, self.home(x)))
        elif name == "broadcast":
            self.broadcast(e)
        elif name in REDUCTIONS:
            self.reduction(e)
        elif name in TIED or name in ("full", "iota"):
            self.tied(e)
        else:
            self.opaque(e)

    def _renames(self, e: Equation) -> bool:
        """Do both sides of a transpose lie the same way in memory?"""
        (x,), (out,) = e.inputs, e.outputs
        if x not in self.order and out not in self.order:
            return False
        axes = e.attributes["axes"]
        return tuple(axes[i] for i in self.home(out)) == self.home(x)

    def opaque(self, e: Equation) -> None:
        inputs = tuple(self.get(v, identity(v.type.ndim)) for v in e.inputs)
        attributes = {k: self._region(v) for k, v in e.attributes.items()}
        outputs = tuple(Var(v.type) for v in e.outputs)
        self.equations.append(Equation(e.primitive, inputs, attributes, outputs, e.location))
        for v, new in zip(e.outputs, outputs, strict=True):
            self.keep(v, identity(v.type.ndim), new)

    def _region(self, value: Any) -> Any:
        if isinstance(value, Graph):
            return layout(value, self.host, self.accuracy)
        if isinstance(value, tuple) and any(isinstance(v, Graph) for v in value):
            return tuple(map(self._region, value))
        return value

    def tied(self, e: Equation) -> None:
        out = e.outputs[0]
        order = self.home(out)
        inputs = tuple(
            self.get(v, order if v.type.ndim == len(order) else identity(v.type.ndim)) for v in e.inputs
        )
        made = self.emit(e, e.primitive.name, inputs, permuted_attributes(e, order))
        self.keep(out, order, made)

    def broadcast(self, e: Equation) -> None:
        (x,), (out,) = e.inputs, e.outputs
        order, axes = self.home(out), e.attributes["axes"]
        place = inverse(order)  # where the axis lies now
        sequence = tuple(sorted(range(x.type.ndim), key=lambda i: place[axes[i]]))
        source = self.get(x, sequence)
        attributes = {
            "shape": permuted(out.type, order).shape,
            "axes": tuple(place[axes[i]] for i in sequence),
        }
        self.keep(out, order, self.emit(e, "broadcast", (source,), attributes))

    def reduction(self, e: Equation) -> None:
        (x,), (out,) = e.inputs, e.outputs
        order, gone = self.home(x), set(e.attributes["axes"])
        place = inverse(order)
        axes = tuple(sorted(place[a] for a in gone))
        left = [a for a in order if a not in gone]
        rank = {a: i for i, a in enumerate(sorted(left))}
        made = self.emit(e, e.primitive.name, (self.get(x, order),), {**e.attributes, "axes": axes})
        self.keep(out, tuple(rank[a] for a in left), made)

    # -- convolutions ----------------------------------------------------------------------------------------

    def convolution(self, e: Equation) -> None:
        if e.primitive.name == "conv_weight_grad":
            self.weight_gradient(e)
            return
        if is_integer_convolution(e):
            self.integer_convolution(e)
            return
        if self._as_planes(e):
            self.planes(e)
            return
        if self._as_product(e):
            self.product(e)
            return
        x, w = e.inputs
        last = channels_last(x.type.ndim, x.type.ndim - 2)
        transposed = e.primitive.name == "conv_input_grad"
        tile = self.tile(e)
        if tile and factor_of(e) != (1, 1):
            source, attributes = whole_source(partial(self.emit, e), e, self.get(x, last), tile)
            weight = self.weight(e, self.squares(e), transposed)
            self.keep(e.outputs[0], last, self.emit(e, "conv_winograd", (source, weight), attributes))
            return
        weight = self.weight(e, w, transposed)
        if tile:
            name, attributes = "conv_winograd", tiled_attributes(e, tile)
        else:
            filters = w.type.shape[0] // e.attributes["groups"] * self.merged(e, w, transposed)
            channels = w.type.shape[1]
            name = e.primitive.name.replace("conv", "conv_last")
            attributes = {**e.attributes, "columns": channels if transposed else filters}
        if x.type.dtype in BYTES and is_channelwise(e, w) and (around := padding(e, self.maker)) is not None:
            x = around.source
            attributes |= around.attributes(0)
        self.keep(e.outputs[0], last, self.emit(e, name, (self.get(x, last), weight), attributes))

    def integer_convolution(self, e: Equation) -> None:
        """Of unsigned bytes with a weight in words; sums are int32 and made wider after."""
        (x, w), dtype = e.inputs, e.attributes["dtype"]
        around = padding(e, self.maker)
        last = channels_last(x.type.ndim, x.type.ndim - 2)
        source = self.get(x if around is None else around.source, last)
        if source not in self.bytes:
            self.bytes[source] = moved(partial(self.emit, e), source)
        form = integer_form(self.host, e, w in self.stable, around)
        lanes = form.packing["lanes"]
        count = 1 if form.tile or w not in self.stable else pixels_at_once(e, lanes)
        if count > 1:
            form = form._replace(attributes=wide_attributes(form.attributes, count))
            w = self.wide_weight(e, count)
        panels = self.packed(e, w, form.packer, form.packing)
        made = self.emit(e, form.name, (self.bytes[source], panels), form.attributes)
        if count > 1:
            made = self.emit(e, "reshape", (made,), {"shape": permuted(e.outputs[0].type, last).shape})
        if made.type.dtype != dtype:
            made = self.emit(e, "cast", (made,), {"dtype": dtype})
        self.keep(e.outputs[0], last, made)

    def _as_planes(self, e: Equation) -> bool:
        """A convolution between values that lie as they are written, as quick there as with channels last; or
        one that is so much quicker there that its values are moved for it.
        """
        if not fits(e, self.host) or self.tile(e):
            return False
        plain = e.inputs[0] not in self.order and e.outputs[0] not in self.order
        return on_planes(e, self.host) if plain else is_worth_moving(e, self.host)

    def moves(self, e: Equation) -> bool:
        """Is a convolution so much quicker on planes that values around it follow?"""
        return fits(e, self.host) and not self.tile(e) and is_worth_moving(e, self.host)

    def stays(self, e: Equation) -> bool:
        return stays(e, self.host) and not self.tile(e)

    def planes(self, e: Equation) -> None:
        """Of single pixels, those that a stride leaves over are taken before."""
        (x, w), attributes = e.inputs, dict(e.attributes)
        filters, channels, *kernel = w.type.shape
        del attributes["groups"]
        attributes |= {"kernel": tuple(kernel), "filters": filters}
        source = self.get(x, identity(x.type.ndim))
        if mixes_channels(e):
            source = self.every_pixel(e, source)
            attributes["stride"] = (1,) * len(kernel)
        matrix = (filters, channels * size_of(kernel))
        panels = self.packed(e, w, "gemm_pack", {"contract": 1, "width": FILTERS}, matrix)
        made = self.emit(e, "conv_planes", (source, panels), attributes)
        self.keep(e.outputs[0], identity(x.type.ndim), made)

    def _as_product(self, e: Equation) -> bool:
        """A convolution of single pixels between values that lie as they are written: no transpose is worth
        it. Of several images that would be as many products.
        """
        (x, w), (out,) = e.inputs, e.outputs
        if not mixes_channels(e) or x in self.order or out in self.order or x.type.shape[0] != 1:
            return False
        shape = (*x.type.shape, *w.type.shape, *out.type.shape)
        known = not any(isinstance(n, Affine) for n in shape)
        return known and is_float(x.type.dtype) and size_of(out.type.shape[2:]) >= _LEAST_PIXELS

    def product(self, e: Equation) -> None:
        """y[K, *space] = w[K, C] @ x[C, *space], of every stride-th pixel."""
        (x, w), (out,) = e.inputs, e.outputs
        source = self.every_pixel(e, self.get(x, identity(x.type.ndim)))
        matrix = self.get(w, identity(w.type.ndim))
        weight = self.emit(e, "reshape", (matrix,), {"shape": (1, *w.type.shape[:2])})
        axes = {"contract": ((2,), (1,)), "batch": ((0,), (0,)), "dtype": e.attributes["dtype"]}
        self.keep(out, identity(out.type.ndim), self.emit(e, "dot", (weight, source), axes))

    def every_pixel(self, e: Equation, source: Var) -> Var:
        """The pixels that a stride leaves over."""
        stride = (1, 1, *e.attributes["stride"])
        if all(s == 1 for s in stride):
            return source
        cut = {"start": (0,) * len(stride), "stop": source.type.shape, "step": stride}
        return self.emit(e, "slice", (source,), cut)

    def weight_gradient(self, e: Equation) -> None:
        operands = tuple(self.get(v, channels_last(v.type.ndim, v.type.ndim - 2)) for v in e.inputs)
        tile = self.tile(e)
        if tile:
            attributes = {"tile": tile, **{k: e.attributes[k] for k in ("low", "high", "dtype")}}
            made = self.emit(e, "conv_winograd_weight_grad", operands, attributes)
        else:
            made = self.emit(e, "conv_last_weight_grad", operands, e.attributes)
        self.keep(e.outputs[0], weight_last(e.outputs[0].type.ndim), made)

    # -- windows ---------------------------------------------------------------------------------------------

    def window(self, e: Equation) -> None:
        rank = window_rank(e)
        if e.inputs[0].type.ndim == rank:  # a plane alone: its one channel is a last axis of one element
            self.opaque(e)
            return
        name, operands, attributes = last_window(e, self.maker)
        order = channels_last(e.inputs[0].type.ndim, rank)
        inputs = tuple(self.get(v, order) for v in operands)
        self.keep(e.outputs[0], order, self.emit(e, name, inputs, attributes))


def _alive(equations: list[Equation], outputs: list[Var]) -> list[Equation]:
    """Without equations that nothing reads any more."""
    needed, kept = set(outputs), []
    for e in reversed(equations):
        effect = e.primitive.effect or any(g.has_effects for _, g in e.regions())
        if effect or any(v in needed for v in e.outputs):
            needed.update(e.inputs)
            kept.append(e)
    return kept[::-1]
