"""An ONNX model that is put together node by node: what importers of networks write into.

Enters: operators, arrays, names. Leaves: a ModelProto. Names are made unique here; nodes that no output needs
are dropped at the end. Knows no format and no operator's meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.errors import FileError
from trilobite.inference.export.api import _onnx as onnx_package
from trilobite.inference.formats.mapped import Array

OPSET = 21
Size = int | str | None


class Assembly:
    """Nodes, weights, inputs and outputs of one graph; `inner` makes that of a body within it."""

    def __init__(self, name: str, outer: Assembly | None = None) -> None:
        self._onnx = onnx_package()
        self.name, self.outer = name, outer
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.weights: dict[str, Any] = {} if outer is None else outer.weights
        self._taken: set[str] = set() if outer is None else outer._taken
        self._kept: set[str] = set() if outer is None else outer._kept
        self._shared: dict[tuple[Any, ...], str] = {} if outer is None else outer._shared
        self.refusals: list[str] = [] if outer is None else outer.refusals

    def inner(self, name: str) -> Assembly:
        return Assembly(name, self)

    def fresh(self, hint: str) -> str:
        hint = hint or "value"
        name, n = hint, 1
        while name in self._taken:
            name, n = f"{hint}_{n}", n + 1
        self._taken.add(name)
        return name

    def keep(self, *names: str) -> None:
        """Names that are free for inputs and outputs alone: weights and values give way."""
        free = set(names) - self._taken
        self._kept |= free
        self._taken |= free

    def _outside(self, name: str) -> str:
        if name in self._kept:
            self._kept.discard(name)
            return name
        return self.fresh(name)

    def node(self, op: str, *inputs: str, **attrs: Any) -> str:
        return self.many(op, inputs, 1, **attrs)[0]

    def many(self, op: str, inputs: Sequence[str], outputs: int, **attrs: Any) -> list[str]:
        names = [self.fresh(f"/{op.lower()}") for _ in range(outputs)]  # apart from the names of a file
        self.nodes.append(self._onnx.helper.make_node(op, list(inputs), names, **attrs))
        return names

    def rename(self, name: str, wanted: str) -> str:
        """A copy under a name of its own."""
        found = self._outside(wanted)
        self.nodes.append(self._onnx.helper.make_node("Identity", [name], [found]))
        return found

    def constant(self, value: Any, dtype: Any = None, hint: str = "constant") -> str:
        array = np.asarray(value) if dtype is None else np.asarray(value).astype(dtype)
        key = (array.shape, array.dtype.name, array.tobytes()) if array.nbytes <= 512 else None
        if key is not None and key in self._shared:
            return self._shared[key]
        name = self.fresh(hint)
        plain = np.ascontiguousarray(array).reshape(array.shape)
        self.weights[name] = self._onnx.numpy_helper.from_array(plain, name)
        if key is not None:
            self._shared[key] = name
        return name

    def give(self, name: str, array: Array) -> None:
        """The value of an input for runs that do not give one."""
        self.weights[name] = self._onnx.numpy_helper.from_array(np.ascontiguousarray(array), name)

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def type(self, dtype: Any) -> int:
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def cast(self, name: str, dtype: Any) -> str:
        return self.node("Cast", name, to=self.type(dtype))

    def info(self, name: str, dtype: Any, shape: Sequence[Size] | None) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, self.type(dtype), shape)

    def add_input(self, name: str, dtype: Any, shape: Sequence[Size] | None) -> str:
        found = self._outside(name)
        self.inputs.append(self.info(found, dtype, shape))
        return found

    def add_output(self, name: str, value: str, dtype: Any, shape: Sequence[Size] | None) -> None:
        self.outputs.append(self.info(self.rename(value, name), dtype, shape))

    def refuse(self, what: str) -> None:
        """Noted, so that everything that is not supported is told at once."""
        if what not in self.refusals:
            self.refusals.append(what)

    def graph(self) -> Any:
        from trilobite.inference.export.scope import live, used_names

        names = [o.name for o in self.outputs]
        nodes = live(self.nodes, names)
        used = used_names(nodes, names)
        weights = [t for n, t in self.weights.items() if n in used] if self.outer is None else []
        return self._onnx.helper.make_graph(nodes, self.name, self.inputs, self.outputs, weights)

    def model(self, where: str, producer: str) -> Any:
        if self.refusals:
            shown = "; ".join(self.refusals[:20])
            raise FileError(
                f"the network has {len(self.refusals)} kinds of operations that are not supported: {shown}",
                where=where,
                expected="operations that docs/formats.md lists",
                remedy="export the network as ONNX with its own tools",
            )
        helper = self._onnx.helper
        made = helper.make_model(
            self.graph(),
            producer_name=producer,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=10,
        )
        if all(o.type.tensor_type.HasField("shape") for o in self.outputs):
            return made
        return self._onnx.shape_inference.infer_shapes(made)


def shape_of(array: Array) -> list[int]:
    return [int(d) for d in array.shape]
