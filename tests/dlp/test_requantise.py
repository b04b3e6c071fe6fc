"""One rounding of scaled sums on every target: interpreter, CPU and vector unit agree bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from trilobite.base import dtypes as dt
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
