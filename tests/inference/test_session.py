"""Sessions: what they run, what they say about themselves, what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.inference.conftest import model, node

rng = np.random.default_rng(7)


def network() -> tuple[object, np.ndarray]:
    """A convolution, and a reshape whose size is computed from a shape."""
    w = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("Shape", "r", "s", end=1),
        node("Concat", "s minus", "shape", axis=0),
        node("Reshape", "r shape", "y"),
    ]
    inputs = {"x": (np.float32, ["N", 3, "H", "W"])}
    return model(nodes, inputs, ["y"], {"w": w, "minus": np.array([-1])}), w


def expected(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.maximum(np.einsum("nchwij,kcij->nkhw", windows, w), 0).reshape(len(x), -1)


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_a_network_runs_at_every_size(target: str) -> None:
    proto, w = network()
    session = tb.inference.load(proto, target=target)
    for shape in ((1, 3, 5, 7), (2, 3, 8, 8)):
        x = rng.standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(session.run({"x": x})["y"], expected(x, w), rtol=1e-4, atol=1e-5)
    assert "2 compilations" in session.explain()


def test_inputs_and_outputs_are_typed() -> None:
    session = tb.inference.load(network()[0])
    assert [(i.name, str(i.type)) for i in session.inputs] == [("x", "float32[N, 3, H, W]")]
    assert [o.name for o in session.outputs] == ["y"]


def test_initialisers_are_cells() -> None:
    """No weight is a constant of the compiled graph."""
    session = tb.inference.load(network()[0])
    session.run({"x": np.ones((1, 3, 4, 4), np.float32)})
    (step,) = session.program.steps
    (function,) = step.functions.values()
    (entries,) = function.entries.values()
    graph = entries[0].recording.graph
    assert len(graph.inputs) == 2
    sizes = [
        np.asarray(e.attributes["value"].array).size
        for e in graph.equations
        if e.primitive.name == "constant"
    ]
    assert max(sizes, default=0) < 64


def test_all_unsupported_nodes_are_named_at_once() -> None:
    proto = model(
        [node("Relu", "x", "a"), node("Frobnicate", "a", "b", name="first"), node("Twist", "b", "y")],
        {"x": (np.float32, [2])},
        ["y"],
    )
    with pytest.raises(tb.errors.ArgumentError) as found:
        tb.inference.load(proto)
    text = str(found.value)
    assert "2 nodes that are not supported" in text
    assert "Frobnicate (first), operator set 21" in text
    assert "Twist (y)" in text


@pytest.mark.parametrize(
    ("feeds", "error", "text"),
    [
        ({}, tb.errors.ArgumentError, "the input 'x' is missing"),
        ({"x": 1, "z": 2}, tb.errors.ArgumentError, "no input 'z'"),
        ({"x": np.ones((1, 3, 4, 4))}, tb.errors.DTypeError, "the dtype float64"),
        ({"x": np.ones((1, 4, 4, 4), np.float32)}, tb.errors.ShapeError, "float32[N, 3, H, W]"),
        ({"x": np.ones((3, 4, 4), np.float32)}, tb.errors.ShapeError, "(3, 4, 4)"),
        ([np.ones((1, 3, 4, 4), np.float32)], tb.errors.ArgumentError, "inputs as a list"),
        (np.ones((1, 3, 4, 4), np.float32), tb.errors.ArgumentError, "inputs as a ndarray"),
        (None, tb.errors.ArgumentError, "inputs as a NoneType"),
    ],
)
def test_wrong_inputs_are_refused(feeds: Any, error: type[Exception], text: str) -> None:
    session = tb.inference.load(network()[0], target="reference")
    with pytest.raises(error) as found:
        session.run(feeds)
    assert text in str(found.value)


def test_weights_that_were_computed_are_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An integer weight in the file, cast, scaled and turned: nothing of it is done per run."""
    from trilobite.compiler.targets.cpu.weights import Weights

    nodes = [
        node("Cast", "q", "c", to=1),
        node("Mul", "c s", "m"),
        node("Transpose", "m", "w", perm=[1, 0]),
        node("MatMul", "x w", "y"),
    ]
    q = rng.integers(-128, 127, (96, 64)).astype(np.int8)
    weights = {"q": q, "s": np.float32(0.25)}
    session = tb.inference.load(model(nodes, {"x": (np.float32, [32, 64])}, ["y"], weights))
    calls: list[int] = []
    pack = Weights._pack
    monkeypatch.setattr(Weights, "_pack", lambda self, *rest: (calls.append(1), pack(self, *rest))[1])
    x = rng.standard_normal((32, 64)).astype(np.float32)
    for _ in range(3):
        np.testing.assert_allclose(
            session.run({"x": x})["y"], x @ (q.T * np.float32(0.25)), rtol=1e-4, atol=1e-3
        )
    assert len(calls) == 1


