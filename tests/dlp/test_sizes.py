"""Symbolic sizes on the processor: one program, whose arguments they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError

F = tb.nn.functional
N = tb.dim("n", max=16)


def normal(rng: np.random.Generator, *shape: int) -> tb.Tensor:
    return tb.tensor(rng.normal(size=shape).astype(np.float32))


def made(f: Any, args: Sequence[tb.Tensor]) -> Any:
    return f.lower(*args).compile()


def attention(x: tb.Tensor) -> tb.Tensor:
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)


def statistics(x: tb.Tensor) -> tuple[tb.Tensor, ...]:
    order = tb.argmax(x, axis=0)
    return x.mean(axis=0), x.var(axis=0), tb.flip(x, axis=0), tb.cumulative_sum(x, axis=0), order, x[-1:]


def merged(x: tb.Tensor) -> tb.Tensor:
    """A reshape in which elements move with the size."""
    return tb.reshape(x, (x.shape[0] * x.shape[1], 4)).sum(axis=1)


CASES: list[tuple[Callable[..., Any], tuple[Any, ...], Callable[[int], tuple[int, ...]]]] = [
    (statistics, (N, None), lambda n: (n, 5)),
    (attention, (None, N, None), lambda n: (2, n, 6)),
    (merged, (None, N, None), lambda n: (3, n, 4)),
    (lambda x: tb.scan(lambda c, e: (tb.tanh(c + e), c), x[0] * 0, x), (N, None), lambda n: (n, 5)),
    (lambda x: F.max_pool1d(x, 3, stride=2, padding=1), (None, None, N), lambda n: (1, 3, n)),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_one_program_serves_all_sizes(case: int) -> None:
    f, shape, shape_of = CASES[case]
    rng = np.random.default_rng(case)
    target = "dlp:dlp-m" if case % 2 else "dlp:dlp-s"
    fast = tb.jit(f, target=target, shapes=[shape], options={"checks": True})
    programs = set()
    for n in (5, 16, 1, 7):
        x = normal(rng, *shape_of(n))
        got, want = tb.tree.leaves(fast(x)), tb.tree.leaves(f(x))
        programs.add(id(made(fast, [x]).last.compiled.program))
        for a, b in zip(got, want, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)
    assert len(programs) == 1
    assert "compiled once for n up to 16" in str(fast.explain(x))


def trained(target: str) -> list[float]:
    weight = tb.tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3), requires_grad=True)
    opt = tb.optim.Adam([weight], lr=0.05)

    @tb.jit(target=target, shapes=[(N, None), (N, None)])
    def step(x: tb.Tensor, y: tb.Tensor) -> tb.Tensor:
        loss = ((x @ weight - y) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    rng = np.random.default_rng(0)
    return [float(step(normal(rng, n, 4), normal(rng, n, 3))) for n in (5, 16, 1, 7, 3)]


def test_a_training_step_takes_batches_of_any_size() -> None:
    np.testing.assert_allclose(trained("dlp:dlp-m"), trained("cpu"), rtol=1e-5)


def test_what_the_host_link_carries_are_the_real_sizes() -> None:
    f = tb.jit(lambda x: x * 2, target="dlp:dlp-s", shapes=[(N, None)])
    x = normal(np.random.default_rng(0), 3, 5)
    f(x)
    measured = made(f, [x]).measured
    assert measured["bytes from device"] == 60 and measured["bytes to device"] == 60 + 8  # and n


def test_each_choice_of_sizes_may_have_a_program_of_its_own() -> None:
    f = tb.jit(lambda x: tb.exp(x), target="dlp:dlp-s", shapes=[(N, None)], options={"sizes": "each"})
    cycles = []
    for n in (1, 16):
        x = normal(np.random.default_rng(n), n, 300)
        np.testing.assert_allclose(f(x).numpy(), np.exp(x.numpy()), rtol=1e-5)
        cycles.append(f.last_run.cycles)
    assert cycles[0] < cycles[1]
    assert "for each choice of sizes" in str(f.explain(x)) and "as asked for" in str(f.explain(x))


def test_a_size_without_a_bound_is_compiled_size_by_size_and_says_why() -> None:
    f = tb.jit(lambda x: x + 1, target="dlp:dlp-s", shapes=[(tb.dim("n"), None)])
    x = normal(np.random.default_rng(0), 3, 5)
    np.testing.assert_array_equal(f(x).numpy(), x.numpy() + 1)
    assert "n may be as large as 2147483647" in str(f.explain(x))


def test_a_value_too_large_at_its_bounds_is_compiled_size_by_size() -> None:
    f = tb.jit(lambda x: x + 1, target="dlp:dlp-s", shapes=[(tb.dim("n", max=8000), None)])
    x = normal(np.random.default_rng(0), 1, 10000)
    np.testing.assert_array_equal(f(x).numpy(), x.numpy() + 1)
    assert "the largest it can be, takes 320000000 bytes" in str(f.explain(x))


def test_an_unknown_way_of_sizes_is_named() -> None:
    f = tb.jit(lambda x: x, target="dlp:dlp-s", options={"sizes": "often"})
    with pytest.raises(ArgumentError, match="the option sizes='often'"):
        f(tb.ones(3))


def test_a_quantised_network_takes_batches_of_any_size() -> None:
    """Its graph has a symbol of its own, which stands for the function's."""
    rng = np.random.default_rng(0)
    layers = tb.nn.Conv2d(3, 4, 3, padding=1), tb.nn.ReLU(), tb.nn.Flatten(), tb.nn.Linear(100, 3)
    net = tb.nn.Sequential(*layers)
    quantised = tb.quantize(net.eval(), [normal(rng, 2, 3, 5, 5)])
    shapes = [(N, None, None, None)]
    fast = {t: tb.jit(lambda x: quantised(x), target=t, shapes=shapes) for t in ("cpu", "dlp:tpu-v1")}
    for n in (3, 1):
        x = normal(rng, n, 3, 5, 5)
        want = quantised(x).numpy()
        for f in fast.values():
            np.testing.assert_array_equal(f(x).numpy(), want)
