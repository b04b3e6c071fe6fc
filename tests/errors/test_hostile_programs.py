"""Programs attacked: nested transforms, loops, randomness, promotion, threads; eager and recorded alike."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import pytest

import trilobite as tb
from trilobite import nn

from .hostile import draw, near, same_bits, slopes

jit = partial(tb.jit, target="reference")  # whose bits are those of eager

F = nn.functional


def test_a_tensor_used_many_times() -> None:

    def f(x):
        y = x
        for _ in range(20):
            y = y * x + x.sin()
        return y.sum()

    a = draw(3, dtype=np.float64) * 0.5
    near(tb.grad(f)(tb.tensor(a)), slopes(f, a), 0.0001)
    same_bits(tb.grad(f)(tb.tensor(a)), jit(tb.grad(f))(tb.tensor(a)))


def test_jit_in_vmap_in_grad_in_jit() -> None:
    inner = jit(lambda a, b: (a.sin() * b).sum())

    def f(x, w):
        return tb.vmap(lambda r: inner(r, w))(x).pow(2).sum()

    x, w = (draw(4, 3, dtype=np.float64), draw(3, dtype=np.float64))
    for n in (0, 1):
        g = tb.grad(f, argnums=n)(tb.tensor(x), tb.tensor(w))
        h = slopes((lambda q: f(q, tb.tensor(w))) if n == 0 else lambda q: f(tb.tensor(x), q), (x, w)[n])
        near(g, h, 0.0001)
        same_bits(g, jit(tb.grad(f, argnums=n))(tb.tensor(x), tb.tensor(w)))
        same_bits(jit(jit(tb.grad(jit(f), argnums=n)))(tb.tensor(x), tb.tensor(w)), g)


def test_randomness_under_vmap() -> None:
    for mode in ("same", "different"):
        f = tb.vmap(lambda a: a + tb.rand((2,)) + tb.randn(()), randomness=mode)
        x = tb.zeros((3, 2))
        tb.manual_seed(3)
        a = f(x)
        b = f(x)
        tb.manual_seed(3)
        j = jit(f)
        c = j(x)
        d = j(x)
        same_bits(a, c)
        same_bits(b, d)
        assert not np.array_equal(a.numpy(), b.numpy())
        n = a.numpy()
        assert np.array_equal(n[0], n[1]) == (mode == "same")
        g = tb.vmap(tb.vmap(lambda a: a + tb.rand(()), randomness=mode), randomness=mode)
        tb.manual_seed(3)
        q = g(x)
        tb.manual_seed(3)
        same_bits(q, jit(g)(x))
    m = nn.Dropout(0.5)
    tb.manual_seed(1)
    f = tb.vmap(lambda a: m(a), randomness="different")
    q = f(tb.ones((3, 8)))
    tb.manual_seed(1)
    same_bits(q, jit(f)(tb.ones((3, 8))))


@pytest.mark.parametrize("rev", [False, True])
def test_scan_over_trees_both_ways(rev: bool) -> None:

    def body(c, x):
        h = {"a": c["a"] * x["u"] + 1, "b": (c["b"][0] + x["v"].sum(), c["b"][1] + 1)}
        return (h, {"o": h["a"] * 2, "n": (h["b"][1],)})

    init = {"a": tb.tensor(draw(3)), "b": (tb.tensor(0.0), tb.tensor(0))}
    xs = {"u": tb.tensor(draw(5, 3)), "v": tb.tensor(draw(5, 2))}
    c, y = tb.scan(body, init, xs, reverse=rev)
    cc = init
    ys = []
    for i in range(4, -1, -1) if rev else range(5):
        cc, o = body(cc, {k: v[i] for k, v in xs.items()})
        ys.append(o)
    if rev:
        ys = ys[::-1]
    same_bits(c["a"], cc["a"])
    same_bits(c["b"][1], cc["b"][1])
    same_bits(y["o"], tb.stack([q["o"] for q in ys]))
    same_bits(y["n"][0], tb.stack([q["n"][0] for q in ys]))
    c2, y2 = jit(lambda i, x: tb.scan(body, i, x, reverse=rev))(init, xs)
    same_bits(c2["a"], c["a"])
    same_bits(y2["o"], y["o"])


def test_loops_of_no_steps() -> None:
    w = tb.tensor(draw(3, dtype=np.float64))

    def f(c, x):
        return (c * w + x, c.sum())

    for fn in (lambda a, b: tb.scan(f, a, b), jit(lambda a, b: tb.scan(f, a, b))):
        c, y = fn(tb.ones((3,), dtype=tb.float64), tb.zeros((0, 3), dtype=tb.float64))
        assert y.shape == (0,) and c.numpy().tolist() == [1, 1, 1]
    g = tb.grad(lambda a: tb.scan(f, a, tb.zeros((0, 3), dtype=tb.float64))[0].sum())(
        tb.ones((3,), dtype=tb.float64)
    )
    assert g.numpy().tolist() == [1, 1, 1]
    g = tb.grad(lambda b: tb.scan(f, tb.ones((3,), dtype=tb.float64), b)[1].sum())(
        tb.zeros((0, 3), dtype=tb.float64)
    )
    assert g.shape == (0, 3)
    r = tb.vmap(lambda a: tb.scan(f, a, tb.zeros((0, 3), dtype=tb.float64)))(
        tb.ones((2, 3), dtype=tb.float64)
    )
    assert r[0].shape == (2, 3) and r[1].shape == (2, 0), r[1].shape
    r = tb.vmap(lambda a, x: tb.scan(f, a, x))(
        tb.ones((0, 3), dtype=tb.float64), tb.ones((0, 4, 3), dtype=tb.float64)
    )
    assert r[1].shape == (0, 4)
    assert tb.fori_loop(3, 3, lambda i, s: s + 1, tb.tensor(1.0)).item() == 1
    assert tb.fori_loop(3, 1, lambda i, s: s + 1, tb.tensor(1.0)).item() == 1
    assert jit(lambda n: tb.fori_loop(3, n, lambda i, s: s + 1, tb.tensor(1.0)))(tb.tensor(1)).item() == 1


def test_branches_that_write_different_tensors() -> None:
    n = draw(3)

    def run(j):
        s = tb.tensor(n.copy())
        u = tb.zeros((3,))

        def f(p, x):
            return tb.cond(p, lambda a: (s.add_(a), a * 2)[1], lambda a: (u.copy_(a * 3), s * a)[1], x)

        g = jit(f) if j else f
        o = [g(tb.tensor(b), tb.tensor(n)) for b in (True, False, True)]
        return ([q.numpy().tolist() for q in o], s.numpy().tolist(), u.numpy().tolist())

    assert run(0) == run(1)
    s = n + n
    assert run(0)[1] == (s + n).tolist() and run(0)[2] == (n * 3).tolist()


def test_a_condition_that_is_a_python_bool() -> None:
    assert tb.cond(True, lambda: tb.tensor(1.0), lambda: tb.tensor(2.0)).item() == 1.0
    assert jit(lambda: tb.cond(False, lambda: tb.tensor(1.0), lambda: tb.tensor(2.0)))().item() == 2.0


def test_a_loop_with_an_integer_and_a_float() -> None:
    def f(n, x):
        return tb.while_loop(
            lambda s: (s[0] < n) & (s[1] < 100.0), lambda s: (s[0] + 1, s[1] * 1.5 + s[0]), (tb.tensor(0), x)
        )

    i, v = f(tb.tensor(9), tb.tensor(1.0))
    a, b = (0, np.float32(1))
    while a < 9 and b < 100:
        b = np.float32(np.float32(b * np.float32(1.5)) + np.float32(a))
        a += 1
    assert i.item() == a and v.item() == b and (v.dtype == tb.float32)
    p, q = jit(f)(tb.tensor(9), tb.tensor(1.0))
    same_bits(p, i)
    same_bits(q, v)
    r = tb.vmap(f, in_axes=(0, None))(tb.tensor([0, 3, 9, 50]), tb.tensor(1.0))
    same_bits(r[1], tb.stack([f(tb.tensor(k), tb.tensor(1.0))[1] for k in (0, 3, 9, 50)]))
    _, tq = tb.jvp(lambda x: f(tb.tensor(5), x)[1], (tb.tensor(1.0),), (tb.tensor(1.0),))
    assert abs(tq.item() - 1.5**5) < 0.0001


def test_python_numbers_promote_alike() -> None:
    for dt in (
        tb.float16,
        tb.bfloat16,
        tb.float32,
        tb.float64,
        tb.int8,
        tb.int32,
        tb.uint8,
        tb.bool,
        tb.complex64,
    ):
        x = tb.ones((3,), dtype=dt)
        for name, f in (
            ("+1", lambda a, k: a + 1),
            ("*2.5", lambda a, k: a * 2.5),
            ("**2", lambda a, k: a**2),
            ("/3", lambda a, k: a / 3),
            ("1-a", lambda a, k: 1 - a),
            ("k*a", lambda a, k: k * a),
            ("where", lambda a, k: tb.where(a == a, a, k)),
            ("max", lambda a, k: tb.maximum(a, k)),
            ("cplx", lambda a, k: a * 1j),
        ):
            for k in (2, 2.5, True):
                try:
                    e = f(x, k)
                except tb.errors.TrilobiteError as ex:
                    try:
                        jit(f)(x, k)
                        raise AssertionError((dt, name, k, "eager raises, jit not", str(ex)[:80]))
                    except tb.errors.TrilobiteError:
                        continue
                j = jit(f)(x, k)
                assert e.dtype == j.dtype, (dt, name, k, e.dtype, j.dtype)
                same_bits(e, j)


def test_threads_differentiate_apart() -> None:
    errs = []

    def work(i):
        try:
            for _ in range(10):
                x = tb.tensor(draw(3), requires_grad=True)
                if i % 2:
                    with tb.no_grad():
                        y = x * 2
                        assert not y.requires_grad
                    f = jit(lambda a: a * i)
                    same_bits(f(x.detach()), x.detach() * i)
                else:
                    (x * x).sum().backward()
                    near(x.grad, 2 * x.detach().numpy())
                    near(tb.vmap(tb.grad(lambda a: a * a * i))(x.detach()), 2 * i * x.detach().numpy())
        except BaseException as e:
            errs.append(repr(e)[:300])

    th = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [q.start() for q in th]
    [q.join() for q in th]
    assert not errs, errs


def test_threads_share_a_compiled_function() -> None:
    f = jit(lambda a: (a * a).sum())
    out = []

    def work(i):
        try:
            for k in range(1, 12):
                assert f(tb.ones((k,))).item() == k
        except BaseException as e:
            out.append(repr(e)[:300])

    th = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [q.start() for q in th]
    [q.join() for q in th]
    assert not out, out


@tb.custom_vjp
def _odd(a):
    return a * 2


_odd.defvjp(lambda a: (a * 2, None), lambda _, ct: (ct * 100,))


class _Odd(tb.Function):
    @staticmethod
    def forward(ctx, a):
        return a * 2

    @staticmethod
    def backward(ctx, ct):
        return ct * 100


@pytest.mark.parametrize("f", [_odd, _Odd.apply], ids=["custom_vjp", "Function"])
def test_a_rule_of_its_own_holds_when_a_compiled_function_is_differentiated_from_outside(f) -> None:
    w = tb.tensor([1.0, 2.0], requires_grad=True)
    compiled = jit(lambda a: f(a).sum())
    for loss in (lambda: jit(lambda: f(w).sum())(), lambda: compiled(w), lambda: compiled(w * 1)):
        w.grad = None
        loss().backward()
        same_bits(w.grad, tb.tensor([100.0, 100.0]))
    slope = tb.grad(jit(lambda a: f(a * w).sum()))(tb.ones((2,)))
    same_bits(slope, tb.tensor([100.0, 200.0]))


def test_composites_stay_whole_and_differentiate_to_the_same_bits_beside_parameters() -> None:
    x, k, w = tb.tensor(draw(6, 8)), tb.tensor(draw(6, 8)), tb.tensor(draw(8), requires_grad=True)
    programs = {
        "softmax": lambda v: ((v * w).softmax(-1) * k).sum(),
        "layer_norm": lambda v: (F.layer_norm(v, (8,), w) * k).sum(),
        "batch_norm": lambda v: (F.batch_norm(v, None, None, w, training=True) * k).sum(),
    }
    for name, f in programs.items():
        compiled = jit(f)
        calls = [e.attributes["name"] for e in compiled.lower(x).graph.equations if "name" in e.attributes]
        assert calls == [name]
        same_bits(tb.grad(compiled)(x), tb.grad(f)(x))
        compiled(x).backward()
        found, w.grad = w.grad, None
        f(x).backward()
        same_bits(found, w.grad)
        w.grad = None


def test_a_tensor_refused_by_vmap_keeps_its_value() -> None:
    state = tb.zeros(())
    with pytest.raises(tb.errors.TraceError, match="changed to a value that differs along the batch"):
        tb.vmap(lambda a: state.copy_(a))(tb.ones((3,)))
    assert (state + 1).item() == 1

    def failing(a):
        state.copy_(a)
        raise KeyError("the user's own")

    with pytest.raises(KeyError, match="the user's own"):
        tb.vmap(failing)(tb.ones((3,)))
    assert state.item() == 0


def test_a_rule_of_its_own_holds_inside_loops_and_branches_of_a_compiled_function() -> None:
    w, x = tb.tensor([1.0, 2.0], requires_grad=True), tb.ones((2,))

    def loop(a):
        return tb.scan(lambda c, v: (_odd(c) + v * w, None), a, tb.ones((3, 2)))[0].sum()

    def branch(a):
        return tb.cond(a.sum() > 0, lambda q: _odd(q * w), lambda q: q, a).sum()

    for f, expected in ((loop, [1e6, 1e6]), (branch, [100.0, 200.0])):
        for slope in (tb.grad(f), tb.grad(jit(f)), jit(tb.grad(f)), tb.grad(jit(jit(f)))):
            near(slope(x), np.array(expected, np.float32))
