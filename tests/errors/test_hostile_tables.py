"""Tables of operations attacked: gradients under vmap and twice, empty tensors, numbers, symbolic sizes."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import trilobite as tb
from trilobite import nn
from trilobite.base.errors import ShapeError

from .hostile import draw, near, same_bits, slopes

jit = partial(tb.jit, target="reference")  # whose bits are those of eager

F = nn.functional
f64 = tb.float64
PLACES = tb.tensor([[2, 0, 1], [1, 1, 0]])

SMOOTH = {
    "gather": (
        lambda x: (tb.gather(x, 1, PLACES).pow(2) * tb.arange(6, dtype=f64).reshape(2, 3)).sum(),
        (2, 3),
    ),
    "take": (lambda x: tb.take(x, tb.tensor([1, 1, 0]), axis=1).sin().sum(), (2, 3)),
    "index": (lambda x: (x[PLACES[:, 0] % 2, PLACES[:, 1]] ** 3).sum(), (2, 3)),
    "scatter_add": (lambda x: tb.scatter_add(tb.zeros((2, 3), dtype=f64), 1, PLACES, x).pow(2).sum(), (2, 3)),
    "scatter": (lambda x: tb.scatter(x * 2, 1, PLACES[:, :1], x[:, 1:2] * 3).pow(2).sum(), (2, 3)),
    "index_add": (lambda x: tb.index_add(x * x, 0, tb.tensor([0, 0]), x).pow(2).sum(), (2, 3)),
    "sort": (lambda x: (tb.sort(x, axis=-1) * tb.arange(3, dtype=f64)).sum(), (2, 3)),
    "topk": (lambda x: (tb.topk(x, 2)[0] * tb.tensor([1.0, 3.0], dtype=f64)).sum(), (2, 3)),
    "cumsum": (lambda x: (tb.cumulative_sum(x, axis=1) ** 2).sum(), (2, 3)),
    "cumprod": (lambda x: (tb.cumulative_prod(x, axis=1) ** 2).sum(), (2, 3)),
    "cummax": (lambda x: (tb.cummax(x, 1)[0] ** 2).sum(), (2, 3)),
    "logcumsumexp": (lambda x: (tb.logcumsumexp(x, 1) ** 2).sum(), (2, 3)),
    "einsum": (lambda x: (tb.einsum("ij,kj->ik", x, x.sin()) ** 2).sum(), (2, 3)),
    "einsum_diag": (lambda x: (tb.einsum("ii->i", x @ x.T) ** 2).sum(), (2, 3)),
    "conv": (lambda x: (F.conv1d(x[None], x.reshape(1, 2, 3) * 1.5, padding=1) ** 2).sum(), (2, 3)),
    "conv2": (
        lambda x: (
            F.conv2d(
                x.reshape(1, 2, 3, 4), x[:, :, :1].reshape(1, 2, 3, 1) * 1.5, stride=2, padding=1, groups=1
            )
            ** 2
        ).sum(),
        (2, 3, 4),
    ),
    "convT": (
        lambda x: (
            F.conv_transpose2d(x.reshape(1, 2, 3, 4), x.reshape(2, 1, 3, 4)[:, :, :2, :2], stride=2) ** 2
        ).sum(),
        (2, 3, 4),
    ),
    "maxpool": (lambda x: (F.max_pool2d(x[None], 2, 1) ** 2).sum(), (2, 3, 4)),
    "avgpool": (lambda x: (F.avg_pool2d(x[None], 2, 1, padding=1) ** 2).sum(), (2, 3, 4)),
    "pad": (lambda x: (F.pad(x, (1, 2), mode="reflect") ** 2).sum(), (2, 3)),
    "softmax": (lambda x: (x.softmax(-1) ** 2).sum(), (2, 3)),
    "prod": (lambda x: x.prod(axis=1).pow(2).sum(), (2, 3)),
    "std": (lambda x: x.std(axis=1).pow(2).sum(), (2, 3)),
    "max": (lambda x: (x.max(axis=1) ** 2).sum(), (2, 3)),
    "amax": (lambda x: (x.amax(1) ** 2).sum(), (2, 3)),
    "median": (lambda x: (tb.quantile(x, 0.3) ** 2).sum(), (2, 3)),
    "norm": (lambda x: tb.norm(x), (2, 3)),
    "roll": (lambda x: (tb.roll(x, 1, axis=1) * x).sum(), (2, 3)),
    "where": (lambda x: tb.where(x > 0, x * x, x.exp()).sum(), (2, 3)),
    "solve": (lambda x: tb.linalg.solve(x @ x.T + tb.eye(2, dtype=f64), x).pow(2).sum(), (2, 3)),
    "det": (lambda x: tb.linalg.det(x @ x.T + tb.eye(2, dtype=f64)), (2, 3)),
    "fft": (
        lambda x: tb.abs(tb.fft.fft(x)).pow(2).sum() + tb.real(tb.fft.rfft(x.sin())).pow(3).sum(),
        (2, 3),
    ),
    "interp": (lambda x: (F.interpolate(x[None], scale_factor=2, mode="bilinear") ** 2).sum(), (2, 3, 4)),
    "masked_fill": (lambda x: (x.masked_fill(x > 0.5, 0.0) ** 2).sum(), (2, 3)),
    "repeat": (lambda x: (tb.repeat(x, 2, axis=1) ** 3).sum(), (2, 3)),
    "tril": (lambda x: (tb.tril(x) ** 3).sum(), (2, 3)),
    "kron": (lambda x: (tb.kron(x, x.sin()) ** 2).sum(), (2, 3)),
    "cdist": (lambda x: tb.cdist(x, x.sin() + 3).sum(), (2, 3)),
    "clip": (lambda x: (tb.clip(x, -0.5, 0.5) ** 2).sum(), (2, 3)),
    "lerp": (lambda x: (tb.lerp(x, x.sin(), x.cos()) ** 2).sum(), (2, 3)),
    "sdpa": (
        lambda x: (
            F.scaled_dot_product_attention(x[None], x[None].sin(), x[None].cos(), is_causal=True) ** 2
        ).sum(),
        (2, 3),
    ),
    "ce": (lambda x: F.cross_entropy(x, tb.tensor([1, 2]), label_smoothing=0.1), (2, 3)),
    "ln": (lambda x: (F.layer_norm(x, (3,)) ** 3).sum(), (2, 3)),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_slopes_alone_in_a_batch_and_twice(name: str) -> None:
    f, shape = SMOOTH[name]
    batch = draw(3, *shape, dtype=np.float64)
    one, many, slope = tb.tensor(batch[0]), tb.tensor(batch), tb.grad(f)
    found = slope(one)
    near(found, slopes(f, batch[0]), 2e-4)
    same_bits(found, jit(slope)(one))
    rows = tb.vmap(slope)(many)
    near(rows, np.stack([slope(tb.tensor(row)).numpy() for row in batch]), 1e-9)
    same_bits(rows, jit(tb.vmap(slope))(many))
    near(tb.grad(lambda z: tb.vmap(f)(z).sum())(many), rows, 1e-9)

    def along(z):
        return (slope(z) * one).sum()

    twice = tb.grad(along)(one)
    near(twice, slopes(along, batch[0]), 2e-3)
    near(tb.jvp(slope, (one,), (one,))[1], twice, 1e-6)


EMPTY = [
    lambda a: a.sum(),
    lambda a: a.sum(axis=0),
    lambda a: a.mean(axis=1),
    lambda a: a @ tb.ones((3, 2)),
    lambda a: tb.ones((2, 0)) @ a,
    lambda a: a.T,
    lambda a: a.reshape(3, 0),
    lambda a: a.softmax(-1),
    lambda a: tb.sort(a, axis=-1),
    lambda a: tb.cumulative_sum(a, axis=0),
    lambda a: tb.concat([a, a]),
    lambda a: a[:0],
    lambda a: tb.where(a > 0, a, a),
    lambda a: a.exp(),
    lambda a: tb.einsum("ij,kj->ik", a, a),
    lambda a: F.linear(a, tb.ones((2, 3))),
    lambda a: tb.prod(a),
    lambda a: tb.any(a > 0),
    lambda a: tb.all(a > 0),
    lambda a: tb.take(a, tb.tensor([], dtype=tb.int64), axis=1),
    lambda a: tb.std(a, axis=1),
    lambda a: tb.flip(a),
    lambda a: F.conv2d(a.reshape(0, 3, 1, 1), tb.ones((2, 3, 1, 1))),
    lambda a: F.max_pool2d(a.reshape(0, 3, 1, 1).expand(0, 3, 4, 4), 2),
    lambda a: tb.scan(lambda c, x: (c + x.sum(), x), tb.tensor(0.0), a)[1],
    lambda a: tb.vmap(lambda r: r * 2)(a),
    lambda a: tb.topk(a, 2)[0],
    lambda a: F.layer_norm(a, (3,)),
    lambda a: a.var(axis=1),
    lambda a: tb.logsumexp(a, 1),
    lambda a: tb.linalg.inv(tb.zeros((0, 3, 3))),
    lambda a: tb.fft.fft(a),
    lambda a: tb.diff(a),
    lambda a: tb.searchsorted(tb.arange(3.0), a),
]

NUMBER = [
    lambda a: a.sum(),
    lambda a: a.reshape(1),
    lambda a: a.reshape(()),
    lambda a: a[...],
    lambda a: a[None],
    lambda a: a.max(),
    lambda a: tb.cumulative_sum(a.reshape(1)),
    lambda a: a.flatten(),
    lambda a: tb.where(a > 0, a, a),
    lambda a: a.expand(3),
    lambda a: tb.broadcast_to(a, (2, 2)),
    lambda a: a.squeeze(),
    lambda a: tb.stack([a, a]),
    lambda a: a.mean(),
    lambda a: a.var(),
    lambda a: tb.einsum(",->", a, a),
    lambda a: tb.linalg.vector_norm(a),
    lambda a: tb.square(a),
    lambda a: tb.tile(a, (2,)),
    lambda a: tb.kron(a, a),
    lambda a: tb.prod(a),
    lambda a: tb.logsumexp(a),
]


@pytest.mark.parametrize("f", EMPTY, ids=map(str, range(len(EMPTY))))
def test_tensors_of_no_elements(f) -> None:
    empty = tb.zeros((0, 3))
    found = f(empty)
    same_bits(found, jit(f)(empty))
    if found.dtype == tb.float32:
        assert tb.grad(lambda a: f(a).sum())(empty).shape == (0, 3)


@pytest.mark.parametrize("f", NUMBER, ids=map(str, range(len(NUMBER))))
def test_tensors_without_dimensions(f) -> None:
    x = tb.tensor(2.0)
    found = f(x)
    assert isinstance(found._read(), np.ndarray)
    same_bits(found, jit(f)(x))
    slope = tb.grad(lambda a: f(a).sum())(tb.tensor(2.0, dtype=f64))
    near(slope, slopes(lambda a: f(a).sum(), np.array(2.0)), 1e-5)
    rows = tb.vmap(f)(tb.tensor([1.0, 2.0]))
    same_bits(rows[1], found)


n, m = tb.dim("n", min=1, max=8), tb.dim("m", min=1, max=6)
WEIGHT, KERNEL = tb.tensor(draw(4, 3)), tb.tensor(draw(2, 3, 3, 3))
SYMBOLIC = {
    "matmul": (lambda a: a @ WEIGHT, (n, 4), [(k, 4) for k in (1, 3, 8)]),
    "softmax": (lambda a: a.softmax(-1), (n, m), [(1, 1), (8, 6), (3, 5)]),
    "softmax0": (lambda a: a.softmax(0), (n, m), [(1, 1), (8, 6), (3, 5)]),
    "reshape": (lambda a: a.reshape(-1, 2, 2), (n, 4), [(k, 4) for k in (1, 8)]),
    "flatten": (lambda a: a.flatten(1).sum(axis=1), (n, 2, 3), [(5, 2, 3)]),
    "var": (lambda a: a.var(axis=0), (n, m), [(1, 1), (8, 6)]),
    "conv": (lambda a: F.conv2d(a, KERNEL, padding=1), (n, 3, m, 5), [(1, 3, 1, 5), (8, 3, 6, 5)]),
    "convs": (lambda a: F.conv2d(a, KERNEL, padding=1, stride=2), (n, 3, 5, 5), [(1, 3, 5, 5), (8, 3, 5, 5)]),
    "pool": (lambda a: F.max_pool2d(a, 2), (n, 3, 4, 4), [(1, 3, 4, 4), (7, 3, 4, 4)]),
    "cumsum": (lambda a: tb.cumulative_sum(a, axis=0), (n, m), [(1, 1), (8, 6)]),
    "ln": (lambda a: F.layer_norm(a, (4,)), (n, 4), [(1, 4), (8, 4)]),
    "arange": (lambda a: a * tb.arange(a.shape[0], dtype=tb.float32)[:, None], (n, m), [(1, 1), (8, 6)]),
    "cat": (lambda a: tb.concat([a, a * 2]), (n, m), [(1, 1), (8, 6)]),
    "slice": (lambda a: a[1:], (n, m), [(1, 1), (8, 6)]),
    "last": (lambda a: a[-1], (n, m), [(1, 1), (8, 6)]),
    "rev": (lambda a: a[::-1], (n, m), [(1, 1), (8, 6)]),
    "sort": (lambda a: tb.sort(a, axis=0), (n, m), [(1, 1), (8, 6)]),
    "T@": (lambda a: a.T @ a, (n, m), [(1, 1), (8, 6)]),
    "scan": (lambda a: tb.scan(lambda c, x: (c + x, c * x), tb.zeros((3,)), a)[1], (n, 3), [(1, 3), (8, 3)]),
    "vmap": (tb.vmap(lambda r: r.sum() * r), (n, m), [(1, 1), (8, 6)]),
    "ce": (lambda a: F.cross_entropy(a, a.argmax(axis=1)), (n, 3), [(1, 3), (8, 3)]),
    "tril": (lambda a: tb.tril(a), (n, m), [(1, 1), (8, 6)]),
    "gather": (lambda a: tb.take(a, tb.tensor([0, 0]), axis=0), (n, m), [(1, 1), (8, 6)]),
    "split": (lambda a: tb.chunk(a, 2, 1)[1], (n, 4), [(1, 4), (8, 4)]),
    "rand": (lambda a: a + tb.rand(a.shape), (n, m), [(1, 1), (8, 6)]),
    "std": (lambda a: a.std(axis=1), (n, m), [(8, 6)]),
    "eye": (lambda a: tb.eye(a.shape[0]) @ a, (n, m), [(1, 1), (8, 6)]),
    "where": (lambda a: tb.where(a > 0, a, 0.0), (n, m), [(8, 6)]),
    "pad": (lambda a: F.pad(a, (1, 2)), (n, m), [(8, 6), (1, 1)]),
    "bn": (
        lambda a: F.batch_norm(a, None, None, training=True),
        (tb.dim("q", min=2, max=9), 3),
        [(2, 3), (9, 3)],
    ),
    "norm": (lambda a: tb.norm(a), (n, m), [(8, 6)]),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_one_recording_serves_all_sizes_to_the_bounds(name: str) -> None:
    f, declared, shapes = SYMBOLIC[name]
    compiled = jit(f, shapes=[declared])
    for shape in shapes:
        x = tb.tensor(draw(*shape))
        tb.manual_seed(1)
        expected = f(x)
        tb.manual_seed(1)
        same_bits(compiled(x), expected)
    assert len(compiled.entries) == 1


@pytest.mark.parametrize("size", [0, 9])
def test_sizes_beyond_the_bounds_are_refused(size: int) -> None:
    with pytest.raises(
        ShapeError, match=rf"size {size} does not fit the symbolic dimension n(.|\n)*1 <= n <= 8"
    ):
        jit(lambda a: a * 2, shapes=[(n,)])(tb.ones((size,)))
