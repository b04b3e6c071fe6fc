"""How regions are written in these tests, and how they run: natively, by hand, in any cut of their units."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from tests.compiler.arrays import assert_same_bits, random_array
from trilobite.base.dtypes import as_dtype
from trilobite.compiler.program.kernels import Lowering, Operand, Room
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.compiler.targets.cpu.nests.lower import accepts, lower
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import result_types, table
from trilobite.ir.types import Affine, Dim, Symbol, TensorType
from trilobite.native import objects
from trilobite.native.host import features

Array = np.ndarray[Any, Any]
Build = Callable[..., Any]


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
def compiled(kernel: NativeKernel) -> Any:
    name = objects.symbol(kernel.text, kernel.level)
    library = objects.load({name: objects.compile_object(kernel.text, kernel.level, features())})
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    function = kind(library[name])
    function.library = library  # type: ignore[attr-defined]
    return function


def size_of(d: Room, sizes: Mapping[Symbol, int]) -> int:
    """A size, or the product of several."""
    if isinstance(d, tuple):
        return math.prod(size_of(one, sizes) for one in d)
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


def same(build: Build, *types: Any, seed: int = 0, cuts: int = 1, places: int = 0) -> Graph:
    """Native and reference agree in every bit; `types` are shapes or (shape, dtype)."""
    region, values = made(build, *types, seed=seed, places=places)
    for found, expected in zip(native(region, values, cuts=cuts), reference(region, values), strict=True):
        assert_same_bits(found, expected, str(region))
    return region


def made(build: Build, *types: Any, seed: int = 0, wild: bool = True, places: int = 0) -> tuple[Graph, Any]:
    rng, r = np.random.default_rng(seed), Region()
    pairs = [t if t and isinstance(t[0], tuple) else (t, "float32") for t in types]
    operands = [r.input(shape, dtype) for shape, dtype in pairs]
    found = build(r, *operands)
    region = r.graph(*(found if isinstance(found, tuple) else (found,)))
    return region, [random_array(rng, t.shape, t.dtype, wild) for t in region.input_types]


def normalised(r: Region, x: Any, gain: Any, axes: tuple[int, ...]) -> Any:
    shape = x.type.shape
    count = float(np.prod([shape[a] for a in axes]))
    mean = r.reduce_sum(x, axes=axes)
    mean = r.div(mean, r.like(mean, count))
    centred = r.sub(x, r.spread(mean, shape, *axes))
    var = r.reduce_sum(r.mul(centred, centred), axes=axes)
    var = r.add(r.div(var, r.like(var, count)), r.like(var, 1e-5))
    scale = r.div(r.like(var, 1.0), r.sqrt(var))
    out = r.mul(centred, r.spread(scale, shape, *axes))
    return r.mul(out, r.broadcast(gain, shape=shape, axes=(len(shape) - 1,))), mean, scale
