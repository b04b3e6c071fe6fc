"""What this target does not run, named all at once before anything is compiled."""

from __future__ import annotations

from collections.abc import Sequence

from trilobite.base.errors import DeviceError
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.regions import outer_first
from trilobite.ir.graph import Equation, Graph

REFUSED = {
    "print": "the processor has no standard output",
    "callback": "Python code does not run on the processor",
    "custom_call": "a routine of the host does not run on the processor",
    "eig": "it has no program for general eigenvalues",
    "eigvals": "it has no program for general eigenvalues",
    **dict.fromkeys(
        (
            "cluster_all_reduce",
            "cluster_all_gather",
            "cluster_part",
            "cluster_reduce_scatter",
            "cluster_all_to_all",
            "cluster_permute",
            "cluster_broadcast",
            "cluster_index",
            "cluster_send",
            "cluster_receive",
            "cluster_barrier",
        ),
        "ranks are processes of the host, which exchange values there",
    ),
}


def _inner(e: Equation) -> list[Graph]:
    """Regions that run: the rules of a call's own gradient do not, they were recorded where it was asked."""
    return [g for name, g in e.regions() if e.primitive.name != "call" or name == "graph"]


def refused(equations: Sequence[Equation]) -> list[Equation]:
    """Those of them, and of their regions, that the processor does not run."""
    found = [e for e in equations if e.primitive.name in REFUSED]
    for e in equations:
        found += [x for r in _inner(e) for g in outer_first(r, _inner) for x in refused_alone(g)]
    return found


def refused_alone(graph: Graph) -> list[Equation]:
    return [e for e in graph.equations if e.primitive.name in REFUSED]


def check(graph: Graph) -> None:
    """Raises an error that names every such equation with its line, unless nobody needs what it gives."""
    found = refused(dce(graph).equations)
    if not found:
        return
    lines = dict.fromkeys(f"{e.primitive.name} ({e.location}): {REFUSED[e.primitive.name]}" for e in found)
    raise DeviceError(
        "the graph has operations that the processor does not run: " + "; ".join(lines),
        expected="operations that have a program on the processor",
        remedy='allow the host: tb.jit(f, target=..., options={"host": True}); or compile it for the host: '
        'tb.jit(f, target="cpu")',
    )
