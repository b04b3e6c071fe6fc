"""Kernels as operations of the framework, and the choice of meta-parameters by measurement."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from harness import example

import trilobite as tb
from trilobite import dlp
from trilobite.base.errors import ArgumentError, KernelError
from trilobite.processor import Device

elementwise = example("elementwise")


def forward(launch: dlp.Launcher, x: np.ndarray) -> np.ndarray:
    out: np.ndarray = launch(elementwise.sigmoid, [x, np.zeros_like(x), x.size], (launch.cores, 1, 1))[1]
    return out


def backward(
    launch: dlp.Launcher, inputs: tuple[np.ndarray], y: np.ndarray, dy: np.ndarray
) -> tuple[np.ndarray]:
    return (launch(elementwise.sigmoid_backward, [y, dy, np.zeros_like(y), y.size], (4, 1, 1))[2],)


def test_an_operation_has_values_and_gradients() -> None:
    sigmoid = dlp.operation(forward, backward)
    x = tb.tensor(np.linspace(-4, 5, 37, dtype=np.float32), requires_grad=True)
    y = sigmoid(x)
    (y * y).sum().backward()
    want = 1 / (1 + np.exp(-np.linspace(-4, 5, 37, dtype=np.float32).astype(float)))
    assert np.allclose(y.detach().numpy(), want, rtol=1e-6)
    assert np.allclose(x.grad.numpy(), 2 * want * want * (1 - want), rtol=1e-5)
    assert sigmoid.launch.last is not None and sigmoid.launch.last.cycles > 0


def powers(launch: dlp.Launcher, x: np.ndarray, y: np.ndarray, *, p: int) -> np.ndarray:
    given = [x, y, np.zeros_like(x), x.size, p]
    out: np.ndarray = launch(elementwise.power_difference, given, (launch.cores, 1, 1))[2]
    return out


def slopes(
    launch: dlp.Launcher, inputs: tuple[np.ndarray, ...], out: np.ndarray, g: np.ndarray, *, p: int
) -> tuple[np.ndarray, np.ndarray]:
    slope = np.float32(p) * powers(launch, *inputs, p=p - 1) * g
    return slope, -slope


def trained(hidden: Any, loss: Any, compiled: bool) -> tuple[list[float], list[np.ndarray]]:
    """Losses and weights of a small network whose activation and loss are given."""
    rng = np.random.default_rng(11)
    x = tb.asarray(rng.normal(size=(32, 5)).astype(np.float32))
    y = tb.asarray(np.sin(x.numpy() @ rng.normal(size=(5, 1)).astype(np.float32)))
    tb.manual_seed(1)
    first, last = tb.nn.Linear(5, 9), tb.nn.Linear(9, 1)
    weights = [*first.parameters(), *last.parameters()]
    opt = tb.optim.SGD(weights, lr=0.2)

    def step() -> Any:
        value = loss(last(hidden(first(x))), y).mean()
        opt.zero_grad()
        value.backward()
        opt.step()
        return value

    run = tb.jit(step) if compiled else step
    return [float(run()) for _ in range(6)], [w.detach().numpy() for w in weights]


def test_a_network_learns_through_kernels_of_the_chip() -> None:
    """Eager and compiled: sigmoid and PowerDifference run on the simulated chip in every step."""
    chip = dlp.operation(forward, backward), dlp.operation(powers, slopes)
    plain = trained(
        tb.sigmoid if hasattr(tb, "sigmoid") else tb.nn.functional.sigmoid, lambda a, b: (a - b) ** 2, True
    )
    for compiled in (False, True):
        losses, weights = trained(chip[0], lambda a, b: chip[1](a, b, p=2), compiled)
        assert losses[-1] < 0.8 * losses[0]
        assert np.allclose(losses, plain[0], rtol=1e-5)
        assert all(np.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(weights, plain[1], strict=True))
    assert chip[0].launch.last is not None and chip[1].launch.last is not None


def test_inside_jit_the_report_names_it() -> None:
    sigmoid = dlp.operation(forward, backward)
    compiled = tb.jit(lambda x: sigmoid(x * 2) + 1)
    x = tb.asarray(np.linspace(-3, 3, 11, dtype=np.float32))
    assert np.allclose(compiled(x).numpy(), 1 + 1 / (1 + np.exp(-2 * x.numpy())), rtol=1e-6)
    assert "host custom_call" in compiled.explain(x)


def test_without_a_derivative_it_still_computes() -> None:
    x = tb.tensor(np.array([0.0, 2.0], np.float32))
    assert np.allclose(dlp.operation(forward, machine="dlp-s")(x).numpy(), [0.5, 0.880797])


def test_the_framework_stays_outside() -> None:
    code = (
        "import sys; from trilobite import dlp; dlp.kernel; assert 'trilobite.framework' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_autotune_chooses_the_fastest_and_puts_arrays_back() -> None:
    tuned = dlp.autotune([{"tile": 32}, {"tile": 1024}, {"tile": 1 << 20}], key=("n",))(elementwise.sigmoid)
    dev = Device("dlp-m")
    x, out = dev.array(np.ones(4096, np.float32)), dev.array(np.full(4096, 7.0, np.float32))
    best = tuned.best(dev, [x, out, 4096], (4, 1, 1))
    (cycles,) = tuned.cycles.values()
    assert best.chosen["tile"] == 1024 and cycles[1] < cycles[0] and cycles[2] is None
    assert (out.numpy() == 7.0).all()
    run = dev.launch(tuned, [x, out, 4096], (4, 1, 1))
    assert run.cycles == cycles[1]
    assert np.allclose(out.numpy(), 1 / (1 + np.exp(-1.0)))


def test_autotune_refuses_what_cannot_work() -> None:
    with pytest.raises(ArgumentError, match="the key 'tile' is no parameter of sigmoid"):
        dlp.autotune([{"tile": 32}], key=("tile",))(elementwise.sigmoid)
    tuned = dlp.autotune([{"tile": 1 << 20}])(elementwise.sigmoid)
    dev = Device("dlp-s")
    x = dev.array(np.ones(4, np.float32))
    with pytest.raises(KernelError, match="nram overflows by"):
        tuned.best(dev, [x, x, 4])
