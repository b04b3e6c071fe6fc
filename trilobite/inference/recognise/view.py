"""A graph as patterns look at it: who makes a value, who reads it, which values are constants.

Enters: nodes, names of outputs and constants. Leaves: a `View`. It finds products and quotients by constants
in whatever order an exporter wrote them (`factors`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any, Protocol

import numpy as np

from trilobite.base.records import dataclass
from trilobite.inference.model import Graph, Node

_WIDE, _SHORT = (
    1e-5,
    2e-3,
)  # how far constants may be from what they stand for: of float32 and wider, of others


class Constants(Protocol):
    """What is known of values before a run."""

    def get(self, name: str, /) -> Any: ...


@dataclass(frozen=True)
class Found:
    """A node that stands for others: it takes the place of `last`, and `parts` go."""

    node: Node
    last: Node
    parts: Sequence[Node]


@dataclass
class Product:
    """A value as constant times others; `nodes` compute it from them."""

    constant: float = 1.0
    values: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)


@dataclass
class View:
    made: dict[str, Node]
    readers: Counter[str]
    constants: Constants

    @classmethod
    def of(cls, graph: Graph) -> View:
        constants: dict[str, Any] = dict(graph.constants)
        for node in graph.nodes:
            if node.op == "Constant" and not node.domain and len(node.attributes) == 1:
                (value,) = node.attributes.values()
                constants[node.outputs[0]] = value
        return cls.over(graph.nodes, (o.name for o in graph.outputs), constants)

    @classmethod
    def over(cls, nodes: Sequence[Node], outputs: Iterable[str], constants: Constants) -> View:
        readers: Counter[str] = Counter(n for node in nodes for n in set(node.reads()))
        readers.update(outputs)
        return cls({o: n for n in nodes for o in n.outputs if o}, readers, constants)

    def maker(self, name: str, *ops: str, readers: int = 1) -> Node | None:
        """The node that makes a value for no more nodes than these, if it is of one of these operators."""
        node = self.made.get(name)
        fits = node is not None and node.op in ops and not node.domain and len(node.outputs) == 1
        return node if fits and self.readers[name] <= readers else None

    def number(self, name: str) -> float | None:
        """A constant of one element."""
        value = self.constants.get(name) if name else None
        if value is None or isinstance(value, str | bytes):
            return None
        array = np.asarray(value)
        if array.size != 1 or array.ndim > 1 or array.dtype.kind not in "fiu":
            return None
        return float(array.reshape(()))

    def is_about(self, name: str, wanted: float) -> bool:
        """Is a value a constant as close to this number as its dtype allows?"""
        found = self.number(name)
        return found is not None and self.close(found, wanted, name)

    def close(self, found: float, wanted: float, name: str = "") -> bool:
        value = self.constants.get(name) if name else None
        short = value is not None and np.asarray(value).dtype.itemsize < 4
        return math.isclose(found, wanted, rel_tol=_SHORT if short else _WIDE, abs_tol=0.0)

    def factors(self, name: str) -> Product:
        """A value as a product: through multiplications that nothing else reads, and divisions by numbers."""
        found, todo = Product(), [name]
        while todo:
            at = todo.pop()
            number, node = self.number(at), self.maker(at, "Mul", "Div")
            if number is not None:
                found.constant *= number
            elif node is not None and node.op == "Mul":
                found.nodes.append(node)
                todo += node.inputs
            elif node is not None and self.number(node.inputs[1]):
                found.nodes.append(node)
                found.constant /= self.number(node.inputs[1]) or 1.0
                todo.append(node.inputs[0])
            else:
                found.values.append(at)
        return found

    def plus(self, name: str, number: float) -> tuple[Node, str] | None:
        """The addition of a number that makes a value, and the other operand."""
        node = self.maker(name, "Add")
        if node is None:
            return None
        for other, constant in (node.inputs, node.inputs[::-1]):
            if self.is_about(constant, number):
                return node, other
        return None
