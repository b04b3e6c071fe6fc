"""A quantised model: an ordinary module that holds codes and runs the rewritten graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trilobite.base import pytree
from trilobite.base.errors import ShapeError
from trilobite.base.locations import told, user_location
from trilobite.base.records import dataclass
from trilobite.compiler.graph.passes.inline import specialise
from trilobite.framework.nn.module import Module
from trilobite.framework.quantization.scheme import Scheme
from trilobite.framework.tensor import Tensor, wrap
from trilobite.framework.transforms import is_tensor
from trilobite.ir.evaluate import sizes_of
from trilobite.ir.graph import Graph, Var
from trilobite.ir.primitive import Value
from trilobite.ir.transforms.bind import bind
from trilobite.ir.types import Affine

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Quantization:
    """What a model became: the graph that runs, the names of the buffers it reads behind its arguments, how
    each layer runs, and the form of the results.
    """

    graph: Graph
    names: tuple[str, ...]
    results: tuple[Any, Sequence[Any]]
    scheme: Scheme
    layers: Mapping[str, str]
    original: str


class QuantizedModule(Module):
    """Runs a graph on integers. Codes, scales and what stayed in floating point are buffers, under the names
    of the layers they came from; `quantization.layers` says of each layer how it runs.
    """

    def __init__(self, quantization: Quantization, weights: Mapping[str, Array]) -> None:
        self.quantization = quantization
        for name in quantization.names:
            _enter(self, name, wrap(weights[name]))
        self.eval()

    def forward(self, *args: Any) -> Any:
        q = self.quantization
        leaves, _ = pytree.flatten(args, is_tensor)
        given = [_value(x) for x in leaves if isinstance(x, (Tensor, np.ndarray))]
        taken = q.graph.inputs[: len(q.graph.inputs) - len(q.names)]
        _check(q.original, taken, given)
        outputs = self._run(q.graph, [*given, *(self.get_buffer(n)._read() for n in q.names)])
        tree, static = q.results
        it = iter(outputs)
        return tree.unflatten([next(it) if s is None else s.value for s in static])

    @staticmethod
    def _run(graph: Graph, values: Sequence[Value]) -> list[Tensor]:
        """Each equation at the place where the original model had it."""
        sizes = sizes_of(graph, values)
        graph = specialise(graph, sizes) if sizes else graph
        env: dict[Var, Value] = dict(zip(graph.inputs, values, strict=True))
        for e in graph.equations:
            with told(e.location):
                out = bind(e.primitive, *[env[v] for v in e.inputs], **e.attributes)
            env.update(zip(e.outputs, out if e.primitive.multiple else (out,), strict=True))
        return [wrap(env[v]) for v in graph.outputs]

    def extra_repr(self) -> str:
        q = self.quantization
        rows = [f"{name}: {how}" for name, how in q.layers.items()]
        return "\n".join([f"{q.original}, {q.scheme}", *rows])

    def __repr__(self) -> str:
        body = self.extra_repr().replace("\n", "\n  ")
        return f"QuantizedModule(\n  {body}\n)"


def _value(x: Any) -> Value:
    return x._read() if isinstance(x, Tensor) else np.asarray(x)


def _enter(module: Module, name: str, tensor: Tensor) -> None:
    """A buffer under a dotted name, in modules made for it."""
    path, _, last = name.rpartition(".")
    for part in path.split(".") if path else ():
        if module._slots.get(part) != "module":
            module.add_module(part, Module())
        module = module.__dict__[part]
    module.register_buffer(last, tensor)


def _check(original: str, taken: Sequence[Var], given: Sequence[Value]) -> None:
    if len(given) != len(taken):
        raise ShapeError(
            f"a quantised {original} takes {len(taken)} tensors, got {len(given)}",
            where=user_location(),
            expected=", ".join(str(v.type) for v in taken),
        )
    for i, (v, x) in enumerate(zip(taken, given, strict=True)):
        shape = v.type.shape
        same = len(shape) == len(x.shape) and x.dtype == v.type.dtype
        if not same or any(a != b for a, b in zip(shape, x.shape, strict=True) if not isinstance(a, Affine)):
            raise ShapeError(
                f"tensor {i} of a quantised {original} is {x.dtype}{list(x.shape)}",
                where=user_location(),
                expected=v.type,
                remedy="quantise with data of this size: only the batch may differ from call to call",
            )
