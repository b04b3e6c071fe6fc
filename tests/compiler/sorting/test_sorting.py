"""`sort` and `top_k` as kernels: every bit as the rules of the primitives give it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trilobite.base import dtypes as dt
from trilobite.base.dtypes import ALL, COMPLEX, is_float, is_integer
from trilobite.compiler.graph.fuse import fuse
from trilobite.compiler.targets.cpu.kinds import kinds as every_kind
from trilobite.compiler.targets.cpu.sorting.candidates import FEW, FEWEST
from trilobite.compiler.targets.cpu.sorting.lower import lower_root
from trilobite.compiler.targets.cpu.sorting.rounds import MOST
from trilobite.compiler.targets.cpu.target import compile_graph
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import result_types, table
from trilobite.ir.types import Symbol, TensorType, affine, type_of
from trilobite.native.host import AARCH64, SSE2, Host
from trilobite.native.objects import assembly

Array = np.ndarray[Any, Any]
ORDERED = sorted(ALL - COMPLEX, key=str)
SHAPES = [
    ((1,), 0),
    ((128,), 0),
    ((129,), 0),
    ((5, 33), 1),
    ((40, 6), 0),
    ((3, 300, 2), 1),
    ((2, 320), 1),
    ((321,), 0),
    ((2, 1000), 1),
    ((4, 0), 1),
    ((0, 5), 1),
]


def graph_of(name: str, types: list[TensorType], outputs: tuple[int, ...] = (), **attributes: Any) -> Graph:
    """One equation; of its results those that are asked for."""
    inputs = tuple(Var(t) for t in types)
    results = tuple(Var(t) for t in result_types(table[name], types, attributes))
    kept = tuple(results[i] for i in outputs) if outputs else results
    return Graph(inputs, (Equation(table[name], inputs, attributes, results),), kept)


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """Many equal ones; of floats both zeros, infinities and NaN with either sign; all bits of integers."""
    if dtype == dt.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if is_integer(dtype):
        if dtype in (dt.int4, dt.uint4):
            return rng.integers(0, 8, shape).astype(np.int8).astype(dtype)
        info = np.iinfo(dtype)
        wide = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.5, wide, rng.integers(0, 5, shape).astype(dtype))
    plain = np.round(rng.standard_normal(shape) * 4) * np.exp2(rng.integers(-3, 4, shape))
    special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.0], shape)
    with np.errstate(all="ignore"):
        return np.where(rng.random(shape) < 0.4, special, plain).astype(dtype)


def same(got: Array, want: Array) -> bool:
    """Every bit; of small floats any NaN is as good as another, for NumPy's rule goes through float32."""
    if is_float(want.dtype) and want.dtype not in (dt.float32, dt.float64):
        nan = np.isnan(want.astype(np.float32))
        if not np.array_equal(nan, np.isnan(got.astype(np.float32))):
            return False
        got, want = got[~nan], want[~nan]
    return got.tobytes() == want.tobytes()


