"""What exporters write out and ONNX, or a target, has a name for: attention, GELU, hard-swish, layer norm.

Enters: a graph, or a `View` of nodes. Leaves: the graph with such groups as single nodes, and how many of
each there were. The engine and `optimize` use the same patterns, one module a family; no shape is known here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from trilobite.inference.model import Graph, Node
from trilobite.inference.recognise.activation import activation
from trilobite.inference.recognise.attention import attention
from trilobite.inference.recognise.normalisation import normalisation
from trilobite.inference.recognise.view import Found, View

Pattern = Callable[[Node, View], Found | None]
PATTERNS: tuple[Pattern, ...] = (attention, normalisation, activation)


def recognised(graph: Graph, patterns: Sequence[Pattern] = PATTERNS) -> tuple[Graph, Counter[str]]:
    """The graph, and the bodies in it, with written-out groups as single nodes; and how many of each."""
    found = matches(graph.nodes, View.of(graph), patterns)
    counts = Counter(f.node.op for f in found)
    replaced = {id(f.last): f.node for f in found}
    gone = {id(n) for f in found for n in f.parts}
    nodes = []
    for node in graph.nodes:
        if id(node) in gone:
            continue
        node = replaced.get(id(node), node)
        bodies = {k: v for k, v in node.attributes.items() if isinstance(v, Graph)}
        for key, body in bodies.items():
            bodies[key], inner = recognised(body, patterns)
            counts += inner
        nodes.append(replace(node, attributes={**node.attributes, **bodies}) if bodies else node)
    return Graph(graph.name, graph.inputs, graph.outputs, nodes, graph.constants), counts


def matches(nodes: Sequence[Node], view: View, patterns: Sequence[Pattern] = PATTERNS) -> list[Found]:
    """Groups that do not overlap: the last node of a graph first, so that the largest is found."""
    out: list[Found] = []
    taken: set[int] = set()
    for node in reversed(nodes):
        if id(node) in taken or node.domain:
            continue
        for pattern in patterns:
            found = pattern(node, view)
            if found is not None and not any(id(n) in taken for n in found.parts):
                out.append(found)
                taken.update(id(n) for n in (node, *found.parts))
                break
    return out
