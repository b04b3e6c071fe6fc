"""A graph of a model while it is rewritten: who makes a value, who reads it, which values are constants.

Enters: a GraphProto, which is changed in place. Leaves: nodes replaced, values renamed, constants added.
Names that a body of a node reads count as read; values of the graph around a body are known to the body's
rewrites when they are constants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trilobite.inference.reader import onnx_module
from trilobite.inference.tensors import to_array

Array = np.ndarray[Any, Any]
Shape = tuple[int | None, ...]


class Network:
    """One graph, with the sizes and dtypes that are known of its values."""

    def __init__(
        self,
        graph: Any,
        opsets: Mapping[str, int],
        types: Mapping[str, tuple[int, Shape | None]],
        outer: Mapping[str, Array] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.graph, self.opsets, self.types, self.folder = graph, opsets, types, folder
        self.outer = dict(outer or {})
        given = {i.name for i in graph.input}
        self._tensors = {t.name: t for t in graph.initializer if t.name not in given}
        self._arrays: dict[str, Array] = {}
        self.outputs = {o.name for o in graph.output}
        self.names = _names(graph)

    # -- values ----------------------------------------------------------------------------------------------

    def is_constant(self, name: str) -> bool:
        return name in self._tensors or name in self.outer

    def array(self, name: str) -> Array | None:
        """The value of a constant."""
        if name in self._tensors and name not in self._arrays:
            self._arrays[name] = to_array(self._tensors[name], self.folder)
        return self._arrays.get(name, self.outer.get(name))

    def constants(self) -> dict[str, Array]:
        """Those that bodies of nodes may see."""
        own = {n: a for n in self._tensors if (a := self.array(n)) is not None and a.nbytes <= _SEEN}
        return {**self.outer, **own}

    def add_constant(self, name: str, array: Array) -> str:
        onnx = onnx_module()
        tensor = onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        self.graph.initializer.append(tensor)
        self._tensors[name] = self.graph.initializer[-1]
        self._arrays[name] = array
        self.names.add(name)
        return name

    def fresh(self, hint: str) -> str:
        name, n = hint, 0
        while name in self.names:
            n += 1
            name = f"{hint}_{n}"
        self.names.add(name)
        return name

    def shape(self, name: str) -> Shape | None:
        array = self.array(name)
        if array is not None:
            return tuple(array.shape)
        return self.types.get(name, (0, None))[1]

    def static_shape(self, name: str) -> tuple[int, ...] | None:
        shape = self.shape(name)
        if shape is None or any(d is None for d in shape):
            return None
        return tuple(d for d in shape if d is not None)

    def rank(self, name: str) -> int | None:
        shape = self.shape(name)
        return None if shape is None else len(shape)

    def dtype(self, name: str) -> int:
        """ONNX's number; 0 where it is not known."""
        if name in self._tensors:
            return int(self._tensors[name].data_type)
        return self.types.get(name, (0, None))[0]

    def version(self, node: Any) -> int:
        return self.opsets.get("" if node.domain == "ai.onnx" else node.domain, 1)

    # -- nodes -----------------------------------------------------------------------------------------------

    @cached_property
    def makers(self) -> dict[str, Any]:
        return {o: n for n in self.graph.node for o in n.output if o}

    @cached_property
    def readers(self) -> Counter[str]:
        found: Counter[str] = Counter(n for node in self.graph.node for n in reads(node))
        found.update(self.outputs)
        return found

    @cached_property
    def pinned(self) -> set[str]:
        """Values of this graph that a body gives back under the names they have here."""
        return {n for node in self.graph.node for body in bodies(node) for n in _given_back(body)}

    def only_reader(self, name: str) -> bool:
        return self.readers[name] == 1 and name not in self.outputs

    def maker(self, name: str, *ops: str) -> Any | None:
        """The node of one of these operators of ONNX that makes a value."""
        node = self.makers.get(name)
        return node if node is not None and is_op(node, *ops) else None

    def keep(self, nodes: Iterable[Any]) -> None:
        """These and no others, in this order."""
        kept = list(nodes)
        copies = [type(n)() for n in kept]
        for copy, node in zip(copies, kept, strict=True):
            copy.CopyFrom(node)
        del self.graph.node[:]
        self.graph.node.extend(copies)
        self.forget()

    def forget(self) -> None:
        """Nodes have changed."""
        for name in ("makers", "readers", "pinned"):
            self.__dict__.pop(name, None)

    def rename(self, names: Mapping[str, str]) -> None:
        """Whoever reads a value reads another instead; bodies too."""
        if names:
            for node in self.graph.node:
                rename_reads(node, names)
            self.forget()

    def drop_constants(self, unused: Iterable[str]) -> None:
        gone = set(unused)
        kept = [t for t in self.graph.initializer if t.name not in gone]
        copies = [type(t)() for t in kept]
        for copy, tensor in zip(copies, kept, strict=True):
            copy.CopyFrom(tensor)
        del self.graph.initializer[:]
        self.graph.initializer.extend(copies)
        given = {i.name for i in self.graph.input}
        self._tensors = {t.name: t for t in self.graph.initializer if t.name not in given}

    def tensor_names(self) -> list[str]:
        return list(self._tensors)

    def tensor(self, name: str) -> Any:
        return self._tensors[name]


_SEEN = 1 << 16  # bytes of a constant that bodies of nodes may be folded with


def is_op(node: Any, *ops: str) -> bool:
    return node.op_type in ops and node.domain in ("", "ai.onnx")


def bodies(node: Any) -> Iterator[Any]:
    for a in node.attribute:
        if a.HasField("g"):
            yield a.g
        yield from a.graphs


def reads(node: Any) -> Iterator[str]:
    """Operands, and all names that bodies mention: their own are called otherwise, or shadow none."""
    yield from (n for n in node.input if n)
    for body in bodies(node):
        for inner in body.node:
            yield from reads(inner)
        yield from (o.name for o in body.output)


def rename_reads(node: Any, names: Mapping[str, str]) -> None:
    for i, name in enumerate(node.input):
        if name in names:
            node.input[i] = names[name]
    for body in bodies(node):
        for inner in body.node:
            rename_reads(inner, names)


def _given_back(body: Any) -> Iterator[str]:
    """Outputs of a body, and of bodies in it, that it does not make itself."""
    own = {v.name for v in (*body.input, *body.initializer)} | {o for n in body.node for o in n.output}
    yield from (o.name for o in body.output if o.name not in own)
    for node in body.node:
        for inner in bodies(node):
            yield from (n for n in _given_back(inner) if n not in own)


def attribute(node: Any, name: str, default: Any = None) -> Any:
    onnx = onnx_module()
    for a in node.attribute:
        if a.name == name:
            return onnx.helper.get_attribute_value(a)
    return default


def _names(graph: Any) -> set[str]:
    found = {v.name for v in (*graph.input, *graph.output, *graph.initializer)}
    found |= {s.values.name for s in graph.sparse_initializer}
    for node in graph.node:
        found.update((*node.input, *node.output))
        for body in bodies(node):
            found |= _names(body)
    return found
