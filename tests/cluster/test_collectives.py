"""Collectives against their definition, by ranks in lock-step: values, derivatives, batches, compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import cluster as c
from trilobite.base.errors import TrilobiteError

Array = np.ndarray[Any, Any]
N = 3
PAIRS = [(0, 2), (2, 1)]
UNEVEN = c.parts(7, N)

LINEAR: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "all_reduce": (lambda x: c.all_reduce(x), (4, 5)),
    "all_gather": (lambda x: c.all_gather(x, 1), (4, 5)),
    "reduce_scatter": (lambda x: c.reduce_scatter(x, 1), (4, 6)),
    "reduce_scatter uneven": (lambda x: c.reduce_scatter(x, 0), (7, 2)),
    "all_to_all": (lambda x: c.all_to_all(x, 0, 1), (6, 2)),
    "broadcast": (lambda x: c.broadcast(x, 1), (2, 3)),
    "permute": (lambda x: c.permute(x, PAIRS), (2, 3)),
    "rotate": (lambda x: c.rotate(x, 2), (5,)),
}  # fmt: skip


def values(seed: int, shape: tuple[int, ...]) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape) for _ in range(N)]


def by_numpy(name: str, xs: list[Array]) -> list[Array]:
    """What each collective gives, written another way than its meaning."""
    total = (xs[0] + xs[1]) + xs[2]
    if name == "all_reduce":
        return [total] * N
    if name == "all_gather":
        return [np.hstack(xs)] * N
    if name.startswith("reduce_scatter"):
        axis = 0 if "uneven" in name else 1
        return np.split(total, np.cumsum(c.parts(total.shape[axis], N))[:-1], axis=axis)
    if name == "all_to_all":
        return [np.hstack([x[2 * k : 2 * k + 2] for x in xs]) for k in range(N)]
    if name == "broadcast":
        return [xs[1]] * N
    if name == "permute":
        return [np.zeros_like(xs[0]), xs[2], xs[0]]
    return [xs[1], xs[2], xs[0]]


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("how", ["eager", "cpu", "reference"])
def test_each_rank_gets_what_the_definition_says(name: str, how: str) -> None:
    fn, shape = LINEAR[name]
    xs = values(1, shape)
    call = fn if how == "eager" else tb.jit(fn, target=how)
    outs = c.lockstep(lambda: call(tb.tensor(xs[c.rank()])).numpy(), N)
    for got, want in zip(outs, by_numpy(name, xs), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", LINEAR)
def test_transposes_are_those_of_all_ranks_together(name: str) -> None:
    """<u, A x> = <A'u, x>, summed over all ranks; and twice."""
    fn, shape = LINEAR[name]
    xs = values(2, shape)

    def rank() -> tuple[float, float, float]:
        rng = np.random.default_rng(c.rank() + 50)
        x = tb.tensor(xs[c.rank()])
        out, back = tb.vjp(fn, x)
        u = tb.tensor(rng.normal(size=out.shape))
        (ct,) = back(u)
        _, slope = tb.jvp(fn, (x,), (x,))
        _, twice = tb.vjp(lambda v: back(v)[0], u)
        (again,) = twice(x)
        return (
            tb.sum(u * out).item(),
            tb.sum(ct * x).item(),
            tb.sum(u * slope).item(),
            tb.sum(u * again).item(),
        )

    found = np.array(c.lockstep(rank, N))
    forward, reverse, jvp, twice = found.sum(axis=0)
    size = np.abs(found).sum()
    assert abs(forward) > 1e-6 * size
    assert abs(forward - reverse) < 1e-12 * size
    assert abs(forward - jvp) < 1e-12 * size
    assert abs(forward - twice) < 1e-12 * size


