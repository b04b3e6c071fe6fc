"""Composites of large arrays run as one native program each: softmax, LayerNorm, GELU, attention, and their
reverse rules, where they state them.

Enters: the operands of a composite, or what its forward half kept and the cotangents, as arrays. Leaves: what
its functions give, with the bits that a compiled function gives: the parts that pass over memory are fused,
and every thread has a share. Small ones, and those of dtypes without kernels, run as they are. Each kind of
call is recorded and compiled once, and remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import DType, bool_, float32, float64, int32, int64
from trilobite.compiler.targets.contract import Executable
from trilobite.compiler.targets.registry import HOST, executable
from trilobite.framework.heavy import ALONE
from trilobite.ir.graph import Graph, exact
from trilobite.ir.primitive import Value
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.composite import Composite, Plainly
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType

_FLOATS: frozenset[DType] = frozenset({float32, float64})
_DTYPES: frozenset[DType] = _FLOATS | {bool_, int32, int64, np.dtype(np.uint32), np.dtype(np.uint64)}
_REMEMBERED = 256  # kinds of calls
_SIZE = 1 << 17  # elements of the largest operand: from here on a program's call is the smaller part


class Native(Plainly):
    """The quicker way, where it pays."""

    def __init__(self) -> None:
        self._known: OrderedDict[Any, _Compiled] = OrderedDict()

    def body(self, c: Composite, values: Sequence[Value], attrs: dict[str, Any]) -> Any:
        # What states no reverse rule is an optimiser's update, which runs block by block to the same bits.
        if c.forward is None or not _pays(values):
            return super().body(c, values, attrs)
        return self._run("body", c, values, attrs, lambda *v: c(*v, **attrs))  # a call, which may be claimed

    def forward(self, c: Composite, values: Sequence[Value], attrs: dict[str, Any]) -> Any:
        if not _pays(values):
            return super().forward(c, values, attrs)
        rule = c.forward
        assert rule is not None
        return self._run("forward", c, values, attrs, lambda *v: rule(*v, **attrs))

    def backward(
        self, c: Composite, kept: Sequence[Value], cotangents: Sequence[Value], attrs: dict[str, Any]
    ) -> Any:
        values, n, rule = (*kept, *cotangents), len(kept), c.backward
        if not _pays(values):
            return super().backward(c, kept, cotangents, attrs)
        assert rule is not None
        return self._run(f"backward {n}", c, values, attrs, lambda *v: rule(v[:n], v[n:], **attrs))

    def _run(
        self, half: str, c: Composite, values: Sequence[Value], attrs: dict[str, Any], fn: Callable[..., Any]
    ) -> Any:
        key = c, half, tuple((v.shape, v.dtype) for v in values), exact(tuple(sorted(attrs.items())))
        program = self._known.get(key)
        if program is None:
            program = self._known[key] = _Compiled(f"{c.name} {half}", fn, values)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return program(values)


def _pays(values: Sequence[Value]) -> bool:
    ctx = entry.threads.context
    if ctx.recorder is not None or ctx.watch is not None or not values:
        return False
    if not all(type(v) is np.ndarray and v.dtype in _DTYPES for v in values):
        return False
    return values[0].dtype in _FLOATS and max(v.size for v in values) >= _SIZE


class _Compiled:
    """A function over arrays of some types as a program. Results that are operands are not computed."""

    def __init__(self, name: str, fn: Callable[..., Any], values: Sequence[Value]) -> None:
        shapes: list[Any] = []

        def flat(*traced: Value) -> list[Value]:
            leaves: list[Value] = []
            shapes.append(_taken_apart(fn(*traced), leaves))
            return leaves

        graph = record_graph(flat, [TensorType(v.shape, v.dtype) for v in values], name)
        self._shape = shapes[-1]
        made = list(dict.fromkeys(v for v in graph.outputs if v not in graph.inputs))
        places = {v: (True, i) for i, v in enumerate(graph.inputs)} | {
            v: (False, i) for i, v in enumerate(made)
        }
        self._places = [places[v] for v in graph.outputs]
        self._program = _program(Graph(graph.inputs, graph.equations, made, "eager")) if made else None

    def __call__(self, values: Sequence[Value]) -> Any:
        made = self._program(list(values)) if self._program is not None else []
        results = iter([values[i] if given else made[i] for given, i in self._places])
        return _put_together(self._shape, results)


def _program(graph: Graph) -> Executable:
    return executable(graph, HOST, ALONE)


def _taken_apart(out: Any, leaves: list[Value]) -> Any:
    """The nesting of what a composite's function returns: None for nothing, ... for a value."""
    if out is None:
        return None
    if isinstance(out, (tuple, list)):
        return [_taken_apart(o, leaves) for o in out]
    leaves.append(out)
    return ...


def _put_together(shape: Any, results: Any) -> Any:
    if shape is None:
        return None
    return next(results) if shape is ... else tuple(_put_together(s, results) for s in shape)


def install() -> None:
    """From now on composites of arrays run natively where that pays."""
    Composite.way = Native()
