"""Products split in two and three dimensions give the losses and gradients of one process over 20 steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cluster_models import STEPS, adam
from trilobite.nn import functional as F

import trilobite as tb
from trilobite import cluster as c
from trilobite import nn
from trilobite.base.errors import ArgumentError
from trilobite.cluster.dimensions import block

RNG = np.random.default_rng(8)
X, Y = RNG.normal(size=(8, 8)), RNG.normal(size=(8, 4))


def layers() -> tuple[Any, Any]:
    tb.manual_seed(4)
    return nn.Linear(8, 12).double(), nn.Linear(12, 4).double()


def train(
    first: Any, second: Any, x: Any, y: Any, total: Callable[[Any], Any]
) -> tuple[list[float], Any, Any]:
    """Losses, first gradients and last parameters; `total` sums over ranks what each makes of its block."""
    parameters = [*first.parameters(), *second.parameters()]
    opt = adam(parameters)
    losses, grads = [], []
    for _ in range(STEPS):
        opt.zero_grad()
        loss = ((second(F.gelu(first(x))) - y) ** 2).sum() / Y.size
        loss.backward()
        losses.append(total(loss.detach()).item())
        grads.append([p.grad.numpy().copy() for p in parameters])
        opt.step()
    return losses, grads[0], [p.detach().numpy().copy() for p in parameters]


def one() -> Any:
    return train(*layers(), tb.tensor(X), tb.tensor(Y), lambda v: v)


def square() -> Any:
    mesh = c.mesh((2, 2), ("rows", "columns"))
    r, k = (mesh["rows"],), (mesh["columns"],)
    first, second = (c.SummaLinear(layer, mesh) for layer in layers())
    found = train(first, second, tb.tensor(block(X, r, k)), tb.tensor(block(Y, r, k)), c.all_reduce)
    wanted = [(block(w.T, r, k), block(b.reshape(1, -1), (), k)[0]) for w, b in pairs(one())]
    return found, wanted


def cube() -> Any:
    mesh = c.mesh((2, 2, 2), ("x", "y", "z"))
    gx, gy, gz = (mesh[n] for n in "xyz")
    a, b = layers()
    first, second = c.CubeLinear(a, mesh), c.CubeLinear(b, mesh, "x", "z", "y")
    x, y = block(X, (gx, gy), (gz,)), block(Y, (gx, gy), (gz,))
    found = train(first, second, tb.tensor(x), tb.tensor(y), c.all_reduce)
    sides = ((gy, gz), (gz, gy))
    wanted = [
        (block(w, (o, gx), (i,)), block(b.reshape(1, -1), (), (o,))[0])
        for (w, b), (o, i) in zip(pairs(one()), sides * 2, strict=True)
    ]
    return found, wanted


def pairs(trained: Any) -> list[tuple[Any, Any]]:
    """(weight, bias) of both layers: gradients of the first step, then parameters at the end."""
    return [(rows[i], rows[i + 1]) for rows in trained[1:] for i in (0, 2)]


@pytest.mark.parametrize(("rank", "n"), [(square, 4), (cube, 8)])
def test_blocks_train_as_one_process(rank: Any, n: int) -> None:
    losses = one()[0]
    for (found, first, last), wanted in c.lockstep(rank, n):
        np.testing.assert_allclose(found, losses, rtol=1e-10)
        np.testing.assert_allclose(found[0], losses[0], rtol=1e-12)
        for got, want in zip(first, [t for p in wanted[:2] for t in p], strict=True):
            assert np.linalg.norm(got - want) <= 1e-12 * np.linalg.norm(want)
        for got, want in zip(last, [t for p in wanted[2:] for t in p], strict=True):
            assert np.linalg.norm(got - want) <= 1e-10 * np.linalg.norm(want)


def test_a_missing_share_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from trilobite.cluster import collectives

    monkeypatch.setattr(collectives, "share", lambda x, group=None: x)
    (_, first, _), wanted = c.lockstep(square, 4)[0]
    assert np.linalg.norm(first[1] - wanted[0][1]) > 1e-3 * np.linalg.norm(wanted[0][1])


def test_mistakes_are_named() -> None:
    layer = nn.Linear(6, 5)
    with pytest.raises(ArgumentError, match="SUMMA on 2 × 3 ranks"):
        c.lockstep(lambda: c.SummaLinear(layer, c.mesh((2, 3), ("rows", "columns"))), 6)
    with pytest.raises(ArgumentError, match="5 features over 2 ranks"):
        c.lockstep(lambda: c.SummaLinear(layer, c.mesh((2, 2), ("rows", "columns"))), 4)
