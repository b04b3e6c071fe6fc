"""The passes of this target, in order: those that all targets share, then its own, down to groups."""

from __future__ import annotations

from trilobite.compiler.graph.passes import PASSES, Options, Pass
from trilobite.compiler.graph.rewrite import Counters
from trilobite.compiler.targets.dlp.codes import clamp_codes
from trilobite.compiler.targets.dlp.complex import split_complex
from trilobite.compiler.targets.dlp.expand import expand
from trilobite.compiler.targets.dlp.groups import group
from trilobite.compiler.targets.dlp.schedule import narrow_first
from trilobite.compiler.targets.dlp.wide_sums import widen_sums
from trilobite.ir.graph import Graph
from trilobite.processor.machine import Machine

_SKIPPED = frozenset({"linear_to_conv", "mixed_precision", "rematerialise"})
SHARED: tuple[Pass, ...] = tuple(p for p in PASSES if p.name not in _SKIPPED)


def own_passes(machine: Machine) -> tuple[Pass, ...]:
    """What a machine needs behind the shared passes."""

    def expanded(g: Graph, o: Options, c: Counters) -> Graph:
        return expand(g, machine)

    return (
        Pass("expand", expanded, "operations that the processor lacks, in those that it has"),
        Pass("complex", lambda g, o, c: split_complex(g), "complex numbers as pairs"),
        Pass(
            "simplified",
            lambda g, o, c: _through(g, o, "simplify", "fold_constants", "dce"),
            "what rules of expansion wrote without knowing the numbers they were given",
        ),
        Pass("expanded", expanded, "what pairs prefetched, expanded in turn"),
        Pass(
            "clamped",
            lambda g, o, c: _through(clamp_codes(g), o, "dce"),
            "clamps of numbers that become codes are clamps of the codes",
        ),
        Pass(
            "widened",
            lambda g, o, c: _through(widen_sums(g), o, "cse", "dce"),
            "a bias of 16 bits is added to sums of 32",
        ),
        Pass(
            "scheduled",
            lambda g, o, c: narrow_first(g),
            "of two products that meet, the narrower one stands first",
        ),
        Pass("groups", lambda g, o, c: group(g, machine), "groups of equations that become one routine"),
    )


def _through(graph: Graph, options: Options, *names: str) -> Graph:
    """Some of the shared passes again."""
    for p in PASSES:
        if p.name in names:
            graph = p(graph, options)[0]
    return graph
