"""Convolutions whose sums are wider than their operands: the panels of weights must be cut for the sums."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb
from trilobite.framework.nn.functional.calling import run
from trilobite.ir.primitives import table

SETTINGS = {"stride": (1, 1), "low": (1, 1), "high": (1, 1), "x_dilation": (1, 1), "w_dilation": (1, 1)}


@pytest.mark.parametrize(
    ("operand", "result"),
    [("int8", "int32"), ("int16", "int32"), ("uint8", "int64"), ("int8", "int8"), ("float16", "float64")],
)
def test_sums_are_those_of_the_reference(operand: str, result: str) -> None:
    random = np.random.default_rng(5)
    low, high = (0, 255) if operand == "uint8" else (-128, 128)
    x, w = (random.integers(low, high, shape).astype(operand) for shape in ((2, 5, 6, 7), (19, 5, 3, 3)))
    weight = tb.tensor(w)

    def conv(x: tb.Tensor) -> tb.Tensor:
        attributes = {**SETTINGS, "groups": 1, "dtype": np.dtype(result)}
        return run(lambda x, w: table["conv"](x, w, **attributes), x, weight)

    expected = conv(tb.tensor(x)).numpy()
    found = tb.jit(conv, target="cpu")(tb.tensor(x)).numpy()
    assert found.dtype == np.dtype(result)
    np.testing.assert_array_equal(found, expected)
