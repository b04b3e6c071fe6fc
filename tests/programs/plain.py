"""Programs over plain tensors: arithmetic, views, control flow, transforms, random numbers, state."""

from __future__ import annotations

import numpy as np

import trilobite as tb

from .harness import Built, program


def data(*shape: int, dtype: str = "float32", seed: int = 0) -> tb.Tensor:
    return tb.tensor((np.random.default_rng(seed).normal(size=shape) * 3).astype(dtype))


def fixed(*tensors: tb.Tensor):
    return lambda i: tensors


@program()
def polynomial() -> Built:
    return Built(lambda x: (x**3 - 2.5 * x + 1.0) / (x * x + 1.0), fixed(data(7, 5)))


@program()
def mixed_dtypes() -> Built:
    def f(a, b, c):
        return a * b + c, tb.astype(a, tb.bfloat16) * 1.5, (b > 0) & (c < 1.0)

    return Built(f, fixed(data(4, 3), tb.tensor([[1], [-2], [3], [0]]), data(3, dtype="float16")))


@program()
def mlp_gradient() -> Built:
    w1, w2 = data(5, 8, seed=1), data(8, 3, seed=2)
    return Built(tb.grad(lambda w, x: (tb.tanh(x @ w[0]) @ w[1]).mean()), fixed((w1, w2), data(6, 5)))


@program()
def hessian_vector_product() -> Built:
    f = lambda x: tb.sum(tb.exp(tb.sin(x)) * x)  # noqa: E731
    return Built(lambda x, v: tb.jvp(tb.grad(f), (x,), (v,))[1], fixed(data(9), data(9, seed=3)))


@program()
def per_example_gradients() -> Built:
    loss = lambda w, x: tb.sum(tb.tanh(x @ w) ** 2)  # noqa: E731
    return Built(tb.vmap(tb.grad(loss), in_axes=(None, 0)), fixed(data(4, 2), data(10, 4, seed=5)))


@program()
def views_written_in_place() -> Built:
    def f(x):
        y = x.clone()
        y[1:3, ::2] += 10.0
        y.reshape(-1)[5] = -1.0
        y.T[0] *= x[:, 0]
        return y, y.sum(axis=0)

    return Built(f, fixed(data(4, 6)))


@program()
def branches_and_loops() -> Built:
    def f(x):
        y = tb.cond(tb.sum(x) > 0, lambda v: v * 2.0, lambda v: -v, x)
        z = tb.while_loop(lambda s: tb.sum(s * s) < 1e4, lambda s: s * 1.5 + 0.1, y)
        last, all_of_them = tb.scan(lambda c, v: (tb.tanh(c + v), c * v), tb.zeros(5), x)
        return (
            y,
            z,
            last,
            all_of_them,
            tb.switch(tb.tensor(2), [lambda v: v, lambda v: v + 1, lambda v: v * v], x),
        )

    return Built(f, fixed(data(6, 5)))


@program(steps=5)
def running_state() -> Built:
    total, count = tb.zeros(3), tb.tensor(0)

    def f(x):
        count.add_(1)
        total.copy_(total * 0.9 + x.mean(axis=0))
        return total / count

    return Built(f, lambda i: (data(4, 3, seed=i),), [total, count])


@program(steps=4)
def random_numbers() -> Built:
    return Built(
        lambda x: x * tb.random.bernoulli(0.7, x.shape).astype(x.dtype) + tb.random.normal(x.shape),
        fixed(data(5, 4)),
    )


@program(steps=3)
def a_jit_inside_a_jit() -> Built:
    w = tb.tensor([1.0, -2.0], requires_grad=True)
    inner = tb.jit(lambda x: tb.tanh(x * w))

    def f(x):
        w.grad = None
        loss = (inner(x) ** 2).sum()
        loss.backward()
        with tb.no_grad():
            w.sub_(0.1 * w.grad)
        return loss

    return Built(f, lambda i: (data(3, 2, seed=i),), [w])
