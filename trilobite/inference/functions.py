"""Functions of a model are put in the place of the nodes that call them.

Enters: graphs with calls. Leaves: graphs without, with names of their own for each call. A function that
calls itself is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trilobite.base.errors import FileError
from trilobite.inference.model import Graph, Named, Node, ValueType, renamed

_DEEPEST = 64
_MOST = 100_000  # nodes after inlining: seconds, not minutes


class Functions:
    """The functions of one model, by domain, name and overload."""

    def __init__(self, functions: Mapping[tuple[str, str, str], Any], reader: Any) -> None:
        self.functions, self.reader, self.calls, self.nodes = functions, reader, 0, 0

    def inlined(self, graph: Graph) -> Graph:
        if not self.functions:
            return graph
        return self._graph(graph, ())

    def _graph(self, graph: Graph, stack: tuple[str, ...]) -> Graph:
        nodes = [m for n in graph.nodes for m in self._node(n, stack)]
        return Graph(graph.name, graph.inputs, graph.outputs, nodes, graph.constants)

    def _node(self, node: Node, stack: tuple[str, ...]) -> Sequence[Node]:
        self.nodes += 1
        if self.nodes > _MOST:
            raise FileError(
                "functions of the model call each other too often", expected=f"at most {_MOST} nodes"
            )
        attributes = {
            k: self._graph(v, stack) if isinstance(v, Graph) else v for k, v in node.attributes.items()
        }
        overload = str(attributes.pop("<overload>", ""))
        node = replace(node, attributes=attributes)
        function = self.functions.get((node.domain, node.op, overload))
        if function is None:
            return [node]
        key = f"{node.domain}.{node.op}.{overload}"
        if key in stack or len(stack) > _DEEPEST:
            raise FileError(f"the function {node.op!r} calls itself", expected="functions without recursion")
        return self.body(function, node, (*stack, key))

    def body(self, function: Any, node: Node, stack: tuple[str, ...]) -> list[Node]:
        """The nodes of a function's body, reading and making what its call does."""
        reader = self.reader.of_function(function)
        given = {a.name: reader.attribute(a, 0) for a in function.attribute_proto}
        given.update(node.attributes)
        self.calls += 1
        inputs = dict(zip(function.input, (*node.inputs, *[""] * len(function.input)), strict=False))
        outputs = {f: o for f, o in zip(function.output, node.outputs, strict=False) if o}
        nodes = [with_attributes(reader.node(n), given) for n in function.node]
        names = {**{n: f"{n}<{node.op}.{self.calls}>" for n in _made(nodes)}, **inputs, **outputs}
        passed = {o: inputs[f] for f, o in outputs.items() if f in inputs}
        graph = renamed(Graph(function.name, (), (), nodes), {**names, **inputs})
        copies = [Node("Identity", (source,), (o,), {}, "", 13) for o, source in passed.items()]
        return [m for n in graph.nodes for m in self._node(n, stack)] + copies


def _made(nodes: Sequence[Node]) -> set[str]:
    found: set[str] = set()
    for n in nodes:
        found.update(o for o in n.outputs if o)
        for b in n.bodies():
            found.update(i.name for i in b.inputs)
            found.update(b.constants)
            found |= _made(b.nodes)
    return found


def with_attributes(node: Node, given: Mapping[str, Any]) -> Node:
    """References to attributes of the function replaced by what the call gives; absent ones are left out."""
    from trilobite.inference.reader import Reference

    out: dict[str, Any] = {}
    for name, value in node.attributes.items():
        if isinstance(value, Reference):
            if str(value) in given:
                out[name] = given[str(value)]
        elif isinstance(value, Graph):
            nodes = [with_attributes(n, given) for n in value.nodes]
            out[name] = Graph(value.name, value.inputs, value.outputs, nodes, value.constants)
        else:
            out[name] = value
    return replace(node, attributes=out)


def with_gradients(graph: Graph) -> Graph:
    """Gradient nodes with the nodes between their xs and y as a body."""
    if not any(n.op == "Gradient" for n in graph.nodes):
        return graph
    nodes = [_with_body(n, graph) if n.op == "Gradient" else n for n in graph.nodes]
    return Graph(graph.name, graph.inputs, graph.outputs, nodes, graph.constants)


def _with_body(node: Node, graph: Graph) -> Node:
    names = (*node.attributes["xs"], *(node.attribute("zs") or ()))
    wanted, inside = {node.attributes["y"]}, []
    for n in reversed(graph.nodes):
        made = [o for o in n.outputs if o in wanted and o not in names]
        if made:
            inside.append(n)
            wanted.update(n.reads())
    unknown = ValueType("unknown")
    inputs = tuple(Named(n, unknown) for n in names)
    body = Graph("gradient", inputs, (Named(node.attributes["y"], unknown),), inside[::-1])
    return replace(node, attributes={**node.attributes, "<body>": body})
