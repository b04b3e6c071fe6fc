"""Graphs and functions that once went wrong on the target `cpu`, each by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.arrays import assert_same_bits
from trilobite.base import dtypes as dt
from trilobite.compiler.graph.pipeline import Options
from trilobite.compiler.targets.cpu.target import Executable
from trilobite.framework import nn
from trilobite.ir.evaluate import run
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import Affine, Symbol, TensorType

N = Affine(0, [(Symbol("n", 1, 6), 1)])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["floor_div", "rem"])
def test_a_type_without_nan_divides_by_zero(name: str) -> None:
    x, y = (a.astype(np.uint8).view(dt.float4_e2m1fn).reshape(-1) for a in np.mgrid[:16, :16])
    graph = record_graph(lambda x, y: [table[name](x, y)], [TensorType((256,), x.dtype)] * 2, name)
    assert_same_bits(Executable(graph, Options())([x, y])[0], run(graph, [x, y])[0])


def test_a_size_that_only_weights_decide() -> None:
    def body(w: Any, x: Any) -> list[Any]:
        total = table["reduce_sum"](table["exp"](w), axes=(0,))
        return [table["add"](x, total), table["full"](shape=(N,), dtype=dt.float32, value=1)]

    graph = record_graph(body, [TensorType((N, 3), dt.float32), TensorType((3,), dt.float32)], "sized")
    executable = Executable(graph, Options(stable=frozenset([0])))
    for n in (2, 5, 2):
        values = [np.ones((n, 3), np.float32), np.arange(3, dtype=np.float32)]
        found = executable(list(values))
        np.testing.assert_allclose(found[0], np.arange(3) + n * np.e, rtol=1e-6)
        assert found[1].shape == (n,)


def test_a_weights_part_whose_work_has_a_size_that_it_does_not_know() -> None:
    body = record_graph(lambda c: [table["add"](c, c)], [TensorType((), dt.float32)], "body")

    def repeated(w: Any, x: Any) -> list[Any]:
        (c,) = table["scan"](w, body=body, consts=0, carries=1, length=N, reverse=False)
        return [table["add"](x, table["broadcast"](c, shape=(N,), axes=()))]

    graph = record_graph(repeated, [TensorType((), dt.float32), TensorType((N,), dt.float32)], "repeated")
    executable = Executable(graph, Options(stable=frozenset([0])))
    for n in (1, 4):
        assert (
            executable([np.full((), 3, np.float32), np.zeros(n, np.float32)])[0].tolist() == [3.0 * 2**n] * n
        )


@pytest.mark.parametrize("middle", [dt.float32, dt.float64, dt.complex64], ids=str)
@pytest.mark.parametrize("target", [dt.int4, dt.uint8, dt.int8, dt.int16, dt.uint16, dt.int32], ids=str)
def test_integers_by_way_of_floats_do_not_wrap_around(middle: Any, target: Any) -> None:
    x = np.array([0, 5, 7, 8, 127, 128, 255, 256, 32767, 32768, 65535], np.uint16)
    there = lambda x: [table["cast"](table["cast"](x, dtype=middle), dtype=target)]  # noqa: E731
    graph = record_graph(there, [TensorType(x.shape, x.dtype)], "casts")
    assert_same_bits(Executable(graph, Options())([x])[0], run(graph, [x])[0])


def test_sums_into_places_of_a_matrix_with_a_symbolic_size_twice() -> None:
    t, where = TensorType((N, N), dt.bfloat16), TensorType((N, N), dt.int32)
    body = lambda x, i: [table["scatter_along"](x, i, x, axis=0, kind="add")]  # noqa: E731
    graph = record_graph(body, [t, where], "scattered")
    executable = Executable(graph, Options())
    for n in (1, 5, 3):
        x = np.arange(n * n).reshape(n, n).astype(dt.bfloat16)
        i = (np.arange(n * n).reshape(n, n) % n).astype(np.int32)
        assert_same_bits(executable([x, i])[0], run(graph, [x, i])[0])


@pytest.mark.parametrize("dtype", sorted(dt.ALL - dt.COMPLEX, key=str), ids=str)
@pytest.mark.parametrize("name", ["reduce_max", "reduce_min"])
def test_the_extreme_of_nothing_is_the_other_end_of_the_range(name: str, dtype: Any) -> None:
    x = np.zeros((5, 0, 2), dtype)
    graph = record_graph(lambda x: [table[name](x, axes=(1,))], [TensorType(x.shape, dtype)], name)
    (want,) = run(graph, [x])
    if dtype == dt.int4:
        assert want.astype(int).tolist() == [[-8 if name == "reduce_max" else 7] * 2] * 5
    assert_same_bits(Executable(graph, Options())([x])[0], want)


def test_nothing_from_the_end_of_a_slice_with_steps() -> None:
    def body(x: Any) -> list[Any]:
        every_third = table["slice"](x, start=(0, 0), stop=(1, 4), step=(3, 1))
        return [table["slice"](every_third, start=(1, 1), stop=(1, 3), step=(1, 2))]

    graph = record_graph(body, [TensorType((1, 4), dt.float32)], "slices")
    assert Executable(graph, Options())([np.ones((1, 4), np.float32)])[0].shape == (0, 1)


@pytest.mark.parametrize("dtype", [dt.bfloat16, dt.float16], ids=str)
@pytest.mark.parametrize("root", ["dot", "conv"])
def test_a_short_sum_is_rounded_before_it_is_seen(root: str, dtype: Any) -> None:
    """What a cast or a comparison sees of a product is what storing it would give."""

    def body(x: Any, y: Any) -> list[Any]:
        if root == "dot":
            out = table["dot"](x, y, contract=((1,), (0,)), batch=((), ()), dtype=dtype)
        else:
            window = {"stride": (1,), "low": (0,), "high": (0,), "x_dilation": (1,), "w_dilation": (1,)}
            image, kernel = table["reshape"](x, shape=(1, 33, 17)), table["reshape"](y, shape=(17, 33, 1))
            out = table["conv"](image, kernel, **window, groups=1, dtype=dtype)
        return [out, table["cast"](out, dtype=dt.float32), table["floor"](out)]

    shapes = ((33, 17), (17, 33))
    graph = record_graph(body, [TensorType(s, dtype) for s in shapes], "short")
    rng = np.random.default_rng(2)
    found = Executable(graph, Options())([rng.standard_normal(s).astype(dtype) for s in shapes])
    assert found[1].tobytes() == found[0].astype(np.float32).tobytes()
    assert found[2].tobytes() == np.floor(found[0].astype(np.float32)).astype(dtype).tobytes()


@pytest.mark.parametrize("stride", [(2, 2), (1, 2), (3, 2), (2, 4)], ids=str)
@pytest.mark.parametrize("channels", [1, 3, 8])
def test_a_source_spread_apart_under_a_stride(channels: int, stride: tuple[int, int]) -> None:
    """Of the kernel's columns only some ever meet an element: the last axis cannot be read as one run."""
    window = {"stride": stride, "low": (0, 2), "high": (1, 0), "x_dilation": (1, 2), "w_dilation": (1, 1)}
    body = lambda x, w: [table["conv"](x, w, **window, groups=1, dtype=dt.float32)]  # noqa: E731
    types = [TensorType(s, dt.float32) for s in ((2, channels, 9, 14), (5, channels, 3, 3))]
    graph, rng = record_graph(body, types, "spread"), np.random.default_rng(0)
    values = [rng.standard_normal(t.shape).astype(np.float32) for t in types]
    want = run(graph, values)[0]
    np.testing.assert_allclose(Executable(graph, Options())(list(values))[0], want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["conv", "conv_input_grad"])
