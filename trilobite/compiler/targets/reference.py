"""The target `reference`: the interpreter. No passes, no kernels: the primitives' own rules.

Enters: a graph. Leaves: an `Executable` that goes through its equations one by one.
"""

from __future__ import annotations

from typing import Any

from trilobite.compiler.targets.contract import Executable, Target, Usage
from trilobite.ir.evaluate import distinct, run
from trilobite.ir.graph import Graph


class Interpreted(Executable):
    """A graph as it is."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def run(self, values: list[Any], old: list[Any], held: int) -> list[Any]:
        return distinct(run(self.graph, values), values)

    __call__ = lambda self, values: distinct(run(self.graph, values), values)  # noqa: E731  also of traced values


class Reference(Target):
    """The meaning of every graph."""

    name = "reference"

    def lower(self, graph: Graph, usage: Usage) -> Graph:
        return graph

    def load(self, lowered: Graph) -> Interpreted:
        return Interpreted(lowered)


_ONLY = Reference()


def reference(argument: object) -> Target:
    return _ONLY
