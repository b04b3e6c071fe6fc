"""Random products that are requantised: CPU and processor give the interpreter's bits.

Shapes, groups, splits over the reduction (long ones on many cores), dtypes, scales per tensor and per
channel, ties, saturation, negative scales, zero points, bias, ReLU, and an addition of floats behind.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilobite.base import dtypes as dt
from trilobite.compiler.targets.registry import executable
from trilobite.ir import primitives  # noqa: F401, fills the table
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.ir.primitives.common import integer_range
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]
OPERANDS = ((dt.int8, dt.int32), (dt.int8, dt.int32), (dt.int16, dt.int64), (dt.uint8, dt.int32))
RESULTS = (dt.int8, dt.uint8, dt.int16, dt.int8, dt.int4)


def _scales(rng: Any, shape: Any, bound: float) -> Array:
    """Of a kind: powers of two and odd multiples of them (ties), results that fill the range, any size."""
    kind = rng.integers(4)
    if kind == 0:
        found = 2.0 ** -rng.integers(1, 20, shape)
    elif kind == 1:
        found = rng.uniform(0.2, 3, shape) * 127 / bound
    elif kind == 2:
        found = (rng.integers(1, 9, shape) + 0.5) / 2 ** rng.integers(3, 12, shape)
    else:
        found = np.exp(rng.uniform(-20, 3, shape))
    signs = rng.choice([-1, 1], shape) if rng.random() < 0.3 else 1
    return np.asarray(found * signs, np.float32)


def _convolution(rng: Any, accumulate: Any) -> tuple[Any, tuple[int, ...], tuple[int, ...], int]:
    groups, (kernel, batch) = (
        int(rng.choice([1, 1, 1, 2, 3])),
        (int(rng.choice([1, 3, 3, 5])), int(rng.integers(1, 4))),
    )
    inputs, outputs = (int(n) * groups for n in rng.integers(1, 40, 2))
    height, width = (int(n) for n in rng.integers(kernel, 14, 2))
    stride, pad = tuple(int(n) for n in rng.integers(1, 3, 2)), int(rng.integers(0, kernel // 2 + 1))
    window = {
        "stride": stride,
        "low": (pad,) * 2,
        "high": (pad,) * 2,
        "x_dilation": (1, 1),
        "w_dilation": (1, 1),
    }

    def product(x: Any, w: Any) -> Any:
        return table["conv"](x, w, **window, groups=groups, dtype=accumulate)

    return product, (batch, inputs, height, width), (outputs, inputs // groups, kernel, kernel), outputs


def _matrices(rng: Any, accumulate: Any) -> tuple[Any, tuple[int, ...], tuple[int, ...], int]:
    rows, inner, outputs = (int(n) for n in rng.integers(1, [70, 900, 90]))

    def product(x: Any, w: Any) -> Any:
        return table["dot"](x, w, contract=((1,), (0,)), batch=((), ()), dtype=accumulate)

    return product, (rows, inner), (inner, outputs), outputs


def _epilogue(y: Any, dtype: Any, relu: bool, add: bool) -> Any:
    if relu:
        y = table["maximum"](y, table["full"](shape=y.shape, value=0, dtype=dtype))
    if add:
        step, point = (table["full"](shape=(), value=v, dtype=d) for v, d in ((0.37, dt.float32), (1, dtype)))
        one = table["full"](shape=y.shape, value=1.5, dtype=dt.float32)
        y = table["add"](table["dequantise"](y, step, point, axis=None), one)
        y = table["quantise"](y, step, point, axis=None, dtype=dtype)
    return y


def case(seed: int) -> tuple[Graph, list[Array]]:
    rng = np.random.default_rng(seed)
    operand, accumulate = OPERANDS[rng.integers(len(OPERANDS))]
    result = RESULTS[rng.integers(len(RESULTS))]
    product, x_shape, w_shape, outputs = (_convolution if rng.random() < 0.6 else _matrices)(rng, accumulate)
    low, high = integer_range(operand)
    x, w = (
        rng.integers(*((low, high + 1) if rng.random() < 0.7 else (max(low, -3), 4)), shape).astype(operand)
        for shape in (x_shape, w_shape)
    )
    terms = w.size / outputs
    bound = float(np.abs(x.astype(float)).max() * np.abs(w.astype(float)).max() * np.sqrt(terms)) + 1
    per_channel, biased, relu, add = rng.random(4) < (0.6, 0.5, 0.4, 0.3)
    places = (outputs,) if per_channel else ()
    scale = _scales(rng, places, bound)
    bottom, top = integer_range(result)
    zero = np.asarray(
        rng.integers(bottom, top + 1, places) if rng.random() < 0.5 else np.zeros(places)
    ).astype(result)
    bias = rng.integers(-5000, 5000, outputs).astype(accumulate)
    wide = result != dt.int4

    def network(x: Any, w: Any, scale: Any, zero: Any, bias: Any) -> tuple[Any]:
        y = product(x, w)
        if biased:
            y = table["add"](y, table["broadcast"](bias, shape=y.shape, axes=(1,)))
        y = table["requantise"](y, scale, zero, axis=1 if per_channel else None, dtype=result)
        return (_epilogue(y, result, relu and wide, add and wide),)

    operands = [x, w, scale, zero, bias]
    return record_graph(network, [TensorType(o.shape, o.dtype) for o in operands], "f"), operands


def differing(seeds: range, targets: list[str]) -> list[tuple[int, str, int]]:
    found = []
    for seed in seeds:
        graph, operands = case(seed)
        (wanted,) = run(graph, operands)
        for target in targets:
            wrong = int((executable(graph, target)(operands)[0] != wanted).sum())
            found += [(seed, target, wrong)] if wrong else []
    return found


def test_requantised_products_are_the_interpreters_bits(odd_machine: Path) -> None:
    assert not differing(range(5), ["cpu", "dlp:dlp-m", f"dlp:{odd_machine}"])


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(100, 400, 25))
def test_many_requantised_products_are_the_interpreters_bits(first: int, odd_machine: Path) -> None:
    targets = ["cpu", "dlp:dlp-s", "dlp:dlp-m", "dlp:tpu-v1", "dlp:mlu370-x4", f"dlp:{odd_machine}"]
    assert not differing(range(first, first + 25), targets)
