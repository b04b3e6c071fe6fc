"""Regions split into a root and an epilogue; the epilogue as code, row by row, against the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.compiler.emit.native import Array, load_entry
from trilobite.base.dtypes import DType, bfloat16, bool_, float16, float32, int8, int32, uint8
from trilobite.compiler.targets.cpu import primitives  # noqa: F401  registers conv_last
from trilobite.compiler.targets.cpu.contraction.sizes import product as product_of
from trilobite.compiler.targets.cpu.epilogue import Epilogue, RowOperand, emit_epilogue, epilogue_of
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Dense, Graph
from trilobite.ir.primitive import table as p
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType, dim
from trilobite.native.host import features
from trilobite.native.llvm.text import Text

M, K, N = 5, 3, 21


def product(x: Any, w: Any, dtype: DType = float32) -> Any:
    return p["dot"](x, w, contract=((1,), (0,)), batch=((), ()), dtype=dtype)


def region(
    fn: Callable[..., Sequence[Any]], *extra: tuple[tuple[Any, ...], DType], of: DType = float32
) -> Graph:
    """A region over x[M,K], w[K,N] and further inputs."""
    types = [((M, K), of), ((K, N), of), *extra]
    return record_graph(fn, [TensorType(shape, dtype) for shape, dtype in types])


def split(graph: Graph) -> Epilogue | None:
    root = next(e for e in graph.equations if e.primitive.name in ("dot", "conv_last"))
    return epilogue_of(graph, root)


def across(value: Any, like: Any, *axes: int) -> Any:
    return p["broadcast"](value, shape=like.shape, axes=axes)


def fill(like: Any, value: float) -> Any:
    return p["full"](shape=like.shape, dtype=like.dtype, value=value)


def array(shape: Sequence[int], dtype: DType, seed: int) -> Array:
    wide = np.random.default_rng(seed).standard_normal(shape) * 9
    return np.asarray(wide > 0 if dtype == bool_ else wide.astype(dtype))


def check(graph: Graph, lanes: int, rtol: float = 1e-5) -> Epilogue:
    """Run the epilogue over the root's own result, row by row, and compare with the whole region."""
    epilogue = split(graph)
    assert epilogue is not None
    root = next(i for i, e in enumerate(graph.equations) if e.primitive.name == "dot")
    inputs = [array(t.shape, t.dtype, i) for i, t in enumerate(graph.input_types)]
    want = run(graph, inputs)
    sums = run(Graph(graph.inputs, graph.equations[: root + 1], graph.equations[root].outputs), inputs)[0]
    found = [np.zeros(sums.shape, d) for d in epilogue.results]
    _call(epilogue, sums, inputs, found, lanes)
    for a, b in zip(found, want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(
            a.reshape(b.shape).astype(np.float64), b.astype(np.float64), rtol=rtol, atol=1e-6
        )
    return epilogue


def _call(
    epilogue: Epilogue, sums: Array, inputs: Sequence[Array], found: Sequence[Array], lanes: int
) -> None:
    t = Text(features())
    total = t.argument(0, "ptr")
    operands = [t.argument(1 + i, "ptr") for i in range(len(epilogue.operands))]
    results = [t.argument(1 + len(operands) + i, "ptr") for i in range(len(found))]
    dtype = sums.dtype
    whole = N // lanes * lanes
    with t.loop(t.begin, t.end) as row:
        at = [
            t.address(base, t.mul(row.index, int(o.row_stride)), o.dtype)
            for o, base in zip(epilogue.operands, operands, strict=True)
        ]
        to = [
            t.address(base, t.mul(row.index, N), d) for d, base in zip(epilogue.results, results, strict=True)
        ]
        line = t.address(total, t.mul(row.index, N), dtype)
        with t.loop(0, whole, lanes) as column:
            v = t.load(dtype, t.address(line, column.index, dtype), lanes)
            emit_epilogue(t, epilogue, v, at, to, column.index, lanes)
        v = t.load_partial(dtype, t.address(line, whole, dtype), N - whole, lanes)
        emit_epilogue(t, epilogue, v, at, to, whole, lanes, N - whole)
    words = [sums, *(inputs[o.input] for o in epilogue.operands), *found]
    load_entry(t.module(), features())([a.ctypes.data for a in words], 0, M)


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_bias_activation_and_residual(lanes: int) -> None:
    def fn(x: Any, w: Any, bias: Any, residual: Any) -> list[Any]:
        y = product(x, w)
        y = p["add"](y, across(bias, y, 1))
        return [p["add"](p["tanh"](y), residual), p["maximum"](y, fill(y, 0.0))]

    found = check(region(fn, ((N,), float32), ((M, N), float32)), lanes)
    assert found.operands == (
        RowOperand(2, float32, 0, 0, 1),
        RowOperand(3, float32, 0, N, 1),
    )
    assert found.results == (float32, float32)


def test_nothing_after_the_product() -> None:
    found = check(region(lambda x, w: [product(x, w)]), 8)
    assert found.operands == () and len(found.body) == 0


def test_an_operand_per_row_one_number_and_small_dtypes() -> None:
    def fn(x: Any, w: Any, scale: Any, one: Any, mask: Any) -> list[Any]:
        y = product(x, w)
        y = p["mul"](y, across(p["cast"](scale, dtype=float32), y, 0))
        y = p["sub"](y, across(one, y))
        y = p["select"](mask, y, fill(y, -1.5))
        return [p["cast"](y, dtype=float16), p["gt"](y, fill(y, 0.25)), p["cast"](y, dtype=int8)]

    found = check(region(fn, ((M,), bfloat16), ((), float32), ((M, N), bool_)), 8, rtol=1e-3)
    assert found.operands == (
        RowOperand(4, bool_, 0, N, 1),
        RowOperand(2, bfloat16, 0, 1, 0),
        RowOperand(3, float32, 0, 0, 0),
    )


def test_quantised_per_column() -> None:
    def fn(x: Any, w: Any, scale: Any, zero: Any) -> list[Any]:
        y = p["cast"](product(x, w, int32), dtype=float32)
        return [p["quantise"](y, scale, zero, axis=1, dtype=uint8)]

    found = check(region(fn, ((N,), float32), ((N,), uint8), of=int8), 8)
    assert [o.column_stride for o in found.operands] == [1, 1]


def test_the_result_in_another_shape() -> None:
    """Reshapes keep the order of elements: a residual of the new shape is read like one of the old."""

    def fn(x: Any, w: Any, residual: Any, bias: Any) -> list[Any]:
        y = p["reshape"](product(x, w), shape=(M, 3, 7))
        y = p["add"](y, residual)
        y = p["reshape"](y, shape=(1, M, N))
        return [p["add"](y, across(bias, y, 2)), y]

    found = check(region(fn, ((M, 3, 7), float32), ((N,), float32)), 8)
    assert found.operands == (RowOperand(2, float32, 0, N, 1), RowOperand(3, float32, 0, 0, 1))


def test_symbolic_sizes_stay_symbolic() -> None:
    b, s = dim("b"), dim("s")

    def fn(x: Any, w: Any, mask: Any, row: Any) -> list[Any]:
        y = p["dot"](x, w, contract=((2,), (2,)), batch=((0,), (0,)), dtype=float32)
        y = p["add"](y, across(mask, y, 1, 2))
        return [p["mul"](y, across(row, y, 0, 1))]

    types = [((b, s, 8), float32), ((b, N, 8), float32), ((s, N), float32), ((b, s), float32)]
    found = split(record_graph(fn, [TensorType(shape, d) for shape, d in types]))
    assert found is not None
    assert found.operands == (RowOperand(2, float32, 0, N, 1), RowOperand(3, float32, s, 1, 0))


def test_a_stride_of_two_symbolic_sizes_is_a_product() -> None:
    b, s = dim("b"), dim("s")

    def fn(x: Any, w: Any, other: Any) -> list[Any]:
        y = p["dot"](x, w, contract=((2,), (2,)), batch=((0,), (0,)), dtype=float32)
        return [p["mul"](y, other)]

    shapes = [(b, s, 8), (b, s, 8), (b, s, s)]
    found = split(record_graph(fn, [TensorType(shape, float32) for shape in shapes]))
    assert found is not None
    assert found.operands == (RowOperand(2, float32, product_of([s, s]), s, 1),)


def test_channels_last_convolution() -> None:
    """Rows are pixels, columns channels; a number per image and channel is no row operand."""

    def graph(shape: tuple[int, ...], axes: tuple[int, ...]) -> Graph:
        def fn(x: Any, w: Any, other: Any) -> list[Any]:
            y = p["conv_last"](
                x, w, columns=4, stride=(1, 1), low=(0, 0), high=(0, 0), x_dilation=(1, 1), w_dilation=(1, 1),
                groups=1, dtype=float32,
            )  # fmt: skip
            return [p["mul"](y, across(other, y, *axes))]

        types = [((2, 6, 5, 3), float32), ((1, 1, 3, 4), float32), (shape, float32)]
        return record_graph(fn, [TensorType(s, d) for s, d in types])

    channel, pixel = split(graph((4,), (3,))), split(graph((2, 6, 5), (0, 1, 2)))
    assert channel is not None and channel.operands == (RowOperand(2, float32, 0, 0, 1),)
    assert pixel is not None and pixel.operands == (RowOperand(2, float32, 0, 1, 0),)
    assert split(graph((2, 4), (0, 3))) is None


@pytest.mark.parametrize(
    "after",
    [
        lambda y: p["transpose"](y, axes=(1, 0)),
        lambda y: p["reduce_sum"](y, axes=(1,)),
        lambda y: p["polygamma"](y, order=1),
        lambda y: p["add"](y, p["constant"](value=Dense(np.ones((M, N), np.float32)))),
    ],
    ids=["transpose", "reduction", "no native code", "array constant"],
)
def test_what_is_not_by_rows_is_refused(after: Callable[[Any], Any]) -> None:
    assert split(region(lambda x, w: [after(product(x, w))])) is None
