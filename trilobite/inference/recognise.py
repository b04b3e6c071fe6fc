"""Attention that an exporter has written out, found again: products, a scale, a mask, a softmax become one
node.

Enters: a graph. Leaves: the graph with such groups replaced, and how many were. Which axis is the last, as an
exporter may say it by its number, is known only when shapes are: a softmax along another is then computed as
it is written. A target then sees
attention whole and makes no matrix of all queries by all keys. Rows in which everything is masked by -inf
give 0, as the usual guard (Where, IsNaN) around a softmax makes them; without that guard ONNX would say NaN
there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trilobite.inference.model import Graph, Node

DOMAIN = "trilobite.fused"


@dataclass
class View:
    """Who makes and who reads a value, and which values are constants."""

    made: dict[str, Node]
    readers: Counter[str]
    constants: dict[str, Any]

    @classmethod
    def of(cls, graph: Graph) -> View:
        readers: Counter[str] = Counter(n for node in graph.nodes for n in node.reads())
        readers.update(o.name for o in graph.outputs)
        constants: dict[str, Any] = dict(graph.constants)
        for node in graph.nodes:
            if node.op == "Constant" and not node.domain and len(node.attributes) == 1:
                (value,) = node.attributes.values()
                constants[node.outputs[0]] = value
        made = {o: n for n in graph.nodes for o in n.outputs if o}
        return cls(made, readers, constants)

    def maker(self, name: str, op: str, readers: int = 1) -> Node | None:
        """The node that makes a value nobody else reads, if it is of this operator."""
        node = self.made.get(name)
        fits = node is not None and node.op == op and not node.domain and len(node.outputs) == 1
        return node if fits and self.readers[name] == readers else None

    def number(self, name: str) -> float | None:
        """A constant of one element."""
        value = self.constants.get(name)
        if value is None or isinstance(value, str):
            return None
        array = np.asarray(value)
        return float(array.reshape(())) if array.size == 1 and array.dtype.kind in "fiu" else None


@dataclass
class _Found:
    """A group on its way to be one node."""

    scale: float = 1.0
    mask: str = ""
    nodes: list[Node] = field(default_factory=list)


def recognised(graph: Graph) -> tuple[Graph, int]:
    """The graph with written-out attention as single nodes, and how many there are."""
    view = View.of(graph)
    replaced: dict[int, Node] = {}
    gone: set[int] = set()
    for node in graph.nodes:
        if node.op == "MatMul" and not node.domain:
            found = _attention(node, view)
            if found is not None:
                replaced[id(node)], parts = found
                gone.update(map(id, parts))
    nodes = [replaced.get(id(n), n) for n in graph.nodes if id(n) not in gone]
    return Graph(graph.name, graph.inputs, graph.outputs, nodes, graph.constants), len(replaced)


def _attention(last: Node, view: View) -> tuple[Node, list[Node]] | None:
    """The node for a product of weights and values, and the nodes that it stands for besides that product."""
    found = _Found()
    softmax = _softmax(last.inputs[0], view, found)
    if softmax is None:
        return None
    scores = _scores(softmax.inputs[0], view, found)
    if scores is None:
        return None
    inputs = (*scores.inputs, last.inputs[1], *([found.mask] if found.mask else []))
    parts = [*found.nodes, softmax, scores]
    attributes = {"scale": found.scale, "softmax": softmax}
    return Node("Attention", inputs, last.outputs, attributes, DOMAIN, 1, last.name), parts


def _softmax(name: str, view: View, found: _Found) -> Node | None:
    """The softmax before a value, perhaps behind a guard that turns NaN into 0."""
    guard = view.maker(name, "Where")
    if guard is None:
        return view.maker(name, "Softmax")
    test = view.maker(guard.inputs[0], "IsNaN")
    if test is None or test.inputs[0] != guard.inputs[2] or view.number(guard.inputs[1]) != 0:
        return None
    found.nodes += [guard, test]
    return view.maker(guard.inputs[2], "Softmax", readers=2)


def _scores(name: str, view: View, found: _Found) -> Node | None:
    """The product of queries and keys before a value, through an added mask and a scale."""
    masked = view.maker(name, "Add")
    if masked is not None:
        for mine, other in (masked.inputs, masked.inputs[::-1]):
            inner = _Found()
            product = _scaled(mine, view, inner)
            if product is not None:
                found.mask, found.scale = other, inner.scale
                found.nodes += [masked, *inner.nodes]
                return product
        return None
    return _scaled(name, view, found)


def _scaled(name: str, view: View, found: _Found) -> Node | None:
    for op in ("Mul", "Div"):
        node = view.maker(name, op)
        if node is None:
            continue
        pairs: Sequence[tuple[str, ...]] = (node.inputs, node.inputs[::-1]) if op == "Mul" else (node.inputs,)
        for value, factor in pairs:
            number = view.number(factor)
            if number:
                found.scale = number if op == "Mul" else 1 / number
                found.nodes.append(node)
                return view.maker(value, "MatMul")
        return None
    return view.maker(name, "MatMul")
