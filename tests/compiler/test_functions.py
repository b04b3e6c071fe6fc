"""Functions of the framework on the target `cpu` beside eager: transforms in transforms, control flow, every
dtype, random numbers, effects, views, empty tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base import dtypes as dt
from trilobite.base import pytree

jit = tb.jit


def normal(*shape: int, seed: int = 0) -> Any:
    return tb.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def arrays(tree: Any) -> list[Any]:
    leaves = pytree.leaves(tree, lambda x: isinstance(x, tb.Tensor))
    return [np.asarray(x.detach().numpy() if isinstance(x, tb.Tensor) else x) for x in leaves]


def check(f: Callable[..., Any], *args: Any, tolerance: float = 3e-6, runs: int = 2) -> None:
    want, g = arrays(f(*args)), tb.jit(f)
    for _ in range(runs):
        got = arrays(g(*args))
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            if not dt.is_inexact(a.dtype):
                assert a.tobytes() == b.tobytes()
                continue
            a, b = a.astype(np.complex128), b.astype(np.complex128)
            size = np.abs(b).max(initial=1e-30)
            assert np.allclose(a, b, rtol=0, atol=tolerance * size, equal_nan=True), (
                np.abs(a - b).max() / size
            )


# -- transforms in transforms --------------------------------------------------------------------------------

W = normal(7, 5, seed=1)


def energy(x: Any) -> Any:
    return (tb.tanh(x @ W) ** 2).sum()


TRANSFORMS: dict[str, Callable[..., Any]] = {
    "jit in jit": lambda x: jit(lambda y: jit(tb.exp)(y * 0.5) + y)(x) * 2.0,
    "vmap of grad": tb.vmap(tb.grad(energy)),
    "grad of jit": tb.grad(jit(energy)),
    "jvp of jit": lambda x: tb.jvp(jit(energy), (x,), (tb.cos(x),)),
    "vmap of jit of grad": tb.vmap(jit(tb.grad(energy))),
    "jacrev": lambda x: tb.jacrev(lambda r: tb.sin(r @ W))(x[0]),
    "jacfwd": lambda x: tb.jacfwd(lambda r: tb.sin(r @ W))(x[0]),
    "hessian": lambda x: tb.hessian(energy)(x[0]),
    "checkpoint": tb.grad(lambda x: tb.checkpoint(lambda y: tb.tanh(y @ W).sum(0))(x).pow(3).sum()),
    "grad of grad": lambda x: tb.grad(lambda y: (tb.grad(energy)(y) ** 2).sum())(x),
    "vjp": lambda x: tb.vjp(lambda y: tb.softmax(y @ W, -1), x)[1](tb.cos(tb.arange(30.0).reshape(6, 5))),
    "vmap over two": lambda x: tb.vmap(tb.vmap(lambda r: r * tb.exp(-r)))(x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str) -> None:
    check(TRANSFORMS[name], normal(6, 7))


# -- control flow --------------------------------------------------------------------------------------------


def newton(x: Any) -> Any:
    def body(s: Any) -> Any:
        i, y = s
        for _ in range(12):
            y = 0.5 * (y + x / y)
        return i + 1, y

    return tb.while_loop(lambda s: s[0] < 5, body, (tb.tensor(0), tb.ones_like(x)))


def nested_scans(x: Any) -> Any:
    def outer(c: Any, row: Any) -> Any:
        def inner(d: Any, v: Any) -> Any:
            d = tb.tanh(d + v)
            return d, d * 2.0

        d, ys = tb.scan(inner, c, tb.stack([row, row * 0.5, row - 1.0]))
        return d, ys.sum(0)

    return tb.scan(outer, tb.zeros(7), x)


CONTROL: dict[str, Callable[..., Any]] = {
    "while": lambda x: newton(tb.abs(x) + 1.0),
    "scans": nested_scans,
    "grad of scans": tb.grad(lambda x: nested_scans(x)[1].pow(2).sum()),
    "cond": lambda x: tb.cond(x.sum() > 0, lambda y: tb.exp(-y), lambda y: tb.sin(y) @ W.T @ W, x[:, :5]),
    "cond in scan": lambda x: tb.scan(
        lambda c, r: (tb.cond(r.sum() > 0, lambda a: a + 1.0, lambda a: a * 0.5, c), c.sum()), tb.zeros(7), x
    ),
    "fori": lambda x: tb.fori_loop(0, 9, lambda i, c: tb.cos(c) + i, x),
    "vmap of while": tb.vmap(
        lambda r: tb.while_loop(lambda s: s.sum() < 50.0, lambda s: s * 1.5 + 1.0, tb.abs(r))
    ),
    "associative": lambda x: tb.associative_scan(lambda a, b: a * b + b, x),
    "scan of nothing": lambda x: tb.scan(lambda c, r: (c + r, c * r), tb.ones(7), x[:0]),
}


@pytest.mark.parametrize("name", CONTROL)
def test_control_flow(name: str) -> None:
    check(CONTROL[name], normal(6, 7))


# -- every dtype ---------------------------------------------------------------------------------------------

REAL = sorted(dt.ALL - dt.COMPLEX, key=str)


def _some(dtype: Any, shape: tuple[int, ...] = (3, 37)) -> Any:
    rng = np.random.default_rng(5)
    numbers = rng.integers(0, 2, shape) if dtype == dt.bool_ else rng.integers(-3, 4, shape)
    return tb.tensor(np.abs(numbers).astype(np.float32).astype(dtype))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_moving_data_of_every_dtype(dtype: Any) -> None:
    def f(x: Any) -> Any:
        turned = tb.flip(x.T, axis=0)
        rows = x[tb.tensor([2, 0, 0])]
        return turned, rows, tb.cat([x, x[1:]]), tb.where(x == x[0], x, rows), x[:, ::5], x.reshape(-1)

    check(f, _some(dtype))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [d for d in REAL if d != dt.bool_], ids=str)
def test_arithmetic_of_every_dtype(dtype: Any) -> None:
    check(lambda x: (x + x, x * x, x - x[0], tb.maximum(x, x[1]), x < x[2]), _some(dtype))


@pytest.mark.parametrize("dtype", [dt.int8, dt.uint8, dt.int16, dt.uint64, dt.int64, dt.bool_], ids=str)
def test_sums_and_orders_of_integers(dtype: Any) -> None:
    check(
        lambda x: (
            x.sum(),
            x.sum(0),
            tb.prod(x, axis=1),
            tb.sort(x, axis=1),
            tb.argmax(x, axis=1),
            tb.cumsum(x, axis=0),
        ),
        _some(dtype),
    )


def test_uint64_beyond_int64() -> None:
    x = tb.tensor(np.array([2**64 - 1, 2**63, 2**63 - 1, 0, 7], np.uint64))
    check(lambda x: (x // 3, x % 10, x > 2**62, x >> 3, tb.maximum(x, x[4]), x.max(), x.to(tb.float64)), x)


# -- empty tensors and numbers without axes ------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0,), (0, 7), (4, 0), (0, 0), (2, 0, 3)])
def test_empty(shape: tuple[int, ...]) -> None:
    check(
        lambda x: (x + 1.0, tb.exp(x), x.sum(), x.sum(-1), tb.prod(x, axis=0), x.T if x.ndim == 2 else x),
        tb.zeros(shape),
    )


def test_products_with_empty_sides() -> None:
    for m, k, n in [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)]:
        check(lambda a, b: (a @ b, tb.relu(a @ b + 1.0)), tb.ones((m, k)), tb.ones((k, n)))


def test_numbers_without_axes() -> None:
    check(
        lambda x, n: (
            x * x,
            tb.sin(x),
            x.sum(),
            x > 0,
            x.reshape(1, 1),
            x @ tb.ones(1) if x.ndim else x,
            n + 1,
        ),
        tb.tensor(2.5),
        3,
    )


# -- random numbers ------------------------------------------------------------------------------------------


def _seeded(f: Callable[[], Any]) -> list[Any]:
    tb.manual_seed(77)
    return [a.copy() for _ in range(3) for a in arrays(f())]


def test_uniform_numbers_and_integers_have_eagers_bits() -> None:
    def f() -> Any:
        floats = tb.rand(5, 33), tb.rand(7, dtype=tb.float64), tb.rand(9, dtype=tb.bfloat16)
        return *floats, tb.randint(0, 1000, (77,)), tb.bernoulli(tb.full((99,), 0.3)), tb.randperm(50)

    for a, b in zip(_seeded(f), _seeded(tb.jit(f)), strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()


@pytest.mark.parametrize(("dtype", "units"), [(tb.float16, 1), (tb.float32, 1), (tb.float64, 3)], ids=str)
def test_normal_numbers_are_within_a_few_units(dtype: Any, units: int) -> None:
    def f() -> Any:
        return tb.randn(40_099, dtype=dtype)

    for a, b in zip(_seeded(f), _seeded(tb.jit(f)), strict=True):
        assert np.all(np.abs(a - b) <= units * np.spacing(np.abs(a)))


def test_dropout() -> None:
    x = normal(64, 65)
    f = lambda: tb.nn.functional.dropout(x, 0.4, training=True)  # noqa: E731
    for a, b in zip(_seeded(f), _seeded(tb.jit(f)), strict=True):
        assert a.tobytes() == b.tobytes()


# -- views and writing in place ------------------------------------------------------------------------------


def test_writing_through_views() -> None:
    def f(x: Any) -> Any:
        y = x.clone()
        y[1:3] += 1.0
        row = y[0]
        row.mul_(-2.0)
        y[:, ::2] = 7.0
        y[tb.tensor([0, 2]), 1] = tb.tensor([3.0, 4.0])
        z = y.T
        z.add_(1.0)
        return y, z, row

    check(f, normal(5, 6))


def test_state_written_through_views() -> None:
    def program(wrap: Any) -> list[Any]:
        state, x = normal(6, 5), normal(5, seed=3)

        def f(v: Any) -> Any:
            state[2] = v
            state[:, 1].add_(1.0)
            return state.sum(0), state

        g = wrap(f)
        return [a.copy() for i in range(4) for a in arrays(g(x * float(i)))] + arrays(state)

    for a, b in zip(program(tb.jit), program(lambda f: f), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_results_that_are_views_of_each_other() -> None:
    f = tb.jit(lambda x: (x, x.T, x[1], x.reshape(-1), x * 1.0))
    x = normal(4, 3)
    outs = f(x)
    before = [o.numpy().copy() for o in outs]
    outs[4].add_(1.0)
    assert x.numpy().tobytes() == before[0].tobytes()
    for o, b in zip(outs[:4], before[:4], strict=True):
        assert o.numpy().tobytes() == b.tobytes()


def test_one_tensor_twice() -> None:
    def program(wrap: Any) -> list[Any]:
        a = normal(8)

        def f(x: Any, y: Any) -> Any:
            x.add_(1.0)
            return y * 2.0

        g = wrap(f)
        return [*arrays(g(a, a)), *arrays(g(a, a)), *arrays(g(a, normal(8, seed=4))), *arrays(a)]

    for a, b in zip(program(tb.jit), program(lambda f: f), strict=True):
        assert a.tobytes() == b.tobytes()
