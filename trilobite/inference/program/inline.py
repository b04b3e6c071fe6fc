"""Bodies of nodes traced in the place where they are called: no step of their own.

Enters: a graph and values for its inputs. Leaves: values of its outputs, recorded or computed like those
around. Only for bodies that hold no host operation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trilobite.inference.model import Graph, Node
from trilobite.inference.operators import registry
from trilobite.inference.program.apply import apply
from trilobite.inference.program.values import Known, as_tensor


def traced(graph: Graph, values: Mapping[str, Any]) -> list[Any]:
    """Outputs of a graph whose inputs and outer values are given by name."""
    look = {**values, **{k: Known(v) for k, v in graph.constants.items()}}
    for node in graph.nodes:
        row = registry.find(node.domain, node.op, node.version)
        assert row is not None, node.label()
        results = apply(node, row, [look[n] if n else None for n in node.reads_in_order()])
        look.update(zip(node.outputs, results, strict=False))
    return [look[o.name] for o in graph.outputs]


def inlined(node: Node, attribute: str, outer: Sequence[Any], *operands: Any) -> Any:
    """The one output of a body in an attribute; the first operand where the attribute is missing."""
    graph = node.attribute(attribute)
    if graph is None:
        return operands[0]
    values = dict(zip(node.taken(), outer, strict=True))
    values.update((i.name, v) for i, v in zip(graph.inputs, operands, strict=True))
    return as_tensor(traced(graph, values)[0])
