"""Small parts of the framework, both sides of each of their conditions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base import blas
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.records import dataclass
from trilobite.framework.replay import calls as replay

RNG = np.random.default_rng(8)


# -- writes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key", [1, slice(0, 2), [0, 2], (slice(None), 1), (0, [1, 2]), np.asarray([True, False, True])]
)
@pytest.mark.parametrize("kind", ["plain", "view", "leaf", "read only"])
def test_writes_reach_the_tensor_and_nobody_elses_memory(key: Any, kind: str) -> None:
    start = RNG.standard_normal((3, 4)).astype(np.float32)
    wanted = start.copy()
    wanted[key] = 7.0
    source = start.copy()
    x: Any
    if kind == "read only":
        source.flags.writeable = False
        x = tb.from_numpy(source)
    elif kind == "view":
        whole = tb.tensor(np.stack([source, source]))
        x = whole[1]
    else:
        x = tb.tensor(source, requires_grad=kind == "leaf")
    at = tb.tensor(key) if isinstance(key, np.ndarray) else key
    if kind == "leaf":
        with tb.no_grad():
            x[at] = 7.0
        assert x.requires_grad
    else:
        x[at] = tb.tensor(7.0)
    np.testing.assert_array_equal(x.detach().numpy(), wanted)
    if kind == "view":
        np.testing.assert_array_equal(whole.numpy(), np.stack([start, wanted]))
    if kind == "read only":
        np.testing.assert_array_equal(source, start)


def test_a_write_of_its_own_part_reads_first() -> None:
    x = tb.arange(6.0)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_gradients_add_up_in_every_dtype(dtype: str) -> None:
    x = tb.tensor([1.5, -2.0, 0.25]).to(dtype).requires_grad_(True)
    for times in range(1, 4):
        (x * 3).sum().real.backward() if dtype == "complex64" else (x * 3).sum().backward()
        assert x.grad is not None and x.grad.dtype == x.dtype
        np.testing.assert_array_equal(x.grad.to("complex64").numpy(), np.full(3, 3.0 * times, np.complex64))


# -- functions with a way back of their own ------------------------------------------------------------------


def test_results_without_a_gradient_are_those_that_were_marked() -> None:
    class Both(tb.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            whole, top = x * 2, x.argmax()
            ctx.mark_non_differentiable(top)
            return whole, top

        @staticmethod
        def backward(ctx: Any, grad: Any, _: Any) -> Any:
            return grad * 2

    x = tb.tensor([1.0, 5.0, 2.0], requires_grad=True)
    whole, top = Both.apply(x)
    assert whole.requires_grad and not top.requires_grad and int(top) == 1
    whole.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2, 2, 2]


# -- graphs that are replayed --------------------------------------------------------------------------------


def test_a_graph_is_replayed_only_if_every_equation_can_be() -> None:
    plain = tb.make_graph(lambda x: tb.tanh(x) + 1)(tb.zeros(3))
    assert replay.fits(plain) and replay.is_fresh(plain)

    def looped(x: Any) -> Any:
        return tb.scan(lambda c, v: (c + v, c), x[0], x)[0] + 1

    mixed = tb.make_graph(lambda x: tb.tanh(looped(x)))(tb.zeros(3))
    assert not replay.fits(mixed)
    several = tb.make_graph(lambda x: tb.tanh(tb.linalg.qr(x)[0]) + 1)(tb.eye(3))
    assert replay.fits(several)
    assert not replay.is_fresh(tb.make_graph(lambda x: x.reshape(3, 1))(tb.zeros(3)))
    assert not replay.is_fresh(tb.make_graph(lambda x: (x + 1, x + 2))(tb.zeros(3)))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17])
@pytest.mark.parametrize("reverse", [False, True])
def test_prefixes_of_every_length(n: int, reverse: bool) -> None:
    """Products of 2 by 2 matrices do not commute: each place takes those before it, in order."""
    start = RNG.standard_normal((n, 2, 2)) * 0.7
    source = start[::-1] if reverse else start
    wanted, product = [], np.eye(2)
    for m in source:
        product = product @ m
        wanted.append(product)
    x = tb.tensor(start, requires_grad=True)
    found = tb.associative_scan(lambda a, b: a @ b, x, reverse=reverse)
    expected = np.stack(wanted)[::-1] if reverse else np.stack(wanted)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-9, atol=1e-12)
    last = tb.associative_scan(lambda a, b: a + b, tb.tensor(start), axis=1)
    np.testing.assert_allclose(last.numpy(), np.cumsum(start, axis=1), rtol=1e-12)


# -- numbers and shapes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64", "float32", "float64"])
def test_whole_numbers_of_every_dtype(dtype: str) -> None:
    tb.manual_seed(5)
    drawn = tb.randint(3, 9, (2000,), dtype=getattr(tb, dtype))
    assert drawn.dtype == getattr(tb, dtype) and set(drawn.tolist()) == set(range(3, 9))
    if dtype == "uint64":
        high = tb.randint(2**63, 2**63 + 4, (100,), dtype=tb.uint64)
        assert set(map(int, high.numpy())) == {2**63 + n for n in range(4)}


@pytest.mark.parametrize("axis", [-1, -2, -3, 0, 1, 2])
def test_dots_along_every_axis(axis: int) -> None:
    a, b = RNG.standard_normal((2, 2, 3, 4))
    found = tb.linalg.vecdot(tb.tensor(a), tb.tensor(b), axis=axis)
    np.testing.assert_allclose(found.numpy(), (a * b).sum(axis), rtol=1e-12)
    for wrong in (3, -4):
        with pytest.raises(Exception, match="vecdot"):
            tb.linalg.vecdot(tb.tensor(a), tb.tensor(b), axis=wrong)


@pytest.mark.parametrize("order", [2, -2])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 3)])
def test_norms_of_no_singular_values_are_refused(order: int, shape: tuple[int, ...]) -> None:
    with pytest.raises(Exception, match=r"linalg\.matrix_norm"):
        tb.linalg.matrix_norm(tb.zeros(shape), ord=order)
    assert tb.linalg.matrix_norm(tb.zeros(shape), ord="nuc").numpy().sum() == 0


@pytest.mark.parametrize(
    ("size", "right"),
    [(3, True), ((3, 2), True), ((None, 2), True), ((0, 2), True), ((3,), False), ((3, 2, 1), False),
     (-1, False),
     ((2, -1), False), (1.5, False), ((2, 1.5), False), ("2", False)],
)  # fmt: skip
def test_sizes_of_adaptive_pools(size: Any, right: bool) -> None:
    x = tb.ones((1, 2, 6, 4))
    if right:
        wanted = (size, size) if isinstance(size, int) else tuple(n or 6 if n is None else n for n in size)
        assert tuple(tb.nn.functional.adaptive_avg_pool2d(x, size).shape) == (1, 2, *wanted)
    else:
        with pytest.raises((ArgumentError, ShapeError), match="a size, or 2 of them"):
            tb.nn.functional.adaptive_avg_pool2d(x, size)


# -- the base ------------------------------------------------------------------------------------------------


def test_blas_is_found_among_what_is_mapped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where NumPy has no libraries beside it."""
    maps = tmp_path / "maps"
    maps.write_text(
        "7f00-7f10 r-xp 0 08:01 1 /usr/lib/libopenblas.so.0\n"
        "7f10-7f20 r--p 0 08:01 1 /usr/lib/libopenblas.so.0\n"
        "7f20-7f30 r-xp 0 08:01 2 /usr/lib/libm.so.6\n"
        "7f30-7f40 rw-p 0 00:00 0 [openblas]\n"
        "7f40-7f50 r-xp 0 08:01 3 /opt/a/libscipy_openblas64_.so\n"
    )
    plain, exists = open, os.path.exists
    monkeypatch.setattr(blas.os.path, "isdir", lambda path: False)
    monkeypatch.setattr(
        "builtins.open", lambda path, *a, **k: plain(maps if "maps" in str(path) else path, *a, **k)
    )
    assert blas._libraries() == ["/opt/a/libscipy_openblas64_.so", "/usr/lib/libopenblas.so.0"]
    monkeypatch.setattr(blas.os.path, "exists", lambda path: "maps" not in str(path) and exists(path))
    assert blas._libraries() == []