def check(graph: Graph, given: list[Array]) -> None:
    found = compile_graph(graph)
    for got, want in zip(found(list(given)), run(graph, given), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        assert same(got, want)


def kinds(graph: Graph) -> set[str]:
    """Of the fusions that a graph becomes."""
    known = every_kind()
    return {e.attributes["kind"] for e in fuse(graph, known.policy).equations}


@pytest.mark.parametrize("dtype", ORDERED, ids=str)
def test_sort_of_every_dtype(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    for shape, axis in SHAPES:
        x = values(rng, shape, dtype)
        check(graph_of("sort", [type_of(x)], axis=axis, keys=1), [x])


@pytest.mark.parametrize("dtype", ORDERED, ids=str)
def test_places_of_every_dtype(dtype: Any) -> None:
    rng = np.random.default_rng(2)
    for shape, axis in SHAPES[1:6:2]:
        x = values(rng, shape, dtype)
        places = rng.permutation(max(x.size, 1))[: x.size].reshape(shape)
        check(graph_of("sort", [type_of(x), type_of(places)], axis=axis, keys=1), [x, places])
        check(graph_of("top_k", [type_of(x)], k=shape[axis] // 2, axis=axis), [x])


@pytest.mark.parametrize("types", [("int8", "float32"), ("float64", "uint16", "bool"), ("int64", "int64")])
def test_several_keys(types: tuple[str, ...]) -> None:
    rng = np.random.default_rng(3)
    for shape, axis in SHAPES:
        keys = [
            values(rng, shape, np.dtype(t)) % 3 if t == "int64" else values(rng, shape, np.dtype(t))
            for t in types
        ]
        rest = rng.standard_normal(shape) + 1j
        given = [*keys, rest]
        check(graph_of("sort", [type_of(v) for v in given], axis=axis, keys=len(keys)), given)


@pytest.mark.parametrize("k", [0, 1, 30])
def test_any_number_of_the_largest(k: int) -> None:
    for shape in ((30,), (4, 30), (2, 3, 30)):
        x = values(np.random.default_rng(k), shape, dt.float32)
        check(graph_of("top_k", [type_of(x)], k=k), [x])


@pytest.mark.parametrize("dtype", ORDERED, ids=str)
def test_a_few_of_many(dtype: Any) -> None:
    """Around the share from which on all are sorted; many are equal, or differ in their last bits alone."""
    rng = np.random.default_rng(8)
    alike = np.nextafter(np.float64(1.5), rng.choice([1.0, 2.0], (2, 400))) if dtype == dt.float64 else None
    for x in (values(rng, (3, 400), dtype), values(rng, (1, 3001), dtype), alike):
        if x is not None:
            share = x.shape[-1] // FEW
            for k in (1, 2, 17, share, share + 1):
                check(graph_of("top_k", [type_of(x)], k=k), [x])


def _orders(rng: np.random.Generator, n: int) -> list[Array]:
    """Lanes whose largest numbers lie together, far apart, everywhere or nowhere."""
    rising = np.sort(rng.standard_normal(n))
    periods = np.where(np.arange(n) % 64 == 3, 2.0, 0.0) + rng.integers(0, 3, n)
    return [rising, rising[::-1], periods, np.zeros(n), np.where(np.arange(n) == n - 1, 5.0, 1.0)]


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.uint8, dt.int64, dt.bfloat16], ids=str)
def test_a_few_of_lanes_in_any_order(dtype: Any) -> None:
    """Lengths around whole vectors and around the first that has a bound; lanes side by side as well."""
    rng = np.random.default_rng(11)
    for n in (FEWEST - 1, FEWEST, FEWEST + 1, 127, 333, 1030):
        x = np.stack(_orders(rng, n)).astype(dtype)
        for k in {0, 1, 3, n // FEW}:
            check(graph_of("top_k", [type_of(x)], k=k), [x])
            across = np.ascontiguousarray(x.T)
            check(graph_of("top_k", [type_of(across)], k=k, axis=0), [across])


@pytest.mark.parametrize("dtype", [dt.int32, dt.int64, dt.uint8, dt.float32, dt.float64], ids=str)
def test_a_few_one_after_the_other(dtype: Any) -> None:
    """Around the number of keys up to which all are looked through; most are the lowest number there is."""
    rng = np.random.default_rng(13)
    low = np.iinfo(dtype).min if is_integer(dtype) else -np.inf
    for n in (15, 16, 17, 40, MOST // 3, MOST // 3 + 1):
        x = np.where(rng.random((4, n)) < [[0.0], [0.02], [0.3], [1.0]], values(rng, (4, n), dtype), low)
        for k in (1, 3, 4):
            check(graph_of("top_k", [type_of(x.astype(dtype))], k=k), [x.astype(dtype)])


def test_a_few_of_more_than_are_counted() -> None:
    """So many candidates that they are sorted byte by byte."""
    x = np.random.default_rng(12).standard_normal((2, 5003)).astype(np.float32)
    check(graph_of("top_k", [type_of(x)], k=600), [x])


def argsort(shape: Any, dtype: Any, axis: int, counter: Any = dt.int64) -> Graph:
    x = Var(TensorType(shape, dtype))
    places = Var(TensorType(shape, counter))
    out = (Var(x.type), Var(places.type))
    iota = Equation(table["iota"], (), {"shape": shape, "dtype": counter, "axis": axis}, (places,))
    order = Equation(table["sort"], (x, places), {"axis": axis, "keys": 1}, out)
    return Graph((x,), (iota, order), out[1:])


@pytest.mark.parametrize("counter", [dt.int32, dt.int64, dt.int16], ids=str)
def test_an_argsort_reads_its_keys_alone(counter: Any) -> None:
    x = values(np.random.default_rng(4), (6, 90), dt.float32)
    graph = argsort((6, 90), dt.float32, 1, counter)
    check(graph, [x])
    assert "host" not in kinds(graph)
    if counter != dt.int16:
        assert kinds(graph) == {"sorting"}


def test_one_program_for_all_lengths() -> None:
    n = Symbol("n", 0, 4096)
    shape = (3, affine(0, [(n, 1)]))
    graph = argsort(shape, dt.float32, 1)
    compiled = compile_graph(graph)
    for length in (1, 5, 60, 700):
        x = values(np.random.default_rng(length), (3, length), dt.float32)
        (got,) = compiled([x])
        np.testing.assert_array_equal(got, np.argsort(x, axis=1, kind="stable"))


def test_long_lanes_and_any_number_of_threads() -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((37, 3000)).astype(np.float32)
    graph = graph_of("sort", [type_of(x)], axis=1, keys=1)
    assert kinds(graph) == {"sorting"}
    check(graph, [x])
    deep = rng.integers(-(2**62), 2**62, 70_000)
    check(graph_of("sort", [type_of(deep)], axis=0, keys=1), [deep])


def test_what_is_computed_before_and_after_stays_apart() -> None:
    x = Var(TensorType((4, 50), dt.float32))
    a, b, c = (Var(x.type) for _ in range(3))
    equations = (
        Equation(table["neg"], (x,), {}, (a,)),
        Equation(table["sort"], (a,), {"axis": 1, "keys": 1}, (b,)),
        Equation(table["neg"], (b,), {}, (c,)),
    )
    graph = Graph((x,), equations, (c,))
    check(graph, [values(np.random.default_rng(6), (4, 50), dt.float32)])
    assert kinds(graph) == {"loops", "sorting"}


def test_complex_values_follow_but_are_no_keys() -> None:
    rng = np.random.default_rng(7)
    x, y = rng.integers(0, 9, 40), (rng.standard_normal(40) + 2j).astype(np.complex64)
    check(graph_of("sort", [type_of(x), type_of(y)], axis=0, keys=1), [x, y])


@pytest.mark.parametrize("host", [SSE2, AARCH64], ids=["sse2", "aarch64"])
def test_text_compiles_for_other_machines(host: Host) -> None:
    for dtype in (dt.float64, dt.bfloat16, dt.int8):
        graph = graph_of("sort", [TensorType((4, 9), dtype)] * 2, axis=1, keys=2)
        (step,) = lower_root(graph.equations[0], graph.inputs, graph.outputs, host).steps
        assert "entry" in assembly(step.kernel.text, step.kernel.level, host)
