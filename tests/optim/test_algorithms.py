"""Every optimiser against its formula in float64, over signed gradients of many magnitudes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from optim_reference import CASES

import trilobite as tb
from trilobite.framework import optim
from trilobite.framework.optim.blocks import BLOCK

SHAPES = ((), (1,), (7,), (3, 5), (2, 1, 3), (0, 4))
STEPS = 30


def gradients(seed: int, steps: int = STEPS) -> list[list[np.ndarray]]:
    """Per step and parameter: signed, from 1e-6 to 1e3, some exactly zero."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(steps):
        row = []
        for shape in SHAPES:
            g = rng.normal(size=shape) * 10.0 ** rng.uniform(-6, 3, size=shape)
            row.append(np.where(rng.random(shape) < 0.1, 0.0, g))
        out.append(row)
    return out


def start(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed + 1000)
    return [np.asarray(rng.normal(size=shape) * 3.0) for shape in SHAPES]


def expected(reference: Any, settings: dict[str, Any], seed: int, missing: Any = ()) -> list[np.ndarray]:
    params, states, counts = start(seed), [{} for _ in SHAPES], [0] * len(SHAPES)
    for n, row in enumerate(gradients(seed)):
        for i, g in enumerate(row):
            if (n, i) not in missing:
                counts[i] += 1
                params[i] = reference(params[i], g, states[i], counts[i], **settings)
    return params


def trained(name: str, settings: dict[str, Any], seed: int, dtype: Any, missing: Any = ()) -> list[tb.Tensor]:
    params = [tb.tensor(p.astype(dtype), requires_grad=True) for p in start(seed)]
    optimizer = getattr(optim, name)(params, **settings)
    for n, row in enumerate(gradients(seed)):
        for i, (p, g) in enumerate(zip(params, row, strict=True)):
            p.grad = None if (n, i) in missing else tb.tensor(g.astype(dtype))
        optimizer.step()
    return params


@pytest.mark.parametrize("case", CASES)
def test_float64_is_the_formula(case: str) -> None:
    name, reference, settings = CASES[case]
    for p, want in zip(trained(name, settings, 3, np.float64), expected(reference, settings, 3), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), want, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_float32_is_the_formula_within_rounding(case: str) -> None:
    name, reference, settings = CASES[case]
    tolerance = 2e-3 if name == "RMSprop" and settings.get("centered") else 2e-5
    for p, want in zip(trained(name, settings, 4, np.float32), expected(reference, settings, 4), strict=True):
        assert p.dtype == tb.float32
        scale = max(1.0, float(np.abs(want).max(initial=0.0)))
        np.testing.assert_allclose(p.detach().numpy(), want, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize(
    "case", ["sgd momentum", "adam", "adamw amsgrad", "lion decay", "rmsprop all", "adagrad", "lamb decay"]
)
@pytest.mark.parametrize("dtype", [tb.bfloat16, tb.float16], ids=str)
def test_small_floats_keep_their_state_in_float32(case: str, dtype: Any) -> None:
    """One step is exact but for the last rounding; and the state keeps what the parameter's own format
    would lose.
    """
    name, reference, settings = CASES[case]
    rng = np.random.default_rng(1)
    first = rng.normal(size=(3, 5)).astype(dtype)
    p = tb.tensor(first, requires_grad=True)
    optimizer = getattr(optim, name)([p], **settings)
    g = (rng.normal(size=(3, 5)) * 10.0 ** rng.uniform(-3, 1, size=(3, 5))).astype(dtype)
    p.grad = tb.tensor(g)
    optimizer.step()
    want = reference(first.astype(np.float64), g.astype(np.float64), {}, 1, **settings)
    ulp = np.abs(want) * 2.0 ** (-7 if dtype == tb.bfloat16 else -10)
    assert p.dtype == dtype
    assert np.all(np.abs(p.detach().numpy().astype(np.float64) - want) <= ulp * 0.51 + 1e-6)
    assert {t.dtype for n, t in optimizer.state[p].items() if n != "step"} == {np.dtype("float32")}


@pytest.mark.parametrize("case", CASES)
def test_a_parameter_without_a_gradient_is_left_alone(case: str) -> None:
    name, reference, settings = CASES[case]
    missing = {(n, i) for n in range(STEPS) for i in range(len(SHAPES)) if (n * 7 + i * 3) % 4 == 0}
    got = trained(name, settings, 5, np.float64, missing)
    for p, want in zip(got, expected(reference, settings, 5, missing), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), want, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_complex_parameters_are_pairs_of_real_ones(case: str) -> None:
    name, _, settings = CASES[case]
    rng = np.random.default_rng(2)
    pairs = rng.normal(size=(3, 2, 2))
    z = tb.tensor(pairs.view(np.complex128)[..., 0], requires_grad=True)
    x = tb.tensor(pairs, requires_grad=True)
    make = getattr(optim, name)
    of_z, of_x = make([z], **settings), make([x], **settings)
    for _ in range(5):
        g = rng.normal(size=(3, 2, 2))
        z.grad, x.grad = tb.tensor(g.view(np.complex128)[..., 0]), tb.tensor(g)
        of_z.step()
        of_x.step()
    np.testing.assert_array_equal(z.detach().numpy()[..., None].view(np.float64), x.detach().numpy())


@pytest.mark.parametrize("case", ["rmsprop all", "adam", "lamb"])
def test_a_steady_gradient_never_makes_nan(case: str) -> None:
    """The centered mean square is a difference of nearly equal numbers here."""
    name, _, settings = CASES[case]
    p = tb.tensor(np.full(100, 3.0, np.float32), requires_grad=True)
    optimizer = getattr(optim, name)([p], **settings)
    for _ in range(200):
        p.grad = tb.tensor(np.linspace(1e-3, 1e3, 100, dtype=np.float32))
        optimizer.step()
    assert np.isfinite(p.detach().numpy()).all()


def test_infinite_and_missing_numbers_reach_the_parameter() -> None:
    p = tb.tensor([1.0, 2.0, 3.0], requires_grad=True)
    optimizer = optim.Adam([p], lr=0.1)
    p.grad = tb.tensor([float("nan"), float("inf"), 1.0])
    optimizer.step()
    values = p.detach().numpy()
    assert np.isnan(values[:2]).all() and np.isfinite(values[2])


def test_a_step_writes_into_the_parameter_and_nowhere_else() -> None:
    p = tb.tensor([1.0, -2.0], requires_grad=True)
    seen, p.grad = p.detach(), tb.tensor([0.5, 0.25])
    gradient = p.grad.numpy().copy()
    optim.SGD([p], lr=1.0, momentum=0.9).step()
    np.testing.assert_array_equal(seen.numpy(), [0.5, -2.25])
    np.testing.assert_array_equal(p.grad.numpy(), gradient)


def test_the_momentum_is_not_the_gradients_memory() -> None:
    p = tb.tensor([1.0], requires_grad=True)
    optimizer = optim.SGD([p], lr=1.0, momentum=0.5)
    p.grad = tb.tensor([2.0])
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0]
    optimizer.step()
    assert p.detach().tolist() == [1.0 - 2.0 - 1.0]


