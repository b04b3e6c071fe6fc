"""The passes of the CPU target, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trilobite.compiler.cpu.attention import claims
from trilobite.compiler.passes.cse import cse
from trilobite.compiler.passes.dce import dce
from trilobite.compiler.passes.inline import inline
from trilobite.compiler.passes.layout import layout
from trilobite.compiler.passes.narrow_calls import narrow_calls
from trilobite.compiler.passes.simplify import simplify
from trilobite.compiler.passes.sink_shapes import sink_shapes
from trilobite.compiler.pipeline import Options, Stage
from trilobite.compiler.rewrite import Counters
from trilobite.ir.graph import Graph


def _counted(run: Callable[[Graph, Counters], Graph]) -> Stage:
    def stage(graph: Graph, options: Options) -> tuple[Graph, Mapping[str, int]]:
        counters = Counters()
        return run(graph, counters), counters

    return stage


STAGES: tuple[tuple[str, Stage], ...] = (
    ("inline", _counted(lambda g, c: inline(g, claims, c))),
    ("narrow_calls", _counted(lambda g, c: narrow_calls(g, c))),
    ("cse", _counted(lambda g, c: cse(g, c))),
    ("simplify", _counted(lambda g, c: simplify(g, c))),
    ("sink_shapes", _counted(lambda g, c: sink_shapes(g, c))),
    ("dce", _counted(lambda g, c: dce(g, c))),
    ("layout", _counted(lambda g, c: layout(g))),
)
