"""The mechanism, proven: transforms nested in each other, over branches, loops, custom rules, views and
symbols.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import GradientError, StateError, TraceError

RNG = np.random.default_rng(7)


def f64(*shape: int) -> tb.Tensor:
    return tb.tensor(RNG.normal(size=shape) * 1.7)


def arr(t: object) -> np.ndarray:
    return t.detach().numpy()


def close(a: object, b: object, tol: float = 1e-9) -> None:
    np.testing.assert_allclose(
        arr(a) if isinstance(a, tb.Tensor) else a,
        arr(b) if isinstance(b, tb.Tensor) else b,
        rtol=tol,
        atol=tol,
    )


def poly(x: tb.Tensor) -> tb.Tensor:
    return (tb.sin(x) * x * x + tb.exp(x * 0.3)).sum()


def d_poly(x: np.ndarray) -> np.ndarray:
    return np.cos(x) * x * x + 2 * x * np.sin(x) + 0.3 * np.exp(0.3 * x)


def test_vmap_of_grad_is_the_gradient_of_each_row() -> None:
    x = f64(5, 3)
    close(tb.vmap(tb.grad(poly))(x), d_poly(arr(x)))


def test_grad_of_vmap() -> None:
    x = f64(4, 3)
    close(tb.grad(lambda x: tb.vmap(poly)(x).sum())(x), d_poly(arr(x)))


def test_grad_of_jit_equals_grad() -> None:
    x = f64(7)
    close(tb.grad(tb.jit(poly))(x), tb.grad(poly)(x))
    close(tb.hessian(tb.jit(poly))(x), tb.hessian(poly)(x))


def test_jit_of_grad_of_cond_takes_the_right_branch() -> None:
    def f(x: tb.Tensor) -> tb.Tensor:
        return tb.cond(x.sum() > 0, lambda x: (x * x).sum(), lambda x: (3 * x * x * x).sum(), x)

    g = tb.jit(tb.grad(f))
    close(g(tb.tensor([1.0, 2.0])), [2.0, 4.0])
    close(g(tb.tensor([-1.0, -2.0])), [9.0, 36.0])
    assert len(g.entries) == 1, "one recording serves both branches"


def test_cond_with_captures_and_second_derivative() -> None:
    w = f64(3)

    def f(x: tb.Tensor, flag: bool) -> tb.Tensor:
        return tb.cond(tb.tensor(flag), lambda x: (tb.sin(x) * w).sum(), lambda x: (x * x * x).sum(), x)

    x = f64(3)
    close(tb.hessian(lambda x: f(x, True))(x), np.diag(-np.sin(arr(x)) * arr(w)))
    close(tb.hessian(lambda x: f(x, False))(x), np.diag(6 * arr(x)))


def test_cond_under_vmap_chooses_per_element() -> None:
    x = f64(6)
    out = tb.vmap(lambda x: tb.cond(x > 0, lambda x: x * 2, lambda x: x * x * x, x))(x)
    a = arr(x)
    close(out, np.where(a > 0, 2 * a, a**3))


def test_grad_of_scan_under_vmap() -> None:
    def f(xs: tb.Tensor, w: tb.Tensor) -> tb.Tensor:
        last, ys = tb.scan(lambda c, x: (tb.tanh(c * w + x), c * x), tb.zeros((), dtype=tb.float64), xs)
        return last + ys.sum()

    def loop(xs: tb.Tensor, w: tb.Tensor) -> tb.Tensor:
        c, total = tb.zeros((), dtype=tb.float64), tb.zeros((), dtype=tb.float64)
        for i in range(5):
            total = total + c * xs[i]
            c = tb.tanh(c * w + xs[i])
        return c + total

    xs, w = f64(4, 5), f64(4)
    got = tb.vmap(tb.grad(f, argnums=(0, 1)))(xs, w)
    for i in range(4):
        want = tb.grad(loop, argnums=(0, 1))(tb.tensor(arr(xs)[i]), tb.tensor(arr(w)[i]))
        close(arr(got[0])[i], want[0])
        close(arr(got[1])[i], want[1])


def test_scan_writes_to_an_outer_tensor_become_carries() -> None:
    total = tb.zeros((), dtype=tb.float64)

    def body(c: tb.Tensor, x: tb.Tensor) -> tuple[tb.Tensor, tb.Tensor]:
        total.copy_(total + x)
        return c + total, total * 1.0

    xs = tb.tensor(np.arange(1.0, 5.0))
    last, ys = tb.scan(body, tb.zeros((), dtype=tb.float64), xs)
    assert (total.item(), last.item()) == (10.0, 1.0 + 3.0 + 6.0 + 10.0)
    close(ys, [1.0, 3.0, 6.0, 10.0])


def test_jvp_of_while_loop() -> None:
    def f(x: tb.Tensor) -> tb.Tensor:
        return tb.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, tb.sin(s[1]) * x), (tb.tensor(0), x))[1]

    def loop(x: tb.Tensor) -> tb.Tensor:
        y = x
        for _ in range(4):
            y = tb.sin(y) * x
        return y

    x, t = f64(3), f64(3)
    got, want = tb.jvp(f, (x,), (t,)), tb.jvp(loop, (x,), (t,))
    close(got[0], want[0])
    close(got[1], want[1])


def test_while_loop_under_vmap_stops_each_element_alone() -> None:
    out = tb.vmap(lambda x: tb.while_loop(lambda v: v < 100.0, lambda v: v * 3.0, x))(
        tb.tensor([1.0, 50.0, 200.0])
    )
    close(out, [243.0, 150.0, 200.0])


def test_reverse_mode_through_while_is_a_clear_error() -> None:
    with pytest.raises(GradientError, match=r"while has no derivative.*use scan or fori_loop"):
        tb.grad(lambda x: tb.while_loop(lambda v: v < 9.0, lambda v: v * v, x))(tb.tensor(2.0))


def test_fori_loop_is_differentiable_both_ways() -> None:
    f = lambda x: tb.fori_loop(0, 3, lambda i, v: v * x, x)  # noqa: E731
    x = tb.tensor(1.5, dtype=tb.float64)
    close(tb.grad(f)(x), 4 * 1.5**3)
    close(tb.jvp(f, (x,), (tb.tensor(1.0, dtype=tb.float64),))[1], 4 * 1.5**3)


def test_jacfwd_of_jacrev_and_back() -> None:
    x = f64(4)
    want = np.diag(
        -np.sin(arr(x)) * arr(x) ** 2
        + 4 * arr(x) * np.cos(arr(x))
        + 2 * np.sin(arr(x))
        + 0.09 * np.exp(0.3 * arr(x))
    )
    close(tb.jacfwd(tb.jacrev(poly))(x), want)
    close(tb.jacrev(tb.jacfwd(poly))(x), want)


def test_jacobians_of_several_arguments_and_results() -> None:
    def f(a: tb.Tensor, b: tb.Tensor) -> dict[str, tb.Tensor]:
        return {"p": a * b.sum(), "q": tb.exp(b)}

    a, b = f64(2), f64(3)
    for jac in (tb.jacrev, tb.jacfwd):
        j = jac(f, argnums=(0, 1))(a, b)
        close(j["p"][0], np.eye(2) * arr(b).sum())
        close(j["p"][1], np.repeat(arr(a)[:, None], 3, axis=1))
        close(j["q"][0], np.zeros((3, 2)))
        close(j["q"][1], np.diag(np.exp(arr(b))))


# -- rules of one's own --------------------------------------------------------------------------------------


def make_clipped() -> tb.custom_vjp:
    @tb.custom_vjp
    def clipped(x: tb.Tensor) -> tb.Tensor:
        return x * x

    clipped.defvjp(lambda x: (x * x, x), lambda x, ct: (ct * 100.0 * x,))
    return clipped


@pytest.mark.parametrize("wrap", [lambda f: f, tb.jit], ids=["eager", "jit"])
def test_custom_vjp_is_used_everywhere(wrap: object) -> None:
    clipped, x = make_clipped(), f64(5)
    close(wrap(tb.grad(lambda x: clipped(x).sum()))(x), 100 * arr(x))
    close(wrap(tb.vmap(tb.grad(clipped)))(x), 100 * arr(x))
    close(wrap(tb.grad(lambda x: tb.vmap(clipped)(x).sum()))(x), 100 * arr(x))
    close(tb.grad(lambda x: wrap(clipped)(x).sum())(x), 100 * arr(x))


def test_custom_jvp_serves_both_modes() -> None:
    @tb.custom_jvp
    def f(x: tb.Tensor) -> tb.Tensor:
        return tb.sin(x)

    f.defjvp(lambda p, t: (tb.sin(p[0]), t[0] * 7.0 * p[0]))
    x = f64(3)
    close(tb.jvp(f, (x,), (tb.ones(3, dtype=tb.float64),))[1], 7 * arr(x))
    close(tb.grad(lambda x: f(x).sum())(x), 7 * arr(x))
    close(tb.jit(tb.grad(lambda x: f(x).sum()))(x), 7 * arr(x))


def calling_itself(kind: str) -> Callable[..., tb.Tensor]:
    """exp(x) with 10 times its slope, by rules that call it: what is differentiated again has them too."""
    if kind == "vjp":
        f = tb.custom_vjp(lambda x: tb.exp(x))
        f.defvjp(lambda x: (f(x), x), lambda x, ct: (10.0 * ct * f(x),))
        return f
    g = tb.custom_jvp(lambda x: tb.exp(x))
    g.defjvp(lambda p, t: (g(p[0]), 10.0 * t[0] * g(p[0])))
    return g


@pytest.mark.parametrize("kind", ["vjp", "jvp"])
@pytest.mark.parametrize("wrap", [lambda f: f, tb.jit], ids=["eager", "jit"])
def test_rules_may_call_their_function(kind: str, wrap: Callable[..., Any]) -> None:
    f, x = calling_itself(kind), f64(5)
    once = tb.grad(lambda x: f(x).sum())
    close(wrap(f)(x), np.exp(arr(x)))
    close(wrap(once)(x), 10 * np.exp(arr(x)))
    close(wrap(tb.grad(lambda x: once(x).sum()))(x), 100 * np.exp(arr(x)))
    close(wrap(tb.vmap(tb.grad(tb.grad(f))))(x), 100 * np.exp(arr(x)))
    close(tb.grad(lambda x: wrap(f)(x).sum())(x), 10 * np.exp(arr(x)))


def test_a_third_derivative_of_rules_that_call_their_function_is_refused_under_jit() -> None:
    f, x = calling_itself("vjp"), f64(5)
    thrice = tb.vmap(tb.grad(tb.grad(tb.grad(f))))
    close(thrice(x), 1000 * np.exp(arr(x)))
    with pytest.raises(
        GradientError, match="a third derivative of <lambda>, whose rules call <lambda> itself"
    ):
        tb.jit(thrice)(x)


def test_custom_vjp_has_no_forward_mode() -> None:
    clipped = make_clipped()
    with pytest.raises(GradientError, match="custom_jvp, which serves both modes"):
        tb.jvp(clipped, (f64(2),), (f64(2),))


def test_function_class_saves_and_pulls_back() -> None:
    class Cube(tb.Function):
        @staticmethod
        def forward(ctx: object, x: tb.Tensor, k: float) -> tb.Tensor:
            ctx.save_for_backward(x)
            ctx.k = k
            return x * x * x * k

        @staticmethod
        def backward(ctx: object, ct: tb.Tensor) -> tuple[tb.Tensor, None]:
            (x,) = ctx.saved_tensors
            return ct * 3.0 * x * x * ctx.k, None

    x = tb.tensor([1.0, -2.0], requires_grad=True)
    Cube.apply(x, 2.0).sum().backward()
    close(x.grad, [6.0, 24.0])
    close(tb.jit(tb.grad(lambda x: Cube.apply(x, 2.0).sum()))(tb.tensor([1.0, -2.0])), [6.0, 24.0])


def test_checkpoint_recomputes_and_agrees_under_jit() -> None:
    calls = []

    def block(x: tb.Tensor) -> tb.Tensor:
        calls.append(1)
        return tb.tanh(x * 2.0) * x

    x = f64(6)
    want = tb.grad(lambda x: block(x).sum())(x)
    calls.clear()
    close(tb.grad(lambda x: tb.checkpoint(block)(x).sum())(x), want)
    assert len(calls) == 2, "once forward, once for the backward pass"
    close(tb.jit(tb.grad(lambda x: tb.checkpoint(block)(x).sum()))(x), want)
    graph = tb.make_graph(tb.grad(lambda x: tb.checkpoint(block)(x).sum()))(x)
    inner = [e.primitive.name for q in graph.equations for _, g in q.regions() for e in g.equations]
    assert "barrier" in inner + [q.primitive.name for q in graph.equations]


# -- state ---------------------------------------------------------------------------------------------------


def test_write_through_a_view_under_jit() -> None:
    def write(x: tb.Tensor) -> tb.Tensor:
        x[1:3] += 10.0
        x.reshape(2, 2).T[0] *= 2.0
        return x.sum()

    eager, jitted = tb.tensor([1.0, 2.0, 3.0, 4.0]), tb.tensor([1.0, 2.0, 3.0, 4.0])
    a, b = write(eager), tb.jit(write)(jitted)
    assert a.item() == b.item()
    np.testing.assert_array_equal(arr(eager), [2.0, 12.0, 26.0, 4.0])
    np.testing.assert_array_equal(arr(jitted), arr(eager))


def test_tied_weights_collect_both_gradients() -> None:
    w = tb.tensor([[2.0, 1.0], [0.5, 3.0]], requires_grad=True)
    x = tb.tensor([[1.0, -1.0]])

    def step(x: tb.Tensor) -> tb.Tensor:
        loss = ((x @ w) @ w.T).sum()
        loss.backward()
        return loss

    step(x)
    eager = arr(w.grad).copy()
    w.grad = None
    tb.jit(step)(x)
    np.testing.assert_array_equal(arr(w.grad), eager)


def test_captured_tensor_is_read_anew_at_every_call() -> None:
    scale = tb.tensor(2.0)
    f = tb.jit(lambda x: x * scale)
    assert f(tb.tensor(3.0)).item() == 6.0
    scale.copy_(5.0)
    assert f(tb.tensor(3.0)).item() == 15.0
    assert not f.recompilations


def test_same_tensor_twice_is_one_tensor_inside() -> None:
    def f(a: tb.Tensor, b: tb.Tensor) -> tb.Tensor:
        a += 1.0
        return b * 1.0

    x, y = tb.tensor(1.0), tb.tensor(1.0)
    jf = tb.jit(f)
    assert jf(x, x).item() == 2.0
    assert jf(x, y).item() == 1.0


def test_backward_outside_reaches_through_a_jitted_function() -> None:
    w = tb.tensor([1.0, 2.0], requires_grad=True)
    f = tb.jit(lambda x: (w * x).sum())
    f(tb.tensor([3.0, 4.0])).backward()
    close(w.grad, [3.0, 4.0])


def test_a_step_that_consumed_its_tape_returns_a_constant() -> None:
    w = tb.tensor(2.0, requires_grad=True)

    @tb.jit
    def step(x: tb.Tensor) -> tb.Tensor:
        loss = w * x * x
        loss.backward()
        return loss

    loss = step(tb.tensor(3.0))
    assert w.grad.item() == 9.0
    assert not loss.requires_grad


def test_no_grad_inside_jit_stops_every_derivative() -> None:
    @tb.jit
    def f(x: tb.Tensor) -> tb.Tensor:
        with tb.no_grad():
            y = x * x
        return y * x

    assert tb.grad(f)(tb.tensor(3.0)).item() == 9.0
    assert tb.jvp(f, (tb.tensor(3.0),), (tb.tensor(1.0),))[1].item() == 9.0


def test_one_symbolic_dimension_serves_many_sizes() -> None:
    n = tb.dim("n", max=512)
    f = tb.jit(lambda x, w: tb.tanh(x @ w).mean(axis=0) * 2.0, shapes=((n, None), None))
    w = f64(3, 2)
    for size in (1, 4, 9, 512):
        x = f64(size, 3)
        close(f(x, w), (np.tanh(arr(x) @ arr(w)).mean(axis=0)) * 2)
        close(
            tb.grad(lambda x: f(x, w).sum())(x),
            tb.grad(lambda x: (tb.tanh(x @ w).mean(axis=0) * 2.0).sum())(x),
        )
    assert len(f.entries) == 1
    assert "f64[n,3]" in str(f.lower(f64(2, 3), w).graph)


def test_python_branches_under_grad_just_work() -> None:
    def f(x: tb.Tensor) -> tb.Tensor:
        y = x
        while y < 100.0:
            y = y * x
        return y if x > 2.5 else y * 2.0

    assert tb.grad(f)(tb.tensor(3.0)).item() == pytest.approx(5 * 3.0**4)
    assert tb.grad(f)(tb.tensor(2.0)).item() == pytest.approx(2 * 7 * 2.0**6)


def test_training_with_hand_written_parts_equals_eager_for_100_steps() -> None:
    """BatchNorm-like running statistics, dropout from the global generator, Adam with a schedule; bit for
    bit.
    """
    data = RNG.normal(size=(8, 3)).astype(np.float32)

    def train(wrap: object) -> list[np.ndarray]:
        from trilobite.framework.random import manual_seed, next_key, uniform_value

        manual_seed(3)
        w = tb.tensor(np.linspace(-1, 1, 6).reshape(3, 2).astype(np.float32), requires_grad=True)
        mean, m, v = tb.zeros(2), tb.zeros((3, 2)), tb.zeros((3, 2))
        count, rate = tb.zeros(()), tb.tensor(0.1)

        def step(x: tb.Tensor) -> tb.Tensor:
            h = x @ w
            mu = h.mean(axis=0)
            with tb.no_grad():
                mean.copy_(mean * 0.9 + mu.detach() * 0.1)
            from trilobite.framework.tensor import wrap as tensor

            keep = tensor(uniform_value(next_key(), (8, 2))) < 0.7
            h = tb.tanh(h - mu) * keep.astype(tb.float32) / 0.7
            loss = ((h - 0.5) ** 2).sum()
            w.grad = None
            loss.backward()
            with tb.no_grad():
                count.copy_(count + 1.0)
                m.copy_(m * 0.9 + w.grad * 0.1)
                v.copy_(v * 0.99 + w.grad * w.grad * 0.01)
                w.sub_(rate * (m / (1.0 - 0.9**count)) / (tb.sqrt(v / (1.0 - 0.99**count)) + 1e-8))
                rate.copy_(rate * 0.99)
            return loss

        run = wrap(step)
        losses = [run(tb.tensor(data)).item() for _ in range(100)]
        return [np.array(losses), *(arr(t).copy() for t in (w, mean, m, v, count, rate))]

    for a, b in zip(train(lambda f: f), train(partial(tb.jit, target="reference")), strict=True):
        np.testing.assert_array_equal(a, b)


# -- errors of the mechanism ---------------------------------------------------------------------------------


def test_branch_on_a_traced_value_names_the_line_and_the_remedy() -> None:
    with pytest.raises(TraceError) as error:
        tb.jit(lambda x: x if x > 0 else -x)(tb.tensor(1.0))
    text = str(error.value)
    assert (
        "a Python branch on a tensor inside jit" in text
        and "test_transforms.py" in text
        and "tb.cond" in text
    )


def test_an_escaped_value_is_an_error() -> None:
    kept = []
    tb.jit(lambda x: kept.append(x * 2.0) or x)(tb.tensor(1.0))
    made = r"recorded is used outside of it; it was made at .*test_transforms.py:\d+ in <lambda>"
    with pytest.raises(TraceError, match=made):
        kept[0] + 1.0
    tb.grad(lambda x: kept.append(x * 2.0) or x)(tb.tensor(1.0))
    with pytest.raises(TraceError, match="used after grad or vjp has ended"):
        kept[1] + 1.0


def test_second_backward_is_an_error_with_the_remedy() -> None:
    x = tb.tensor(2.0, requires_grad=True)
    y = x * x
    y.backward()
    with pytest.raises(GradientError, match=r"freed[\s\S]*retain_graph=True"):
        y.backward()


def test_retained_graph_accumulates() -> None:
    x = tb.tensor(2.0, requires_grad=True)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8.0


def test_create_graph_gives_second_derivatives() -> None:
    x = tb.tensor([1.0, 2.0], requires_grad=True)
    (x * x * x).sum().backward(create_graph=True)
    g = x.grad
    x.grad = None
    g.sum().backward()
    close(x.grad, [6.0, 12.0])


def test_in_place_change_of_a_kept_value_is_detected() -> None:
    x = tb.tensor([1.0, 2.0], requires_grad=True)
    y = tb.exp(x)
    y += 1.0
    with pytest.raises(GradientError, match="exp needs was changed in place"):
        y.sum().backward()
    c = tb.tensor([1.0, 2.0])
    z = x * c
    c += 1.0
    with pytest.raises(GradientError, match="mul needs was changed in place"):
        z.sum().backward()
    ok = x + c
    c += 1.0
    ok.sum().backward()


def test_in_place_change_of_a_leaf_is_an_error() -> None:
    x = tb.tensor([1.0], requires_grad=True)
    with pytest.raises(GradientError, match="leaf tensor that requires a gradient was changed in place"):
        x += 1.0


def test_write_through_a_broadcast_is_refused() -> None:
    x = tb.tensor([1.0])
    with pytest.raises(StateError, match="write through broadcast"):
        tb.broadcast_to(x, (3,)).copy_(2.0)


def test_hooks_change_gradients() -> None:
    x = tb.tensor(3.0, requires_grad=True)
    y = x * 2.0
    remove = y.register_hook(lambda g: g * 10.0)
    (y * y).backward(retain_graph=True)
    assert x.grad.item() == 2 * 6.0 * 2.0 * 10.0
    remove()


def test_threads_have_tapes_of_their_own() -> None:
    import threading

    results: list[bool] = []

    def work() -> None:
        x = tb.tensor(2.0, requires_grad=True)
        (x * x).backward()
        results.append(x.grad.item() == 4.0)

    with tb.no_grad():
        t = threading.Thread(target=work)
        t.start()
        t.join()
    assert results == [True]


def test_checkpoint_reaches_parameters_that_the_block_reads() -> None:
    w = tb.tensor([2.0, -1.0], requires_grad=True)
    x = tb.tensor([3.0, 0.5])

    def block(x: tb.Tensor) -> tb.Tensor:
        return tb.tanh(x * w) * w

    block(x).sum().backward()
    want = arr(w.grad).copy()
    w.grad = None
    tb.checkpoint(block)(x).sum().backward()
    np.testing.assert_array_equal(arr(w.grad), want)

    def step(x: tb.Tensor) -> tb.Tensor:
        w.grad = None
        loss = tb.checkpoint(block)(x).sum()
        loss.backward()
        return loss

    tb.jit(step, target="reference")(x)
    np.testing.assert_array_equal(arr(w.grad), want)


def test_checkpoint_in_the_middle_of_a_graph_and_twice_differentiated() -> None:
    def f(x: tb.Tensor, wrap: object) -> tb.Tensor:
        h = x * x
        return (wrap(lambda v: tb.sin(v) * h)(h + x) * x).sum()

    x = f64(4)
    plain, checked = (lambda x: f(x, lambda g: g)), (lambda x: f(x, tb.checkpoint))
    close(tb.grad(checked)(x), tb.grad(plain)(x))
    close(tb.hessian(checked)(x), tb.hessian(plain)(x))
    close(
        tb.vmap(tb.grad(lambda x: checked(x.reshape(1))))(x),
        tb.vmap(tb.grad(lambda x: plain(x.reshape(1))))(x),
    )
    y = tb.tensor(arr(x), requires_grad=True)
    checked(y).backward()
    close(y.grad, tb.grad(plain)(x))


def test_custom_jvp_inside_jit_serves_forward_mode() -> None:
    @tb.custom_jvp
    def f(x: tb.Tensor) -> tb.Tensor:
        return tb.sin(x)

    f.defjvp(lambda p, t: (tb.sin(p[0]), t[0] * 7.0 * p[0]))
    x = f64(3)
    one = tb.ones(3, dtype=tb.float64)
    close(tb.jvp(tb.jit(f), (x,), (one,))[1], 7 * arr(x))
    close(tb.jit(lambda x: tb.jvp(f, (x,), (one,))[1])(x), 7 * arr(x))
    close(tb.vmap(lambda x: tb.jvp(tb.jit(f), (x,), (tb.ones((), dtype=tb.float64),))[1])(x), 7 * arr(x))


def test_custom_vjp_treats_what_it_reads_besides_its_arguments_as_constant() -> None:
    clipped = make_clipped()
    w = tb.tensor(3.0, requires_grad=True)

    @tb.custom_vjp
    def scaled(x: tb.Tensor) -> tb.Tensor:
        return x * w

    scaled.defvjp(lambda x: (x * w, ()), lambda _, ct: (ct * 5.0,))
    x = tb.tensor(2.0, requires_grad=True)
    (scaled(x) + clipped(x)).backward()
    assert x.grad.item() == 5.0 + 200.0 and w.grad is None


def test_anomaly_mode_names_the_line() -> None:
    from trilobite.framework.debug import AnomalyError, detect_anomaly

    with (
        detect_anomaly(),
        pytest.raises(AnomalyError, match=r"log made an infinity[\s\S]*test_transforms.py"),
    ):
        tb.log(tb.tensor([1.0, 0.0]))
    x = tb.tensor([0.0, 1.0], requires_grad=True)
    with (
        detect_anomaly(),
        pytest.raises(AnomalyError, match=r"gradient of sqrt is an infinity[\s\S]*test_transforms.py"),
    ):
        tb.sqrt(x).sum().backward()


@pytest.mark.parametrize("first", ["view", "slice", "transpose"])
@pytest.mark.parametrize("then", ["view", "split", "slice", "chunk"])
def test_hooks_of_views_are_on_the_way_of_views_of_them(first: str, then: str) -> None:
    base = tb.tensor(np.arange(12.0).reshape(3, 4), requires_grad=True) * 2
    y = {"view": lambda: base.view(4, 3), "slice": lambda: base[:, :2], "transpose": lambda: base.T}[first]()
    heard: list[Any] = []
    y.register_hook(lambda g: heard.append(g.shape))
    y.retain_grad()
    z = {
        "view": lambda: y.reshape(-1), "split": lambda: y.split(1, 0)[0], "slice": lambda: y[1:],
        "chunk": lambda: y.chunk(2, 1)[1],
    }[then]()  # fmt: skip
    (z * 2).sum().backward()
    assert heard == [y.shape] and y.grad is not None and float(y.grad.sum()) == 2.0 * z.numel()
