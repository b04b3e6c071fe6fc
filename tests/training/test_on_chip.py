"""Training on the processor beside the CPU: every step from the same state, and whole runs."""

from __future__ import annotations

import numpy as np
import on_chip
import pytest

import trilobite as tb

LOSS = 2e-5  # of the CPU's loss, from the same state
UPDATE = 0.02  # of the CPU's update, by their norms: Adam divides gradients by their own size


@pytest.mark.long
@pytest.mark.parametrize(("what", "steps"), [("lenet", 200), ("transformer", 100)])
def test_steps_and_curves_are_the_cpu_s(what: str, steps: int) -> None:
    pytest.importorskip("sklearn")
    found = {"lenet": on_chip.lenet, "transformer": on_chip.transformer}[what](steps)
    assert len(found.same) == len(found.free) == steps
    assert found.loss_error <= LOSS and max(found.updates) <= UPDATE
    assert found.curve_error <= 0.01
    chip = np.array(found.free)[:, 0]
    assert chip[-20:].mean() < 0.8 * chip[:20].mean()
    assert found.cycles > 0 and found.joules > 0


@pytest.mark.long
def test_lenet_on_digits_keeps_its_accuracy_on_integers() -> None:
    """Trained on 1,200 digits, judged on the others: int8 within one percent of float32, int16 within 0.2."""
    pytest.importorskip("sklearn")
    tb.manual_seed(0)
    images, labels = on_chip.enlarged()
    model = tb.zoo.create("lenet")
    optimizer = tb.optim.Adam(model.parameters(), lr=1e-3)

    @tb.jit
    def step(x: tb.Tensor, y: tb.Tensor) -> tb.Tensor:
        loss = tb.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    rng = np.random.default_rng(0)
    for _ in range(250):
        chosen = rng.integers(0, 1200, 32)
        step(tb.tensor(images[chosen]), tb.tensor(labels[chosen]))
    model.eval()
    tests = tb.tensor(images[1200:])
    data = [tb.tensor(images[i : i + 50]) for i in range(0, 200, 50)]

    def accuracy(m: tb.nn.Module) -> float:
        with tb.no_grad():
            scores = tb.jit(m)(tests).numpy()
        return float((scores.argmax(1) == labels[1200:]).mean())

    exact = accuracy(model)
    assert exact > 0.93
    scheme = tb.quantization.Scheme
    for calibration in ("minmax", "percentile", "entropy"):
        for symmetric in (True, False):
            found = accuracy(tb.quantize(model, data, scheme(calibration=calibration, symmetric=symmetric)))
            assert found >= exact - 0.01, (calibration, symmetric, found, exact)
    assert abs(accuracy(tb.quantize(model, data, "int16")) - exact) <= 0.002
