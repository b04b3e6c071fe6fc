"""A whole graph as C: it compiles without a warning, and gives what the graph means."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.arrays import assert_same_bits, random_array
from tests.compiler.loops.regions import Region
from tests.programs import networks, plain
from tests.programs.harness import programs
from trilobite.base.dtypes import as_dtype
from trilobite.base.errors import DeviceError
from trilobite.cli.networks import network
from trilobite.compiler.graph.pipeline import Options
from trilobite.compiler.targets.cpu.tools.c_program import c_program
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.types import dim

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_cc = pytest.mark.skipif(CC is None, reason="there is no C compiler here")
PROGRAMS = {
    name: p for name, p in programs.items() if p.make.__module__ in (networks.__name__, plain.__name__)
}
FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Werror", "-ffp-contract=off", "-shared", "-fPIC")


def graph_of(fn: Callable[..., Any], *args: Any) -> Graph:
    found: Graph = tb.jit(fn).lower(*args).graph
    return found


def values_for(graph: Graph, seed: int) -> list[Any]:
    """Floats of both signs, small where many are added; whole numbers that are places in anything."""
    rng = np.random.default_rng(seed)
    out = []
    for t in graph.input_types:
        shape = tuple(map(int, t.shape))
        if t.dtype.kind in "iub":
            out.append(rng.integers(0, 2, shape).astype(t.dtype))
        else:
            out.append(np.asarray(rng.standard_normal(shape) / max((1, *shape[1:])) ** 0.5).astype(t.dtype))
    return out


def aligned(size: int) -> Any:
    raw = np.full(size + 64, 0xA5, np.uint8)
    return raw[-raw.ctypes.data % 64 :]


def run_c(graph: Graph, values: list[Any], folder: Path) -> list[Any]:
    text = c_program(graph, Options())
    source, library = folder / "program.c", folder / "program.so"
    source.write_text(text, encoding="utf-8")
    subprocess.run([str(CC), *FLAGS, "-o", str(library), str(source), "-lm"], check=True)
    sizes = text.split("ARENA_BYTES = ")[1].split(" }")[0].split(", SCRATCH_BYTES = ")
    outputs = [np.zeros(t.shape, t.dtype) for t in graph.output_types]
    held = [np.ascontiguousarray(v) for v in values]
    pointers = [(ctypes.c_void_p * max(len(a), 1))(*(x.ctypes.data for x in a)) for a in (held, outputs)]
    memory = [aligned(int(n)) for n in sizes]
    ctypes.CDLL(str(library)).run(*pointers, *(ctypes.c_void_p(m.ctypes.data) for m in memory))
    return outputs


def compare(found: list[Any], expected: list[Any], tolerance: float) -> None:
    for a, b in zip(found, expected, strict=True):
        if b.dtype.kind in "iub":
            np.testing.assert_array_equal(a, b)
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        scale = max(1.0, float(np.nan_to_num(np.abs(b), posinf=0).max(initial=0)))
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale)


def check(graph: Graph, folder: Path, seed: int = 0, tolerance: float = 2e-5) -> None:
    values = values_for(graph, seed)
    compare(run_c(graph, values, folder), run(graph, values), tolerance)


@needs_cc
@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"branches_and_loops"}))
def test_programs_in_c(name: str, tmp_path: Path) -> None:
    tb.manual_seed(0)
    built = PROGRAMS[name].make()
    check(graph_of(built.fn, *built.inputs(0)), tmp_path, tolerance=2e-4)


@needs_cc
@pytest.mark.parametrize("name", ["lenet", "char_lstm"])
def test_networks_in_c(name: str, tmp_path: Path) -> None:
    check(network(name, 2, training=False).lowered()[0], tmp_path, tolerance=1e-4)


Axes = tuple[tuple[int, ...], tuple[int, ...]]


@needs_cc
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int8", "uint16", "int64"])
def test_products_in_c(dtype: str, tmp_path: Path) -> None:
    kind = as_dtype(dtype)
    r = Region()
    x, y = r.input((3, 5, 2, 7), kind), r.input((7, 3, 4, 2), kind)
    both: Axes = ((0, 2), (1, 3))
    results = (
        r.dot(x, y, contract=((3,), (0,)), batch=both, dtype=kind),
        r.dot(x, y, contract=((3, 0), (0, 1)), batch=((), ()), dtype=kind),
        r.dot(x, y, contract=((), ()), batch=((0,), (1,)), dtype=kind),
    )
    graph = r.graph(*results)
    rng = np.random.default_rng(3)
    values = [random_array(rng, [int(d) for d in t.shape], t.dtype, wild=False) for t in graph.input_types]
    compare(
        run_c(graph, values, tmp_path),
        run(graph, values),
        {2: 1e-2, 4: 1e-5, 8: 1e-13}[max(kind.itemsize, 2)],
    )


def windows(rank: int, seed: int) -> dict[str, tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    draw = {"stride": (1, 4), "low": (0, 3), "high": (0, 3), "x_dilation": (1, 3), "w_dilation": (1, 3)}
    return {name: tuple(int(n) for n in rng.integers(*span, rank)) for name, span in draw.items()}


@needs_cc
@pytest.mark.parametrize(("rank", "groups", "seed"), [(1, 1, 0), (2, 1, 1), (2, 3, 2), (2, 6, 3), (3, 2, 4)])
def test_convolutions_and_their_gradients_in_c(rank: int, groups: int, seed: int, tmp_path: Path) -> None:
    window = windows(rank, seed)
    f32 = np.dtype("float32")
    r = Region()
    space, kernel = (7, 6, 8)[:rank], (3, 2, 3)[:rank]
    x, w = r.input((2, 6, *space), f32), r.input((6, 6 // groups, *kernel), f32)
    y = r.conv(x, w, groups=groups, dtype=f32, **window)
    t = r.input(y.type.shape, f32)
    graph = r.graph(
        y,
        r.conv_input_grad(t, w, space=space, groups=groups, dtype=f32, **window),
        r.conv_weight_grad(x, t, kernel=kernel, groups=groups, dtype=f32, **window),
    )
    check(graph, tmp_path, seed)


@needs_cc
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_windows_in_c(dtype: str, tmp_path: Path) -> None:
    kind = np.dtype(dtype)
    window = {"size": (3, 2), "stride": (2, 1), "low": (2, 0), "high": (2, 1), "dilation": (2, 1)}
    r = Region()
    x = r.input((2, 5, 4), kind)
    where = r.window_argmax(x, **window)
    t = r.input(where.type.shape, kind)
    graph = r.graph(
        *(r.window_reduce(x, kind=how, **window) for how in ("max", "min", "sum")),
        where,
        r.window_gather(x, where, rank=2),
        r.window_scatter(t, where, plane=(5, 4), disjoint=False),
    )
    rng = np.random.default_rng(5)
    values = [random_array(rng, [int(d) for d in v.shape], v.dtype, wild=False) for v in graph.input_types]
    values[0] = np.round(values[0] % 5).astype(kind)  # equal numbers, of which the first is chosen
    if kind.kind == "f":
        values[0][0, 2, 1] = np.nan
    compare(run_c(graph, values, tmp_path), run(graph, values), 2e-3)


@needs_cc
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "float32", "float64"])
def test_numbers_at_their_edges_in_c(dtype: str, tmp_path: Path) -> None:
    kind = np.dtype(dtype)
    r = Region()
    x, y = r.input((400,), kind), r.input((400,), kind)
    results = [getattr(r, name)(x, y) for name in ("floor_div", "rem")]
    if kind.kind == "f":
        results += [r.copysign(x, y), r.signbit(x), r.bitcast(x, dtype=np.dtype(f"int{8 * kind.itemsize}"))]
    else:
        results += [r.shift_left(x, y), r.shift_right(x, y), r.popcount(x), r.clz(x)]
    graph = r.graph(*results)
    rng = np.random.default_rng(9)
    values = [random_array(rng, (400,), kind) for _ in range(2)]
    values[1][:120] = rng.integers(0 if kind.kind == "u" else -3, 70, 120)
    for got, expected in zip(run_c(graph, values, tmp_path), run(graph, values), strict=True):
        assert_same_bits(got, expected)


@needs_cc
@pytest.mark.parametrize("index", [-3, 0, 1, 2, 9])
def test_control_flow_in_c(index: int, tmp_path: Path) -> None:
    def f(i: tb.Tensor, xs: tb.Tensor) -> Any:
        def step(c: tb.Tensor, x: tb.Tensor) -> Any:
            y = tb.while_loop(lambda v: tb.max(tb.abs(v)) > 0.5, lambda v: v * 0.75, x)
            return tb.switch(i, [lambda u: u + y, lambda u: u - y, lambda u: y], c), y

        return tb.scan(step, xs[0], xs)

    graph = graph_of(f, tb.tensor(np.int32(0)), tb.zeros((5, 3)))
    values = [np.asarray(index, np.int32), values_for(graph, 3)[1]]
    compare(run_c(graph, values, tmp_path), list(run(graph, values)), 1e-6)


def test_what_has_no_loops_is_refused_with_its_line() -> None:
    graph = graph_of(lambda x: tb.linalg.svd(x)[1], tb.tensor(np.eye(3, dtype=np.float32)))
    with pytest.raises(DeviceError, match=r"there is no C for svd: .*\n.*where: .*test_c_program\.py"):
        c_program(graph, Options())


def test_symbolic_sizes_are_refused() -> None:
    r = Region()
    x = r.input((dim("n", max=9), 2))
    with pytest.raises(DeviceError, match="has symbolic sizes: n"):
        c_program(r.graph(r.neg(x)), Options())


@needs_cc
@pytest.mark.parametrize(
    "fn",
    [lambda x: x @ x, lambda x: x.T @ x + x, lambda x: tb.nn.functional.conv2d(x[None, None], x[None, None])],
    ids=["square", "gram", "convolution"],
)
def test_one_value_as_several_operands(fn: Callable[..., Any], tmp_path: Path) -> None:
    check(graph_of(fn, tb.ones((5, 5))), tmp_path)
