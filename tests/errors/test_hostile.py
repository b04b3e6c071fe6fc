"""State attacked: views, aliases, captured tensors, gradients that accumulate; eager and recorded alike."""

from __future__ import annotations

import contextlib
import copy
from functools import partial

import numpy as np

import trilobite as tb
from trilobite import nn

from .hostile import draw, near, same_bits, slopes

jit = partial(tb.jit, target="reference")  # whose bits are those of eager

F = nn.functional


def test_a_write_through_a_view_of_a_view() -> None:
    a = draw(4, 5)

    def f(x):
        y = x * 2
        v = y[1:].T
        w = v[::2]
        w *= 3
        w[0] = 7.0
        return (y, v, w)

    for o, p in zip(f(tb.tensor(a)), jit(f)(tb.tensor(a)), strict=False):
        same_bits(o, p)
    n = a * 2
    v = n[1:].T
    w = v[::2]
    w *= 3
    w[0] = 7
    same_bits(f(tb.tensor(a))[0], n.astype(np.float32))


def test_gradients_pass_writes_through_views() -> None:
    a = draw(4, 5, dtype=np.float64)

    def f(x):
        y = x * 2
        v = y[1:].T
        w = v[::2]
        w *= 3
        w[0] = x[0, 0]
        u = y.reshape(2, 10)[1]
        u += x[0, 0]
        return (y * y).sum()

    near(tb.grad(f)(tb.tensor(a)), slopes(f, a), 0.0001)
    same_bits(tb.grad(f)(tb.tensor(a)), jit(tb.grad(f))(tb.tensor(a)))
    same_bits(tb.grad(f)(tb.tensor(a)), tb.grad(jit(f))(tb.tensor(a)))
    x = tb.tensor(a, requires_grad=True)
    f(x).backward()
    same_bits(x.grad, tb.grad(f)(tb.tensor(a)))
    b = draw(3, 4, 5, dtype=np.float64)
    near(tb.vmap(tb.grad(f))(tb.tensor(b)), np.stack([slopes(f, q) for q in b]), 0.0001)


def test_a_tensor_written_from_its_own_neighbours() -> None:
    a = draw(6)

    def f(x):
        y = x * 1
        y[1:] = y[:-1]
        y[:-1] += y[1:]
        return y

    n = a.copy()
    n[1:] = n[:-1].copy()
    n[:-1] += n[1:].copy()
    same_bits(f(tb.tensor(a)), n)
    same_bits(jit(f)(tb.tensor(a)), n)


def test_a_tensor_written_from_its_own_transpose() -> None:
    a = draw(3, 3)

    def f(x):
        y = x * 1
        y += y.T
        return y

    same_bits(f(tb.tensor(a)), a + a.T)
    same_bits(jit(f)(tb.tensor(a)), a + a.T)

    def g(x):
        y = x * 1
        y.copy_(y.T)
        return y

    same_bits(g(tb.tensor(a)), np.ascontiguousarray(a.T))
    same_bits(jit(g)(tb.tensor(a)), np.ascontiguousarray(a.T))


def test_a_tensor_written_from_itself_backwards() -> None:
    a = draw(5)

    def g(x):
        y = x * 1
        y.copy_(tb.flip(y, axis=0))
        return y

    same_bits(g(tb.tensor(a)), a[::-1].copy())
    same_bits(jit(g)(tb.tensor(a)), a[::-1].copy())

    def h(x):
        y = x * 1
        y[:] = y[::-1]
        return y

    same_bits(h(tb.tensor(a)), a[::-1].copy())
    same_bits(jit(h)(tb.tensor(a)), a[::-1].copy())


def test_results_of_jit_share_nothing() -> None:
    x = tb.tensor(draw(3, 4))
    f = jit(lambda a: (a.T, a, a[1:]))
    o = f(x)
    k = [q.numpy().copy() for q in o]
    x += 1
    x[0] = 5
    for q, r in zip(o, k, strict=False):
        same_bits(q, r)
    o[1].add_(1)
    assert x.numpy()[0, 0] == 5


def test_views_share_in_the_same_way_recorded() -> None:
    x = tb.tensor(draw(3, 4))
    y = x.T
    x += 1
    same_bits(y, np.ascontiguousarray(x.numpy().T)) if 0 else near(y, x.numpy().T, 0)
    z = x.reshape(12)
    z[0] = 9
    assert x[0, 0].item() == 9
    w = x.T.reshape(12)
    w[1] = -9

    def f(x):
        x = x * 1
        w = x.T.reshape(12)
        w[1] = -9
        return x

    same_bits(f(tb.tensor(x.numpy())), jit(f)(tb.tensor(x.numpy())))


def test_one_tensor_passed_twice() -> None:

    def f(a, b):
        a += 1
        b *= 2
        return (a, b)

    x = tb.tensor(draw(3))
    n = x.numpy().copy()
    f(x, x)
    e = x.numpy().copy()
    y = tb.tensor(n.copy())
    jit(f)(y, y)
    same_bits(y, e)


