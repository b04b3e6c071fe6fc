"""Sums of narrower values: a reduction reads them as they lie and widens them on chip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilobite.base import dtypes as dt
from trilobite.compiler.targets.contract import Usage
from trilobite.compiler.targets.dlp.target import Processed
from trilobite.compiler.targets.registry import find
from trilobite.ir import primitives  # noqa: F401, fills the table
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType

SHAPES = [(1, 9, 5, 7), (3, 130, 2, 3), (2, 1, 300, 2), (1, 2048, 7, 7), (40, 3, 3, 3)]


def _summed(shape: tuple[int, ...], axes: tuple[int, ...], kind: str, narrow: Any, wide: Any) -> Graph:
    def body(x: Any) -> tuple[Any]:
        return (table[f"reduce_{kind}"](table["cast"](x, dtype=wide), axes=axes),)

    return record_graph(body, [TensorType(shape, narrow)], "summed")


def _loaded(graph: Graph, machine: str) -> Processed:
    target = find(f"dlp:{machine}")
    made = target.load(target.lower(graph, Usage()))
    assert isinstance(made, Processed)
    return made


def _check(graph: Graph, values: list[Any], machine: str) -> None:
    made = _loaded(graph, machine)
    made.checks = True
    assert np.array_equal(made.run(list(values), [], 0)[0], run(graph, values)[0])
    assert made.last is not None
    assert made.last.compiled.network.calls[0].primitives[0] == "cast", "it is no group of its own"


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m", "odd"])
@pytest.mark.parametrize("shape", SHAPES)
def test_bytes_are_summed_as_words(machine: str, shape: tuple[int, ...], odd_machine: Path) -> None:
    rng = np.random.default_rng(sum(shape))
    part = str(odd_machine) if machine == "odd" else machine
    axes = [(2, 3), (1,), (0,), (3,)][sum(shape) % 4]
    for narrow, low in ((dt.int8, -128), (dt.uint8, 0), (dt.int16, -30000)):
        kind = ("sum", "max", "min")[int(rng.integers(3))]
        x = rng.integers(low, 127, shape).astype(narrow)
        _check(_summed(shape, axes, kind, narrow, dt.int32), [x], part)


def test_halves_are_summed_as_floats() -> None:
    x = np.random.default_rng(4).integers(-9, 9, (3, 70, 4, 5)).astype(np.float16)
    _check(_summed(x.shape, (2, 3), "sum", dt.float16, dt.float32), [x], "dlp-m")


def test_a_product_stores_the_narrow_form() -> None:
    """Of a mean behind a convolution the bytes go to memory, not the words."""

    def body(x: Any, w: Any, scale: Any) -> tuple[Any]:
        window = {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "x_dilation": (1, 1), "w_dilation": (1, 1)}
        sums = table["conv"](x, w, **window, groups=1, dtype=dt.int32)
        zero = table["full"](shape=scale.shape, value=0, dtype=dt.int8)
        codes = table["requantise"](sums, scale, zero, axis=1, dtype=dt.int8)
        return (table["reduce_sum"](table["cast"](codes, dtype=dt.int32), axes=(2, 3)),)

    types = [TensorType((1, 16, 7, 7), dt.int8), TensorType((64, 16, 1, 1), dt.int8),
             TensorType((64,), dt.float32)]  # fmt: skip
    graph = record_graph(body, types, "mean")
    rng = np.random.default_rng(1)
    values = [rng.integers(-20, 20, t.shape).astype(np.int8) for t in types[:2]]
    values.append(rng.random(64).astype(np.float32) / 50)
    made = _loaded(graph, "dlp-m")
    made.checks = True
    assert np.array_equal(made.run(list(values), [], 0)[0], run(graph, values)[0])
    assert made.last is not None
    last, mean = (call.primitives for call in made.last.compiled.network.calls[-2:])
    assert last[0] == "conv" and "cast" not in last and mean == ("cast", "reduce_sum")
