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
    assert (operators_of(after), count) == (["Attention"], {"Attention": 1})
    x = values(mask)
    for target in ("reference", "cpu"):
        session = tb.inference.load(proto, target=target)
        assert "written-out form: 1 Attention" in session.explain()
        np.testing.assert_allclose(session.run(x)["y"], expected(x, factor), rtol=1e-4, atol=1e-5)


def test_weights_that_somebody_reads_stay() -> None:
    before = tb.inference.read(attention(leak=True)).graph
    after, count = recognised(before)
    assert (operators_of(after), count) == (operators_of(before), {})


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
    assert session.recognised == {"Attention": 1}
    scores = (feeds["q"] @ feeds["k"]).astype(np.float64)
    shape = scores.shape if version >= 13 or axis == -1 else (*scores.shape[:axis], -1)
    weights = np.exp(scores.reshape(shape))
    weights /= weights.sum(axis if version >= 13 else -1, keepdims=True)
    expected = weights.reshape(scores.shape) @ feeds["v"]
    np.testing.assert_allclose(session.run(feeds)["y"], expected, rtol=1e-5, atol=1e-6)
    text = session.program.steps[0].executable(feeds).stages["graph"]
    assert ("attention" in text) == (axis in (3, -1))


# -- what exporters write ------------------------------------------------------------------------------------


def scored(steps: list[Any], inputs: dict[str, Any], constants: dict[str, Any]) -> Any:
    """A product of queries and keys, these steps from `s` to `t`, a softmax, a product."""
    last = [node("Softmax", "t", "p", axis=-1), node("MatMul", "p v", "y")]
    declared = {n: (np.float32, SHAPES[n]) for n in ("q", "k", "v")} | inputs
    return model([node("MatMul", "q k", "s"), *steps, *last], declared, ["y"], constants, opset=17)


LOW = np.float32(-3.4028235e38)
MASKED: dict[str, tuple[list[Any], dict[str, Any], dict[str, Any]]] = {
    "where -inf": (
        [node("Where", "c s low", "t")], {"c": (np.bool_, [N, N])}, {"low": np.float32(-np.inf)},
    ),
    "where not, finite": (
        [node("Div", "s d", "u"), node("Where", "c low u", "t")], {"c": (np.bool_, [B, 1, 1, N])},
        {"low": LOW, "d": np.float32(2)},
    ),
    "where, then added": (
        [node("Mul", "s d", "u"), node("Where", "c u low", "w"), node("Add", "w m", "t")],
        {"c": (np.bool_, [1, 1, N, N]), "m": (np.float32, [B, 1, 1, N])}, {"low": LOW, "d": np.float32(0.5)},
    ),
    "two masks added": (
        [node("Add", "s m", "u"), node("Add", "o u", "t")],
        {"m": (np.float32, [B, 1, N, N]), "o": (np.float32, [1, H, N, N])}, {},
    ),
    "a scale that is computed": (
        [node("Sqrt", "d", "r"), node("Div", "s r", "t")], {"d": (np.float32, [])}, {},
    ),
    "a scale for each head": ([node("Mul", "s d", "t")], {"d": (np.float32, [H, 1, 1])}, {}),
    "a mask with more axes": ([node("Add", "s m", "t")], {"m": (np.float32, [2, 1, 1, N, N])}, {}),
}  # fmt: skip


@pytest.mark.parametrize("kind", MASKED)
@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_masks_and_scales_as_they_are_written(kind: str, target: str) -> None:
    """Beside the same model whose weights are an output as well, which keeps it from being recognised."""
    steps, inputs, constants = MASKED[kind]
    proto, shown = scored(steps, inputs, constants), scored(steps, inputs, constants)
    shown.graph.output.append(type(shown.graph.output[0])(name="p"))
    session, plain = tb.inference.load(proto, target=target), tb.inference.load(shown, target="reference")
    assert session.recognised == {"Attention": 1} and not plain.recognised
    x = values(False) | {n: _drawn(dtype, shape) for n, (dtype, shape) in inputs.items()}
    np.testing.assert_allclose(session.run(x)["y"], plain.run(x)["y"], rtol=1e-4, atol=1e-5)


