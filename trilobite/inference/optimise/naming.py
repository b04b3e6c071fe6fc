"""Groups of nodes that ONNX has one operator for: GELU, hard-swish, layer norm and RMS norm, written out.

Enters: a network. Leaves: it with such groups as single nodes, if the model's operator set has the operator:
layer norm from 17 on, GELU from 20, RMS norm from 23. Attention stays as it is: ONNX's own wants four axes in
a fixed order.
"""

from __future__ import annotations

from typing import Any

from trilobite.inference.model import Node
from trilobite.inference.optimise.network import Network, attribute, bodies, reads
from trilobite.inference.reader import onnx_module
from trilobite.inference.recognise import matches
from trilobite.inference.recognise.activation import activation
from trilobite.inference.recognise.normalisation import normalisation
from trilobite.inference.recognise.view import View

_FLOATS = (1, 10, 11, 16)  # ONNX's numbers of float32, float16, float64, bfloat16
_MOST = 1 << 16  # elements of a constant that patterns look at


class _Constants:
    """Those of a network: numbers, and rows along one axis."""

    def __init__(self, network: Network) -> None:
        self.network = network

    def get(self, name: str, /) -> Any:
        shape = self.network.static_shape(name) if self.network.is_constant(name) else None
        small = shape is not None and len(shape) <= 1 and (shape or (1,))[0] <= _MOST
        return self.network.array(name) if small else None


def name_groups(network: Network) -> int:
    """How many groups became one node."""
    protos = list(network.graph.node)
    nodes = [_node(p, network) for p in protos]
    view = View.over(nodes, network.outputs, _Constants(network))
    for body in (b for p in protos for b in bodies(p)):
        view.readers.update(n for inner in body.node for n in reads(inner))
    places = {id(node): i for i, node in enumerate(nodes)}
    gone: set[int] = set()
    count = 0
    for found in matches(nodes, view, (normalisation, activation)):
        if not _is_there(found.node, network):
            continue
        place = places[id(found.last)]
        protos[place] = _proto(found.node, protos[place].name)
        gone.update(places[id(n)] for n in found.parts)
        count += 1
    if count:
        network.keep([p for i, p in enumerate(protos) if i not in gone])
    return count


def _is_there(node: Node, network: Network) -> bool:
    """Has the model's operator set this operator, for values of this dtype?"""
    dtype = network.dtype(node.inputs[0])
    return network.opsets.get("", 1) >= node.version and dtype in _FLOATS


def _node(proto: Any, network: Network) -> Node:
    wanted = {a.name: attribute(proto, a.name) for a in proto.attribute if a.type != _GRAPH}
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    inputs, outputs = tuple(proto.input), tuple(proto.output)
    return Node(proto.op_type, inputs, outputs, wanted, domain, network.version(proto), proto.name)


_GRAPH = 5  # ONNX's number of an attribute that is a graph


def _proto(node: Node, name: str) -> Any:
    return onnx_module().helper.make_node(
        node.op, list(node.inputs), list(node.outputs), name=name, **node.attributes
    )
