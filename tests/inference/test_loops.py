"""Scan and Loop inside compiled graphs, and beside them where their states change shape."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest

import trilobite as tb
from tests.inference.conftest import model, node

rng = np.random.default_rng(3)
W = (rng.standard_normal((5, 5)) / 2).astype(np.float32)
WAYS = ((0, 0), (1, 1), (0, 1))


def graph(nodes: Sequence[Any], inputs: dict[str, Any], outputs: dict[str, Any]) -> Any:
    """A body; inputs and outputs are (element type, shape)."""
    h = onnx.helper
    declared = [[h.make_tensor_value_info(n, *t) for n, t in side.items()] for side in (inputs, outputs)]
    return h.make_graph(list(nodes), "body", *declared)


def scan_model(ins: Sequence[int], outs: Sequence[int], axes: Sequence[int], places: Sequence[int]) -> Any:
    """h = tanh((h·W + x)·y); stacked are h, and -h·W of before."""
    body = graph(
        [
            node("MatMul", "h w", "hw"),
            node("Add", "hw x", "a"),
            node("Mul", "a y", "b"),
            node("Tanh", "b", "new"),
            node("Identity", "new", "o1"),
            node("Neg", "hw", "o2"),
        ],
        {n: (1, [2, 5]) for n in ("h", "x", "y")},
        {n: (1, None) for n in ("new", "o1", "o2")},
    )
    how = {"scan_input_directions": ins, "scan_output_directions": outs}
    how |= {"scan_input_axes": axes, "scan_output_axes": places}
    nodes = [
        node("Scan", "h0 xs ys", "last first second", body=body, num_scan_inputs=2, **how),
        node("Relu", "first", "r"),
    ]
    inputs = {n: (np.float32, None) for n in ("h0", "xs", "ys")}
    return model(nodes, inputs, ["last", "r", "second"], {"w": W})


def scanned(feeds: dict[str, Any], ins: Any, outs: Any, axes: Any, places: Any) -> list[np.ndarray]:
    rows = [np.moveaxis(feeds[n], a, 0) for n, a in zip(("xs", "ys"), axes, strict=True)]
    x, y = (r[::-1] if d else r for r, d in zip(rows, ins, strict=True))
    h, first, second = feeds["h0"], [], []
    for i in range(len(x)):
        second.append(-(h @ W))
        h = np.tanh((h @ W + x[i]) * y[i])
        first.append(np.maximum(h, 0))
    stacks = [np.stack(s[::-1] if d else s) for s, d in zip((first, second), outs, strict=True)]
    return [h, *(np.moveaxis(s, 0, a) for s, a in zip(stacks, places, strict=True))]


def drawn(axes: Sequence[int], length: int) -> dict[str, np.ndarray]:
    shapes = [(2, 5)[:a] + (length,) + (2, 5)[a:] for a in axes]
    return {
        n: rng.standard_normal(s).astype(np.float32)
        for n, s in zip(("h0", "xs", "ys"), [(2, 5), *shapes], strict=True)
    }


@pytest.mark.parametrize(("ins", "outs"), list(product(WAYS, WAYS)))
def test_a_scan_is_compiled_whatever_way_it_runs(ins: Any, outs: Any) -> None:
    session = tb.inference.load(scan_model(ins, outs, (0, 0), (0, 0)))
    feeds = drawn((0, 0), 6)
    for got, want in zip(session.run(feeds).values(), scanned(feeds, ins, outs, (0, 0), (0, 0)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert [s.describe()[0] for s in session.program.steps] == ["compiled for cpu: 2 nodes, 1 compilations"]


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_scanned_axes_stand_anywhere_and_vary_in_length(target: str) -> None:
    how = ((0, 1), (1, 0), (1, 2), (2, 1))
    session = tb.inference.load(scan_model(*how), target=target)
    for length in (4, 7, 3, 12):
        feeds = drawn(how[2], length)
        for got, want in zip(session.run(feeds).values(), scanned(feeds, *how), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert "2 compilations" in session.explain()


def loop_model(grows: bool, count: str = "m", ends: bool = False) -> Any:
    """h = tanh(h·W + round), or h and h·W below each other; stacked is the sum of h."""
    made = node("Concat", "h s", "new", axis=0) if grows else node("Tanh", "s", "new")
    go = [node("ReduceMax", "new", "top", keepdims=0), node("Less", "top limit", "on")]
    body = graph(
        [
            node("MatMul", "h w", "hw"),
            node("Cast", "i", "number", to=1),
            node("Add", "hw number", "s"),
            made,
            node("ReduceSum", "new", "o", keepdims=0),
            *(go if ends else [node("Identity", "go", "on")]),
        ],
        {"i": (7, []), "go": (9, []), "h": (1, None)},
        {"on": (9, []), "new": (1, None), "o": (1, [])},
    )
    nodes = [
        node("Size", "xs", "n"),
        node("Loop", f"{count} yes h0", "last sums", body=body),
        node("Neg", "sums", "r"),
    ]
    constants = {"w": W, "m": np.asarray(3), "yes": np.asarray(True), "limit": np.float32(0.9)}
    inputs = {"h0": (np.float32, None), "xs": (np.float32, ["k"])}
    return model(nodes, inputs, ["last", "r"], constants)


def looped(h: np.ndarray, rounds: int, grows: bool, limit: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
    sums = []
    for i in range(rounds):
        s = h @ W + np.float32(i)
        h = np.concatenate([h, s]) if grows else np.tanh(s)
        sums.append(-h.sum())
        if h.max() >= limit:
            break
    return h, np.asarray(sums, np.float32)


@pytest.mark.parametrize("grows", [False, True])
def test_a_loop_whose_state_grows_runs_beside_the_graph(grows: bool) -> None:
    session = tb.inference.load(loop_model(grows))
    h = rng.standard_normal((2, 5)).astype(np.float32)
    for _ in range(2):
        got = session.run({"h0": h, "xs": np.zeros(1, np.float32)}).values()
        for a, b in zip(got, looped(h, 3, grows), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    text = session.explain()
    assert ("host: Loop" in text) == grows
    assert ("turns a state [f32[2,5]] into [f32[4,5]]" in text) == grows


def test_rounds_follow_a_size() -> None:
    session = tb.inference.load(loop_model(False, count="n"))
    h = rng.standard_normal((2, 5)).astype(np.float32)
    for rounds in (4, 2, 7, 1, 0):
        got = session.run({"h0": h, "xs": np.zeros(rounds, np.float32)}).values()
        for a, b in zip(got, looped(h, rounds, False), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_loop_that_values_end_is_no_counted_one() -> None:
    session = tb.inference.load(loop_model(False, ends=True))
    h = rng.standard_normal((2, 5)).astype(np.float32)
    got = session.run({"h0": h, "xs": np.zeros(1, np.float32)}).values()
    want = looped(h, 3, False, 0.9)
    assert len(want[1]) < 3
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert "host: Loop" in session.explain()
    assert session.program.steps[-1].describe()[0].startswith("compiled for cpu")  # what is behind it


def test_each_round_draws_other_numbers() -> None:
    body = graph(
        [node("RandomUniformLike", "h", "o"), node("Identity", "h", "new")],
        {"h": (1, [3]), "x": (1, [])},
        {"new": (1, [3]), "o": (1, [3])},
    )
    nodes = [node("Scan", "h0 xs", "last ys", body=body, num_scan_inputs=1)]
    proto = model(nodes, {"h0": (np.float32, [3]), "xs": (np.float32, ["n"])}, ["ys"])
    session = tb.inference.load(proto)
    found = session.run({"h0": np.zeros(3, np.float32), "xs": np.zeros(4, np.float32)})["ys"]
    assert len(np.unique(found)) == 12
