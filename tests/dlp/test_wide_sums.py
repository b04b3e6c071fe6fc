"""Products of 16-bit floats with a bias: sums and bias meet in float32 on the unit's drain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilobite.base import dtypes as dt
from trilobite.compiler.targets.contract import Usage
from trilobite.compiler.targets.registry import executable
from trilobite.ir import primitives  # noqa: F401, fills the table
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m", "odd"])
@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16])
def test_a_bias_is_added_before_the_one_rounding(machine: str, dtype: Any, odd_machine: Path) -> None:
    shapes = [(2, 13, 9, 7), (17, 13, 3, 3), (17,)]

    def network(x: Any, w: Any, bias: Any) -> tuple[Any]:
        window = {"stride": (1, 2), "low": (1, 0), "high": (1, 1), "x_dilation": (1, 1), "w_dilation": (1, 1)}
        y = table["conv"](x, w, **window, groups=1, dtype=dtype)
        y = table["add"](table["broadcast"](bias, shape=y.shape, axes=(1,)), y)
        return (table["maximum"](y, table["full"](shape=y.shape, value=0, dtype=dtype)),)

    graph = record_graph(network, [TensorType(s, dtype) for s in shapes], "f")
    rng = np.random.default_rng(3)
    operands = [rng.standard_normal(s).astype(dtype) for s in shapes]
    wide = [TensorType(s, dt.float64) for s in shapes]
    exact_graph = record_graph(lambda *v: _exact(*v), wide, "g")
    exact = executable(exact_graph, "reference")([a.astype(np.float64) for a in operands])[0]
    target = f"dlp:{odd_machine if machine == 'odd' else machine}"
    made = executable(graph, target, Usage(options=(("checks", True),)))
    got = made(operands)[0].astype(np.float64)
    half_ulp = {dt.float16: 2.0**-11, dt.bfloat16: 2.0**-8}[dtype]
    assert np.all(np.abs(got - exact) <= half_ulp * np.abs(exact) + 1e-4)  # one rounding, and float32's
    (line,) = [line for line in made.stages["mapping"].splitlines() if " matrix " in line]
    assert "conv_add" in line and "maximum" in line


def _exact(x: Any, w: Any, bias: Any) -> tuple[Any]:
    window = {"stride": (1, 2), "low": (1, 0), "high": (1, 1), "x_dilation": (1, 1), "w_dilation": (1, 1)}
    y = table["conv"](x, w, **window, groups=1, dtype=dt.float64)
    y = table["add"](table["broadcast"](bias, shape=y.shape, axes=(1,)), y)
    return (table["maximum"](y, table["full"](shape=y.shape, value=0, dtype=dt.float64)),)