def test_a_closure_runs_with_gradients_on_and_gives_its_loss() -> None:
    p = tb.tensor([3.0], requires_grad=True)
    optimizer = optim.SGD([p], lr=0.1)

    def closure() -> tb.Tensor:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with tb.no_grad():
        assert optimizer.step(closure).item() == 9.0
    assert p.detach().tolist() == pytest.approx([3.0 - 0.6])


def test_a_gradient_with_a_history_is_a_constant_to_the_step() -> None:
    p = tb.tensor([2.0], requires_grad=True)
    (p * p * p).sum().backward(create_graph=True)
    for make in (optim.Adam, optim.SGD):
        make([p], lr=0.1).step()
    assert p.is_leaf and p.requires_grad


def test_an_unchanged_value_that_backward_needs_is_noticed() -> None:
    p = tb.tensor([2.0], requires_grad=True)
    loss = (p * p).sum()
    p.grad = tb.tensor([1.0])
    optim.SGD([p], lr=0.1).step()
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


@pytest.mark.parametrize("case", CASES)
def test_a_large_parameter_gets_the_same_bits_in_blocks_as_whole(case: str) -> None:
    """Eagerly it is updated block by block, recorded in one piece; the last block is a short one."""
    name, _, settings = CASES[case]
    size = 2 * BLOCK + 12_345
    results = []
    for wrap in (lambda f: f, partial(tb.jit, target="reference")):
        rng = np.random.default_rng(6)
        p = tb.tensor(rng.normal(size=(1, size)).astype(np.float32), requires_grad=True)
        optimizer = getattr(optim, name)([p], **settings)
        step = wrap(optimizer.step)
        for _ in range(3):
            p.grad = tb.tensor(
                (rng.normal(size=(1, size)) * 10.0 ** rng.uniform(-6, 3, (1, size))).astype(np.float32)
            )
            step()
        results.append([p.detach().numpy(), *(t.numpy() for t in optimizer.state[p].values())])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a.view(np.uint32) if a.ndim else a, b.view(np.uint32) if b.ndim else b)


def test_a_large_parameter_changed_before_backward_is_noticed() -> None:
    p = tb.tensor(np.ones(3 * BLOCK, np.float32), requires_grad=True)
    loss = (p * p).sum()
    p.grad = tb.ones(3 * BLOCK)
    optim.SGD([p], lr=0.1).step()
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


def test_a_large_step_inside_a_transform_leaves_no_trace_in_memory() -> None:
    """What a functional transform takes back must not have been written in place."""
    p = tb.tensor(np.ones(3 * BLOCK, np.float32), requires_grad=True)
    optimizer = optim.SGD([p], lr=0.1, momentum=0.9)
    p.grad = tb.ones(3 * BLOCK)
    before = optimizer.state[p]["velocity"].numpy()

    def step(x: tb.Tensor) -> tb.Tensor:
        optimizer.step()
        return x * 2.0

    assert tb.grad(step)(tb.tensor(1.0)).item() == 2.0
    assert not before.any() and optimizer.state[p]["velocity"].numpy().all()
