"""Emitted C compiles and gives what the interpreter of the primitives gives."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compiler.arrays import assert_same_bits, random_array
from tests.compiler.loops.regions import Region, fusion_of, made, normalised, reference, size_of
from tests.compiler.loops.test_movement import MOVES, PLACES
from trilobite.base.errors import DTypeError
from trilobite.compiler.program.kernels import Operand
from trilobite.compiler.targets.cpu.loops.c_scalars import PRELUDE
from trilobite.compiler.targets.cpu.loops.emit_c import c_function
from trilobite.compiler.targets.cpu.loops.ir import Nest
from trilobite.compiler.targets.cpu.nests.lower import lower, nests_of
from trilobite.ir.graph import Graph
from trilobite.ir.types import dim

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_cc = pytest.mark.skipif(CC is None, reason="there is no C compiler here")


def emit_c(nest: Nest) -> str:
    """A nest as a file of its own."""
    return f"{PRELUDE}\n{c_function(nest)}"


def run_c(region: Graph, values: Any, folder: Path, sizes: Any = None) -> list[Any]:
    """Every nest of a region as one shared library, called as its kernels are."""
    lowering, known = lower(fusion_of(region)), sizes or {}
    outputs = [np.zeros([size_of(d, known) for d in t.shape], t.dtype) for t in region.output_types]
    temporaries = [np.zeros(size_of(b, known) + 64, np.uint8) for b in lowering.temporaries]
    memory: dict[str, Any] = {"in": [np.ascontiguousarray(v) for v in values], "out": outputs,
                              "temporary": temporaries, "constant": lowering.constants}  # fmt: skip
    for k, (nest, step) in enumerate(zip(nests_of(region), lowering.steps, strict=True)):
        source, library = folder / f"n{k}.c", folder / f"n{k}.so"
        source.write_text(emit_c(nest), encoding="utf-8")
        command = [str(CC), "-O1", "-Wall", "-Werror", "-Wno-unused-function", "-ffp-contract=off", "-shared",
                   "-fPIC", "-o", str(library), str(source), "-lm"]  # fmt: skip
        subprocess.run(command, check=True)
        words = [
            memory[a.role][a.index].ctypes.data + size_of(a.offset, known)
            if isinstance(a, Operand)
            else size_of(a, known)
            for a in step.args
        ]
        args = (ctypes.c_int64 * max(len(words), 1))(*words)
        scratch = np.zeros(step.kernel.scratch + 64, np.uint8)
        entry = ctypes.CDLL(str(library)).entry
        entry.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
        entry(ctypes.addressof(args), 0, size_of(step.units, known), scratch.ctypes.data)
    return outputs


@needs_cc
@pytest.mark.parametrize(
    "name", ["transpose large", "pad of pad", "dilate and crop", "concatenate", "reverse"]
)
def test_data_movement_in_c(name: str, tmp_path: Path) -> None:
    build, types = MOVES[name]
    region, values = made(build, *types)
    for a, b in zip(run_c(region, values, tmp_path), reference(region, values), strict=True):
        assert_same_bits(a, b)


@needs_cc
@pytest.mark.parametrize("name", ["gather_nd", "gather by uint64", "dynamic_update_slice"])
def test_computed_places_in_c(name: str, tmp_path: Path) -> None:
    build, types = PLACES[name]
    region, values = made(build, *types)
    for a, b in zip(run_c(region, values, tmp_path), reference(region, values), strict=True):
        assert_same_bits(a, b)


@needs_cc
@pytest.mark.parametrize(("shape", "axes"), [((11, 130), (1,)), ((64, 9, 11, 13), (0, 1, 2))])
def test_normalisation_in_c(shape: Any, axes: Any, tmp_path: Path) -> None:
    region, values = made(lambda r, x, g: normalised(r, x, g, axes), shape, shape[-1:], wild=False)
    for a, b in zip(run_c(region, values, tmp_path), reference(region, values), strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-5, atol=3e-5)


@needs_cc
def test_integers_casts_and_small_floats_in_c(tmp_path: Path) -> None:
    def build(r: Region, x: Any, y: Any, h: Any, b: Any) -> Any:
        mixed = r.cast(r.mul(r.add(x, x), r.neg(x)), dtype=np.dtype("uint8"))
        up = r.cast(y, dtype=np.dtype("int32"))
        return (
            mixed, up, r.add(h, r.cast(y, dtype=h.type.dtype)), r.mul(b, b), r.reduce_sum(x, axes=(0,)),
            r.reduce_sum(h, axes=(0,)), r.argmax(h, axis=0), r.maximum(y, r.neg(y)),
            r.cast(b, dtype=h.type.dtype), r.select(r.lt(y, r.neg(y)), x, r.abs(x)),
        )  # fmt: skip

    types = [((45,), d) for d in ("int8", "float32", "float16", "bfloat16")]
    region, values = made(build, *types, wild=False)
    for a, b in zip(run_c(region, values, tmp_path), reference(region, values), strict=True):
        assert_same_bits(a, b)


@needs_cc
def test_symbolic_sizes_in_c(tmp_path: Path) -> None:
    n = dim("n", max=50)
    r = Region()
    x = r.input((n, 5))
    square = r.spread(r.reduce_max(x, axes=(1,)), (3, n, n), 0, 1)
    region = r.graph(r.transpose(r.neg(x), axes=(1, 0)), r.reduce_max(x, axes=(0,)), square)
    value = random_array(np.random.default_rng(0), (37, 5), np.dtype("float32"), wild=False)
    ((symbol, _),) = n.terms
    for a, b in zip(run_c(region, [value], tmp_path, {symbol: 37}), reference(region, [value]), strict=True):
        assert_same_bits(a, b)


def test_c_is_readable() -> None:
    region, _ = made(lambda r, x, y: r.mul(x, r.broadcast(y, shape=(4, 8), axes=(1,))), (4, 8), (8,))
    (nest,) = nests_of(region)
    text = emit_c(nest)
    assert "const float *x0 = (const float *)args[0];" in text
    assert "for (int64_t o0 = begin; o0 < end; o0++) { /* units */" in text
    assert "const float v2 = v0 * v1;" in text and "y0[8 * o0 + o1] = v2;" in text


def test_c_refuses_formats_it_has_no_type_for() -> None:
    region, _ = made(lambda r, x: r.neg(x), ((4,), "float8_e5m2"))
    (nest,) = nests_of(region)
    with pytest.raises(DTypeError) as caught:
        emit_c(nest)
    assert "there is no C type for float8_e5m2" in str(caught.value)
    assert "remedy: read the loops or the LLVM text" in str(caught.value)
