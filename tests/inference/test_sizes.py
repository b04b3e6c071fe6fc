"""Sizes that vary: one compiled graph over symbols where the IR can, one per size where it cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.inference.conftest import model, node

rng = np.random.default_rng(11)
D, H = 8, 2


def self_attention() -> tuple[Any, dict[str, np.ndarray]]:
    """One head-split attention as exporters write it: shapes computed from shapes, positions from a table."""
    w = {k: rng.standard_normal((D, D)).astype(np.float32) * 0.3 for k in "qkv"}
    table = rng.standard_normal((32, D)).astype(np.float32)
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "b"),
        node("Gather", "s one", "n"),
        node("Unsqueeze", "n axis0", "n1"),
        node("Slice", "table zero1 n1", "places"),
        node("Add", "x places", "h"),
    ]
    for k in "qkv":
        nodes += [
            node("MatMul", f"h w{k}", f"m{k}"),
            node("Unsqueeze", "b axis0", f"b{k}"),
            node("Concat", f"b{k} n1 tail", f"shape{k}", axis=0),
            node("Reshape", f"m{k} shape{k}", f"r{k}"),
            node("Transpose", f"r{k}", f"t{k}", perm=[0, 2, 3, 1] if k == "k" else [0, 2, 1, 3]),
        ]
    nodes += [
        node("MatMul", "tq tk", "scores"),
        node("Softmax", "scores", "p", axis=-1),
        node("MatMul", "p tv", "o"),
        node("Transpose", "o", "ot", perm=[0, 2, 1, 3]),
        node("Concat", "bq n1 whole", "back", axis=0),
        node("Reshape", "ot back", "y"),
    ]
    constants = {
        "table": table,
        "zero": np.array(0),
        "one": np.array(1),
        "axis0": np.array([0]),
        "zero1": np.array([0]),
        "tail": np.array([H, D // H]),
        "whole": np.array([D]),
        **{f"w{k}": v for k, v in w.items()},
    }
    proto = model(nodes, {"x": (np.float32, ["batch", "length", D])}, ["y"], constants)
    return proto, {**w, "table": table}


def expected(x: np.ndarray, w: dict[str, np.ndarray]) -> np.ndarray:
    b, n, _ = x.shape
    h = x + w["table"][:n]
    q, k, v = ((h @ w[i]).reshape(b, n, H, D // H).transpose(0, 2, 1, 3) for i in "qkv")
    scores = q @ k.transpose(0, 1, 3, 2)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return ((e / e.sum(-1, keepdims=True)) @ v).transpose(0, 2, 1, 3).reshape(b, n, D)


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_one_graph_serves_all_sizes(target: str) -> None:
    proto, w = self_attention()
    session = tb.inference.load(proto, target=target)
    for shape in ((2, 5, D), (3, 7, D), (4, 2, D), (5, 31, D), (2, 6, D)):
        x = rng.standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(session.run({"x": x})["y"], expected(x, w), rtol=2e-4, atol=2e-5)
    text = session.explain()
    assert "2 compilations" in text
    assert "for all [s0, s1, 8]" in text


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_positions_are_counted_in_any_dtype(dtype: Any) -> None:
    """A size cast to floats and counted up to, as `torch.arange(n, dtype=...)` is written; and one from which
    something is computed, as the scale of attention is.
    """
    to = {np.float32: 1, np.float64: 11, np.int32: 6, np.int64: 7}[dtype]
    nodes = [
        node("Shape", "x", "s"), node("Gather", "s one", "n"), node("Cast", "n", "f", to=to),
        node("Range", "begin f step", "t"), node("Cast", "n", "r", to=1), node("Sqrt", "r", "root"),
        node("Sub", "n one", "before"), node("Range", "before n one", "last"), node("Div", "x root", "y"),
    ]  # fmt: skip
    constants = {"one": np.array(1), "begin": np.array(2, dtype), "step": np.array(1, dtype)}
    proto = model(nodes, {"x": (np.float32, ["b", "n"])}, ["t", "last", "y"], constants)
    session = tb.inference.load(proto)
    for b, n in ((2, 5), (3, 9), (4, 31), (2, 7)):
        x = rng.standard_normal((b, n)).astype(np.float32)
        found = session.run({"x": x})
        assert found["t"].dtype == dtype
        np.testing.assert_array_equal(found["t"], np.arange(2, n))
        np.testing.assert_array_equal(found["last"], [n - 1])
        np.testing.assert_allclose(found["y"], x / np.sqrt(np.float32(n)), rtol=1e-6)
    assert "2 compilations" in session.explain()


@pytest.mark.parametrize("start, step", [(0.5, 1.0), (0.0, 2.0)])
def test_other_steps_up_to_a_size_are_compiled_per_size(start: float, step: float) -> None:
    nodes = [
        node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Cast", "n", "f", to=1),
        node("Range", "begin f step", "u"), node("ReduceSum", "x", "total", keepdims=0),
        node("Add", "u total", "t"),
    ]  # fmt: skip
    constants = {"zero": np.array(0), "begin": np.float32(start), "step": np.float32(step)}
    session = tb.inference.load(model(nodes, {"x": (np.float32, ["n"])}, ["t"], constants))
    for n in (5, 8, 12):
        found = session.run({"x": np.ones(n, np.float32)})["t"]
        np.testing.assert_array_equal(found, np.arange(start, n, step, np.float32) + n)
    assert "in steps of" in session.explain()


@pytest.mark.parametrize("shift", [-2, 2])
def test_a_roll_is_one_graph(shift: int) -> None:
    """A shift modulo the size of its axis, as torch.export writes a roll; and a number over a size."""
    nodes = [
        node("Shape", "x", "s"), node("Slice", "s from to", "n"), node("Mod", "shift n", "cut"),
        node("Sub", "n cut", "at"), node("Slice", "x at n axis", "front"),
        node("Slice", "x zero at axis", "back"),
        node("Concat", "front back", "y", axis=1), node("Div", "shift n", "none"),
        node("Add", "at none", "z"),
    ]  # fmt: skip
    constants = {
        "from": np.array([1]), "to": np.array([2]), "axis": np.array([1]), "zero": np.array([0]),
        "shift": np.array([shift]),
    }  # fmt: skip
    session = tb.inference.load(model(nodes, {"x": (np.float32, ["b", "n"])}, ["y", "z"], constants))
    for shape in ((2, 6), (3, 9), (4, 31), (2, 5)):
        x = rng.standard_normal(shape).astype(np.float32)
        found = session.run({"x": x})
        np.testing.assert_array_equal(found["y"], np.roll(x, shift, axis=1))
        assert found["z"] == shape[1] - shift % shape[1]
    assert "2 compilations" in session.explain()


def test_a_shift_beyond_small_sizes_bounds_them() -> None:
    nodes = [
        node("Shape", "x", "s"), node("Mod", "shift s", "cut"), node("Slice", "x cut s", "y"),
        node("Relu", "y", "z"),
    ]  # fmt: skip
    session = tb.inference.load(model(nodes, {"x": (np.float32, ["n"])}, ["z"], {"shift": np.array([5])}))
    for n in (3, 9, 31, 4, 5):
        x = rng.standard_normal(n).astype(np.float32)
        np.testing.assert_array_equal(session.run({"x": x})["z"], np.maximum(x[5 % n :], 0))


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_sort_is_one_graph(largest: int, axis: int) -> None:
    """TopK of all elements, as exporters write sort and argsort; equal elements keep their order."""
    nodes = [
        node("Shape", "x", "s"), node("Slice", "s from to", "k"),
        node("TopK", "x k", "v i", axis=axis, largest=largest),
    ]  # fmt: skip
    constants = {"from": np.array([axis]), "to": np.array([axis + 1])}
    session = tb.inference.load(model(nodes, {"x": (np.float32, ["b", "n"])}, ["v", "i"], constants))
    for shape in ((3, 6), (4, 9), (7, 31), (2, 5)):
        x = rng.integers(-4, 4, shape).astype(np.float32)
        found = session.run({"x": x})
        order = np.argsort(-x if largest else x, axis=axis, kind="stable")
        np.testing.assert_array_equal(found["i"], order)
        np.testing.assert_array_equal(found["v"], np.take_along_axis(x, order, axis))
    assert "2 compilations" in session.explain()


def test_what_a_table_holds_bounds_the_symbol() -> None:
    """Beyond 32 positions there is no row: the error is NumPy's broadcasting in words, not other numbers."""
    proto, _ = self_attention()
    session = tb.inference.load(proto, target="reference")
    for n in (3, 9):
        session.run({"x": np.ones((1, n, D), np.float32)})
    with pytest.raises(tb.errors.ShapeError):
        session.run({"x": np.ones((1, 33, D), np.float32)})


