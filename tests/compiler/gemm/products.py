"""Run the lowering of a product natively, in any cut of its units, and judge it against float64."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np

from tests.compiler.fences import Marked
from trilobite.base.dtypes import DType, is_integer
from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.gemm.lower import lower_region
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import Symbol, TensorType, substitute
from trilobite.native.host import Host, features
from trilobite.native.memory import empty
from trilobite.native.objects import compile_object, load, symbol

Array = np.ndarray[Any, Any]
Axes = tuple[tuple[int, ...], tuple[int, ...]]
NO_AXES: Axes = ((), ())


def graph_of(fn: Callable[..., Any], *types: tuple[Sequence[Any], Any]) -> Graph:
    """The graph of a function over (shape, dtype) pairs."""

    def several(*values: Any) -> Sequence[Any]:
        out = fn(*values)
        return out if isinstance(out, (tuple, list)) else (out,)

    return record_graph(several, [TensorType(tuple(s), np.dtype(d)) for s, d in types])


def dot_graph(
    x: Sequence[Any], y: Sequence[Any], operand: Any, result: Any, contract: Axes, batch: Axes = NO_AXES
) -> Graph:
    def product(a: Any, b: Any) -> Any:
        return table["dot"](a, b, contract=contract, batch=batch, dtype=np.dtype(result))

    return graph_of(product, (x, operand), (y, operand))


def matrices(
    m: int, n: int, k: int, operand: Any = "float32", result: Any = None, ta: bool = False, tb: bool = False
) -> Graph:
    x, y = (k, m) if ta else (m, k), (n, k) if tb else (k, n)
    contract = ((0 if ta else 1,), (1 if tb else 0,))
    return dot_graph(x, y, operand, result or operand, contract)


# -- running -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _entry(text: str, level: int, host: Host) -> tuple[Any, Any]:
    name = symbol(text, level)
    library = load({name: compile_object(text, level, host)})
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    return kind(library[name]), library


def lowered(graph: Graph, host: Host | None = None) -> Lowering:
    return lower_region(graph, host or features())


def native(
    graph: Graph,
    values: Sequence[Array],
    cuts: Sequence[float] = (),
    host: Host | None = None,
    sizes: Mapping[Symbol, int] | None = None,
    shared: Mapping[int, Array] | None = None,
) -> list[Array]:
    """The results, units cut at these fractions; every piece gets scratch full of NaN. Results that are
    `shared` take the memory given for them.
    """
    low, sizes = lowered(graph, host), sizes or {}
    marked: list[Marked] = []
    outs: list[Array] = []
    for t in graph.output_types:
        shape = substitute(t.shape, sizes)
        marked.append(Marked(int(np.prod(shape)) * t.dtype.itemsize))
        outs.append(marked[-1].array(shape, t.dtype))
        outs[-1][...] = np.asarray(77).astype(t.dtype)
    for i, memory in (shared or {}).items():
        outs[i] = memory
    temporaries = [_poisoned(substitute(t, sizes)) for t in low.temporaries]
    buffers = {"in": values, "out": outs, "temporary": temporaries, "constant": low.constants}
    for step in low.steps:
        _run(step, buffers, cuts, host or features(), sizes)
    for i, memory in enumerate(marked):
        memory.check(f"result {i}")
    return outs


def pieces(graph: Graph, values: Sequence[Array], cuts: Sequence[float]) -> list[Array]:
    """Which elements of the first result each piece of the units writes, for a lowering of one step."""
    (step,) = lowered(graph).steps
    written = []
    for begin, end in pairwise([0.0, *cuts, 1.0]):
        outs = [np.full(t.shape, 77).astype(t.dtype) for t in graph.output_types]
        _run(step, {"in": values, "out": outs}, (), features(), {}, (begin, end))
        written.append(outs[0] != np.asarray(77).astype(outs[0].dtype))
    return written


def _poisoned(bytes: int) -> Array:
    out = empty(max(bytes, 64), np.uint8)
    out[...] = 0xFF
    return out


def _run(
    step: Step, buffers: Mapping[str, Sequence[Array]], cuts: Sequence[float], host: Host, sizes: Any,
    part: tuple[float, float] = (0.0, 1.0),
) -> None:  # fmt: skip
    def word(a: Any) -> int:
        if isinstance(a, Operand):
            return int(buffers[a.role][a.index].ctypes.data + substitute(a.offset, sizes))
        return int(substitute(a, sizes))

    words = np.array([word(a) for a in step.args], np.int64)
    units = substitute(step.units, sizes)
    ends = sorted({int(units * c) for c in (*part, *cuts)})
    fn, _library = _entry(step.kernel.text, step.kernel.level, host)
    for begin, end in pairwise(ends):
        scratch = Marked(step.kernel.scratch)
        fn(words.ctypes.data, begin, end, scratch.address)
        scratch.check("scratch")


# -- judging -----------------------------------------------------------------------------------------------


def random_matrix(rng: np.random.Generator, shape: Sequence[int], dtype: Any) -> Array:
    dtype = np.dtype(dtype)
    if is_integer(dtype):
        info = ml_dtypes.iinfo(dtype)
        low, high = max(int(info.min), -(2**62)), min(int(info.max), 2**62)
        return np.asarray(rng.integers(low, high, tuple(shape), endpoint=True)).astype(dtype)
    numbers = rng.standard_normal(tuple(shape)) * 2.0 ** rng.integers(-3, 3, tuple(shape))
    return np.asarray(numbers, dtype)


def matrices_of(graph: Graph, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [random_matrix(rng, t.shape, t.dtype) for t in graph.input_types]


def unit_of(dtype: DType) -> float:
    return float(ml_dtypes.finfo(dtype).eps) / 2


def assert_product(found: Array, x: Array, y: Array, contract: Axes, batch: Axes = NO_AXES) -> None:
    """Integers equal; floats within (K+2)·u·sum|terms| of float64, and the rounding of the result."""
    attributes = {"contract": contract, "batch": batch}
    rule = table["dot"].evaluate
    if is_integer(found.dtype):
        expected = rule(x, y, **attributes, dtype=found.dtype)
        np.testing.assert_array_equal(found, expected)
        return
    wide = [a.astype(np.float64) for a in (x, y)]
    expected = rule(*wide, **attributes, dtype=np.dtype(np.float64))
    size = rule(*(abs(a) for a in wide), **attributes, dtype=np.dtype(np.float64))
    depth = int(np.prod([x.shape[a] for a in contract[0]])) + 2
    sums = np.dtype(np.float64) if found.dtype == np.float64 else np.dtype(np.float32)
    bound = depth * unit_of(sums) * size + 2 * unit_of(found.dtype) * abs(expected)
    if found.dtype.itemsize < 4:
        bound = bound + float(ml_dtypes.finfo(found.dtype).smallest_subnormal)
    assert found.shape == expected.shape
    wrong = ~(abs(found.astype(np.float64) - expected) <= bound)
    assert not wrong.any(), f"{wrong.sum()} of {wrong.size} wrong, first at {np.argwhere(wrong)[0]}"
