"""Windows natively: largest, smallest, sum, and the two steps of their backward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.conv.convolutions import native, random, region, types_of
from trilobite.base.dtypes import float32
from trilobite.compiler.targets.cpu.contraction.pooling import lower as pooling
from trilobite.ir.evaluate import run

WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 9, 8, 5), {"size": (3, 3), "stride": (2, 2), "low": (1, 1), "high": (1, 1), "dilation": (1, 1)}),
    ((2, 9, 8, 40), {"size": (2, 2), "stride": (2, 2), "low": (0, 0), "high": (0, 0), "dilation": (1, 1)}),
    ((3, 7, 9, 16), {"size": (3, 2), "stride": (1, 3), "low": (2, 0), "high": (0, 4), "dilation": (2, 1)}),
    ((2, 3, 11, 21), {"size": (4,), "stride": (3,), "low": (5,), "high": (2,), "dilation": (1,)}),
    (
        (1, 4, 5, 6, 9),
        {"size": (2, 3, 2), "stride": (1, 2, 2), "low": (1, 0, 1), "high": (0, 1, 0), "dilation": (1, 1, 1)},
    ),
]  # fmt: skip


def _pooled(x: Any, window: dict[str, Any]) -> tuple[int, ...]:
    graph = region("window_last_reduce", types_of([x]), {**window, "kind": "sum"})
    return tuple(int(n) for n in graph.output_types[0].shape)


@pytest.mark.parametrize("kind", ["max", "min", "sum"])
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "uint32", "int64"]
)
def test_reduce(kind: str, dtype: str) -> None:
    rng = np.random.default_rng(len(kind))
    for shape, window in WINDOWS:
        x = random(rng, shape, np.dtype(dtype))
        graph = region("window_last_reduce", types_of([x]), {**window, "kind": kind})
        (got,), (other,), (want,) = native(graph, [x]), native(graph, [x], 3), run(graph, [x])
        assert got.tobytes() == other.tobytes()
        if kind != "sum" or np.dtype(dtype).kind in "iu":
            np.testing.assert_array_equal(got, want)
            continue
        size = run(graph, [np.abs(x)])[0].astype(np.float64)
        unit = {"float64": 2**-52, "float32": 2**-23}.get(dtype, 2**-7)
        assert (np.abs(got.astype(np.float64) - want.astype(np.float64)) <= 12 * unit * size).all()


def test_not_a_number_wins_and_padding_never() -> None:
    rng = np.random.default_rng(0)
    for shape, window in WINDOWS:
        x = random(rng, shape, float32)
        x[rng.random(shape) < 0.1] = np.nan
        x[rng.random(shape) < 0.3] = -np.inf
        for kind in ("max", "min"):
            graph = region("window_last_reduce", types_of([x]), {**window, "kind": kind})
            np.testing.assert_array_equal(native(graph, [x])[0], run(graph, [x])[0])


@pytest.mark.parametrize("fill", ["normal", "equal", "nan", "lowest"])
def test_gradient_of_the_largest_goes_to_the_first(fill: str) -> None:
    rng = np.random.default_rng(1)
    for shape, window in WINDOWS:
        x = random(rng, shape, float32)
        if fill == "equal":
            x = rng.integers(0, 3, shape).astype(np.float32)
        elif fill == "nan":
            x[rng.random(shape) < 0.4] = np.nan
        elif fill == "lowest":
            x[...] = -np.inf
        y = random(rng, _pooled(x, window), float32)
        graph = region("window_last_max_grad", types_of([x, y]), window)
        (got,), (other,), (want,) = native(graph, [x, y]), native(graph, [x, y], 4), run(graph, [x, y])
        assert got.tobytes() == other.tobytes() == want.tobytes()


def test_spread_is_the_transpose_of_a_sum() -> None:
    rng = np.random.default_rng(2)
    for shape, window in WINDOWS:
        x = random(rng, shape, float32)
        y = random(rng, _pooled(x, window), float32)
        plane = shape[len(shape) - 1 - len(window["size"]) : -1]
        graph = region("window_last_spread", types_of([y]), {**window, "plane": plane})
        (got,), (want,) = native(graph, [y], 3), run(graph, [y])
        size = run(graph, [np.abs(y)])[0]
        assert (np.abs(got - want) <= 12 * np.finfo(np.float32).eps * size).all()


def test_empty_windows() -> None:
    for shape in ((0, 4, 4, 3), (2, 4, 4, 0)):
        window = {"size": (2, 2), "stride": (2, 2), "low": (0, 0), "high": (0, 0), "dilation": (1, 1)}
        x = np.zeros(shape, np.float32)
        y = np.zeros(_pooled(x, window), np.float32)
        for name, values, more in (
            ("window_last_reduce", [x], {"kind": "max"}),
            ("window_last_spread", [y], {"plane": (4, 4)}),
            ("window_last_max_grad", [x, y], {}),
        ):
            graph = region(name, types_of(values), {**window, **more})
            assert native(graph, values)[0].shape == run(graph, values)[0].shape


def test_refusals_say_why() -> None:
    x = np.zeros((1, 6, 6, 2), np.dtype("bool"))
    shape, window = WINDOWS[0]
    graph = region("window_last_reduce", types_of([x]), {**window, "kind": "max"})
    assert pooling.accepts(graph) == "windows of bool run on the host"
    half = np.zeros(shape, np.float16)
    y = np.zeros(_pooled(half, window), np.float16)
    graph = region("window_last_max_grad", types_of([half, y]), window)
    assert "overlapping windows of small floats" in str(pooling.accepts(graph))
