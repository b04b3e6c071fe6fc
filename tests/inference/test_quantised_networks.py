"""Quantised networks run on bytes: the same bits on CPU and chip, a step at most from what is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.inference.conftest import model, node
from trilobite import inference

SX, ZX = np.float32(0.031), 11


def grids(constants: dict[str, np.ndarray], dtype: Any) -> Any:
    """Nodes that put a value on a grid and take it off again."""

    def on_grid(name: str, scale: float, zero: int) -> list[Any]:
        constants[f"{name}_s"], constants[f"{name}_z"] = np.float32(scale), np.asarray(zero, dtype)
        return [
            node("QuantizeLinear", f"{name} {name}_s {name}_z", f"{name}_q"),
            node("DequantizeLinear", f"{name}_q {name}_s {name}_z", f"{name}_r"),
        ]

    return on_grid


def network(dtype: Any, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Two convolutions (one per channel and strided, one in groups), a residual, a resize, a join, pooling
    and a product, in the form that quantising tools write.
    """
    rng = np.random.default_rng(seed)
    shift = 128 if dtype == np.uint8 else 0
    c: dict[str, np.ndarray] = {
        "w1": rng.integers(-127, 128, (80, 5, 3, 3)).astype(np.int8),
        "w1_s": (rng.random(80) * 0.01 + 0.001).astype(np.float32), "w1_z": np.zeros(80, np.int8),
        "w2": rng.integers(-127, 128, (80, 40, 3, 3)).astype(np.int8),
        "w2_s": np.float32(0.004), "w2_z": np.int8(0),
        "w3": rng.integers(-127, 128, (160, 10)).astype(np.int8),
        "w3_s": np.float32(0.006), "w3_z": np.int8(0),
        "b1": rng.integers(-3000, 3000, 80).astype(np.int32), "b1_z": np.zeros(80, np.int32),
        "b2": rng.standard_normal(80).astype(np.float32), "sizes": np.array([1, 1, 2, 2], np.float32),
        "shape": np.array([1, 160]),
    }  # fmt: skip
    c["b1_s"] = SX * c["w1_s"]
    on = grids(c, dtype)
    nodes = [
        *on("x", float(SX), ZX + shift),
        node("DequantizeLinear", "w1 w1_s w1_z", "v1", axis=0),
        node("DequantizeLinear", "b1 b1_s b1_z", "c1", axis=0),
        node("Conv", "x_r v1 c1", "y1", strides=[2, 2], pads=[1, 1, 1, 1]), node("Relu", "y1", "h1"),
        *on("h1", 0.012, -128 + shift),
        node("DequantizeLinear", "w2 w2_s w2_z", "v2"),
        node("Conv", "h1_r v2 b2", "y2", group=2, pads=[1, 1, 1, 1]), *on("y2", 0.13, 3 + shift),
        node("Add", "y2_r h1_r", "sum"), node("Relu", "sum", "h2"), *on("h2", 0.07, -128 + shift),
        node("Resize", "h2_r - sizes", "up", mode="nearest"), *on("up", 0.07, -128 + shift),
        node("MaxPool", "up_r", "best", kernel_shape=[2, 2], strides=[2, 2]), *on("best", 0.07, -128 + shift),
        node("Concat", "best_r h2_r", "join", axis=1), *on("join", 0.07, -128 + shift),
        node("GlobalAveragePool", "join_r", "mean"), *on("mean", 0.021, -100 + shift),
        node("Reshape", "mean_r shape", "flat"),
        node("DequantizeLinear", "w3 w3_s w3_z", "v3"),
        node("MatMul", "flat v3", "logits"), *on("logits", 0.25, shift),
    ]  # fmt: skip
    found = model(nodes, {"x": (np.float32, [1, 5, 5, 6])}, ["logits_r", "join_q"], c)
    return found, (rng.standard_normal((1, 5, 5, 6)) * 2).astype(np.float32)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_network_is_within_a_step_of_what_is_written(dtype: Any) -> None:
    proto, x = network(dtype)
    cpu = inference.load(proto)
    found, meaning = cpu.run({"x": x}), inference.load(proto, target="reference").run({"x": x})
    apart = np.abs(found["join_q"].astype(int) - meaning["join_q"].astype(int))
    assert apart.max() <= 1 and (apart != 0).mean() < 0.02
    assert len(np.unique(found["join_q"])) > 50
    np.testing.assert_allclose(found["logits_r"], meaning["logits_r"], atol=0.2501)
    text = cpu.program.steps[0].executable({"x": x}).stages["integers"]
    products = [line for line in text.splitlines() if "= conv" in line or "= dot" in line]
    assert len(products) == 3 and all("i32[" in line for line in products)


