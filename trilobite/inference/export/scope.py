"""Where ONNX nodes are gathered while a graph of the IR is walked: one `Model`, a `Scope` for each
graph in it.

A scope knows the name of each variable's tensor. Elementwise operators of ONNX broadcast by themselves, so a
broadcast variable is first kept *loose*: as a smaller tensor that broadcasts to its shape. It becomes an
Expand only where somebody needs it whole. Sizes that are symbols are computed once, from the shapes of the
model's inputs. What cannot be written is noted with its place, so that all of it is reported at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trilobite.base.dtypes import DType
from trilobite.ir.graph import Graph, Var
from trilobite.ir.types import Affine, Dim, Factors, Floor, Shape, Symbol

Array = np.ndarray[Any, Any]


class Refused(Exception):
    """A rule cannot write this equation; says why. Caught by the walk, which goes on to find them all."""


def onnx_type(dtype: DType) -> int:
    """ONNX's number for a dtype."""
    try:
        found = helper.np_dtype_to_tensor_dtype(dtype)
    except (KeyError, ValueError):
        found = TensorProto.UNDEFINED
    if found == TensorProto.UNDEFINED or dtype.kind == "c":
        raise Refused(f"ONNX has no operators on {dtype.name}")
    return int(found)


def value_info(name: str, dtype: DType, shape: Shape) -> Any:
    dims = [d if isinstance(d, int) else str(d) for d in shape]
    return helper.make_tensor_value_info(name, onnx_type(dtype), dims)


