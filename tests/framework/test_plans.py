"""Small operations that come again are replayed: bits, gradients and errors as by the long way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import GradientError
from trilobite.framework.replay import plans

F = tb.nn.functional
OFTEN = 16


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "OFTEN", OFTEN)
    plans._plans.clear()
    plans._counts.clear()


def made() -> int:
    return sum(p.forward is not None for p in plans._plans.values())


OPERATIONS: dict[str, Callable[..., Any]] = {
    "add a number": lambda x, y, w: x + 1.5,
    "number first": lambda x, y, w: 2.0 - x,
    "broadcast": lambda x, y, w: x * w,
    "broadcast column": lambda x, y, w: x + y[:, :1],
    "power": lambda x, y, w: (x * x + 1) ** 2,
    "sum": lambda x, y, w: x.sum(),
    "sum of columns": lambda x, y, w: x.sum(0, keepdim=True),
    "mean": lambda x, y, w: tb.mean(x, axis=1),
    "max": lambda x, y, w: tb.amax(x, axis=0),
    "matmul": lambda x, y, w: x @ y,
    "matmul of a view": lambda x, y, w: x.T @ y,
    "vector": lambda x, y, w: x @ w,
    "vectors": lambda x, y, w: w @ w,
    "softmax": lambda x, y, w: F.softmax(x, -1),
    "softmax of columns": lambda x, y, w: F.softmax(x, 0),
    "log_softmax": lambda x, y, w: F.log_softmax(x, 1),
    "logsumexp": lambda x, y, w: tb.logsumexp(x, 1),
    "gelu": lambda x, y, w: F.gelu(x),
    "gelu by tanh": lambda x, y, w: F.gelu(x, "tanh"),
    "relu": lambda x, y, w: F.relu(x),
    "silu": lambda x, y, w: F.silu(x),
    "sigmoid": lambda x, y, w: x.sigmoid(),
    "leaky": lambda x, y, w: F.leaky_relu(x, 0.2),
    "elu": lambda x, y, w: F.elu(x),
    "softplus": lambda x, y, w: F.softplus(x),
    "layer_norm": lambda x, y, w: F.layer_norm(x, (5,), w, w * 2),
    "mse": lambda x, y, w: F.mse_loss(x, y),
    "smooth l1": lambda x, y, w: F.smooth_l1_loss(x, y, reduction="sum"),
    "bce": lambda x, y, w: F.binary_cross_entropy_with_logits(x, y.detach().sigmoid()),
    "cross entropy": lambda x, y, w: F.cross_entropy(x, tb.tensor([0, 4, 2, 1, 1])),
    "clamp": lambda x, y, w: x.clamp(-0.5, 0.75),
    "where": lambda x, y, w: tb.where(x > y, x, w),
    "fmod": lambda x, y, w: tb.fmod(x, y),
    "lerp": lambda x, y, w: tb.lerp(x, y, 0.25),
    "linear": lambda x, y, w: F.linear(x, y, w),
    "chain": lambda x, y, w: F.softmax(x @ y, -1) * F.gelu(x).sum(),
}


def operands(dtype: Any, recorded: bool, seed: int = 3) -> list[Any]:
    r = np.random.default_rng(seed)
    shapes = ((5, 5), (5, 5), (5,))
    return [tb.tensor(r.standard_normal(s)).to(dtype).requires_grad_(recorded) for s in shapes]


def results(fn: Callable[..., Any], tensors: list[Any]) -> list[np.ndarray[Any, Any]]:
    out = fn(*tensors)
    found = [out.detach().numpy().copy()]
    if out.requires_grad:
        for t in tensors:
            t.grad = None
        seed = tb.tensor(np.random.default_rng(9).standard_normal(tuple(out.shape))).to(out.dtype)
        out.backward(seed)
        found += [np.zeros(0) if t.grad is None else t.grad.numpy().copy() for t in tensors]
    return found


def same(a: list[np.ndarray[Any, Any]], b: list[np.ndarray[Any, Any]]) -> bool:
    return len(a) == len(b) and all(
        x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
        for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("dtype", [tb.float32, tb.float64, tb.bfloat16])
@pytest.mark.parametrize("name", OPERATIONS)
def test_bits_are_those_of_the_long_way(name: str, dtype: Any) -> None:
    fn = OPERATIONS[name]
    for recorded in (False, True):
        first = results(fn, operands(dtype, recorded))
        for _ in range(OFTEN + 1):
            results(fn, operands(dtype, recorded))
        for seed in (3, 4):  # other values than those that the plan was made with, too
            again = results(fn, operands(dtype, recorded, seed))
            plans._plans.clear()
            assert same(again, results(fn, operands(dtype, recorded, seed)))
            assert seed == 4 or same(first, again)


def test_plans_are_made_and_used() -> None:
    x = operands(tb.float32, True)[0]
    for _ in range(OFTEN + 1):
        F.softmax(x, -1)
    assert made() == 1
    assert F.softmax(x, -1).grad_fn.__class__.__name__ == "PlanNode"
    with tb.no_grad():
        for _ in range(OFTEN + 1):
            F.softmax(x, -1)
    assert made() == 2 and not F.softmax(x.detach(), -1).requires_grad


def test_second_derivatives() -> None:
    def second(x: Any) -> Any:
        (g,) = tb.autograd.grad((F.softmax(x, -1) * x).sum() + F.gelu(x * 2).mean(), x, create_graph=True)
        (h,) = tb.autograd.grad((g * g).sum(), x)
        return h.numpy()

    x = operands(tb.float64, True)[0]
    first = second(x)
    for _ in range(OFTEN + 1):
        last = second(x)
    assert made() and np.allclose(first, last, rtol=1e-12, atol=1e-14)


def often(fn: Callable[[], object]) -> None:
    for _ in range(OFTEN + 1):
        fn()


def test_a_static_number_is_told_from_its_equals() -> None:
    x = tb.tensor([-1.0, 2.0])
    often(lambda: F.leaky_relu(x, 0.0))
    often(lambda: F.leaky_relu(x, -0.0))
    assert np.signbit(F.leaky_relu(x, 0.0).numpy())[0] and not np.signbit(F.leaky_relu(x, -0.0).numpy())[0]
    n = tb.tensor([1, 5])
    often(lambda: n + 1)
    often(lambda: n + True)
    assert (n + 1.0).dtype == tb.float32 and (n + 1).dtype == tb.int64


def test_changed_operands_are_noticed_as_ever() -> None:
    def step(fn: Callable[[Any], Any], change: Callable[[Any, Any], object]) -> bool:
        x = tb.tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)
        h = x * 1
        out = fn(h)
        change(h, out)
        try:
            out.sum().backward()
        except GradientError as e:
            return "changed in place" in str(e)
        return False

    cases = [
        (lambda h: h * h, lambda h, o: h.add_(1)),
        (lambda h: tb.exp(h), lambda h, o: o.add_(1)),
        (lambda h: F.softmax(h, -1), lambda h, o: h.add_(1)),
        (lambda h: F.softmax(h, -1), lambda h, o: o.add_(1)),
        (lambda h: F.relu(h), lambda h, o: h.add_(1)),
        (lambda h: h + 1.5, lambda h, o: h.add_(1)),
        (lambda h: h.sum(0), lambda h, o: h.add_(1)),
        (lambda h: h @ h, lambda h, o: h.add_(1)),
    ]
    for fn, change in cases:
        first = step(fn, change)
        assert [step(fn, change) for _ in range(OFTEN + 2)] == [first] * (OFTEN + 2)


def test_results_are_nobodys_memory() -> None:
    x = tb.tensor([[1.0, 2.0], [3.0, 4.0]])
    for fn in (
        tb.positive,
        lambda v: v.clamp(),
        lambda v: tb.where(True, v, v),
        tb.real,
        lambda v: v.sum(()),
    ):
        often(lambda fn=fn: fn(x))
        fn(x).zero_()
        assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_transforms_modes_and_views_go_their_own_ways() -> None:
    x, y, _ = operands(tb.float32, True)
    often(lambda: F.softmax(x, -1))
    plain = F.softmax(x, -1).detach().numpy()
    assert np.array_equal(tb.vmap(lambda v: F.softmax(v, -1))(x).detach().numpy(), plain)
    value, slope = tb.jvp(lambda v: F.softmax(v, -1), (x.detach(),), (tb.ones_like(x),))
    assert np.array_equal(value.numpy(), plain) and np.abs(slope.numpy()).max() < 1e-6
    gradient = tb.grad(lambda v: (F.softmax(v, -1) * y).sum())(x.detach())
    (F.softmax(x, -1) * y).sum().backward()
    assert np.array_equal(gradient.detach().numpy(), x.grad.numpy())
    assert np.allclose(tb.jit(lambda v: F.softmax(v, -1))(x.detach()).numpy(), plain, atol=1e-6)
    often(lambda: x @ y)
    with tb.autocast(tb.bfloat16):
        assert (x @ y).dtype == tb.bfloat16
    assert (x @ y).dtype == tb.float32
    often(lambda: F.softmax(x[1:3], -1))
    assert np.array_equal(F.softmax(x[1:3], -1).detach().numpy(), plain[1:3])


def test_default_dtypes_and_errors_stay() -> None:
    n = tb.tensor([1, 2])
    often(lambda: F.sigmoid(n))
    before = tb.get_default_dtype()
    try:
        tb.set_default_dtype(tb.float64)
        assert F.sigmoid(n).dtype == tb.float64
    finally:
        tb.set_default_dtype(before)
    x = tb.ones((2, 3))
    messages = set()
    for _ in range(OFTEN + 2):
        with pytest.raises(Exception) as e:
            F.mse_loss(x, tb.ones((3, 2)))
        messages.add(str(e.value).splitlines()[0])
    assert len(messages) == 1 and "equal shapes" not in next(iter(messages))


def test_hooks_and_names_of_nodes() -> None:
    x = tb.ones((2, 2), requires_grad=True)
    names = set()
    for _ in range(OFTEN + 2):
        out = F.gelu(x)
        names.add(out.grad_fn.name)
        seen: list[Any] = []
        out.register_hook(lambda g, seen=seen: seen.append(g.tolist()) or g * 2)
        x.grad = None
        out.sum().backward()
        assert seen == [[[1.0, 1.0], [1.0, 1.0]]]
        assert np.allclose(x.grad.numpy(), 2 * 1.0833155)
    assert len(names) == 1


def test_an_operation_that_looks_at_values_has_no_plan() -> None:
    for values in ([1.0, 0.0], [0.0, 0.0], [2.0, 3.0]):
        x = tb.tensor(values)
        for _ in range(OFTEN + 1):
            assert len(tb.where(x)[0]) == sum(v != 0 for v in values)


def test_small_products_have_the_bits_of_all_products() -> None:
    r = np.random.default_rng(5)
    for _ in range(300):
        m, k, n = r.integers(1, 20, 3)
        dtype = [np.float32, np.float64][int(r.integers(2))]
        x, y = r.standard_normal((m, k)).astype(dtype), r.standard_normal((k, n)).astype(dtype)
        expected = np.matmul(x, y)
        assert (tb.asarray(x) @ tb.asarray(y)).numpy().tobytes() == expected.tobytes()
        assert (tb.asarray(x[:, 0]) @ tb.asarray(x[:, 0])).numpy().shape == ()


# -- found on the way ------------------------------------------------------------------------------------


def test_a_compiled_composite_tells_zeros_apart() -> None:
    x = tb.tensor([-1.0, 2.0])
    minus, plus = (tb.jit(lambda v, s=s: F.leaky_relu(v, s))(x).numpy() for s in (-0.0, 0.0))
    assert not np.signbit(minus[0]) and np.signbit(plus[0])


def test_relu_of_integers_is_recorded() -> None:
    assert tb.jit(F.relu)(tb.tensor([-1, 2])).tolist() == [0, 2]


def test_a_copy_under_no_grad_has_no_history() -> None:
    w, y = tb.nn.Parameter(tb.ones(2)), tb.ones(2, requires_grad=True)
    with tb.no_grad():
        w.copy_(y * 3)
    (w * 2).sum().backward()
    assert y.grad is None and w.grad.tolist() == [2.0, 2.0] and w.is_leaf
    plain = tb.zeros(2)
    with tb.no_grad():
        plain.copy_(y * 3)
    assert not plain.requires_grad and plain.tolist() == [3.0, 3.0]


def test_two_threads_may_make_the_same_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tb.tensor(np.linspace(-2, 2, 6, dtype=np.float32))
    wanted = F.softmax(x, 0).numpy()
    honest, others = plans.Plan, []

    def meanwhile(*args: Any) -> Any:
        if not others:
            others.append(threading.Thread(target=F.softmax, args=(x, 0)))
            others[0].start()
            others[0].join()
        return honest(*args)

    monkeypatch.setattr(plans, "Plan", meanwhile)
    for _ in range(OFTEN + 2):
        np.testing.assert_array_equal(F.softmax(x, 0).numpy(), wanted)
    assert others
