"""Convolutions of small integers as products: equal in every bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trilobite.base import dtypes as dt
from trilobite.compiler.cpu.target import compile_graph
from trilobite.compiler.passes.unfold_integers import unfold_integers
from trilobite.compiler.rewrite import Counters
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitives import table
from trilobite.ir.types import TensorType
from trilobite.ir.verify import verify

CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 5, 9, 8), (7, 5, 3, 3), {"low": (1, 1), "high": (1, 1)}),
    ((1, 16, 7, 7), (8, 16, 1, 1), {"stride": (2, 2)}),
    ((3, 4, 11, 10), (6, 4, 3, 2), {"stride": (2, 3), "low": (2, 0), "high": (1, 3), "w_dilation": (2, 1)}),
    ((2, 3, 20), (5, 3, 4), {"stride": (3,), "low": (0,), "high": (2,), "w_dilation": (1,)}),
    ((1, 2, 5, 6, 4), (3, 2, 2, 3, 2), {}),
    ((2, 40, 7, 9), (11, 40, 3, 3), {"low": (1, 1), "high": (1, 1), "stride": (2, 1)}),
]


def convolution(
    x: tuple[int, ...], w: tuple[int, ...], window: dict[str, Any], dtype: Any, wide: Any
) -> Graph:
    rank = len(x) - 2
    ones, zeros = (1,) * rank, (0,) * rank
    attributes = {
        "stride": ones, "low": zeros, "high": zeros, "x_dilation": ones, "w_dilation": ones, "groups": 1,
        "dtype": wide, **window,
    }  # fmt: skip
    a, b = Var(TensorType(x, dtype)), Var(TensorType(w, dtype))
    out = Var(table["conv"].type(a.type, b.type, **attributes))
    return Graph([a, b], [Equation(table["conv"], (a, b), attributes, (out,))], [out], "conv")


@pytest.mark.parametrize("wide", [dt.int32, dt.int8, dt.int64], ids=str)
@pytest.mark.parametrize("dtype", [dt.int8, dt.uint8], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}")
def test_equal_in_every_bit(case: Any, dtype: Any, wide: Any) -> None:
    x, w, window = case
    graph, counters = convolution(x, w, window, dtype, wide), Counters()
    changed = unfold_integers(graph, counters)
    verify(changed)
    assert counters["conv"] == 1 and "conv" not in [e.primitive.name for e in changed.equations]
    rng = np.random.default_rng(len(x))
    info = np.iinfo(dtype)
    values = [rng.integers(info.min, info.max + 1, s).astype(dtype) for s in (x, w)]
    want = run(graph, values)[0]
    assert run(changed, values)[0].tobytes() == want.tobytes()
    assert compile_graph(graph)(list(values))[0].tobytes() == want.tobytes()


def test_other_convolutions_stay() -> None:
    graph = convolution((1, 4, 6, 6), (4, 2, 3, 3), {"groups": 2}, dt.int8, dt.int32)
    assert unfold_integers(graph) is graph
    graph = convolution((1, 4, 6, 6), (4, 4, 3, 3), {}, dt.float32, dt.float32)
    assert unfold_integers(graph) is graph