def test_a_tensor_passed_beside_its_view() -> None:

    def f(a, b):
        a += 1
        b *= 2
        return a.sum()

    x = tb.tensor(draw(4))
    n = x.numpy().copy()
    f(x, x[1:])
    e = x.numpy().copy()
    y = tb.tensor(n.copy())
    jit(f)(y, y[1:])
    same_bits(y, e)


def test_a_view_read_after_its_base_was_written() -> None:

    def f(a, b):
        a += 1
        return (a * b[0]).sum()

    x = tb.tensor(draw(4))
    n = x.numpy().copy()
    r = f(x, x[1:])
    y = tb.tensor(n.copy())
    same_bits(jit(f)(y, y[1:]), r)
    same_bits(y, x)


def test_two_overlapping_views_passed() -> None:

    def f(a, b):
        a += 1
        b *= 2
        return a.sum()

    x = tb.tensor(draw(4))
    n = x.numpy().copy()
    f(x[:3], x[1:])
    e = x.numpy().copy()
    y = tb.tensor(n.copy())
    jit(f)(y[:3], y[1:])
    same_bits(y, e)


def test_a_tensor_passed_and_captured() -> None:
    n = draw(3)

    def mk():
        s = tb.tensor(n.copy())

        def f(a):
            a += 1
            s.mul_(2)
            return a + s

        return (s, f)

    s, f = mk()
    r = f(s)
    e = s.numpy().copy()
    s2, f2 = mk()
    r2 = jit(f2)(s2)
    same_bits(r, r2)
    same_bits(s2, e)


def test_a_view_passed_and_its_base_captured() -> None:
    n = draw(4)

    def mk():
        s = tb.tensor(n.copy())

        def f(a):
            a += 1
            s.mul_(2)
            return a + s[1:]

        return (s, f)

    s, f = mk()
    r = f(s[1:])
    e = s.numpy().copy()
    s2, f2 = mk()
    r2 = jit(f2)(s2[1:])
    same_bits(r, r2)
    same_bits(s2, e)


def test_what_is_captured_is_constant_although_it_is_also_the_argument() -> None:
    w = tb.tensor(draw(3, dtype=np.float64))

    def f(a):
        return (a * w).sum()

    same_bits(tb.grad(f)(w), w)
    same_bits(jit(tb.grad(f))(w), w)


def test_memory_shared_with_numpy() -> None:
    n = draw(3)
    x = tb.from_numpy(n)
    f = jit(lambda a: a * 2)
    n[0] = 5
    assert f(x).numpy()[0] == 10
    y = f(x)
    m = y.numpy()
    m[0] = 1
    assert y[0].item() == 1

    def g(a):
        a += 1

    jit(g)(x)


def test_views_captured_beside_their_base() -> None:
    s = tb.zeros((3, 4))
    v = s[1]

    def f(a):
        v.add_(a)
        s.mul_(2)
        return (v + 0, s + 0)

    e = f(tb.ones((4,)))
    s.zero_()
    j = jit(f)
    r = j(tb.ones((4,)))
    for p, q in zip(e, r, strict=False):
        same_bits(p, q)
    assert v.numpy().tolist() == [2.0] * 4
    v.add_(1)
    assert s.numpy()[1].tolist() == [3.0] * 4


def test_an_exception_inside_a_transform_leaves_nothing_behind() -> None:
    from trilobite.ir.transforms import bind as b

    def snap():
        return (
            b.context().recorder,
            b.context().depth,
            b.context().grad_off,
            b.context().writes,
            b.context().vmaps,
            b.context().undo,
        )

    s0 = snap()
    st = tb.ones((3,))
    st.numpy().copy()

    def bad(a):
        st.add_(a)
        raise KeyError("x")

    for tf in (
        lambda: jit(bad)(tb.ones((3,))),
        lambda: tb.grad(bad)(tb.ones((3,))),
        lambda: tb.vmap(lambda a: bad(tb.ones((3,))))(tb.ones((2,))),
        lambda: tb.jvp(bad, (tb.ones((3,)),), (tb.ones((3,)),)),
        lambda: tb.scan(lambda c, x: bad(x), tb.tensor(0.0), tb.ones((2, 3))),
        lambda: tb.cond(tb.tensor(True), bad, bad, tb.ones((3,))),
        lambda: tb.checkpoint(bad)(tb.ones((3,))),
        lambda: tb.while_loop(lambda s: s.sum() < 3, bad, tb.ones((3,))),
        lambda: jit(tb.vmap(tb.grad(bad)))(tb.ones((2, 3))),
    ):
        try:
            tf()
            assert 0
        except KeyError:
            pass
        assert snap() == s0
        assert type(st._cell.value) is np.ndarray, type(st._cell.value)
    x = tb.tensor([1.0], requires_grad=True)
    (x * st.sum()).sum().backward()


