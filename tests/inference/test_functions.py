"""Functions of a model: bodies in the place of calls, with attributes, and names of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.inference.conftest import model, node

onnx = pytest.importorskip("onnx")
RNG = np.random.default_rng(20)
X = RNG.standard_normal((3, 5)).astype(np.float32)


def function(name: str, inputs: str, outputs: str, nodes: list[Any], **more: Any) -> Any:
    h = onnx.helper
    sets = [h.make_opsetid("", 21), h.make_opsetid("own", 1)]
    return h.make_function("own", name, inputs.split(), outputs.split(), nodes, sets, **more)


def own(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return node(op, inputs, outputs, domain="own", **attributes)


def with_reference(made: Any, name: str, source: str, kind: int) -> Any:
    """The node takes an attribute from the call of its function."""
    made.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=source, type=kind))
    return made


def run(nodes: list[Any], functions: list[Any], outputs: str = "y") -> list[np.ndarray]:
    proto = model(nodes, {"x": (np.float32, [3, 5])}, outputs.split(), functions=functions)
    proto.opset_import.append(onnx.helper.make_opsetid("own", 1))
    results = tb.inference.load(proto).run({"x": X})
    return [results[name] for name in outputs.split()]


SLOPED = function(
    "Sloped",
    "a",
    "b",
    [with_reference(node("LeakyRelu", "a", "b"), "alpha", "slope", onnx.AttributeProto.FLOAT)],
    attributes=["slope"],
)


def sloped(x: np.ndarray, slope: float) -> np.ndarray:
    return np.where(x >= 0, x, np.float32(slope) * x)


def test_ordinary_nodes_stand_beside_calls() -> None:
    nodes = [node("Neg", "x", "t"), own("Sloped", "t", "u", slope=0.25), node("Abs", "u", "y")]
    np.testing.assert_array_equal(run(nodes, [SLOPED])[0], np.abs(sloped(-X, 0.25)))


def test_each_call_has_its_attributes_and_its_names() -> None:
    nodes = [own("Sloped", "x", "t", slope=0.25), own("Sloped", "t", "u", slope=0.5), node("Sub", "t u", "y")]
    wanted = sloped(X, 0.25) - sloped(sloped(X, 0.25), 0.5)
    np.testing.assert_array_equal(run(nodes, [SLOPED])[0], wanted)


def test_an_attribute_that_is_not_given_has_the_default_of_the_function_or_the_operator() -> None:
    np.testing.assert_allclose(run([own("Sloped", "x", "y")], [SLOPED])[0], sloped(X, 0.01), rtol=1e-6)
    told = function(
        "Sloped", "a", "b",
        [with_reference(node("LeakyRelu", "a", "b"), "alpha", "slope", onnx.AttributeProto.FLOAT)],
        attribute_protos=[onnx.helper.make_attribute("slope", 0.75)],
    )  # fmt: skip
    np.testing.assert_array_equal(run([own("Sloped", "x", "y")], [told])[0], sloped(X, 0.75))
    np.testing.assert_array_equal(run([own("Sloped", "x", "y", slope=0.5)], [told])[0], sloped(X, 0.5))


def test_functions_call_functions_and_give_several_results() -> None:
    both = function(
        "Both",
        "a c",
        "sum product",
        [own("Sloped", "a", "t", slope=0.5), node("Add", "t c", "sum"), node("Mul", "t c", "product")],
    )
    nodes = [
        node("Exp", "x", "t"),
        own("Both", "x t", "p q"),
        own("Both", "q p", "- y"),
        node("Neg", "p", "z"),
    ]
    first = sloped(X, 0.5) + np.exp(X), sloped(X, 0.5) * np.exp(X)
    y, z = run(nodes, [SLOPED, both], "y z")
    np.testing.assert_allclose(y, sloped(first[1], 0.5) * first[0], rtol=1e-6)
    np.testing.assert_allclose(z, -first[0], rtol=1e-6)


def test_an_input_may_be_handed_through_and_another_left_out() -> None:
    handed = function("Handed", "a low", "b c", [node("Clip", "a low", "c")])
    handed.node.append(node("Identity", "a", "b"))
    y, z = run([own("Handed", "x", "y z")], [handed], "y z")
    np.testing.assert_array_equal(y, X)
    np.testing.assert_array_equal(z, X)


def test_a_body_within_a_function_has_names_of_its_own() -> None:
    h = onnx.helper
    then = h.make_graph([node("Neg", "a", "t")], "then", [], [onnx.ValueInfoProto(name="t")])
    other = h.make_graph([node("Abs", "a", "t")], "else", [], [onnx.ValueInfoProto(name="t")])
    nodes = [
        node("Constant", "", "zero", value_float=0.0),
        node("ReduceSum", "a", "s", keepdims=0),
        node("Greater", "s zero", "c"),
        node("If", "c", "b", then_branch=then, else_branch=other),
    ]
    chosen = function("Chosen", "a", "b", nodes)
    y = run([own("Chosen", "x", "t"), own("Chosen", "t", "y")], [chosen])[0]
    once = -X if X.sum() > 0 else np.abs(X)
    np.testing.assert_array_equal(y, -once if once.sum() > 0 else np.abs(once))


@pytest.mark.parametrize("most", [4, 5, 6])
def test_as_many_nodes_as_are_allowed_are_taken(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two calls, and their two bodies of one node each, and one beside them."""
    monkeypatch.setattr("trilobite.inference.functions._MOST", most)
    nodes = [own("Sloped", "x", "t", slope=0.25), own("Sloped", "t", "u", slope=0.5), node("Neg", "u", "y")]
    if most < 5:
        with pytest.raises(tb.errors.FileError, match="too often"):
            run(nodes, [SLOPED])
    else:
        np.testing.assert_array_equal(run(nodes, [SLOPED])[0], -sloped(sloped(X, 0.25), 0.5))
