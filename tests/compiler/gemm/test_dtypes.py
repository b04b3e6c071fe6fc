"""Products of every dtype: integers equal in every bit, floats within their bound; other machines compile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.gemm.products import assert_product, graph_of, lowered, matrices, matrices_of, native
from trilobite.base.dtypes import FP8, bfloat16, float4_e2m1fn, float16, int4, uint4
from trilobite.compiler.targets.cpu.contraction.gemm.lower import accepts
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType
from trilobite.native.host import AARCH64, SSE2, Host
from trilobite.native.objects import compile_object, undefined

CONTRACT = ((1,), (0,))
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", int4, uint4]
PAIRS = [
    *[(d, d) for d in INTEGERS],
    *[(d, "int32") for d in INTEGERS if d not in ("int64", "uint64")],
    ("int8", "int64"), ("uint8", "uint32"), ("int16", "int64"), ("int8", "float32"), ("int32", "float64"),
    (float16, float16), (bfloat16, bfloat16), (float16, "float32"), (bfloat16, "float32"),
    ("float32", float16), ("float32", bfloat16), ("float32", "float64"), ("float64", "float32"),
    *[(d, "float32") for d in (*FP8[:2], float4_e2m1fn)], (FP8[0], FP8[0]),
]  # fmt: skip


@pytest.mark.parametrize("operand, result", PAIRS)
def test_every_dtype(operand: object, result: object) -> None:
    for shape, ta, tb in (
        ((13, 35, 21), False, False),
        ((7, 50, 600), True, True),
        ((8, 18, 64), False, True),
    ):
        graph = matrices(*shape, operand, result, ta, tb)
        x, y = matrices_of(graph, seed=shape[0])
        (found,) = native(graph, [x, y])
        (cut,) = native(graph, [x, y], cuts=(0.3, 0.6))
        assert_product(found, x, y, graph.equations[0].attributes["contract"])
        np.testing.assert_array_equal(cut.view(np.uint8), found.view(np.uint8))


@pytest.mark.parametrize("operand", ["int8", "uint8", "int16"])
def test_products_of_extremes_do_not_saturate(operand: str) -> None:
    info = np.iinfo(operand)
    graph = matrices(6, 16, 66, operand, "int32")
    for a, b in ((info.min, info.min), (info.max, info.max), (info.max, info.min)):
        x, y = np.full((6, 66), a, operand), np.full((66, 16), b, operand)
        (found,) = native(graph, [x, y])
        assert_product(found, x, y, CONTRACT)


WIDENED = [
    ("uint8", "int8", "int32"), ("int8", "int8", "int32"), ("uint8", "uint8", "uint32"),
    (bfloat16, bfloat16, "float32"), (float16, "float32", "float32"), ("int8", "float32", "float32"),
    ("uint16", "int16", "int64"), (int4, "int8", "int16"),
]  # fmt: skip


@pytest.mark.parametrize("x, y, multiplied", WIDENED)
def test_casts_that_widen_are_read_as_they_are(x: Any, y: Any, multiplied: str) -> None:
    """u8 times s8 and the like: the product reads the small numbers itself."""

    def product(a: Any, b: Any) -> Any:
        a, b = (v if v.dtype == multiplied else table["cast"](v, dtype=np.dtype(multiplied)) for v in (a, b))
        return table["dot"](a, b, contract=((1,), (1,)), batch=((), ()), dtype=np.dtype(multiplied))

    for m, n, k in ((9, 35, 43), (1, 40, 21), (7, 20, 900)):
        graph = graph_of(product, ((m, k), x), ((n, k), y))
        assert accepts(graph) is None
        values = matrices_of(graph)
        (found,) = native(graph, values, cuts=(0.4,))
        assert_product(found, *(v.astype(multiplied) for v in values), ((1,), (1,)))


def test_casts_that_lose_something_stay_outside() -> None:
    for source, to in (
        ("float32", float16),
        ("int8", "uint32"),
        ("int32", "float32"),
        ("float64", "float32"),
    ):

        def product(a: Any, b: Any, to: Any = to) -> Any:
            return table["dot"](
                table["cast"](a, dtype=np.dtype(to)),
                b,
                contract=((1,), (0,)),
                batch=((), ()),
                dtype=np.dtype(to),
            )

        graph = record_graph(
            lambda a, b, f=product: [f(a, b)],
            [TensorType((3, 4), np.dtype(source)), TensorType((4, 5), np.dtype(to))],
        )
        assert accepts(graph) == "cast before the product"


def test_what_is_refused() -> None:
    assert accepts(matrices(3, 4, 5, "complex64")) == "complex products run on the host"
    assert accepts(matrices(3, 4, 5)) is None


AVX512 = Host(
    "x86_64-unknown-linux-gnu", "skylake-avx512", "+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512vl,+avx512dq",
    64, 32, fma=True, f16c=True,
)  # fmt: skip


@pytest.mark.parametrize("host", [SSE2, AARCH64, AVX512], ids=["sse2", "aarch64", "avx512"])
@pytest.mark.parametrize(
    "operand, result",
    [("float32",) * 2, ("float64",) * 2, ("int8", "int32"), (bfloat16, bfloat16), ("int64",) * 2],
)
def test_other_machines_compile_and_call_nothing(host: Host, operand: object, result: object) -> None:
    for shape in ((40, 50, 60), (1, 50, 60)):
        for step in lowered(matrices(*shape, operand, result), host).steps:
            code = compile_object(step.kernel.text, step.kernel.level, host)
            assert undefined(code) == []


def test_right_without_avx() -> None:
    """The text for plain x86-64 runs here too."""
    for operand, result in (("float32",) * 2, ("float64",) * 2, ("int8", "int32"), (bfloat16, bfloat16)):
        graph = matrices(23, 45, 300, operand, result, tb=True)
        x, y = matrices_of(graph)
        (found,) = native(graph, [x, y], host=SSE2)
        assert_product(found, x, y, ((1,), (1,)))
