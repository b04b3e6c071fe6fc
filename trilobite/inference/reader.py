"""From an ONNX file to a `Model`: protocol buffers checked and turned into plain data, functions inlined.

Enters: a path, bytes or a ModelProto. Leaves: a `Model` whose nodes stand in order. Refuses what is cut off,
cyclic, nested too deeply or refers to values that nobody makes. Operators are not looked at here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from trilobite.base.errors import FileError, StateError
from trilobite.inference.formats import NETWORKS, to_onnx
from trilobite.inference.formats.mapped import mapped
from trilobite.inference.functions import Functions, with_gradients
from trilobite.inference.model import Graph, Model, Named, Node, ValueType
from trilobite.inference.protocol import ATTRIBUTE_KINDS, Proto
from trilobite.inference.tensors import dtype_of, to_array

_DEEPEST = 16
_MAPPED = 1 << 20  # bytes from which on a file is mapped
_LARGEST = 2**31  # protocol buffers have no larger ones; data beyond that lies beside the file


def onnx_module() -> Any:
    """The onnx package, which is an extra."""
    try:
        import onnx
    except ImportError as error:
        raise StateError(
            "reading ONNX needs the onnx package, which is not installed",
            remedy='pip install "trilobite[onnx]"',
        ) from error
    return onnx


def read(source: Any) -> Model:
    """A model from a path, from bytes, or from a ModelProto in memory."""
    if _is_message(source):
        return _model(source, None)
    if isinstance(source, bytes | bytearray | memoryview):
        return _model(_parsed(memoryview(bytes(source)), "the bytes given"), None)
    path = Path(source)
    if path.suffix.lower() in NETWORKS and os.path.isfile(path):
        return _model(to_onnx(path), None)
    if not os.path.isfile(path):  # a name that no file can have is none
        raise FileError(f"there is no model at {str(path)!r}", expected="the path of a file")
    if path.stat().st_size > _LARGEST:
        raise FileError(
            f"{path.name} has {path.stat().st_size} bytes", expected="at most 2 GiB in one ONNX file"
        )
    return _model(_parsed(_content(path), path.name), path.parent.resolve())


def _content(path: Path) -> memoryview:
    """A large file is mapped while it is read: weights are copied out of it once, and it is let go."""
    return memoryview(path.read_bytes()) if path.stat().st_size < _MAPPED else mapped(path)[0]


def _is_message(source: Any) -> bool:
    """A ModelProto, asked without importing what makes them."""
    return type(source).__name__ == "ModelProto" and hasattr(source, "ParseFromString")


def _parsed(data: memoryview, what: str) -> Proto:
    try:
        proto = Proto("Model", data, what)
    except FileError as error:
        raise FileError(
            f"{what} is no ONNX model: {error.what}",
            expected="a ModelProto",
            remedy="is it another format, or cut off?",
        ) from error
    if not proto.HasField("graph"):
        raise FileError(f"{what} has no graph", expected="a ModelProto with a graph")
    return proto


def _model(proto: Any, folder: Path | None) -> Model:
    opsets = _opsets(proto.opset_import)
    reader = _Reader(folder, opsets)
    functions = {}
    for f in proto.functions:
        functions[f.domain, f.name, getattr(f, "overload", "")] = f
    graph = reader.graph(proto.graph, 0)
    graph = with_gradients(Functions(functions, reader).inlined(graph))
    check_names(graph, frozenset())
    metadata = {p.key: p.value for p in proto.metadata_props}
    given = {t.name for t in proto.graph.initializer}
    defaults = tuple(Named(i.name, value_type(i.type)) for i in proto.graph.input if i.name in given)
    return Model(graph, opsets, f"{proto.producer_name} {proto.producer_version}".strip(), metadata, defaults)


def _opsets(imports: Iterable[Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for o in imports:
        domain = "" if o.domain == "ai.onnx" else o.domain
        found[domain] = int(o.version)
    return found or {"": 1}


class _Reader:
    """Reads graphs of one model, or of one of its functions, which has operator sets of its own."""

    def __init__(self, folder: Path | None, opsets: Mapping[str, int]) -> None:
        self.folder, self.opsets = folder, opsets

    def of_function(self, function: Any) -> _Reader:
        return _Reader(self.folder, {**self.opsets, **_opsets(function.opset_import)})

    def graph(self, proto: Any, depth: int) -> Graph:
        if depth > _DEEPEST:
            raise FileError(
                f"the graph {proto.name!r} is nested {depth} deep", expected=f"at most {_DEEPEST}"
            )
        _check_words(proto)
        constants = {t.name: to_array(t, self.folder) for t in proto.initializer}
        for s in proto.sparse_initializer:
            constants[s.values.name] = self.sparse(s)
        inputs = tuple(Named(i.name, value_type(i.type)) for i in proto.input if i.name not in constants)
        outputs = tuple(Named(o.name, value_type(o.type)) for o in proto.output)
        nodes = [self.node(n, depth) for n in proto.node]
        return Graph(proto.name, inputs, outputs, nodes, constants)

    def node(self, proto: Any, depth: int = 0) -> Node:
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        attributes = {a.name: self.attribute(a, depth) for a in proto.attribute}
        overload = getattr(proto, "overload", "")
        if overload:
            attributes["<overload>"] = overload
        for body in _BODIES.get(proto.op_type, ()) if not domain else ():
            if not isinstance(attributes.get(body), Graph):
                raise FileError(
                    f"{proto.op_type} {proto.name!r} has no graph {body}", expected="a graph for each body"
                )
        version = self.opsets.get(domain, 1)
        inputs, outputs = (tuple(map(_name, names)) for names in (proto.input, proto.output))
        return Node(
            _name(proto.op_type), inputs, outputs, attributes, _name(domain), version, _name(proto.name)
        )

    def attribute(self, a: Any, depth: int) -> Any:
        """A Python value; a reference to an attribute of the function around it stays one."""
        if a.ref_attr_name:
            return Reference(a.ref_attr_name)
        kind = ATTRIBUTE_KINDS[a.type] if 0 <= a.type < len(ATTRIBUTE_KINDS) else f"number {a.type}"
        if kind in _PLAIN:
            return _PLAIN[kind](a)
        if kind == "GRAPH":
            return self.graph(a.g, depth + 1)
        if kind in ("TENSOR", "TENSORS"):
            arrays = tuple(to_array(t, self.folder) for t in ([a.t] if kind == "TENSOR" else a.tensors))
            return arrays[0] if kind == "TENSOR" else arrays
        if kind == "SPARSE_TENSOR":
            return self.sparse(a.sparse_tensor)
        raise FileError(f"the attribute {a.name!r} is of kind {kind}", expected="a kind that operators have")

    def sparse(self, s: Any) -> Any:
        """A sparse tensor, written out."""
        import numpy as np

        values, indices = to_array(s.values, self.folder), to_array(s.indices, self.folder)
        shape = tuple(int(d) for d in s.dims)
        if any(d < 0 for d in shape) or np.prod([float(d) for d in shape]) > 2**31:
            raise FileError(
                f"the sparse tensor {s.values.name!r} has the shape {shape}", expected="a size that fits"
            )
        out = np.zeros(shape, values.dtype)
        try:
            if indices.ndim == 1:
                out.reshape(-1)[indices] = values
            else:
                out[tuple(indices.T)] = values
        except IndexError as error:
            raise FileError(f"the sparse tensor {s.values.name!r} has places outside of {shape}") from error
        return out


def node_of(proto: Any, opsets: Mapping[str, int], folder: Path | None = None) -> Node:
    """One node as plain data; its tensors may lie in files of that folder."""
    return _Reader(folder, opsets).node(proto)


_BODIES = {
    "If": ("then_branch", "else_branch"),
    "Loop": ("body",),
    "Scan": ("body",),
    "SequenceMap": ("body",),
}


class Reference(str):
    """Stands for an attribute of the function that is being inlined."""


def _name(found: str | bytes) -> str:
    """A name; protocol buffers give bytes where it is no text."""
    return found if isinstance(found, str) else found.decode("utf-8", errors="replace")


def _check_words(graph: Any) -> None:
    """Names are text. Protocol buffers give those that are not UTF-8 as bytes."""
    words = [graph.name, *(v.name for v in (*graph.input, *graph.output, *graph.initializer))]
    for n in graph.node:
        words += [n.op_type, n.domain, n.name, *n.input, *n.output, *(a.name for a in n.attribute)]
    wrong = next((w for w in words if not isinstance(w, str)), None)
    if wrong is not None:
        raise FileError(f"the name {wrong!r} is not text", expected="UTF-8")


def _text(data: bytes | memoryview) -> str:
    return bytes(data).decode("utf-8", errors="surrogateescape")


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "FLOAT": lambda a: a.f,
    "INT": lambda a: int(a.i),
    "STRING": lambda a: _text(a.s),
    "FLOATS": lambda a: tuple(a.floats),
    "INTS": lambda a: tuple(map(int, a.ints)),
    "STRINGS": lambda a: tuple(map(_text, a.strings)),
    "TYPE_PROTO": lambda a: value_type(a.tp),
}
"""Attributes that are numbers, texts or types."""


def value_type(t: Any) -> ValueType:
    """A TypeProto as plain data."""
    which = t.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(t, which)
        code = tensor.elem_type
        dtype = dtype_of(code, "a value") if code else None
        return ValueType("tensor", dtype, _sizes(tensor) if tensor.HasField("shape") else None)
    if which == "sequence_type":
        return ValueType("sequence", element=value_type(t.sequence_type.elem_type))
    if which == "optional_type":
        return ValueType("optional", element=value_type(t.optional_type.elem_type))
    if which == "map_type":
        return ValueType("map", element=value_type(t.map_type.value_type))
    return ValueType("unknown")


def _sizes(tensor: Any) -> tuple[int | str | None, ...]:
    """Numbers, names, or None: exporters also write -1 and "?" for what they do not know."""
    out: list[int | str | None] = []
    for d in tensor.shape.dim:
        if d.WhichOneof("value") == "dim_value":
            out.append(int(d.dim_value) if d.dim_value >= 0 else None)
        else:
            out.append(d.dim_param if d.dim_param not in ("", "?") else None)
    return tuple(out)


def check_names(graph: Graph, outer: frozenset[str]) -> None:
    """Every operand is made before it is read, and nothing is made twice."""
    known = set(outer) | {i.name for i in graph.inputs} | set(graph.constants)
    for node in graph.nodes:
        for name in node.inputs:
            if name and name not in known:
                raise FileError(
                    f"{node.label()} reads {name!r}, which nothing before it makes",
                    where=f"graph {graph.name!r}",
                    expected="nodes in an order in which each finds its operands, without cycles",
                )
        for body in node.bodies():
            check_names(body, frozenset(known))
        for name in node.outputs:
            if name and name in known and name not in outer:
                raise FileError(
                    f"{node.label()} makes {name!r}, which is there already", where=f"graph {graph.name!r}"
                )
            known.add(name)
    for o in graph.outputs:
        if o.name and o.name not in known:
            raise FileError(f"the graph {graph.name!r} gives {o.name!r}, which nothing makes")
