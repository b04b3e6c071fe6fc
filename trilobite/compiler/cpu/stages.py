"""The passes of the CPU target, in order: those that all targets share, then layout and packing."""

from __future__ import annotations

from trilobite.compiler.passes import PASSES, Pass
from trilobite.compiler.passes.dce import dce
from trilobite.compiler.passes.hoist import hoist
from trilobite.compiler.passes.layout import layout
from trilobite.compiler.passes.narrow_calls import narrow_calls
from trilobite.compiler.passes.prepack import prepack
from trilobite.compiler.pipeline import Options
from trilobite.compiler.rewrite import Counters
from trilobite.ir.graph import Graph


def _prepack(g: Graph, o: Options, c: Counters) -> Graph:
    """Weights that stay from run to run, and those that stay from round to round of a loop."""
    packed = prepack(g, [g.inputs[i] for i in sorted(o.stable)], c)
    return hoist(packed, c, inside=lambda body, consts: prepack(body, consts, c))


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
            "hoist", lambda g, o, c: hoist(g, c), "out of loops what is alike in every round or only added up"
        ),
        Pass("layout", lambda g, o, c: layout(g), "convolutions and what is between them, channels last"),
        Pass("prepack", _prepack, "weights that stay are packed for products once"),
        Pass("sweep", lambda g, o, c: dce(g, c), "what layout and packing left behind"),
    )
)
