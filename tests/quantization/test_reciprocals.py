"""Scales with an exact reciprocal: the same code for every float32, by product or by quotient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base import dtypes as dt
from trilobite.base.reciprocals import exact_reciprocal, reciprocal_in_two, with_reciprocal
from trilobite.compiler.graph.pipeline import Options
from trilobite.compiler.targets.contract import Usage
from trilobite.compiler.targets.cpu.target import compile_graph
from trilobite.compiler.targets.registry import executable
from trilobite.ir.evaluate import run
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType

RANGES = ((-128, 127), (0, 255), (-131, 124), (-32768, 32767))


def numbers(scale: float, low: int, high: int, rng: np.random.Generator) -> Any:
    """Bits at random, and floats next to the middles of two codes."""
    bits = rng.integers(-(2**31), 2**31, 50_000, dtype=np.int64).astype(np.int32).view(np.float32)
    middles = ((rng.integers(low - 2, high + 2, 50_000) + 0.5) * scale).astype(np.float32).view(np.int32)
    near = (middles + rng.integers(-5, 6, middles.size).astype(np.int32)).view(np.float32)
    return np.concatenate([bits, near, np.array([0.0, -0.0, np.inf, -np.inf], np.float32)])


def codes(steps: Any, low: int, high: int) -> Any:
    return np.where(np.isnan(steps), 0, np.clip(np.rint(steps), low, high))


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_products_with_the_reciprocal_give_the_codes_of_quotients(low: int, high: int) -> None:
    rng, found = np.random.default_rng(high), 0
    for scale in np.exp(rng.uniform(-12, 6, 12)).astype(np.float32):
        step = with_reciprocal(float(scale), low, high)
        assert scale <= np.float32(step) < scale * 1.002
        by = exact_reciprocal(step, low, high)
        if by is None:
            continue
        found += 1
        x = numbers(step, low, high, rng)
        with np.errstate(all="ignore"):
            same = codes(x / np.float32(step), low, high) == codes(x * np.float32(by), low, high)
        assert same.all()
    assert found >= (12 if high < 1000 else 1)


def test_most_scales_have_none_and_powers_of_two_have() -> None:
    rng = np.random.default_rng(3)
    scales = rng.uniform(0.01, 1, 40).astype(np.float32)
    assert sum(exact_reciprocal(float(s), -128, 127) is None for s in scales) > 35
    assert exact_reciprocal(0.125, -32768, 32767) == 8.0
    for scale in (0.0, -1.0, float("inf"), float("nan"), 1e-44, 3e38):
        assert exact_reciprocal(scale, -128, 127) is None


def test_a_scale_without_neighbours_of_the_kind_stays() -> None:
    for scale in (1e-44, 3.4e38):
        assert with_reciprocal(float(np.float32(scale)), -128, 127) == float(np.float32(scale))


@pytest.mark.parametrize("zero", [0, -3])
@pytest.mark.parametrize("scale", [0.05, with_reciprocal(0.05, -128, 127), 0.25])
def test_the_processor_multiplies_only_where_codes_are_equal(scale: float, zero: int) -> None:
    def network(x: Any) -> tuple[Any]:
        step = table["full"](shape=(), value=scale, dtype=dt.float32)
        point = table["full"](shape=(), value=zero, dtype=dt.int8)
        return (table["quantise"](x, step, point, axis=None, dtype=dt.int8),)

    x = numbers(scale, -128, 127, np.random.default_rng(5))
    graph = record_graph(network, [TensorType(x.shape, dt.float32)], "f")
    made: Any = executable(graph, "dlp:dlp-s", Usage())
    with np.errstate(all="ignore"):
        assert np.array_equal(made([x])[0], run(graph, [x])[0])
    text = made.stages["isa"]
    assert ("VDS" in text) == (exact_reciprocal(scale, -128 - zero, 127 - zero) is None)


def test_a_shortcut_is_read_from_codes_and_results_are_as_computed() -> None:
    class Block(tb.nn.Module):
        def __init__(self) -> None:
            self.a, self.b, self.c = (tb.nn.Conv2d(6, 6, 1) for _ in range(3))

        def forward(self, x: Any) -> Any:
            y = tb.nn.functional.relu(self.a(x) + self.b(x))
            return self.c(y) + y, y

    tb.manual_seed(1)
    x = tb.tensor(np.random.default_rng(1).normal(size=(1, 6, 5, 4)).astype(np.float32))
    small = tb.quantize(Block().eval(), [x])
    graph = small.quantization.graph
    (quantised,) = [
        e for e in graph.equations if e.primitive.name == "quantise" and e.inputs[0] in graph.outputs
    ]
    assert any(
        e.primitive.name == "dequantise" and e.inputs[0] is quantised.outputs[0] for e in graph.equations
    )
    assert not any(e.primitive.name == "add" and quantised.inputs[0] in e.inputs for e in graph.equations)


def test_of_two_convolutions_that_meet_one_is_stored_as_codes() -> None:
    class Ends(tb.nn.Module):
        def __init__(self) -> None:
            self.a, self.b = tb.nn.Conv2d(5, 7, 3, padding=1), tb.nn.Conv2d(5, 7, 1)

        def forward(self, x: Any) -> Any:
            return self.a(x) + self.b(x)

    tb.manual_seed(2)
    model = Ends().eval()
    x = tb.tensor(np.random.default_rng(2).normal(size=(2, 5, 9, 8)).astype(np.float32))
    small = tb.quantize(model, [x])
    names = [e.primitive.name for e in small.quantization.graph.equations]
    assert names.count("requantise") == 1 and names.count("dequantise") == 2
    want, got = model(x).detach().numpy(), small(x).numpy()
    assert np.linalg.norm(got - want) < 0.03 * np.linalg.norm(want)


@pytest.mark.parametrize("dtype", [dt.int8, dt.uint8], ids=str)
def test_the_cpu_multiplies_by_any_scale_in_two_parts(dtype: Any) -> None:
    """Bit for bit as the quotient is rounded, which no single product gives for most scales."""
    rng, info = np.random.default_rng(8), np.iinfo(dtype)
    two = 0
    for scale in [*np.exp(rng.uniform(-12, 6, 10)), 0.25, 1536.0, 1 / 255, 6 / 255]:
        zero = int(rng.integers(info.min, info.max + 1))
        low, high = int(info.min) - zero, int(info.max) - zero
        found = reciprocal_in_two(float(np.float32(scale)), low, high)
        assert found is not None
        two += found[1] != 0
        by, point = np.asarray(scale, np.float32), np.asarray(zero, dtype)
        x = np.concatenate([numbers(float(by), low, high, rng), np.array([np.nan], np.float32)])

        def to_grid(x: Any, by: Any = by, point: Any = point) -> Any:
            return [table["quantise"](x, by, point, axis=None, dtype=dtype)]

        graph = record_graph(to_grid, [TensorType(x.shape, dt.float32)])
        compiled = compile_graph(graph, Options())
        assert "quantise_product" in str(compiled.compilation.stages["sweep"])
        assert compiled([x])[0].tobytes() == run(graph, [x])[0].tobytes()
    assert two > 8


@pytest.mark.parametrize("scale", [1e-38, 3e38, 0.0, float("inf"), float("nan"), -1.0])
def test_scales_at_the_ends_of_float32_are_divided_by(scale: float) -> None:
    assert reciprocal_in_two(scale, -128, 127) is None
