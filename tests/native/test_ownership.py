"""The one rule of ownership: what is known to be held by nobody else is overwritten, all else is copied; and
an interpreter whose counts mean something else is noticed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trilobite.native import ownership

ROOT = Path(__file__).parents[2]


def test_what_is_known_of_this_interpreter() -> None:
    """3.14 borrows, and is to be noticed; of later ones decision 0018 has to say what they do."""
    assert (sys.version_info < (3, 14)) == ownership.COUNTS


@pytest.mark.counted
def test_who_else_refers_to_an_object_is_seen() -> None:
    held = [object()]
    assert ownership.references(held, 0) == 1
    another = held[0]
    assert ownership.references(held, 0) == 2
    assert ownership.is_alone(another, 2) and not ownership.is_alone(another, 1)
    count = ownership.counter()
    assert count(held, held) == 2 and count(held, [object()]) == -1 and count([], []) == 0


@pytest.mark.parametrize("borrowed", ["argument", "variable", "element"])
def test_an_interpreter_that_borrows_is_noticed(borrowed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As 3.14 does: some references are on the stack and counted nowhere."""
    real = sys.getrefcount
    less = {"argument": (4,), "variable": (3,), "element": (2,)}[borrowed]
    monkeypatch.setattr(ownership, "getrefcount", lambda x: real(x) - 1 - (real(x) - 1 in less))
    assert not ownership._counts()


def test_without_a_lock_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert not ownership._counts()


def test_where_counts_mean_nothing_nobody_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "COUNTS", False)
    held: list[Any] = [object()]
    count = ownership.counter()
    assert not ownership.is_alone(held[0], 1 << 20) and ownership.references(held, 0) > 1 << 20
    assert count(held, held) > 1 << 20 and count(held, [object()]) == -1 and count([], []) == 0


STEPS = """
import sys
import numpy as np
from trilobite.native import ownership
ownership.COUNTS = sys.argv[1] == "counts"
import trilobite as tb

tb.random.manual_seed(3)
model = tb.nn.Sequential(tb.nn.Linear(40, 64), tb.nn.ReLU(), tb.nn.Linear(64, 3))
optimizer = tb.optim.Adam(model.parameters(), lr=1e-2)
x = tb.tensor(np.random.default_rng(0).standard_normal((16, 40)).astype(np.float32))

@tb.jit
def step(x):
    optimizer.zero_grad()
    loss = (model(x) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss

kept, arrays = [], set()
for n in range(6):
    step(x)
    weight = next(iter(model.parameters()))
    arrays.add(weight._cell.held.ctypes.data)
    if n == 2:
        view = weight.detach().numpy()
        before = view.copy()
        grad = weight.grad.numpy()
        grad_before = grad.copy()
assert not np.array_equal(view, weight.detach().numpy()) or sys.argv[1] == "counts"
assert np.array_equal(grad, grad_before)
print(weight.detach().numpy().tobytes().hex()[:400], len(arrays))
"""


@pytest.mark.counted
def test_a_training_gives_the_same_bits_where_all_is_copied() -> None:
    found = {}
    for how in ("counts", "copies"):
        done = subprocess.run(
            [sys.executable, "-c", STEPS, how], capture_output=True, text=True, cwd=ROOT, timeout=110
        )
        assert done.returncode == 0, done.stderr
        found[how] = done.stdout.split()
    assert found["counts"][0] == found["copies"][0]
    assert int(found["counts"][1]) < int(found["copies"][1])  # arrays that the weight was in
