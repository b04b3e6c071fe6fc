"""The passes over graphs, in the order in which a target sends a graph through them.

`PASSES` is the part that all targets share: from a recording to a graph of primitives in simple terms. Layout
and fusion follow; they know their target. Every pass takes a graph and options, and gives a graph of the same
meaning and how often each of its rules fired.

Enters: a graph and `Options`. Leaves: a graph, and counts of what fired. May import `compiler.graph` and
`ir`, no target. Read `simplify.py` first, then `cse.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from trilobite.base.records import dataclass
from trilobite.compiler.graph.passes.cse import cse
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.passes.fold_batch_norm import fold_batch_norm
from trilobite.compiler.graph.passes.fold_constants import fold_constants
from trilobite.compiler.graph.passes.hoist_scan import hoist_scan
from trilobite.compiler.graph.passes.hoist_while import hoist_while
from trilobite.compiler.graph.passes.inline import inline, nobody
from trilobite.compiler.graph.passes.integers import integers
from trilobite.compiler.graph.passes.linear_to_conv import linear_to_conv
from trilobite.compiler.graph.passes.merge_branches import merge_branches
from trilobite.compiler.graph.passes.mixed_precision import mixed_precision
from trilobite.compiler.graph.passes.reduce_strength import reduce_strength
from trilobite.compiler.graph.passes.rematerialise import rematerialise
from trilobite.compiler.graph.passes.simplify import simplify
from trilobite.compiler.graph.passes.sink_shapes import sink_shapes
from trilobite.compiler.graph.pipeline import Options
from trilobite.compiler.graph.rewrite import Counters
from trilobite.ir.graph import Graph

Run = Callable[[Graph, Options, Counters], Graph]


@dataclass(frozen=True)
class Pass:
    """A named step from graph to graph."""

    name: str
    run: Run
    doc: str

    def __call__(self, graph: Graph, options: Options) -> tuple[Graph, Counters]:
        counters = Counters()
        return self.run(graph, options, counters), counters


def _inline(g: Graph, o: Options, c: Counters) -> Graph:
    return inline(g, o.claimed or nobody, c)


def _simplify(g: Graph, o: Options, c: Counters) -> Graph:
    return simplify(g, c, reassociate=o.reassociate)


def _fold_batch_norm(g: Graph, o: Options, c: Counters) -> Graph:
    return fold_batch_norm(g, o.stable, c, o.sizes.scaled)


def _merge_branches(g: Graph, o: Options, c: Counters) -> Graph:
    return merge_branches(g, o.stable, c, largest=o.sizes.merged)


def _mixed_precision(g: Graph, o: Options, c: Counters) -> Graph:
    return mixed_precision(g, o.mixed_precision, c, fewest=o.sizes.shortened)


def _tidy(g: Graph, o: Options, c: Counters) -> Graph:
    return dce(cse(_simplify(g, o, c), c), c)


PASSES: tuple[Pass, ...] = (
    Pass("inline", _inline, "calls become their bodies, unless the target runs them whole"),
    Pass("dce", lambda g, o, c: dce(g, c), "dead code is eliminated"),
    Pass("simplify", _simplify, "canonical forms and algebra"),
    Pass(
        "fold_constants", lambda g, o, c: fold_constants(g, c), "what depends on constants alone is computed"
    ),
    Pass("cse", lambda g, o, c: cse(g, c), "common subexpressions are computed once"),
    Pass("integers", lambda g, o, c: integers(g, c), "quantised products multiply bytes"),
    Pass("hoist_scan", lambda g, o, c: hoist_scan(g, c), "loop-invariant code leaves scans"),
    Pass("hoist_while", lambda g, o, c: hoist_while(g, c), "loop-invariant code leaves while loops"),
    Pass("sink_shapes", lambda g, o, c: sink_shapes(g, c), "work on small shapes, fewer moves of data"),
    Pass("linear_to_conv", lambda g, o, c: linear_to_conv(g, c), "linear layers of images as convolutions"),
    Pass("fold_batch_norm", _fold_batch_norm, "scales and shifts of channels go into stable weights"),
    Pass("merge_branches", _merge_branches, "small products of one value become one"),
    Pass("mixed_precision", _mixed_precision, "on request"),
    Pass("reduce_strength", lambda g, o, c: reduce_strength(g, c), "cheaper operations with the same bits"),
    Pass("tidy", _tidy, "simplify, cse and dce once more"),
    Pass(
        "rematerialise",
        lambda g, o, c: rematerialise(g, o.memory, c),
        "cheap values are computed again to save memory, on request",
    ),
)

__all__ = ["Options", "PASSES", "Pass"]
