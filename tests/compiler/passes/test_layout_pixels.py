"""Convolutions of bytes with few filters make several pixels at once: the same integers, fewer products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.dtypes import DType, int8, int32, uint8
from trilobite.compiler.targets.cpu.passes.layout_pixels import pixels_at_once
from trilobite.framework.tensor import Tensor, wrap
from trilobite.inference.operators.primitives import primitive
from trilobite.ir.graph import Equation, Var
from trilobite.ir.primitive import result_types, table
from trilobite.ir.types import Symbol, TensorType, affine

# x[N, C, *space], w[F, C, *kernel], stride, padding, and how many pixels are made at once with 16 lanes
CASES: list[tuple[tuple[int, ...], tuple[int, ...], int, int, int]] = [
    ((1, 8, 20, 24), (3, 8, 9, 9), 1, 0, 4),
    ((2, 3, 17, 16), (8, 3, 9, 9), 1, 4, 2),
    ((1, 16, 9, 10), (5, 16, 3, 3), 1, 1, 2),
    ((1, 24, 9, 35), (1, 24, 5, 5), 2, 2, 9),
    ((3, 6, 40), (2, 6, 7), 1, 3, 8),
    ((1, 4, 5, 6, 12), (4, 4, 3, 3, 3), 1, 1, 4),
    ((1, 8, 9, 11), (3, 8, 3, 3), 1, 1, 1),  # a prime width
    ((1, 8, 9, 12), (3, 8, 1, 1), 1, 0, 1),  # single pixels share nothing
    ((1, 8, 9, 12), (12, 8, 3, 3), 1, 1, 1),  # filters enough
]


def equation(shape: tuple[Any, ...], weight: tuple[int, ...], stride: int, pad: int) -> Equation:
    rank = len(shape) - 2
    ones, x, w = (1,) * rank, Var(TensorType(shape, int8)), Var(TensorType(weight, int8))
    attributes = {
        "stride": (stride,) * rank, "low": (pad,) * rank, "high": (pad,) * rank, "x_dilation": ones,
        "w_dilation": ones, "groups": 1, "dtype": int32,
    }  # fmt: skip
    (out,) = result_types(table["conv"], [x.type, w.type], attributes)
    return Equation(table["conv"], (x, w), attributes, (Var(out),))


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}")
def test_how_many(case: Any) -> None:
    assert pixels_at_once(equation(*case[:4]), 16) == case[4]


def test_widths_that_a_run_decides_are_made_one_by_one() -> None:
    width = affine(0, [(Symbol("w", 8, 64), 1)])
    assert pixels_at_once(equation((1, 8, 9, width), (3, 8, 9, 9), 1, 4), 16) == 1


@pytest.mark.parametrize("dtype", [int8, uint8], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}")
def test_every_bit(case: Any, dtype: DType) -> None:
    shape, weight, stride, pad, count = case
    rng = np.random.default_rng(shape[-1])
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    w = wrap(rng.integers(-128, 128, weight).astype(np.int8))
    e = equation(shape, weight, stride, pad)
    bias = wrap(rng.integers(-5000, 5000, weight[0]).reshape(-1, *(1,) * (len(shape) - 2)).astype(np.int32))

    def layer(x: Tensor) -> Tensor:
        found: Tensor = primitive("conv", x, w.astype(x.dtype), **dict(e.attributes)) + bias
        return found

    fast = tb.jit(layer, target="cpu")
    want = tb.jit(layer, target="reference")(wrap(x)).numpy()
    np.testing.assert_array_equal(fast(wrap(x)).numpy(), want)
    assert len(np.unique(want)) > 20
    text = fast.lower(wrap(x)).compile().stages["layout"]
    assert ("conv_integer_tiles" in text) or f"columns={weight[0] * count}," in text
