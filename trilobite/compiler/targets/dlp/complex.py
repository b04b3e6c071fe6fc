"""split_complex: to be filled."""

from __future__ import annotations

from trilobite.ir.graph import Graph


def split_complex(graph: Graph) -> Graph:
    return graph
