"""The programs under `jit(target="cpu")`: the same results as eager, within what rounding explains.

Integers and bools are equal in every bit. Floats are compared with the largest number of their array;
programs that train for many steps amplify the last bits and have a wider bound.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import trilobite as tb

from . import networks, plain  # noqa: F401 - they fill the table
from .harness import Program, programs, run

BOUND = 5e-6
BOUNDS = {"convnet_adam_cosine": 5e-3, "recurrent_tagger_adamw": 1e-4, "mlp_sgd_momentum": 1e-4}
RESULTS_ONLY = {"tied_transformer_lion": 12}
"""Lion steps by the sign of a gradient. That of a key's bias is zero but for rounding, so its sign is
anyone's, and the bias with it; what the network computes does not depend on it.
"""


@pytest.mark.parametrize("p", programs.values(), ids=lambda p: p.name)
def test_a_program_on_the_cpu_is_close_to_eager(p: Program) -> None:
    want, got = run(p, lambda f: f), run(p, partial(tb.jit, target="cpu"))
    assert len(got) == len(want)
    for i, (a, b) in list(enumerate(zip(got, want, strict=True)))[: RESULTS_ONLY.get(p.name)]:
        assert a.dtype == b.dtype and a.shape == b.shape, f"array {i}"
        if a.dtype.kind in "iub":
            assert a.tobytes() == b.tobytes(), f"array {i}"
            continue
        a, b = a.astype(np.complex128), b.astype(np.complex128)
        assert np.array_equal(np.isfinite(a), np.isfinite(b)), f"array {i}"
        size = np.abs(b, where=np.isfinite(b), out=np.zeros(b.shape)).max(initial=0.0)
        off = np.abs(a - b, where=np.isfinite(b), out=np.zeros(b.shape)).max(initial=0.0)
        assert off <= BOUNDS.get(p.name, BOUND) * size, f"array {i}: off by {off}, largest {size}"


@pytest.mark.parametrize(
    "name", ["mlp_sgd_momentum", "recurrent_tagger_adamw", "inference_in_evaluation_mode"]
)
def test_bits_do_not_depend_on_the_number_of_threads(name: str) -> None:
    from trilobite.native.pool import set_threads, threads

    before, runs = threads(), []
    try:
        for n in (1, 2, 3):
            set_threads(n)
            runs.append(run(programs[name], partial(tb.jit, target="cpu")))
    finally:
        set_threads(before)
    for other in runs[1:]:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(runs[0], other, strict=True))
