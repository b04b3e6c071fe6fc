"""Heavy eager operations run on the CPU target's kernels: products, convolutions and pooling of some size,
LU factors and triangular systems.

Enters: the operands of one primitive as arrays. Leaves: its results, with the bits that a compiled function
gives. Each kind of call is compiled once, as a graph of one equation, and remembered; small ones are left to
NumPy, whose call costs less.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from trilobite.base.dtypes import DType, float32, float64
from trilobite.compiler.targets.contract import Executable, Usage
from trilobite.compiler.targets.registry import HOST, executable
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import Primitive
from trilobite.ir.primitives import table
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]
_DTYPES: frozenset[DType] = frozenset({float32, float64})
ALONE = Usage(alone=True)
_REMEMBERED = 256  # kinds of calls
_WORK = 1 << 20  # multiplications, or elements times 16: from here on a kernel's call is the smaller part


class Heavy:
    """One primitive's kernels by the types and attributes it was called with."""

    def __init__(self, primitive: Primitive, work: Callable[..., float]) -> None:
        self.primitive, self.work = primitive, work
        self._known: OrderedDict[Any, Executable] = OrderedDict()

    def __call__(self, *values: Array, **attributes: Any) -> Any:
        if values[0].dtype not in _DTYPES or self.work(*values, **attributes) < _WORK:
            return self.primitive.evaluate(*values, **attributes)
        key = (tuple((v.shape, v.dtype) for v in values), tuple(attributes.items()))
        run = self._known.get(key)
        if run is None:
            run = self._compile(key, values, attributes)
        out = run(list(values))
        return tuple(out) if self.primitive.multiple else out[0]

    def for_types(self, types: Sequence[TensorType], attributes: Any) -> Callable[..., Any]:
        """What runs for operands of these types: itself, or the rule."""
        like: list[Any] = [np.broadcast_to(np.zeros((), t.dtype), tuple(map(int, t.shape))) for t in types]
        light = types[0].dtype not in _DTYPES or self.work(*like, **attributes) < _WORK
        return self.primitive.evaluate if light else self

    def _compile(self, key: Any, values: Sequence[Array], attributes: Any) -> Executable:
        inputs = tuple(Var(TensorType(v.shape, v.dtype)) for v in values)
        e = Equation.of(self.primitive.name, inputs, attributes)
        graph = Graph(inputs, [e], e.outputs, "eager")
        run = self._known[key] = executable(graph, HOST, ALONE)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return run


def _product(x: Array, y: Array, contract: Any, batch: Any, **_: Any) -> float:
    shared = 1
    for a in (*contract[0], *batch[0]):
        shared *= x.shape[a]
    return x.size * y.size / shared if shared else 0.0


def _convolution(x: Array, w: Array, groups: int, **_: Any) -> float:
    """Every element of an image with all filters of its group and taps."""
    return x.size * w.size / max(w.shape[1] if w.ndim > 1 else 1, 1) / max(groups, 1)


def _weight_gradient(x: Array, y: Array, groups: int, **_: Any) -> float:
    return x.size * (y.shape[1] if y.ndim > 1 else 1) / max(groups, 1) * 9


def _windows(x: Array, *_: Any, **__: Any) -> float:
    return x.size * 16.0


def _by_rows(a: Array, *_: Array, **__: Any) -> float:
    """NumPy has no such routine: the rule goes through rows in Python, each as long as that many products."""
    return float(min(a.shape[-2:]) << 17)


WORK: dict[str, Callable[..., float]] = {
    "dot": _product,
    "conv": _convolution,
    "conv_input_grad": _convolution,
    "conv_weight_grad": _weight_gradient,
    "window_reduce": _windows,
    "lu": _by_rows,
    "triangular_solve": _by_rows,
}


def install() -> None:
    """From now on these primitives, bound to arrays, run natively where that pays."""
    for name, work in WORK.items():
        table.quicken(name, partial(Heavy, work=work))
