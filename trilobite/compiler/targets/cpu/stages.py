"""The passes of the CPU target, in order: those that all targets share, then layout and packing."""

from __future__ import annotations

from trilobite.compiler.graph.passes import PASSES, Pass
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.passes.hoist_scan import hoist_scan
from trilobite.compiler.graph.passes.hoist_while import hoist_while
from trilobite.compiler.graph.passes.narrow_calls import narrow_calls
from trilobite.compiler.graph.pipeline import Options
from trilobite.compiler.graph.regions import on_every_graph
from trilobite.compiler.graph.rewrite import Counters
from trilobite.compiler.targets.cpu.passes.grow_joins import grow_joins
from trilobite.compiler.targets.cpu.passes.layout import layout
from trilobite.compiler.targets.cpu.passes.merge_phases import merge_phases
from trilobite.compiler.targets.cpu.passes.prepack import prepack
from trilobite.compiler.targets.cpu.passes.round_single import round_single
from trilobite.compiler.targets.cpu.passes.slice_batch import Caches, slice_batch
from trilobite.compiler.targets.cpu.passes.tables import tables
from trilobite.ir.graph import Equation, Graph
from trilobite.native.host import features

_NEAR = 4  # which part of the cache that cores share: weights and other programs need it, too
_IDLE = 16.0  # operations a core does in the time in which memory gives or takes a byte


def _prepack(g: Graph, o: Options, c: Counters) -> Graph:
    """Weights that stay from run to run, and those that stay from round to round of a loop."""
    packed = prepack(g, [g.inputs[i] for i in sorted(o.stable)], c)
    inside = on_every_graph(packed, lambda h: _in_loops(h, c))
    return packed if inside is packed else hoist_while(hoist_scan(inside, c), c)


def _in_loops(graph: Graph, c: Counters) -> Graph:
    """Packing within the bodies of loops, of what is constant there; hoisting then takes it out."""
    equations = [_packed_body(e, c) if e.primitive.name in ("scan", "while") else e for e in graph.equations]
    if all(a is b for a, b in zip(equations, graph.equations, strict=True)):
        return graph
    return Graph(graph.inputs, equations, graph.outputs, graph.name)


def _packed_body(e: Equation, c: Counters) -> Equation:
    body: Graph = e.attributes["body"]
    consts = e.attributes["consts"]
    packed = prepack(body, body.inputs[: consts[1] if isinstance(consts, tuple) else consts], c)
    if packed is body:
        return e
    return Equation(e.primitive, e.inputs, {**e.attributes, "body": packed}, e.outputs, e.location)


def _sweep(g: Graph, o: Options, c: Counters) -> Graph:
    return round_single(tables(dce(g, c), c), c)


def _slice_batch(g: Graph, o: Options, c: Counters) -> Graph:
    return slice_batch(g, Caches(features().l3 // _NEAR, _IDLE), c)


def _grow_joins(g: Graph, o: Options, c: Counters) -> Graph:
    return on_every_graph(g, lambda h: grow_joins(h, c))


def _layout(g: Graph, o: Options, c: Counters) -> Graph:
    """Transposed convolutions to few channels are merged first: how a convolution lies depends on it."""
    return layout(merge_phases(g, c), accuracy=o.accuracy, stable=o.stable, counters=c)


_INLINE, *_OTHERS = PASSES

STAGES: tuple[tuple[str, Pass], ...] = tuple(
    (p.name, p)
    for p in (
        _INLINE,
        Pass(
            "narrow_calls", lambda g, o, c: narrow_calls(g, c), "whole calls give what they compute, no more"
        ),
        *_OTHERS,
        Pass(
            "layout",
            _layout,
            "convolutions and what is between them, channels last",
        ),
        Pass("prepack", _prepack, "weights that stay are packed for products once"),
        Pass("sweep", _sweep, "what layout and packing left behind; bytes from tables, sums in float32"),
        Pass("slice_batch", _slice_batch, "many images, a few at a time"),
        Pass("grow_joins", _grow_joins, "joins that extend one another grow in place"),
    )
)
