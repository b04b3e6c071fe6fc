"""LRN beside its formula, for windows of odd and even width and powers that are roots or not."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import trilobite as tb


@pytest.mark.parametrize("beta", [0.5, 0.75, 0.9])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_local_response_is_its_formula(size: int, beta: float) -> None:
    x = np.random.default_rng(size).standard_normal((2, 7, 3, 5)).astype(np.float32)
    node = helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.3, beta=beta, bias=1.5)
    shapes = [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n in "xy"]
    graph = helper.make_graph([node], "g", shapes[:1], shapes[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    low, high = (size - 1) // 2, size // 2
    sums = np.stack([(x[:, max(c - low, 0) : c + high + 1] ** 2).sum(axis=1) for c in range(7)], axis=1)
    want = x / (1.5 + 0.3 / size * sums) ** beta
    for target in ("cpu", "reference"):
        found = tb.inference.load(model.SerializeToString(), target=target).run({"x": x})["y"]
        np.testing.assert_allclose(found, want, rtol=2e-6)
