"""tables: what is computed of one byte between two grids, bit for bit as its equations give it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from trilobite.base.dtypes import float32, int8, int32, uint8
from trilobite.compiler.graph.pipeline import Options
from trilobite.compiler.graph.rewrite import Counters
from trilobite.compiler.targets.cpu.passes.tables import tables
from trilobite.compiler.targets.cpu.target import compile_graph
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Dense, Equation, Graph, Var
from trilobite.ir.primitive import result_types
from trilobite.ir.primitives import table
from trilobite.ir.types import Symbol, TensorType, affine
from trilobite.native import host
from trilobite.native.host import features

Array = np.ndarray[Any, Any]
ALL = np.arange(256, dtype=np.uint8)


@pytest.fixture(params=["here", "from memory"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """This machine, or as if it had no tables in registers."""
    if request.param != "here":
        triple, cpu, flags, version = host._facts()
        plain = flags.replace("+avx512vbmi", "-avx512vbmi")
        monkeypatch.setattr(host, "_facts", lambda: (triple, cpu, plain, version))
        features.cache_clear()
    yield request.param
    monkeypatch.undo()
    features.cache_clear()


class Builder:
    def __init__(self) -> None:
        self.equations: list[Equation] = []

    def __call__(self, name: str, *inputs: Var, **attributes: Any) -> Var:
        (kind,) = result_types(table[name], [v.type for v in inputs], attributes)
        out = Var(kind)
        self.equations.append(Equation(table[name], inputs, attributes, (out,)))
        return out

    def constant(self, value: Any, dtype: Any) -> Var:
        return self("constant", value=Dense(np.asarray(value, dtype)))

    def number(self, like: Var, value: float) -> Var:
        return self("full", shape=like.type.shape, dtype=float32, value=value)

    def real(self, q: Var, scale: float, zero: int, axis: int | None = None) -> Var:
        grid = self.constant(scale, float32), self.constant(zero, q.type.dtype)
        return self("dequantise", q, *grid, axis=axis)

    def grid(self, x: Var, scale: float, zero: int, dtype: Any) -> Var:
        return self(
            "quantise", x, self.constant(scale, float32), self.constant(zero, dtype), axis=None, dtype=dtype
        )


def sigmoid(b: Builder, x: Var) -> Var:
    one = b.number(x, 1.0)
    return b("div", one, b("add", one, b("exp", b("neg", x))))


def silu_on_grids(b: Builder, x: Var) -> Var:
    half = b.real(b.grid(sigmoid(b, x), 1 / 256, -128, int8), 1 / 256, -128)
    return b("mul", x, half)


FUNCTIONS: dict[str, Callable[[Builder, Var], Var]] = {
    "silu": silu_on_grids,
    "gelu": lambda b, x: b("mul", x, b("add", b("erf", x), b.number(x, 1.0))),
    "overflows": lambda b, x: b("sub", b("exp", b("mul", x, b.number(x, 90.0))), b("exp", x)),
    "nan": lambda b, x: b("log", x),
    "leaky": lambda b, x: b("select", b("lt", x, b.number(x, 0.0)), b("mul", x, b.number(x, 0.1)), x),
}


def graph_of(function: str, shape: tuple[Any, ...], source: Any, target: Any, seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    b, q = Builder(), Var(TensorType(shape, source))
    ends = [np.iinfo(t) for t in (source, target)]
    zeros = [int(rng.integers(i.min, i.max + 1)) for i in ends]
    x = b.real(q, float(rng.uniform(0.01, 0.1)), zeros[0])
    out = b.grid(FUNCTIONS[function](b, x), float(rng.uniform(0.01, 0.1)), zeros[1], target)
    return Graph((q,), b.equations, (out,))


def names(graph: Graph) -> list[str]:
    return [e.primitive.name for e in graph.equations if e.primitive.name not in ("constant", "full")]


@pytest.mark.parametrize(("source", "target"), [(int8, int8), (uint8, int8), (int8, uint8), (uint8, uint8)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_code(function: str, source: Any, target: Any, machine: str) -> None:
    if machine != "here" and function == "leaky":
        pytest.skip("cheaper than a table in memory")
    for seed in range(3):
        graph = graph_of(function, (256,), source, target, seed)
        found = tables(graph)
        assert names(found) == ["lookup"]
        x = ALL.view(source)
        (expected,) = run(graph, [x])
        np.testing.assert_array_equal(run(found, [x])[0], expected)
        (native,) = compile_graph(graph, Options())([x])
        assert native.dtype == expected.dtype
        np.testing.assert_array_equal(native, expected)


@pytest.mark.parametrize("shape", [(), (1,), (63,), (65,), (3, 7, 11), (40000,), (0, 4)], ids=str)
def test_every_size(shape: tuple[int, ...], machine: str) -> None:
    graph = graph_of("silu", shape, int8, uint8, 5)
    x = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    (native,) = compile_graph(graph, Options())([x])
    np.testing.assert_array_equal(native, run(graph, [x])[0])


def test_sizes_that_vary(machine: str) -> None:
    n = affine(0, [(Symbol("n", 1, 10**6), 1)])
    graph = graph_of("silu", (n, 7), int8, int8, 5)
    compiled = compile_graph(graph, Options())
    for size in (1, 9, 3000):
        x = np.random.default_rng(size).integers(-128, 128, (size, 7)).astype(np.int8)
        np.testing.assert_array_equal(compiled([x])[0], run(graph, [x])[0])


@pytest.mark.parametrize("columns", [1, 5, 16, 33, 64, 100])
@pytest.mark.parametrize("kind", ["dot", "conv", "channelwise"])
def test_behind_products(kind: str, columns: int, machine: str) -> None:
    rng = np.random.default_rng(columns)
    b = Builder()
    if kind == "dot":
        x, w = Var(TensorType((9, 24), int8)), Var(TensorType((24, columns), int8))
        total = b("dot", x, w, contract=((1,), (0,)), batch=((), ()), dtype=int32)
    else:
        groups = columns if kind == "channelwise" else 1
        depth = columns if kind == "channelwise" else 8
        x = Var(TensorType((2, depth, 6, 7), int8))
        w = Var(TensorType((columns, depth // groups, 3, 3), int8))
        window = {"stride": (1, 1), "low": (1, 1), "high": (1, 1), "x_dilation": (1, 1), "w_dilation": (1, 1)}
        total = b("conv", x, w, groups=groups, dtype=int32, **window)
    q = b("requantise", total, b.constant(0.002, float32), b.constant(3, int8), axis=None, dtype=int8)
    y = b.grid(silu_on_grids(b, b.real(q, 0.05, 3)), 0.03, -90, int8)
    graph = Graph((x, w), b.equations, (y,))
    arrays = [rng.integers(-128, 128, v.type.shape).astype(np.int8) for v in (x, w)]
    (native,) = compile_graph(graph, Options(stable=frozenset({1})))(arrays)
    (expected,) = run(graph, arrays)
    np.testing.assert_array_equal(native, expected)
    assert len(np.unique(expected)) > 5


def test_what_reads_more_than_one_byte_stays() -> None:
    b = Builder()
    x, y = (Var(TensorType((4, 256), int8)) for _ in range(2))
    both = b.grid(b("exp", b("add", b.real(x, 0.1, 0), b.real(y, 0.1, 0))), 0.1, 0, int8)
    grid = b.constant(np.full(4, 0.1), float32), b.constant(np.zeros(4), int8)
    along = b.grid(b("exp", b("dequantise", x, *grid, axis=0)), 0.1, 0, int8)
    row = Var(TensorType((256,), int8))
    spread = b("broadcast", b("exp", b.real(row, 0.1, 0)), shape=(4, 256), axes=(1,))
    wide = b.grid(b("mul", b.real(x, 0.1, 0), spread), 0.1, 0, int8)
    graph = Graph((x, y, row), b.equations, (both, along, wide))
    counters = Counters()
    assert "lookup" not in names(tables(graph, counters))
    assert not counters["lookup"]


def test_a_chain_that_others_read_on_the_way() -> None:
    b = Builder()
    x, y = (Var(TensorType((256,), int8)) for _ in range(2))
    half = b.grid(sigmoid(b, b.real(x, 0.05, 3)), 1 / 256, -128, int8)
    outside = b.grid(b("mul", b.real(half, 1 / 256, -128), b.real(y, 0.1, 0)), 0.1, 0, int8)
    later = b.grid(b("exp", b.real(half, 1 / 256, -128)), 0.02, -100, int8)
    graph = Graph((x, y), b.equations, (half, outside, later))
    found = tables(graph)
    assert names(found).count("lookup") == 2
    arrays = [ALL.view(np.int8), ALL[::-1].copy().view(np.int8)]
    for a, c, e in zip(
        run(found, arrays), compile_graph(graph, Options())(arrays), run(graph, arrays), strict=True
    ):
        np.testing.assert_array_equal(a, e)
        np.testing.assert_array_equal(c, e)