def halving() -> tuple[Any, dict[str, np.ndarray]]:
    """A stem, a residual block with stride 2, and its pixels as rows of a matrix."""
    w = {
        k: (rng.standard_normal(s) * 0.2).astype(np.float32)
        for k, s in {"w1": (8, 3, 3, 3), "w2": (16, 8, 3, 3), "w3": (16, 8, 1, 1), "w4": (16, 5)}.items()
    }
    nodes = [
        node("Conv", "x w1", "a", pads=[1] * 4, strides=[2, 2]),
        node("Relu", "a", "b"),
        node("MaxPool", "b", "m", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        node("Conv", "m w2", "c", pads=[1] * 4, strides=[2, 2]),
        node("Conv", "m w3", "d", strides=[2, 2]),
        node("Add", "c d", "e"),
        node("Reshape", "e rows", "r"),
        node("Transpose", "r", "t", perm=[0, 2, 1]),
        node("MatMul", "t w4", "y"),
    ]
    proto = model(
        nodes,
        {"x": (np.float32, ["n", 3, "h", "w"])},
        ["y"],
        {**w, "rows": np.array([0, 16, -1])},
    )
    return proto, w


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_strides_and_products_of_sizes_are_one_graph(target: str) -> None:
    proto, _ = halving()
    session = tb.inference.load(proto, target=target)
    for shape in ((2, 3, 17, 21), (3, 3, 30, 9), (2, 3, 33, 12), (4, 3, 9, 40)):
        x = rng.standard_normal(shape).astype(np.float32)
        want = tb.inference.load(proto, target="reference").run({"x": x})["y"]
        np.testing.assert_allclose(session.run({"x": x})["y"], want, rtol=1e-4, atol=1e-5)
    text = session.explain()
    assert "2 compilations" in text
    assert "for all [s0, 3, s1, s2]" in text


def test_convolutions_over_symbols_are_kernels() -> None:
    """The plane of a convolution is a number when kernels are made: none runs in NumPy."""
    proto, _ = halving()
    session = tb.inference.load(proto, target="cpu")
    for n in (17, 22, 31):
        session.run({"x": rng.standard_normal((1, 3, n, n)).astype(np.float32)})
    (step,) = session.program.steps
    ((_, function),) = step.symbolic
    text = function.explain(tb.ones((1, 3, 22, 22)))
    assert text.count("conv kernel") >= 3
    assert "runs in NumPy" not in text


@pytest.mark.parametrize(("target", "by"), [("reference", "scales"), ("cpu", "scales"), ("cpu", "sizes")])
def test_branches_that_meet_again_need_multiples(target: str, by: str) -> None:
    """Halved and repeated is what it was only if it was even: sizes met so far say by what they divide."""
    w = (rng.standard_normal((4, 3, 3, 3)) * 0.3).astype(np.float32)
    v = (rng.standard_normal((4, 4, 1, 1)) * 0.3).astype(np.float32)
    grow = "Resize", ("h - - s" if by == "sizes" else "h - scales"), "g"
    nodes = [
        node("Conv", "x w", "a", pads=[1] * 4),
        node("Conv", "a v", "h", strides=[2, 2]),
        node("Shape", "a", "s"),
        node(*grow, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        node("Add", "a g", "y"),
    ]
    constants = {"w": w, "v": v, "scales": np.array([1, 1, 2, 2], np.float32)}
    proto = model(nodes, {"x": (np.float32, [1, 3, "h", "w"])}, ["y"], constants)
    session = tb.inference.load(proto, target=target)
    for shape in ((8, 12), (20, 4), (12, 24), (16, 8)):
        x = rng.standard_normal((1, 3, *shape)).astype(np.float32)
        want = tb.inference.load(proto, target="reference").run({"x": x})["y"]
        np.testing.assert_allclose(session.run({"x": x})["y"], want, rtol=1e-4, atol=1e-5)
    text = session.explain()
    assert "2 compilations" in text
    assert "for all [1, 3, 4*s0, 4*s1]" in text


def test_a_window_bounds_a_size_from_below() -> None:
    nodes = [
        node("MaxPool", "x", "m", kernel_shape=[3], strides=[2]),
        node("AveragePool", "m", "y", kernel_shape=[4]),
    ]
    session = tb.inference.load(model(nodes, {"x": (np.float32, [1, 2, "n"])}, ["y"]), target="reference")
    for n in (19, 33, 26, 17):
        x = rng.standard_normal((1, 2, n)).astype(np.float32)
        high = np.lib.stride_tricks.sliding_window_view(x, 3, axis=2)[:, :, ::2].max(-1)
        want = np.lib.stride_tricks.sliding_window_view(high, 4, axis=2).mean(-1)
        np.testing.assert_allclose(session.run({"x": x})["y"], want, rtol=1e-5, atol=1e-6)
    assert "2 compilations" in session.explain()


def triples() -> Any:
    """Whether 3 divides a size, only a run knows."""
    nodes = [node("Reshape", "x three", "p"), node("ReduceMax", "p one", "y", keepdims=0)]
    constants = {"three": np.array([-1, 3]), "one": np.array([1])}
    return model(nodes, {"x": (np.float32, ["n"])}, ["y"], constants)


def test_what_depends_on_divisibility_is_compiled_per_size_and_said_so() -> None:
    session = tb.inference.load(triples(), target="reference")
    for n in (6, 9, 12):
        x = rng.standard_normal(n).astype(np.float32)
        np.testing.assert_array_equal(session.run({"x": x})["y"], x.reshape(-1, 3).max(1))
    text = session.explain()
    assert "3 compilations" in text
    assert "one graph per size, because:" in text
    assert "node: Reshape (p)" in text


def test_the_number_of_sizes_kept_is_bounded() -> None:
    session = tb.inference.load(triples(), target="reference")
    for n in range(6, 240, 3):
        session.run({"x": np.ones(n, np.float32)})
    assert len(session.program.steps[0].functions) <= 64


def test_squeeze_without_axes_drops_what_is_one_in_each_run() -> None:
    """A size that varies may be 1, also after others were met."""
    nodes = [node("Relu", "x", "r"), node("Squeeze", "r", "y")]
    session = tb.inference.load(model(nodes, {"x": (np.float32, ["b", 1, "n"])}, ["y"]))
    for shape in ((3, 1, 4), (2, 1, 5), (1, 1, 6), (2, 1, 1), (1, 1, 1), (4, 1, 7)):
        x = rng.standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(session.run({"x": x})["y"], np.maximum(x, 0).squeeze())
