"""State through recordings: reads become inputs, writes become outputs, in branches and loops too."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import GradientError, TraceError


def arr(t: object) -> np.ndarray:
    return t.detach().numpy()


@pytest.mark.parametrize("wrap", [lambda f: f, tb.jit], ids=["eager", "jit"])
def test_writes_in_one_branch_only(wrap: object) -> None:
    count, other = tb.tensor(0.0), tb.tensor(0.0)

    def bump(x: tb.Tensor) -> tb.Tensor:
        count.copy_(count + 1.0)
        return x * 2.0

    def leave(x: tb.Tensor) -> tb.Tensor:
        other.copy_(other + x)
        return x

    f = wrap(lambda x: tb.cond(x > 0, bump, leave, x))
    assert [f(tb.tensor(v)).item() for v in (1.0, -2.0, 3.0)] == [2.0, -2.0, 6.0]
    assert (count.item(), other.item()) == (2.0, -2.0)


@pytest.mark.parametrize("wrap", [lambda f: f, tb.jit], ids=["eager", "jit"])
def test_a_loop_in_a_branch_in_a_loop(wrap: object) -> None:
    log = tb.zeros(())

    def inner(c: tb.Tensor, x: tb.Tensor) -> tuple[tb.Tensor, tb.Tensor]:
        log.copy_(log + x * c)
        return c + 1.0, c * x

    def outer(c: tb.Tensor, x: tb.Tensor) -> tuple[tb.Tensor, tb.Tensor]:
        yes = lambda v: tb.scan(inner, v, tb.tensor([1.0, 2.0]))[0]  # noqa: E731
        return tb.cond(x > 0, yes, lambda v: v - 1.0, c), log * 1.0

    f = wrap(lambda xs: tb.scan(outer, tb.tensor(1.0), xs))
    last, logs = f(tb.tensor([1.0, -1.0, 2.0]))
    # c: 1 -> (log 1*1 + 2*2 = 5) 3 -> 2 -> (log 5 + 1*2 + 2*3 = 13) 4
    assert last.item() == 4.0 and log.item() == 13.0
    np.testing.assert_array_equal(arr(logs), [5.0, 5.0, 13.0])


def test_while_loop_carries_what_it_writes() -> None:
    seen = tb.tensor(0)
    out = tb.while_loop(lambda v: v < 50.0, lambda v: (seen.copy_(seen + 1), v * 3.0)[1], tb.tensor(1.0))
    assert (out.item(), seen.item()) == (81.0, 4)


def test_gradients_flow_to_what_a_body_captures() -> None:
    w = tb.tensor(0.5, dtype=tb.float64, requires_grad=True)

    def loss(xs: tb.Tensor) -> tb.Tensor:
        return tb.scan(lambda c, x: (c * w + x, c), tb.tensor(1.0, dtype=tb.float64), xs)[0]

    loss(tb.tensor([1.0, 2.0], dtype=tb.float64)).backward()
    assert w.grad.item() == pytest.approx(2 * 0.5 + 1.0)
    w.grad = None
    tb.cond(tb.tensor(True), lambda: w * w * 3.0, lambda: w).backward()
    assert w.grad.item() == pytest.approx(3.0)


def test_a_training_loop_inside_scan() -> None:
    w = tb.tensor(0.0, requires_grad=True)

    def step(c: tb.Tensor, x: tb.Tensor) -> tuple[tb.Tensor, tb.Tensor]:
        w.grad = None
        loss = (w - x) ** 2
        loss.backward()
        with tb.no_grad():
            w.sub_(0.25 * w.grad)
        return c, loss

    _, losses = tb.scan(step, tb.tensor(0.0), tb.tensor([4.0, 4.0, 4.0]))
    np.testing.assert_allclose(arr(losses), [16.0, 4.0, 1.0])
    assert w.item() == pytest.approx(3.5)


def test_batchnorm_like_write_inside_grad() -> None:
    mean = tb.zeros(())

    def loss(x: tb.Tensor) -> tb.Tensor:
        m = x.mean()
        mean.copy_(mean * 0.5 + m)
        return ((x - m) ** 2).sum()

    tb.grad(loss)(tb.tensor([1.0, 3.0]))
    assert mean.item() == 2.0 and not mean.requires_grad
    tb.jit(tb.grad(loss))(tb.tensor([1.0, 3.0]))
    assert mean.item() == 3.0


def test_writing_a_batched_value_outside_vmap_is_an_error() -> None:
    kept = tb.zeros(())
    with pytest.raises(TraceError, match="differs along the batch"):
        tb.vmap(lambda x: kept.copy_(x) * 1.0)(tb.tensor([1.0, 2.0]))


def test_backward_inside_jit_cannot_leave_it() -> None:
    w = tb.tensor(2.0, requires_grad=True)
    h = w * 3.0
    with pytest.raises(GradientError, match="would have to leave it"):
        tb.jit(lambda x: (h * x).backward())(tb.tensor(1.0))
    with pytest.raises(GradientError, match="would have to leave it"):
        tb.jit(lambda h: (h * 2.0).backward())(h)


def test_an_argument_with_history_keeps_it_through_jit() -> None:
    w = tb.tensor(2.0, requires_grad=True)
    tb.jit(lambda h: h * h)(w * 3.0).backward()
    assert w.grad.item() == 2 * 6.0 * 3.0


def test_gradient_of_an_argument_that_is_a_leaf_is_added() -> None:
    x = tb.tensor(3.0, requires_grad=True)
    step = tb.jit(lambda x: (x * x).backward())
    step(x)
    step(x)
    assert x.grad.item() == 12.0


def test_grad_accumulates_across_jitted_calls() -> None:
    w = tb.tensor(1.0, requires_grad=True)
    step = tb.jit(lambda x: (w * x).backward())
    for v in (1.0, 2.0, 4.0):
        step(tb.tensor(v))
    assert w.grad.item() == 7.0


def test_recording_again_says_why() -> None:
    w = tb.tensor(1.0)
    f = tb.jit(lambda x, flag: x * w)
    f(tb.ones(2), True)
    f(tb.ones(3), True)
    f(tb.ones(3), False)
    f(tb.ones(3, dtype=tb.float64), False)
    w.requires_grad_()
    f(tb.ones(3), False)
    text = f.explain()
    assert "f32[3] instead of f32[2]" in text
    assert "the static False instead of the static True" in text
    assert "f64[3] instead of f32[3]" in text
    assert "requires a gradient now" in text


def test_python_numbers_are_inputs_and_stay_weak() -> None:
    f = tb.jit(lambda x, s: x * s + s)
    half = tb.ones(2, dtype=tb.float16)
    for s in (0.1, 0.7):
        out = f(half, s)
        assert out.dtype == tb.float16
        np.testing.assert_array_equal(arr(out), arr(half * s + s))
    assert len(f.entries) == 1


def test_static_argument_is_part_of_the_program() -> None:
    f = tb.jit(lambda x, n: sum((x for _ in range(n)), tb.zeros(())), static_argnums=1)
    assert [f(tb.tensor(2.0), n).item() for n in (1, 3)] == [2.0, 6.0]
    assert len(f.entries) == 2


def test_unhashable_static_argument_is_refused() -> None:
    from trilobite.base.errors import ArgumentError

    with pytest.raises(ArgumentError, match="cannot be compared"):
        tb.jit(lambda x, c: x, static_argnums=1)(tb.tensor(1.0), {1: [2]})


def test_results_do_not_share_memory_with_arguments() -> None:
    x = tb.tensor([1.0, 2.0])
    y = tb.jit(lambda x: x)(x)
    x += 1.0
    np.testing.assert_array_equal(arr(y), [1.0, 2.0])


def test_nested_jit_and_pytrees() -> None:
    inner = tb.jit(lambda d: {"s": d["a"] + d["b"][0], "t": (d["b"][1],)})
    outer = tb.jit(lambda a, b: inner({"a": a, "b": [b, b * 2.0]}))
    out = outer(tb.tensor(1.0), tb.tensor(2.0))
    assert out["s"].item() == 3.0 and out["t"][0].item() == 4.0


def test_effects_of_an_exception_do_not_linger() -> None:
    w = tb.tensor(1.0)

    def bad(x: tb.Tensor) -> tb.Tensor:
        w.copy_(x)
        raise KeyError("no")

    with pytest.raises(KeyError):
        tb.jit(bad)(tb.tensor(5.0))
    assert w.item() == 1.0
    assert (w + 1.0).item() == 2.0


def test_detach_shares_memory_and_stops_gradients() -> None:
    x = tb.tensor([1.0, 2.0], requires_grad=True)
    d = x.detach()
    d.copy_(tb.tensor([5.0, 6.0]))
    np.testing.assert_array_equal(arr(x), [5.0, 6.0])
    (x * d).sum().backward()
    np.testing.assert_array_equal(arr(x.grad), [5.0, 6.0])


def test_retain_grad_and_non_leaf_hooks() -> None:
    x = tb.tensor(2.0, requires_grad=True)
    y = x * 3.0
    y.retain_grad()
    (y * y).backward()
    assert y.grad.item() == 12.0 and x.grad.item() == 36.0


def test_a_rule_holds_outside_although_backward_inside_has_used_it() -> None:
    f = tb.custom_vjp(lambda x: x * x)
    f.defvjp(lambda x: (x * x, x), lambda x, ct: (ct * 100.0,))
    w = tb.tensor(1.0, requires_grad=True)

    def step() -> tb.Tensor:
        y = f(w).sum()
        y.backward(retain_graph=True)
        return y

    tb.jit(step)().backward()
    assert w.grad.item() == 200.0


def test_backward_starts_from_any_single_element() -> None:
    x = tb.tensor([3.0], requires_grad=True)
    (x * x).backward()
    assert x.grad.tolist() == [6.0]


def test_explain_tells_what_happened_so_far() -> None:
    f = tb.jit(lambda x: x + 1.0)
    assert f.explain() == "not called yet"
    f(tb.tensor(1.0))
    assert f.explain() == "recorded once"