class Model:
    """What all scopes share: weights, names in use, sizes of symbols, and what could not be written."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.initializers: dict[str, Any] = {}
        self.prologue: list[Any] = []  # nodes that compute sizes; they stand before all others
        self.refusals: list[str] = []
        self.sources: dict[Symbol, tuple[str, int, Affine]] = {}
        self._taken: set[str] = set()
        self._shared: dict[tuple[Any, ...], str] = {}
        self._extents: dict[Any, str] = {}

    def fresh(self, hint: str) -> str:
        name, n = hint, 1
        while name in self._taken:
            name, n = f"{hint}_{n}", n + 1
        self._taken.add(name)
        return name

    def add_weight(self, array: Array, hint: str) -> str:
        onnx_type(array.dtype)
        name = self.fresh(hint)
        self.initializers[name] = numpy_helper.from_array(
            np.ascontiguousarray(array).reshape(array.shape), name
        )
        return name

    def constant(self, array: Array) -> str:
        """An array as a tensor; small ones that are equal are one."""
        if array.nbytes > 1024:
            return self.add_weight(array, "constant")
        key = (array.shape, array.dtype.name, array.tobytes())
        if key not in self._shared:
            self._shared[key] = self.add_weight(array, "constant")
        return self._shared[key]

    # -- sizes ---------------------------------------------------------------------------------------------

    def learn_symbols(self, names: Sequence[tuple[str, Shape]]) -> None:
        """Which input and axis tells each symbol."""
        for name, shape in names:
            for axis, d in enumerate(shape):
                if isinstance(d, Affine) and len(d.terms) == 1:
                    self.sources.setdefault(d.terms[0][0], (name, axis, d))

    def _emit(self, op: str, inputs: Sequence[str], **attrs: Any) -> str:
        out = self.fresh("size")
        self.prologue.append(helper.make_node(op, inputs, [out], **attrs))
        return out

    def _ints(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def _symbol(self, s: Symbol) -> str:
        if s not in self._extents:
            if s not in self.sources and s.of is not None:
                self._extents[s] = self._made(s.of)
                return self._extents[s]
            if s not in self.sources:
                raise Refused(f"no input tells the size {s} by itself")
            name, axis, d = self.sources[s]
            found = self._emit("Shape", [name], start=axis, end=axis + 1)
            if d.constant:
                found = self._emit("Sub", [found, self._ints(d.constant)])
            factor = d.terms[0][1]
            self._extents[s] = found if factor == 1 else self._emit("Div", [found, self._ints(factor)])
        return self._extents[s]

    def _made(self, of: Floor | Factors) -> str:
        """A size that follows from others; they are not negative where a graph has them."""
        if isinstance(of, Floor):
            return self._emit("Div", [self.extent(of.size), self._ints(of.by)])
        first, *others = (self._symbol(s) for s in of.symbols)
        return reduce(lambda a, b: self._emit("Mul", [a, b]), others, first)

    def extent(self, d: Dim) -> str:
        """A size as a tensor of one int64."""
        if isinstance(d, int):
            return self._ints(d)
        if d not in self._extents:
            total = ""
            for s, c in d.terms:
                part = self._symbol(s) if c == 1 else self._emit("Mul", [self._symbol(s), self._ints(c)])
                total = self._emit("Add", [total, part]) if total else part
            self._extents[d] = self._emit("Add", [total, self._ints(d.constant)]) if d.constant else total
        return self._extents[d]

    def sizes(self, shape: Sequence[Dim]) -> str:
        """A shape as a tensor of int64."""
        if all(isinstance(d, int) for d in shape):
            return self._ints(*(int(d) for d in shape))
        key = tuple(shape)
        if key not in self._extents:
            self._extents[key] = self._emit("Concat", [self.extent(d) for d in shape], axis=0)
        return self._extents[key]


class Scope:
    """One graph that is being written: the model's own, or a body within it."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.nodes: list[Any] = []
        self._names: dict[Var, str] = {}
        self._loose: dict[Var, str] = {}
        self.known: dict[Var, Array] = {}  # arrays that stand in the graph, for rules that look at them

    def emit(self, op: str, *inputs: str, **attrs: Any) -> str:
        return self.emit_many(op, inputs, 1, **attrs)[0]

    def emit_many(self, op: str, inputs: Sequence[str], outputs: int, **attrs: Any) -> list[str]:
        names = [self.model.fresh(op.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attrs))
        return names

    def constant(self, value: Any, dtype: Any) -> str:
        return self.model.constant(np.asarray(value).astype(dtype))

    def ints(self, *values: int) -> str:
        return self.model.constant(np.array(values, np.int64))

    def cast(self, name: str, was: DType, dtype: DType) -> str:
        return name if was == dtype else self.emit("Cast", name, to=onnx_type(dtype))

    # -- variables -----------------------------------------------------------------------------------------

    def set(self, var: Var, name: str) -> None:
        self._names[var] = name

    def set_loose(self, var: Var, name: str) -> None:
        self._loose[var] = name

    def within(self, inner: Sequence[Var], outer: Sequence[Var]) -> Scope:
        """A scope for a region that is written out here: its variables may stand here more than once."""
        child = Scope(self.model)
        child.nodes = self.nodes
        for i, o in zip(inner, outer, strict=True):
            child.adopt(i, self, o)
        return child

    def adopt(self, var: Var, scope: Scope, other: Var) -> None:
        """The variable is what `other` is in that scope."""
        for mine, theirs in (
            (self._loose, scope._loose),
            (self._names, scope._names),
        ):
            if other in theirs:
                mine[var] = theirs[other]
        if other in scope.known:
            self.known[var] = scope.known[other]

    def alias(self, var: Var, other: Var) -> None:
        self.adopt(var, self, other)

    def name(self, var: Var) -> str:
        """The variable's tensor, whole."""
        if var not in self._names:
            shape = var.type.shape
            loose = self._loose[var]
            self._names[var] = self.emit("Expand", loose, self.model.sizes(shape)) if shape else loose
        return self._names[var]

    def loose(self, variables: Sequence[Var]) -> tuple[list[str], bool]:
        """Tensors that broadcast together, and whether the result is loose as well."""
        names = [self._loose.get(v) or self.name(v) for v in variables]
        return names, bool(variables) and all(v in self._loose for v in variables)

    def is_loose(self, var: Var) -> bool:
        return var in self._loose

    def finish(self, var: Var, name: str, loose: bool) -> None:
        """The result of an elementwise operator."""
        (self.set_loose if loose else self.set)(var, name)

    def outputs_of(self, variables: Sequence[Var]) -> list[str]:
        """Names that a body may give back: made in it, each once."""
        names = [self.name(v) for v in variables]
        made = {n for node in self.nodes for n in node.output}
        found: list[str] = []
        for name in names:
            found.append(name if name in made and name not in found else self.emit("Identity", name))
        return found

    def body(self, name: str, inputs: Sequence[Any], outputs: Sequence[str], types: Sequence[Any]) -> Any:
        infos = [value_info(n, t.dtype, t.shape) for n, t in zip(outputs, types, strict=True)]
        return helper.make_graph(live(self.nodes, outputs), name, list(inputs), infos)


def _reads(node: Any) -> Iterator[str]:
    yield from node.input
    for a in node.attribute:
        for g in [*([a.g] if a.type == onnx.AttributeProto.GRAPH else []), *a.graphs]:
            for n in g.node:
                yield from _reads(n)
            yield from (o.name for o in g.output)


def live(nodes: Sequence[Any], outputs: Sequence[str]) -> list[Any]:
    """The nodes that the outputs need, in order."""
    needed, kept = set(outputs), []
    for node in reversed(nodes):
        if any(o in needed for o in node.output):
            needed.update(_reads(node))
            kept.append(node)
    return kept[::-1]


def used_names(nodes: Sequence[Any], outputs: Sequence[str]) -> set[str]:
    return {name for node in nodes for name in _reads(node)} | set(outputs)


__all__ = ["Array", "Graph", "Model", "Refused", "Scope", "live", "onnx_type", "used_names", "value_info"]
