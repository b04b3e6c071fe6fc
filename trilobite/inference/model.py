"""ONNX models as plain data: what the rest of this room reads instead of protocol buffers.

Enters: a path, bytes or an onnx ModelProto. Leaves: a `Model`: graphs of nodes with Python attributes,
arrays of initialisers, typed inputs and outputs, functions already inlined. No operator is looked at here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeVar

import numpy as np

from trilobite.base.records import dataclass

Array = np.ndarray[Any, Any]
Size = int | str | None
T = TypeVar("T")


@dataclass(frozen=True)
class ValueType:
    """What a graph declares about a value: kind is tensor, sparse, sequence, optional or map."""

    kind: str
    dtype: np.dtype[Any] | None = None
    shape: tuple[Size, ...] | None = None
    element: ValueType | None = None

    def __str__(self) -> str:
        if self.kind == "tensor":
            sizes = "?" if self.shape is None else ", ".join("?" if d is None else str(d) for d in self.shape)
            return f"{dtype_name(self.dtype)}[{sizes}]"
        return f"{self.kind}({self.element})" if self.element else self.kind


def dtype_name(dtype: np.dtype[Any] | None) -> str:
    return "string" if dtype == np.dtype(object) else "?" if dtype is None else str(dtype)


@dataclass(frozen=True)
class Named:
    """An input or output of a graph."""

    name: str
    type: ValueType


@dataclass(frozen=True, eq=False)
class Node:
    """One operation. `version` is that of the operator set its domain has in the model."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    domain: str = ""
    version: int = 1
    name: str = ""
    _prepared: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def prepared(self, make: Callable[[Node], T]) -> T:
        """What a function makes of the node: tables of a model, made with the first run."""
        if make not in self._prepared:
            self._prepared[make] = make(self)
        found: T = self._prepared[make]
        return found

    def attribute(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def label(self) -> str:
        domain = f"{self.domain}." if self.domain else ""
        return f"{domain}{self.op} ({self.name or ', '.join(self.outputs)})"

    @property
    def scope(self) -> str:
        """The module that the node's name tells: exporters write "/layer1/layer1.0/conv1/Conv"."""
        parts = self.name.strip("/").split("/")[:-1]
        short = [p.removeprefix(f"{before}.") for before, p in zip(["", *parts], parts, strict=False)]
        return ".".join(part.replace(".", "_") for part in short if part)

    def bodies(self) -> Iterator[Graph]:
        return (a for a in self.attributes.values() if isinstance(a, Graph))

    def reads(self) -> list[str]:
        """Operands, and what the bodies take from outside."""
        return list(dict.fromkeys((*(n for n in self.inputs if n), *self.taken())))

    def taken(self) -> list[str]:
        """What the bodies take from outside."""
        return list(dict.fromkeys(n for body in self.bodies() for n in body.free()))

    def reads_in_order(self) -> list[str]:
        """Operands by place, the missing ones too, and behind them what the bodies take."""
        return [*self.inputs, *self.taken()] if self.attributes else list(self.inputs)


@dataclass(eq=False)
class Graph:
    """Nodes in an order in which each finds what it reads."""

    name: str
    inputs: tuple[Named, ...]
    outputs: tuple[Named, ...]
    nodes: Sequence[Node]
    constants: dict[str, Array] = field(default_factory=dict)
    _free: list[str] | None = None

    def free(self) -> list[str]:
        """Names that stand for values of the graphs around this one."""
        if self._free is None:
            own = {i.name for i in self.inputs} | set(self.constants)
            found: dict[str, None] = {}
            for node in self.nodes:
                found.update((n, None) for n in node.reads() if n not in own)
                own.update(node.outputs)
            found.update((o.name, None) for o in self.outputs if o.name and o.name not in own)
            self._free = list(found)
        return self._free


@dataclass(eq=False)
class Model:
    """A graph and what the file says about itself."""

    graph: Graph
    opsets: Mapping[str, int]
    producer: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    defaults: tuple[Named, ...] = ()  # inputs that have a value in the file: who runs it may give another


def renamed(graph: Graph, names: Mapping[str, str]) -> Graph:
    """The graph with values called otherwise; bodies of nodes too."""

    def new(name: str) -> str:
        return names.get(name, name)

    def changed(node: Node) -> Node:
        attributes = {k: renamed(v, names) if isinstance(v, Graph) else v for k, v in node.attributes.items()}
        return replace(
            node,
            inputs=tuple(map(new, node.inputs)),
            outputs=tuple(map(new, node.outputs)),
            attributes=attributes,
        )

    return Graph(
        graph.name,
        tuple(Named(new(i.name), i.type) for i in graph.inputs),
        tuple(Named(new(o.name), o.type) for o in graph.outputs),
        [changed(n) for n in graph.nodes],
        {new(k): v for k, v in graph.constants.items()},
    )