def _drawn(dtype: Any, shape: list[int]) -> np.ndarray:
    """Conditions of which no row is all true or all false; positive numbers."""
    if dtype is np.float32:
        return (rng.random(shape) + 0.5).astype(np.float32)
    found = rng.random(shape) > 0.5
    found[..., 0], found[..., 1] = True, False
    return found


def test_rows_that_are_masked_whole_by_a_finite_number_are_means() -> None:
    proto = scored([node("Where", "c s low", "t")], {"c": (np.bool_, [N, N])}, {"low": LOW})
    x = values(False) | {"c": np.zeros((N, N), np.bool_)}
    found = tb.inference.load(proto).run(x)["y"]
    want = np.broadcast_to(x["v"].mean(-2, keepdims=True), found.shape)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-6)


def test_a_softmax_in_float32_between_halves() -> None:
    nodes = [
        node("MatMul", "q k", "s"), node("Cast", "s", "w", to=1), node("Softmax", "w", "p", axis=-1),
        node("Cast", "p", "h", to=10), node("MatMul", "h v", "y"),
    ]  # fmt: skip
    inputs = {n: (np.float16, SHAPES[n]) for n in ("q", "k", "v")}
    session = tb.inference.load(model(nodes, inputs, ["y"], {}))
    assert session.recognised == {"Attention": 1}
    x = {n: v.astype(np.float16) for n, v in values(False).items()}
    want = expected({n: v.astype(np.float32) for n, v in x.items()}, 1.0)
    found = session.run(x)["y"]
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, want, rtol=1e-2, atol=1e-2)


def test_attention_in_a_branch() -> None:
    """Decoders are written with a branch for the first token."""
    onnx = pytest.importorskip("onnx")
    inner = [node("MatMul", "q k", "s"), node("Softmax", "s", "p", axis=-1), node("MatMul", "p v", "a")]
    then = onnx.helper.make_graph(inner, "then", [], [onnx.ValueInfoProto(name="a")])
    other = onnx.helper.make_graph([node("Mul", "v v", "b")], "else", [], [onnx.ValueInfoProto(name="b")])
    branch = onnx.helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    inputs = {n: (np.float32, SHAPES[n]) for n in ("q", "k", "v")} | {"c": (np.bool_, [])}
    session = tb.inference.load(model([branch], inputs, ["y"], {}))
    assert session.recognised == {"Attention": 1}
    x = values(False)
    for choice, want in ((True, expected(x, 1.0)), (False, x["v"] ** 2)):
        found = session.run(x | {"c": np.array(choice)})["y"]
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("bhqd,bhkd->bhqk", "bhqk,bhkd->bhqd", 1), ("bhid, bhdj -> bhij", "bhij,bhjd->bhid", 1),
        ("...qd,...kd->...qk", "...qk,...kd->...qd", 1), ("bhqd,bhkd->bhqk", "bhqk,bhdk->bhqd", 0),
        ("bhqd,hbkd->bhqk", "bhqk,bhkd->bhqd", 0),
    ],
)  # fmt: skip
def test_products_as_einsum(first: str, second: str, found: int) -> None:
    nodes = [
        node("Einsum", "q k", "s", equation=first), node("Softmax", "s", "p", axis=-1),
        node("Einsum", "p v", "y", equation=second),
    ]  # fmt: skip
    shape = [2, 2, 4, 4]
    proto = model(nodes, {n: (np.float32, shape) for n in ("q", "k", "v")}, ["y"])
    session = tb.inference.load(proto)
    assert session.recognised["Attention"] == found
    q, k, v = (rng.standard_normal(shape).astype(np.float32) for _ in range(3))
    e = np.exp(np.einsum(first.replace(" ", ""), q, k).astype(np.float64))
    want = np.einsum(second, e / e.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(session.run({"q": q, "k": k, "v": v})["y"], want, rtol=1e-4, atol=1e-5)
