"""Tensors without dimensions along axis 0 or -1, and words by place, as PyTorch takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ShapeError

ZERO = tb.tensor(0)
SAME: dict[str, Callable[[Any, int], Any]] = {
    "cumsum": lambda x, a: tb.cumsum(x, a),
    "x.cumsum": lambda x, a: x.cumsum(dim=a),
    "cumprod": lambda x, a: x.cumprod(a),
    "cummax": lambda x, a: x.cummax(a)[0],
    "cummin": lambda x, a: tb.cummin(x, dim=a)[0],
    "logcumsumexp": lambda x, a: tb.logcumsumexp(x, a),
    "flip": lambda x, a: tb.flip(x, (a,)),
    "x.flip": lambda x, a: x.flip(a),
    "gather": lambda x, a: tb.gather(x, a, ZERO),
    "index_select": lambda x, a: tb.index_select(x, a, tb.tensor([0])),
    "squeeze": lambda x, a: tb.squeeze(x, a),
    "transpose": lambda x, a: x.transpose(a, a),
    "movedim": lambda x, a: tb.movedim(x, a, a),
    "sort": lambda x, a: x.sort(a)[0],
}
WRITTEN: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "scatter": (lambda x, v: tb.scatter(x, 0, ZERO, v), 2.0),
    "scatter_add": (lambda x, v: x.scatter_add(-1, ZERO, v), 2.5),
    "scatter_reduce": (lambda x, v: x.scatter_reduce(0, ZERO, v, "prod"), 1.0),
    "index_add": (lambda x, v: tb.index_add(x, 0, tb.tensor([0]), v), 2.5),
    "index_copy": (lambda x, v: tb.index_copy(x, 0, tb.tensor([0]), v), 2.0),
    "index_fill": (lambda x, v: tb.index_fill(x, 0, tb.tensor([0]), 2.0), 2.0),
}


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("name", SAME)
def test_a_number_is_a_line_of_one(name: str, axis: int) -> None:
    x = tb.tensor(0.5, requires_grad=True)
    out = SAME[name](x, axis)
    assert out.shape == () and out.item() == 0.5
    out.backward()
    assert x.grad is not None and x.grad.shape == () and x.grad.item() == 1.0
    assert tb.jit(lambda x: SAME[name](x, axis))(x.detach()).shape == ()


@pytest.mark.parametrize("name", WRITTEN)
def test_numbers_are_written_along_an_axis(name: str) -> None:
    call, expected = WRITTEN[name]
    out = call(tb.tensor(0.5), tb.tensor(2.0))
    assert out.shape == () and out.item() == expected


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_place_of_a_number(name: str) -> None:
    for out in (getattr(tb, name)(tb.tensor(3.0), 0), getattr(tb.tensor(3.0), name)(dim=-1, keepdim=True)):
        assert out.shape == () and out.item() == 0


@pytest.mark.parametrize("axis", [1, -2])
@pytest.mark.parametrize("name", ["cumsum", "argmax", "flip", "sort"])
def test_there_is_no_second_axis(name: str, axis: int) -> None:
    with pytest.raises(ShapeError, match=f"axis {axis}"):
        getattr(tb, name)(tb.tensor(3.0), axis)


def test_places_of_a_number() -> None:
    assert tb.argwhere(tb.tensor(3.0)).shape == (1, 0)
    assert tb.argwhere(tb.tensor(0.0)).shape == (0, 0)


def test_take_from_a_number() -> None:
    assert tb.take(tb.tensor(7), tb.tensor([0, 0])).tolist() == [7, 7]


def test_inner_of_numbers() -> None:
    assert tb.inner(tb.tensor(3.0), tb.tensor(2.0)).item() == 6.0
    assert tb.inner(tb.tensor(3.0), tb.tensor([2.0, 1.0])).tolist() == [6.0, 3.0]


def test_cross_is_along_the_first_axis_of_three() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 3, 3))
    x, y = tb.tensor(a), tb.tensor(b)
    np.testing.assert_allclose(tb.cross(x, y).numpy(), np.cross(a, b, axis=0), rtol=1e-12)
    np.testing.assert_allclose(x.cross(y, dim=1).numpy(), np.cross(a, b), rtol=1e-12)
    np.testing.assert_allclose(tb.linalg.cross(x, y).numpy(), np.cross(a, b), rtol=1e-12)
    wide = rng.standard_normal((2, 2, 3, 4))
    out = tb.cross(tb.tensor(wide[0]), tb.tensor(wide[1]))
    np.testing.assert_allclose(out.numpy(), np.cross(wide[0], wide[1], axis=1), rtol=1e-12)


def test_words_by_place() -> None:
    x = tb.tensor([[1.0, 4.0, 9.0], [2.0, 8.0, 32.0]])
    np.testing.assert_array_equal(tb.diff(x, 2).numpy(), [[2.0], [18.0]])
    np.testing.assert_array_equal(x.diff(1, 0).numpy(), [[1.0, 4.0, 23.0]])
    assert tb.nan_to_num(tb.tensor(float("nan")), 5.0).item() == 5.0
    assert tb.logit(tb.tensor(0.0), 0.25).item() == pytest.approx(np.log(1 / 3))
    square = tb.tensor([[1.0, 0.0], [0.0, 1e-3]])
    np.testing.assert_allclose(tb.pinverse(square, 0.1).numpy(), [[1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(tb.pinverse(square).numpy(), [[1.0, 0.0], [0.0, 1e3]])
    first, second = tb.unbind_copy(x)
    assert second.tolist() == [2.0, 8.0, 32.0] and first.shape == (3,)
    assert tb.pairwise_distance(tb.tensor(3.0), tb.tensor(1.0), eps=0.0).item() == 2.0