@pytest.mark.parametrize("name", LINEAR)
def test_a_batch_is_one_collective(name: str) -> None:
    fn, shape = LINEAR[name]
    xs = values(3, (4, *shape))
    graph = c.lockstep(lambda: tb.make_graph(tb.vmap(fn))(tb.tensor(xs[c.rank()])), N)[0]
    assert sum(e.primitive.name.startswith("cluster_") for e in graph.equations) == 1
    batched = c.lockstep(lambda: tb.vmap(fn)(tb.tensor(xs[c.rank()])).numpy(), N)
    for i in range(4):
        one = c.lockstep(lambda i=i: fn(tb.tensor(xs[c.rank()][i])).numpy(), N)
        for b, o in zip(batched, one, strict=True):
            np.testing.assert_array_equal(b[i], o)


def test_a_shared_result_counts_once() -> None:
    """Every rank holds the same loss: its gradient is that of one loss, not of three."""
    xs = values(4, (5,))

    def rank(shared: bool) -> Any:
        x = tb.tensor(xs[c.rank()], requires_grad=True)
        c.all_reduce(tb.sum(x * x), shared=shared).backward()
        return x.grad.numpy()

    for k, (once, each) in enumerate(zip(c.lockstep(rank, N, True), c.lockstep(rank, N, False), strict=True)):
        np.testing.assert_allclose(once, 2 * xs[k], rtol=1e-15)
        np.testing.assert_allclose(each, 3 * 2 * xs[k], rtol=1e-15)


def test_share_and_part_lead_back() -> None:
    """A value that all hold, used by each for itself: its gradient is the sum of all uses."""
    w0 = values(5, (7,))[0]
    xs = values(6, (7,))

    def rank() -> Any:
        w = tb.tensor(w0, requires_grad=True)
        loss = c.all_reduce(tb.sum(tb.sin(c.share(w) * tb.tensor(xs[c.rank()]))), shared=True)
        loss.backward()
        v = tb.tensor(w0, requires_grad=True)
        mine = c.part(v) * (c.rank() + 1.0)
        whole = c.all_gather(mine, size=7, shared=True)
        tb.sum(whole * whole).backward()
        return w.grad.numpy(), v.grad.numpy()

    scale = np.repeat([1.0, 2.0, 3.0], UNEVEN)
    for shared, parted in c.lockstep(rank, N):
        np.testing.assert_allclose(shared, sum(np.cos(w0 * x) * x for x in xs), rtol=1e-12)
        np.testing.assert_allclose(parted, 2 * w0 * scale**2, rtol=1e-12)


@pytest.mark.parametrize("op", ["max", "min"])
def test_extremes_share_their_derivative_among_equals(op: str) -> None:
    xs = [np.array([1.0, 5.0, 2.0]), np.array([3.0, 5.0, 1.0]), np.array([2.0, 4.0, 1.0])]

    def rank() -> Any:
        x = tb.tensor(xs[c.rank()], requires_grad=True)
        out = c.all_reduce(x, op, shared=True)
        tb.sum(out * tb.tensor([1.0, 10.0, 100.0])).backward()
        return out.detach().numpy(), x.grad.numpy()

    outs, grads = zip(*c.lockstep(rank, N), strict=True)
    best = (np.max if op == "max" else np.min)(xs, axis=0)
    hits = np.array(xs) == best
    np.testing.assert_array_equal(outs, [best] * N)
    np.testing.assert_allclose(grads, hits / hits.sum(axis=0) * [1.0, 10.0, 100.0])


def test_sums_of_small_floats_are_rounded_once() -> None:
    xs = values(7, (64,))
    small = [tb.tensor(x).to(tb.bfloat16) for x in xs]
    out = c.lockstep(lambda: c.all_reduce(small[c.rank()]).to(tb.float64).numpy(), N)[0]
    wide = sum(s.to(tb.float32).numpy() for s in small)
    np.testing.assert_array_equal(out, tb.tensor(wide).to(tb.bfloat16).to(tb.float64).numpy())


