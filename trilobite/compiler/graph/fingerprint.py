"""What tells a graph apart from every other, in any process: a digest of its content.

Enters: a graph. Leaves: a digest over equations, types, attributes, constants and the user's lines, because
programs name those lines; or None for a graph that holds what has no content to compare, such as a Python
function. Equal digests mean equal graphs. It does not simplify: two graphs that mean the same may differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from trilobite.base.locations import Location
from trilobite.ir.graph import Dense, Equation, Graph, Var
from trilobite.ir.types import Affine, Symbol, TensorType

_PLAIN = frozenset({int, float, complex, bool, str, type(None)})  # whose repr says all there is


class _NoContentError(Exception):
    """An attribute that cannot be compared across processes."""


def fingerprint(graph: Graph) -> str | None:
    """The digest of a graph and of all graphs inside it."""
    try:
        return _Reader(graph).digest()
    except _NoContentError:
        return None


class _Reader:
    """Graphs are numbered as they are met, so that one that is used many times is read once."""

    def __init__(self, graph: Graph) -> None:
        self.graphs: list[Graph] = [graph]
        self.number: dict[int, int] = {id(graph): 0}
        self.names: dict[TensorType, str] = {}
        self.places: dict[Location, str] = {}

    def digest(self) -> str:
        found = hashlib.sha256()
        for graph in self.graphs:  # grows meanwhile
            found.update("\n".join(self.lines(graph)).encode())
        return found.hexdigest()

    def lines(self, graph: Graph) -> list[str]:
        number = {v: n for n, v in enumerate(graph.inputs)}
        out = [f"graph {graph.name!r} {[self.type(v.type) for v in graph.inputs]}"]
        out += [self.line(e, number) for e in graph.equations]
        out.append(f"return {[number[v] for v in graph.outputs]}")
        return out

    def line(self, e: Equation, number: dict[Var, int]) -> str:
        inputs = [number[v] for v in e.inputs]
        for v in e.outputs:
            number[v] = len(number)
        types = [self.type(v.type) for v in e.outputs]
        return f"{e.primitive.name} {inputs} {self.attributes(e.attributes)} {types} {self.place(e.location)}"

    def type(self, t: TensorType) -> str:
        if t not in self.names:
            self.names[t] = f"{t.dtype.name}{self.value(t.shape)}"
        return self.names[t]

    def place(self, location: Location) -> str:
        if location not in self.places:
            self.places[location] = f"{len(self.places)} {tuple(location)!r}"
            return self.places[location]
        return self.places[location].partition(" ")[0]

    def attributes(self, attributes: Mapping[str, Any]) -> str:
        return ",".join(f"{k}={self.value(v)}" for k, v in attributes.items())

    def value(self, value: Any) -> str:
        kind = type(value)
        if kind in _PLAIN:
            return repr(value)
        if kind is tuple:
            return f"({','.join(map(self.value, value))})"
        if kind is Graph:
            if id(value) not in self.number:
                self.number[id(value)] = len(self.graphs)
                self.graphs.append(value)
            return f"graph {self.number[id(value)]}"
        return self.rare(value)

    def rare(self, value: Any) -> str:
        match value:
            case Dense():
                return self.array(value.array)
            case np.generic():
                return self.array(np.asarray(value))
            case np.dtype():
                return f"dtype {value.name}"
            case TensorType():
                return f"type {self.type(value)}"
            case Affine():
                return f"size {value.constant} {self.value(value.terms)}"
            case Symbol():
                made = "" if value.of is None else self.value(tuple(value.of))
                return f"symbol {value.name!r} {value.lower} {value.upper} {made}"
            case _:
                raise _NoContentError(type(value).__name__)

    def array(self, array: np.ndarray[Any, Any]) -> str:
        data = hashlib.sha256(np.ascontiguousarray(array).view(np.uint8).data).hexdigest()
        return f"array {array.dtype.name} {array.shape} {data}"