def test_blas_beside_numpy_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    beside = tmp_path / "numpy.libs"
    beside.mkdir()
    (beside / "libscipy_openblas64_-1.so").touch()
    (beside / "libgfortran.so").touch()
    monkeypatch.setattr(blas.np, "__file__", str(tmp_path / "numpy" / "__init__.py"))
    assert blas._libraries() == [str(beside / "libscipy_openblas64_-1.so")]


def test_one_thread_while_a_call_runs_and_the_number_before_it_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = [4]
    monkeypatch.setattr(blas, "controls", (lambda: told[-1], told.append))
    inner = blas.one_thread(lambda: told[-1])
    outer = blas.one_thread(lambda: (told[-1], inner(), told[-1]))
    assert outer() == (1, 1, 1) and told == [4, 1, 4]

    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        blas.one_thread(fails)()
    assert told[-1] == 4
    single = [1]
    monkeypatch.setattr(blas, "controls", (lambda: single[-1], single.append))
    assert blas.one_thread(lambda: 5)() == 5 and single == [1]
    monkeypatch.setattr(blas, "controls", None)
    plain = lambda: 3  # noqa: E731
    assert blas.one_thread(plain) is plain


def test_records_that_are_not_compared_are_equal_to_themselves_alone() -> None:
    @dataclass(frozen=True, eq=False)
    class Whole:
        values: Any

    @dataclass(eq=False)
    class Loose:
        values: Any = 3

    one, other = Whole(np.ones(2)), Whole(np.ones(2))
    assert one == one and one != other and len({one, other}) == 2
    assert Loose() != Loose() and hash(Loose()) is not None
    assert Whole.__eq__ is object.__eq__ and Loose.__eq__ is object.__eq__
