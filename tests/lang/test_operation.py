"""Kernels as operations of the framework, and the choice of meta-parameters by measurement."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from harness import example

import trilobite as tb
from trilobite import dlp
from trilobite.base.errors import ArgumentError, KernelError, TrilobiteError
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
    (search,) = tuned.searches.values()
    cycles = [trial.cycles for trial in search.trials]
    assert best.chosen["tile"] == 1024 and cycles[1] < cycles[0] and cycles[2] is None
    assert (out.numpy() == 7.0).all()
    run = dev.launch(tuned, [x, out, 4096], (4, 1, 1))
    assert run.cycles == cycles[1] and list(tuned.searches.values()) == [search]
    assert np.allclose(out.numpy(), 1 / (1 + np.exp(-1.0)))
    told = tuned.report().splitlines()
    assert told[0] == "dlp-m, block of (4, 1, 1), n=4096"
    assert told[1:3] == [f"    tile=32: {cycles[0]} cycles", f"  * tile=1024: {cycles[1]} cycles"]
    assert "tile=1048576: nram overflows by" in told[3]


@dlp.kernel
def picky(x: dlp.gm[dlp.f32], n: int, *, tile: int = 8):
    assert n % tile == 0, "the tile must divide n"
    x[0] = x[0] + 1.0


def test_a_candidate_that_faults_is_told_and_does_not_end_the_search() -> None:
    tuned = dlp.autotune([{"tile": 7}, {"tile": 8}], key=("x", "n"))(picky)
    dev = Device("dlp-m")
    x, other = dev.array(np.zeros(16, np.float32)), dev.array(np.zeros(16, np.float32))
    dev.launch(tuned, [x, 16])
    dev.launch(tuned, [other, 16])  # another array of the same shape is no new search
    assert len(tuned.searches) == 1 and x.numpy()[0] == other.numpy()[0] == 1
    tuned.interpret(dev, [x, 16])
    assert x.numpy()[0] == 2
    assert "tile=7: the program trapped with code 1" in tuned.report()
    assert "the tile must divide n" in tuned.report()
    with pytest.raises(KernelError, match=r"no configuration of picky works:[\s\S]*tile=7: [\s\S]*tile=8: "):
        tuned.best(dev, [x, 15])
    with pytest.raises(ArgumentError, match="takes 2 arguments, 1 were given"):
        tuned.best(dev, [x])


def test_autotune_refuses_what_cannot_work() -> None:
    with pytest.raises(ArgumentError, match="the key 'tile' is no parameter of sigmoid"):
        dlp.autotune([{"tile": 32}], key=("tile",))(elementwise.sigmoid)
    tuned = dlp.autotune([{"tile": 1 << 20}])(elementwise.sigmoid)
    dev = Device("dlp-s")
    x = dev.array(np.ones(4, np.float32))
    with pytest.raises(KernelError, match="nram overflows by"):
        tuned.best(dev, [x, x, 4])


def test_without_a_derivative_nobody_differentiates_it() -> None:
    x = tb.tensor([0.5, -1.0], requires_grad=True)
    with pytest.raises(TrilobiteError):
        dlp.operation(forward)(x).sum().backward()


def test_a_launch_without_sizes_is_one_task() -> None:
    known = inspect.signature(dlp.Launcher.__call__).parameters
    assert known["dim"].default == (1, 1, 1) and known["task"].default == "block"


def test_names_that_are_near_are_suggested() -> None:
    with pytest.raises(AttributeError, match=r"has no 'opertn'; it has operation"):
        dlp.opertn
    with pytest.raises(AttributeError, match=r"has no 'zebra'$"):
        dlp.zebra
