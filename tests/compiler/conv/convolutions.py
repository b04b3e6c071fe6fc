"""Run the lowering of a channels-last equation natively, in any cut of its units, and judge it by float64."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from tests.compiler.fences import Marked
from trilobite.base.dtypes import SMALL_FLOATS, DType, accumulator, is_integer
from trilobite.compiler.program.kernels import Lowering, Operand
from trilobite.compiler.targets.cpu.contraction import convolution as conv
from trilobite.compiler.targets.cpu.contraction.pooling import lower as pooling
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import result_types, table
from trilobite.ir.primitives.fusion import fusion
from trilobite.ir.types import Symbol, TensorType, substitute, type_of
from trilobite.native.host import Host, features
from trilobite.native.memory import empty
from trilobite.native.objects import compile_object, load, symbol

Array = np.ndarray[Any, Any]


def region(name: str, types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Graph:
    """A graph of one equation."""
    inputs = tuple(Var(t) for t in types)
    outputs = tuple(Var(t) for t in result_types(table[name], list(types), attributes))
    return Graph(inputs, (Equation(table[name], inputs, dict(attributes), outputs),), outputs)


def room(graph: Graph) -> Any:
    windows = any(e.primitive.name.startswith("window") for e in graph.equations)
    return pooling if windows else conv


def lowered(graph: Graph) -> Lowering:
    why = room(graph).accepts(graph)
    assert why is None, why
    found: Lowering = room(graph).lower(
        Equation(fusion, graph.inputs, {"kind": "conv", "region": graph}, graph.outputs)
    )
    return found


@lru_cache(maxsize=256)
def _entry(text: str, level: int, host: Host) -> tuple[Any, Any]:
    name = symbol(text, level)
    library = load({name: compile_object(text, level, host)})
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    return kind(library[name]), library


def _owned(a: Array) -> Array:
    out = empty(a.shape, a.dtype)
    out[...] = a
    return out


def native(
    graph: Graph, values: Sequence[Array], pieces: int = 1, sizes: Mapping[Symbol, int] | None = None,
    closed: bool = False,
) -> list[Array]:  # fmt: skip
    """The results, units cut into so many pieces, run from the last to the first; scratch and results are
    full of garbage before, and what stands around them is as before afterwards. Operands are copied to where
    a line of the cache begins, unless they are `closed`.
    """
    plan = lowered(graph)
    known = sizes or {}
    marked: dict[str, list[Marked]] = {
        "out": [],
        "temporary": [Marked(int(substitute(n, known))) for n in plan.temporaries],
    }
    results = []
    for t in graph.output_types:
        shape = tuple(substitute(t.shape, known))
        marked["out"].append(Marked(int(np.prod(shape)) * t.dtype.itemsize, 0xA5))
        results.append(marked["out"][-1].array(shape, t.dtype))
    constants = [_owned(np.asarray(c)) for c in plan.constants]
    buffers = {
        "in": [v if closed else _owned(v) for v in values], "out": results, "constant": constants,
        "temporary": [m.bytes for m in marked["temporary"]],
    }  # fmt: skip
    for step in plan.steps:
        args = [
            buffers[a.role][a.index].ctypes.data + int(substitute(a.offset, known))
            if isinstance(a, Operand)
            else int(substitute(a, known))
            for a in step.args
        ]
        words, units = np.array(args, np.int64), int(substitute(step.units, known))
        entry, _ = _entry(step.kernel.text, step.kernel.level, features())
        cuts = sorted({0, units, *(units * i // pieces for i in range(pieces))})
        for first, last in reversed(list(pairwise(cuts))):
            scratch = Marked(step.kernel.scratch)
            entry(words.ctypes.data, first, last, scratch.address)
            scratch.check(f"the scratch of {step.kernel.name}")
    for role, memories in marked.items():
        for i, memory in enumerate(memories):
            memory.check(f"{role} {i}")
    return results


def random(rng: np.random.Generator, shape: Sequence[int], dtype: DType) -> Array:
    """Signed numbers of widely different sizes; small integers."""
    if is_integer(dtype):
        return rng.integers(0 if dtype.kind == "u" else -100, 100, tuple(shape)).astype(dtype)
    size = np.exp2(rng.uniform(-4, 4, tuple(shape)))
    return (rng.standard_normal(tuple(shape)) * size).astype(dtype)


def check(graph: Graph, values: Sequence[Array], terms: int, pieces: Sequence[int] = (1, 3)) -> list[Array]:
    """Within c*u*sum|terms| of float64 (integers in every bit), the same bits for every cut."""
    outs = [native(graph, values, n) for n in pieces]
    for other in outs[1:]:
        for a, b in zip(outs[0], other, strict=True):
            assert a.tobytes() == b.tobytes(), "bits depend on how units are cut"
    want, size = _precise(graph, values)
    for got, w, s in zip(outs[0], want, size, strict=True):
        if is_integer(got.dtype):
            np.testing.assert_array_equal(got, w)
            continue
        unit = np.finfo(accumulator(got.dtype)).eps / 2
        room_ = (terms + 4) * unit * s + _rounding(got.dtype) * np.abs(w)
        assert (np.abs(got.astype(np.float64) - w) <= room_ + 1e-300).all()
    return outs[0]


def _rounding(dtype: DType) -> float:
    return float(np.ldexp(1.0, -8)) if dtype in SMALL_FLOATS else 0.0


def _precise(graph: Graph, values: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Results in float64, and the same sums over absolute values; integers as they are."""
    if is_integer(graph.output_types[0].dtype):
        want = run(graph, [np.asarray(v) for v in values])
        return want, want
    wide = [v.astype(np.float64) for v in values]
    double = _doubled(graph)
    return run(double, wide), run(double, [np.abs(v) for v in wide])


def _doubled(graph: Graph) -> Graph:
    """The same single equation over float64."""
    (e,) = graph.equations
    attributes = dict(e.attributes)
    if "dtype" in attributes:
        attributes["dtype"] = np.dtype(np.float64)
    types = [TensorType(v.type.shape, np.dtype(np.float64)) for v in e.inputs]
    return region(e.primitive.name, types, attributes)


def types_of(values: Sequence[Array]) -> list[TensorType]:
    return [type_of(v) for v in values]
