"""How regions are written in these tests, and how their lowerings run: natively, by hand, in any cut."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from trilobite.base.dtypes import as_dtype
from trilobite.compiler.cpu.nests import accepts, lower
from trilobite.compiler.kernels import Kernel, Lowering, Operand
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import result_types, table
from trilobite.ir.types import Affine, Dim, Symbol, TensorType
from trilobite.native import objects
from trilobite.native.host import features

Array = np.ndarray[Any, Any]


class Region:
    """A graph in the making: `r.add(x, y)` binds a primitive, `r.input(shape)` makes an input."""

    def __init__(self) -> None:
        self._inputs: list[Var] = []
        self._equations: list[Equation] = []

    def input(self, shape: Sequence[Dim], dtype: Any = "float32") -> Var:
        v = Var(TensorType(tuple(shape), as_dtype(dtype)))
        self._inputs.append(v)
        return v

    def __getattr__(self, name: str) -> Any:
        primitive = table[name.rstrip("_")]

        def bind(*inputs: Var, **attributes: Any) -> Var:
            types = result_types(primitive, [v.type for v in inputs], attributes)
            outputs = tuple(map(Var, types))
            self._equations.append(Equation(primitive, inputs, attributes, outputs))
            return outputs[0]

        return bind

    def like(self, x: Var, value: float) -> Var:
        return self.full(shape=x.type.shape, dtype=x.type.dtype, value=value)

    def spread(self, x: Var, shape: Sequence[Dim], *reduced: int) -> Var:
        axes = tuple(a for a in range(len(shape)) if a not in reduced)
        return self.broadcast(x, shape=tuple(shape), axes=axes)

    def graph(self, *outputs: Var) -> Graph:
        return Graph(self._inputs, self._equations, outputs, "region")


def fusion_of(region: Graph) -> Equation:
    inputs = tuple(map(Var, region.input_types))
    outputs = tuple(map(Var, region.output_types))
    return Equation(table["fusion"], inputs, {"kind": "loops", "region": region}, outputs)


@lru_cache(maxsize=4096)
def compiled(kernel: Kernel) -> Any:
    name = objects.symbol(kernel.text, kernel.level)
    library = objects.load({name: objects.compile_object(kernel.text, kernel.level, features())})
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    function = kind(library[name])
    function.library = library  # type: ignore[attr-defined]
    return function


def size_of(d: Dim, sizes: Mapping[Symbol, int]) -> int:
    return d.value(sizes) if isinstance(d, Affine) else d


def execute(
    lowering: Lowering,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    sizes: Mapping[Symbol, int] | None = None,
    cuts: int = 1,
) -> None:
    """Every step, its units in `cuts` calls, last call first: the order must not matter."""
    known = sizes or {}
    temporaries = [np.full(size_of(b, known) + 64, 0xA5, np.uint8) for b in lowering.temporaries]
    constants = [np.ascontiguousarray(c) for c in lowering.constants]
    memory = {"in": inputs, "out": outputs, "temporary": temporaries, "constant": constants}
    for step in lowering.steps:
        words = [
            memory[a.role][a.index].ctypes.data + size_of(a.offset, known)
            if isinstance(a, Operand)
            else size_of(a, known)
            for a in step.args
        ]
        args = (ctypes.c_int64 * max(len(words), 1))(*words)
        scratch = np.full(step.kernel.scratch + 128, 0x5A, np.uint8)
        aligned = (scratch.ctypes.data + 63) // 64 * 64
        edges = np.linspace(0, size_of(step.units, known), cuts + 1).astype(int)
        for begin, end in reversed(list(pairwise(edges))):
            if begin < end:
                compiled(step.kernel)(ctypes.addressof(args), int(begin), int(end), aligned)


def native(
    region: Graph, values: Sequence[Array], sizes: Mapping[Symbol, int] | None = None, cuts: int = 1
) -> list[Array]:
    """The outputs of a region, computed by its nests. Outputs start as garbage."""
    reason = accepts(region)
    assert reason is None, reason
    lowering = lower(fusion_of(region))
    outputs = []
    for t in region.output_types:
        shape = [size_of(d, sizes or {}) for d in t.shape]
        raw = np.full(int(np.prod(shape)) * t.dtype.itemsize, 0x3C, np.uint8)
        outputs.append(raw.view(t.dtype).reshape(shape))
    execute(lowering, [np.ascontiguousarray(v) for v in values], outputs, sizes, cuts)
    return outputs


def reference(region: Graph, values: Sequence[Array]) -> list[Array]:
    return [np.asarray(v) for v in run(region, list(values))]