def unrolled(fn: Callable[[Any], Any], x: Any) -> Any:
    start = tb.zeros(3, dtype=tb.float64)
    return tb.scan(lambda carry, row: (tb.sin(carry + fn(row)),) * 2, start, x)[1]


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("checkpointed", [False, True])
def test_inside_scan_and_checkpoint(jitted: bool, checkpointed: bool) -> None:
    xs = values(8, (4, 3))

    def rank() -> Any:
        summed = partial(unrolled, lambda row: c.all_reduce(row, shared=True))
        inner = tb.checkpoint(summed) if checkpointed else summed
        fn = tb.grad(lambda x: tb.sum(inner(x) ** 2))
        return (tb.jit(fn) if jitted else fn)(tb.tensor(xs[c.rank()])).numpy()

    want = tb.grad(lambda x: tb.sum(unrolled(lambda row: row, x) ** 2))(tb.tensor(sum(xs))).numpy()
    for got in c.lockstep(rank, N):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_compiled_collectives_keep_their_order_and_number() -> None:
    """Two equal ones stay two, one whose result nobody reads stays, and none changes places."""

    def fn(x: Any) -> Any:
        a = c.all_reduce(x)
        b = c.all_reduce(x)
        c.all_gather(x)
        return a + b, c.rotate(x)

    def rank() -> list[str]:
        text = tb.jit(fn).lower(tb.ones(3)).stages["program"]
        return [w for line in text.splitlines() for w in line.split() if w.startswith("cluster_")]

    names = [w.strip(",:()") for w in c.lockstep(rank, 2)[0]]
    wanted = ["cluster_all_reduce", "cluster_all_reduce", "cluster_all_gather", "cluster_permute"]
    assert [n for n in names if n in wanted] == wanted


def test_messages_carry_gradients_back() -> None:
    x0 = values(9, (2, 3))[0]

    def rank() -> Any:
        if c.rank() == 0:
            x = tb.tensor(x0, requires_grad=True)
            c.send(x * 2.0, to=1).backward()
            return x.grad.numpy()
        start = tb.zeros((), requires_grad=True)
        y = c.receive((2, 3), tb.float64, source=0, after=start)
        tb.sum(y * y).backward()
        return y.detach().numpy()

    grad, got = c.lockstep(rank, 2)
    np.testing.assert_array_equal(got, 2 * x0)
    np.testing.assert_array_equal(grad, 8 * x0)


# -- one process, mistakes -----------------------------------------------------------------------------------


def test_one_process_runs_the_same_script() -> None:
    x = tb.tensor([1.5, -2.0])
    assert (c.rank(), c.size()) == (0, 1)
    for fn in (c.all_reduce, c.all_gather, c.reduce_scatter, c.broadcast, c.share, c.part, c.rotate):
        np.testing.assert_array_equal(fn(x).numpy(), x.numpy())
    c.barrier()


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (lambda: c.all_reduce(tb.ones(2), "median"), "by 'median'"),
        (lambda: c.all_reduce(tb.ones(2, dtype=tb.bool)), "does not take bool"),
        (lambda: c.all_to_all(tb.ones(4)), "does not divide into 3 equal parts"),
        (lambda: c.all_gather(tb.ones(4), 1), "axis 1 of 1"),
        (lambda: c.broadcast(tb.ones(4), 3), "from member 3"),
        (lambda: c.permute(tb.ones(4), [(0, 1), (2, 1)]), "by the pairs"),
        (lambda: c.send(tb.ones(4), c.rank()), "another rank"),
        (lambda: c.send(tb.ones(4), 7), "another rank"),
        (lambda: c.all_reduce(tb.ones(4), group="data"), "a group 'data'"),
        (lambda: c.all_reduce(tb.ones(4), group=c.Group(((0, 1), (1, 2)))), "each rank once"),
        (lambda: c.all_reduce(tb.ones(4), group=c.Group(((5, 6),))), "is in none of the groups"),
        (lambda: c.all_gather(tb.ones(4), size=7), "this part has 4 of axis 0"),
    ],
)  # fmt: skip
def test_mistakes_are_named(fn: Any, text: str) -> None:
    with pytest.raises(TrilobiteError, match=text):
        c.lockstep(fn, N)