def same_on_chip(proto: Any, x: np.ndarray) -> None:
    found = inference.load(proto).run({"x": x})
    chip = inference.load(proto, target="dlp:dlp-s").run({"x": x})
    for name, value in found.items():
        np.testing.assert_array_equal(chip[name], value)
        assert len(np.unique(value)) > 5


@pytest.mark.long
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_network_gives_the_same_bits_on_a_chip(dtype: Any) -> None:
    same_on_chip(*network(dtype))


def test_a_product_gives_the_same_bits_on_a_chip() -> None:
    rng = np.random.default_rng(8)
    c = {"w": rng.integers(-127, 128, (12, 9)).astype(np.int8), "w_s": np.float32(0.01), "w_z": np.int8(0)}
    on = grids(c, np.uint8)
    proto = model(
        [*on("x", 0.03, 101), node("DequantizeLinear", "w w_s w_z", "v"), node("MatMul", "x_r v", "y"),
         node("Relu", "y", "h"), *on("h", 0.05, 7)],
        {"x": (np.float32, [3, 12])}, ["h_q", "h_r"], c,
    )  # fmt: skip
    same_on_chip(proto, (rng.standard_normal((3, 12)) * 3).astype(np.float32))


def test_products_of_integer_operators_run_on_bytes() -> None:
    rng = np.random.default_rng(4)
    c = {
        "w": rng.integers(0, 256, (70, 6, 3, 3)).astype(np.uint8), "wz": np.uint8(131),
        "ws": (rng.random(70) * 0.01 + 0.002).astype(np.float32), "xs": np.float32(0.02),
        "xz": np.uint8(117), "ys": np.float32(0.11), "yz": np.uint8(100),
        "wzs": np.full(70, 131, np.uint8), "b": rng.integers(-4000, 4000, 70).astype(np.int32),
        "m": rng.integers(-128, 128, (20, 30)).astype(np.int8),
    }  # fmt: skip
    proto = model(
        [node("QLinearConv", "x xs xz w ws wzs ys yz b", "y", pads=[1, 0, 1, 2]),
         node("DynamicQuantizeLinear", "f", "fq fs fz"), node("MatMulInteger", "fq m fz", "z")],
        {"x": (np.uint8, [2, 6, 8, 7]), "f": (np.float32, [5, 20])}, ["y", "z"], c,
    )  # fmt: skip
    feeds = {
        "x": rng.integers(0, 256, (2, 6, 8, 7)).astype(np.uint8),
        "f": rng.standard_normal((5, 20)).astype(np.float32),
    }
    session = inference.load(proto)
    found, meaning = session.run(feeds), inference.load(proto, target="reference").run(feeds)
    np.testing.assert_array_equal(found["y"], meaning["y"])
    np.testing.assert_array_equal(found["z"], meaning["z"])
    assert len(np.unique(found["y"])) > 50
    text = session.program.steps[0].executable(feeds).stages["integers"]
    products = [line for line in text.splitlines() if "= conv" in line or "= dot" in line]
    assert products and all("i32[" in line for line in products)
    dtypes = {v.split(":")[0]: v.split()[1] for v in text.splitlines() if v.startswith("  %")}
    read = [dtypes.get(f"  {name.strip(',')}", "input") for line in products for name in line.split()[4:6]]
    assert all(t.startswith("i8") or t == "input" for t in read), read
