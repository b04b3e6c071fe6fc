"""From a graph of the IR to an ONNX graph: each equation by its row in the tables.

Enters: a graph, names of its inputs and outputs, arrays for the inputs that are weights. Leaves: a
ModelProto. All equations that cannot be written are refused together, each with the line that made it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import helper

from trilobite.base.dtypes import bits, is_float
from trilobite.base.errors import IRError
from trilobite.inference.export import composites, control, elementwise, indexing, movement, products
from trilobite.inference.export.scope import (
    Array,
    Model,
    Refused,
    Scope,
    live,
    onnx_type,
    used_names,
    value_info,
)
from trilobite.ir.graph import Equation, Graph

RULES = {**elementwise.ROWS, **movement.ROWS, **products.ROWS, **indexing.ROWS}
# Operators of an opset are read by runtimes that know the IR version of its time.
_IR_VERSIONS = {21: 10, 22: 10, 23: 11, 24: 11, 25: 12}
OPSETS = tuple(_IR_VERSIONS)


def walk(s: Scope, graph: Graph) -> None:
    for e in graph.equations:
        try:
            _write(s, e)
        except Refused as why:
            s.model.refusals.append(f"{e.primitive.name} at {e.location}: {why}")
            _go_on(s, e)


def _write(s: Scope, e: Equation) -> None:
    name = e.primitive.name
    _check_dtypes(e)
    if name == "call":
        if not composites.write(s, e):
            inner = e.attributes["graph"]
            child = s.within(inner.inputs, e.inputs)
            walk(child, inner)
            for v, o in zip(e.outputs, inner.outputs, strict=True):
                s.adopt(v, child, o)
    elif name in control.ROWS:
        control.ROWS[name](s, e, walk)
    elif name in RULES:
        RULES[name](s, e)
    else:
        raise Refused("ONNX has no operator for it, and none can be made of those it has")


# what ONNX does with numbers of 4 bits and floats of 8
_OF_CODES = {
    *"cast quantise requantise dequantise reshape transpose constant call stop_gradient barrier".split()
}


def _check_dtypes(e: Equation) -> None:
    for v in (*e.inputs, *e.outputs):
        dtype = v.type.dtype
        onnx_type(dtype)
        small = bits(dtype) == 4 or (is_float(dtype) and bits(dtype) == 8)
        if small and e.primitive.name not in _OF_CODES and e.primitive.name not in control.ROWS:
            raise Refused(f"ONNX has no {e.primitive.name} of {dtype.name}; dequantise it first")


def _go_on(s: Scope, e: Equation) -> None:
    """Names in the place of what could not be written, so that the rest can be looked at."""
    for v in e.outputs:
        s.set(v, s.model.fresh("missing"))


def to_model(
    graph: Graph, inputs: Sequence[str], outputs: Sequence[str], weights: Mapping[str, Array], opset: int
) -> Any:
    """`inputs` names all inputs of the graph in order; those in `weights` become initialisers."""
    model = Model(opset)
    s = Scope(model)
    fed = []
    for v, name in zip(graph.inputs, inputs, strict=True):
        if name in weights:
            s.set(v, model.add_weight(weights[name], name))
        else:
            s.set(v, model.fresh(name))
            fed.append((name, v.type))
    model.learn_symbols([(name, t.shape) for name, t in fed])
    for name in outputs:
        model.fresh(name)
    walk(s, graph)
    made = [s.name(v) for v in graph.outputs] if not model.refusals else []
    _refuse(model, graph)
    for name, out in zip(outputs, made, strict=True):
        s.nodes.append(helper.make_node("Identity", [out], [name]))
    return _assemble(model, s, graph, fed, outputs)


def _refuse(model: Model, graph: Graph) -> None:
    if model.refusals:
        raise IRError(
            f"{graph.name} cannot be written as ONNX: {len(model.refusals)} equations have no form there",
            where="; ".join(model.refusals[:20]),
            expected="operations that ONNX has or that its operators make up",
            remedy="put the model into eval() mode, or export the part that has none of these",
        )


def _assemble(model: Model, s: Scope, graph: Graph, fed: Sequence[Any], outputs: Sequence[str]) -> Any:
    nodes = live([*model.prologue, *s.nodes], outputs)
    nodes = _renamed(nodes, outputs)
    used = used_names(nodes, outputs)
    made = helper.make_graph(
        nodes,
        graph.name,
        [value_info(name, t.dtype, t.shape) for name, t in fed],
        [value_info(n, v.type.dtype, v.type.shape) for n, v in zip(outputs, graph.outputs, strict=True)],
        [tensor for name, tensor in model.initializers.items() if name in used],
    )
    found = helper.make_model(
        made,
        producer_name="trilobite",
        opset_imports=[helper.make_opsetid("", model.opset)],
        ir_version=_IR_VERSIONS[model.opset],
    )
    return found


def _renamed(nodes: list[Any], outputs: Sequence[str]) -> list[Any]:
    """The last Identity of an output gives its name to the node before it, if nobody else reads that."""
    maker = {o: node for node in nodes for o in node.output}
    reads: dict[str, int] = {}
    for node in nodes:
        for name in _names_read(node):
            reads[name] = reads.get(name, 0) + 1
    kept = []
    for node in nodes:
        out, source = node.output[0], node.input[0] if node.input else ""
        if node.op_type == "Identity" and out in outputs and source in maker and reads[source] == 1:
            before = maker[source]
            before.output[list(before.output).index(source)] = out
        else:
            kept.append(node)
    return kept


def _names_read(node: Any) -> set[str]:
    return used_names([node], [])
