"""What a session offers besides `run`: threads, batches, given memory, cancellation, profiles, shared
weights.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

import trilobite as tb
from tests.inference.conftest import model, node

rng = np.random.default_rng(5)
W = rng.standard_normal((6, 4)).astype(np.float32)


def product(opset: int = 21) -> object:
    nodes = [node("MatMul", "x w", "m"), node("Tanh", "m", "y")]
    return model(nodes, {"x": (np.float32, ["n", 6])}, ["y"], {"w": W}, opset)


def pieces() -> object:
    """A compiled step, one on the host, and a compiled one behind it."""
    nodes = [
        node("Relu", "x", "r"),
        node("NonZero", "r", "z"),
        node("Cast", "z", "c", to=1),
        node("Neg", "c", "y"),
    ]
    return model(nodes, {"x": (np.float32, [2, 3])}, ["y"])


def test_many_threads_at_once() -> None:
    session = tb.inference.load(product())
    xs = [rng.standard_normal((1 + i % 3, 6)).astype(np.float32) for i in range(24)]
    found: dict[int, np.ndarray] = {}

    def work(start: int) -> None:
        for i in range(start, len(xs), 4):
            found[i] = session.run({"x": xs[i]})["y"]

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [w.start() for w in workers]
    [w.join() for w in workers]
    for i, x in enumerate(xs):
        np.testing.assert_allclose(found[i], np.tanh(x @ W), rtol=1e-5, atol=1e-6)


def test_a_batch_is_one_run() -> None:
    session = tb.inference.load(product(), target="reference")
    rows = [{"x": rng.standard_normal((n, 6)).astype(np.float32)} for n in (1, 3, 2)]
    outs = session.batched(rows)
    for row, out in zip(rows, outs, strict=True):
        np.testing.assert_allclose(out["y"], np.tanh(row["x"] @ W), rtol=1e-5, atol=1e-6)
    assert "1 compilations" in session.explain()


def test_results_go_into_given_memory() -> None:
    session = tb.inference.load(product(), target="reference")
    x, y = rng.standard_normal((2, 6)).astype(np.float32), np.empty((2, 4), np.float32)
    assert session.run({"x": x}, into={"y": y})["y"] is y
    np.testing.assert_allclose(y, np.tanh(x @ W), rtol=1e-5, atol=1e-6)
    with pytest.raises(tb.errors.ShapeError, match="for the output 'y'"):
        session.run({"x": x}, into={"y": np.empty((3, 4), np.float32)})


def test_a_run_ends_when_it_is_cancelled() -> None:
    session = tb.inference.load(pieces(), target="reference")
    x = rng.standard_normal((2, 3)).astype(np.float32)
    stop = threading.Event()
    expected = -np.asarray(np.nonzero(np.maximum(x, 0)), np.float32)
    np.testing.assert_array_equal(session.run({"x": x}, cancel=stop)["y"], expected)
    stop.set()
    with pytest.raises(tb.errors.StateError, match="cancelled"):
        session.run({"x": x}, cancel=stop)


def test_a_profile_names_steps_and_kernels() -> None:
    session = tb.inference.load(pieces())
    found = session.profile({"x": np.ones((2, 3), np.float32)}, repeats=2)
    assert len(found.rows) == 3
    assert found.rows[1][0] == "host: NonZero (z)"
    assert found.total > 0
    assert "in all" in str(found)


def test_memory_is_told() -> None:
    session = tb.inference.load(product())
    text = session.memory({"x": np.ones((2, 6), np.float32)})
    assert text.startswith(f"weights: {W.nbytes} bytes")


def test_sessions_of_one_model_share_weights() -> None:
    whole = tb.inference.read(product())
    a, b = tb.inference.load(whole), tb.inference.load(whole, target="reference")
    assert a.program.constants["w"].array is b.program.constants["w"].array
    x = rng.standard_normal((2, 6)).astype(np.float32)
    np.testing.assert_allclose(a.run({"x": x})["y"], b.run({"x": x})["y"], rtol=1e-5, atol=1e-6)


def test_only_some_outputs() -> None:
    session = tb.inference.load(product(), target="reference")
    with pytest.raises(tb.errors.ArgumentError, match="no output 'z'"):
        session.run({"x": np.ones((1, 6), np.float32)}, ["z"])


def test_what_goes_wrong_names_the_node() -> None:
    proto = model(
        [node("Reshape", "x s", "y", name="view")], {"x": (np.float32, ["n"])}, ["y"], {"s": np.array([5])}
    )
    with pytest.raises(tb.errors.ShapeError) as found:
        tb.inference.load(proto, target="reference").run({"x": np.ones(4, np.float32)})
    assert "Reshape (view)" in str(found.value)


def test_a_value_in_the_file_may_be_replaced() -> None:
    """An initialiser that is an input as well is the input's default."""
    proto = product()
    one = proto.graph.input.add()
    one.CopyFrom(proto.graph.input[0])
    one.name = "w"
    for d, n in zip(one.type.tensor_type.shape.dim, W.shape, strict=True):
        d.dim_value = n
    session = tb.inference.load(proto, target="reference")
    x, other = rng.standard_normal((2, 6)).astype(np.float32), rng.standard_normal(W.shape).astype(np.float32)
    assert [i.name for i in session.inputs] == ["x"]
    np.testing.assert_allclose(session.run({"x": x})["y"], np.tanh(x @ W), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        session.run({"x": x, "w": other})["y"], np.tanh(x @ other), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(session.run({"x": x})["y"], np.tanh(x @ W), rtol=1e-5, atol=1e-6)
