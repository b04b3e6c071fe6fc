"""Shapes, joining, splitting, repeating: against NumPy, eager, recorded and batched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import trilobite as tb

Array = np.ndarray[Any, Any]
X = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4) - 5


def same(got: tb.Tensor, want: Any) -> None:
    want = np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_array_equal(got.detach().numpy(), want)


def everywhere(fn: Callable[..., Any], reference: Callable[..., Any], *operands: Array) -> None:
    """Eager, under jit, and (where the batch may stand in front of everything) under vmap."""
    want = reference(*operands)
    tensors = [tb.tensor(a) for a in operands]
    wants = want if isinstance(want, (tuple, list)) else [want]
    for f in (fn, tb.jit(fn)):
        got = f(*tensors)
        gots = got if isinstance(got, (tuple, list)) else [got]
        assert len(gots) == len(wants)
        for g, w in zip(gots, wants, strict=True):
            same(g, w)
    batch = [tb.tensor(np.stack([a, a * 2])) for a in operands]
    got = tb.vmap(fn)(*batch)
    gots = got if isinstance(got, (tuple, list)) else [got]
    doubled = reference(*(a * 2 for a in operands))
    doubles = doubled if isinstance(doubled, (tuple, list)) else [doubled]
    for g, w, v in zip(gots, wants, doubles, strict=True):
        same(g, np.stack([w, v]))


CASES: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
    ("reshape", lambda x: tb.reshape(x, (4, 6)), lambda x: x.reshape(4, 6)),
    ("reshape -1", lambda x: tb.reshape(x, (3, -1)), lambda x: x.reshape(3, -1)),
    ("permute_dims", lambda x: tb.permute_dims(x, (2, 0, -2)), lambda x: x.transpose(2, 0, 1)),
    ("moveaxis", lambda x: tb.moveaxis(x, (0, -1), (-1, 0)), lambda x: np.moveaxis(x, (0, -1), (-1, 0))),
    ("swapaxes", lambda x: tb.swapaxes(x, 0, -1), lambda x: np.swapaxes(x, 0, -1)),
    ("matrix_transpose", lambda x: tb.matrix_transpose(x), lambda x: np.swapaxes(x, -1, -2)),
    ("flip", lambda x: tb.flip(x), np.flip),
    ("flip axes", lambda x: tb.flip(x, axis=(0, -1)), lambda x: np.flip(x, (0, -1))),
    ("expand_dims", lambda x: tb.expand_dims(x, axis=1), lambda x: np.expand_dims(x, 1)),
    ("expand_dims axes", lambda x: tb.expand_dims(x, axis=(0, -1)), lambda x: np.expand_dims(x, (0, -1))),
    ("squeeze", lambda x: tb.squeeze(x[:1, :, :1], axis=(0, 2)), lambda x: x[0, :, 0]),
    ("squeeze all", lambda x: tb.squeeze(x[:1, :, :1]), lambda x: x[0, :, 0]),
    ("flatten", lambda x: tb.flatten(x, 1), lambda x: x.reshape(2, 12)),
    ("ravel", tb.ravel, np.ravel),
    ("unflatten", lambda x: tb.unflatten(x, -1, (2, -1)), lambda x: x.reshape(2, 3, 2, 2)),
    ("roll", lambda x: tb.roll(x, 5), lambda x: np.roll(x, 5)),
    ("roll axis", lambda x: tb.roll(x, -1, axis=1), lambda x: np.roll(x, -1, 1)),
    ("roll axes", lambda x: tb.roll(x, (1, 2), axis=(0, 2)), lambda x: np.roll(x, (1, 2), (0, 2))),
    ("repeat", lambda x: tb.repeat(x, 3, axis=1), lambda x: np.repeat(x, 3, 1)),
    ("repeat flat", lambda x: tb.repeat(x, 2), lambda x: np.repeat(x, 2)),
    (
        "repeat each",
        lambda x: tb.repeat(x, tb.asarray([2, 0, 1]), axis=1),
        lambda x: np.repeat(x, [2, 0, 1], 1),
    ),
    ("tile", lambda x: tb.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
    ("tile short", lambda x: tb.tile(x, (2,)), lambda x: np.tile(x, (2,))),
    ("tile long", lambda x: tb.tile(x, (2, 1, 1, 2)), lambda x: np.tile(x, (2, 1, 1, 2))),
    ("rot90", lambda x: tb.rot90(x, 1, (1, 2)), lambda x: np.rot90(x, 1, (1, 2))),
    ("rot270", lambda x: tb.rot90(x, 3, (0, 2)), lambda x: np.rot90(x, 3, (0, 2))),
    ("rot180", lambda x: tb.rot90(x, 2), lambda x: np.rot90(x, 2)),
    ("unstack", lambda x: tb.unstack(x, axis=1), lambda x: [x[:, i] for i in range(3)]),
    ("split", lambda x: tb.split(x, 3, axis=2), lambda x: [x[..., :3], x[..., 3:]]),
    ("split sizes", lambda x: tb.split(x, [1, 0, 2], axis=1), lambda x: [x[:, :1], x[:, 1:1], x[:, 1:]]),
    ("chunk", lambda x: tb.chunk(x, 3, axis=2), lambda x: [x[..., :2], x[..., 2:]]),
    ("tensor_split", lambda x: tb.tensor_split(x, 3, axis=2), lambda x: np.array_split(x, 3, 2)),
    ("tensor_split at", lambda x: tb.tensor_split(x, (1, 2), axis=1), lambda x: np.split(x, (1, 2), 1)),
    ("broadcast_to", lambda x: tb.broadcast_to(x, (5, 2, 3, 4)), lambda x: np.broadcast_to(x, (5, 2, 3, 4))),
    (
        "pad",
        lambda x: tb.pad(x, ((1, 0), (0, 2), (-1, 1)), value=9),
        lambda x: np.pad(x[..., 1:], ((1, 0), (0, 2), (0, 1)), constant_values=9),
    ),
    ("diff", lambda x: tb.diff(x, n=2, axis=1), lambda x: np.diff(x, 2, 1)),
]


@pytest.mark.parametrize(("fn", "reference"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_against_numpy(fn: Callable[..., Any], reference: Callable[..., Any]) -> None:
    everywhere(fn, reference, X)


@given(st.data(), npst.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
def test_joining(data: st.DataObject, shape: tuple[int, ...]) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    for i in range(data.draw(st.integers(1, 4))):
        own = list(shape)
        own[axis] = data.draw(st.integers(0, 3))
        parts.append(np.arange(int(np.prod(own))).reshape(own) * 10 + i)
    same(tb.concat([tb.tensor(p) for p in parts], axis=axis), np.concatenate(parts, axis))
    same(tb.concat([tb.tensor(p) for p in parts], axis=None), np.concatenate(parts, None))
    place = data.draw(st.integers(-len(shape) - 1, len(shape)))
    rows = [np.full(shape, i) for i in range(3)]
    same(tb.stack([tb.tensor(r) for r in rows], axis=place), np.stack(rows, place))
    got = tb.unstack(tb.stack([tb.tensor(r) for r in rows], axis=place), axis=place)
    for g, w in zip(got, rows, strict=True):
        same(g, w)


def test_joining_promotes() -> None:
    x, y = tb.ones(2, dtype=tb.int8), tb.ones(2, dtype=tb.int32)
    assert tb.concat([x, y]).dtype == tb.stack((x, y)).dtype == tb.int32
    assert tb.cat is tb.concat and tb.concatenate is tb.concat


def test_hstack_and_vstack() -> None:
    v, m = np.arange(3), np.arange(6).reshape(2, 3)
    for fn, reference in ((tb.hstack, np.hstack), (tb.vstack, np.vstack)):
        same(fn([tb.tensor(v), tb.tensor(v)]), reference([v, v]))
        same(fn([tb.tensor(m), tb.tensor(m)]), reference([m, m]))


def test_broadcast_arrays_and_shapes() -> None:
    a, b = np.arange(3), np.arange(2).reshape(2, 1)
    got = tb.broadcast_arrays(tb.tensor(a), tb.tensor(b))
    assert isinstance(got, tuple)
    for g, w in zip(got, np.broadcast_arrays(a, b), strict=True):
        same(g, w)
    assert tb.broadcast_shapes((2, 1), (3,), (1, 1, 1)) == (1, 2, 3) and tb.broadcast_shapes() == ()


def test_views_share_and_copies_do_not() -> None:
    x = tb.tensor(X)
    for view in (
        tb.reshape(x, (24,)),
        x.T if x.ndim == 2 else x.mT,
        tb.flip(x),
        x.unsqueeze(0),
        *tb.split(x, 2, axis=1),
    ):
        assert view.size == 0 or view.reshape(-1)[0].item() in X
    flat = tb.reshape(x, (-1,))
    flat[0] = 100
    assert x[0, 0, 0].item() == 100
    copy = tb.reshape(x, (-1,), copy=True)
    copy[0] = -1
    assert x[0, 0, 0].item() == 100
    row = tb.unstack(x, axis=1)[2]
    row[...] = 0
    assert tb.sum(tb.abs(x[:, 2])).item() == 0
    tb.chunk(x, 2)[1][...] = 7
    assert x[1].tolist() == [[7] * 4] * 3
    tb.expand_dims(x, axis=0)[0, 0, 0, 1] = 55
    assert x[0, 0, 1].item() == 55


def test_a_broadcast_view_cannot_be_written_to() -> None:
    x = tb.ones((1, 3))
    with pytest.raises(tb.errors.StateError, match="several elements of the view are one element"):
        tb.broadcast_to(x, (2, 3))[0, 0] = 5
    y = tb.broadcast_to(x, (1, 3))
    y[0, 0] = 5  # nothing is repeated: an ordinary view
    assert x[0, 0].item() == 5


def test_methods_as_in_pytorch() -> None:
    x = tb.tensor(X)
    same(x.view(6, 4), X.reshape(6, 4))
    same(x.reshape((4, -1)), X.reshape(4, -1))
    same(x.permute(2, 0, 1), X.transpose(2, 0, 1))
    same(x.transpose(0, 2), X.swapaxes(0, 2))
    same(x.transpose(), X.T)
    same(x.transpose(1, 2, 0), X.transpose(1, 2, 0))
    same(x.unsqueeze(1).squeeze(1), X)
    same(x[:1].squeeze(), X[0])
    same(x.flatten(), X.reshape(-1))
    same(x.flatten(0, 1), X.reshape(6, 4))
    same(x[:, :1].expand(-1, 3, -1), np.broadcast_to(X[:, :1], X.shape))
    same(x[0, :1].expand(2, 3, 4), np.broadcast_to(X[0, :1], X.shape))
    same(x[:, :1].expand_as(x), np.broadcast_to(X[:, :1], X.shape))
    same(x.narrow(2, 1, 2), X[:, :, 1:3])
    same(x.reshape_as(tb.ones(24)), X.reshape(-1))
    same(x[0].T, X[0].T)
    same(x.mT, X.swapaxes(-1, -2))
    same(x.swapaxes(0, 1), X.swapaxes(0, 1))
    assert [p.shape for p in x.unbind(dim=1)] == [(2, 4)] * 3
    assert x.mT.is_contiguous() is False and x.mT.contiguous().is_contiguous() is True
    assert x.contiguous() is x


def test_repeat_with_counts_that_only_a_run_knows() -> None:
    counts = np.array([2, 0, 3])
    f = tb.jit(lambda x, n: tb.repeat(x, n, size=6))
    got = f(tb.tensor([10.0, 20.0, 30.0]), tb.asarray(counts))
    assert got.tolist() == [10, 10, 30, 30, 30, 30]
    with pytest.raises(tb.errors.TraceError, match=r"repeat inside jit(.|\n)*repeat\(..., size=n\)"):
        tb.jit(lambda x, n: tb.repeat(x, n))(tb.ones(3), tb.asarray(counts))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_small_and_empty(shape: tuple[int, ...]) -> None:
    a = np.ones(shape, np.float32)
    x = tb.tensor(a)
    same(tb.flip(x), np.flip(a))
    same(tb.reshape(x, (-1,)), a.reshape(-1))
    same(tb.tile(x, (2,)), np.tile(a, (2,)))
    same(tb.roll(x, 1), np.roll(a, 1))
    same(tb.repeat(x, 2), np.repeat(a, 2))
    same(tb.permute_dims(x, tuple(range(a.ndim))), a)


def test_diff_with_ends() -> None:
    a = np.array([[1.0, 4.0, 9.0]], np.float32)
    same(
        tb.diff(tb.tensor(a), prepend=tb.asarray([[0.0]]), append=tb.asarray([[5.0]])),
        np.diff(np.float32([[0, 1, 4, 9, 5]])),
    )
    same(tb.diff(tb.tensor(a), prepend=0.0), np.diff(np.float32([[0, 1, 4, 9]])))
    same(tb.diff(tb.tensor(a), n=0), a)
    same(tb.diff(tb.tensor(a), n=5), np.diff(a, n=5))
    same(tb.diff(tb.asarray([True, True, False])), np.array([False, True]))


def test_the_axis_may_stand_by_its_place_as_in_pytorch() -> None:
    x = np.random.default_rng(5).standard_normal((3, 4))
    t = tb.tensor(x)
    same(tb.cat([t, t], 1), np.concatenate([x, x], 1))
    same(tb.stack([t, t], -1), np.stack([x, x], -1))
    same(tb.roll(t, 1, 0), np.roll(x, 1, 0))
    same(tb.flip(t, (1,)), np.flip(x, 1))
    same(t.unbind(1)[2], x[:, 2])
    same(t.sort(0, True), -np.sort(-x, 0))
    same(t.argsort(0), np.argsort(x, 0))
