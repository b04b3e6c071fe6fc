"""Whole networks on the processor against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb


@pytest.mark.parametrize("machine", ["dlp-s", "dlp-m"])
@pytest.mark.parametrize("name, shape", [("mlp", (3, 784)), ("lenet", (1, 1, 28, 28))])
def test_a_network_gives_what_the_interpreter_gives(name: str, shape: tuple[int, ...], machine: str) -> None:
    model = tb.zoo.create(name)
    model.eval()
    x = tb.tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))
    with tb.no_grad():
        want = tb.jit(lambda v: model(v), target="reference")(x).numpy()
        got = tb.jit(lambda v: model(v), target=f"dlp:{machine}")(x).numpy()
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()
