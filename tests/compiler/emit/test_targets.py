"""The same text compiles for plain x86-64 and for AArch64, and asks for nothing from outside."""

from __future__ import annotations

from typing import Any

import pytest

from tests.compiler.emit.native import kernel_text, scalar_graph
from trilobite.base.dtypes import ALL, COMPLEX, DType, float32, float64
from trilobite.base.errors import TrilobiteError
from trilobite.compiler.targets.cpu.emit.math import FUNCTIONS
from trilobite.compiler.targets.cpu.emit.scalar import RULES, supports
from trilobite.ir.primitive import table
from trilobite.ir.types import TensorType
from trilobite.native.host import AARCH64, SSE2, Host
from trilobite.native.llvm.text import Text
from trilobite.native.objects import compile_object, undefined

REAL = sorted(ALL - COMPLEX, key=lambda d: d.name)
HOSTS = pytest.mark.parametrize("host", [SSE2, AARCH64], ids=["sse2", "aarch64"])


def possible(name: str, dtype: DType) -> bool:
    try:
        table[name].type(*[TensorType((), dtype)] * len(table[name].operands))
    except TrilobiteError:
        return False
    return supports(table[name], [dtype])


@HOSTS
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_primitives_and_casts(dtype: DType, host: Host) -> None:
    names = [n for n in RULES if n not in FUNCTIONS and n != "select" and possible(n, dtype)]

    def fn(x: Any, y: Any) -> list[Any]:
        out = [table[n](*(x, y)[: len(table[n].operands)]) for n in names]
        return out + [table["cast"](x, dtype=d) for d in REAL]

    body = scalar_graph(fn, [dtype, dtype])
    assert undefined(compile_object(kernel_text(body, 4, host), 0, host)) == []


@HOSTS
@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_functions(dtype: DType, host: Host) -> None:
    names = [n for n in FUNCTIONS if n in table]

    def fn(x: Any, y: Any) -> list[Any]:
        return [table[n](*(x, y)[: len(table[n].operands)]) for n in names]

    body = scalar_graph(fn, [dtype, dtype])
    for lanes in (0, 4):
        assert undefined(compile_object(kernel_text(body, lanes, host), 0, host)) == []


@HOSTS
def test_masked_memory_and_lanes(host: Host) -> None:
    t = Text(host)
    x, out, n = t.argument(0, "ptr"), t.argument(1, "ptr"), t.argument(2, "i64")
    v = t.load_partial(float32, x, n, 8)
    t.store_partial(float32, t.fma(v, v, v), out, n)
    t.store(float32, t.sum_lanes(v), out)
    t.prefetch(x)
    assert undefined(compile_object(t.module(), 0, host)) == []
