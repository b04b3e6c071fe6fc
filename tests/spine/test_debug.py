"""Prints and callbacks are part of the program: once per run, in order, on every path."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb


def test_print_happens_at_every_run(capsys: pytest.CaptureFixture[str]) -> None:
    @tb.jit
    def f(x: tb.Tensor) -> tb.Tensor:
        tb.debug.print("x is {}", x)
        return x * 2.0

    f(tb.tensor(1.0))
    f(tb.tensor(3.0))
    assert capsys.readouterr().out == "x is 1.0\nx is 3.0\n"


def test_print_survives_loops_and_gradients(capsys: pytest.CaptureFixture[str]) -> None:
    def body(c: tb.Tensor, x: tb.Tensor) -> tuple[tb.Tensor, None]:
        tb.debug.print("{}", x)
        return c * x, None

    tb.jit(tb.grad(lambda xs: tb.scan(body, tb.tensor(1.0), xs)[0]))(tb.tensor([1.0, 2.0]))
    assert capsys.readouterr().out == "1.0\n2.0\n"


def test_callback_returns_values_and_keeps_order() -> None:
    seen: list[float] = []

    def double(x: np.ndarray) -> np.ndarray:
        seen.append(float(x))
        return x * 2

    f = tb.jit(lambda x: tb.debug.callback(double, x, x) + 1.0)
    assert [f(tb.tensor(v)).item() for v in (1.0, 5.0)] == [3.0, 11.0]
    assert seen == [1.0, 5.0]
    assert tb.vmap(lambda x: tb.debug.callback(double, x, x))(tb.tensor([3.0, 4.0])).tolist() == [6.0, 8.0]


def test_callback_of_the_wrong_type_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"result 0 of .* is float64"):
        tb.debug.callback(lambda x: x.astype("float64"), tb.tensor(1.0), tb.tensor(1.0))


@pytest.mark.parametrize("nested", [False, True], ids=["alone", "within another"])
def test_anomaly_mode_sees_what_compiled_functions_compute(nested: bool) -> None:
    state = tb.tensor(3.0)

    @tb.jit
    def f(x: tb.Tensor) -> tb.Tensor:
        state.add_(1.0)
        y = tb.log(x)  # the line
        return y * 2.0

    line = f.fn.__code__.co_firstlineno + 3
    g = tb.jit(lambda x: f(x) + 1.0) if nested else f
    bad, good = tb.tensor([1.0, -1.0]), tb.tensor([1.0, 2.0])
    for _ in range(3):  # the short way of later calls too
        g(bad)
    with (
        tb.debug.detect_anomaly(),
        pytest.raises(tb.debug.AnomalyError, match=rf"log made NaN[\s\S]*test_debug.py:{line}"),
    ):
        g(bad)
    assert state.item() == 6.0  # a call that raised changed nothing
    with tb.debug.detect_anomaly():
        got = g(good)
    assert np.allclose(got.numpy(), g(good).numpy()) and state.item() == 8.0


def test_anomaly_mode_sees_gradients_in_a_compiled_step() -> None:
    w = tb.tensor([[0.0, 2.0]], requires_grad=True)

    @tb.jit
    def step(x: tb.Tensor) -> tb.Tensor:
        loss = tb.sum(tb.sqrt(x * w))
        loss.backward()
        return loss

    x = tb.tensor([[1.0, 3.0]])
    step(x)
    with (
        tb.debug.detect_anomaly(),
        pytest.raises(tb.debug.AnomalyError, match=r"an infinity[\s\S]*test_debug.py"),
    ):
        step(x)


def test_anomaly_mode_reads_weights_that_lie_packed() -> None:
    w = tb.tensor(np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32))
    f = tb.jit(lambda x: tb.tanh(x @ w))
    x = tb.tensor(np.random.default_rng(1).standard_normal((32, 64)).astype(np.float32))
    want = f(x).numpy()
    f(x)
    with tb.debug.detect_anomaly():
        assert np.allclose(f(x).numpy(), want, atol=1e-5)
    assert f(x).numpy().tobytes() == want.tobytes()
