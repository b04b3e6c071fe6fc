"""What shares memory with what, beside NumPy; and whose history a write through a detached view changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ShapeError, StateError
from trilobite.framework import layouts


def _numpy_diagonal(a: Any) -> Any:
    """As a view that can be written to; what has one axis is left as it is."""
    if a.ndim < 2:
        return a
    n = min(a.shape[-2:])
    rest = (*a.strides[:-2], a.strides[-2] + a.strides[-1])
    return np.lib.stride_tricks.as_strided(a, (*a.shape[:-2], n), rest)


VIEWS: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = [
    ("transpose", lambda x: x.transpose(0, -1), lambda a: a.swapaxes(0, -1)),
    ("first", lambda x: x[:1], lambda a: a[:1]),
    ("behind", lambda x: x[1:], lambda a: a[1:]),
    ("every second", lambda x: x[..., ::2], lambda a: a[..., ::2]),
    ("backwards", lambda x: x[::-1], lambda a: a[::-1]),
    ("new axis", lambda x: x.unsqueeze(1), lambda a: a[:, None]),
    ("flat", lambda x: x.reshape(-1), lambda a: a.reshape(-1)),
    ("rows", lambda x: x.reshape(x.shape[0], -1), lambda a: a.reshape(a.shape[0], -1)),
    ("columns", lambda x: x.reshape(-1, x.shape[-1]), lambda a: a.reshape(-1, a.shape[-1])),
    ("flatten", lambda x: x.flatten(), lambda a: a.reshape(-1)),
    ("ravel", lambda x: x.ravel(), lambda a: a.ravel()),
    ("contiguous", lambda x: x.contiguous(), np.ascontiguousarray),
    ("diagonal", lambda x: x.diagonal(0, -2, -1) if x.ndim > 1 else x, _numpy_diagonal),
    ("clone", lambda x: x.clone(), lambda a: a.copy()),
    ("flip", lambda x: x.flip(0), lambda a: np.flip(a, 0).copy()),
]  # fmt: skip


def _program(rng: np.random.Generator) -> list[tuple[int, int, float]]:
    return [
        (int(rng.integers(0, len(VIEWS) + 3)), int(rng.integers(0, 100)), float(rng.integers(1, 9)))
        for _ in range(int(rng.integers(3, 10)))
    ]


def _follow(steps: list[tuple[int, int, float]], first: Any, which: int) -> list[Any]:
    pool = [first]
    for kind, place, number in steps:
        x = pool[place % len(pool)]
        if kind < len(VIEWS):
            if x.ndim < 4:
                pool.append(VIEWS[kind][which](x))
        elif kind == len(VIEWS):
            x[...] = x * 2 + number
        else:
            x[(0,) * x.ndim] = number * 100
    return pool


@pytest.mark.parametrize("seed", range(60))
def test_random_views_and_writes_show_what_numpys_show(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(1, 4))))
    start = rng.standard_normal(shape)
    steps = _program(rng)
    want = _follow(steps, start.copy(), 2)

    def made(x: Any) -> list[Any]:
        return [y.clone() for y in _follow(steps, x.clone(), 1)]

    for run in (made, tb.jit(made)):
        got = run(tb.tensor(start))
        assert [y.shape for y in got] == [a.shape for a in want]
        for y, a in zip(got, want, strict=True):
            np.testing.assert_array_equal(y.numpy(), a)


@pytest.mark.parametrize("seed", range(40))
def test_strides_are_those_of_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = np.zeros(tuple(int(n) for n in rng.integers(1, 5, 3)))
    x = tb.tensor(a)
    for kind in rng.integers(0, 9, 4):
        seen = VIEWS[kind][2](a)
        if seen.ndim > 3 or not np.shares_memory(seen, a):
            continue
        a, x = seen, VIEWS[kind][1](x)
        for step, want, n in zip(x.stride(), a.strides, a.shape, strict=True):
            assert n == 1 or step == want // 8
        assert x.is_contiguous() == a.flags.c_contiguous


def test_a_new_shape_is_a_view_exactly_where_numpy_can_make_one() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2000):
        base = np.zeros(tuple(int(n) for n in rng.integers(1, 5, 3)))
        a = base.transpose(rng.permutation(3))[:: int(rng.integers(1, 3)), : int(rng.integers(1, 5))]
        sizes = [d for d in range(1, a.size + 1) if a.size % d == 0]
        first = int(rng.choice(sizes))
        new = (first, a.size // first)
        steps = tuple(s // 8 for s in a.strides)
        found = layouts.reshaped(a.shape, steps, new)
        assert (found is not None) == np.shares_memory(a.reshape(new), a)


def test_a_new_shape_without_a_copy_is_refused_where_there_is_none() -> None:
    x = tb.arange(6).reshape(2, 3)
    assert x.reshape((3, 2), copy=False).tolist() == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(ShapeError, match="strides"):
        x.T.reshape((6,), copy=False)


def test_windows_that_do_not_overlap_are_views() -> None:
    for n, size, step in ((6, 2, 2), (7, 2, 3), (8, 2, 3), (5, 5, 1), (9, 3, 3)):
        x = tb.arange(n)
        w = x.unfold(0, size, step)
        want = np.stack([np.arange(n)[i : i + size] for i in range(0, n - size + 1, step)])
        assert np.array_equal(w.numpy(), want)
        w[0, 0] = 77
        assert (x[0].item() == 77) == ((size <= step and ((n - size) // step + 1) * step <= n) or size == n)


@pytest.mark.parametrize("k", [-3, -2, -1, 0, 1, 2, 3])
def test_a_diagonal_is_a_part_of_its_matrix(k: int) -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    for one, two in ((0, 1), (1, 2), (2, 0), (-1, -2), (0, 2)):
        x = tb.tensor(a)
        assert np.array_equal(x.diagonal(k, one, two).numpy(), a.diagonal(k, one, two))
        x.diagonal(k, one, two).add_(100)
        changed = np.zeros_like(a)
        for i, j in zip(range(max(-k, 0), a.shape[one]), range(max(k, 0), a.shape[two]), strict=False):
            at: list[Any] = [slice(None)] * 3
            at[one], at[two] = i, j
            changed[tuple(at)] = 100
        assert np.array_equal(x.numpy(), a + changed)


def test_a_write_through_a_copying_look_reaches_numpys_memory() -> None:
    a = np.ones((2, 3))
    x = tb.asarray(a)
    x.T.diagonal().mul_(5)
    assert a.tolist() == [[5, 1, 1], [1, 5, 1]]


Case = tuple[Callable[[Any, Any], Any], list[float], list[float] | None, list[float] | None]


def _without_a_gradient(x: Any, w: Any) -> Any:
    h = x * 3
    with tb.no_grad():
        h.mul_(2)
    return h


def _part_detached(x: Any, w: Any) -> Any:
    h = x * 3
    h.detach()[0] = 5
    return h


def _data_written(x: Any, w: Any) -> Any:
    h = x * 3
    h.data.mul_(2)
    return h


def _data_set(x: Any, w: Any) -> Any:
    h = x * 3
    h.data = h.data * 2
    return h


def _own_history(x: Any, w: Any) -> Any:
    h = x * 3
    y = h.detach()
    y += w
    return y


def _both_histories(x: Any, w: Any) -> Any:
    h = x * 3
    y = h.detach()
    y.add_(w)
    return h + y * 2


def _part_with_history(x: Any, w: Any) -> Any:
    h = x * 3
    y = h.detach()
    y[0] = w[1]
    return y + h


def _of_a_constant(x: Any, w: Any) -> Any:
    y = tb.zeros(2)
    z = y.detach()
    z[1:] += w[1:]
    return y + z


def _only_the_last_detached(x: Any, w: Any) -> Any:
    h = x * 3
    y = h.detach()
    z = y.detach()
    z.add_(w)
    return h + y * 5 + z


def _views_between(x: Any, w: Any) -> Any:
    h = x * 3
    y = h.detach()
    z = y.view(-1)
    z[:].add_(w)
    return h + y * 5 + z


HISTORIES: list[Case] = [  # y, and the gradients of (y²).sum() by x = [1, 2] and w = [3, 4]: PyTorch's
    (_without_a_gradient, [6, 12], [36, 72], None),
    (_part_detached, [5, 6], [30, 36], None),
    (_data_written, [6, 12], [36, 72], None),
    (_data_set, [6, 12], [36, 72], None),
    (_own_history, [6, 10], None, [12, 20]),
    (_both_histories, [18, 30], [108, 180], [72, 120]),
    (_part_with_history, [8, 12], [48, 72], [0, 16]),
    (_of_a_constant, [0, 8], None, [0, 16]),
    (_only_the_last_detached, [42, 70], [252, 420], [84, 140]),
    (_views_between, [42, 70], [252, 420], [504, 840]),
]


@pytest.mark.parametrize("case", HISTORIES, ids=lambda c: c[0].__name__.strip("_"))
@pytest.mark.parametrize("recorded", [False, True])
def test_a_write_through_a_detached_view_leaves_the_history_of_its_base(case: Case, recorded: bool) -> None:
    make, value, by_x, by_w = case
    x, w = (tb.tensor(v, requires_grad=True) for v in ([1.0, 2.0], [3.0, 4.0]))

    def run() -> Any:
        y = make(x, w)
        (y**2).sum().backward()
        return y.detach()

    assert (tb.jit(run) if recorded else run)().tolist() == value
    for leaf, want in ((x, by_x), (w, by_w)):
        assert (None if leaf.grad is None else leaf.grad.tolist()) == want


def test_detach_in_place() -> None:
    x = tb.tensor([1.0, 2.0], requires_grad=True)
    h = x * 2
    assert h.detach_() is h and not h.requires_grad and h.is_leaf
    with pytest.raises(StateError, match="view"):
        (x * 2)[0].detach_()


def test_where_views_begin() -> None:
    """As NumPy's views do, whatever steps led to them."""
    rng = np.random.default_rng(11)
    for _ in range(60):
        a = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
        x = tb.tensor(a)
        base = a
        for _ in range(int(rng.integers(1, 5))):
            axis = int(rng.integers(0, a.ndim))
            start = int(rng.integers(0, a.shape[axis]))
            kind = int(rng.integers(0, 3))
            if kind == 0:
                cut = (slice(None),) * axis + (slice(start, None, int(rng.integers(1, 3))),)
                a, x = a[cut], x[cut]
            elif kind == 1:
                order = tuple(int(i) for i in rng.permutation(a.ndim))
                a, x = a.transpose(order), x.permute(*order)
            else:
                a, x = np.expand_dims(a, axis), x.unsqueeze(axis)
        want = (a.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // base.itemsize
        assert x.storage_offset() == want
    assert tb.tensor([[1, 2], [3, 4]])[1].clone().storage_offset() == 0
