"""`tb.fit` on several ranks: trains as one process, decides alike, and the first rank alone writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trilobite.nn import functional as F

import trilobite as tb
from trilobite import cluster as c
from trilobite import nn, optim
from trilobite.framework.logs import read_csv
from trilobite.framework.progress import Progress

RNG = np.random.default_rng(4)
X, Y = RNG.normal(size=(12, 3)), RNG.normal(size=(12, 2))


def batches(n: int, k: int) -> list[Any]:
    """Three batches of four rows; of each, the rows of rank k."""
    return [(X[b : b + 4][k * 4 // n : (k + 1) * 4 // n], Y[b : b + 4][k * 4 // n : (k + 1) * 4 // n])
            for b in (0, 4, 8)]  # fmt: skip


def run(n: int, folder: Path, jit: bool | str = False) -> Any:
    tb.manual_seed(1)
    model: Any = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    whole = c.DataParallel(model) if n > 1 else model
    opt = optim.AdamW(model.parameters(), lr=0.05)
    found = tb.fit(
        whole, opt, F.mse_loss, batches(n, c.rank()), epochs=4, validation=batches(n, c.rank()),
        schedule=optim.ReduceLROnPlateau(opt, factor=0.5, patience=0, threshold=0.2), clip_norm=0.7,
        logs=[folder / "log.csv"], checkpoint=folder / "saved", progress=False, jit=jit,
    )  # fmt: skip
    return [row["loss"] for row in found.rows], [p.detach().numpy() for p in model.parameters()]


@pytest.mark.parametrize("jit", [False, "cpu"])
def test_ranks_fit_as_one_process(tmp_path: Path, jit: bool | str) -> None:
    losses, want = run(1, tmp_path / "one")
    for found, parameters in c.lockstep(run, 2, 2, tmp_path / "two", jit):
        np.testing.assert_allclose(found, losses, rtol=1e-11)
        for a, b in zip(parameters, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert len(read_csv(tmp_path / "two" / "log.csv")) == 4  # one row an epoch, of one rank


def test_progress_is_shown_by_the_first_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert c.lockstep(lambda: Progress()._wanted, 2) == [True, False]
