"""Joins of residuals: codes become numbers on the matrix unit, with the interpreter's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilobite.base import dtypes as dt
from trilobite.base.reciprocals import with_reciprocal
from trilobite.compiler.targets.contract import Usage
from trilobite.compiler.targets.dlp.vector.identity import pays
from trilobite.compiler.targets.registry import executable
from trilobite.ir import primitives  # noqa: F401, fills the table
from trilobite.ir.evaluate import run
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType
from trilobite.processor.machine import load_machine

WINDOW = {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "x_dilation": (1, 1), "w_dilation": (1, 1)}
STEPS = (with_reciprocal(0.0213, -128, 127), 0.0471)


def _full(value: float, dtype: Any, shape: tuple[int, ...] = ()) -> Any:
    return table["full"](shape=shape, value=value, dtype=dtype)


def _joined(sums: Any, scale: Any, shorts: tuple[Any, ...], axis: int) -> tuple[Any]:
    y = table["dequantise"](sums, scale, _full(0, dt.int32, scale.shape), axis=axis)
    for short, step in zip(shorts, STEPS, strict=False):
        number = table["dequantise"](short, _full(step, dt.float32), _full(0, dt.int8), axis=None)
        y = table["add"](y, number)
    y = table["maximum"](y, _full(0, dt.float32, y.shape))
    return (table["quantise"](y, _full(STEPS[0], dt.float32), _full(0, dt.int8), axis=None, dtype=dt.int8),)


def _made(types: list[TensorType], body: Any, target: str) -> tuple[Any, np.ndarray[Any, Any], Any]:
    graph = record_graph(body, types, "f")
    rng = np.random.default_rng(sum(map(len, map(str, types))))
    values = [rng.integers(-128, 128, tuple(map(int, t.shape))).astype(t.dtype) for t in types]
    values[2] = (rng.standard_normal(values[2].shape) / 2000).astype(np.float32)
    made: Any = executable(graph, target, Usage(options=(("checks", True),)))
    return made, made(values)[0], run(graph, values)[0]


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m", "tpu-v1", "odd"])
@pytest.mark.parametrize("x", [(1, 24, 9, 7), (2, 17, 5, 3), (1, 64, 14, 13), (3, 8, 1, 1), (1, 16, 31, 2)])
@pytest.mark.parametrize(("outputs", "joins"), [(64, 1), (29, 2)])
def test_convolutions(
    machine: str, x: tuple[int, int, int, int], outputs: int, joins: int, odd_machine: Path
) -> None:
    images, inputs, rows, columns = x
    out = TensorType((images, outputs, rows, columns), dt.int8)
    types = [TensorType(x, dt.int8), TensorType((outputs, inputs, 1, 1), dt.int8),
             TensorType((outputs,), dt.float32), *[out] * joins]  # fmt: skip

    def body(x: Any, w: Any, scale: Any, *shorts: Any) -> tuple[Any]:
        return _joined(table["conv"](x, w, **WINDOW, groups=1, dtype=dt.int32), scale, shorts, 1)

    target = f"dlp:{odd_machine if machine == 'odd' else machine}"
    made, got, want = _made(types, body, target)
    assert np.array_equal(got, want)
    whole = rows * columns * outputs >= 64 and machine == "dlp-s"
    assert not whole or "MM.f32" in made.stages["isa"]


@pytest.mark.parametrize(("outputs", "on_unit"), [(64, True), (65, False)])
def test_tiles_that_leave_a_rest_are_rows_of_the_identity_if_their_outputs_are(
    outputs: int, on_unit: bool
) -> None:
    """Sizes of the last tiles are known only to the run."""
    shape = (1, outputs, 57, 53)
    types = [TensorType((1, 8, 57, 53), dt.int8), TensorType((outputs, 8, 1, 1), dt.int8),
             TensorType((outputs,), dt.float32), TensorType(shape, dt.int8)]  # fmt: skip

    def body(x: Any, w: Any, scale: Any, short: Any) -> tuple[Any]:
        return _joined(table["conv"](x, w, **WINDOW, groups=1, dtype=dt.int32), scale, (short,), 1)

    made, got, want = _made(types, body, "dlp:dlp-s")
    assert np.array_equal(got, want)
    assert not on_unit or "MM.f32" in made.stages["isa"]


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m"])
@pytest.mark.parametrize(("m", "n", "k"), [(33, 128, 70), (1, 100, 256), (130, 65, 19)])
def test_products(machine: str, m: int, n: int, k: int) -> None:
    types = [TensorType((m, k), dt.int8), TensorType((n, k), dt.int8), TensorType((n,), dt.float32),
             TensorType((m, n), dt.int8)]  # fmt: skip

    def body(x: Any, w: Any, scale: Any, short: Any) -> tuple[Any]:
        sums = table["dot"](x, w, contract=((1,), (1,)), batch=((), ()), dtype=dt.int32)
        return _joined(sums, scale, (short,), 1)

    _, got, want = _made(types, body, f"dlp:{machine}")
    assert np.array_equal(got, want)


def test_it_is_used_where_the_unit_is_faster(odd_machine: Path) -> None:
    assert pays(load_machine("dlp-s"))
    assert pays(load_machine("dlp-m")) and not pays(load_machine(odd_machine))