def test_outputs_that_are_constants_may_be_written() -> None:
    k = np.array([1.0, -2.0], np.float32)
    nodes = [node("Neg", "k", "y"), node("Relu", "x", "z")]
    session = tb.inference.load(model(nodes, {"x": (np.float32, [2])}, ["y", "z"], {"k": k}))
    session.run({"x": k})["y"][:] = 7
    assert session.run({"x": k})["y"].tolist() == [-1, 2]


def test_a_large_weight_that_is_turned_is_held_once() -> None:
    """Exporters write a linear layer as a Transpose of its weight and a product."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((200, 300)).astype(np.float32)
    nodes = [node("Transpose", "w", "t", perm=[1, 0]), node("MatMul", "x t", "y")]
    session = tb.inference.load(model(nodes, {"x": (np.float32, [5, 300])}, ["y"], {"w": w}))
    x = rng.standard_normal((5, 300)).astype(np.float32)
    np.testing.assert_allclose(session.run({"x": x})["y"], x @ w.T, rtol=1e-4, atol=1e-4)
    assert list(session.program.constants) == ["w"] and session.program.weights() == w.nbytes


def test_a_large_file_is_let_go_once_it_is_read(tmp_path: Path) -> None:
    """Weights are copies, whichever field holds them: the file may change under a session."""
    first, second = (rng.standard_normal((512, 300)).astype(np.float32) for _ in range(2))
    nodes = [node("Transpose", "a", "t", perm=[1, 0]), node("MatMul", "x t", "m"), node("MatMul", "m b", "y")]
    proto = model(nodes, {"x": (np.float32, [2, 300])}, ["y"], {"a": first, "b": second})
    (typed,) = (t for t in proto.graph.initializer if t.name == "b")
    typed.ClearField("raw_data")
    typed.float_data.extend(second.ravel().tolist())
    path = tmp_path / "large.onnx"
    path.write_bytes(proto.SerializeToString())
    assert path.stat().st_size > 1 << 20
    session = tb.inference.load(path)
    with path.open("r+b") as file:
        file.truncate(10)
    x = rng.standard_normal((2, 300)).astype(np.float32)
    np.testing.assert_allclose(session.run({"x": x})["y"], x @ first.T @ second, rtol=1e-3, atol=1e-2)


def test_a_turned_weight_is_no_second_array() -> None:
    """A Transpose of a large weight is part of the graph: what enters is the array of the file."""
    w = rng.standard_normal((200, 300)).astype(np.float32)
    nodes = [node("Transpose", "w", "t", perm=[1, 0]), node("MatMul", "x t", "y")]
    session = tb.inference.load(model(nodes, {"x": (np.float32, [2, 300])}, ["y"], {"w": w}))
    x = rng.standard_normal((2, 300)).astype(np.float32)
    np.testing.assert_allclose(session.run({"x": x})["y"], x @ w.T, rtol=1e-4, atol=1e-4)
    (step,) = session.program.steps
    (function,) = step.functions.values()
    (entries,) = function.entries.values()
    assert w.shape in [v.type.shape for v in entries[0].recording.graph.inputs]
