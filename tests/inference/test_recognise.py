"""Attention written out by an exporter becomes one node, and gives what it gave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.inference.conftest import model, node
from trilobite.inference.model import Graph
from trilobite.inference.recognise import recognised

rng = np.random.default_rng(2)
B, H, N, D = 2, 3, 7, 4
SHAPES = {"q": [B, H, N, D], "k": [B, H, D, N], "v": [B, H, N, D], "m": [B, 1, 1, N]}


def attention(scale: str = "Mul", mask: bool = True, guard: bool = False, leak: bool = False) -> Any:
    nodes, at = [node("MatMul", "q k", "s")], "s"
    if scale:
        nodes.append(node(scale, "s factor", "scaled"))
        at = "scaled"
    if mask:
        nodes.append(node("Add", f"m {at}", "masked"))
        at = "masked"
    nodes.append(node("Softmax", at, "p", axis=-1))
    at = "p"
    if guard:
        nodes += [node("IsNaN", "p", "bad"), node("Where", "bad zero p", "good")]
        at = "good"
    nodes.append(node("MatMul", f"{at} v", "y"))
    inputs = {k: (np.float32, s) for k, s in SHAPES.items() if mask or k != "m"}
    constants = {"factor": np.float32(0.5), "zero": np.float32(0)}
    return model(nodes, inputs, ["y", "p"] if leak else ["y"], constants)


def values(mask: bool = True) -> dict[str, np.ndarray]:
    found = {k: rng.standard_normal(s).astype(np.float32) for k, s in SHAPES.items() if mask or k != "m"}
    if mask:
        found["m"] = np.where(rng.random(SHAPES["m"]) > 0.3, 0, -1e4).astype(np.float32)
    return found


def expected(x: dict[str, np.ndarray], scale: float) -> np.ndarray:
    s = x["q"] @ x["k"] * scale + x.get("m", 0)
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)) @ x["v"]


def operators_of(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes]


@pytest.mark.parametrize(
    ("scale", "factor", "mask", "guard"),
    [("Mul", 0.5, True, False), ("Div", 2.0, True, True), ("", 1.0, True, False), ("Mul", 0.5, False, False)],
)
def test_it_is_one_node_and_gives_the_same(scale: str, factor: float, mask: bool, guard: bool) -> None:
    proto = attention(scale, mask, guard)
    before = tb.inference.read(proto).graph
    after, count = recognised(before)
    assert "Softmax" in operators_of(before)
    assert (operators_of(after), count) == (["Attention"], 1)
    x = values(mask)
    for target in ("reference", "cpu"):
        session = tb.inference.load(proto, target=target)
        assert "written-out form: 1" in session.explain()
        np.testing.assert_allclose(session.run(x)["y"], expected(x, factor), rtol=1e-4, atol=1e-5)


def test_weights_that_somebody_reads_stay() -> None:
    before = tb.inference.read(attention(leak=True)).graph
    after, count = recognised(before)
    assert (operators_of(after), count) == (operators_of(before), 0)


def test_no_matrix_of_queries_by_keys_is_planned() -> None:
    """With 600 queries and keys the scores of one head alone would take 1.4 MB."""
    long = {"q": [1, 2, 600, 32], "k": [1, 2, 32, 600], "v": [1, 2, 600, 32]}
    nodes = [node("MatMul", "q k", "s"), node("Softmax", "s", "p", axis=-1), node("MatMul", "p v", "y")]
    session = tb.inference.load(model(nodes, {k: (np.float32, s) for k, s in long.items()}, ["y"]))
    x = {k: rng.standard_normal(s).astype(np.float32) for k, s in long.items()}
    np.testing.assert_allclose(session.run(x)["y"], expected(x, 1.0), rtol=2e-3, atol=2e-4)
    planned = session.program.steps[0].executable(x).memory()
    assert sum(p.peak for p in planned.programs) < 600 * 600 * 4


@pytest.mark.parametrize(("version", "axis"), [(13, 3), (13, 2), (13, -1), (11, 3), (11, 1), (11, -1)])
def test_an_axis_by_its_number(version: int, axis: int) -> None:
    """Of older operator sets, all axes from the given one on are one row."""
    nodes = [node("MatMul", "q k", "s"), node("Softmax", "s", "p", axis=axis), node("MatMul", "p v", "y")]
    inputs = {k: (np.float32, s) for k, s in SHAPES.items() if k != "m"}
    proto, feeds = model(nodes, inputs, ["y"], opset=version), values(False)
    session = tb.inference.load(proto)
    assert session.attentions == 1
    scores = (feeds["q"] @ feeds["k"]).astype(np.float64)
    shape = scores.shape if version >= 13 or axis == -1 else (*scores.shape[:axis], -1)
    weights = np.exp(scores.reshape(shape))
    weights /= weights.sum(axis if version >= 13 else -1, keepdims=True)
    expected = weights.reshape(scores.shape) @ feeds["v"]
    np.testing.assert_allclose(session.run(feeds)["y"], expected, rtol=1e-5, atol=1e-6)
    text = session.program.steps[0].executable(feeds).stages["graph"]
    assert ("attention" in text) == (axis in (3, -1))
