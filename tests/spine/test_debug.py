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
