"""Products between DequantizeLinear and QuantizeLinear run on integers: the same bits everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.inference.conftest import model, node
from trilobite import inference
from trilobite.ir.primitives.quantise import requantise

Array = np.ndarray[Any, Any]


class Case:
    """A random product with its grids; `expected` is computed with integers and one rounding in NumPy."""

    def __init__(self, seed: int, op: str) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.op, self.group, self.pads = op, int(rng.choice([1, 1, 2])) if op == "Conv" else 1, [1, 0, 2, 1]
        kinds = [np.int8, np.uint8]
        self.x_type, self.y_type = (kinds[rng.integers(2)] for _ in range(2))
        self.inputs, self.outputs = 6 * self.group, 5 * self.group
        x_info, y_info = np.iinfo(self.x_type), np.iinfo(self.y_type)
        shape = (2, self.inputs, 7, 6) if op == "Conv" else (3, 4, 19) if op == "MatMul" else (11, 19)
        if op != "Conv":
            self.inputs = 19
        self.x = rng.integers(x_info.min, x_info.max + 1, shape).astype(self.x_type)
        kernel = (3, 3) if op == "Conv" else ()
        self.w = rng.integers(-127, 128, (self.outputs, self.inputs // self.group, *kernel)).astype(np.int8)
        self.x_zero = self.x_type(rng.integers(x_info.min, x_info.max + 1))
        self.y_zero = self.y_type(rng.integers(y_info.min, y_info.max + 1))
        self.x_scale = np.float32(rng.uniform(0.01, 0.2))
        per = rng.random() < 0.7
        self.w_scale = rng.uniform(0.001, 0.02, self.outputs if per else ()).astype(np.float32)
        terms = self.w[0].size
        self.y_scale = np.float32(self.x_scale * self.w_scale.max() * np.sqrt(terms) * rng.uniform(40, 300))
        if rng.random() < 0.4:  # powers of two: many ties
            self.x_scale, self.y_scale = np.float32(0.25), np.float32(2.0 ** rng.integers(4, 7))
            self.w_scale = np.full_like(self.w_scale, 0.125)
        self.bias = rng.integers(-9000, 9000, self.outputs).astype(np.int32) if op != "MatMul" else None

    def sums(self) -> Array:
        x, w = self.x.astype(np.int64) - int(self.x_zero), self.w.astype(np.int64)
        if self.op != "Conv":
            found = x @ w.T
            return found if self.bias is None else found + self.bias
        x = np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1)))
        seen = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))[:, :, ::2]
        per = self.inputs // self.group
        parts = [
            np.einsum("bcpqij,ocij->bopq", seen[:, g * per : (g + 1) * per], w[g * 5 : (g + 1) * 5])
            for g in range(self.group)
        ]
        assert self.bias is not None
        return np.concatenate(parts, axis=1) + self.bias.reshape(1, -1, 1, 1)

    def factors(self) -> Array:
        return np.broadcast_to(np.float64(self.x_scale) * np.float64(self.w_scale), self.outputs)

    def expected(self, low: float = -np.inf, high: float = np.inf) -> Array:
        axis, total = (1 if self.op == "Conv" else self.x.ndim - 1), self.sums()
        scale = (self.factors() / np.float64(self.y_scale)).astype(np.float32)
        zero = np.full(self.outputs, self.y_zero)
        codes = requantise.evaluate(total, scale, zero, axis=axis, dtype=np.dtype(self.y_type))
        info = np.iinfo(self.y_type)
        steps = [float(np.rint(np.float32(v) / self.y_scale)) + int(self.y_zero) for v in (low, high)]
        first, last = (int(np.clip(v, info.min, info.max)) for v in steps)
        return np.clip(codes, first, last)

    def proto(self, between: str = "", is_quantised: bool = True) -> Any:
        constants = {
            "w": self.w, "xs": self.x_scale, "xz": self.x_zero, "ws": self.w_scale,
            "wz": np.zeros(self.w_scale.shape, np.int8), "ys": self.y_scale, "yz": self.y_zero,
            "low": np.float32(-1.5), "high": np.float32(2.25),
        }  # fmt: skip
        rest: dict[str, Any] = {}
        if self.op == "Conv":
            rest = {"strides": [2, 1], "pads": self.pads, "group": self.group}
        elif self.op == "Gemm":
            rest = {"transB": 1}
        else:
            constants["w"] = np.ascontiguousarray(self.w.T)
        nodes = [
            node("DequantizeLinear", "x xs xz", "xf"),
            node("DequantizeLinear", "w ws wz", "wf", axis=1 if self.op == "MatMul" else 0),
        ]
        if self.bias is not None:
            bias_scale = (self.x_scale * self.w_scale).astype(np.float32)
            constants |= {"b": self.bias, "bs": bias_scale, "bz": np.zeros(bias_scale.shape, np.int32)}
            nodes.append(node("DequantizeLinear", "b bs bz", "bf", axis=0))
        nodes.append(node(self.op, "xf wf" + (" bf" if self.bias is not None else ""), "s", **rest))
        at = "s"
        if between:
            nodes.append(node(between, "s low high" if between == "Clip" else "s", "t"))
            at = "t"
        if is_quantised:
            nodes.append(node("QuantizeLinear", f"{at} ys yz", "y"))
        made = "y" if is_quantised else at
        return model(
            nodes,
            {"x": (self.x_type, self.x.shape)},
            [made],
            {k: np.asarray(v) for k, v in constants.items()},
        )

    def run(self, proto: Any, target: str) -> Array:
        session = inference.load(proto, target=target)
        found = np.asarray(next(iter(session.run({"x": self.x}).values())))
        if target == "cpu":
            assert (
                products(session, {"x": self.x}) >= 1
            )  # sums of windows for zero points of weights are products
        return found


def products(session: Any, feeds: dict[str, Array]) -> int:
    """How many products of the compiled graph multiply bytes."""
    text = session.program.steps[0].executable(feeds).stages["integers"]
    found = [line for line in text.splitlines() if "= conv" in line or "= dot" in line]
    return sum(": i32[" in line.split("=")[0] for line in found)


@pytest.mark.parametrize("target", ["cpu", "dlp:dlp-m"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("op", ["Conv", "MatMul", "Gemm"])
def test_codes_are_those_of_integers_bit_for_bit(op: str, seed: int, target: str) -> None:
    case = Case(seed, op)
    found = case.run(case.proto(), target)
    assert found.dtype == case.y_type
    np.testing.assert_array_equal(found, case.expected())


@pytest.mark.parametrize("op", ["Conv", "MatMul", "Gemm"])
def test_codes_are_within_a_step_of_what_is_written(op: str) -> None:
    case = Case(2, op)
    apart = case.run(case.proto(), "reference").astype(int) - case.expected().astype(int)
    assert np.abs(apart).max() <= 1


@pytest.mark.parametrize(("between", "low", "high"), [("Relu", 0.0, np.inf), ("Clip", -1.5, 2.25)])
@pytest.mark.parametrize("seed", range(3))
def test_relu_and_clip_hold_codes(between: str, low: float, high: float, seed: int) -> None:
    case = Case(seed, "Conv")
    np.testing.assert_array_equal(case.run(case.proto(between), "cpu"), case.expected(low, high))


@pytest.mark.parametrize("op", ["Conv", "MatMul"])
def test_numbers_are_the_sums_times_one_scale(op: str) -> None:
    case = Case(7, op)
    shape = (1, -1, 1, 1) if op == "Conv" else (-1,)
    scale = case.factors().astype(np.float32).astype(np.float64).reshape(shape)
    found = case.run(case.proto(is_quantised=False), "cpu")
    np.testing.assert_array_equal(found, (case.sums() * scale).astype(np.float32))


def test_weights_with_zero_points_and_a_float_bias() -> None:
    case = Case(3, "Conv")
    proto = case.proto()
    shifted = (case.w.astype(np.int16) // 2 + 100).astype(np.uint8)
    bias = np.linspace(-3, 4, case.outputs).astype(np.float32)
    for name, value in (("w", shifted), ("wz", np.full(case.w_scale.shape, 100, np.uint8)), ("bf", bias)):
        _replace(proto, name, value)
    case.w = (case.w.astype(np.int16) // 2).astype(np.int8)
    case.bias = np.rint(bias / case.factors()).astype(np.int32)
    np.testing.assert_array_equal(case.run(proto, "cpu"), case.expected())


@pytest.mark.parametrize("reason", ["overflow", "computed scale", "two readers of numbers"])
def test_what_integers_cannot_serve_stays_in_floats(reason: str) -> None:
    case = Case(1, "MatMul")
    if reason == "overflow":
        case.x = np.zeros((1, 70_000), case.x_type)
        case.w = np.full((case.outputs, 70_000), 127, np.int8)
    proto = case.proto()
    feeds = {"x": case.x}
    if reason == "computed scale":
        _drop(proto, "xs")
        proto.graph.input.add(name="xs").type.tensor_type.elem_type = 1
        feeds["xs"] = np.asarray(case.x_scale)
    if reason == "two readers of numbers":
        proto.graph.output.add(name="s")
    session = inference.load(proto)
    found = session.run(feeds)
    assert products(session, feeds) == (1 if reason == "two readers of numbers" else 0)
    if reason == "two readers of numbers":
        near = np.rint(found["s"] / case.y_scale) + int(case.y_zero)
        info = np.iinfo(case.y_type)
        apart = found["y"].astype(int) - np.clip(near, info.min, info.max)
        assert np.abs(apart).max() <= 1 and (apart != 0).mean() < 0.01


def _replace(proto: Any, name: str, value: Array) -> None:
    from onnx import numpy_helper

    _drop(proto, name)
    for n in [n for n in proto.graph.node if name in n.output]:
        proto.graph.node.remove(n)
    proto.graph.initializer.append(numpy_helper.from_array(value, name))


def _drop(proto: Any, name: str) -> None:
    for t in [t for t in proto.graph.initializer if t.name == name]:
        proto.graph.initializer.remove(t)
