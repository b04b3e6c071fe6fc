"""Runs like the one before take a short way: the same results and refusals, nothing kept on trust."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.inference.conftest import model, node
from trilobite.base.errors import ArgumentError, DTypeError, ShapeError, StateError, TraceError
from trilobite.framework.jit import Jitted

rng = np.random.default_rng(3)
W = rng.standard_normal((4, 5)).astype(np.float32)


class Own(np.ndarray):
    """Arrays of a class of the user's."""


def session() -> tb.inference.Session:
    nodes = [node("MatMul", "x w", "m"), node("Add", "m y", "s"), node("Relu", "s", "r")]
    inputs = {"x": (np.float32, ["n", 4]), "y": (np.float32, ["n", 5])}
    return tb.inference.load(model(nodes, inputs, ["s", "r"], {"w": W}))


def feeds(n: int) -> dict[str, Any]:
    return {k: rng.standard_normal((n, d)).astype(np.float32) for k, d in (("x", 4), ("y", 5))}


def check(found: dict[str, Any], f: dict[str, Any]) -> None:
    s = np.asarray(f["x"]) @ W + np.asarray(f["y"])
    np.testing.assert_allclose(found["s"], s, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found["r"], np.maximum(found["s"], 0))


def long_ways(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often a compiled function took its arguments apart, or an input was looked at, since the last
    question.
    """
    count = 0

    def counted(whole: Any) -> Any:
        def call(*args: Any) -> Any:
            nonlocal count
            count += 1
            return whole(*args)

        return call

    monkeypatch.setattr(Jitted, "__call__", counted(Jitted.__call__))
    monkeypatch.setattr(tb.inference.Session, "_checked", counted(tb.inference.Session._checked))

    def since() -> int:
        nonlocal count
        found, count = count, 0
        return found

    return since


def test_a_run_like_the_one_before_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    s, since = session(), long_ways(monkeypatch)
    check(s.run(f := feeds(3)), f)
    assert since() > 0
    for _ in range(4):
        check(s.run(f := feeds(3)), f)
    assert since() == 0
    for n in (6, 3, 7, 6, 3):
        check(s.run(f := feeds(n)), f)
    assert since() > 0


def test_odd_arrays_give_the_same() -> None:
    s = session()
    s.run(feeds(4))
    square = rng.standard_normal((4, 4)).astype(np.float32)
    strided = rng.standard_normal((8, 10)).astype(np.float32)[::2, ::2]
    still = feeds(4)["y"]
    still.flags.writeable = False
    for f in ({"x": square.T, "y": strided}, {"x": square, "y": still}, {"x": tb.tensor(square), "y": still},
              {"x": square.view(Own), "y": still}, {"x": square.tolist(), "y": still}):  # fmt: skip
        if isinstance(f["x"], list):
            with pytest.raises(DTypeError):
                s.run(f)
        else:
            check(s.run(f), f)


def test_one_array_for_two_inputs() -> None:
    inputs = {k: (np.float32, [3, 3]) for k in ("x", "y")}
    s = tb.inference.load(model([node("MatMul", "x y", "z")], inputs, ["z"]))
    for _ in range(3):
        x = rng.standard_normal((3, 3)).astype(np.float32)
        np.testing.assert_allclose(s.run({"x": x, "y": x})["z"], x @ x, rtol=1e-5, atol=1e-6)


def test_results_stay_what_they_were() -> None:
    s, kept = session(), []
    for _ in range(6):
        f = feeds(2)
        kept.append((s.run(f), f))
    for found, f in kept:
        check(found, f)
    kept[0][0]["s"][:] = 7  # a result is its owner's
    check(s.run(f := feeds(2)), f)


def test_wrong_inputs_after_right_ones() -> None:
    s, f = session(), feeds(2)
    s.run(f)
    for wrong, error in (
        ({**f, "x": f["x"].astype(np.float64)}, DTypeError),
        ({**f, "x": f["x"][:1]}, ShapeError),
        ({"x": f["x"]}, ArgumentError),
        ({**f, "z": f["x"]}, ArgumentError),
        ({"x": f["x"], "z": f["y"]}, ArgumentError),
    ):
        with pytest.raises(error):
            s.run(wrong)
    with pytest.raises(ArgumentError, match="no output"):
        s.run(f, ["q"])
    cancel = Event()
    cancel.set()
    with pytest.raises(StateError, match="cancelled"):
        s.run(f, cancel=cancel)
    into = np.empty((2, 5), np.float32)
    assert s.run(f, into={"r": into})["r"] is into
    check({"s": s.run(f, ["s"])["s"], "r": into}, f)


def test_defaults_of_the_file_are_replaced_and_come_back() -> None:
    onnx = pytest.importorskip("onnx")
    proto = model(
        [node("Mul", "x k", "y")], {"x": (np.float32, [3])}, ["y"], {"k": np.full(3, 2, np.float32)}
    )
    proto.graph.input.append(onnx.helper.make_tensor_value_info("k", 1, [3]))
    s, x = tb.inference.load(proto), np.ones(3, np.float32)
    for k in (None, 5, None, None, 7, 7, None):
        given = {"x": x} if k is None else {"x": x, "k": np.full(3, k, np.float32)}
        assert s.run(given)["y"].tolist() == [2 if k is None else k] * 3


def test_what_is_recorded_asks_for_tensors() -> None:
    s, f = session(), feeds(3)
    s.run(f)

    @tb.jit
    def around(v: tb.Tensor) -> tb.Tensor:
        return v + s.run(f)["s"].sum()

    with pytest.raises(TraceError):
        around(tb.tensor(1.0))
    with tb.no_grad():
        check(s.run(f), f)
    check(s.run(f), f)


def test_many_threads_take_the_short_way() -> None:
    s, wrong = session(), []
    s.run(feeds(3))

    def work(n: int) -> None:
        try:
            for _ in range(50):
                check(s.run(f := feeds(n)), f)
        except Exception as error:
            wrong.append(error)

    threads = [Thread(target=work, args=(n,)) for n in (3, 3, 5, 8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