def test_gradient_modes_nest() -> None:
    x = tb.tensor([2.0], requires_grad=True)
    with tb.no_grad():
        assert not (x * 2).requires_grad
        with tb.enable_grad():
            y = x * 2
            assert y.requires_grad
            with tb.no_grad():
                assert not (x * 2).requires_grad
            assert (x * 2).requires_grad
        assert not (y * 2).requires_grad
        near(tb.grad(lambda a: (a * a).sum())(tb.tensor([3.0])), [6.0])
        same_bits(jit(tb.grad(lambda a: (a * a).sum()))(tb.tensor([3.0])), tb.tensor([6.0]))

    @tb.no_grad()
    def f(a):
        return a * 2

    assert not f(x).requires_grad and (not f(x).requires_grad)

    def g(a):
        with tb.no_grad():
            c = a * a
        return (c * a).sum()

    v = tb.tensor([3.0])
    e = tb.grad(g)(v)
    near(e, [9.0])
    same_bits(jit(tb.grad(g))(v), e)
    same_bits(tb.grad(jit(g))(v), e)

    def h(a):
        with tb.no_grad(), tb.enable_grad():
            c = a * a
        return (c * a).sum()

    e = tb.grad(h)(v)
    near(e, [27.0])
    same_bits(jit(tb.grad(h))(v), e)
    same_bits(tb.grad(jit(h))(v), e)

    def k(a):
        return tb.grad(lambda b: (b * a.detach() * a).sum())(a).sum()

    e = tb.grad(k)(v)
    near(e, [3.0])
    same_bits(jit(tb.grad(k))(v), e)

    def raiser():
        with tb.no_grad():
            raise KeyError

    with contextlib.suppress(KeyError):
        raiser()
    assert tb.is_grad_enabled()


def test_hooks_and_retained_gradients() -> None:
    x = tb.tensor([1.0, 2.0], requires_grad=True)
    log = []
    r = x.register_hook(lambda g: (log.append(g.numpy().copy()), g * 10)[1])
    y = x * 3
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    (y * x).sum().backward()
    assert len(log) == 1
    near(x.grad, [90.0, 180.0])
    r()
    x.grad = None
    (x * 3).sum().backward()
    near(x.grad, [3.0, 3.0])

    def step(x):
        y = x * 3
        y.register_hook(lambda g: g * 2)
        (y * x).sum().backward()
        return x.grad

    a = tb.tensor([1.0, 2.0], requires_grad=True)
    step(a)
    b = tb.tensor([1.0, 2.0], requires_grad=True)
    jit(step)(b)
    same_bits(a.grad, b.grad)


def test_backward_to_chosen_inputs_and_detached_leaves() -> None:
    a = tb.tensor([1.0, 2.0], requires_grad=True)
    b = tb.tensor([3.0, 4.0], requires_grad=True)
    y = a * b
    y.sum().backward(inputs=[a, y]) if 0 else (y * y).sum().backward(inputs=[a, y])
    assert b.grad is None
    near(y.grad, [6.0, 16.0])
    near(a.grad, [18.0, 64.0])
    d = a.detach().requires_grad_()
    assert d.is_leaf and d.requires_grad
    (d * 2).sum().backward()
    near(d.grad, [2.0, 2.0])
    near(a.grad, [18.0, 64.0])

    def f(v):
        d = v.detach().requires_grad_()
        (d * d).sum().backward()
        return d.grad

    same_bits(f(tb.tensor([1.0, 2.0])), jit(f)(tb.tensor([1.0, 2.0])))


def test_gradients_accumulate_inside_jit() -> None:

    def mk():
        w = tb.tensor(np.array([1.0, 2.0], np.float32), requires_grad=True)

        def step(x):
            (w * x).sum().backward()
            (w * w * x).sum().backward()
            return w.grad.sum()

        return (w, step)

    w, s = mk()
    r = [s(tb.tensor([1.0, 3.0])).item() for _ in range(3)]
    v, s2 = mk()
    j = jit(s2)
    q = [j(tb.tensor([1.0, 3.0])).item() for _ in range(3)]
    assert r == q, (r, q)
    same_bits(w.grad, v.grad)

    def mk2():
        w = tb.tensor(np.array([1.0, 2.0], np.float32), requires_grad=True)

        def step(p):
            (w * p * 3).sum().backward()

        return (w, step)

    w, s = mk2()
    s(w)
    s(w)
    v, s2 = mk2()
    j = jit(s2)
    j(v)
    j(v)
    same_bits(w.grad, v.grad)


def test_a_deep_copy_is_apart() -> None:
    x = tb.tensor(draw(3), requires_grad=True)
    (x * x).sum().backward()
    y = copy.deepcopy(x)
    assert y.requires_grad and y.is_leaf
    with tb.no_grad():
        y.add_(1)
    assert not np.array_equal(x.detach().numpy(), y.detach().numpy())
    v = tb.tensor(draw(3, 4))
    copy.deepcopy([v, v[1]])
