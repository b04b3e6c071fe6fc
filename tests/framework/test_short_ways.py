"""Small products and sums of plain arrays go a shorter way: to the same bits, and only where nobody looks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ShapeError, TrilobiteError
from trilobite.framework.random import quick
from trilobite.framework.replay.plans import OFTEN
from trilobite.framework.tensor import wrap
from trilobite.ir.primitives import table

RNG = np.random.default_rng(23)


def normal(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.asarray(RNG.standard_normal(shape) * 10.0 ** RNG.integers(-3, 4, shape), dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.complex64])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 1, 1), (3, 5, 7), (4, 0, 2), (0, 3, 2), (20, 20, 20), (21, 20, 20)]
)
def test_products_have_the_bits_of_dot(m: int, k: int, n: int, dtype: type) -> None:
    x, y = normal(m, k, dtype=dtype), normal(n, k, dtype=dtype).T  # the second is not contiguous
    want = table["dot"].evaluate(x, y, contract=((1,), (0,)), batch=((), ()), dtype=x.dtype)
    out = wrap(x) @ wrap(y)
    assert out.dtype == want.dtype and out.numpy().tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64, np.int8])
@pytest.mark.parametrize("shape", [(), (0,), (8,), (129,), (7, 5), (2, 3, 40)])
def test_sums_have_the_bits_of_reduce_sum(shape: tuple[int, ...], dtype: type) -> None:
    x = normal(*shape, dtype=dtype)
    for value in (x, x.T):
        wide = value.astype(np.int64) if dtype is np.int8 else value
        want = table["reduce_sum"].evaluate(wide, axes=tuple(range(x.ndim)))
        out = wrap(value).sum()
        assert out.dtype == want.dtype and out.numpy().tobytes() == want.tobytes()


def test_a_sum_of_one_number_has_memory_of_its_own() -> None:
    x = tb.tensor(np.float32(3))
    total = x.sum()
    total += 1
    assert x.item() == 3


def test_autocast_and_recordings_are_not_passed_by() -> None:
    x = tb.tensor(normal(4, 4))
    with tb.autocast(tb.bfloat16):
        assert (x @ x).dtype == tb.bfloat16
        assert x.astype(tb.float16).sum().dtype == tb.float32
    constant = tb.tensor(np.ones((2, 2), np.float32))
    graph = tb.make_graph(lambda y: (constant @ constant).sum() + y)(tb.tensor(np.float32(1)))
    assert {"dot", "reduce_sum"} <= {e.primitive.name for e in graph.equations}


def test_products_that_do_not_fit_are_refused_as_ever() -> None:
    with pytest.raises(ShapeError, match=r"matmul of shapes \(2, 3\) and \(2, 3\)"):
        tb.zeros((2, 3)) @ tb.zeros((2, 3))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
@pytest.mark.parametrize("shape", [(), (0, 3), (9,), (4, 5)])
def test_relu_has_the_bits_of_its_rule(shape: tuple[int, ...], dtype: type) -> None:
    x = normal(*shape, dtype=dtype)
    if dtype is not np.int32 and x.size > 4:
        x.flat[:4] = np.nan, -0.0, np.inf, -np.inf
    zero = np.zeros(x.shape, dtype)
    want = table["select"].evaluate(table["le"].evaluate(x, zero), zero, x)
    with np.errstate(all="raise"):
        for value in (x, x.T.copy().T):
            for out in (tb.relu(wrap(value)), tb.nn.functional.relu(wrap(value))):
                assert out.dtype == want.dtype and out.numpy().tobytes() == want.tobytes()
                assert not np.may_share_memory(out.numpy(), value)


def test_products_of_vectors_have_the_bits_of_dot_and_warn_of_nothing() -> None:
    for dtype in (np.float32, np.float64):
        x, y = normal(30, dtype=dtype)[::2], normal(15, dtype=dtype)
        want = table["dot"].evaluate(x, y, contract=((0,), (0,)), batch=((), ()), dtype=x.dtype)
        assert (wrap(x) @ wrap(y)).numpy().tobytes() == want.tobytes()
        huge = np.full(4, np.finfo(dtype).max, dtype)
        with np.errstate(all="raise"):
            assert np.isinf((wrap(huge) @ wrap(huge)).item())


DRAWN = {
    "negative": (3, -1), "both negative": (-2, -3), "half": (2, 1.5), "text": (2, "3"), "a truth": (2, True),
    "a number of NumPy": (2, np.int64(3)), "nothing in it": (3, 0), "nothing first": (0, 4), "scalar": (),
    "a tensor": (2, tb.tensor(3)),
}  # fmt: skip


@pytest.mark.parametrize("draw", [tb.random.uniform, tb.random.normal, tb.rand, tb.randn])
@pytest.mark.parametrize("kind", DRAWN)
def test_shapes_that_are_asked_for_often_are_answered_as_the_first_time(draw: Any, kind: str) -> None:
    """Draws that come again are made by a plan; odd shapes are refused or made as without one, every time."""

    def once(seed: int) -> tuple[Any, ...]:
        tb.manual_seed(seed)
        try:
            out = draw(DRAWN[kind])
        except TrilobiteError as error:
            return type(error), str(error)
        return out.shape, str(out.dtype), out.numpy().tobytes()

    quick._counts.clear()
    quick._plans.clear()
    first = [once(seed) for seed in range(4)]
    for _ in range(2 * OFTEN):
        once(0)
    assert [once(seed) for seed in range(4)] == first
    planned = {shape for _, shape, _ in quick._plans}
    assert all(type(d) is int and d > 0 for shape in planned for d in shape)
