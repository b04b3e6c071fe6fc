"""A frozen TensorFlow graph as an ONNX model.

Enters: a path, and names of outputs where the last nodes are not meant. Leaves: a ModelProto. Placeholders
become inputs; operations stand in the table of `rules`. Channels-last is kept outside, channels-first inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError, FileError
from trilobite.framework.checkpoint.refusal import shown
from trilobite.inference.formats.assembly import Assembly
from trilobite.inference.formats.channels_last import Layers, Tensor
from trilobite.inference.formats.tensor_ops import Unknown
from trilobite.inference.formats.tensorflow.graph import DTYPES, Node, read, shape_of, tensor
from trilobite.inference.formats.wire import Message

Rule = Callable[["Converter", Node], "Tensor | list[Tensor] | None"]
_SILENT = {"NoOp", "Assert", "Const", "Placeholder", "PlaceholderWithDefault"}
_KEEPING = {
    "SaveV2",
    "RestoreV2",
    "Assign",
    "AssignVariableOp",
    "MergeV2Checkpoints",
}  # a graph that saves itself


class Converter:
    """A graph on its way into an assembly."""

    def __init__(
        self,
        nodes: Sequence[Node],
        a: Assembly,
        where: str,
        constants: Mapping[str, Any] | None = None,
        weights: Mapping[str, Any] | None = None,
    ) -> None:
        self.constants, self.weights = constants or {}, weights or {}
        self.nodes, self.a, self.where, self.layers = nodes, a, where, Layers(a)
        self.values: dict[tuple[str, int], Tensor] = {}
        self.dtypes: dict[tuple[str, int], Any] = {}
        self.dead: set[tuple[str, int]] = set()  # results of a Switch that is known to go the other way

    def x(self, n: Node, k: int) -> Tensor:
        if k >= len(n.inputs):
            raise Unknown(f"{n.op} with {len(n.inputs)} inputs")
        source, number = n.inputs[k]
        found = self.values.get((source, number)) or self.values.get((source, 0))
        if found is None:
            raise Unknown(f"result {number} of {shown(source)}")
        return found

    def dtype(self, n: Node, k: int) -> Any:
        return self.dtypes.get(n.inputs[k], np.dtype(np.float32))

    def attribute(self, n: Node, name: str) -> Message | None:
        return n.attributes.get(name)

    def integer(self, n: Node, name: str, default: int = 0) -> int:
        m = n.attributes.get(name)
        return default if m is None else m.integer(3, default)

    def number(self, n: Node, name: str, default: float) -> float:
        m = n.attributes.get(name)
        return default if m is None else m.float(4, default)

    def flag(self, n: Node, name: str, default: bool = False) -> bool:
        m = n.attributes.get(name)
        return default if m is None else bool(m.integer(5, int(default)))

    def text(self, n: Node, name: str, default: str) -> str:
        m = n.attributes.get(name)
        return default if m is None else m.text(2, default)

    def type(self, n: Node, name: str, default: Any = np.float32) -> Any:
        m = n.attributes.get(name)
        code = m.integer(6) if m is not None else 0
        if m is None or code == 0:
            return np.dtype(default)
        if code not in DTYPES:
            raise Unknown(f"{n.op} of type {code}")
        return np.dtype(DTYPES[code])

    def list_of(self, n: Node, name: str) -> list[int]:
        inner = self._list(n, name)
        return inner.integers(3) if inner is not None else []

    def texts_of(self, n: Node, name: str) -> list[str]:
        inner = self._list(n, name)
        return inner.texts(2) if inner is not None else []

    def _list(self, n: Node, name: str) -> Message | None:
        m = n.attributes.get(name)
        return m.message(1) if m is not None else None

    def run(self, rules: dict[str, Rule]) -> None:
        for n in self.nodes:
            before = [*n.inputs, *((name, 0) for name in n.after)]
            if n.op != "Merge" and any(source in self.dead for source in before):
                self.dead.add((n.name, 0))
                continue
            try:
                made = self._source(n) if n.op in _SILENT else self._written(n, rules)
            except Unknown as why:
                self.a.refuse(f"{n.op} ({why})" if n.op not in str(why) else str(why))
                made = self.layers.made("missing", None)
            if made is None:
                continue
            for k, t in enumerate(made if isinstance(made, list) else [made]):
                self.values[n.name, k] = t
                self.dtypes.setdefault((n.name, k), self._result_type(n, k))

    def _written(self, n: Node, rules: dict[str, Rule]) -> Any:
        if n.op not in rules:
            raise Unknown(n.op)
        return rules[n.op](self, n)

    def _result_type(self, n: Node, k: int) -> Any:
        for name in ("DstT", "out_type", "output_type", "dtype", "Tparams", "T"):
            if name in n.attributes and name != "Tparams":
                return self.type(n, name)
        return (
            np.dtype(np.bool_)
            if n.op.startswith(("Less", "Greater", "Equal", "Logical", "NotEqual"))
            else np.dtype(np.float32)
        )

    def _source(self, n: Node) -> Tensor | None:
        if n.op == "Const":
            return self._constant(n)
        if n.op in ("NoOp", "Assert"):
            return None
        if n.name in self.constants:
            array = np.asarray(self.constants[n.name]).astype(self.type(n, "dtype"))
            self.dtypes[n.name, 0] = array.dtype
            return self.layers.known(array)
        default = self.values.get(n.inputs[0]) if n.inputs else None
        if default is not None and default.array is not None and default.array.dtype == np.bool_:
            self.dtypes[n.name, 0] = np.dtype(np.bool_)
            return default  # a switch such as `training`: as it is unless somebody turns it
        m = n.attributes.get("shape")
        sizes = shape_of(m.message(7)) if m is not None else None
        dtype = self.type(n, "dtype")
        self.dtypes[n.name, 0] = dtype
        name = self.a.add_input(n.name, dtype, sizes)
        return self.layers.made(name, None if sizes is None else len(sizes))

    def _constant(self, n: Node) -> Tensor | None:
        """Of the node itself, or under its name among the weights that stand beside the graph."""
        array = self.weights.get(n.name)
        if array is None:
            m = n.attributes.get("value")
            inner = m.message(8) if m is not None else None
            array = tensor(inner, f"{self.where}, node {shown(n.name)}") if inner is not None else None
        if array is None:
            return None  # a string: for assertions, which are dropped
        self.dtypes[n.name, 0] = array.dtype
        return self.layers.known(array, n.name)


def _last_nodes(nodes: Sequence[Node]) -> list[str]:
    read_by = {source for n in nodes for source, _ in n.inputs}
    return [n.name for n in nodes if n.name not in read_by and n.op not in _SILENT | _KEEPING]


def is_bool(n: Node) -> bool:
    m = n.attributes.get("dtype")
    return m is not None and m.integer(6) == 10


def _needed(nodes: Sequence[Node], wanted: Sequence[str]) -> list[Node]:
    """What the outputs read, in order: a graph may hold ways to save itself beside."""
    reached = {name.partition(":")[0] for name in wanted}
    kept = []
    for n in reversed(nodes):
        if n.name in reached:
            if n.op != "PlaceholderWithDefault" or is_bool(n):
                reached.update((*(source for source, _ in n.inputs), *n.after))
            kept.append(n)
    return kept[::-1]


def convert(
    path: Any, outputs: Sequence[str] | None = None, constants: Mapping[str, Any] | None = None
) -> Any:
    """A frozen GraphDef as an ONNX ModelProto; `outputs`: names of nodes, if the last ones are not meant;
    `constants`: placeholders that are fixed for good, such as `training`.
    """
    nodes, where = read(path)
    return from_nodes(nodes, where, "TensorFlow", outputs, constants)


def from_nodes(
    nodes: Sequence[Node],
    where: str,
    maker: str,
    outputs: Sequence[str] | None = None,
    constants: Mapping[str, Any] | None = None,
    weights: Mapping[str, Any] | None = None,
) -> Any:
    """`weights`: arrays by the names of constants that do not hold their numbers themselves."""
    from trilobite.inference.formats.tensorflow.fused import FUSED
    from trilobite.inference.formats.tensorflow.rules import RULES

    a = Assembly("graph")
    wanted = list(outputs) if outputs is not None else _last_nodes(nodes)
    known = {n.name for n in nodes}
    unknown = [n for n in wanted if n.partition(":")[0] not in known]
    if unknown or not wanted:
        raise ArgumentError(
            f"the graph has no node {shown(unknown[0])}" if unknown else "the graph has no outputs",
            where=where,
            expected="names of nodes",
            remedy="pass outputs=[...]",
        )
    a.keep(*wanted)
    c = Converter(_needed(nodes, wanted), a, where, constants, weights)
    try:
        c.run({**RULES, **FUSED})
        if not a.refusals:
            for text in wanted:
                name, _, number = text.partition(":")
                key = (name, int(number) if number.isdecimal() else 0)
                if key not in c.values:
                    raise Unknown(f"result {number} of {shown(name)}")
                t = c.values[key]
                sizes = None if t.rank is None else [None] * t.rank
                a.add_output(text, c.layers.last(t), c.dtypes[key], sizes)
    except Unknown as why:
        a.refuse(str(why))
    except (ValueError, IndexError, TypeError, ZeroDivisionError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            f"the graph does not fit together: {shown(str(error))}",
            where=where,
            expected="shapes and attributes that belong to each other",
            remedy="the file is corrupt; freeze it again",
        ) from error
    return a.model(where, f"trilobite from {maker}")