@pytest.mark.parametrize("groups", [1, 4])
def test_one_tap_in_the_middle_of_a_kernel(groups: int, name: str) -> None:
    """Stride and spread alike: only the kernel's middle meets elements, each its own."""
    window = {"stride": (2,), "low": (1,), "high": (1,), "x_dilation": (2,), "w_dilation": (1,)}
    more = {"groups": groups, "dtype": dt.float32, **({"space": (8,)} if name == "conv_input_grad" else {})}
    body = lambda x, w: [table[name](x, w, **window, **more)]  # noqa: E731
    shapes = ((2, 16, 8), (16, 16 // groups, 3))
    graph, rng = (
        record_graph(body, [TensorType(s, dt.float32) for s in shapes], "one"),
        np.random.default_rng(0),
    )
    values = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    want = run(graph, values)[0]
    np.testing.assert_allclose(Executable(graph, Options())(list(values))[0], want, rtol=1e-4, atol=1e-4)


def test_sizes_that_numpy_computed() -> None:
    """They once stood in graphs as NumPy's integers, which no program file can hold."""
    n, k = np.int64(2), np.int64(3)
    f = tb.nn.functional
    calls: list[Any] = [
        lambda x: tb.tile(x, (n, k)) + tb.zeros((n * 4, k * 6)),
        lambda x: x[None].expand(n, -1, -1) * 2,
        lambda x: tb.nonzero(x, size=n)[0] + f.one_hot(x.long(), k).sum(),
        lambda x: f.max_pool1d(x, n) + f.adaptive_avg_pool1d(x, k),
        lambda x: f.group_norm(x.narrow(1, n, n), n),
    ]
    x = np.arange(24.0, dtype=np.float32).reshape(4, 6) % 3
    for call in calls:
        jitted = tb.jit(call)
        assert_same_bits(jitted(tb.tensor(x)).numpy(), call(tb.tensor(x)).numpy())
        sizes = {type(d) for e in jitted.lower(tb.tensor(x)).graph.equations for d in e.outputs[0].type.shape}
        assert sizes <= {int}
    for layer in (nn.Linear(n * k, n), nn.LayerNorm(n * k), nn.Conv1d(n * n, n, k, padding=n)):
        assert layer(tb.tensor(x)).shape[0] in (2, 4)


@pytest.mark.parametrize("rows", [1, 7, 64, 150])
def test_a_product_and_what_follows_it_may_read_one_value(rows: int) -> None:
    """The value dies there, but its memory is not the result's: other tiles still multiply it."""
    rng = np.random.default_rng(rows)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((rows, 64), (64, 64)))
    want = x
    for _ in range(3):
        want = np.tanh(want @ w) + np.sin(want)
    weight, state = tb.tensor(w), tb.tensor(x)

    def step(c: tb.Tensor) -> tb.Tensor:
        return tb.tanh(c @ weight) + tb.sin(c)

    rounds = tb.jit(lambda x: tb.scan(lambda c, _: (step(c), None), x, None, length=3)[0])
    np.testing.assert_allclose(rounds(tb.tensor(x)).numpy(), want, rtol=1e-4, atol=1e-4)

    @tb.jit
    def change() -> None:
        state[...] = step(state)

    for _ in range(3):
        change()
    np.testing.assert_allclose(state.numpy(), want, rtol=1e-4, atol=1e-4)
