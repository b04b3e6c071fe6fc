"""What the processor refuses runs on the host where the user allows it, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, DeviceError

HOST = {"host": True}


def normal(*shape: int) -> tb.Tensor:
    return tb.tensor(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32))


def spectral(x: tb.Tensor) -> tuple[tb.Tensor, ...]:
    product = x @ x.T
    values = tb.abs(tb.linalg.eig(tb.tanh(product)).eigenvalues)
    return values * 2, tb.real(tb.linalg.eigvals(product)).sum() + product.sum()


def test_refused_by_name_unless_it_is_allowed() -> None:
    with pytest.raises(DeviceError, match=r"(?s)eig .*eigvals.*options=\{\"host\": True\}"):
        tb.jit(spectral, target="dlp:dlp-s")(normal(4, 3))


def test_the_host_runs_what_the_processor_does_not() -> None:
    x = normal(4, 3)
    f = tb.jit(spectral, target="dlp:dlp-m", options=HOST)
    for got, want in zip(f(x), spectral(x), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)
    text = str(f.explain(x))
    assert text.count("host    ") == 2 and "eig: it has no program for general eigenvalues" in text
    assert "matrix  dot" in text
    measured = f.lower(x).compile().measured
    assert measured["cycles"] > f.last_run.cycles  # more than one launch
    assert any(name.startswith("part 0: ") for name in f.lower(x).stages)


def test_effects_keep_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Any] = []

    def f(x: tb.Tensor) -> tb.Tensor:
        late = tb.exp(tb.debug.callback(lambda v: v * 2, x, x))
        tb.debug.print("late {}", late[0])
        tb.debug.callback(lambda v: seen.append(float(v[0])), None, x)
        return late

    x = tb.tensor([0.5, 1.0])
    got = tb.jit(f, target="dlp:dlp-s", options=HOST)(x)
    np.testing.assert_allclose(got.numpy(), np.exp(2 * x.numpy()), rtol=1e-5)
    assert seen == [0.5] and capsys.readouterr().out.startswith("late 2.71")


def test_a_loop_with_a_print_runs_on_the_host_as_a_whole(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: tb.Tensor) -> tb.Tensor:
        def body(c: tb.Tensor, e: tb.Tensor) -> tuple[tb.Tensor, tb.Tensor]:
            tb.debug.print("c {}", c)
            return c + e, c

        return tb.scan(body, x.sum() * 0, x)[0] * 3

    x = tb.tensor([1.0, 2.0, 4.0])
    g = tb.jit(f, target="dlp:dlp-s", options=HOST)
    assert float(g(x)) == 21.0
    assert capsys.readouterr().out.split() == ["c", "0.0", "c", "1.0", "c", "3.0"]
    assert "host    scan: the processor has no standard output" in str(g.explain(x))


def test_training_with_a_print_keeps_its_state() -> None:
    weight = tb.tensor(np.ones((3, 2), np.float32), requires_grad=True)
    opt = tb.optim.SGD([weight], lr=0.1)
    seen: list[float] = []

    @tb.jit(target="dlp:dlp-m", options=HOST)
    def step(x: tb.Tensor) -> tb.Tensor:
        loss = (x @ weight).square().mean()
        tb.debug.callback(lambda v: seen.append(float(v)), None, loss)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    x = normal(4, 3)
    losses = [float(step(x)) for _ in range(4)]
    assert losses == seen and losses[-1] < losses[0]


def test_symbolic_sizes_with_the_host() -> None:
    n = tb.dim("n", min=2, max=8)

    def two(x: tb.Tensor) -> tb.Tensor:
        return tb.linalg.svdvals(x)[:2] + x.sum()

    f = tb.jit(two, target="dlp:dlp-s", shapes=[(n, n)], options=HOST)
    for size in (3, 5):
        x = normal(size, size)
        want = np.linalg.svd(x.numpy(), compute_uv=False)[:2] + x.numpy().sum()
        np.testing.assert_allclose(f(x).numpy(), want, rtol=1e-4, atol=1e-5)


def test_a_profile_of_both_is_refused() -> None:
    f = tb.jit(spectral, target="dlp:dlp-s", options=HOST)
    with pytest.raises(ArgumentError, match="of which the host runs a part"):
        f.profile(normal(4, 3))
