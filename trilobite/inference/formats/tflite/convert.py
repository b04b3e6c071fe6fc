"""A TFLite network as an ONNX model.

Enters: a path. Leaves: a ModelProto. A quantised tensor stays one of integers: each operation reads it
through a DequantizeLinear and writes it through a QuantizeLinear, so weights keep their bytes and a compiler
that knows the pattern computes in integers. Operations stand in the tables of `layers` and `tensors`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from trilobite.base.errors import FileError
from trilobite.framework.checkpoint.refusal import shown
from trilobite.inference.formats.assembly import Assembly
from trilobite.inference.formats.channels_last import Layers, Tensor
from trilobite.inference.formats.mapped import Array
from trilobite.inference.formats.tensor_ops import Unknown, activation
from trilobite.inference.formats.tflite.file import Network, Operator, Quantised, Subgraph, Value, read

if TYPE_CHECKING:
    from trilobite.inference.formats.tflite.variables import Variables

_FUSED = {0: "", 1: "relu", 2: "relu_n1_to_1", 3: "relu6", 4: "tanh"}
Rule = Callable[["Converter", Operator], None]


class Converter:
    """One subgraph on its way into an assembly."""

    def __init__(self, network: Network, graph: Subgraph, a: Assembly) -> None:
        self.network, self.graph, self.a, self.layers = network, graph, a, Layers(a)
        self._stored: dict[int, Tensor] = {}
        self._real: dict[int, Tensor] = {}
        self.pairs: dict[int, tuple[Tensor, Tensor]] = {}  # real and imaginary parts
        self.handles: dict[int, str] = {}  # names of variables
        self.variables: Variables | None = None

    # -- reading -------------------------------------------------------------------------------------------

    def given(self, o: Operator, k: int) -> bool:
        return k < len(o.inputs) and o.inputs[k] >= 0

    def info(self, o: Operator, k: int) -> Value:
        if not self.given(o, k):
            raise Unknown(f"{o.name} without its input {k}")
        return self.graph.values[o.inputs[k]]

    def out_info(self, o: Operator, k: int = 0) -> Value:
        return self.graph.values[o.outputs[k]]

    def stored(self, i: int) -> Tensor:
        """A tensor as it is: integers, where it is quantised."""
        if i not in self._stored:
            v = self.graph.values[i]
            if v.dtype.kind in "cV":
                raise Unknown("an operation on complex numbers, or on variables themselves")
            array = v.array if v.array is not None else np.zeros([max(d, 1) for d in v.shape], v.dtype)
            self._stored[i] = self.layers.known(array, v.name or "weight")
        return self._stored[i]

    def is_complex(self, o: Operator, k: int) -> bool:
        return self.info(o, k).dtype.kind == "c"

    def pair(self, o: Operator, k: int) -> tuple[Tensor, Tensor]:
        """The real and the imaginary part of an input."""
        i, v = o.inputs[k], self.info(o, k)
        if i not in self.pairs:
            if v.dtype.kind != "c" or v.array is None:
                raise Unknown(f"{o.name} of real numbers")
            self.pairs[i] = self.layers.known(v.array.real), self.layers.known(v.array.imag)
        return self.pairs[i]

    def x(self, o: Operator, k: int) -> Tensor:
        """An input as real numbers."""
        v = self.info(o, k)
        i = o.inputs[k]
        if i not in self._real:
            self._real[i] = self._dequantised(self.stored(i), v)
        return self._real[i]

    def _dequantised(self, t: Tensor, v: Value) -> Tensor:
        q = integers(v)
        if q is None:
            return t
        if len(q.scale) > 1:
            name = self.a.node(
                "DequantizeLinear", self.layers.last(t), *self._scales(q, v.dtype), axis=q.axis
            )
            return self.layers.made(name, len(v.shape))
        if t.first and not t.last and t.rank is not None:
            return self.layers.made_first(
                self.a.node("DequantizeLinear", t.first, *self._scales(q, v.dtype)), t.rank
            )
        name = self.a.node("DequantizeLinear", self.layers.last(t), *self._scales(q, v.dtype))
        return self.layers.made(name, len(v.shape))

    def _scales(self, q: Quantised, dtype: Any) -> list[str]:
        scale, zero = (q.scale, q.zero) if len(q.scale) > 1 else (q.scale[0], q.zero[0])
        points = [] if dtype == np.int32 else [self.a.constant(zero, dtype)]
        return [self.a.constant(scale, np.float32), *points]

    def array(self, o: Operator, k: int, what: str) -> Array:
        """The numbers of an input, which must stand in the file."""
        t = self.stored(o.inputs[k]) if self.given(o, k) else None
        if t is None or t.array is None:
            raise Unknown(f"{o.name} with {what} that a run decides")
        return t.array

    def ints(self, o: Operator, k: int, what: str) -> list[int]:
        return [int(n) for n in self.array(o, k, what).reshape(-1)]

    def weight(self, o: Operator, k: int, order: tuple[int, ...]) -> str:
        """A weight with its axes in another order, dequantised where it has scales."""
        v, t = self.info(o, k), self.stored(o.inputs[k])
        q = integers(v)
        if t.array is None:
            return self.a.node("Transpose", self.layers.last(self.x(o, k)), perm=list(order))
        name = self.a.constant(t.array.transpose(order), hint=v.name or "weight")
        if q is None:
            return name if v.dtype == np.float32 else self.a.cast(name, np.float32)
        axis = {"axis": order.index(q.axis)} if len(q.scale) > 1 else {}
        return self.a.node("DequantizeLinear", name, *self._scales(q, v.dtype), **axis)

    def bias(self, o: Operator, k: int) -> str:
        return self.layers.last(self.x(o, k)) if self.given(o, k) else ""

    def option(self, o: Operator, slot: int, form: str, default: Any = 0) -> Any:
        return default if o.options is None else o.options.number(slot, form, default)

    # -- writing -------------------------------------------------------------------------------------------

    def out(self, o: Operator, t: Tensor, k: int = 0, fused: int | None = None) -> None:
        """A result as real numbers; `fused`: the slot of the activation behind the operation."""
        if fused is not None:
            code = int(self.option(o, fused, "b"))
            if code not in _FUSED:
                raise Unknown(f"{o.name} with activation {code}")
            t = activation(self.layers, t, _FUSED[code])
        i = o.outputs[k]
        v = self.graph.values[i]
        q = integers(v)
        self._stored[i] = t if q is None else self._quantised(t, q, v)

    def keep(self, o: Operator, t: Tensor, k: int = 0) -> None:
        """A result that is stored as it is."""
        self._stored[o.outputs[k]] = t

    def _quantised(self, t: Tensor, q: Quantised, v: Value) -> Tensor:
        scales = self._scales(q, v.dtype)
        if v.dtype == np.int32:
            raise Unknown("a result that is quantised to 32 bits")
        if t.first and not t.last and t.rank is not None:
            return self.layers.made_first(self.a.node("QuantizeLinear", t.first, *scales), t.rank)
        return self.layers.made(self.a.node("QuantizeLinear", self.layers.last(t), *scales), len(v.shape))

    # -- the whole -----------------------------------------------------------------------------------------

    def run(self, rules: dict[str, Rule]) -> None:
        for o in self.graph.operators:
            try:
                if o.name not in rules:
                    raise Unknown(o.name)
                rules[o.name](self, o)
            except Unknown as why:
                self.a.refuse(str(why))
            for i in o.outputs:
                if i not in self._stored and i not in self.pairs and i not in self.handles:
                    self._stored[i] = self.layers.made("missing", len(self.graph.values[i].shape))

    def feed(self, i: int, name: str) -> None:
        self._stored[i] = self.layers.made(name, len(self.graph.values[i].shape))


def integers(v: Value) -> Quantised | None:
    """How a tensor is quantised, if it holds integers at all."""
    return v.quantised if v.dtype.kind in "iu" or v.dtype.name in ("int4", "uint4") else None


def sizes(v: Value) -> list[Any]:
    return [None if d < 0 else d for d in v.shape]


def label(v: Value, fallback: str) -> str:
    return v.name.removesuffix("\0state") or fallback


def convert(path: Any) -> Any:
    """A TFLite file as an ONNX ModelProto."""
    from trilobite.inference.formats.tflite.rules import RULES
    from trilobite.inference.formats.tflite.variables import Variables

    network = read(path)
    graph = network.subgraphs[0]
    a = Assembly(graph.name or "network")
    c = Converter(network, graph, a)
    c.variables = Variables(a)
    for n, i in enumerate(graph.inputs):
        v = graph.values[i]
        c.feed(i, a.add_input(label(v, f"input_{n}"), v.dtype, sizes(v)))
    try:
        c.run(RULES)
        if not a.refusals:
            for n, i in enumerate(graph.outputs):
                v = graph.values[i]
                a.add_output(label(v, f"output_{n}"), c.layers.last(c.stored(i)), v.dtype, sizes(v))
            c.variables.end()
    except (ValueError, IndexError, TypeError, ZeroDivisionError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            f"the network does not fit together: {shown(str(error))}",
            where=network.where,
            expected="shapes and options that belong to each other",
            remedy="the file is corrupt; convert it again",
        ) from error
    return a.model(network.where, "trilobite from TFLite")
