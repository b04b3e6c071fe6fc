"""One rounding of scaled sums on every target: interpreter, CPU and vector unit agree bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilobite.base import dtypes as dt
from trilobite.base.reciprocals import with_reciprocal
from trilobite.compiler.targets.contract import Usage
from trilobite.compiler.targets.registry import executable
from trilobite.ir import primitives  # noqa: F401, fills the table
from trilobite.ir.evaluate import run
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType


@pytest.mark.parametrize("target", ["cpu", "dlp:dlp-s", "dlp:dlp-m"])
@pytest.mark.parametrize(("wide", "dtype"), [(dt.int32, dt.int8), (dt.int64, dt.int16), (dt.int32, dt.uint8)])
def test_requantise_is_the_same_everywhere(target: str, wide: dt.DType, dtype: dt.DType) -> None:
    types = [TensorType((2, 5, 37), wide), TensorType((37,), dt.float32), TensorType((37,), dtype)]
    graph = record_graph(lambda x, s, z: (table["requantise"](x, s, z, axis=2, dtype=dtype),), types, "f")
    rng = np.random.default_rng(1)
    sums = rng.integers(-(2**22), 2**22, (2, 5, 37)).astype(wide)
    sums[0, 0, :4] = (1 << 30, -(1 << 30), 0, 1)
    scale = rng.uniform(1e-6, 1e-4, 37).astype(np.float32)
    scale[5], scale[6] = 0.5, np.nan  # ties, and no number at all
    operands = [sums, scale, rng.integers(0, 3, 37).astype(dtype)]
    assert np.array_equal(executable(graph, target)(operands)[0], run(graph, operands)[0])


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m", "odd"])
@pytest.mark.parametrize("relu", [True, False])
def test_sums_are_requantised_on_the_drain_bit_for_bit(machine: str, relu: bool, odd_machine: Path) -> None:
    """Per channel, with bias and ReLU behind: one group of the matrix unit."""

    def network(x: Any, w: Any, bias: Any, scale: Any) -> tuple[Any]:
        window = {"stride": (2, 1), "low": (1, 1), "high": (1, 1), "x_dilation": (1, 1), "w_dilation": (1, 1)}
        y = table["conv"](x, w, **window, groups=1, dtype=dt.int32)
        y = table["add"](table["broadcast"](bias, shape=y.shape, axes=(1,)), y)
        zero = table["full"](shape=(29,), value=0, dtype=dt.int8)
        y = table["requantise"](y, scale, zero, axis=1, dtype=dt.int8)
        return (table["maximum"](y, table["full"](shape=y.shape, value=0, dtype=dt.int8)) if relu else y,)

    shapes = [((2, 23, 9, 11), dt.int8), ((29, 23, 3, 3), dt.int8), ((29,), dt.int32), ((29,), dt.float32)]
    graph = record_graph(network, [TensorType(*s) for s in shapes], "f")
    rng = np.random.default_rng(2)
    operands = [rng.integers(-128, 128, s).astype(d) for s, d in shapes[:3]]
    scale = (rng.standard_normal(29) / 300).astype(np.float32)  # negative ones, too
    scale[3] = np.nan
    target = f"dlp:{odd_machine if machine == 'odd' else machine}"
    made = executable(graph, target, Usage(options=(("checks", True),)))
    assert np.array_equal(made([*operands, scale])[0], run(graph, [*operands, scale])[0])
    (line,) = [line for line in made.stages["mapping"].splitlines() if "conv" in line]
    assert "rescale" in line and " matrix " in line


def _rectified(y: Any, chosen: bool) -> Any:
    """The larger of y and 0, or 0 where y <= 0: as F.relu says it."""
    zeros = table["full"](shape=y.shape, value=0, dtype=dt.float32)
    return table["select"](table["le"](y, zeros), zeros, y) if chosen else table["maximum"](y, zeros)


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m", "odd"])
@pytest.mark.parametrize(("zero", "step_"), [(0, 0.037), (3, 0.037), (0, with_reciprocal(0.037, -128, 127))])
def test_the_end_of_a_block_is_one_group_bit_for_bit(
    machine: str, zero: int, step_: float, odd_machine: Path
) -> None:
    """Sums to floats on the drain, codes of the shortcut beside them, ReLU, and codes again."""
    shape = (2, 29, 7, 5)

    def network(x: Any, w: Any, bias: Any, scale: Any, short: Any, by: Any) -> tuple[Any, ...]:
        window = {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "x_dilation": (1, 1), "w_dilation": (1, 1)}
        y = table["conv"](x, w, **window, groups=1, dtype=dt.int32)
        y = table["add"](y, table["broadcast"](bias, shape=y.shape, axes=(1,)))
        none = table["full"](shape=(29,), value=0, dtype=dt.int32)
        y = table["dequantise"](y, scale, none, axis=1)
        step = table["full"](shape=(), value=step_, dtype=dt.float32)
        point = table["full"](shape=(), value=zero, dtype=dt.int8)
        y = table["add"](y, table["dequantise"](short, step, point, axis=None))
        y = table["mul"](y, table["broadcast"](by, shape=shape, axes=()))
        y = _rectified(y, step_ != 0.037)
        return (table["quantise"](y, step, point, axis=None, dtype=dt.int8),)

    shapes = [((2, 23, 7, 5), dt.int8), ((29, 23, 1, 1), dt.int8), ((29,), dt.int32), ((29,), dt.float32)]
    types = [TensorType(*s) for s in (*shapes, (shape, dt.int8), ((), dt.float32))]
    graph = record_graph(network, types, "f")
    rng = np.random.default_rng(5)
    operands = [rng.integers(-128, 128, t.shape).astype(t.dtype) for t in types]
    operands[3] = (rng.standard_normal(29) / 3000).astype(np.float32)
    operands[5] = np.array(1.25, np.float32)
    target = f"dlp:{odd_machine if machine == 'odd' else machine}"
    made = executable(graph, target, Usage(options=(("checks", True),)))
    assert np.array_equal(made(operands)[0], run(graph, operands)[0])
    lines = [line for line in made.stages["mapping"].splitlines() if "reorder" not in line]
    assert len(lines) == 1 and " matrix " in lines[0]
    isa = made.stages["isa"]
    assert ("VDS" in isa) == (step_ == 0.037)
    assert zero or "VSEL" not in isa  # a zero point is what NaN becomes: chosen behind the rounding


def test_of_two_products_that_meet_the_narrower_one_is_written() -> None:
    """A block whose shortcut is a convolution, too, recorded last: its codes are written, not the floats."""
    window = {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "x_dilation": (1, 1), "w_dilation": (1, 1)}

    def network(x: Any, w: Any, v: Any, scale: Any) -> tuple[Any]:
        step, none = (
            table["full"](shape=(), value=n, dtype=t) for n, t in ((0.037, dt.float32), (0, dt.int8))
        )
        y, z = (table["conv"](x, each, **window, groups=1, dtype=dt.int32) for each in (w, v))
        y = table["dequantise"](y, scale, table["full"](shape=(19,), value=0, dtype=dt.int32), axis=1)
        z = table["requantise"](
            z, scale, table["full"](shape=(19,), value=0, dtype=dt.int8), axis=1, dtype=dt.int8
        )
        y = table["add"](y, table["dequantise"](z, step, none, axis=None))
        return (table["quantise"](y, step, none, axis=None, dtype=dt.int8),)

    shapes = [
        ((1, 9, 6, 5), dt.int8),
        ((19, 9, 1, 1), dt.int8),
        ((19, 9, 1, 1), dt.int8),
        ((19,), dt.float32),
    ]
    types = [TensorType(*s) for s in shapes]
    graph = record_graph(network, types, "f")
    rng = np.random.default_rng(7)
    operands = [rng.integers(-128, 128, t.shape).astype(t.dtype) for t in types]
    operands[3] = (rng.standard_normal(19) / 2000).astype(np.float32)
    made = executable(graph, "dlp:dlp-s", Usage(options=(("checks", True),)))
    assert np.array_equal(made(operands)[0], run(graph, operands)[0])
    first, second = [line for line in made.stages["mapping"].splitlines() if "conv" in line]
    assert "conv_rescale" in first and "to_grid" in second
