"""Windows natively: largest, smallest, sum, and the two steps of their backward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.conv.convolutions import lowered, native, random, region, types_of
from trilobite.base.dtypes import float32
from trilobite.compiler.targets.cpu.contraction.pooling import lower as pooling
from trilobite.compiler.targets.cpu.contraction.rowwise import steps
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.types import TensorType

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


def _scaled(x: Any, window: dict[str, Any], numbers: tuple[float, ...]) -> Graph:
    """The largest of windows plus an operand per channel, then by a quotient and a bound of its own."""
    alone = region("window_last_reduce", types_of([x]), {**window, "kind": "max"})
    (found,) = alone.outputs
    shift = Var(TensorType((x.shape[-1],), x.dtype))
    equations, last = list(alone.equations), found

    def add(name: str, inputs: tuple[Var, ...], **attributes: Any) -> Var:
        out = Var(found.type)
        equations.append(Equation(table[name], inputs, attributes, (out,)))
        return out

    wide = add("broadcast", (shift,), shape=found.type.shape, axes=(found.type.ndim - 1,))
    last = add("add", (last, wide))
    for name, number in zip(("div", "minimum", "maximum"), numbers, strict=True):
        last = add(name, (last, add("full", (), shape=found.type.shape, dtype=x.dtype, value=number)))
    return Graph((*alone.inputs, shift), equations, (last,))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_numbers_after_a_window_are_no_part_of_its_kernel(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bits are those of a kernel that has them inside, which of small floats rounds chains once."""
    rng = np.random.default_rng(4)
    for shape, window in WINDOWS:
        x, shift = random(rng, shape, np.dtype(dtype)), random(rng, shape[-1:], np.dtype(dtype))
        texts = set()
        for numbers in ((3.0, 6.0, 0.0), (-0.7, 0.3, 0.0)):
            graph = _scaled(x, window, numbers)
            (got,), (want,) = native(graph, [x, shift], 2), run(graph, [x, shift])
            rough = 4e-3 if dtype == "float16" else 4e-2 if dtype == "bfloat16" else 0
            np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rough, 0)
            texts.add(tuple(step.kernel.text for step in lowered(graph).steps))
            with monkeypatch.context() as inside:
                inside.setattr(steps, "numbers_apart", lambda epilogue: (epilogue, ()))
                assert native(graph, [x, shift])[0].tobytes() == got.tobytes()
        assert len(texts) == 1


def test_a_quotient_by_a_power_of_two_stays_in_its_kernel() -> None:
    shape, window = WINDOWS[0]
    x = np.zeros(shape, np.float32)
    texts = {
        step.kernel.text
        for number in (4.0, 0.25)
        for step in lowered(_scaled(x, window, (number, 6.0, 0.0))).steps
    }
    assert len(texts) == 2


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
