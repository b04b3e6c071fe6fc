"""Settings that few programs give, each beside what it means: copies, missing slopes, bounds, keys, ranks."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError
from trilobite.base.forks import renewed_in_child

RNG = np.random.default_rng(4)


# -- data of others ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [tb.Tensor, tb.FloatTensor, tb.tensor, tb.as_tensor, tb.from_numpy])
def test_who_keeps_the_memory_of_an_array(make: Any) -> None:
    source = np.arange(4, dtype=np.float32)
    made = make(source)
    source[0] = 9.0
    shares = make in (tb.as_tensor, tb.from_numpy)
    assert made.tolist() == [9.0 if shares else 0.0, 1.0, 2.0, 3.0]


def test_functions_of_numpy_take_tensors_in_lists_and_tuples() -> None:
    a, b = tb.tensor([1.0, 2.0]), tb.tensor([3.0, 4.0])
    for parts in ([a, b], (a, b)):
        np.testing.assert_array_equal(np.concatenate(parts), [1.0, 2.0, 3.0, 4.0])
        np.testing.assert_array_equal(np.stack(parts, axis=1), [[1.0, 3.0], [2.0, 4.0]])
    np.testing.assert_array_equal(np.pad(a, (1, 1), constant_values=7.0), [7.0, 1.0, 2.0, 7.0])
    np.testing.assert_array_equal(np.where(a > 1.5, a, b), [3.0, 2.0])


# -- slopes --------------------------------------------------------------------------------------------------


def test_an_operand_without_a_slope_has_no_gradient_and_nor_has_what_made_it() -> None:
    class First(tb.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a * b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3.0, None

    x, y = tb.tensor([2.0], requires_grad=True), tb.tensor([5.0], requires_grad=True)
    First.apply(x * 2.0, y * y).backward()
    assert x.grad is not None and x.grad.tolist() == [6.0] and y.grad is None
    assert tb.autograd.grad(First.apply(x * 1.0, y * y), [x, y], allow_unused=True)[1] is None


LIMITS = [0.5, np.nan, "tensor", "array", "tensor with NaN"]


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("side", ["min", "max"])
@pytest.mark.parametrize("compiled", [False, True])
def test_clipped_values_and_their_slopes(limit: Any, side: str, compiled: bool) -> None:
    """What is beyond a bound has its value and no slope; a bound that is no number gives none."""
    x = np.asarray([-1.0, 0.5, 2.0, np.nan])
    bound = np.asarray(
        [0.5, 0.5, 3.0, 0.0] if limit == "tensor" else [0.0, np.nan, 1.0, 2.0] if limit == "tensor with NaN"
        else [0.25, -1.0, 2.5, 1.0] if limit == "array" else [limit] * 4
    )  # fmt: skip
    given = bound if limit == "array" else tb.tensor(bound) if isinstance(limit, str) else limit

    def clipped(v: Any) -> Any:
        return tb.clip(v, **{side: given})

    call = tb.jit(clipped) if compiled else clipped
    want = (np.maximum if side == "min" else np.minimum)(x, bound)
    np.testing.assert_array_equal(call(tb.tensor(x)).numpy(), want)
    slope = tb.grad(lambda v: call(v).sum())(tb.tensor(x))
    beyond = (x < bound) if side == "min" else (x > bound)
    np.testing.assert_array_equal(slope.numpy(), np.where(beyond | np.isnan(bound), 0.0, 1.0))


def test_a_view_shows_what_was_written_later() -> None:
    """Views that share memory with their base, copies of it, and views of views."""
    base = tb.arange(12.0).reshape(3, 4).clone()
    views = {
        "row": (base[1], lambda a: a[1]),
        "turned": (base.T, lambda a: a.T),
        "a part of a part": (base[1:][:, 2], lambda a: a[1:][:, 2]),
        "flat of turned": (base.T.reshape(-1), lambda a: None),
    }
    for step in range(3):
        now = base.numpy().copy()
        for name, (view, meaning) in views.items():
            if meaning(now) is not None:
                np.testing.assert_array_equal(view.numpy(), meaning(now), err_msg=f"{name} {step}")
        base[1, step] = 100.0 + step
        base.mul_(2.0)


def test_hooks_of_a_view_of_a_view_are_called_once_each() -> None:
    x = tb.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x * 2.0
    row = y[1]
    calls: list[str] = []
    row.register_hook(lambda g: calls.append("row"))
    cell = row[0]
    cell.register_hook(lambda g: calls.append("cell"))
    (cell * 3.0).backward()
    assert calls == ["cell", "row"] and x.grad is not None
    assert x.grad.tolist() == [[0.0, 0.0], [6.0, 0.0]]


# -- guards of draws, ranks, assertions ----------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high", "std"), [(1.0, 1.0, 1.0), (2.0, 1.0, 1.0), (0.0, 1.0, 0.0)])
def test_a_truncated_normal_needs_room(low: float, high: float, std: float) -> None:
    with pytest.raises(ArgumentError, match="truncated_normal between"):
        tb.random.truncated_normal((3,), 0.0, std, low, high)
    with pytest.raises(ArgumentError, match="truncated_normal between"):
        tb.random.truncated_normal((3,), 0.0, -1.0)


@pytest.mark.parametrize("shape", [(9, 5), (5, 9), (2, 6, 4)])
def test_singular_values_of_low_rank(shape: tuple[int, ...]) -> None:
    left, right = RNG.standard_normal((*shape[:-1], 3)), RNG.standard_normal((*shape[:-2], 3, shape[-1]))
    x = left @ right + 1e-3 * RNG.standard_normal(shape)
    q = min(shape[-2:])
    for make, centred in ((tb.svd_lowrank, x), (tb.pca_lowrank, x - x.mean(-2, keepdims=True))):
        u, s, v = make(tb.tensor(x), q=q)
        np.testing.assert_allclose(((u * s[..., None, :]) @ v.mT).numpy(), centred, atol=1e-9)
        np.testing.assert_allclose(s.numpy(), np.linalg.svd(centred, compute_uv=False), atol=1e-9)
    assert tb.pca_lowrank(tb.tensor(x), q=q, center=False)[1].shape == s.shape
    shift = tb.tensor(RNG.standard_normal(shape))
    s = tb.svd_lowrank(tb.tensor(x), q=q, M=shift)[1]
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(x - shift.numpy(), compute_uv=False), atol=1e-9)


def test_low_ranks_take_six_columns_and_two_rounds_unless_told() -> None:
    x = tb.tensor(RNG.standard_normal((12, 9)))

    def drawn(call: Any, **settings: Any) -> Any:
        tb.manual_seed(3)
        return call(x, **settings)[1].numpy()

    for call in (tb.svd_lowrank, tb.pca_lowrank):
        assert drawn(call).shape == (6,)
        np.testing.assert_array_equal(drawn(call), drawn(call, q=6, niter=2))
        assert (drawn(call, niter=1) != drawn(call, niter=2)).any()
    np.testing.assert_array_equal(drawn(tb.svd_lowrank, q=None, niter=None), drawn(tb.svd_lowrank))
    with pytest.raises(ArgumentError, match="0 <= q <= 9"):
        tb.pca_lowrank(x, q=10)


def test_keys_that_were_split_are_a_batch_and_a_tree() -> None:
    keys = tb.random.split(tb.random.key(5), 3)

    def draw(k: Any) -> Any:
        return tb.random.uniform((2,), key=k)

    each = np.stack([draw(k).numpy() for k in keys])
    np.testing.assert_array_equal(tb.vmap(draw)(keys).numpy(), each)
    again = tb.utils._pytree.tree_map(lambda v: v, keys)
    assert type(again) is type(keys) and len(again) == 3
    for a, b in zip(again, keys, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    np.testing.assert_array_equal(tb.jit(lambda ks: draw(ks[2]))(keys).numpy(), each[2])


def test_an_assertion_of_tracers() -> None:
    tb._assert(True, "all is well")
    tb._assert(tb.tensor([1.0]).sum() > 0, "all is well")
    with pytest.raises(AssertionError, match="too small"):
        tb._assert(tb.tensor(1.0) > 2, "too small")
    tb.jit(lambda x: (tb._assert(x.sum() > 9, "known by a run"), x)[1])(tb.tensor([1.0]))


# -- forks ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.parametrize("kind", [threading.Lock, threading.RLock])
@pytest.mark.parametrize("watched", [True, False])
def test_a_lock_that_another_thread_holds_is_free_in_a_child(kind: Any, watched: bool) -> None:
    lock = renewed_in_child(kind()) if watched else kind()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    held.wait(60)
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(timeout=0.2) else 7)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    done.set()
    other.join()
    assert status == (0 if watched else 7)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_lock_of_the_forking_thread_stays_held() -> None:
    lock = renewed_in_child(threading.RLock())
    with lock:
        child = os.fork()
        if child == 0:
            other = threading.Thread(target=lambda: os._exit(9 if lock.acquire(timeout=0.2) else 0))
            other.start()
            other.join()
            os._exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
